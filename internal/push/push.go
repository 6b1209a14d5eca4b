// Package push is how a machine has the records of a consumer group handed to it: it subscribes to a stream, and from then on a command of its own is run for each
// batch of records, in one command with their acknowledgement. Package stream carries that out; nothing here decides anything.
//
//	subscriber                stream's home                   other shards of the stream
//	KindSubscribe      ->     makes the group           ->    KindSubscribe
//	                          takes a batch, and runs, or sends, Subscriber.Command with a Batch
//	End of the batch   ->     room for another one      ->    KindGrant
//
// A subscriber whose home is elsewhere does not know whether the namespace of the stream is spread: it sends KindRelay, which is for the namespace's home.
package push

import (
	"math"
	"strconv"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Kinds of commands of engine.MachineStream that others run with engine.Tx.Then, or send to other shards.
const (
	KindRelay     uint8 = 22 // a Subscription, for whichever shard has the stream
	KindSubscribe uint8 = 23 // a Subscription, for the shard that has the stream
	KindEnd       uint8 = 25 // a call.End with an EndToken: what came of a batch has ended, or, if its status is StatusAgain, goes on after it has
)

// StatusAgain is the status of a call.End that is none: what has ended goes on, and its end will be told again.
const StatusAgain uint8 = 255

// QueryInfo is the kind of Query.
const QueryInfo uint8 = 11

// MaxBatchBytes bounds the keys, headers and payloads of a batch. One record alone may have more.
const MaxBatchBytes = 1 << 20

// Subscriber is who is handed batches: Command of Machine is run with a Batch as its body, in the shard of the records if the namespace is theirs, else in that
// of Name, or, if its namespace is spread, in that of Batch.Route. If it is not known there, its home is asked, that of Name: not all shards may have heard of it yet. It refuses a batch that it has no use for: the records go to the dead letters of the stream, with the reason.
type Subscriber struct {
	Machine   engine.MachineID
	Command   uint8
	Namespace string
	Spread    bool
	Name      string
}

// Key names the subscriber among all: it has one subscription to a stream.
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

// Subscription is the body of KindRelay and KindSubscribe: what a subscriber wants from now on. A later Revision replaces an earlier one; the group goes on where
// it is, unless that is another one.
type Subscription struct {
	Subscriber Subscriber
	Revision   uint64 // increases
	Gone       bool   // nothing any more; what follows does not matter
	Stream     string
	Group      string
	Mode       uint8 // of a group that is made
	Latest     bool  // a group that is made for a stream with records begins behind them
	Batch      int64 // records
	Wait       int64 // ms that a record waits for others
	Most       int64 // batches whose end is not known; 0: no limit, and no end is told
	Paused     bool
}

// Code codes the body.
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

// Batch is the body of a Subscriber's command: records of one partition, in their order.
type Batch struct {
	Name      string // of the subscriber
	Namespace string // of the stream
	Stream    string
	Partition int
	Records   []Record
	End       []byte // the token of KindEnd, if whoever handed the batch out waits for the end of what comes of it; else nil
}

// Key names the batch among all of a stream's namespace that a subscriber is handed: it says where its first record is.
func (b *Batch) Key() string {
	return b.Stream + "/" + strconv.Itoa(b.Partition) + "/" + b.Records[0].ID()
}

// Route leads a batch to the shard of the subscriber's namespace, if that is spread: the same for the same batch, so that one that comes again is known there. It is
// the route of what is called Key of Name.
func (b *Batch) Route() string { return RouteOf(b.Name, b.Key()) }

// RouteOf leads to the shard of what is called key of name, such as the start of a workflow with an idempotency key.
func RouteOf(name, key string) string { return name + "\x00" + key }

// Record is a record of a batch.
type Record struct {
	Millis  int64 // when it was appended; with Seq its id
	Seq     uint64
	Key     string
	Headers []Header // in the order of their names
	Payload []byte
}

// ID returns the id of the record, as streams write it.
func (r *Record) ID() string {
	return strconv.FormatInt(r.Millis, 10) + "-" + strconv.FormatUint(r.Seq, 10)
}

// Header is a header of a record.
type Header struct{ Name, Value string }

// Code codes the body.
func (b *Batch) Code(c *codec.Coder) {
	for _, s := range [...]*string{&b.Name, &b.Namespace, &b.Stream} {
		c.String(s)
	}
	c.Int(&b.Partition)
	codec.List(c, &b.Records, func(c *codec.Coder, r *Record) {
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

// Taken is the result of a Subscriber's command.
type Taken struct {
	Repeated bool // the batch had been taken before: nothing comes of it, and no end will be told
	Had      int  // if not 0: only so many of its first records had been, and the rest belongs to another shard, to which it is to be given
}

// Code codes the result.
func (t *Taken) Code(c *codec.Coder) {
	c.Bool(&t.Repeated)
	if c.More(t.Had > 0) {
		c.Int(&t.Had)
	}
}

// EndToken says whose end KindEnd is about.
type EndToken struct {
	Namespace string // of the stream
	Spread    bool
	Stream    string
	Key       string // of the subscriber
	ID        uint64 // of the subscription in the stream's home
	Number    uint64
}

// Code codes the token.
func (t *EndToken) Code(c *codec.Coder) {
	c.String(&t.Namespace)
	c.Bool(&t.Spread)
	c.String(&t.Stream)
	c.String(&t.Key)
	c.Uvarint(&t.ID)
	c.Uvarint(&t.Number)
}

// Query asks a shard how a subscription stands.
type Query struct {
	Namespace string // of the stream
	Stream    string
	Key       string // of the subscriber

	Info Info
}

// Info is how a subscription stands in one shard.
type Info struct {
	Found    bool   // the shard has heard of it
	Revision uint64 // what it has heard last
	Exists   bool   // the stream
	Grouped  bool   // the group
	Paused   bool
	Full     bool  // Most batches have not come to their end
	Lag      int64 // records that wait
	Active   int64 // batches whose end is waited for; known in the stream's home
	Sent     int64 // batches that may or may not have been taken: nobody has said yet
	Taken    int64 // batches
	Repeated int64 // batches that were taken before
	Refused  int64
	Records  int64 // of batches that were handed out
	Note     string
}

// Machine returns the machine of streams.
func (*Query) Machine() engine.MachineID { return engine.MachineStream }

// Kind tells the query from others of the machine.
func (*Query) Kind() uint8 { return QueryInfo }

// Arguments codes the arguments.
func (q *Query) Arguments(f *codec.Fields) {
	f.Namespace(&q.Namespace)
	f.Text("stream", &q.Stream)
	f.Text("key", &q.Key)
}

// Results codes the results.
func (q *Query) Results(f *codec.Fields) {
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

// natural codes a number that is not negative.
func natural(c *codec.Coder, n *int64) {
	v := uint64(*n)
	if c.Uvarint(&v); v > math.MaxInt64 {
		c.Fail("number out of range")
	}
	*n = int64(v)
}
