package kv_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// TestLimits tries all documented limits of the store, and values beside them.
func TestLimits(t *testing.T) {
	const most = 5000 // bytes of a value
	ctx, node := within(t), open(t, floe.Config{Shards: 1, MaxValueSize: most})
	s := node.KV("default")
	text := func(n int64) string { return strings.Repeat("a", int(n)) }
	nested := func(n int64) []byte { return []byte(strings.Repeat("[", int(n)) + strings.Repeat("]", int(n))) }
	list := func(o kv.ListOption) error { _, err := s.Page(ctx, o); return err }
	const none = math.MinInt64
	limits := []machinetest.Limit{
		{Name: "bytes of a key", Least: 1, Most: kv.MaxKeyBytes, Says: []string{"key"},
			Try: func(n int64) error { _, err := s.Put(ctx, text(n), nil); return err }},
		{Name: "bytes of a key that is read", Least: 1, Most: kv.MaxKeyBytes, Says: []string{"key"},
			Try: func(n int64) error { _, err := s.Get(ctx, text(n)); return err }},
		{Name: "bytes of a value, with a max_value_size of 5,000", Least: none, Most: most,
			Says: []string{"5001", "max_value_size", "5000"}, Try: func(n int64) error {
				_,
					err := s.Put(ctx, "k", make([]byte, n))
				return err
			}},
		{Name: "bytes of a document, with a max_value_size of 5,000", Least: none, Most: most, Says: []string{"5001", "5000"},
			Try: func(n int64) error {
				_, err := s.JSONSet(ctx, "document", "", []byte(`"`+text(n-2)+`"`))
				return err
			}},
		{Name: "nesting of a document", Least: none, Most: kv.MaxJSONDepth, Says: []string{"128"},
			Try: func(n int64) error { _, err := s.JSONSet(ctx, "nested", "", nested(n)); return err }},
		{Name: "parts of a path", Least: none, Most: kv.MaxJSONDepth, Says: []string{"128 parts"}, Try: func(n int64) error {
			_, err := s.JSONGet(ctx, "nested", strings.TrimSuffix(strings.Repeat("0.", int(n)), "."))
			return err
		}},
		{Name: "bytes of a path", Least: none, Most: 4096, Says: []string{"4097", "4096"},
			Try: func(n int64) error { _, err := s.JSONGet(ctx, "object", text(n)); return err }},
		{Name: "limit", Least: 1, Most: kv.MaxPageItems, Says: []string{"limit", "1-1000"},
			Try: func(n int64) error { return list(kv.Limit(int(n))) }},
		{Name: "bytes of a prefix", Least: none, Most: kv.MaxKeyBytes, Says: []string{"4097", "4096"},
			Try: func(n int64) error { return list(kv.Prefix(text(n))) }},
		{Name: "bytes of after", Least: none, Most: kv.MaxKeyBytes, Says: []string{"4097", "4096"},
			Try: func(n int64) error { return list(kv.After(text(n))) }},
		{Name: "bytes of a watched prefix", Least: none, Most: kv.MaxKeyBytes, Says: []string{"4097", "4096"}, Try: func(n int64) error {
			if n <= kv.MaxKeyBytes {
				text := text(n) // a key with this prefix ends the wait
				if _, err := s.Put(ctx, text, nil); err != nil {
					return err
				}
			}
			for _, err := range s.Watch(ctx, text(n)) {
				return err
			}
			return nil
		}},
		{Name: "ttl in ns", Least: 1, Most: math.MaxInt64, Says: []string{"ttl 0s"},
			Try: func(n int64) error { _, err := s.Put(ctx, "ttl", nil, kv.TTL(time.Duration(n))); return err }},
		{Name: "ttl of a lock in ns", Least: 1, Most: math.MaxInt64, Says: []string{"ttl 0s"}, Try: func(n int64) error {
			_, err := s.TryLock(ctx, fmt.Sprint("lock", n), time.Duration(n))
			return err
		}},
		{Name: "sum above its bound", Least: none, Most: 7, Beyond: kv.ErrConflict, Says: []string{"8", "7"}, Try: func(n int64) error {
			_, err := s.Incr(ctx, fmt.Sprint("above", n), n, kv.Max(7))
			return err
		}},
		{Name: "sum below its bound", Least: -7, Most: math.MaxInt64, Beyond: kv.ErrConflict, Says: []string{"-8", "-7"},
			Try: func(n int64) error {
				_, err := s.Incr(ctx, fmt.Sprint("below", n), n, kv.Min(-7))
				return err
			}},
		{Name: "added to the greatest but one", Least: none, Most: 1, Says: []string{"leaves the int64 range"}, Try: func(n int64) error {
			key := fmt.Sprint("greatest", n)
			if _, err := s.Incr(ctx, key, math.MaxInt64-1); err != nil {
				return err
			}
			_, err := s.Incr(ctx, key, n)
			return err
		}},
		{Name: "operations of a transaction", Least: 1, Most: 1000, Says: []string{"transaction"}, Try: func(n int64) error {
			txn := node.Txn("default")
			for i := range n {
				txn.Do(kv.PutOp(fmt.Sprint("txn", i), nil))
			}
			_, err := txn.Commit(ctx)
			return err
		}},
	}
	machinetest.TryLimits(t, limits)
	machinetest.DocumentLimits(t, "package kv", machinetest.Bounds(limits))
	for n := range kv.MaxVersions + 1 {
		if _, err := s.Put(ctx, "versions", []byte{byte(n)}); err != nil {
			t.Fatal(err)
		}
		want := min(n+1, kv.MaxVersions)
		if h, err := engine.Collect(s.History("versions").All(ctx)); err != nil || len(h) != want || h[0].Version != uint64(n+1) {
			t.Fatalf("after %d writes the history has %d versions, %v, want %d", n+1, len(h), err, want)
		}
	}
}
