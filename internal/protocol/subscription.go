package protocol

import (
	"math"
	"strconv"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// StatusAgain is the status of an End that is not final, because the run was resumed and another
// End follows.
const StatusAgain uint8 = 255

// MaxBatchBytes bounds the keys, headers and payloads of a batch of more than one record.
const MaxBatchBytes = 1 << 20

// Subscriber is the receiver of batches: Command of Machine is run with a Batch as its body. It
// runs in the shard of the records if the subscriber is in their namespace. Otherwise it runs in
// the shard of Name or, if the subscriber's namespace is spread, of Batch.Route. A shard that does
// not have the subscriber yet forwards the batch to the home of Name. If the command refuses a
// batch, its records become dead letters of the stream, with the reason.
type Subscriber struct {
	Machine   engine.MachineID
	Command   uint8
	Namespace string
	Spread    bool
	Name      string
}

// Key identifies the subscriber. It has one subscription per stream.
func (s *Subscriber) Key() string {
	c := codec.NewEncoder(nil)
	c.Byte((*byte)(&s.Machine))
	c.String(&s.Namespace)
	c.String(&s.Name)
	return string(c.Encoded())
}

func (s *Subscriber) code(c *codec.Coder) {
	c.Byte((*byte)(&s.Machine))
	c.Byte(&s.Command)
	c.String(&s.Namespace)
	c.Bool(&s.Spread)
	c.String(&s.Name)
}

// Modes of groups, as stream.Mode.
const (
	ModeShared uint8 = iota
	ModeExclusive
	ModeKeyShared
	numModes
)

// Subscription is the body of KindSubscribe and KindRelaySubscription. A later Revision replaces
// an earlier one, and a group of the same name keeps its position.
type Subscription struct {
	Subscriber Subscriber
	Revision   uint64 // increases
	Gone       bool   // end the subscription; the fields below are ignored
	Stream     string
	Group      string
	Mode       uint8 // of a new group
	Latest     bool  // a new group starts after the existing records
	Batch      int64 // records
	Wait       int64 // ms that a record waits for others
	Most       int64 // maximum number of batches that have not ended; 0: no limit, and no KindBatchEnd is sent
	Paused     bool
}

// Code codes the subscription.
func (s *Subscription) Code(c *codec.Coder) {
	s.Subscriber.code(c)
	c.Uvarint(&s.Revision)
	c.Bool(&s.Gone)
	c.String(&s.Stream)
	c.String(&s.Group)
	c.Byte(&s.Mode)
	c.Bool(&s.Latest)
	for _, n := range [...]*int64{&s.Batch, &s.Wait, &s.Most} {
		natural(c, n)
	}
	c.Bool(&s.Paused)
	if c.Reading() && (s.Mode >= numModes || s.Batch < 1 && !s.Gone) {
		c.Fail("subscription out of range")
	}
}

// Batch is the body of a Subscriber's command: records of one partition in order.
type Batch struct {
	Name      string // of the subscriber
	Namespace string // of the stream
	Stream    string
	Partition int
	Records   []BatchRecord
	End       []byte // a BatchToken for KindBatchEnd, nil if the stream does not wait for the end
}

// Key identifies the batch among those of a subscriber and a namespace by its first record.
func (b *Batch) Key() string {
	return b.Stream + "/" + strconv.Itoa(b.Partition) + "/" + b.Records[0].ID()
}

// Route returns the route of the batch in a spread namespace of the subscriber. A repeated batch
// has the same route, so the shard recognises it.
func (b *Batch) Route() string { return BatchRoute(b.Name, b.Key()) }

// BatchRoute returns the route of key within name, such as that of a workflow started with an
// idempotency key.
func BatchRoute(name, key string) string { return name + "\x00" + key }

// BatchRecord is a record of a batch.
type BatchRecord struct {
	Millis  int64 // time of the append; its ID together with Seq
	Seq     uint64
	Key     string
	Headers []Header // in order of their names
	Payload []byte
}

// ID returns the id of the record in the form of stream.ID.
func (r *BatchRecord) ID() string {
	return strconv.FormatInt(r.Millis, 10) + "-" + strconv.FormatUint(r.Seq, 10)
}

// Header is a header of a record.
type Header struct{ Name, Value string }

// Code codes the command.
func (b *Batch) Code(c *codec.Coder) {
	for _, s := range [...]*string{&b.Name, &b.Namespace, &b.Stream} {
		c.String(s)
	}
	c.Int(&b.Partition)
	codec.List(c, &b.Records, func(c *codec.Coder, r *BatchRecord) {
		c.Varint(&r.Millis)
		c.Uvarint(&r.Seq)
		c.String(&r.Key)
		codec.List(c, &r.Headers, func(c *codec.Coder, h *Header) {
			c.String(&h.Name)
			c.String(&h.Value)
		})
		c.Bytes(&r.Payload)
	})
	c.Bytes(&b.End)
	if c.Reading() && (b.Partition < 0 || len(b.Records) == 0) {
		c.Fail("batch out of range")
	}
}

// BatchResult is the result of a Subscriber's command.
type BatchResult struct {
	Repeated bool // the batch was processed before: it has no effect, and no End follows
	Had      int  // if not 0: the number of its first records that were processed before; the rest has to be sent to another shard
}

// Code codes the result.
func (t *BatchResult) Code(c *codec.Coder) {
	c.Bool(&t.Repeated)
	if c.More(t.Had > 0) {
		c.Int(&t.Had)
	}
}

// BatchToken is the token of an End of KindBatchEnd, which identifies the batch.
type BatchToken struct {
	Namespace string // of the stream
	Spread    bool
	Stream    string
	Key       string // of the subscriber
	ID        uint64 // of the subscription in the stream's home
	Number    uint64
}

// Code codes the token.
func (t *BatchToken) Code(c *codec.Coder) {
	c.String(&t.Namespace)
	c.Bool(&t.Spread)
	c.String(&t.Stream)
	c.String(&t.Key)
	c.Uvarint(&t.ID)
	c.Uvarint(&t.Number)
}

// SubscriptionQuery returns the state of a subscription in one shard.
type SubscriptionQuery struct {
	Namespace string // of the stream
	Stream    string
	Key       string // of the subscriber

	Info SubscriptionInfo
}

// SubscriptionInfo is the state of a subscription in one shard.
type SubscriptionInfo struct {
	Found    bool   // the shard knows the subscription
	Revision uint64 // the latest that the shard received
	Exists   bool   // the stream exists
	Grouped  bool   // the group exists
	Paused   bool
	Full     bool  // the maximum number of batches have not ended
	Lag      int64 // pending records
	Active   int64 // batches that have not ended; only in the stream's home
	Sent     int64 // batches without a result yet
	Taken    int64 // batches
	Repeated int64 // batches that were processed before
	Refused  int64
	Records  int64 // in batches that were sent
	Note     string
}

// Machine returns the machine of streams.
func (*SubscriptionQuery) Machine() engine.MachineID { return engine.MachineStream }

// Kind returns QuerySubscription.
func (*SubscriptionQuery) Kind() uint8 { return QuerySubscription }

// Arguments codes the arguments.
func (q *SubscriptionQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.Namespace)
	f.Text("stream", &q.Stream)
	f.Text("key", &q.Key)
}

// Results codes the results.
func (q *SubscriptionQuery) Results(f *codec.Fields) {
	i := &q.Info
	f.Bool("found", &i.Found)
	f.Bool("exists", &i.Exists)
	f.Bool("grouped", &i.Grouped)
	f.Bool("paused", &i.Paused)
	f.Bool("full", &i.Full)
	f.Uvarint("revision", &i.Revision)
	f.Varint("lag", &i.Lag)
	f.Varint("active", &i.Active)
	f.Varint("sent", &i.Sent)
	f.Varint("taken", &i.Taken)
	f.Varint("repeated", &i.Repeated)
	f.Varint("refused", &i.Refused)
	f.Varint("records", &i.Records)
	f.Text("note", &i.Note)
}

// natural codes a non-negative number.
func natural(c *codec.Coder, n *int64) {
	v := uint64(*n)
	if c.Uvarint(&v); v > math.MaxInt64 {
		c.Fail("number out of range")
	}
	*n = int64(v)
}
