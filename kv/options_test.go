package kv

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestOptions checks the combined effect of options.
func TestOptions(t *testing.T) {
	const both = "a TTL and KeepTTL are mutually exclusive"
	for i, c := range []struct {
		opts     []PutOption
		cond     condition
		revision uint64
		ttl      int64
		says     string
	}{
		{nil, always, 0, 0, ""},
		{[]PutOption{IfAbsent()}, absent, 0, 0, ""},
		{[]PutOption{IfPresent()}, present, 0, 0, ""},
		{[]PutOption{IfRevision(0)}, absent, 0, 0, ""},
		{[]PutOption{IfRevision(1)}, atRevision, 1, 0, ""},
		{[]PutOption{IfAbsent(), IfAbsent(), IfRevision(0)}, absent, 0, 0, ""},
		{[]PutOption{IfPresent(), IfPresent()}, present, 0, 0, ""},
		{[]PutOption{IfRevision(7), IfRevision(7)}, atRevision, 7, 0, ""},
		{[]PutOption{IfPresent(), IfRevision(7)}, atRevision, 7, 0, ""},
		{[]PutOption{IfRevision(7), IfPresent()}, atRevision, 7, 0, ""},
		{[]PutOption{IfRevision(7), IfRevision(8)}, 0, 0, 0, "contradicting conditions: revision 7 and revision 8"},
		{[]PutOption{IfAbsent(), IfPresent()}, 0, 0, 0, "contradicting conditions: absent and present"},
		{[]PutOption{IfPresent(), IfAbsent()}, 0, 0, 0, "contradicting conditions: present and absent"},
		{[]PutOption{IfRevision(7), IfAbsent()}, 0, 0, 0, "contradicting conditions: revision 7 and absent"},
		{[]PutOption{IfAbsent(), IfRevision(7)}, 0, 0, 0, "contradicting conditions: absent and revision 7"},
		{[]PutOption{IfPresent(), IfRevision(0)}, 0, 0, 0, "contradicting conditions: present and absent"},
		{[]PutOption{KeepTTL()}, always, 0, keepTTL, ""},
		{[]PutOption{KeepTTL(), TTL(1)}, 0, 0, 0, both},
		{[]PutOption{TTL(1), KeepTTL()}, 0, 0, 0, both},
		{[]PutOption{KeepTTL(), KeepTTL()}, 0, 0, 0, both},
		{[]PutOption{TTL(1)}, always, 0, 1, ""},
		{[]PutOption{TTL(time.Millisecond)}, always, 0, 1, ""},
		{[]PutOption{TTL(time.Millisecond + 1)}, always, 0, 2, ""},
		{[]PutOption{TTL(math.MaxInt64)}, always, 0, math.MaxInt64/1_000_000 + 1, ""},
		{[]PutOption{TTL(0)}, 0, 0, 0, "ttl 0s is not positive"},
		{[]PutOption{TTL(-1)}, 0, 0, 0, "ttl -1ns is not positive"},
		{[]PutOption{IfAbsent(), IfPresent(), TTL(1)}, 0, 0, 0, "contradicting conditions"},
		{[]PutOption{nil}, 0, 0, 0, "nil"},
	} {
		o := putOptions(c.opts)
		if c.says != "" {
			if !errors.Is(o.err, ErrInvalid) || !strings.Contains(o.err.Error(), c.says) {
				t.Errorf("options %d: %v, want ErrInvalid that says %q", i, o.err, c.says)
			}
			continue
		}
		if o.err != nil || o.cond != c.cond || o.revision != c.revision || o.ttlMillis != c.ttl {
			t.Errorf("options %d: %+v, want %+v", i, o, c)
		}
	}
	for i, c := range []struct {
		opts     []IncrOption
		min, max int64
		says     string
	}{
		{nil, math.MinInt64, math.MaxInt64, ""},
		{[]IncrOption{Min(-1), Max(-1)}, -1, -1, ""},
		{[]IncrOption{Max(1), Min(2)}, 0, 0, "min 2 is greater than max 1"},
		{[]IncrOption{TTL(0)}, 0, 0, "ttl 0s is not positive"},
	} {
		o := incrOptions(c.opts)
		if c.says == "" && (o.err != nil || o.minV != c.min || o.maxV != c.max) ||
			c.says != "" && (o.err == nil || !strings.Contains(o.err.Error(), c.says)) {
			t.Errorf("options %d of Incr: %+v, %v, want %+v", i, o, o.err, c)
		}
	}
	for e, want := range map[EventType]string{EventPut: "put", EventDelete: "delete", EventExpire: "expire", EventCompacted: "compacted",
		EventProgress: "progress", 0: "unknown", EventProgress + 1: "unknown"} {
		if got := e.String(); got != want {
			t.Errorf("event %d is %q, want %q", e, got, want)
		}
	}
}

