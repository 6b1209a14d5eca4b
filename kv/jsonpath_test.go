package kv_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// TestJSONPathsAreOneLanguage: JSONSet and JSONDelete refuse each path that JSONGet refuses, with
// the same message. That holds on a Node and on a Client, whether or not the key exists. The error
// gives the byte position.
func TestJSONPathsAreOneLanguage(t *testing.T) {
	ctx := within(t)
	node := open(t, floe.Config{Shards: 1, Listen: "127.0.0.1:0"})
	client := must(floe.Dial(ctx, []string{node.Addr().String()}))
	defer client.Close()
	for path, at := range map[string]int{
		"a..b": 2, ".a": 0, "a.": 2, ".": 0, "a.b..": 4, `a\\.`: 4, `a\`: 1, "a.@this": 2, "ä..b": 3,
		"$[+1]": 2, "$[01]": 2, "$[-0]": 2, "$[-2]": 2, "$[99999999999999999999]": 2, "$.a[ 1]": 4, "$[1": 1, "$['a'": 1, "$.": 2,
		"$.a.": 4, "$.a..b": 4,
		"$['']": 3, "$a": 1, "$.a]": 3, "$.a b*": 5, "$.a[0]b": 6, strings.Repeat("a.", kv.MaxJSONDepth) + "a": 2 * kv.MaxJSONDepth,
	} {
		for name, s := range map[string]*kv.Store{"node": node.KV("default"), "client": client.KV("default")} {
			for _, key := range []string{"k", "none"} {
				must(s.Put(ctx, "k", []byte(`{"a":{"":1,"b":2}}`)))
				_, getErr := s.JSONGet(ctx, key, path)
				_, setErr := s.JSONSet(ctx, key, path, []byte("1"))
				_, deleteErr := s.JSONDelete(ctx, key, path)
				for call, err := range map[string]error{"JSONGet": getErr, "JSONSet": setErr, "JSONDelete": deleteErr} {
					if !errors.Is(err, kv.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf(", byte %d: ", at)) ||
						err.Error() != getErr.Error() {
						t.Errorf("%s: %s(%q, %.40q) = %v, want ErrInvalid at byte %d, as JSONGet: %v", name, call, key, path, err, at,
							getErr)
					}
				}
			}
		}
	}
	// A segment applied to an array is an index, for all three calls.
	s := client.KV("default")
	must(s.Put(ctx, "k", []byte(`{"b":[0,1,2],"[+1]":3,"01":4,"a.b":5}`)))
	for _, path := range []string{"b.01", "b.+1", "b.-0", "b.1e0", "b.x", "b.[1]", "b. 1", "b.99999999999999999999", "$.b.01",
		"$['b']['01']"} {
		_, err := s.JSONGet(ctx, "k", path)
		wantErr(t, "JSONGet("+path+")", err, kv.ErrInvalid)
		_, err = s.JSONSet(ctx, "k", path, []byte("1"))
		wantErr(t, "JSONSet("+path+")", err, kv.ErrInvalid)
		_, err = s.JSONDelete(ctx, "k", path)
		wantErr(t, "JSONDelete("+path+")", err, kv.ErrInvalid)
	}
	for path, want := range map[string]string{"[+1]": "3", "01": "4", `a\.b`: "5", "$['a.b']": "5", "$.01": "4", "$.b[2]": "2",
		"b.2": "2"} {
		if got, err := s.JSONGet(ctx, "k", path); err != nil || string(got) != want {
			t.Errorf("JSONGet(%q) = %s, %v, want %s", path, got, err, want)
		}
	}
}

// TestJSONSetIsGot sets random values at random paths of random documents, in both path forms.
// After a successful JSONSet, JSONGet returns the value; any path at which JSONGet finds a value
// can be set.
func TestJSONSetIsGot(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 7))
	all := append([]string{"a", "b", "0", "1", "2", "-1", "01", "x y"}, names...)
	var value func(depth int) any
	value = func(depth int) any {
		switch rng.IntN(4 - min(depth, 2)) {
		case 3:
			o := make(map[string]any)
			for range rng.IntN(4) {
				o[all[rng.IntN(len(all))]] = value(depth + 1)
			}
			return o
		case 2:
			a := make([]any, rng.IntN(4))
			for i := range a {
				a[i] = value(depth + 1)
			}
			return a
		case 1:
			return names[rng.IntN(len(names))]
		}
		return float64(rng.IntN(100))
	}
	path := func() string {
		var dotted []string
		dollar := "$"
		for range 1 + rng.IntN(3) {
			n := all[rng.IntN(8)]
			if rng.IntN(2) == 0 {
				n = all[rng.IntN(len(all))]
			}
			dotted = append(dotted, quote(n))
			q := "'"
			if strings.Contains(n, q) {
				q = `"`
			}
			dollar += "[" + q + n + q + "]"
		}
		if rng.IntN(2) == 0 {
			return dollar
		}
		return strings.Join(dotted, ".")
	}
	set, found := 0, 0
	for range 20_000 {
		doc, p, raw := must(json.Marshal(value(0))), path(), must(json.Marshal(value(1)))
		before, getErr := kv.GetJSON("k", doc, p)
		out, setErr := kv.SetJSON("k", doc, p, raw, 1<<20)
		if getErr == nil && setErr != nil {
			t.Fatalf("%q of %s is %s, and cannot be set: %v", p, doc, before, setErr)
		}
		if setErr != nil {
			continue
		}
		set++
		got, err := kv.GetJSON("k", out, p)
		segments := must(kv.ParsePath(p))
		if errors.Is(err, kv.ErrNotFound) && strings.Contains("."+strings.Join(segments, "."), ".-1") {
			continue // it was appended
		}
		var have, want any
		if err != nil || json.Unmarshal(got, &have) != nil || json.Unmarshal(raw, &want) != nil || !reflect.DeepEqual(have, want) {
			t.Fatalf("%q of %s set to %s is %s, %v, in %s", p, doc, raw, got, err, out)
		}
		if getErr == nil {
			found++
		}
		deleted, err := kv.DeleteJSON("k", out, p)
		if err != nil {
			t.Fatalf("%q of %s cannot be deleted: %v", p, out, err)
		}
		if _, err := kv.GetJSON("k", deleted, p); err == nil && !isIndex(segments[len(segments)-1]) {
			t.Fatalf("%q is still in %s", p, deleted)
		}
	}
	if set < 2000 || found < 200 {
		t.Errorf("only %d of the paths could be set, %d held something before", set, found)
	}
}

