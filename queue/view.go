package queue

import (
	"context"
	"encoding/json"

	"github.com/floedb/floe/internal/engine"
)

// View is a Store whose payloads have type T, encoded as JSON. It is cheap to make, safe for
// concurrent use and needs no Close. For operations without a method here, use the Store.
type View[T any] struct{ store *Store }

// JSON returns a view of a store whose payloads are encoded by encoding/json:
//
//	mail := queue.JSON[Mail](node.Queue("default"))
//	_, err := mail.Enqueue(ctx, "mail", Mail{To: "ada"})
//	err = mail.Consume(ctx, "mail", func(ctx context.Context, m queue.MessageOf[Mail]) error {
//		return send(ctx, m.Value.To)
//	})
func JSON[T any](s *Store) View[T] { return View[T]{s} }

// MessageOf is a Message with its decoded payload.
type MessageOf[T any] struct {
	Message
	Value T
}

// DecodeError reports a payload that cannot be decoded into the View's type. It is ErrInvalid.
type DecodeError struct {
	Queue string
	Seq   uint64 // of the message
	Err   error  // of encoding/json
}

func (e *DecodeError) Error() string {
	return engine.Text("queue %q: payload of message %d: %v", e.Queue, e.Seq, e.Err)
}

// Unwrap returns ErrInvalid and Err.
func (e *DecodeError) Unwrap() []error { return []error{ErrInvalid, e.Err} }

// Enqueue adds a message. Options and errors: those of Store.Enqueue; ErrInvalid if the value
// cannot be encoded.
func (v View[T]) Enqueue(ctx context.Context, name string, value T, opts ...EnqueueOption) (Enqueued, error) {
	b, err := encode(name, value)
	if err != nil {
		return Enqueued{}, err
	}
	return v.store.Enqueue(ctx, name, b, opts...)
}

// EnqueueOp is Enqueue as an operation of a transaction.
func (v View[T]) EnqueueOp(name string, value T, opts ...EnqueueOption) OpOf[Enqueued] {
	b, err := encode(name, value)
	if err != nil {
		return opOf[Enqueued](engine.Op{Err: err})
	}
	return EnqueueOp(name, b, opts...)
}

// Decode decodes the payload of a message, such as one returned by Dequeue or a transaction.
// Errors: *DecodeError.
func (v View[T]) Decode(m Message) (MessageOf[T], error) {
	out := MessageOf[T]{Message: m}
	if err := json.Unmarshal(m.Payload, &out.Value); err != nil {
		var zero T
		out.Value = zero
		return out, &DecodeError{Queue: m.Queue, Seq: m.Seq, Err: err}
	}
	return out, nil
}

// Consume processes a queue: see Store.Consume. A message whose payload cannot be decoded becomes
// a dead letter at once, with the *DecodeError as its reason.
func (v View[T]) Consume(ctx context.Context, name string, handle func(ctx context.Context, m MessageOf[T]) error,
	opts ...ConsumeOption) error {
	if handle == nil {
		return v.store.Consume(ctx, name, nil, opts...)
	}
	return v.store.Consume(ctx, name, func(ctx context.Context, m Message) error {
		decoded, err := v.Decode(m)
		if err != nil {
			return Permanent(err)
		}
		return handle(ctx, decoded)
	}, opts...)
}

func encode[T any](name string, value T) ([]byte, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, engine.Errorf(ErrInvalid, "queue %q: payload: %v", name, err)
	}
	return b, nil
}
