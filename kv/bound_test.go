package kv_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestTransactionsOfLargeValuesAreBounded: small operations on large values write large rows, and a transaction of many of them is refused
// as a whole: 1,000 deletes of a megabyte each, 1,000 changes of one document.
func TestTransactionsOfLargeValuesAreBounded(t *testing.T) {
	r := newRig(t, 1)
	s, ctx := r.store("default"), t.Context()
	const n = 100
	value := bytes.Repeat([]byte("v"), 1<<20-100)
	deletes, changes := r.Txn("default"), r.Txn("default")
	for i := range n {
		k := fmt.Sprintf("k%03d", i)
		if _, err := s.Put(ctx, k, value); err != nil {
			t.Fatal(err)
		}
		deletes.Do(kv.DeleteOp(k))
		changes.Do(kv.JSONSetOp("doc", "n", fmt.Append(nil, i)))
	}
	doc := fmt.Appendf(nil, `{"s":"%s"}`, value[:1<<19])
	if _, err := s.Put(ctx, "doc", doc); err != nil {
		t.Fatal(err)
	}
	for name, txn := range map[string]*engine.Txn{"deletes": deletes, "changes": changes} {
		_, err := txn.Commit(ctx)
		var refused *engine.TxnError
		if !errors.As(err, &refused) || !errors.Is(err, engine.ErrInvalid) || refused.Index < 50 || refused.Index > 70 {
			t.Errorf("%s: err = %v, want a refusal of the 65th or so", name, err)
		}
	}
	if e, err := s.Get(ctx, "k000"); err != nil || len(e.Value) != len(value) {
		t.Errorf("k000 after the refusals: %d bytes, %v", len(e.Value), err)
	}
	r.verify()
}

// TestKeysThatExpireTogether: more than one Fire hands out, with a megabyte each, and each Fire writes a few of them.
func TestKeysThatExpireTogether(t *testing.T) {
	r := newRig(t, 1)
	s, ctx := r.store("default"), t.Context()
	value := bytes.Repeat([]byte("v"), 1<<20-100)
	for i := range 1100 {
		v := value[:100]
		if i < 60 {
			v = value
		}
		if _, err := s.Put(ctx, fmt.Sprintf("k%04d", i), v, kv.TTL(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	r.Pass(60_000)
	fires := 0
	for x := r.Executor(0); x.NextDue() <= r.Now(); fires++ {
		e := engine.Entry{Stamp: r.Now(), Commands: [][]byte{engine.Fire().AppendTo(nil)}}
		if _, out := x.Apply(1, x.Applied().Index+1, e.AppendTo(nil), nil); out[0].Err != nil {
			t.Fatal(out[0].Err)
		}
		if n := x.Pending(); n > 6<<20 {
			t.Fatalf("a Fire has written %d bytes", n)
		}
		if err := x.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if fires < 14 {
		t.Errorf("%d Fires for 60 MiB", fires)
	}
	if _, err := s.Get(ctx, "k1099"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("the last key: %v", err)
	}
	r.verify()
}