// TestErrorsAreShort: an error repeats at most 200 bytes of a key or path.
func TestErrorsAreShort(t *testing.T) {
	ctx, s := within(t), openStore(t)
	long := strings.Repeat("k", kv.MaxKeyBytes)
	path := strings.Repeat("p", 4000)
	must(s.Put(ctx, long, []byte("no JSON")))
	must(s.Put(ctx, "doc", []byte(`{"a":1}`)))
	for call, f := range map[string]func() error{
		"Get":            func() error { _, err := s.Get(ctx, "a"+long[1:]); return err },
		"Put":            func() error { _, err := s.Put(ctx, long, nil, kv.IfAbsent()); return err },
		"Incr":           func() error { _, err := s.Incr(ctx, long, 1); return err },
		"JSONGet":        func() error { _, err := s.JSONGet(ctx, long, "a"); return err },
		"JSONGet a path": func() error { _, err := s.JSONGet(ctx, "doc", path); return err },
		"JSONSet":        func() error { _, err := s.JSONSet(ctx, long, path, []byte("1")); return err },
		"JSONSet in 1":   func() error { _, err := s.JSONSet(ctx, "doc", "a."+path, []byte("1")); return err },
		"JSONDelete":     func() error { _, err := s.JSONDelete(ctx, "doc", path); return err },
		"malformed path": func() error { _, err := s.JSONSet(ctx, "doc", path+".", []byte("1")); return err },
		"JSON":           func() error { _, err := kv.JSON[int](s).Get(ctx, long); return err },
		"TryLock":        func() error { _, err := s.TryLock(ctx, long, 1); return err },
		"Cursor":         func() error { _, err := s.Page(ctx, kv.Cursor(long)); return err },
		"bounded Incr":   func() error { _, err := s.Incr(ctx, "b"+long[1:], 1, kv.Max(0)); return err },
		"invalid UTF-8":  func() error { _, err := s.JSONGet(ctx, "doc", "\xff"+path); return err },
	} {
		if err := f(); err == nil || len(err.Error()) > 600 {
			t.Errorf("%s: got %.300v, want an error of at most 600 bytes", call, err)
		}
	}
}
