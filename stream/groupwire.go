package stream

import (
	"time"

	"github.com/floedb/floe/internal/codec"
)

func (*groupSpecQuery) Kind() uint8 { return queryGroupSpec }
func (*groupWaitQuery) Kind() uint8 { return queryGroupWait }
func (*groupsQuery) Kind() uint8    { return queryGroups }
func (*pendingQuery) Kind() uint8   { return queryPending }

func (s *spec) code(c *codec.Coder) {
	c.Uvarint(&s.id)
	c.Uvarint(&s.version)
	c.Int(&s.partitions)
	c.Varint(&s.policy.maxAge)
	c.Uvarint(&s.policy.maxLen)
	c.Uvarint(&s.policy.maxBytes)
	if s.partitions < 0 || s.partitions > MaxPartitions {
		c.Fail("partitions out of range")
	}
}

func (s *groupSpec) code(c *codec.Coder) {
	c.Uvarint(&s.id)
	c.Uvarint(&s.version)
	c.Byte((*byte)(&s.config.mode))
	c.Byte((*byte)(&s.config.start.kind))
	codeID(c, &s.config.start.id)
	c.Varint(&s.config.ackTimeout)
	c.Uvarint(&s.config.maxDeliver)
	c.Varint(&s.config.backoffMin)
	c.Varint(&s.config.backoffMax)
}

func (q *groupSpecQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.stream)
	c.String(&q.group)
	c.String(&q.consumer)
}

func (q *groupSpecQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	q.spec.code(c)
	if c.Bool(&q.found); q.found {
		q.config.code(c)
	}
	c.Bool(&q.held.known)
	c.Bool(&q.held.held)
	c.Uvarint(&q.held.epoch)
}

func (q *groupWaitQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.stream)
	c.String(&q.group)
	c.String(&q.consumer)
	c.Uvarint(&q.epoch)
	c.Varint(&q.since)
	c.Uvarint(&q.id)
	c.Bool(&q.home)
}

func (q *groupWaitQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.Varint(&q.since)
}

func (q *groupsQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.stream)
	c.String(&q.name)
	c.String(&q.prefix)
	c.String(&q.after)
	c.Int(&q.limit)
	if q.limit < 1 || q.limit > MaxReadLimit {
		c.Fail("limit out of range")
	}
	c.Uvarint(&q.id)
	there := q.spec != nil
	if c.Bool(&there); !there {
		return
	}
	if c.Reading() {
		q.spec = new(groupSpec)
	}
	if q.spec.code(c); q.spec.config.check() != nil {
		c.Fail("group out of range")
	}
}

func (q *groupsQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.Bool(&q.found)
	codec.List(c, &q.infos, codeGroupStats)
	c.Bool(&q.more)
}

func codeDuration(c *codec.Coder, d *time.Duration) { c.Varint((*int64)(d)) }

func codeGroupStats(c *codec.Coder, g *GroupStats) {
	c.String(&g.Name)
	c.Byte((*byte)(&g.Mode))
	codeDuration(c, &g.AckTimeout)
	c.Int(&g.MaxDeliver)
	codeDuration(c, &g.BackoffMin)
	codeDuration(c, &g.BackoffMax)
	c.Time(&g.CreatedAt)
	c.String(&g.Holder)
	codec.List(c, &g.Members, func(c *codec.Coder, m *Member) {
		c.String(&m.Consumer)
		c.Int(&m.Pending)
		c.Time(&m.JoinedAt)
		c.Time(&m.LastSeen)
	})
	codec.List(c, &g.Cursors, func(c *codec.Coder, cur *GroupCursor) {
		c.Int(&cur.Partition)
		codeID(c, &cur.LastDelivered)
		codeID(c, &cur.Acked)
		c.Int(&cur.Pending)
		c.Varint(&cur.Lag)
		codeDuration(c, &cur.LagTime)
	})
}

func (q *pendingQuery) Arguments(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.String(&q.namespace)
	c.String(&q.stream)
	c.String(&q.group)
	codeAttempt(c, &q.after)
	c.Int(&q.limit)
	if q.limit < 1 || q.limit > MaxReadLimit {
		c.Fail("limit out of range")
	}
	c.Uvarint(&q.streamID)
	c.Uvarint(&q.groupID)
}

// codeAttempt codes a ref with its attempt.
func codeAttempt(c *codec.Coder, r *Ref) {
	codeRef(c, r)
	c.Int(&r.Attempt)
}

func (q *pendingQuery) Results(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	c.Bool(&q.found)
	codec.List(c, &q.records, func(c *codec.Coder, p *PendingRecord) {
		codeID(c, &p.ID)
		codeAttempt(c, &p.Ref)
		c.String(&p.Consumer)
		c.Time(&p.DeliveredAt)
		c.Time(&p.Deadline)
		c.String(&p.Reason)
	})
	c.Bool(&q.more)
}
