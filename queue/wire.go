package queue

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Kinds of queries; the numbers are part of the protocol between processes.
const (
	queryStats uint8 = iota + 1
	queryList
	queryPeek
	queryDead
	queryMessage
)

func (*statsQuery) Kind() uint8 { return queryStats }
func (*listQuery) Kind() uint8  { return queryList }
func (*peekQuery) Kind() uint8  { return queryPeek }
func (*deadQuery) Kind() uint8  { return queryDead }

func (*messageQuery) Kind() uint8 { return queryMessage }

func (q *statsQuery) Arguments(c *codec.Coder) {
	c.String(&q.namespace)
	c.String(&q.name)
}

func (q *statsQuery) Results(c *codec.Coder) {
	if c.Bool(&q.found); q.found {
		codeStats(c, &q.stats)
	}
}

func (q *listQuery) Arguments(c *codec.Coder) {
	c.String(&q.namespace)
	c.String(&q.prefix)
	c.String(&q.after)
	codeLimit(c, &q.limit, MaxPageItems)
}

func (q *listQuery) Results(c *codec.Coder) {
	codec.List(c, &q.items, codeStats)
	c.Bool(&q.more)
}

func (q *peekQuery) Arguments(c *codec.Coder) {
	c.String(&q.namespace)
	c.String(&q.name)
	q.after.code(c)
	codeLimit(c, &q.limit, MaxPageItems)
	codeLimit(c, &q.maxBytes, maxPageBytes)
	c.Byte((*byte)(&q.state))
	c.Bool(&q.withoutBody)
	if q.state > Leased {
		c.Fail("unknown state")
	}
}

func (q *peekQuery) Results(c *codec.Coder) {
	c.Bool(&q.found)
	codec.List(c, &q.items, codeMessage)
	q.next.code(c)
	c.Bool(&q.more)
}

func (q *deadQuery) Arguments(c *codec.Coder) {
	c.String(&q.namespace)
	c.String(&q.name)
	c.Uvarint(&q.after)
	codeLimit(c, &q.limit, MaxPageItems)
	codeLimit(c, &q.maxBytes, maxPageBytes)
	c.String(&q.text)
	c.Bool(&q.withoutBody)
	if len(q.text) > MaxFilterBytes {
		c.Fail("text out of range")
	}
}

func (q *deadQuery) Results(c *codec.Coder) {
	c.Bool(&q.found)
	codec.List(c, &q.items, codeMessage)
	c.Uvarint(&q.next)
	c.Bool(&q.more)
}

func (q *messageQuery) Arguments(c *codec.Coder) {
	c.String(&q.namespace)
	c.String(&q.name)
	c.Uvarint(&q.seq)
}

func (q *messageQuery) Results(c *codec.Coder) {
	c.Bool(&q.found)
	codec.List(c, &q.items, codeMessage)
}

// codeLimit codes a limit of a query, which is at least 1.
func codeLimit(c *codec.Coder, limit *int, most int) {
	c.Int(limit)
	if *limit < 1 || *limit > most {
		c.Fail("limit out of range")
	}
}

func codeStats(c *codec.Coder, s *Stats) {
	c.String(&s.Name)
	c.Time(&s.CreatedAt)
	c.Bool(&s.Paused)
	set := &s.Settings
	c.Int(&set.MaxAttempts)
	for _, v := range [...]*int64{
		&set.MaxLen, &set.MaxBytes, (*int64)(&set.BackoffMin), (*int64)(&set.BackoffMax), (*int64)(&set.DeadRetention), (*int64)(&set.DedupWindow),
		&s.Ready, &s.Delayed, &s.Inflight, &s.Dead, &s.Bytes, &s.Enqueued, &s.Duplicates, &s.Dequeued, &s.Acked, &s.Expired, &s.Purged, &s.Discarded,
	} {
		c.Varint(v)
	}
}

func codeMessage(c *codec.Coder, m *Message) {
	c.String(&m.Queue)
	c.Uvarint(&m.Seq)
	c.Int(&m.Priority)
	c.Bytes(&m.Payload)
	codeHeaders(c, &m.Headers)
	c.Byte((*byte)(&m.State))
	c.Int(&m.Attempts)
	c.Int(&m.MaxAttempts)
	c.Time(&m.EnqueuedAt)
	c.Time(&m.LeaseUntil)
	c.Time(&m.AvailableAt)
	c.Time(&m.DiedAt)
	c.String(&m.LastError)
	c.Int(&m.Size)
}

func codeHeaders(c *codec.Coder, headers *map[string]string) {
	b := engine.AppendHeaders(nil, *headers)
	if c.Bytes(&b); !c.Reading() {
		return
	}
	var err error
	if *headers, err = engine.DecodeHeaders(b); err != nil {
		c.Fail(err.Error())
	}
}
