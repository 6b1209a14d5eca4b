package kv_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// command returns an operation's command for namespace n.
func command(tb testing.TB, op engine.Operation) engine.Command {
	tb.Helper()
	cmd, err := engine.OpOf(op).Limit(kv.DefaultMaxValueBytes)
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Namespace = "n"
	return cmd
}

// FuzzApplyCommand applies arbitrary bodies: each is refused or carried out, and all counts still
// equal a recount. Only a body that does not decode and was not admitted may panic. The machine
// begins with a key of every kind, and time passes between the commands.
func FuzzApplyCommand(f *testing.F) {
	for _, op := range someOps() {
		cmd := command(f, op)
		f.Add(cmd.Kind, cmd.Body, uint16(0))
		f.Add(cmd.Kind, cmd.Body, uint16(2000))
		for kind := uint8(1); kind <= kv.NumKinds; kind++ {
			f.Add(kind, cmd.Body, uint16(1))
		}
	}
	f.Add(kv.KindPut, kv.PutCommandBody("k", math.MaxInt64), uint16(1))
	f.Add(kv.KindPut, kv.PutCommandBody("k", math.MaxUint64), uint16(1))
	f.Add(kv.KindJSONSet, []byte("\x01k\x02\x00\x00\x00\x01"), uint16(1)) // limit 0
	f.Add(kv.KindPut, []byte("\x01k\x03\x00\x00v"), uint16(1))            // at revision 0, which means absent
	f.Add(uint8(0), []byte{}, uint16(0))
	once := command(f, kv.IncrOp("once", 24, kv.Min(24), kv.Max(24)))
	f.Add(once.Kind, once.Body, uint16(1))
	f.Fuzz(func(t *testing.T, kind uint8, body []byte, wait uint16) {
		r := newRig(t, 1)
		for _, op := range someOps() {
			r.Entry(0, command(t, op))
		}
		r.verify()
		r.Pass(int64(wait))
		cmd := engine.Command{Machine: engine.MachineKV, Kind: kind, Namespace: "n", Body: body}
		p := engine.TableOf[kv.Store]()
		admitted := p.Admit(cmd, 1<<20)
		if admitted == nil {
			machinetest.SameInJSON(t, p, cmd)
		}
		for range 2 {
			out, stopped := r.Try(0, cmd)
			if stopped {
				if admitted == nil {
					t.Errorf("kind %d, body %q is admitted and stops the shard", kind, body)
				}
				return
			}
			var refused *engine.Error
			var conflict *kv.ConflictError
			var bound *kv.BoundError
			if out.Err != nil && !errors.As(out.Err, &refused) && !errors.As(out.Err, &conflict) && !errors.As(out.Err, &bound) {
				t.Errorf("kind %d, body %q: %v is no definite refusal", kind, body, out.Err)
			}
			if out.Err == nil && kv.DecodeBody(kind, body) != nil {
				t.Errorf("kind %d, body %q was carried out and does not decode", kind, body)
			}
			r.verify()
			r.Fire()
			r.verify()
		}
	})
}

// someOps returns operations that succeed one after another in an empty namespace.
func someOps() []engine.Operation {
	return []engine.Operation{
		kv.PutOp("k", []byte("v")),
		kv.PutOp("k", []byte("w"), kv.TTL(time.Second), kv.IfPresent()), kv.PutOp("k", []byte("w"), kv.KeepTTL()),
		kv.PutOp("n\x00", []byte("7"), kv.IfAbsent()),
		kv.IncrOp("n\x00", -3, kv.Min(-5), kv.Max(5)),
		kv.IncrOp("new", 1, kv.TTL(time.Hour)),
		kv.JSONSetOp("j", `a.b\.c`, []byte(`[1,{"d":null}]`)),
		kv.JSONSetOp("j", `a.b\.c.1.-1`, []byte(`"x"`)),
		kv.JSONDeleteOp("j", `a.b\.c.0`),
		kv.TouchOp("j", time.Minute),
		kv.PersistOp("j"),
		kv.PutOp("d", nil),
		kv.DeleteOp("d"),
		engine.OpOfCondition(kv.Absent("d")),
	}
}

