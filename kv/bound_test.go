package kv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// TestTransactionsOfLargeValuesAreBounded: small operations on large values write large rows. A
// transaction of many of them is refused as a whole: 1,000 deletes of a megabyte each, or 1,000
// changes of one document.
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

// TestKeysThatExpireTogether: more keys expire together than one Fire hands out, some with values
// of a megabyte. Each Fire writes only a few of them.
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

// holding is a door that records proposed commands and returns ErrBusy.
type holding struct {
	*machinetest.Rig
	cmds []engine.Command
}

func (h *holding) Propose(_ context.Context, _ engine.ShardID, cmd engine.Command) ([]byte, error) {
	h.cmds = append(h.cmds, cmd)
	return nil, engine.ErrBusy
}

// TestDeletesBeyondAllTombstones: a delete that must forget the oldest tombstone resumes the search
// where the last one was found, not before all forgotten ones. Before the fix, 8 transactions of
// 1,000 deletes in one entry took 12 s, and 60 did not end.
func TestDeletesBeyondAllTombstones(t *testing.T) {
	const tombstones, each, transactions = 500, 250, 12
	p := engine.TableOf[kv.Store]()
	p.New = func() engine.Machine { return kv.MachineOf(tombstones) }
	r := machinetest.New(t, 1, p)
	held := &holding{Rig: r}
	for n := range transactions {
		puts, deletes := r.Txn("default"), engine.NewTxn(engine.NewRouter(held), "default", 1<<20)
		for i := range each {
			k := fmt.Sprintf("k%02d%04d", n, i)
			puts.Do(kv.PutOp(k, nil))
			deletes.Do(kv.DeleteOp(k))
		}
		if _, err := puts.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := deletes.Commit(t.Context()); !errors.Is(err, engine.ErrBusy) {
			t.Fatal(err)
		}
	}
	for cmds := held.cmds; len(cmds) > 0; {
		out := r.Entry(0, cmds...)
		done := 0
		for _, o := range out {
			if o.Err == nil {
				done++
			} else if !errors.Is(o.Err, engine.ErrPutOff) {
				t.Fatal(o.Err)
			}
		}
		if cmds = cmds[done:]; done == 0 {
			t.Fatal("nothing was done")
		}
	}
	for _, e := range r.Efforts() {
		if e.Command == "engine transaction" && e.Looks > 12*each {
			t.Errorf("%v: more than 12 looks for each of %d deletes", e, each)
		}
	}
	q := engine.NamespaceQuery{Name: "default"}
	if err := r.Query(t.Context(), 0, &q); err != nil || q.Info.Counts.DeadKeys != tombstones {
		t.Errorf("%d tombstones are left, %v, want %d", q.Info.Counts.DeadKeys, err, tombstones)
	}
}
