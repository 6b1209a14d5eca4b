package kv

import (
	"context"
	"errors"
	"time"

	"github.com/floedb/floe/internal/engine"
)

type lockKey struct{}

// LockOf returns the lock that WithLock holds for the function with this ctx, or nil. With nested
// calls it returns the innermost lock.
func LockOf(ctx context.Context) *Lock {
	l, _ := ctx.Value(lockKey{}).(*Lock)
	return l
}

// WithLock calls f while it holds the lock key. It acquires the lock, waiting until ctx ends if
// necessary, and renews it while f runs. It releases the lock when f returns or panics, even if ctx
// has ended. If this process crashes, another holder cannot get the lock until ttl has passed.
//
// In f, LockOf(ctx) returns the lock. Make writes that depend on the lock conditional on its Held
// in a transaction, or pass on its Token, the fencing token. The lock alone is not enough, because
// f may still run for a moment after the lock is lost.
//
// The lock is lost if it could not be renewed for ttl, or if its key was deleted. Then the ctx of f
// is cancelled with a cause (context.Cause) that is ErrConflict. WithLock returns that error
// regardless of f's result, even if it detects the loss only after f has returned.
//
// Errors: that of f; ErrConflict if the lock was lost; ErrInvalid for a ttl that is not positive;
// ctx's error, if it ends before the lock is acquired. After ErrUnknownOutcome f was not called,
// and the lock may be held until ttl ends.
func (s *Store) WithLock(ctx context.Context, key string, ttl time.Duration, f func(ctx context.Context) error) error {
	if f == nil {
		return engine.Errorf(ErrInvalid, "kv: lock %q: no function", key)
	}
	l, until, err := s.lock(ctx, key, ttl)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(context.WithValue(ctx, lockKey{}, l))
	h := &holding{lock: l, ttl: ttl, until: until, cancel: cancel, over: make(chan struct{}), ended: make(chan error, 1)}
	go h.renew(context.WithoutCancel(ctx))
	var lost error
	defer func() { cancel(nil) }()
	err = func() error {
		defer func() { lost = h.end() }()
		return f(running)
	}()
	switch {
	case lost == nil:
		return err
	case errors.Is(err, context.Canceled):
		return lost // the cause of the cancellation
	}
	return errors.Join(lost, err)
}

// holding is a lock kept while a function runs.
type holding struct {
	lock   *Lock
	ttl    time.Duration
	until  time.Time // when it ends, unless it is renewed
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when the function has returned
	ended  chan error    // how the lock ended
}

// end releases the lock. Errors: ErrConflict if it had been lost.
func (h *holding) end() error {
	close(h.over)
	return <-h.ended
}

// renew renews the lock whenever a third of its time has passed, until the function has returned;
// then it releases it.
func (h *holding) renew(ctx context.Context) {
	next := h.ttl / 3
	for {
		t := time.NewTimer(next)
		select {
		case <-h.over:
			t.Stop()
			h.ended <- h.unlock(ctx)
			return
		case <-t.C:
		}
		began := time.Now()
		switch err := h.attempt(ctx, func(ctx context.Context) error { _, err := h.lock.Extend(ctx, h.ttl); return err }); {
		case err == nil:
			h.until, next = began.Add(h.ttl), h.ttl/3
		case isLost(err) || !time.Now().Before(h.until):
			lost := engine.Errorf(ErrConflict, "kv: lock %q was lost: %v", shown(h.lock.key), err)
			h.cancel(lost)
			<-h.over
			h.ended <- lost
			return
		default:
			next = min(h.ttl/10, time.Until(h.until))
		}
	}
}

// unlockTime is how long releasing a lock is retried.
const unlockTime = 5 * time.Second

// attempt bounds a call by the time until which the lock is certainly held.
func (h *holding) attempt(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithDeadline(ctx, h.until)
	defer cancel()
	return call(ctx)
}

// unlock releases the lock, if a node is reachable before it expires. Errors: ErrConflict if it had
// been lost.
func (h *holding) unlock(ctx context.Context) error {
	if soon := time.Now().Add(unlockTime); soon.Before(h.until) {
		h.until = soon
	}
	unknown := false
	for {
		err := h.attempt(ctx, h.lock.Unlock)
		switch {
		case err == nil || unknown && isLost(err):
			return nil
		case isLost(err):
			return engine.Errorf(ErrConflict, "kv: lock %q was lost: %v", shown(h.lock.key), err)
		case errors.Is(err, engine.ErrClosed) || h.lock.store.scope.Pause(ctx, min(h.ttl/10, time.Until(h.until))) != nil ||
			!time.Now().Before(h.until):
			return nil // it expires
		}
		unknown = unknown || errors.Is(err, engine.ErrUnknownOutcome)
	}
}

// isLost reports whether an error of Extend or Unlock means that the lock was lost.
func isLost(err error) bool { return errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) }
