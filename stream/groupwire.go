package stream

import "github.com/floedb/floe/internal/codec"

func (*groupSpecQuery) Kind() uint8 { return queryGroupSpec }
func (*groupWaitQuery) Kind() uint8 { return queryGroupWait }
func (*groupsQuery) Kind() uint8    { return queryGroups }
func (*pendingQuery) Kind() uint8   { return queryPending }

// wire codes a spec in queries; see fields for commands.
func (s *spec) wire(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		s.fields(f)
		return
	}
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

// wire codes a group's spec in queries.
func (s *groupSpec) wire(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		s.fields(f)
		return
	}
	c.Uvarint(&s.id)
	c.Uvarint(&s.version)
	c.Byte((*byte)(&s.config.mode))
	c.Byte((*byte)(&s.config.start.kind))
	codeID(c, &s.config.start.id)
	c.Varint(&s.config.ackTimeout)
	c.Uvarint(&s.config.maxAttempts)
	c.Varint(&s.config.backoffMin)
	c.Varint(&s.config.backoffMax)
}

func (q *groupSpecQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("stream", &q.stream)
	f.Text("group", &q.group)
	f.Text("consumer", &q.consumer)
}

func (q *groupSpecQuery) Results(f *codec.Fields) {
	codec.Object(f, "spec", &q.spec, (*spec).wire)
	if f.Found(&q.found) {
		codec.Object(f, "group_spec", &q.config, (*groupSpec).wire)
	}
	f.Bool("known", &q.held.known)
	f.Bool("held", &q.held.held)
	f.Uvarint("epoch", &q.held.epoch)
}

func (q *groupWaitQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("stream", &q.stream)
	f.Text("group", &q.group)
	f.Text("consumer", &q.consumer)
	f.Uvarint("epoch", &q.epoch)
	f.Varint("since_ms", &q.since)
	f.Uvarint("group_id", &q.id)
	f.Bool("home", &q.home)
}

func (q *groupWaitQuery) Results(f *codec.Fields) { f.Varint("since_ms", &q.since) }

func (q *groupsQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("stream", &q.stream)
	f.Text("name", &q.name)
	f.Text("prefix", &q.prefix)
	f.Text("after", &q.after)
	f.Int("limit", &q.limit, readLimit)
	f.Uvarint("stream_id", &q.id)
	codeOptional(f, "group_spec", &q.spec, (*groupSpec).wire)
}

func (q *groupsQuery) Results(f *codec.Fields) {
	f.Bool("found", &q.found)
	codec.ListOf(f, "groups", &q.infos, (*GroupStats).code)
	f.Bool("more", &q.more)
}

func (g *GroupStats) code(f *codec.Fields) {
	f.Text("name", &g.Name)
	g.Mode.code(f)
	f.Duration("ack_timeout_ms", &g.AckTimeout)
	f.Int("max_attempts", &g.MaxAttempts)
	f.Duration("backoff_min_ms", &g.BackoffMin)
	f.Duration("backoff_max_ms", &g.BackoffMax)
	f.Time("created_at_ms", &g.CreatedAt)
	f.Text("holder", &g.Holder)
	codec.ListOf(f, "members", &g.Members, (*Member).code)
	codec.ListOf(f, "cursors", &g.Cursors, (*GroupCursor).code)
}

func (m *Member) code(f *codec.Fields) {
	f.Text("consumer", &m.Consumer)
	f.Int("pending", &m.Pending)
	f.Time("joined_at_ms", &m.JoinedAt)
	f.Time("last_seen_ms", &m.LastSeen)
}

func (c *GroupCursor) code(f *codec.Fields) {
	f.Int("partition", &c.Partition)
	c.LastDelivered.field(f, "last_delivered")
	c.Acked.field(f, "acked")
	f.Int("pending", &c.Pending)
	f.Varint("lag", &c.Lag)
	f.Duration("lag_ms", &c.LagTime)
}

func (q *pendingQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("stream", &q.stream)
	f.Text("group", &q.group)
	codec.Object(f, "after", &q.after, (*Ref).delivery)
	f.Int("limit", &q.limit, readLimit)
	f.Uvarint("stream_id", &q.streamID)
	f.Uvarint("group_id", &q.groupID)
}

// delivery codes a position with a delivery.
func (r *Ref) delivery(f *codec.Fields) {
	r.code(f)
	f.Int("attempt", &r.Attempt)
}

func (q *pendingQuery) Results(f *codec.Fields) {
	f.Bool("found", &q.found)
	codec.ListOf(f, "records", &q.records, (*PendingRecord).code)
	f.Bool("more", &q.more)
}

func (p *PendingRecord) code(f *codec.Fields) {
	p.ID.field(f, "id")
	codec.Object(f, "ref", &p.Ref, (*Ref).delivery)
	f.Text("consumer", &p.Consumer)
	f.Time("delivered_at_ms", &p.DeliveredAt)
	f.Time("deadline_ms", &p.Deadline)
	f.Text("reason", &p.Reason)
}
