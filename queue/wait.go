package queue

import (
	"context"
	"errors"

	"github.com/floedb/floe/internal/engine"
)

// dequeue leases messages. While there is nothing to get it waits for the queue's topic, and keeps its turn when somebody else was faster. What
// has nothing to deliver gets no command, so idle consumers write nothing; and a namespace that does not exist is not created by asking it.
func (s *Store) dequeue(ctx context.Context, name string, opts []DequeueOption) ([]Message, error) {
	o := newDequeueOptions(opts)
	op := dequeueCommand(name, o)
	if op.Err != nil {
		return nil, op.Err
	}
	waiting := ctx
	if o.wait > 0 {
		ctx = engine.Lasting(ctx)
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, o.wait)
		defer cancel()
	}
	for since := int64(0); ; {
		messages, err := s.take(ctx, name, op)
		if err != nil || len(messages) > 0 || o.wait == 0 {
			return messages, err
		}
		if since, err = s.await(waiting, name, since); err != nil {
			// Only the wait may have ended, not the call.
			if waiting.Err() != nil && ctx.Err() == nil && errors.Is(err, waiting.Err()) {
				return nil, nil
			}
			return nil, err
		}
	}
}

// take leases what there is.
func (s *Store) take(ctx context.Context, name string, op engine.Op) ([]Message, error) {
	if row, ok := s.scope.Cached(engine.MachineQueue, 'q', name); ok {
		if r, err := decodeRecord(row); err == nil && !r.deliverable() {
			return nil, ctx.Err()
		}
	}
	exists, err := s.scope.Exists(ctx)
	if err != nil || !exists {
		return nil, err
	}
	return engine.Propose(ctx, &s.scope, op, func(result []byte) ([]Message, error) { return decodeDeliveries(name, result) })
}

// await waits until there seems to be something to take.
func (s *Store) await(ctx context.Context, name string, since int64) (int64, error) {
	if err := s.scope.Await(ctx); err != nil {
		return since, err
	}
	q := waitQuery{namespace: s.scope.Namespace(), name: name, since: since}
	err := s.scope.Query(ctx, name, &q)
	return q.since, err
}
