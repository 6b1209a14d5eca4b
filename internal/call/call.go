// Package call is how one machine has another run an action: the command that invokes a run, the one that cancels it, and what the machine is told when the
// run has ended. Package action carries them out; nothing here decides anything.
package call

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Kinds of commands of engine.MachineAction that other machines run with engine.Tx.Then, or send to other shards.
const (
	KindInvoke uint8 = 1
	KindCancel uint8 = 2
)

// Invoke is the body of the command that invokes an action.
type Invoke struct {
	Name           string
	Input          []byte
	Priority       uint8
	Delay          int64  // ms
	Timeout        int64  // ms of an attempt; 0: as the action says
	MaxAttempts    int64  // 0: as the action says
	Labels         []byte // that a worker has to have, see engine.AppendHeaders
	ConcurrencyKey string
	IdempotencyKey string
	Repeated       bool   // IdempotencyKey is for the handler alone: a run with it may have been before, and it is not remembered
	Source         string // as Run.Source shows it; "" is "api"
	Notify         Notify // who is told the end
	Awaited        bool   // the caller waits for the end: the run is kept until it can have seen it
	Expires        int64  // ms after which the run fails if nobody has begun it; 0: never
}

// Takers is the topic that the topics of all takes of runs in a namespace are within.
func Takers(namespace string) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, []byte("t"))
}

// Notify names who is told the end of a run: Command of Machine runs behind what ends it, in the same entry, with an End as its body. It must not refuse:
// then the run could not end.
type Notify struct {
	Machine engine.MachineID // 0: nobody
	Command uint8
	Token   []byte
}

// Code codes the body.
func (v *Invoke) Code(c *codec.Coder) {
	c.String(&v.Name)
	v.CodeRest(c)
}

// CodeRest codes the fields behind the name. Decoded bytes alias the body, except for the token.
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

// Code codes who is told.
func (n *Notify) Code(c *codec.Coder) {
	if c.Byte((*byte)(&n.Machine)); n.Machine != 0 {
		c.Byte(&n.Command)
		c.Bytes(&n.Token)
	}
}

// Ref is a run within its shard.
type Ref struct {
	Action uint64
	Run    uint64
	Tag    uint16 // differs from that of another run to which the numbers were given after the log has lost its end
}

// Code codes the three numbers, the tag in two bytes, so that ids made of them do not differ in length by chance.
func (r *Ref) Code(c *codec.Coder) {
	c.Uvarint(&r.Action)
	c.Uvarint(&r.Run)
	high, low := byte(r.Tag>>8), byte(r.Tag)
	c.Byte(&high)
	c.Byte(&low)
	r.Tag = uint16(high)<<8 | uint16(low)
}

// PlaceOf reads the run in the result of KindInvoke, and in which shard it is.
func PlaceOf(result []byte) (shard uint64, ref Ref, err error) {
	c := codec.NewDecoder(result)
	c.Uvarint(&shard)
	ref.Code(&c)
	return shard, ref, c.Err()
}

// Cancel is the body of the command that cancels a run.
type Cancel struct {
	Ref    Ref
	Reason string
}

// Code codes the body.
func (v *Cancel) Code(c *codec.Coder) {
	v.Ref.Code(c)
	c.String(&v.Reason)
}

// End is what who is named by an Invoke is told when the run has ended.
type End struct {
	Token   []byte
	Ref     Ref
	Status  uint8 // an action.Status, which is final
	Refused bool  // the handler has said that no other attempt may follow
	Attempt int64
	Outcome string
	Code    string // of the error
	Message string
	Output  []byte
	Held    bool // a handler may be at work, of a run that was cancelled or has timed out, or those that a child has called: when it has returned, another End follows
	Doubt   bool // an attempt before the last one timed out or was lost, and may have had an effect; of a child: it was cut off, and may have left something behind
}

// Encode codes the body, in both directions.
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
	if c.More(v.Held || v.Doubt) {
		c.Bool(&v.Held)
		if c.More(v.Doubt) {
			c.Bool(&v.Doubt)
		}
	}
}