func FuzzDecodeRow(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add([]byte{2, 0, 1, 1, 0, 1, 0})
	f.Add(kv.Row{Revision: 7, Version: 2, Previous: 3, Term: 1, UpdatedAt: machinetest.Epoch, Value: []byte("v")}.Encode())
	f.Add(kv.Row{Flags: 2, Revision: math.MaxUint64, Version: 1, ExpiresAt: -1}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := kv.DecodeRow(b)
		if err != nil {
			return
		}
		if again := w.Encode(); !bytes.Equal(again, b) {
			t.Errorf("row %x decodes and encodes as %x", b, again)
		}
	})
}

func FuzzCursor(f *testing.F) {
	s := engine.StoreOf[kv.Store](engine.NewRouter(nil), "n", 0)
	f.Add("a/", "", "a/1")
	f.Add("", s.EncodeCursor("a/", "a/1"), "\x00")
	f.Add("a/", s.EncodeCursor("a/", "a/1"), "\xff")
	f.Add("a/", "AQAAAAA", "")
	f.Fuzz(func(t *testing.T, prefix, cursor, key string) {
		if after, err := s.DecodeCursor(prefix, cursor); err == nil && cursor != "" {
			clean := strings.NewReplacer("\r", "", "\n", "").Replace(cursor) // base64 skips them
			if again := s.EncodeCursor(prefix, after); again != clean {
				t.Errorf("cursor %q of prefix %q stands at %q, whose cursor is %q", cursor, prefix, after, again)
			}
		} else if err != nil && !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("cursor %q: got %v, want ErrInvalid", cursor, err)
		}
		if key == "" {
			return
		}
		if after, err := s.DecodeCursor(prefix, s.EncodeCursor(prefix, key)); err != nil || after != key {
			t.Errorf("the cursor at %q decodes as %q, %v", key, after, err)
		}
	})
}

