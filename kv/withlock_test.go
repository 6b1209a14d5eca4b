package kv_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// inBubble runs a test in a synctest bubble with its own node.
func inBubble(t *testing.T, f func(t *testing.T, node *floe.Node, s *kv.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		node := must(floe.Open(floe.Config{Shards: 1}))
		defer node.Close()
		f(t, node, node.KV("n"))
	})
}

// TestWithLock: functions run one at a time, for as long as they take, with increasing tokens.
func TestWithLock(t *testing.T) {
	inBubble(t, func(t *testing.T, node *floe.Node, s *kv.Store) {
		var inside atomic.Int32
		var last uint64
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				err := s.WithLock(t.Context(), "l", 3*time.Second, func(ctx context.Context) error {
					if inside.Add(1) > 1 {
						t.Error("two hold the lock")
					}
					l := kv.LockOf(ctx)
					if l == nil || l.Key() != "l" || l.Token() <= last {
						t.Errorf("LockOf = %+v after token %d", l, last)
					}
					last = l.Token()
					<-time.After(time.Minute) // twenty times its TTL
					inside.Add(-1)
					_, err := node.Txn("n").If(l.Held()).Do(kv.PutOp("x", nil)).Commit(ctx)
					return err
				})
				if err != nil {
					t.Errorf("WithLock: %v", err)
				}
			})
		}
		all.Wait()
		if ok, err := s.Exists(t.Context(), "l"); ok || err != nil {
			t.Errorf("the lock is held in the end: %v, %v", ok, err)
		}
		if kv.LockOf(t.Context()) != nil {
			t.Error("LockOf of any ctx is a lock")
		}
	})
}

// TestWithLockLost: both the function and the caller are notified that the lock is lost.
func TestWithLockLost(t *testing.T) {
	inBubble(t, func(t *testing.T, node *floe.Node, s *kv.Store) {
		ctx := t.Context()
		err := s.WithLock(ctx, "l", 3*time.Second, func(ctx context.Context) error {
			must(s.Delete(ctx, "l"))
			other := must(s.TryLock(ctx, "l", time.Hour))
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, kv.ErrConflict) {
				t.Errorf("the cause is %v, want ErrConflict", cause)
			}
			if _, err := other.Extend(t.Context(), time.Hour); err != nil {
				t.Errorf("the other's lock: %v", err)
			}
			return ctx.Err()
		})
		if !errors.Is(err, kv.ErrConflict) || errors.Is(err, context.Canceled) {
			t.Errorf("WithLock = %v, want ErrConflict", err)
		}
		if err := s.WithLock(ctx, "m", time.Hour, func(ctx context.Context) error {
			must(s.Delete(ctx, "m")) // and return before the loss is detected
			return nil
		}); !errors.Is(err, kv.ErrConflict) {
			t.Errorf("WithLock = %v, want ErrConflict", err)
		}
	})
}

// TestWithLockGivesBack: however the function ends, the next caller gets the lock at once.
func TestWithLockGivesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, node *floe.Node, s *kv.Store) {
		free := func(after string) {
			t.Helper()
			l, err := s.TryLock(t.Context(), "l", time.Hour)
			if err != nil {
				t.Fatalf("after %s: %v", after, err)
			}
			if err := l.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		mine := errors.New("mine")
		if err := s.WithLock(t.Context(), "l", time.Hour, func(context.Context) error { return mine }); err != mine {
			t.Errorf("WithLock = %v, want the error of the function", err)
		}
		free("an error")
		ctx, cancel := context.WithCancelCause(t.Context())
		err := s.WithLock(ctx, "l", time.Hour, func(ctx context.Context) error {
			cancel(mine)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err != mine {
			t.Errorf("WithLock = %v, want what the function returned", err)
		}
		free("a cancelled context")
		func() {
			defer func() { recover() }()
			_ = s.WithLock(t.Context(), "l", time.Hour, func(context.Context) error { panic("boom") })
		}()
		free("a panic")
		if err := s.WithLock(ctx, "l", time.Hour, func(context.Context) error { return nil }); err != context.Canceled {
			t.Errorf("WithLock with a context that has ended = %v", err)
		}
		if err := s.WithLock(t.Context(), "l", 0, func(context.Context) error { return nil }); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("WithLock without a ttl = %v", err)
		}
		if err := s.WithLock(t.Context(), "l", time.Hour, nil); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("WithLock without a function = %v", err)
		}
	})
}

// TestWithLockInAnOutage: without answers from the shard, the lock counts as lost before another
// caller can acquire it.
func TestWithLockInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, node *floe.Node, s *kv.Store) {
		began := time.Now()
		err := s.WithLock(t.Context(), "l", 3*time.Second, func(ctx context.Context) error {
			node.Close()
			<-ctx.Done()
			return nil
		})
		if d := time.Since(began); !errors.Is(err, kv.ErrConflict) || d > 3*time.Second {
			t.Errorf("WithLock = %v after %v, want ErrConflict within the ttl", err, d)
		}
	})
}
