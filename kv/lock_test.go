package kv_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

func TestLock(t *testing.T) {
	ctx := within(t)
	node := open(t, floe.Config{Shards: 1})
	s := node.KV("n")
	a := must(s.Lock(ctx, "l", time.Hour))
	if a.Key() != "l" || a.Token() == 0 {
		t.Errorf("Lock = key %q, token %d, want l and a revision", a.Key(), a.Token())
	}
	var held *kv.ConflictError
	if _, err := s.TryLock(ctx, "l", time.Hour); !errors.As(err, &held) || held.Revision != a.Token() {
		t.Errorf("TryLock of a held lock: got %v, want a conflict with revision %d", err, a.Token())
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err := s.Lock(short, "l", time.Hour)
	wantErr(t, "Lock of a held lock with a short ctx", err, context.DeadlineExceeded)

	if _, err := a.Extend(ctx, 2*time.Hour); err != nil {
		t.Errorf("Extend: %v", err)
	}
	if e := must(s.Get(ctx, "l")); e.Revision != a.Token() || time.Until(e.ExpiresAt) < 90*time.Minute {
		t.Errorf("after Extend the lock is at revision %d until %v, want %d and two hours", e.Revision, e.ExpiresAt, a.Token())
	}
	wantErr(t, "Extend(0)", second(a.Extend(ctx, 0)), kv.ErrInvalid)

	// Unlock hands it over to a waiter.
	got := make(chan *kv.Lock)
	go func() { got <- must(s.Lock(ctx, "l", time.Hour)) }()
	awaitWaiters(t, node, 1)
	if err := a.Unlock(ctx); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	b := <-got
	if b.Token() <= a.Token() {
		t.Errorf("the second holder's token %d is not greater than the first's, %d", b.Token(), a.Token())
	}
	wantErr(t, "Unlock by the former holder", a.Unlock(ctx), kv.ErrConflict)
	wantErr(t, "Extend by the former holder", second(a.Extend(ctx, time.Hour)), kv.ErrConflict)
	_, err = node.Txn("n").If(a.Held()).Do(kv.PutOp("x", nil)).Commit(ctx)
	wantErr(t, "Txn with Held of the former holder", err, kv.ErrConflict)
	if _, err = node.Txn("n").If(b.Held()).Do(kv.PutOp("x", nil)).Commit(ctx); err != nil {
		t.Errorf("Txn with Held of the holder: %v", err)
	}
	if err := b.Unlock(ctx); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	wantErr(t, "second Unlock", b.Unlock(ctx), kv.ErrConflict)
	wantErr(t, "Extend after Unlock", second(b.Extend(ctx, time.Hour)), kv.ErrConflict)
}

// TestLockExpires: an idle holder loses the lock to a waiter.
func TestLockExpires(t *testing.T) {
	ctx := within(t)
	node := open(t, floe.Config{Shards: 1})
	s := node.KV("n")
	a := must(s.Lock(ctx, "l", 20*time.Millisecond))
	b, err := s.Lock(ctx, "l", time.Hour)
	if err != nil || b.Token() <= a.Token() {
		t.Fatalf("Lock after expiry = %v, %v, want a token above %d", b, err, a.Token())
	}
	wantErr(t, "Extend after expiry", second(a.Extend(ctx, time.Hour)), kv.ErrConflict)
	wantErr(t, "Unlock after expiry", a.Unlock(ctx), kv.ErrConflict)
	if e := must(s.Get(ctx, "l")); e.Revision != b.Token() {
		t.Errorf("the lock is at revision %d, want the holder's %d", e.Revision, b.Token())
	}
}

// TestLockExpiresBeforeItsTimer: at the instant of its expiry the lock can be acquired, and calls
// of the old holder fail.
func TestLockExpiresBeforeItsTimer(t *testing.T) {
	ctx, r := within(t), newRig(t, 1)
	s := r.store("n")
	a := must(s.TryLock(ctx, "l", time.Second))
	r.Pass(999)
	if _, err := a.Extend(ctx, time.Second); err != nil {
		t.Errorf("Extend in the last millisecond: %v", err)
	}
	r.Pass(1000)
	wantErr(t, "Extend at the end", second(a.Extend(ctx, time.Second)), kv.ErrConflict)
	wantErr(t, "Unlock at the end", a.Unlock(ctx), kv.ErrConflict)
	_, err := r.Txn("n").If(a.Held()).Do(kv.PutOp("x", nil)).Commit(ctx)
	wantErr(t, "Txn with Held at the end", err, kv.ErrConflict)
	if b, err := s.TryLock(ctx, "l", time.Second); err != nil || b.Token() <= a.Token() {
		t.Errorf("TryLock at the end = %v, %v", b, err)
	}
	r.verify()
}

// TestLockContention: 16 lockers, some of which let the lock expire, increment a counter that only
// Held protects. Each reads the counter and writes it plus one.
func TestLockContention(t *testing.T) {
	ctx := within(t)
	node := open(t, floe.Config{Shards: 1})
	s := node.KV("n")
	must(s.Put(ctx, "counter", []byte("0")))
	const lockers, rounds = 16, 10
	var group sync.WaitGroup
	for n := range lockers {
		group.Go(func() {
			for done := 0; done < rounds; {
				forget := n%4 == 0 && done%3 == 1
				ttl := time.Minute
				if forget {
					ttl = 5 * time.Millisecond
				}
				l, err := s.Lock(ctx, "l", ttl)
				if err != nil {
					t.Errorf("Lock: %v", err)
					return
				}
				value := must(strconv.Atoi(string(must(s.Get(ctx, "counter")).Value)))
				_, err = node.Txn("n").If(l.Held()).Do(kv.PutOp("counter", []byte(strconv.Itoa(value+1)))).Commit(ctx)
				if err == nil {
					done++
				} else if !forget || !errors.Is(err, kv.ErrConflict) {
					t.Errorf("write with Held: %v", err)
					return
				}
				if forget {
					continue // the lock expires
				}
				if err := l.Unlock(ctx); err != nil {
					t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	group.Wait()
	if e := must(s.Get(ctx, "counter")); string(e.Value) != strconv.Itoa(lockers*rounds) {
		t.Errorf("the counter is %s, want %d", e.Value, lockers*rounds)
	}
}

func second[T any](_ T, err error) error { return err }