func FuzzParsePath(f *testing.F) {
	for _, p := range []string{"", "$", "a.b.0", `a\.b`, "$.a['b c'][0]", `$["x"]`, "a..b", `\`, "$[", "a.#", "-1", ":a", "$.a]"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		segments, err := kv.ParsePath(path)
		if err != nil {
			if !errors.Is(err, kv.ErrInvalid) {
				t.Errorf("path %q: got %v, want ErrInvalid", path, err)
			}
			return
		}
		if len(segments) > kv.MaxJSONDepth || len(segments) == 0 && path != "" && path != "$" {
			t.Errorf("path %q has %d parts", path, len(segments))
		}
		quoted := make([]string, len(segments))
		for i, s := range segments {
			if s == "" {
				t.Errorf("path %q has an empty part", path)
			}
			quoted[i] = quote(s)
		}
		if again, err := kv.ParsePath(strings.Join(quoted, ".")); err != nil && len(path) < 2000 ||
			err == nil && !reflect.DeepEqual(again, segments) {
			t.Errorf("path %q is %q, which is read back as %q, %v", path, segments, again, err)
		}
	})
}

func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{"", "{}", `{"a":[1,2.5e-3,"\u00e9",null,true]}`, "[", `"\ud800"`, "1e400", " 1 ", "\"\xff\"", "[1,]", "00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := kv.CheckJSON("b", b) == nil, json.Valid(b); got != want &&
			bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) < kv.MaxJSONDepth {
			t.Errorf("%q is valid JSON: got %v, want %v", b, got, want)
		}
	})
}

// FuzzJSONSet compares setting, getting and deleting with the same operations on values decoded by
// encoding/json.
func FuzzJSONSet(f *testing.F) {
	for _, doc := range []string{"{}", "[]", `{"a":{"b":[1,2,3]},"0":1}`, ` [ {"a":1} , 2 ] `, `{"\u0061":1,"b":"\"}"}`, "null",
		`{"a":1,"a":2}`, `{"":1}`, `{"\"":1,"b":2}`} {
		for _, path := range []string{"a", "a.b", "0", "a.b.3", "a.b.-1", "0.a", ":a", `a\.b`, `\\`, `"`, "$['x y']"} {
			f.Add([]byte(doc), path, []byte(`{"new":[true]}`))
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte, path string, raw []byte) {
		segments, err := kv.ParsePath(path)
		var before, value any
		if err != nil || len(segments) == 0 || json.Unmarshal(doc, &before) != nil || json.Unmarshal(raw, &value) != nil ||
			ambiguous(doc) || ambiguous(raw) {
			kv.SetJSON("k", doc, path, raw, math.MaxInt32)
			kv.DeleteJSON("k", doc, path)
			kv.GetJSON("k", doc, path)
			return
		}
		original := bytes.Clone(doc)
		out, err := kv.SetJSON("k", doc, path, raw, math.MaxInt32)
		want, wantErr := setAt(clone(before), segments, clone(value))
		if !bytes.Equal(doc, original) {
			t.Errorf("setting %q in %q changed it to %q", path, original, doc)
		}
		if wantErr == nil && !utf8.ValidString(path) {
			return // TestJSONInvalidUTF8
		}
		if wantErr == nil && tooDeep(want) {
			wantErr = kv.ErrInvalid
		}
		if !errors.Is(err, wantErr) || wantErr == nil && err != nil {
			t.Fatalf("set %q in %q: got error %v, want %v", path, doc, err, wantErr)
		}
		if err == nil {
			equal(t, "set", doc, path, out, want)
			if got, err := kv.GetJSON("k", out, path); segments[len(segments)-1] != "-1" {
				if err != nil {
					t.Fatalf("get %q after it was set in %q: %v", path, doc, err)
				}
				equal(t, "get", out, path, got, value)
			}
			if got, err := kv.DeleteJSON("k", out, path); err == nil {
				// In an array, the next element takes its place.
				if still, err := kv.GetJSON("k", got, path); err == nil && !isIndex(segments[len(segments)-1]) {
					t.Errorf("%q is %s after it was deleted from %q", path, still, out)
				}
			}
		} else if got, err := kv.GetJSON("k", doc, path); err == nil && !tooDeep(want) {
			t.Errorf("get %q from %q gives %s, and set is refused: %v", path, doc, got, wantErr)
		}
		out, err = kv.DeleteJSON("k", doc, path)
		want, wantErr = removeAt(clone(before), segments)
		if wantErr != nil {
			if !errors.Is(err, kv.ErrNotFound) && !errors.Is(err, kv.ErrInvalid) {
				t.Errorf("delete %q from %q: got error %v, want %v", path, doc, err, wantErr)
			}
			return
		}
		if err != nil {
			t.Fatalf("delete %q from %q: %v", path, doc, err)
		}
		equal(t, "delete", doc, path, out, want)
	})
}

func isIndex(segment string) bool {
	_, err := strconv.Atoi(segment)
	return err == nil
}

// ambiguous reports whether an object repeats a name, or has bytes that encoding/json replaces.
func ambiguous(doc []byte) bool {
	if !utf8.Valid(doc) || bytes.Contains(doc, []byte(`\ud`)) || bytes.Contains(doc, []byte(`\uD`)) || bytes.Contains(doc, []byte(`\uf`)) ||
		bytes.Contains(doc, []byte(`\uF`)) {
		return true
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	return repeated(d)
}

func repeated(d *json.Decoder) bool {
	token, err := d.Token()
	if err != nil {
		return true
	}
	open, ok := token.(json.Delim)
	if !ok {
		return false
	}
	names := make(map[string]bool)
	for d.More() {
		if open == '{' {
			name, err := d.Token()
			if err != nil || names[name.(string)] {
				return true
			}
			names[name.(string)] = true
		}
		if repeated(d) {
			return true
		}
	}
	_, err = d.Token()
	return err != nil
}

func clone(v any) (c any) {
	must(0, json.Unmarshal(must(json.Marshal(v)), &c))
	return c
}

func tooDeep(v any) bool { return kv.CheckJSON("v", must(json.Marshal(v))) != nil }

func equal(t *testing.T, what string, doc []byte, path string, out []byte, want any) {
	t.Helper()
	var got any
	if err := json.Unmarshal(out, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%s %q in %q: got %q, %v, want %s", what, path, doc, out, err, must(json.Marshal(want)))
	}
}
