package kv_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

func wantErr(t *testing.T, call string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", call, got, want)
	}
}

func TestKeyLengths(t *testing.T) {
	ctx, s := within(t), openStore(t)
	for _, k := range []string{"a", "\x00", "\xff", strings.Repeat("k", kv.MaxKeyBytes), strings.Repeat("\x00", kv.MaxKeyBytes)} {
		if _, err := s.Put(ctx, k, []byte("v")); err != nil {
			t.Errorf("Put(key of %d bytes): %v", len(k), err)
		}
		e, err := s.Get(ctx, k)
		if err != nil || e.Key != k || string(e.Value) != "v" {
			t.Errorf("Get(key of %d bytes) = key of %d bytes, %q, %v", len(k), len(e.Key), e.Value, err)
		}
		if h, err := engine.Collect(s.History(k).All(ctx)); err != nil || len(h) != 1 {
			t.Errorf("History(key of %d bytes) = %d versions, %v, want 1", len(k), len(h), err)
		}
	}
	for _, k := range []string{"", strings.Repeat("k", kv.MaxKeyBytes+1)} {
		for call, f := range map[string]func() error{
			"Put":        func() error { _, err := s.Put(ctx, k, nil); return err },
			"Get":        func() error { _, err := s.Get(ctx, k); return err },
			"GetMany":    func() error { _, err := s.GetMany(ctx, "a", k); return err },
			"Exists":     func() error { _, err := s.Exists(ctx, k); return err },
			"Delete":     func() error { _, err := s.Delete(ctx, k); return err },
			"Touch":      func() error { return s.Touch(ctx, k, time.Second) },
			"Persist":    func() error { return s.Persist(ctx, k) },
			"Incr":       func() error { _, err := s.Incr(ctx, k, 1); return err },
			"JSONGet":    func() error { _, err := s.JSONGet(ctx, k, "a"); return err },
			"JSONSet":    func() error { _, err := s.JSONSet(ctx, k, "a", []byte("1")); return err },
			"JSONDelete": func() error { _, err := s.JSONDelete(ctx, k, "a"); return err },
			"History":    func() error { _, err := engine.Collect(s.History(k).All(ctx)); return err },
			"Wait":       func() error { _, err := s.Wait(ctx, k); return err },
			"WaitChange": func() error { _, err := s.WaitChange(ctx, k, 0); return err },
			"Lock":       func() error { _, err := s.Lock(ctx, k, time.Second); return err },
			"TryLock":    func() error { _, err := s.TryLock(ctx, k, time.Second); return err },
		} {
			wantErr(t, call, f(), kv.ErrInvalid)
		}
	}
}

