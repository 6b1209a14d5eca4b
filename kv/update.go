package kv

import (
	"context"
	"errors"
	"github.com/floedb/floe/internal/engine"
	"math/rand/v2"
	"time"
)

// Returned by the function of an Update instead of a value.
var (
	ErrUnchanged = errors.New("leave the key as it is") // makes Update leave the key unchanged
	ErrDelete    = errors.New("delete the key")         // makes Update delete the key
)

// UpdateOption changes what Update writes.
type UpdateOption interface{ applyUpdate(*[]PutOption) }

func (t TTLOption) applyUpdate(o *[]PutOption) { *o = append(*o, t) }

// Update replaces the value at key with the result of f. f receives the current entry, or the zero
// Entry if the key does not exist. If the key changes in the meantime, Update reads it again and
// calls f again, until the write succeeds or ctx ends. So f may be called any number of times, and
// should have no side effects. It may modify and return e.Value.
//
// If f returns ErrUnchanged, nothing is written. If it returns ErrDelete, the key is deleted if it
// exists. Any other error is returned, and nothing is written. An existing expiry is kept, unless
// there is a TTL. Update returns the key's resulting state: the zero Written if it does not exist.
//
// When Update returns nil, the value is committed (see floe.Config.Durability) and visible to every
// reader. After a ctx error or ErrUnknownOutcome it may or may not have been written.
//
// Options: TTL. Errors: that of f; ErrInvalid for a key that is not 1-4096 bytes, a value over the
// limit, a TTL that is not positive.
func (s *Store) Update(ctx context.Context, key string, f func(e Entry) ([]byte, error), opts ...UpdateOption) (Written, error) {
	opts, err := engine.Given(opts)
	if err == nil && f == nil {
		err = engine.Errorf(ErrInvalid, "kv: update %q: no function", key)
	}
	if err != nil {
		return Written{}, err
	}
	var put []PutOption
	for _, opt := range opts {
		opt.applyUpdate(&put)
	}
	if len(put) == 0 {
		put = append(put, KeepTTL())
	}
	if o := putOptions(put); o.err != nil {
		return Written{}, o.err // also if f leaves the key as it is
	}
	for pause := minUpdatePause; ; pause = min(2*pause, maxUpdatePause) {
		w, late, err := s.tryUpdate(ctx, key, f, put)
		if !late {
			return w, err
		}
		if err := s.scope.Pause(ctx, rand.N(pause)); err != nil {
			return Written{}, err
		}
	}
}

// Bounds of the pause before an Update that lost a race retries. One of several concurrent updates
// always succeeds.
const (
	minUpdatePause = time.Millisecond
	maxUpdatePause = 100 * time.Millisecond
)

// tryUpdate makes one attempt. late means that the key was changed in the meantime.
func (s *Store) tryUpdate(ctx context.Context, key string, f func(e Entry) ([]byte, error), put []PutOption) (w Written, late bool,
	err error) {
	e, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Written{}, false, err
	}
	value, err := f(e)
	switch {
	case err == nil:
		put = append(put[:len(put):len(put)], IfRevision(e.Revision))
		w, err = s.Put(ctx, key, value, put...)
		return w, errors.Is(err, ErrConflict), err
	case errors.Is(err, ErrDelete) && e.Revision > 0:
		_, err = s.Delete(ctx, key, IfRevision(e.Revision))
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
		return Written{}, errors.Is(err, ErrConflict), err
	case errors.Is(err, ErrUnchanged), errors.Is(err, ErrDelete):
		return Written{Revision: e.Revision, Version: e.Version}, false, nil
	}
	return Written{}, false, err
}
