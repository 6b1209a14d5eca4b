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

func (q *getQuery) Arguments(c *codec.Coder) {
	c.String(&q.namespace)
	codec.List(c, &q.keys, (*codec.Coder).String)
	c.Bool(&q.withoutValues)
}

func (q *getQuery) Results(c *codec.Coder) {
	codec.List(c, &q.entries, codeEntry)
	c.Int(&q.left)
	if c.Reading() && (q.left < 0 || q.left > 0 && q.left >= len(q.keys)) {
		c.Fail("more keys left than asked for")
	}
}

func (q *scanQuery) Arguments(c *codec.Coder) {
	c.String(&q.namespace)
	c.String(&q.prefix)
	c.String(&q.after)
	c.Int(&q.limit)
	c.Bool(&q.keysOnly)
	c.Int(&q.maxBytes)
	c.Bool(&q.position)
	if q.limit < 1 || q.limit > MaxPageItems || q.maxBytes < 0 || q.maxBytes > maxPageBytes {
		c.Fail("limit out of range")
	}
}

func (q *scanQuery) Results(c *codec.Coder) {
	codec.List(c, &q.items, func(c *codec.Coder, it *Item) {
		codeEntry(c, &it.Entry)
		c.Int(&it.Size)
	})
	c.Bool(&q.more)
	c.String(&q.last)
	c.Uvarint(&q.lsn)
}

func (q *historyQuery) Arguments(c *codec.Coder) {
	c.String(&q.namespace)
	c.String(&q.key)
	c.Bool(&q.withoutValues)
}

func (q *historyQuery) Results(c *codec.Coder) {
	codec.List(c, &q.versions, func(c *codec.Coder, v *Version) {
		c.Uvarint(&v.Version)
		c.Uvarint(&v.Revision)
		c.Uvarint(&v.Term)
		c.Time(&v.Time)
		c.Int(&v.Size)
		c.Bool(&v.Tombstone)
		c.Bool(&v.Expired)
		c.Bytes(&v.Value)
	})
}

func (q *waitQuery) Arguments(c *codec.Coder) {
	c.String(&q.namespace)
	c.String(&q.key)
	c.Uvarint(&q.after)
	c.Bool(&q.exists)
}

func (q *waitQuery) Results(c *codec.Coder) { codeEvent(c, &q.event) }

// maxSentQueue bounds what of a queue travels to a watcher and back with each of his looks; the rest is found again.
const maxSentQueue = 1024

func (q *changesQuery) Arguments(c *codec.Coder) {
	c.String(&q.namespace)
	c.String(&q.prefix)
	c.Uvarint(&q.after)
	c.Int(&q.limit)
	q.codeQueue(c)
	c.String(&q.scanned)
	c.Varint(&q.patience)
	if q.limit < 1 || q.limit > watchPage {
		c.Fail("limit out of range")
	}
	if q.patience != 0 && (q.patience < minPatience || q.patience > maxPatience) {
		c.Fail("patience out of range")
	}
}

func (q *changesQuery) Results(c *codec.Coder) {
	codec.List(c, &q.events, codeEvent)
	c.Uvarint(&q.next)
	c.Bool(&q.compacted)
	q.codeQueue(c)
	c.String(&q.scanned)
}

// codeQueue codes the queue, or its beginning: then that is told which it reaches to.
func (q *changesQuery) codeQueue(c *codec.Coder) {
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

func codeEntry(c *codec.Coder, e *Entry) {
	c.String(&e.Key)
	c.Bytes(&e.Value)
	c.Uvarint(&e.Revision)
	c.Uvarint(&e.Version)
	c.Time(&e.UpdatedAt)
	c.Time(&e.ExpiresAt)
}

func codeEvent(c *codec.Coder, e *Event) {
	c.Byte((*byte)(&e.Type))
	c.String(&e.Key)
	c.Bytes(&e.Value)
	c.Uvarint(&e.Revision)
	c.Uvarint(&e.Version)
	c.Time(&e.Time)
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
