package kv

import "github.com/floedb/floe/internal/codec"

// Kinds of queries and errors; the numbers are part of the protocol between processes.
const (
	queryGet uint8 = iota + 1
	queryScan
	queryHistory
	queryWait
	queryChanges
)

const (
	errorConflict uint8 = iota + 1
	errorBound
)

func (*getQuery) Kind() uint8     { return queryGet }
func (*scanQuery) Kind() uint8    { return queryScan }
func (*historyQuery) Kind() uint8 { return queryHistory }
func (*waitQuery) Kind() uint8    { return queryWait }
func (*changesQuery) Kind() uint8 { return queryChanges }

func (q *getQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	codec.ListOf(f, "keys", &q.keys, codec.Text)
	f.Bool("without_values", &q.withoutValues)
}

func (q *getQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "items", &q.entries, (*Entry).code)
	f.Int("left", &q.left)
	if c := f.Binary(); c != nil && c.Reading() && (q.left < 0 || q.left > 0 && q.left >= len(q.keys)) {
		c.Fail("more keys left than asked for")
	}
}

func (q *scanQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("prefix", &q.prefix)
	f.Text("after", &q.after)
	f.Int("limit", &q.limit, codec.Range{Min: 1, Max: MaxPageItems})
	f.Bool("without_values", &q.keysOnly)
	f.Int("max_bytes", &q.maxBytes, codec.Range{Max: maxPageBytes})
	f.Bool("with_revision", &q.position)
}

func (q *scanQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "items", &q.items, func(it *Item, f *codec.Fields) {
		it.Entry.code(f)
		f.Int("size", &it.Size)
	})
	f.Bool("more", &q.more)
	f.Text("last", &q.last)
	f.Uvarint("revision", &q.lsn)
}

func (q *historyQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("key", &q.key)
	f.Bool("without_values", &q.withoutValues)
	f.Uvarint("before", &q.before)
	f.Int("limit", &q.limit, codec.Range{Min: 1, Max: MaxPageItems})
}

func (q *historyQuery) Results(f *codec.Fields) {
	f.Found(&q.found)
	codec.ListOf(f, "versions", &q.versions, (*Version).code)
	f.Bool("more", &q.more)
}

func (v *Version) code(f *codec.Fields) {
	f.Uvarint("version", &v.Version)
	f.Uvarint("revision", &v.Revision)
	f.Uvarint("term", &v.Term)
	f.Time("at_ms", &v.Time)
	f.Int("size", &v.Size)
	f.Bool("tombstone", &v.Tombstone)
	f.Bool("expired", &v.Expired)
	f.Blob("value", &v.Value)
}

func (q *waitQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("key", &q.key)
	f.Uvarint("after", &q.after)
	f.Bool("exists", &q.exists)
}

func (q *waitQuery) Results(f *codec.Fields) { q.event.code(f) }

// maxSentQueue bounds the part of a queue that is sent to a watcher and back with each request. A
// later scan finds the rest again.
const maxSentQueue = 1024

func (q *changesQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("prefix", &q.prefix)
	f.Uvarint("after", &q.after)
	f.Int("limit", &q.limit, codec.Range{Min: 1, Max: watchPage})
	q.codeQueue(f)
	f.Text("scanned", &q.scanned)
	f.Varint("patience_ms", &q.patience, codec.Range{Min: minPatience, Max: maxPatience, Optional: true})
}

func (q *changesQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "events", &q.events, (*Event).code)
	f.Uvarint("next", &q.next)
	f.Bool("compacted", &q.compacted)
	q.codeQueue(f)
	f.Text("scanned", &q.scanned)
}

// codeQueue codes the queue between nodes and watchers, or its beginning if it is long, and the
// revision up to which the coded part reaches.
func (q *changesQuery) codeQueue(f *codec.Fields) {
	c := f.Binary()
	if c == nil {
		return
	}
	queue, end := q.queue, q.queueEnd
	if len(queue) > maxSentQueue && !c.Reading() {
		queue = queue[:maxSentQueue]
		end = queue[maxSentQueue-1].revision
	}
	codec.List(c, &queue, func(c *codec.Coder, k *recentKey) {
		c.Uvarint(&k.revision)
		c.Bytes(&k.key)
	})
	c.Uvarint(&end)
	if c.Reading() {
		q.queue, q.queueEnd = queue, end
	}
}

func (e *Entry) code(f *codec.Fields) {
	f.Text("key", &e.Key)
	f.Blob("value", &e.Value)
	f.Uvarint("revision", &e.Revision)
	f.Uvarint("version", &e.Version)
	f.Time("updated_at_ms", &e.UpdatedAt)
	f.Time("expires_at_ms", &e.ExpiresAt)
}

var eventNames = []string{"none", EventPut: "put", EventDelete: "delete", EventExpire: "expire", EventCompacted: "compacted",
	EventProgress: "progress"}

func (e *Event) code(f *codec.Fields) {
	codec.Enum(f, "type", &e.Type, eventNames)
	f.Text("key", &e.Key)
	f.Blob("value", &e.Value)
	f.Uvarint("revision", &e.Revision)
	f.Uvarint("version", &e.Version)
	f.Time("at_ms", &e.Time)
}

func codeConflict(c *codec.Coder, e *ConflictError) {
	c.String(&e.Key)
	c.Uvarint(&e.Revision)
	c.String(&e.Want)
}

func codeBound(c *codec.Coder, e *BoundError) {
	c.String(&e.Key)
	c.Varint(&e.Value)
	c.Varint(&e.Delta)
	c.Varint(&e.Min)
	c.Varint(&e.Max)
}
