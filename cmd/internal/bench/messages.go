package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// These rows have one shard, because a queue or stream is in one shard.
const (
	topic       = "topic" // name of the queue or stream
	consumers   = "group"
	batchOf     = 100
	recordBytes = 1024
)

// messages returns the rows of a single queue or stream, in addition to those of queues. Some have
// many messages in the queue or stream, or before them; some process one million from beginning to
// end.
func (b *bench) messages() []row {
	one, s := b.writes(64), setup{shards: 1}
	return []row{
		{
			name: "queue/behind/64", against: limitEmptyQueue, bar: 0.9,
			work: duel{load: one, floe: b.cycles(s, b.settings.behind, 0), limit: b.cycles(s, 0, 0)},
		},
		{
			name: "queue/after/64", against: limitEmptyQueue, bar: 0.9,
			work: duel{load: one, floe: b.cycles(s, 0, 10*b.settings.behind), limit: b.cycles(s, 0, 0), once: true},
		},
		{
			name: "queue/batch=100/64", against: limitL1,
			work: duel{load: one, floe: b.batchCycles(s), limit: b.bareFile(0)},
		},
		{
			name: "queue/million/64", against: limitL1,
			work: duel{load: one, floe: b.cycles(s, 0, 0), limit: b.bareFile(0), once: true, calls: int64(b.settings.behind)},
		},
		{
			name: "stream/append/64", against: limitL1, bar: 0.65,
			work: duel{load: one, floe: b.appendsTo(s, 1, valueBytes), limit: b.bareFile(0)},
		},
		{
			name: "stream/append/batch=100/64", against: limitL4, bar: 0.35,
			work: duel{load: one, floe: b.appendsTo(s, batchOf, recordBytes), limit: b.sequential()},
		},
		{
			name: "stream/group/batch=100/64", bar: 500_000, unit: "records/s/core", absolute: true, more: true,
			work: perCore{duel{load: one, floe: b.groupReads(s), limit: b.bareFile(0)}},
		},
		{
			name: "stream/group/64", against: limitL1,
			work: duel{load: one, floe: b.streamCycles(s, 0, 1), limit: b.bareFile(0)},
		},
		{
			name: "stream/after/64", against: limitEmptyStream, bar: 0.9,
			work: duel{load: one, floe: b.streamCycles(s, b.settings.behind, 1), limit: b.streamCycles(s, 0, 1)},
		},
		{
			name: "stream/million/batch=100/64", against: limitL1,
			work: duel{load: one, floe: b.streamCycles(s, 0, batchOf), limit: b.bareFile(0), once: true,
				calls: int64(b.settings.behind / batchOf)},
		},
		{
			name: "txn/mixed/64", against: limitPut, bar: 0.5,
			work: duel{load: one, floe: b.mixedTxns(s), limit: b.puts(s)},
		},
	}
}

// on returns a side that opens a node, prepares it, and calls it.
func (b *bench) on(s setup, of subject, prepare func(n *node) error, call func(n *node, w *worker) error) side {
	return func(dir string) (*subject, error) {
		n, err := s.open(dir)
		if err != nil {
			return nil, err
		}
		on := of
		on.warm = func() error { return prepare(n) }
		on.call = func(w *worker) error { return call(n, w) }
		on.close = n.close
		return &on, nil
	}
}

func noPreparation(*node) error { return nil }

// cycles returns floe's side: enqueue, dequeue and ack of messages in separate calls. behind
// messages stay in the queue, and after messages were consumed before.
func (b *bench) cycles(s setup, behind, after int) side {
	prepare := func(n *node) error {
		if err := b.consume(n, after); err != nil {
			return err
		}
		return b.enqueueMany(n, behind)
	}
	return b.on(s, subject{ops: 1, bytes: valueBytes}, prepare, func(n *node, w *worker) error {
		ctx := context.Background()
		if _, err := n.queues.Enqueue(ctx, topic, b.values.cut(w.rng)); err != nil {
			return err
		}
		return takeFrom(n, 1)
	})
}

// takeFrom dequeues and acknowledges count messages.
func takeFrom(n *node, count int) error {
	ctx := context.Background()
	got, err := n.queues.Dequeue(ctx, topic, queue.Max(count))
	if err != nil {
		return err
	}
	if len(got) != count {
		return fmt.Errorf("dequeue: %d messages, want %d", len(got), count)
	}
	receipts := make([]queue.Receipt, len(got))
	for i, m := range got {
		receipts[i] = m.Receipt
	}
	_, err = n.queues.Ack(ctx, topic, receipts...)
	return err
}

// batchCycles is cycles with a hundred messages per call.
func (b *bench) batchCycles(s setup) side {
	return b.on(s, subject{ops: batchOf, bytes: batchOf * valueBytes}, noPreparation, func(n *node, w *worker) error {
		if err := b.enqueueBatch(n, w, batchOf); err != nil {
			return err
		}
		return takeFrom(n, batchOf)
	})
}

func (b *bench) enqueueBatch(n *node, w *worker, count int) error {
	list := make([]queue.NewMessage, count)
	for i := range list {
		list[i].Payload = b.values.cut(w.rng)
	}
	_, err := n.queues.EnqueueMany(context.Background(), topic, list)
	return err
}

