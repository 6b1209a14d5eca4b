package engine

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestOverlayModel compares an overlay over existing rows with a map, under random writes, inserts,
// deletes of rows and ranges, and rolled-back commands. At the end it compares the rows written to
// the database.
func TestOverlayModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), DisableWAL: true})
		if err != nil {
			t.Fatal(err)
		}
		x := NewExecutor(Config{Shards: 1, DB: db, Strict: true})
		if err := x.Restore(); err != nil {
			t.Fatal(err)
		}
		x.tx.budget.limit = unlimited
		run := overlayRun{t: t, x: x, rng: rng, rows: make(map[string]string)}
		for range 4 {
			for range 20 {
				run.command()
			}
			run.commit()
		}
		if err := x.Release(); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

type overlayRun struct {
	t    *testing.T
	x    *Executor
	rng  *rand.Rand
	rows map[string]string // expected
}

func (r *overlayRun) key() string { return fmt.Sprintf("%03d", r.rng.IntN(400)) }

// command makes some changes and sometimes rolls them back.
func (r *overlayRun) command() {
	before, tx := maps.Clone(r.rows), &r.x.tx
	r.x.batch.over.settle()
	for range r.rng.IntN(40) {
		r.change(tx)
		if r.rng.IntN(4) == 0 {
			r.look(tx)
		}
	}
	if r.rng.IntN(3) == 0 {
		r.x.batch.over.rollback(0)
		r.rows = before
	}
	r.look(tx)
}

func (r *overlayRun) change(tx *Tx) {
	k, v := r.key(), fmt.Sprint(r.rng.IntN(1000))
	switch r.rng.IntN(8) {
	case 0, 1, 2:
		if _, known := r.rows[k]; known {
			tx.Set([]byte(k), []byte(v))
		} else {
			tx.Insert([]byte(k), []byte(v))
		}
		r.rows[k] = v
	case 3:
		tx.Set([]byte(k), []byte(v))
		r.rows[k] = v
	case 4, 5, 6:
		tx.Delete([]byte(k))
		delete(r.rows, k)
	case 7:
		upper := r.key()
		if r.rng.IntN(2) == 0 {
			tx.DeleteRange([]byte(k), []byte(upper))
		} else {
			tx.DeleteMany([]byte(k), []byte(upper))
		}
		maps.DeleteFunc(r.rows, func(row, _ string) bool { return k <= row && row < upper })
	}
}

// look compares the rows of a range, its first row, and a single row.
func (r *overlayRun) look(tx *Tx) {
	r.t.Helper()
	lower, upper := r.key(), r.key()
	var want, got []string
	for _, k := range slices.Sorted(maps.Keys(r.rows)) {
		if lower <= k && k < upper {
			want = append(want, k+"="+r.rows[k])
		}
	}
	it := tx.Iter([]byte(lower), []byte(max(lower, upper)))
	for ok := it.First(); ok; ok = it.Next() {
		got = append(got, string(it.Key())+"="+string(it.Value()))
	}
	if err := it.Close(); err != nil {
		r.t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("rows from %s to %s are %q, want %q", lower, upper, got, want)
	}
	k, v, ok := tx.First([]byte(lower), []byte(upper))
	if first := string(k) + "=" + string(v); ok != (len(want) > 0) || ok && first != want[0] {
		r.t.Fatalf("the first row from %s to %s is %q, %v, want %q", lower, upper, first, ok, want)
	}
	b, ok := tx.Get([]byte(lower))
	if v, want := r.rows[lower]; ok != want || string(b) != v {
		r.t.Fatalf("row %s is %q, %v, want %q, %v", lower, b, ok, v, want)
	}
}

func (r *overlayRun) commit() {
	r.t.Helper()
	if err := r.x.Commit(); err != nil {
		r.t.Fatal(err)
	}
	r.look(&r.x.tx)
}

// TestRowsThatComeAndGoStayInMemory: a row inserted and deleted within one batch writes nothing to
// Pebble, neither the row nor a tombstone, however often this happens. A row that existed before
// leaves the tombstone.
func TestRowsThatComeAndGoStayInMemory(t *testing.T) {
	o := newOverlay()
	o.set([]byte("old"), []byte("1"), false)
	o.set([]byte("old"), nil, true)
	for range 2 {
		o.insert([]byte("new"), []byte("1"))
		o.set([]byte("new"), nil, true)
	}
	o.insert([]byte("stays"), []byte("1"))
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), DisableWAL: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b := db.NewBatch()
	defer b.Close()
	if err := o.writeTo(b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := b.Reader(); ; {
		kind, k, _, ok, err := r.Next()
		if err != nil || !ok {
			break
		}
		got = append(got, fmt.Sprintf("%v %s", kind, k))
	}
	if want := []string{"DEL old", "SET stays"}; !slices.Equal(got, want) {
		t.Errorf("the batch holds %q, want %q", got, want)
	}
}

// TestFewRowsAreDeletedOneByOne: a deleted range stays in the state until it has been compacted
// away, and each iterator sorts all of them. Deleting the few rows of a consumer group used to
// leave seven ranges, so creating and deleting got slower with each deletion.
func TestFewRowsAreDeletedOneByOne(t *testing.T) {
	for _, rows := range []int{0, 1, fewRows, fewRows + 1, 10 * fewRows} {
		db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), DisableWAL: true})
		if err != nil {
			t.Fatal(err)
		}
		x := NewExecutor(Config{Shards: 1, DB: db, Strict: true})
		if err := x.Restore(); err != nil {
			t.Fatal(err)
		}
		tx := &x.tx
		tx.budget.limit = unlimited
		for i := range rows {
			tx.Set(fmt.Appendf(nil, "a%04d", i), []byte("1"))
		}
		tx.Set([]byte("b"), []byte("1"))
		tx.DeleteRange([]byte("a"), []byte("b"))
		if k, _, ok := tx.First([]byte("a"), []byte("c")); !ok || string(k) != "b" {
			t.Errorf("%d rows: the first one left is %q, want b", rows, k)
		}
		if n := len(x.batch.over.ranges); n != 0 && rows <= fewRows || n != 1 && rows > fewRows {
			t.Errorf("%d rows: %d ranges were deleted", rows, n)
		}
		if err := x.Release(); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOverlaySortsWhatIsNew counts key comparisons as a measure of cost: iterating after every 20th
