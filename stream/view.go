package stream

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/floedb/floe/internal/engine"
)

// View is a Store whose payloads are JSON values of type T. It is cheap to make, safe for
// concurrent use and needs no Close. For everything else use the Store.
type View[T any] struct{ store *Store }

// JSON returns a view of a store whose payloads are encoded by encoding/json:
//
//	orders := stream.JSON[Order](node.Stream("default"))
//	_, err := orders.Append(ctx, "orders", "customer-7", Order{Total: 12})
//	err = orders.Consume(ctx, "orders", "billing", func(ctx context.Context, d stream.DeliveryOf[Order]) error {
//		return bill(ctx, d.Key, d.Value.Total)
//	})
func JSON[T any](s *Store) View[T] { return View[T]{s} }

// RecordOf is a Record with its decoded payload.
type RecordOf[T any] struct {
	Record
	Value T
}

// DeliveryOf is a Delivery with its decoded payload.
type DeliveryOf[T any] struct {
	Delivery
	Value T
}

// DecodeError reports a payload that a View cannot decode. It is ErrInvalid.
type DecodeError struct {
	Stream    string
	Partition int
	Offset    uint64
	Err       error // of encoding/json
}

func (e *DecodeError) Error() string {
	return engine.Text("stream %q: payload of record %d of partition %d: %v", e.Stream, e.Offset, e.Partition, e.Err)
}

// Unwrap returns ErrInvalid and Err.
func (e *DecodeError) Unwrap() []error { return []error{ErrInvalid, e.Err} }

// Append appends a record with a key, or "" for none. Options and errors: those of Store.Append;
// ErrInvalid if the value cannot be encoded.
func (v View[T]) Append(ctx context.Context, name, key string, value T, opts ...AppendOption) (Appended, error) {
	b, err := encode(name, value)
	if err != nil {
		return Appended{}, err
	}
	return v.store.Append(ctx, name, Message{Key: key, Payload: b}, opts...)
}

// AppendOp is Append as an operation of a transaction.
func (v View[T]) AppendOp(name, key string, value T, opts ...AppendOption) OpOf[Appended] {
	b, err := encode(name, value)
	if err != nil {
		return opOf[Appended](engine.Op{Err: err})
	}
	return AppendOp(name, Message{Key: key, Payload: b}, opts...)
}

// Read is Store.Read with decoded payloads. It takes the same options. If a payload cannot be
// decoded, it returns a *DecodeError with the records before that one.
func (v View[T]) Read(ctx context.Context, name string, opts ...ReadOption) ([]RecordOf[T], error) {
	recs, err := v.store.Read(ctx, name, opts...)
	all := make([]RecordOf[T], 0, len(recs))
	for _, rec := range recs {
		r, err := v.record(name, rec)
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, err
}

// Follow is Store.Follow with decoded payloads. It takes the same options. Each pair is a record
// and nil, or a zero record and an error, possibly a *DecodeError, after which iteration ends.
// Nothing runs before the first step; break or a done ctx releases everything.
func (v View[T]) Follow(ctx context.Context, name string, opts ...FollowOption) iter.Seq2[RecordOf[T], error] {
	return func(yield func(RecordOf[T], error) bool) {
		for rec, err := range v.store.Follow(ctx, name, opts...) {
			var r RecordOf[T]
			if err == nil {
				r, err = v.record(name, rec)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Consume is Store.Consume with decoded payloads. A record whose payload cannot be decoded becomes
// a dead letter at once, with the *DecodeError as its reason.
func (v View[T]) Consume(ctx context.Context, stream, group string, handle func(ctx context.Context, d DeliveryOf[T]) error,
	opts ...ConsumeOption) error {
	if handle == nil {
		return v.store.Consume(ctx, stream, group, nil, opts...)
	}
	return v.store.Consume(ctx, stream, group, func(ctx context.Context, d Delivery) error {
		r, err := v.record(stream, d.Record)
		if err != nil {
			return Permanent(err)
		}
		return handle(ctx, DeliveryOf[T]{d, r.Value})
	}, opts...)
}

func (v View[T]) record(name string, rec Record) (RecordOf[T], error) {
	r := RecordOf[T]{Record: rec}
	if err := json.Unmarshal(rec.Payload, &r.Value); err != nil {
		return RecordOf[T]{}, &DecodeError{Stream: name, Partition: rec.Partition, Offset: rec.Offset, Err: err}
	}
	return r, nil
}

func encode[T any](name string, value T) ([]byte, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, engine.Errorf(ErrInvalid, "stream %q: payload: %v", name, err)
	}
	return b, nil
}