// inBatches performs count operations, a thousand at a time, with four callers.
func (b *bench) inBatches(count int, f func(w *worker, n int) error) error {
	if count == 0 {
		return nil
	}
	size := min(count, queue.MaxBatch)
	l := load{callers: 4, last: time.Hour, sample: 1, calls: int64(count / size)}
	_, err := l.run(&subject{ops: size, call: func(w *worker) error { return f(w, size) }}, l.workers(b.seed))
	return err
}

func (b *bench) enqueueMany(n *node, count int) error {
	return b.inBatches(count, func(w *worker, size int) error { return b.enqueueBatch(n, w, size) })
}

func (b *bench) consume(n *node, count int) error {
	return b.inBatches(count, func(w *worker, size int) error {
		if err := b.enqueueBatch(n, w, size); err != nil {
			return err
		}
		return takeFrom(n, size)
	})
}

// appendsTo returns floe's side: appends of batches of records to a stream.
func (b *bench) appendsTo(s setup, count, size int) side {
	return b.on(s, subject{ops: count, bytes: count * size}, noPreparation, func(n *node, w *worker) error {
		_, err := n.streams.AppendMany(context.Background(), topic, b.records(w, count, size))
		return err
	})
}

func (b *bench) records(w *worker, count, size int) []stream.Message {
	list := make([]stream.Message, count)
	for i := range list {
		at := w.rng.IntN(len(b.values) - size)
		list[i].Payload = b.values[at : at+size]
	}
	return list
}

// streamCycles returns floe's side: append, group read and ack of records in batches. after records
// were consumed before.
func (b *bench) streamCycles(s setup, after, count int) side {
	prepare := func(n *node) error {
		return b.inBatches(after, func(w *worker, size int) error { return b.streamCycle(n, w, size) })
	}
	return b.on(s, subject{ops: count, bytes: count * valueBytes}, prepare,
		func(n *node, w *worker) error { return b.streamCycle(n, w, count) })
}

func (b *bench) streamCycle(n *node, w *worker, count int) error {
	ctx := context.Background()
	if _, err := n.streams.AppendMany(ctx, topic, b.records(w, count, valueBytes)); err != nil {
		return err
	}
	got, err := n.streams.ReadGroup(ctx, topic, consumers, strconv.Itoa(w.id), stream.Limit(count))
	if err != nil {
		return err
	}
	if len(got) != count {
		return fmt.Errorf("group read: %d records, want %d", len(got), count)
	}
	_, err = n.streams.Ack(ctx, topic, consumers, stream.RefsOf(got)...)
	return err
}

// groupReads returns floe's side: batches of existing records of a stream, read and acknowledged.
// Each caller has a group, which starts again after the last record.
func (b *bench) groupReads(s setup) side {
	prepare := func(n *node) error {
		return b.inBatches(b.settings.behind, func(w *worker, size int) error {
			_, err := n.streams.AppendMany(context.Background(), topic, b.records(w, size, valueBytes))
			return err
		})
	}
	return b.on(s, subject{ops: batchOf}, prepare, func(n *node, w *worker) error {
		ctx, group := context.Background(), strconv.Itoa(w.id)
		got, err := n.streams.ReadGroup(ctx, topic, group, "consumer", stream.Limit(batchOf))
		if err != nil {
			return err
		}
		if len(got) < batchOf {
			return n.streams.Seek(ctx, topic, group, stream.FromBeginning())
		}
		_, err = n.streams.Ack(ctx, topic, group, stream.RefsOf(got)...)
		return err
	})
}

// perCore measures the rate per core, from the processor time of the process, including its
// callers.
type perCore struct{ duel }

func (p perCore) measure(b *bench) (result, error) {
	res, err := p.duel.measure(b)
	res.value = float64(time.Second) / float64(max(res.used, 1))
	return res, err
}

// sequential is L4: a file that grows by 1 MiB at a time, with a sync for each.
func (b *bench) sequential() side {
	return func(dir string) (*subject, error) {
		f, err := newFS(0).Create(filepath.Join(dir, "segment"), vfs.WriteCategoryUnspecified)
		if err != nil {
			return nil, err
		}
		const size = 1 << 20
		done := make(chan struct{}, 1)
		return &subject{
			ops: size / recordBytes, bytes: size, close: f.Close,
			call: func(w *worker) error {
				done <- struct{}{}
				defer func() { <-done }()
				at := w.rng.IntN(len(b.values) - size)
				_, err := f.Write(b.values[at : at+size])
				return errors.Join(err, f.SyncData())
			},
		}, nil
	}
}

// A mixed transaction is a comparison, a put, an enqueue and an append.
const mixedOps = 4

func (b *bench) mixedTxns(s setup) side {
	return b.on(s, subject{ops: mixedOps, bytes: keyBytes + 3*valueBytes}, noPreparation, func(n *node, w *worker) error {
		key := w.keys.take()
		return n.commit(context.Background(), []floe.Condition{kv.Absent(key)},
			kv.PutOp(key, b.values.cut(w.rng)),
			queue.EnqueueOp(topic, b.values.cut(w.rng)),
			stream.AppendOp(topic, stream.Message{Payload: b.values.cut(w.rng)}),
		)
	})
}