// of n writes takes n log n of them, not n².
func TestOverlaySortsWhatIsNew(t *testing.T) {
	const n = 100_000
	o := newOverlay()
	moved := 0
	for i := range n {
		o.set(fmt.Appendf(nil, "%08x", uint32(i)*2654435761), nil, false)
		if i%20 == 0 {
			before := len(o.order.runs)
			o.order.update(o.ops)
			moved += len(o.order.runs[len(o.order.runs)-1])
			if before > 20 {
				t.Fatalf("%d runs", before)
			}
		}
	}
	if moved > 20*n {
		t.Errorf("%d positions were moved for %d writes", moved, n)
	}
	if all := o.order.all(o.ops); !slices.IsSortedFunc(all, func(a, b int32) int { return bytes.Compare(o.ops[a].key, o.ops[b].key) }) {
		t.Error("the positions are out of order")
	}
}

// TestManyRangesAreFoundQuickly: adjacent ranges are merged, others stay apart, and all of them can
// be rolled back one by one.
func TestManyRangesAreFoundQuickly(t *testing.T) {
	var s rangeSet
	var splits []rangeSplit
	add := func(lower, upper int) {
		splits = append(splits, s.add(keyRange{fmt.Appendf(nil, "%06d", lower), fmt.Appendf(nil, "%06d", upper)}))
	}
	for i := range 1000 {
		add(10*i, 10*i+5)
	}
	if len(s) != 1000 {
		t.Fatalf("%d ranges, want 1000", len(s))
	}
	for i := range 999 {
		add(10*i+5, 10*i+10)
	}
	if len(s) != 1 {
		t.Fatalf("%d ranges after the gaps were filled, want 1", len(s))
	}
	for i := len(splits) - 1; i >= 1000; i-- {
		s.undo(&splits[i])
	}
	for i := range 10_000 {
		if found := s.find(fmt.Appendf(nil, "%06d", i)) != nil; found != (i%10 < 5) {
			t.Fatalf("key %d is in a range: %v", i, found)
		}
	}
	if got := len(s.within([]byte("000042"), []byte("000061"))); got != 3 {
		t.Errorf("%d ranges from 42 to 61, want 3", got)
	}
}

// TestOverlayRange: a deleted range hides the rows of the batch, rows written later show, and a
// rollback restores what was there before.
func TestOverlayRange(t *testing.T) {
	o := newOverlay()
	shown := func() string {
		var b strings.Builder
		for _, op := range o.scan([]byte("a"), []byte("z")) {
			fmt.Fprintf(&b, "%s=%s", op.key, op.value)
			if op.deleted {
				b.WriteString("deleted")
			}
			b.WriteString(" ")
		}
		for _, r := range o.ranges {
			fmt.Fprintf(&b, "[%s,%s) ", r.lower, r.upper)
		}
		if first := o.first([]byte("a"), []byte("z")); first != nil {
			fmt.Fprintf(&b, "first %s ", first.key)
		}
		for _, k := range []string{"a", "b", "bb", "e", "f"} {
			if op, ok := o.get([]byte(k)); ok {
				fmt.Fprintf(&b, "%s:%t ", k, !op.deleted)
			}
		}
		fmt.Fprintf(&b, "empty %t, %d undo, %d splits, %d bytes", o.empty(), len(o.undo), len(o.splits), o.bytes)
		return b.String()
	}
	want := func(what, text string) {
		t.Helper()
		if got := shown(); got != text {
			t.Errorf("%s:\n%s\nwant:\n%s", what, got, text)
		}
	}
	want("at first", "empty true, 0 undo, 0 splits, 0 bytes")
	o.deleteRange([]byte("f"), []byte("g"))
	want("a range alone", "[f,g) f:false empty false, 1 undo, 1 splits, 2 bytes")
	o.settle()
	o.set([]byte("b"), []byte("1"), false)
	o.insert([]byte("d"), []byte("22"))
	o.set([]byte("e"), nil, true)
	before := "b=1 d=22 e=deleted [f,g) first b b:true e:false f:false empty false, 3 undo, 0 splits, 8 bytes"
	want("rows", before)
	mark := len(o.undo)
	o.deleteRange([]byte("b"), []byte("f"))
	want("a range of them", "b=deleted d=deleted e=deleted [b,g) b:false bb:false e:false f:false empty false, 6 undo, 1 splits, 10 bytes")
	o.set([]byte("b"), []byte("3"), false)
	o.set([]byte("f"), []byte("4"), false)
	o.deleteRange([]byte("e"), []byte("f"))
	want("rows in it", "b=3 d=deleted e=deleted f=4 [b,g) first b b:true bb:false e:false f:true empty false, 9 undo, 2 splits, 16 bytes")
	o.rollback(mark)
	want("a rollback", strings.Replace(before, "8 bytes", "16 bytes", 1))
	if n := o.size(); n != 3+3*16+3 {
		t.Errorf("size %d", n)
	}
	o.reset()
	want("a reset", "empty true, 0 undo, 0 splits, 0 bytes")
}
