package stream

import (
	"time"

	"github.com/floedb/floe/internal/codec"
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
	_ // push.QueryInfo
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

func codeRef(c *codec.Coder, r *Ref) {
	c.Int(&r.Partition)
	c.Uvarint(&r.Offset)
	if r.Partition < 0 || r.Partition >= MaxPartitions {
		c.Fail("partition out of range")
	}
}

func codeRecord(c *codec.Coder, r *Record) {
	codeID(c, &r.ID)
	c.Int(&r.Partition)
	c.Uvarint(&r.Offset)
	c.Uvarint(&r.LSN)
	var b []byte
	if !c.Reading() {
		b = r.append(nil)
	}
	if c.Bytes(&b); c.Reading() && c.Err() == nil && r.read(b) != nil {
		c.Fail("bad message")
	}
}

func (q *specQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.stream)
	c.Bool(&q.wait)
	c.Uvarint(&q.not)
}

func (q *specQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.Bool(&q.found)
	q.spec.code(c)
}

func (q *readQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.stream)
	c.Int(&q.partition)
	c.Byte((*byte)(&q.start.kind))
	codeID(c, &q.start.id)
	c.Uvarint(&q.id)
	c.Bool(&q.strict)
	q.codeFrom(c)
	codeID(c, &q.end)
	c.Int(&q.limit)
	c.Int(&q.maxBytes)
	c.Bool(&q.wait)
	checkBounds(c, q.limit, 1, q.maxBytes)
	if q.partition < -1 || q.partition >= MaxPartitions {
		c.Fail("partition out of range")
	}
	if q.start.kind >= numStarts {
		c.Fail("start out of range")
	}
}

// checkBounds fails for an answer of more records, or bytes, than one may have.
func checkBounds(c *codec.Coder, records, least, bytes int) {
	if records < least || records > MaxReadLimit {
		c.Fail("limit out of range")
	}
	if bytes < 0 || bytes > maxReadBytes {
		c.Fail("bytes out of range")
	}
}

// codeFrom codes the positions: nil is not the same as none.
func (q *readQuery) codeFrom(c *codec.Coder) {
	there := q.from != nil
	if c.Bool(&there); !there {
		return
	}
	codec.List(c, &q.from, func(c *codec.Coder, p *position) {
		c.Int(&p.partition)
		c.Uvarint(&p.next)
		if p.partition < 0 || p.partition >= MaxPartitions || p.next == 0 {
			c.Fail("partition out of range")
		}
	})
	if len(q.from) > MaxPartitions {
		c.Fail("too many partitions")
	}
	if c.Reading() && q.from == nil {
		q.from = []position{}
	}
}

func (q *readQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.Bool(&q.found)
	c.Uvarint(&q.id)
	q.codeFrom(c)
	codec.List(c, &q.records, codeRecord)
	c.Bool(&q.more)
}

func (q *statsQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.stream)
	c.Uvarint(&q.id)
}

func (q *statsQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.Bool(&q.found)
	codeStats(c, &q.stats)
}

func codeStats(c *codec.Coder, i *Stats) {
	c.String(&i.Name)
	age := int64(i.Retention.MaxAge)
	c.Varint(&age)
	c.Varint(&i.Retention.MaxLen)
	c.Varint(&i.Retention.MaxBytes)
	c.Time(&i.CreatedAt)
	c.Varint(&i.Appended)
	c.Varint(&i.Reads)
	codec.List(c, &i.Partitions, func(c *codec.Coder, p *PartitionStats) {
		c.Int(&p.Partition)
		c.Varint(&p.Records)
		c.Varint(&p.Bytes)
		c.Uvarint(&p.First)
		c.Uvarint(&p.Last)
		codeID(c, &p.FirstID)
		codeID(c, &p.LastID)
		c.Int(&p.Shard)
	})
	if c.Reading() {
		i.Retention.MaxAge = time.Duration(age)
	}
}

func (q *listQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.prefix)
	c.String(&q.after)
	c.Int(&q.limit)
	if q.limit < 1 || q.limit > MaxReadLimit {
		c.Fail("limit out of range")
	}
}

func (q *listQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	codec.List(c, &q.streams, func(c *codec.Coder, l *listed) {
		codeStats(c, &l.Stats)
		c.Uvarint(&l.id)
		c.Int(&l.partitions)
		if l.partitions < 1 || l.partitions > MaxPartitions {
			c.Fail("partitions out of range")
		}
	})
	c.String(&q.last)
	c.Bool(&q.more)
}

func (q *refsQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.stream)
	c.Uvarint(&q.id)
	codec.List(c, &q.ids, codeID)
	if len(q.ids) > MaxReadLimit {
		c.Fail("too many ids")
	}
}

func (q *refsQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	codec.List(c, &q.refs, codeRef)
}

func (q *recordsQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.stream)
	codec.List(c, &q.refs, codeRef)
	c.Int(&q.maxBytes)
	checkBounds(c, len(q.refs), 0, q.maxBytes)
}

func (q *recordsQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	codec.List(c, &q.records, codeRecord)
	c.Int(&q.done)
}

func (q *activityQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.stream)
	c.Uvarint(&q.id)
	c.Varint(&q.from)
	c.Varint(&q.step)
	c.Int(&q.count)
	codec.List(c, &q.partitions, (*codec.Coder).Int)
	if q.from < -maxActivityMillis || q.from > maxActivityMillis || q.step < 1 || q.step > maxActivityMillis/MaxActivityParts || q.count < 1 || q.count > MaxActivityParts {
		c.Fail("span out of range")
	}
	if len(q.partitions) > MaxPartitions {
		c.Fail("too many partitions")
	}
}

func (q *activityQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	codec.List(c, &q.records, (*codec.Coder).Varint)
	codec.List(c, &q.bytes, (*codec.Coder).Varint)
	if len(q.records) != len(q.bytes) || len(q.records) > MaxActivityParts {
		c.Fail("parts out of range")
	}
}