// TestPrefixKeys has keys that are prefixes of each other and contain the bytes that row encodings
// use.
func TestPrefixKeys(t *testing.T) {
	ctx, s := within(t), openStore(t)
	var keys []string
	for _, a := range []string{"\x00", "\x01", "\xff", "a"} {
		for _, b := range []string{"", "\x00", "\x00\x01", "\x00\xff", "\xff", "\x00\x01\xff\xff\xff\xff\xff\xff\xff\xfe"} {
			for _, c := range []string{"", "\x00", "\x01", "\xff\xff"} {
				keys = append(keys, a+b+c)
			}
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for round := range 3 {
		for _, k := range keys {
			if _, err := s.Put(ctx, k, []byte(k)); err != nil {
				t.Fatalf("round %d: Put(%q): %v", round, k, err)
			}
		}
	}
	for _, k := range keys {
		versions, err := engine.Collect(s.History(k).All(ctx))
		if err != nil || len(versions) != 3 {
			t.Errorf("History(%q) = %d versions, %v, want 3", k, len(versions), err)
		}
		for _, v := range versions {
			if string(v.Value) != k {
				t.Errorf("History(%q) holds a version of %q", k, v.Value)
			}
		}
	}
	for _, prefix := range append(keys, "", "\x00\x00", "b", "\xff\xff\xff\xff") {
		var want []string
		for _, k := range keys {
			if strings.HasPrefix(k, prefix) {
				want = append(want, k)
			}
		}
		for _, limit := range []int{1, 7, 1000} {
			if got := scanKeys(t, s, prefix, kv.Limit(limit)); !slices.Equal(got, want) {
				t.Errorf("All(%q, Limit(%d)) = %q, want %q", prefix, limit, got, want)
			}
		}
	}
}

func scanKeys(t *testing.T, s *kv.Store, prefix string, opts ...kv.ListOption) (keys []string) {
	t.Helper()
	for it, err := range s.All(t.Context(), append(opts, kv.Prefix(prefix))...) {
		if err != nil {
			t.Fatalf("All(%q): %v", prefix, err)
		}
		keys = append(keys, it.Key)
	}
	return keys
}

func TestValueLimit(t *testing.T) {
	ctx := within(t)
	node := open(t, floe.Config{Shards: 1, MaxValueSize: 1000})
	s := node.KV("default")
	over := []byte(`"` + strings.Repeat("v", 999) + `"`)
	if _, err := s.Put(ctx, "k", over[:1000]); err != nil {
		t.Errorf("Put of 1000 bytes: %v", err)
	}
	_, err := s.Put(ctx, "k", over)
	wantErr(t, "Put of 1001 bytes", err, kv.ErrInvalid)
	if err == nil || !strings.Contains(err.Error(), "1001") || !strings.Contains(err.Error(), "max_value_size") {
		t.Errorf("Put of 1001 bytes: %q names neither value nor limit", err)
	}
	_, err = s.JSONSet(ctx, "j", "$", over)
	wantErr(t, "JSONSet of 1001 bytes", err, kv.ErrInvalid)
	_, err = node.Txn("default").Do(kv.PutOp("k", over)).Commit(ctx)
	wantErr(t, "PutOp of 1001 bytes", err, kv.ErrInvalid)

	// A document can grow up to the limit: {"a":"vvv"} fits and {"a":"vvv","b":1} does not.
	doc := []byte(`"` + strings.Repeat("v", 992) + `"`)
	if _, err := s.JSONSet(ctx, "d", "a", doc); err != nil {
		t.Errorf("JSONSet to 1000 bytes: %v", err)
	}
	_, err = s.JSONSet(ctx, "d", "b", []byte("1"))
	wantErr(t, "JSONSet to 1006 bytes", err, kv.ErrInvalid)
	if e, err := s.Get(ctx, "d"); err != nil || len(e.Value) != 1000 || e.Version != 1 {
		t.Errorf("Get = %d bytes, version %d, %v, want 1000 bytes at version 1", len(e.Value), e.Version, err)
	}
	_, err = node.Txn("default").Do(kv.JSONSetOp("d", "b", []byte("1"))).Commit(ctx)
	wantErr(t, "JSONSetOp to 1006 bytes", err, kv.ErrInvalid)
}

func TestTTLs(t *testing.T) {
	ctx, s := within(t), openStore(t)
	for _, d := range []time.Duration{0, -1, math.MinInt64} {
		_, err := s.Put(ctx, "k", nil, kv.TTL(d))
		wantErr(t, "Put with TTL "+d.String(), err, kv.ErrInvalid)
		_, err = s.Put(ctx, "k", nil, kv.TTL(d), kv.TTL(time.Second))
		wantErr(t, "Put with a second TTL after "+d.String(), err, kv.ErrInvalid)
		_, err = s.TryLock(ctx, "k", d)
		wantErr(t, "TryLock with TTL "+d.String(), err, kv.ErrInvalid)
	}
	if _, err := s.Put(ctx, "k", nil, kv.TTL(math.MaxInt64)); err != nil {
		t.Errorf("Put with the longest TTL: %v", err)
	}
	if e, err := s.Get(ctx, "k"); err != nil || e.ExpiresAt.Year() < 2300 {
		t.Errorf("Get = expires %v, %v, want in about 292 years", e.ExpiresAt, err)
	}
	if err := s.Touch(ctx, "k", 0); !errors.Is(err, kv.ErrInvalid) {
		t.Errorf("Touch with TTL 0: got %v, want ErrInvalid", err)
	}
}

// TestOverflowingTTL has commands that this package's options do not produce.
func TestOverflowingTTL(t *testing.T) {
	r := newRig(t, 1)
	for _, ttl := range []uint64{math.MaxInt64, math.MaxInt64 - machinetest.Epoch, math.MaxInt64 - machinetest.Epoch + 1} {
		cmd := engine.Command{Machine: engine.MachineKV, Kind: kv.KindPut, Namespace: "n", Body: kv.PutCommandBody("k", ttl)}
		_, err := r.Propose(within(t), 0, cmd)
		ok, _ := r.store("n").Exists(within(t), "k")
		if err == nil && !ok {
			t.Errorf("put with ttl %d ms is accepted and has expired at once, want ErrInvalid or a key that exists", ttl)
		}
		r.verify()
	}
}

// TestCommandsNameTheField: a value out of bounds in a command of another process is refused with
// the value and the bound.
func TestCommandsNameTheField(t *testing.T) {
	r := newRig(t, 1)
	put := kv.PutCommandBody("k", 0)
	conditional := bytes.Clone(put)
	conditional[2] = 99 // after the key's length and the key
	document := codec.AppendUvarint(bytes.Clone(put[:len(put)-1]), math.MaxUint64)
	for want, cmd := range map[string]engine.Command{
		"condition 99 is not in 0-":                  {Kind: kv.KindPut, Body: conditional},
		"ttl of 4611686018427387904 ms is not in 0-": {Kind: kv.KindPut, Body: kv.PutCommandBody("k", 1<<62)},
		"ttl of 18446744073709551615 ms is not in 0-": {Kind: kv.KindPut,
			Body: kv.PutCommandBody("k", math.MaxUint64)},
		"document limit of 18446744073709551615 bytes exceeds 92233720368547": {Kind: kv.KindJSONSet,
			Body: codec.AppendString(document, "path")},
	} {
		cmd.Machine, cmd.Namespace = engine.MachineKV, "n"
		if _, err := r.Propose(within(t), 0, cmd); !errors.Is(err, kv.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("kind %d: %v, want ErrInvalid that says %q", cmd.Kind, err, want)
		}
	}
}

func TestContradictingOptions(t *testing.T) {
	ctx, s := within(t), openStore(t)
	w := must(s.Put(ctx, "k", nil))
	for name, opts := range map[string][]kv.PutOption{
		"IfAbsent, IfPresent":            {kv.IfAbsent(), kv.IfPresent()},
		"IfAbsent, IfRevision":           {kv.IfAbsent(), kv.IfRevision(w.Revision)},
		"IfRevision(0), IfPresent":       {kv.IfRevision(0), kv.IfPresent()},
		"IfRevision, IfRevision":         {kv.IfRevision(w.Revision), kv.IfRevision(w.Revision + 1)},
		"IfAbsent, IfPresent, IfPresent": {kv.IfAbsent(), kv.IfPresent(), kv.IfAbsent()},
		"contradiction, TTL":             {kv.IfAbsent(), kv.IfPresent(), kv.TTL(time.Second)},
	} {
		_, err := s.Put(ctx, "k", nil, opts...)
		wantErr(t, "Put with "+name, err, kv.ErrInvalid)
	}
	for name, opts := range map[string][]kv.PutOption{
		"IfPresent twice": {kv.IfPresent(), kv.IfPresent()},
		"TTL twice":       {kv.TTL(time.Second), kv.TTL(time.Hour)},
	} {
		if _, err := s.Put(ctx, "k", nil, opts...); err != nil {
			t.Errorf("Put with %s: %v", name, err)
		}
	}
	_, err := s.Incr(ctx, "n", 1, kv.Min(2), kv.Max(1))
	wantErr(t, "Incr with Min(2), Max(1)", err, kv.ErrInvalid)
	_, err = s.Delete(ctx, "k", kv.IfRevision(0))
	wantErr(t, "Delete of a present key with IfRevision(0)", err, kv.ErrConflict)
	_, err = s.Delete(ctx, "none", kv.IfRevision(0))
	wantErr(t, "Delete of an absent key with IfRevision(0)", err, kv.ErrNotFound)
}

func TestConflictError(t *testing.T) {
	ctx := within(t)
	node := open(t, floe.Config{Shards: 1})
	s := node.KV("default")
	w := must(s.Put(ctx, "k", nil))
	_, direct := s.Put(ctx, "k", nil, kv.IfAbsent())
	_, inTxn := node.Txn("default").If(kv.Absent("k")).Do(kv.DeleteOp("k")).Commit(ctx)
	for call, err := range map[string]error{"Put": direct, "Txn": inTxn} {
		var c *kv.ConflictError
		if !errors.As(err, &c) || !errors.Is(err, floe.ErrConflict) || c.Revision != w.Revision || c.Key != "k" || c.Want != "absent" {
			t.Errorf("%s: got %#v, want a ConflictError of k at revision %d", call, err, w.Revision)
		}
	}
	var part *floe.TxnError
	if !errors.As(inTxn, &part) || part.Index != 0 || !part.Condition {
		t.Errorf("Txn: got %#v, want a TxnError of condition 0", inTxn)
	}
}

func TestCursors(t *testing.T) {
	ctx := within(t)
	node := open(t, floe.Config{})
	s, other := node.KV("default"), node.KV("other")
	for _, k := range []string{"a/1", "a/2", "a/3", "b/1", "b/2", "a\x00b"} {
		must(s.Put(ctx, k, nil))
		must(other.Put(ctx, k, nil))
	}
	page := must(s.Page(ctx, kv.Prefix("a/"), kv.Limit(1)))
	if page.Cursor == "" || len(page.Items) != 1 {
		t.Fatalf("Page = %d items, cursor %q, want one item and a cursor", len(page.Items), page.Cursor)
	}
	whole := base64.RawURLEncoding.EncodeToString
	for name, call := range map[string]func() (kv.Page[kv.Item], error){
		"of another prefix":    func() (kv.Page[kv.Item], error) { return s.Page(ctx, kv.Prefix("a"), kv.Cursor(page.Cursor)) },
		"of no prefix":         func() (kv.Page[kv.Item], error) { return s.Page(ctx, kv.Cursor(page.Cursor)) },
		"of another namespace": func() (kv.Page[kv.Item], error) { return other.Page(ctx, kv.Prefix("a/"), kv.Cursor(page.Cursor)) },
		"cut at the end": func() (kv.Page[kv.Item], error) {
			return s.Page(ctx, kv.Prefix("a/"), kv.Cursor(page.Cursor[:len(page.Cursor)-1]))
		},
		"cut at the front": func() (kv.Page[kv.Item], error) { return s.Page(ctx, kv.Prefix("a/"), kv.Cursor(page.Cursor[1:])) },
		"longer":           func() (kv.Page[kv.Item], error) { return s.Page(ctx, kv.Prefix("a/"), kv.Cursor(page.Cursor+"A")) },
		"not base64":       func() (kv.Page[kv.Item], error) { return s.Page(ctx, kv.Prefix("a/"), kv.Cursor("%%%")) },
		"empty record": func() (kv.Page[kv.Item], error) {
			return s.Page(ctx, kv.Prefix("a/"), kv.Cursor(whole([]byte{1, 0, 0, 0, 0})))
		},
		"of another version": func() (kv.Page[kv.Item], error) {
			return s.Page(ctx, kv.Prefix("a/"), kv.Cursor(whole([]byte("\x02abcda/1"))))
		},
		"a mebibyte": func() (kv.Page[kv.Item], error) {
			return s.Page(ctx, kv.Prefix("a/"), kv.Cursor(strings.Repeat("A", 1<<20)))
		},
	} {
		_, err := call()
		wantErr(t, "Page with a cursor "+name, err, kv.ErrInvalid)
	}
	n := 0
	for it, err := range s.All(ctx, kv.Prefix("a/"), kv.Cursor("bad")) {
		n++
		if !errors.Is(err, kv.ErrInvalid) || it.Key != "" {
			t.Errorf("All with a bad cursor yields %v, %v, want a zero item and ErrInvalid", it, err)
		}
	}
	if n != 1 {
		t.Errorf("All with a bad cursor yields %d pairs, want 1", n)
	}
	if got, want := scanKeys(t, s, "a/", kv.Cursor(page.Cursor)), []string{"a/2", "a/3"}; !slices.Equal(got, want) {
		t.Errorf("All from the cursor = %q, want %q", got, want)
	}
	// A cursor stays valid when its key is deleted.
	must(s.Delete(ctx, "a/1"))
	must(s.Put(ctx, "a/0", nil))
	if got, want := scanKeys(t, s, "a/", kv.Cursor(page.Cursor)), []string{"a/2", "a/3"}; !slices.Equal(got, want) {
		t.Errorf("All from the cursor of a deleted key = %q, want %q", got, want)
	}
}

func TestAfter(t *testing.T) {
	ctx, s := within(t), openStore(t)
	for _, k := range []string{"a", "b/1", "b/2", "b/2\x00", "b/3", "c"} {
		must(s.Put(ctx, k, nil))
	}
	all := []string{"b/1", "b/2", "b/2\x00", "b/3"}
	for after, want := range map[string][]string{
		"": all, "a": all, "b": all, "b/": all, "b/1": all[1:], "b/1x": all[1:], "b/2": all[2:], "b/2\x00": all[3:], "b/3": nil,
		"b/3x": nil, "c": nil, "\xff": nil,
	} {
		for _, limit := range []int{1, 1000} {
			if got := scanKeys(t, s, "b/", kv.After(after), kv.Limit(limit)); !slices.Equal(got, want) {
				t.Errorf("All(b/, After(%q), Limit(%d)) = %q, want %q", after, limit, got, want)
			}
		}
	}
}

// TestPageBytes: large values end a page early, also in a spread namespace.
func TestPageBytes(t *testing.T) {
	ctx := within(t)
	node := open(t, floe.Config{Shards: 8})
	if err := node.Namespaces().Create(ctx, "spread", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	value := bytes.Repeat([]byte("v"), 1<<20)
	const keys = 8 // more than fit in a page
	for _, ns := range []string{"default", "spread"} {
		s := node.KV(ns)
		for i := range keys {
			must(s.Put(ctx, string(rune('a'+i)), value))
		}
		page, err := s.Page(ctx, kv.Limit(1000))
		size := 0
		for _, it := range page.Items {
			size += len(it.Value)
		}
		if err != nil || size > kv.MaxPageBytes+len(value) || page.Cursor == "" {
			t.Errorf("namespace %s: Page holds %d bytes of values, cursor %q, %v, want at most 4 MiB and one value", ns, size, page.Cursor,
				err)
		}
		if got := len(scanKeys(t, s, "")); got != keys {
			t.Errorf("namespace %s: All yields %d keys, want %d", ns, got, keys)
		}
		keysOnly := must(s.Page(ctx, kv.NoValues()))
		if len(keysOnly.Items) != keys || keysOnly.Items[3].Value != nil || keysOnly.Items[3].Size != len(value) {
			t.Errorf("namespace %s: Page with NoValues has %d items, the fourth with %d bytes and size %d", ns,
				len(keysOnly.Items), len(keysOnly.Items[3].Value), keysOnly.Items[3].Size)
		}
	}
}

// TestChangesBytes: one look of a watch does not hold 256 values of arbitrary size in memory.
func TestChangesBytes(t *testing.T) {
	ctx, r := within(t), newRig(t, 1)
	s := r.store("n")
	value := bytes.Repeat([]byte("v"), 1<<20)
	for i := range 24 {
		must(s.Put(ctx, string(rune('a'+i)), value))
	}
	for _, how := range []string{"ring", "scan"} {
		if how == "scan" {
			r.Restart()
		}
		if n, err := s.ChangesBytes(ctx, 0, 0); err != nil || n > kv.MaxPageBytes+len(value) {
			t.Errorf("%s: one look of a watch holds %d bytes of values, %v, want at most 4 MiB and one value", how, n, err)
		}
	}
}

func TestNamespaceNames(t *testing.T) {
	ctx := within(t)
	node := open(t, floe.Config{Shards: 1})
	for _, ns := range []string{"", "_system", "a\x00b", strings.Repeat("n", 256), "\xff"} {
		_, err := node.KV(ns).Put(ctx, "k", nil)
		wantErr(t, "Put in namespace "+ns, err, kv.ErrInvalid)
	}
	if _, err := node.KV("never written").Get(ctx, "k"); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("Get in a namespace that does not exist: got %v, want ErrNotFound", err)
	}
	if got := scanKeys(t, node.KV("never written"), ""); len(got) != 0 {
		t.Errorf("All in a namespace that does not exist = %q, want nothing", got)
	}
}

// TestManyTombstones: above the limit each further deletion forgets the oldest tombstone. The limit
// cannot be lowered, so the test deletes that many keys, 500 per entry; a short test stays below
// it.
func TestManyTombstones(t *testing.T) {
	r := newRig(t, 1)
	s := r.store("n")
	ctx := context.Background()
	k := func(i int) string { return string([]byte{'k', byte(i >> 16), byte(i >> 8), byte(i)}) }
	total := kv.MaxTombstones + 500
	if testing.Short() {
		total = 5000
	}
	kept := min(total, kv.MaxTombstones)
	for i := 0; i < total; i += 500 {
		txn := r.Txn("n")
		for j := i; j < i+500; j++ {
			txn.Do(kv.PutOp(k(j), nil), kv.DeleteOp(k(j)))
		}
		if _, err := txn.Commit(ctx); err != nil {
			t.Fatalf("Commit: %v", err)
		}
	}
	q := engine.NamespaceQuery{Name: "n"}
	if err := r.Query(ctx, 0, &q); err != nil || q.Info.Counts.DeadKeys != int64(kept) {
		t.Errorf("there are %d tombstones, %v, want %d", q.Info.Counts.DeadKeys, err, kept)
	}
	for _, i := range []int{0, 1, 499, 500, 501, total - 1} {
		forgotten := i < total-kept
		if _, err := engine.Collect(s.History(k(i)).All(ctx)); errors.Is(err, kv.ErrNotFound) != forgotten {
			t.Errorf("History of deleted key %d: got error %v, want it to be forgotten: %v", i, err, forgotten)
		}
	}
	// The rest is forgotten after a day, 1000 per firing of the timer.
	r.Pass(kv.TombstoneMillis)
	if fired, want := r.Fire(), kept/1000; fired != want {
		t.Errorf("%d timers fired, want %d", fired, want)
	}
	if n := len(recountRows(r.Rows(0)).present); n != 0 {
		t.Errorf("%d keys have rows, want none", n)
	}
}
