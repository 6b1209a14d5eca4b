package kv

import (
	"context"
	"errors"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Lock is a lease on a key. It protects nothing once it has expired. Make writes that depend on it
// conditional on Held, or pass Token to the system you write to.
type Lock struct {
	store *Store
	key   string
	token uint64
}

// Lock acquires the lock key for ttl, and waits until ctx ends while another holder has it. A
// holder that does not Extend the lock loses it after ttl.
//
// Errors: ErrInvalid for a ttl that is not positive; ctx's error. After ErrUnknownOutcome the lock
// may be held until ttl ends.
func (s *Store) Lock(ctx context.Context, key string, ttl time.Duration) (*Lock, error) {
	l, _, err := s.lock(ctx, key, ttl)
	return l, err
}

// lock is Lock, and also returns the time until which the lock is certainly held.
func (s *Store) lock(ctx context.Context, key string, ttl time.Duration) (l *Lock, until time.Time, err error) {
	ctx = engine.Lasting(ctx)
	for {
		until := time.Now().Add(ttl)
		l, err := s.TryLock(ctx, key, ttl)
		var held *ConflictError
		if !errors.As(err, &held) {
			return l, until, err
		}
		if _, err := s.WaitChange(ctx, key, held.Revision); err != nil {
			return nil, until, err
		}
	}
}

// TryLock acquires the lock key for ttl, or returns a *ConflictError at once if it is held.
func (s *Store) TryLock(ctx context.Context, key string, ttl time.Duration) (*Lock, error) {
	w, err := s.Put(ctx, key, nil, IfAbsent(), TTL(ttl))
	if err != nil {
		return nil, err
	}
	return &Lock{store: s, key: key, token: w.Revision}, nil
}

// Key returns the key of the lock.
func (l *Lock) Key() string { return l.key }

// Token returns the fencing token: the revision at which the lock was acquired. Later holders have
// greater tokens.
func (l *Lock) Token() uint64 { return l.token }

// Held is the condition that the lock is still held, for a transaction in the same namespace.
func (l *Lock) Held() Condition { return RevisionIs(l.key, l.token) }

// Extend makes the lock expire ttl from now, and returns the time until which it is certainly held,
// by the clock of this process. It returns ErrConflict if the lock has been lost.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) (until time.Time, err error) {
	until = time.Now().Add(ttl)
	if err := l.store.Touch(ctx, l.key, ttl, IfRevision(l.token)); err != nil {
		return time.Time{}, err
	}
	return until, nil
}

// Unlock releases the lock. It returns ErrConflict if the lock had been lost.
func (l *Lock) Unlock(ctx context.Context) error {
	_, err := l.store.Delete(ctx, l.key, IfRevision(l.token))
	return err
}