// TestPaths: the segments of a path, and the position of its error.
func TestPaths(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("a.", n-1) + "a" }
	long := func(n int) string { return strings.Repeat("a", n) }
	for path, want := range map[string]string{
		"": `[]`, "$": `[]`, "a": `["a"]`, "a.b.0": `["a" "b" "0"]`, `a\.b`: `["a.b"]`, `a\\.b`: `["a\\" "b"]`, `\*`: `["*"]`,
		"$.a": `["a"]`, "$.a.b": `["a" "b"]`, "$[0]": `["0"]`,
		"$[-1]": `["-1"]`, "$['a']": `["a"]`, `$["a b"].c`: `["a b" "c"]`, "$['a.b'][12].c": `["a.b" "12" "c"]`, "$['*']": `["*"]`,
		"$.a[0]":   `["a" "0"]`,
		".":        `path ".", byte 0: empty part`,
		"a.":       `path "a.", byte 2: empty part`,
		"a..b":     `path "a..b", byte 2: empty part`,
		`a\`:       `path "a\\", byte 1: backslash at the end`,
		"ab*":      `path "ab*", byte 2: '*' must be escaped with a backslash`,
		"a.b?":     `path "a.b?", byte 3: '?' must be escaped with a backslash`,
		"#":        `path "#", byte 0: '#' must be escaped with a backslash`,
		"a@":       `path "a@", byte 1: '@' must be escaped with a backslash`,
		"a|b":      `path "a|b", byte 1: '|' must be escaped with a backslash`,
		"$a":       `path "$a", byte 1: found 'a', expected . or [`,
		"$.":       `path "$.", byte 2: empty part`,
		"$.a..b":   `path "$.a..b", byte 4: empty part`,
		"$.a*":     `path "$.a*", byte 3: '*' in a name that is not in brackets and quotes`,
		"$.a]":     `path "$.a]", byte 3: ']' in a name that is not in brackets and quotes`,
		"$[":       `path "$[", byte 1: [ without ]`,
		"$.a['b]":  `path "$.a['b]", byte 3: [ without ']`,
		`$["b']`:   `path "$[\"b']", byte 1: [ without "]`,
		"$[a]":     `path "$[a]", byte 2: "a" is neither an index nor a quoted name`,
		"$[-2]":    `path "$[-2]", byte 2: "-2" is neither an index nor a quoted name`,
		"$[01]":    `path "$[01]", byte 2: "01" is neither an index nor a quoted name`,
		"$['']":    `path "$['']", byte 3: empty part`,
		"$[0]a":    `path "$[0]a", byte 4: found 'a', expected . or [`,
		"\xff":     `path "\xff" is not valid UTF-8`,
		"$.a.\xff": `path "$.a.\xff" is not valid UTF-8`,
		deep(MaxJSONDepth + 1): fmt.Sprintf("path %q, byte %d: more than %d parts", shown(deep(MaxJSONDepth+1)), 2*MaxJSONDepth,
			MaxJSONDepth),
		long(maxJSONPath + 1): fmt.Sprintf("path of %d bytes exceeds %d", maxJSONPath+1, maxJSONPath),
	} {
		parts, err := parsePath(path)
		got := fmt.Sprintf("%q", parts)
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "kv: ")
		}
		if got != want {
			t.Errorf("path %.40q: %s, want %s", path, got, want)
		}
	}
	for _, path := range []string{deep(MaxJSONDepth), long(maxJSONPath)} {
		if _, err := parsePath(path); err != nil {
			t.Errorf("path %.40q: %v", path, err)
		}
	}
	doc := []byte(`{"a":[1,2,{"b":"x"}],"c":{"d":null},"@e":5,"f":7}`)
	for path, want := range map[string]string{
		"": string(doc), "a": `[1,2,{"b":"x"}]`, "a.0": "1", "a.2.b": `"x"`, "c.d": "null", "a.3": `kv: key "k" has nothing at "a.3"`,
		"f.x": `kv: key "k" has nothing at "f.x"`, "g": `kv: key "k" has nothing at "g"`,
		"a.x": `kv: key "k": "x" is not an index of an array`, "a.#": "3", "a.*": `kv: key "k" has nothing at "a.*"`, "?": `[1,2,{"b":"x"}]`,
		`\@e`: "5", "a|0": "1", "a.#.b": `["x"]`,
		"#|!x":    `kv: path "#|!x", byte 2: '!' must be escaped with a backslash: modifiers and multipaths are not supported`,
		"*|@this": `kv: path "*|@this", byte 2: '@' must be escaped with a backslash: modifiers and multipaths are not supported`,
		"*.[0]":   `kv: path "*.[0]", byte 2: '[' must be escaped with a backslash: modifiers and multipaths are not supported`,
		"{a}.#":   `kv: path "{a}.#", byte 0: '{' must be escaped with a backslash: modifiers and multipaths are not supported`,
		`*\@x`:    `kv: key "k" has nothing at "*\\@x"`, "x{*": `kv: key "k" has nothing at "x{*"`,
		"*\xff": `kv: path "*\xff" is not valid UTF-8`,
	} {
		got, err := getJSON("k", doc, path)
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != want {
			t.Errorf("JSONGet of %q: %s, want %s", path, got, want)
		}
	}
	nested := func(n int) []byte { return []byte(strings.Repeat(`[`, n) + strings.Repeat(`]`, n)) }
	for text, want := range map[string]string{
		string(nested(MaxJSONDepth)): "", string(nested(MaxJSONDepth + 1)): fmt.Sprintf("it nests deeper than %d", MaxJSONDepth), `"[[` +
			strings.Repeat("[", MaxJSONDepth) + `"`: "", `"\"` + strings.Repeat("[", MaxJSONDepth+1) + `"`: "",
		`[` + strings.Repeat("[],{},", MaxJSONDepth) + `1]`: "", "{": "it is not valid JSON", "": "it is not valid JSON",
	} {
		err := checkJSON("it", []byte(text))
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && got != want {
			t.Errorf("%.30s: %v, want %q", text, err, want)
		}
	}
	for size, ok := range map[int]bool{5: false, 7: true, 6: false} { // the size of {"a":1} is 7 bytes
		if out, err := setJSON("k", []byte("{}"), "a", []byte("1"), size); (err == nil) != ok {
			t.Errorf("a document of %d bytes where %d are allowed: %v", len(out), size, err)
		}
	}
	if _, err := setJSON("k", []byte("{}"), "a", []byte("1 2"), 100); err == nil || err.Error() != "kv: the JSON to set is not valid JSON" {
		t.Errorf("setting no JSON: %v", err)
	}
}

