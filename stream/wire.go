package stream

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Kinds of queries and errors; the numbers are part of the protocol between processes.
const (
	querySpec uint8 = iota + 1
	queryRead
	queryStats
	queryList
	queryRefs
	queryRecords
	queryGroupSpec
	queryGroupWait
	queryGroups
	queryPending
	_ // protocol.QuerySubscription
	queryActivity
)

const errorConflict uint8 = 1

func codeConflict(c *codec.Coder, e *ConflictError) {
	c.String(&e.Stream)
	c.Int(&e.Partition)
	codeID(c, &e.LastID)
	c.String(&e.Reason)
}

func (*specQuery) Kind() uint8     { return querySpec }
func (*readQuery) Kind() uint8     { return queryRead }
func (*statsQuery) Kind() uint8    { return queryStats }
func (*listQuery) Kind() uint8     { return queryList }
func (*refsQuery) Kind() uint8     { return queryRefs }
func (*recordsQuery) Kind() uint8  { return queryRecords }
func (*activityQuery) Kind() uint8 { return queryActivity }

func codeID(c *codec.Coder, id *ID) {
	c.Varint(&id.Millis)
	c.Uvarint(&id.Seq)
}

// field codes an ID in queries; see ID.code for commands.
func (id *ID) field(f *codec.Fields, name string) {
	if c := f.Binary(); c != nil {
		codeID(c, id)
		return
	}
	id.code(f, name)
}

var (
	readLimit      = codec.Range{Min: 1, Max: MaxReadLimit}
	partitionRange = codec.Range{Max: MaxPartitions - 1}
)

// code codes a position without a delivery.
func (r *Ref) code(f *codec.Fields) {
	f.Int("partition", &r.Partition, partitionRange)
	f.Uvarint("offset", &r.Offset)
}

func (r *Record) code(f *codec.Fields) {
	r.ID.field(f, "id")
	f.Int("partition", &r.Partition)
	f.Uvarint("offset", &r.Offset)
	f.Uvarint("lsn", &r.LSN)
	c := f.Binary()
	if c == nil {
		r.Message.code(f)
		return
	}
	var b []byte
	if !c.Reading() {
		b = r.append(nil)
	}
	if c.Bytes(&b); c.Reading() && c.Err() == nil && r.read(b) != nil {
		c.Fail("bad message")
	}
}

func (q *specQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("stream", &q.stream)
	f.Bool("wait", &q.wait)
	f.Uvarint("not", &q.not)
}

func (q *specQuery) Results(f *codec.Fields) {
	f.Bool("found", &q.found)
	codec.Object(f, "spec", &q.spec, (*spec).wire)
}

func (q *readQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("stream", &q.stream)
	f.Int("partition", &q.partition, codec.Range{Min: -1, Max: MaxPartitions - 1})
	codec.Enum(f, "start", &q.start.kind, []string{startFirst: "beginning", startAt: "id", startTail: "tail", startEnd: "end"})
	q.start.id.field(f, "start_id")
	f.Uvarint("stream_id", &q.id)
	f.Bool("strict", &q.strict)
	q.codeFrom(f)
	q.end.field(f, "end")
	f.Int("limit", &q.limit, readLimit)
	f.Int("max_bytes", &q.maxBytes, codec.Range{Max: maxReadBytes})
	f.Bool("wait", &q.wait)
}

// codeFrom codes the positions: nil and empty are different.
func (q *readQuery) codeFrom(f *codec.Fields) {
	there := q.from != nil
	if c := f.Binary(); c != nil {
		c.Bool(&there)
	} else {
		there = f.Given("from", there)
	}
	if !there {
		return
	}
	codec.ListOf(f, "from", &q.from, (*position).code, codec.Range{Max: MaxPartitions})
	if q.from == nil {
		q.from = []position{}
	}
}

func (p *position) code(f *codec.Fields) {
	f.Int("partition", &p.partition, partitionRange)
	if f.Uvarint("next", &p.next); f.Checking() && p.next == 0 {
		f.Refuse(engine.Errorf(ErrInvalid, "stream: next offset 0 of partition %d", p.partition))
	}
}

