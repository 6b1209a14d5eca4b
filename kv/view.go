package kv

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// View is a Store whose values have type T, encoded as JSON. It is cheap to make, safe for
// concurrent use and needs no Close. For Delete, Touch, WaitChange and other operations without a
// method here, use the Store.
//
// A value that cannot be decoded causes a *DecodeError, which is ErrInvalid. A value that cannot be
// encoded causes ErrInvalid.
type View[T any] struct{ store *Store }

// JSON returns a view of a store whose values are encoded by encoding/json:
//
//	users := kv.JSON[User](node.KV("default"))
//	_, err := users.Put(ctx, "user:42", User{Name: "Ada"})
//	ada, err := users.Get(ctx, "user:42")
func JSON[T any](s *Store) View[T] { return View[T]{s} }

// EntryOf is an Entry whose value has type T.
type EntryOf[T any] struct {
	Key       string
	Value     T
	Revision  uint64
	Version   uint64
	UpdatedAt time.Time
	ExpiresAt time.Time // zero: never
}

// EventOf is an Event whose value has type T; it is the zero value except for a put.
type EventOf[T any] struct {
	Type     EventType
	Key      string
	Value    T
	Revision uint64
	Version  uint64
	Time     time.Time
}

// DecodeError reports a value that cannot be decoded into the View's type. It is ErrInvalid.
type DecodeError struct {
	Key      string
	Revision uint64 // of the value
	Err      error  // of encoding/json
}

func (e *DecodeError) Error() string {
	return engine.Text("kv: value of key %q at revision %d: %v", e.Key, e.Revision, e.Err)
}

// Unwrap returns ErrInvalid and Err.
func (e *DecodeError) Unwrap() []error { return []error{ErrInvalid, e.Err} }

// Get returns the value at key. Errors: ErrNotFound; *DecodeError.
func (v View[T]) Get(ctx context.Context, key string) (T, error) {
	e, err := v.Entry(ctx, key)
	return e.Value, err
}

// Entry returns the value at key with its revision, for use with IfRevision, its version and times.
// Errors: ErrNotFound; *DecodeError.
func (v View[T]) Entry(ctx context.Context, key string) (EntryOf[T], error) {
	e, err := v.store.Get(ctx, key)
	if err != nil {
		return EntryOf[T]{}, err
	}
	return entryOf[T](e)
}

// Put stores value at key. Options and errors: those of Store.Put.
func (v View[T]) Put(ctx context.Context, key string, value T, opts ...PutOption) (Written, error) {
	b, err := encode(key, value)
	if err != nil {
		return Written{}, err
	}
	return v.store.Put(ctx, key, b, opts...)
}

// PutOp is Put as an operation of a transaction.
func (v View[T]) PutOp(key string, value T, opts ...PutOption) OpOf[Written] {
	b, err := encode(key, value)
	if err != nil {
		return opOf[Written](engine.Op{Err: err})
	}
	return PutOp(key, b, opts...)
}

// Update replaces the value at key with the result of f for the current value; see Store.Update.
// The entry is the zero EntryOf if the key does not exist. Errors: also *DecodeError.
func (v View[T]) Update(ctx context.Context, key string, f func(e EntryOf[T]) (T, error), opts ...UpdateOption) (Written, error) {
	if f == nil {
		return v.store.Update(ctx, key, nil, opts...)
	}
	return v.store.Update(ctx, key, func(e Entry) ([]byte, error) {
		var present EntryOf[T]
		if e.Revision > 0 {
			var err error
			if present, err = entryOf[T](e); err != nil {
				return nil, err
			}
		}
		value, err := f(present)
		if err != nil {
			return nil, err
		}
		return encode(key, value)
	}, opts...)
}

// Scan iterates over the keys and values of Store.All, with its options. Each pair is an entry and
// nil, or a zero entry and an error, possibly a *DecodeError, after which iteration ends. Nothing
// runs before the first step, and break or a done ctx releases everything.
func (v View[T]) Scan(ctx context.Context, opts ...ListOption) iter.Seq2[EntryOf[T], error] {
	return func(yield func(EntryOf[T], error) bool) {
		for item, err := range v.store.All(ctx, opts...) {
			var e EntryOf[T]
			switch {
			case err != nil:
			case item.Value == nil: // NoValues
				e = EntryOf[T]{Key: item.Key, Revision: item.Revision, Version: item.Version, UpdatedAt: item.UpdatedAt,
					ExpiresAt: item.ExpiresAt}
			default:
				e, err = entryOf[T](item.Entry)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Watch iterates over the events of Store.Watch, with its options. Each pair is an event and nil,
// or a zero event and an error, possibly a *DecodeError, after which iteration ends. To continue
// past such a value, watch the Store itself.
func (v View[T]) Watch(ctx context.Context, prefix string, opts ...WatchOption) iter.Seq2[EventOf[T], error] {
	return func(yield func(EventOf[T], error) bool) {
		for e, err := range v.store.Watch(ctx, prefix, opts...) {
			out := EventOf[T]{Type: e.Type, Key: e.Key, Revision: e.Revision, Version: e.Version, Time: e.Time}
			if err == nil && e.Type == EventPut {
				out.Value, err = decode[T](e.Key, e.Revision, e.Value)
			}
			if err != nil {
				out = EventOf[T]{}
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

func entryOf[T any](e Entry) (EntryOf[T], error) {
	value, err := decode[T](e.Key, e.Revision, e.Value)
	if err != nil {
		return EntryOf[T]{}, err
	}
	return EntryOf[T]{e.Key, value, e.Revision, e.Version, e.UpdatedAt, e.ExpiresAt}, nil
}

func decode[T any](key string, revision uint64, b []byte) (value T, err error) {
	if err := json.Unmarshal(b, &value); err != nil {
		var zero T
		return zero, &DecodeError{Key: key, Revision: revision, Err: err}
	}
	return value, nil
}

func encode[T any](key string, value T) ([]byte, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, engine.Errorf(ErrInvalid, "kv: value for key %q: %v", shown(key), err)
	}
	return b, nil
}
