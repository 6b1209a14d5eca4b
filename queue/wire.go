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

func (*statsQuery) Kind() uint8   { return queryStats }
func (*listQuery) Kind() uint8    { return queryList }
func (*peekQuery) Kind() uint8    { return queryPeek }
func (*deadQuery) Kind() uint8    { return queryDead }
func (*messageQuery) Kind() uint8 { return queryMessage }

func (q *statsQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("name", &q.name)
}

func (q *statsQuery) Results(f *codec.Fields) {
	if f.Found(&q.found) {
		q.stats.code(f)
	}
}

func (q *listQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("prefix", &q.prefix)
	f.Text("after", &q.after)
	f.Int("limit", &q.limit, engine.PageLimit)
}

func (q *listQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "queues", &q.items, (*Stats).code)
	f.Bool("more", &q.more)
}

func (q *peekQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("name", &q.name)
	q.after.field(f, "after")
	f.Int("limit", &q.limit, engine.PageLimit)
	f.Int("max_bytes", &q.maxBytes, codec.Range{Min: 1, Max: maxPageBytes})
	codec.Enum(f, "state", &q.state, []string{"all", Ready: "ready", Delayed: "delayed", Leased: "leased"})
	f.Bool("without_payload", &q.withoutBody)
}

func (q *peekQuery) Results(f *codec.Fields) {
	f.Found(&q.found)
	codec.ListOf(f, "messages", &q.items, (*Message).code)
	q.next.field(f, "next")
	f.Bool("more", &q.more)
}

func (q *deadQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("name", &q.name)
	f.Uvarint("after", &q.after)
	f.Int("limit", &q.limit, engine.PageLimit)
	f.Int("max_bytes", &q.maxBytes, codec.Range{Min: 1, Max: maxPageBytes})
	f.Text("contains", &q.text, codec.Range{Max: MaxFilterBytes})
	f.Bool("without_payload", &q.withoutBody)
}

func (q *deadQuery) Results(f *codec.Fields) {
	f.Found(&q.found)
	codec.ListOf(f, "messages", &q.items, (*Message).code)
	f.Uvarint("next", &q.next)
	f.Bool("more", &q.more)
}

func (q *messageQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("name", &q.name)
	f.Uvarint("seq", &q.seq)
}

func (q *messageQuery) Results(f *codec.Fields) {
	f.Found(&q.found)
	codec.ListOf(f, "messages", &q.items, (*Message).code)
}

// field codes a position among the messages. In JSON it is a cursor; see Cursor.
func (p *position) field(f *codec.Fields, name string) {
	if c := f.Binary(); c != nil {
		p.code(c)
		return
	}
	if f.Checking() || !f.Given(name, *p != position{}) {
		return
	}
	f.Token(name, p.cursor, func(cursor string) error {
		at, ok := parsePlace(cursor)
		if !ok {
			return engine.BadCursor(cursor)
		}
		*p = at
		return nil
	})
}

func (s *Stats) code(f *codec.Fields) {
	f.Text("name", &s.Name)
	f.Time("created_at_ms", &s.CreatedAt)
	f.Bool("paused", &s.Paused)
	f.Int("max_attempts", &s.Settings.MaxAttempts)
	f.Varint("max_len", &s.Settings.MaxLen)
	f.Varint("max_bytes", &s.Settings.MaxBytes)
	f.Duration("backoff_min_ms", &s.Settings.BackoffMin)
	f.Duration("backoff_max_ms", &s.Settings.BackoffMax)
	f.Duration("dead_retention_ms", &s.Settings.DeadRetention)
	f.Duration("dedup_window_ms", &s.Settings.DedupWindow)
	f.Varint("ready", &s.Ready)
	f.Varint("delayed", &s.Delayed)
	f.Varint("inflight", &s.Inflight)
	f.Varint("dead", &s.Dead)
	f.Varint("bytes", &s.Bytes)
	f.Varint("enqueued", &s.Enqueued)
	f.Varint("duplicates", &s.Duplicates)
	f.Varint("dequeued", &s.Dequeued)
	f.Varint("acked", &s.Acked)
	f.Varint("expired", &s.Expired)
	f.Varint("purged", &s.Purged)
	f.Varint("discarded", &s.Discarded)
}

func (m *Message) code(f *codec.Fields) {
	f.Text("queue", &m.Queue)
	f.Uvarint("seq", &m.Seq)
	f.Int("priority", &m.Priority)
	f.Blob("payload", &m.Payload)
	engine.CodePairMap(f, "headers", &m.Headers)
	codec.Enum(f, "state", &m.State, stateNames[:])
	f.Int("attempts", &m.Attempts)
	f.Int("max_attempts", &m.MaxAttempts)
	f.Time("enqueued_at_ms", &m.EnqueuedAt)
	f.Time("leased_until_ms", &m.LeaseUntil)
	f.Time("available_at_ms", &m.AvailableAt)
	f.Time("died_at_ms", &m.DiedAt)
	f.Text("last_error", &m.LastError)
	f.Int("size", &m.Size)
}
