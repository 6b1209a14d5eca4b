package queue

import (
	"context"

	"github.com/floedb/floe/internal/engine"
)

// dequeue leases messages, or waits for some. What has nothing to deliver gets no command, so idle consumers write nothing; and a namespace that
// does not exist is not created by asking it.
func (s *Store) dequeue(ctx context.Context, name string, opts []DequeueOption) ([]Message, error) {
	o := newDequeueOptions(opts)
	op := dequeueCommand(name, o)
	if op.Err != nil {
		return nil, op.Err
	}
	if o.wait > 0 {
		ctx = engine.Lasting(ctx)
	}
	return engine.TakeFrom(ctx, &s.scope, op, engine.Take{Wait: o.wait}, func(b []byte) ([]Message, error) { return decodeDeliveries(name, b) })
}

// Takeable says how many messages there are for a dequeue.
func (m *machine) Takeable(v *engine.View, cmd engine.Command, _ bool) (n, most int, err error) {
	var c command
	if err := c.decode(cmd.Kind, cmd.Body); err != nil {
		return 0, 0, err
	}
	if cmd.Kind != kindDequeue {
		return 0, 0, engine.Errorf(ErrInvalid, "queue: command %d takes nothing", cmd.Kind)
	}
	if err := v.WaitOn(topicOf(cmd.Namespace, c.name)); err != nil {
		return 0, 0, err
	}
	r, found, err := lookUp(v, cmd.Namespace, string(c.name))
	switch {
	case err != nil || !found:
		return 0, c.max, err
	case r.timer <= v.Now():
		return int(max(r.ready, 1)), c.max, nil // what is due happens first
	case r.paused:
		return 0, c.max, nil
	}
	return int(r.ready), c.max, nil
}

// Took reports whether a dequeue has got something, or was refused.
func (m *machine) Took(_ uint8, result []byte, err error) bool { return err != nil || len(result) > 0 }

// Makes says which commands make messages ready.
func (m *machine) Makes(cmd engine.Command, made func(engine.Made)) {
	n := 0
	switch cmd.Kind {
	case kindEnqueue, kindNack, kindRelease, kindPause, kindRequeue, kindRedrive:
	default:
		return
	}
	var c command
	if c.decode(cmd.Kind, cmd.Body) != nil {
		return
	}
	switch cmd.Kind {
	case kindEnqueue:
		for i := range c.messages {
			if c.messages[i].delay == 0 {
				n++
			}
		}
	case kindNack:
		if !c.nack.bury && c.nack.delay == 0 {
			n = 1 // unless the queue has a back-off
		}
	case kindRelease:
		n = len(c.receipts)
	case kindRequeue:
		n = 1
	case kindPause:
		if !c.pause {
			n = MaxBatch
		}
	case kindRedrive:
		n = MaxBatch
	}
	if n > 0 {
		made(engine.Made{Topic: topicOf(cmd.Namespace, c.name), N: n})
	}
}
