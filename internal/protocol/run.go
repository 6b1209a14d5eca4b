package protocol

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Invoke is the body of KindInvoke.
type Invoke struct {
	Name           string
	Input          []byte
	Priority       uint8
	Delay          int64  // ms
	Timeout        int64  // of an attempt, ms; 0: the default of the action
	MaxAttempts    int64  // 0: the default of the action
	Labels         []byte // required of the worker, see engine.AppendHeaders
	ConcurrencyKey string
	IdempotencyKey string
	Repeated       bool   // IdempotencyKey is for the handler only: it is not recorded, and an earlier run may have it too
	Source         string // as Run.Source shows it; "" is "api"
	Notify         Notify // receives the End
	Awaited        bool   // the caller waits for the end: the run is kept long enough to be read
	Expires        int64  // ms after which the run fails if no worker has begun it; 0: never
}

// Takers returns the parent topic of the topics of all takes of runs in a namespace.
func Takers(namespace string) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, []byte("t"))
}

// Notify names the receiver of a run's end. Command of Machine is run with an End as its body, in
// the entry of the command that ends the run. It must not refuse, because otherwise the run could
// not end.
type Notify struct {
	Machine engine.MachineID // 0: no receiver
	Command uint8
	Token   []byte
}

// Code codes the command.
func (v *Invoke) Code(c *codec.Coder) {
	c.String(&v.Name)
	v.CodeRest(c)
}

// CodeRest codes the fields after the name. Decoded bytes alias the body, except for the token.
func (v *Invoke) CodeRest(c *codec.Coder) {
	c.Byte(&v.Priority)
	for _, n := range [...]*int64{&v.Delay, &v.Timeout, &v.MaxAttempts} {
		c.Varint(n)
	}
	c.View(&v.Labels)
	for _, s := range [...]*string{&v.ConcurrencyKey, &v.IdempotencyKey, &v.Source} {
		c.String(s)
	}
	c.Bool(&v.Repeated)
	v.Notify.Code(c)
	c.View(&v.Input)
	if c.More(v.Awaited || v.Expires != 0) {
		c.Bool(&v.Awaited)
		if c.Varint(&v.Expires); !v.Awaited && v.Expires == 0 {
			c.Fail("empty fields at the end")
		}
	}
}

// Code codes the receiver.
func (n *Notify) Code(c *codec.Coder) {
	if c.Byte((*byte)(&n.Machine)); n.Machine != 0 {
		c.Byte(&n.Command)
		c.Bytes(&n.Token)
	}
}

// Ref identifies a run within its shard.
type Ref struct {
	Action uint64
	Run    uint64
	Tag    uint16 // differs from that of another run that got the same numbers after the end of a log was lost
}

// Code codes the three numbers. The tag has two bytes so that the length of an id does not depend
// on it.
func (r *Ref) Code(c *codec.Coder) {
	c.Uvarint(&r.Action)
	c.Uvarint(&r.Run)
	high, low := byte(r.Tag>>8), byte(r.Tag)
	c.Byte(&high)
	c.Byte(&low)
	r.Tag = uint16(high)<<8 | uint16(low)
}

// InvokedRun decodes the result of KindInvoke.
func InvokedRun(result []byte) (shard uint64, ref Ref, err error) {
	c := codec.NewDecoder(result)
	c.Uvarint(&shard)
	ref.Code(&c)
	return shard, ref, c.Err()
}

// Cancel is the body of KindCancel.
type Cancel struct {
	Ref    Ref
	Reason string
}

// Code codes the command.
func (v *Cancel) Code(c *codec.Coder) {
	v.Ref.Code(c)
	c.String(&v.Reason)
}

// End is the end of a run, as the machine named by Invoke.Notify receives it.
type End struct {
	Token   []byte
	Ref     Ref
	Status  uint8 // a final action.Status, or StatusAgain
	Refused bool  // the handler has ruled out another attempt
	Attempt int64
	Outcome string
	Code    string // of the error
	Message string
	Output  []byte
	// a handler of the cancelled or timed-out run, or of its children, may still be running;
	// another End follows when it returns
	Held    bool
	Suspect bool // an earlier attempt timed out or was lost and may have had an effect; of a child: it was cut off
}

// Encode codes the end in both directions, like the Code methods.
func (v *End) Encode(c *codec.Coder) {
	c.Bytes(&v.Token)
	v.Ref.Code(c)
	c.Byte(&v.Status)
	c.Bool(&v.Refused)
	c.Varint(&v.Attempt)
	for _, s := range [...]*string{&v.Outcome, &v.Code, &v.Message} {
		c.String(s)
	}
	c.Bytes(&v.Output)
	if c.More(v.Held || v.Suspect) {
		c.Bool(&v.Held)
		if c.More(v.Suspect) {
			c.Bool(&v.Suspect)
		}
	}
}