// TestUpdateDeletes: an Update that conflicts tries again. An Update that deletes a key already
// deleted succeeds, and one without a function is refused.
func TestUpdateDeletes(t *testing.T) {
	r := machinetest.New(t, 1, table())
	s, ctx := engine.StoreOf[Store](r.Router(), "n", 0), t.Context()
	if _, err := s.Update(ctx, "k", nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("Update without a function: %v", err)
	}
	if _, err := JSON[int](s).Update(ctx, "k", nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("Update of a view without a function: %v", err)
	}
	put := func() Written {
		w, err := s.Put(ctx, "k", []byte("1"))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	put()
	w, err := s.Update(ctx, "k", func(e Entry) ([]byte, error) {
		_, err := s.Delete(ctx, "k")
		return nil, errors.Join(ErrDelete, err)
	})
	if err != nil || w != (Written{}) {
		t.Errorf("Update that deletes what has gone = %+v, %v", w, err)
	}
	put()
	calls := 0
	w, err = s.Update(ctx, "k", func(e Entry) ([]byte, error) {
		if calls++; calls < 3 {
			put()
		}
		return nil, ErrDelete
	})
	if ok, _ := s.Exists(ctx, "k"); err != nil || calls != 3 || ok || w != (Written{}) {
		t.Errorf("Update that deletes = %+v, %v after %d calls, exists: %v", w, err, calls, ok)
	}
	late, cancel := context.WithCancel(ctx)
	if _, err := s.Update(late, "k", func(Entry) ([]byte, error) { put(); cancel(); return []byte("2"), nil }); !errors.Is(err,
		context.Canceled) {
		t.Errorf("Update that comes too late, and is canceled = %v", err)
	}
	last := put()
	if w, err := s.Update(ctx, "k", func(Entry) ([]byte, error) { return nil, ErrUnchanged }); err != nil || w != last {
		t.Errorf("Update that changes nothing = %+v, %v, want %+v", w, err, last)
	}
	if _, err := JSON[chan int](s).Update(ctx, "none", func(EntryOf[chan int]) (chan int, error) { return nil, ErrUnchanged }); err != nil {
		t.Errorf("Update of a view that changes nothing: %v", err)
	}
}

// TestBuffers: a value is copied to the caller's buffer, also if the shard returns it. PageInto
// requires a buffer.
func TestBuffers(t *testing.T) {
	s, ctx := engine.StoreOf[Store](machinetest.New(t, 1, table()).Router(), "n", 0), t.Context()
	if _, err := s.Put(ctx, "k", []byte("value")); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 4, 5, 100} {
		buf := make([]byte, size)
		e, err := s.GetInto(ctx, "k", buf)
		if err != nil || string(e.Value) != "value" || size >= 5 && &e.Value[0] != &buf[0] {
			t.Errorf("GetInto a buffer of %d bytes = %q, %v", size, e.Value, err)
		}
	}
	if _, err := s.PageInto(ctx, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("PageInto no buffer: %v", err)
	}
}

