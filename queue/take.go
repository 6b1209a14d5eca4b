package queue

import (
	"context"

	"github.com/floedb/floe/internal/engine"
)

// dequeue leases messages or waits for some. It sends no command unless a message can be delivered,
// so idle consumers write nothing and do not create the namespace.
func (s *Store) dequeue(ctx context.Context, name string, opts []DequeueOption) ([]Message, error) {
	op, wait := dequeueOp(name, opts)
	if wait > 0 {
		ctx = engine.Lasting(ctx)
	}
	return engine.TakeFrom(ctx, &s.scope, op, engine.Take{Wait: wait},
		func(b []byte) ([]Message, error) { return decodeDeliveries(name, b) })
}

// Takeable returns the number of messages available to a dequeue.
func (m *machine) Takeable(v *engine.View, cmd engine.Command, _ bool) (n, most int, err error) {
	if cmd.Kind != kindDequeue {
		return 0, 0, engine.Errorf(ErrInvalid, "queue: command %d takes nothing", cmd.Kind)
	}
	name, b, err := dequeue.Read(cmd)
	if err != nil {
		return 0, 0, err
	}
	if err := v.WaitOn(topicOf(cmd.Namespace, name)); err != nil {
		return 0, 0, err
	}
	r, found, err := lookUp(v, cmd.Namespace, string(name))
	most = int(b.max)
	switch {
	case err != nil || !found:
		return 0, most, err
	case r.timer <= v.Now():
		return int(max(r.ready, 1)), most, nil // due items are processed first
	case r.paused:
		return 0, most, nil
	}
	return int(r.ready), most, nil
}

// Took reports whether a dequeue got messages or was refused.
func (m *machine) Took(_ uint8, result []byte, err error) bool { return err != nil || len(result) > 0 }

// Makes reports which commands make messages ready.
func (m *machine) Makes(cmd engine.Command, made func(engine.Made)) {
	if name, n := commands.Makes(cmd); n > 0 {
		made(engine.Made{Topic: topicOf(cmd.Namespace, name), N: n})
	}
}
