package main

import (
	"context"
	"fmt"
)

// queuesPerRow is the number of queues that the callers of a row share: enough for every shard to
// have some.
const queuesPerRow = 16

func (b *bench) queues() (rows []row) {
	for _, shards := range b.settings.shards {
		s := setup{shards: shards}
		rows = append(rows, row{
			name: fmt.Sprintf("enqueue/64/shards=%d", shards), against: limitL1, bar: 0.65,
			work: duel{load: b.writes(64), floe: b.enqueues(s), limit: b.bareFile(0)},
		}, row{
			name: fmt.Sprintf("enqueue-put/64/shards=%d", shards), against: limitPut, bar: 0.9,
			work: duel{load: b.writes(64), floe: b.enqueues(s), limit: b.puts(s)},
		}, row{
			name: fmt.Sprintf("queue/64/shards=%d", shards), against: limitL1, bar: 0.3,
			work: duel{load: b.writes(64), floe: b.deliveries(s), limit: b.bareFile(0)},
		})
	}
	return rows
}

func (w *worker) queue() string { return fmt.Sprint("queue", w.id%queuesPerRow) }

// enqueues returns floe's side: enqueues to several queues.
func (b *bench) enqueues(s setup) side {
	return func(dir string) (*subject, error) {
		n, err := s.open(dir)
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		return &subject{
			ops: 1, bytes: valueBytes, close: n.close,
			call: func(w *worker) error {
				_, err := n.queues.Enqueue(ctx, w.queue(), b.values.cut(w.rng))
				return err
			},
		}, nil
	}
}

// deliveries returns floe's side: enqueue, lease and ack of messages in several queues, each in a
// separate call.
func (b *bench) deliveries(s setup) side {
	return func(dir string) (*subject, error) {
		n, err := s.open(dir)
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		return &subject{
			ops: 1, bytes: valueBytes, close: n.close,
			call: func(w *worker) error {
				name := w.queue()
				if _, err := n.queues.Enqueue(ctx, name, b.values.cut(w.rng)); err != nil {
					return err
				}
				got, err := n.queues.Dequeue(ctx, name)
				if err == nil && len(got) != 1 {
					err = fmt.Errorf("%s: %d messages, want the one that was enqueued, or another", name, len(got))
				}
				if err != nil {
					return err
				}
				_, err = n.queues.Ack(ctx, name, got[0].Receipt)
				return err
			},
		}, nil
	}
}