// TestMistakes: invalid calls are refused before any request, and a view returns decoding errors.
func TestMistakes(t *testing.T) {
	s, ctx := engine.StoreOf[Store](machinetest.New(t, 1, table()).Router(), "n", 0), t.Context()
	bad := engine.StoreOf[Store](machinetest.New(t, 1, table()).Router(), "", 0)
	if _, err := s.Put(ctx, "text", []byte(`"x"`)); err != nil {
		t.Fatal(err)
	}
	second := func(_ any, err error) error { return err }
	unchanged := func(Entry) ([]byte, error) { return nil, ErrUnchanged }
	for name, err := range map[string]error{
		"History with a nil option":      second(engine.Collect(s.History("text").All(ctx, nil))),
		"PageInto with a nil option":     second(s.PageInto(ctx, new(PageBuffer), nil)),
		"Update with a nil option":       second(s.Update(ctx, "text", unchanged, nil)),
		"Update with a ttl of 0":         second(s.Update(ctx, "text", unchanged, TTL(0))),
		"JSONGet of a bad path":          second(s.JSONGet(ctx, "text", "a..b")),
		"JSONGet of a bad query":         second(s.JSONGet(ctx, "text", "#.@this")),
		"JSONSet of no JSON":             second(s.JSONSet(ctx, "text", "a", []byte("{"))),
		"JSONSet at a bad path":          second(s.JSONSet(ctx, "text", "$a", []byte("1"))),
		"JSONDelete of a bad path":       second(s.JSONDelete(ctx, "text", "a*")),
		"Wait in a namespace of no name": second(bad.Wait(ctx, "text")),
		"WaitChange, likewise":           second(bad.WaitChange(ctx, "text", 0)),
		"Watch, likewise":                machinetest.LastError(bad.Watch(ctx, "")),
		"Wait for a key of no name":      second(s.Wait(ctx, "")),
		"WaitChange, of such":            second(s.WaitChange(ctx, "", 0)),
		"GetMany, of such":               second(s.GetMany(ctx, "text", "")),
		"Exists, of such":                second(s.Exists(ctx, "")),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	var decode *DecodeError
	if _, err := JSON[int](s).Update(ctx, "text", func(EntryOf[int]) (int, error) { return 1, nil }); !errors.As(err, &decode) ||
		decode.Key != "text" {
		t.Errorf("Update of what is no number: %v", err)
	}
	if err := machinetest.LastError(JSON[int](s).Scan(ctx)); !errors.As(err, &decode) {
		t.Errorf("Scan of what is no number: %v", err)
	}
	for e, err := range JSON[int](s).Scan(ctx, NoValues()) {
		if err != nil || e.Key != "text" || e.Version != 1 || e.Value != 0 {
			t.Errorf("Scan without values: %+v, %v", e, err)
		}
	}
	if _, err := JSON[chan int](s).Put(ctx, "k", nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("Put of what has no JSON: %v", err)
	}
}