func (q *readQuery) Results(f *codec.Fields) {
	f.Bool("found", &q.found)
	f.Uvarint("stream_id", &q.id)
	q.codeFrom(f)
	codec.ListOf(f, "records", &q.records, (*Record).code)
	f.Bool("more", &q.more)
}

func (q *statsQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("stream", &q.stream)
	f.Uvarint("stream_id", &q.id)
}

func (q *statsQuery) Results(f *codec.Fields) {
	f.Bool("found", &q.found)
	q.stats.code(f)
}

func (s *Stats) code(f *codec.Fields) {
	f.Text("name", &s.Name)
	f.Duration("max_age_ms", &s.Retention.MaxAge)
	f.Varint("max_len", &s.Retention.MaxLen)
	f.Varint("max_bytes", &s.Retention.MaxBytes)
	f.Time("created_at_ms", &s.CreatedAt)
	f.Varint("appended", &s.Appended)
	f.Varint("reads", &s.Reads)
	codec.ListOf(f, "partitions", &s.Partitions, (*PartitionStats).code)
}

func (p *PartitionStats) code(f *codec.Fields) {
	f.Int("partition", &p.Partition)
	f.Varint("records", &p.Records)
	f.Varint("bytes", &p.Bytes)
	f.Uvarint("first", &p.First)
	f.Uvarint("last", &p.Last)
	p.FirstID.field(f, "first_id")
	p.LastID.field(f, "last_id")
	f.Int("shard", &p.Shard)
}

func (q *listQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("prefix", &q.prefix)
	f.Text("after", &q.after)
	f.Int("limit", &q.limit, readLimit)
}

func (q *listQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "streams", &q.streams, (*listed).code)
	f.Text("last", &q.last)
	f.Bool("more", &q.more)
}

func (l *listed) code(f *codec.Fields) {
	l.Stats.code(f)
	f.Uvarint("stream_id", &l.id)
	f.Int("number_of_partitions", &l.partitions)
	if c := f.Binary(); c != nil && (l.partitions < 1 || l.partitions > MaxPartitions) {
		c.Fail("partitions out of range")
	}
}

func (q *refsQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("stream", &q.stream)
	f.Uvarint("stream_id", &q.id)
	codec.ListOf(f, "ids", &q.ids, func(id *ID, f *codec.Fields) { id.field(f, "") }, codec.Range{Max: MaxReadLimit})
}

func (q *refsQuery) Results(f *codec.Fields) { codec.ListOf(f, "refs", &q.refs, (*Ref).code) }

func (q *recordsQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("stream", &q.stream)
	codec.ListOf(f, "refs", &q.refs, (*Ref).code, codec.Range{Max: MaxReadLimit})
	f.Int("max_bytes", &q.maxBytes, codec.Range{Max: maxReadBytes})
}

func (q *recordsQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "records", &q.records, (*Record).code)
	f.Int("done", &q.done)
}

func (q *activityQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("stream", &q.stream)
	f.Uvarint("stream_id", &q.id)
	f.Varint("from_ms", &q.from, codec.Range{Min: -maxActivityMillis, Max: maxActivityMillis})
	f.Varint("step_ms", &q.step, codec.Range{Min: 1, Max: maxActivityMillis / MaxActivityParts})
	f.Int("parts", &q.count, codec.Range{Min: 1, Max: MaxActivityParts})
	codec.ListOf(f, "partitions", &q.partitions, func(p *int, f *codec.Fields) { f.Int("", p) }, codec.Range{Max: MaxPartitions})
}

func (q *activityQuery) Results(f *codec.Fields) {
	number := func(n *int64, f *codec.Fields) { f.Varint("", n) }
	codec.ListOf(f, "records", &q.records, number)
	codec.ListOf(f, "bytes", &q.bytes, number)
	if c := f.Binary(); c != nil && (len(q.records) != len(q.bytes) || len(q.records) > MaxActivityParts) {
		c.Fail("parts out of range")
	}
}
