package kv_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/floedb/floe/kv"
)

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func TestJSONDepth(t *testing.T) {
	ctx, s := within(t), openStore(t)
	if _, err := s.JSONSet(ctx, "k", "$", []byte(nested(kv.MaxJSONDepth))); err != nil {
		t.Errorf("JSONSet of depth %d: %v", kv.MaxJSONDepth, err)
	}
	if _, err := s.JSONGet(ctx, "k", "0.0.0"); err != nil {
		t.Errorf("JSONGet in depth %d: %v", kv.MaxJSONDepth, err)
	}
	for _, depth := range []int{kv.MaxJSONDepth + 1, 500_000} {
		_, err := s.JSONSet(ctx, "k", "$", []byte(nested(depth)))
		wantErr(t, fmt.Sprintf("JSONSet of depth %d", depth), err, kv.ErrInvalid)
		must(s.Put(ctx, "deep", []byte(nested(depth))))
		_, err = s.JSONGet(ctx, "deep", "0")
		wantErr(t, fmt.Sprintf("JSONGet from depth %d", depth), err, kv.ErrInvalid)
		_, err = s.JSONSet(ctx, "deep", "0", []byte("1"))
		wantErr(t, fmt.Sprintf("JSONSet into depth %d", depth), err, kv.ErrInvalid)
		_, err = s.JSONDelete(ctx, "deep", "0")
		wantErr(t, fmt.Sprintf("JSONDelete from depth %d", depth), err, kv.ErrInvalid)
	}
	// Brackets in strings do not count as nesting.
	if _, err := s.JSONSet(ctx, "k", "$", []byte(`"`+strings.Repeat(`[\"{`, 500)+`"`)); err != nil {
		t.Errorf("JSONSet of a string with brackets: %v", err)
	}
	// Objects that the path creates count.
	path := strings.Repeat("a.", kv.MaxJSONDepth-1) + "a"
	if _, err := s.JSONSet(ctx, "p", path, []byte("1")); err != nil {
		t.Errorf("JSONSet at a path of %d parts: %v", kv.MaxJSONDepth, err)
	}
	_, err := s.JSONSet(ctx, "q", path, []byte("{}"))
	wantErr(t, "JSONSet of an object at a path of 128 parts", err, kv.ErrInvalid)
	_, err = s.JSONSet(ctx, "q", path+".a", []byte("1"))
	wantErr(t, "JSONSet at a path of 129 parts", err, kv.ErrInvalid)
}

// TestJSONEditLooksOnce: an edit scans the document once, whatever the depth of its path. It used
// to parse each container on the path, then the one within it again: 1 MiB at 128 levels took as
// long as 128 MiB.
func TestJSONEditLooksOnce(t *testing.T) {
	ctx, s := within(t), openStore(t)
	const depth = kv.MaxJSONDepth - 2
	open, path := strings.Repeat(`{ "x" : [ "}]\"," , -1.5e3 ], "a" : `, depth), strings.Repeat("a.", depth)+"b"
	doc := open + `{"b": 1 }` + strings.Repeat(` , "y":{"z":[null]} }`, depth)
	for _, raw := range []string{"[2]", ""} {
		if n, err := kv.LookedAt([]byte(doc), path, raw); err != nil || n > len(doc) {
			t.Errorf("an edit of %d bytes looks at %d, %v", len(doc), n, err)
		}
		must(s.Put(ctx, "k", []byte(doc)))
		left := "{}"
		var err error
		if raw == "" {
			_, err = s.JSONDelete(ctx, "k", path)
		} else {
			left = `{"b":` + raw + `}`
			_, err = s.JSONSet(ctx, "k", path, []byte(raw))
		}
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := json.Unmarshal([]byte(strings.Replace(doc, `{"b": 1 }`, left, 1)), &want); err != nil {
			t.Fatal(err)
		}
		same(t, "after the edit with "+raw, must(s.Get(ctx, "k")).Value, want)
	}
}

func TestJSONInvalid(t *testing.T) {
	ctx, s := within(t), openStore(t)
	must(s.Put(ctx, "k", []byte("{}")))
	for _, raw := range []string{
		"", " ", "{", "}", "]", "[1,]", "{}x", "{} {}", "nul", "tru", `{"a":}`, `{"a" 1}`, `{a:1}`, "01", "1.", ".5", "+1", "-", "1e",
		"0x1", "NaN",
		"Infinity", `"`, `"\x"`, `"\u12"`, "\"a\nb\"", "\"a\x00b\"", "'a'", "\ufeff{}", "{\x00}", "[1 2]", "//", "{,}", "\x00", `{"a":1,}`,
	} {
		if json.Valid([]byte(raw)) {
			t.Fatalf("%q is valid JSON", raw)
		}
		_, err := s.JSONSet(ctx, "k", "a", []byte(raw))
		wantErr(t, fmt.Sprintf("JSONSet(%q)", raw), err, kv.ErrInvalid)
		must(s.Put(ctx, "bad", []byte(raw)))
		_, err = s.JSONGet(ctx, "bad", "a")
		wantErr(t, fmt.Sprintf("JSONGet from %q", raw), err, kv.ErrInvalid)
	}
	for _, raw := range []string{"1e400", "18446744073709551616", "-0", `"\u0000"`, `"\ud800"`, " [ ] ", "\t{\r\n}", "null", "\"\x7f\""} {
		if _, err := s.JSONSet(ctx, "k", "a", []byte(raw)); err != nil {
			t.Errorf("JSONSet(%q): %v", raw, err)
		}
		if got, err := s.JSONGet(ctx, "k", "a"); err != nil || string(got) != strings.TrimSpace(raw) {
			t.Errorf("JSONGet after JSONSet(%q) = %q, %v", raw, got, err)
		}
	}
}

// TestJSONWritePaths has paths that match several places or none. The document does not change.
func TestJSONWritePaths(t *testing.T) {
	ctx, s := within(t), openStore(t)
	const doc = `{"a":[1,2],"s":"x","n":null,"o":{"1":1}}`
	must(s.Put(ctx, "k", []byte(doc)))
	for _, path := range []string{
		"#", "*", "?", "@this", "@pretty", "a.#", "a.*", "a.@reverse", "a|0", "a.#(x==1)", "a.#(x==1)#", "..", ".", ".a", "a.", "a..0",
		"..a", "...",
		"a.99999999", "a.3", "a.-2", "a.00", "a.+1", "a.1e0", "a.1.5", "a.x", "a. 1", "a.9223372036854775808", "s.x", "n.x", "a.0.x", `a\`,
		`\`,
		"$.", "$..a", "$a", "$[", "$[]", "$[a]", "$['a]", "$[0", "$.a[", "$.a[99999999]", "$.a[*]", "$.a[0:1]", "$.*", "$.a[-2]", "$['']",
		`$[""]`,
		"$.a[?(@.x)]", "$.a['0", "$$", "$ ", strings.Repeat("a.", 100_000) + "a", strings.Repeat("a", 4097), strings.Repeat("$.a", 100_000),
		"$" + strings.Repeat("[0]", 100_000),
	} {
		short := fmt.Sprintf("%.30q", path)
		_, err := s.JSONSet(ctx, "k", path, []byte("1"))
		wantErr(t, "JSONSet at "+short, err, kv.ErrInvalid)
		if _, err = s.JSONDelete(ctx, "k", path); !errors.Is(err, kv.ErrInvalid) && !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("JSONDelete at %s: got %v, want ErrInvalid or ErrNotFound", short, err)
		}
		if e, err := s.Get(ctx, "k"); err != nil || string(e.Value) != doc {
			t.Fatalf("after JSONSet and JSONDelete at %s the document is %s, %v, want %s", short, e.Value, err, doc)
		}
	}
}

// names are member names; several have a meaning in paths of sjson or gjson.
var names = []string{
	"a", "0", "1", "-1", "00", "9999999999", ":", ":a", "::", ":0", "a:b", `\`, `\\`, `a\`, `\a`, ".", "..", "a.b", "#", "@", "@this", "*",
	"?", "a*", "a?b",
	"|", "a|b", `"`, `a"b`, `\"`, "'", "`", "!", "!a", "{", "}", "[", "]", "[0]", "{a}", "(", ")", "#(a==1)", "~", "=", "<", ">", "&", "%",
	"$", "$a", "$.a",
	",", "/", " ", "  ", "\t", "\n", "\x00", "\x01", "\x1f", "\x7f", "ä", "日本", "😀", "\u2028", "\ufeff", "\u202e", "a\u0301", "null",
	"true", "length", "__proto__",
	strings.Repeat("n", 300),
}

// quote escapes a name so that it is literal in a dotted path.
func quote(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if strings.IndexByte(`\.*?#@|$`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// TestJSONNames sets, reads and deletes members of every name, alone and beside all others.
// Documents spell names with and without escapes. encoding/json gives the expected results.
func TestJSONNames(t *testing.T) {
	ctx, s := within(t), openStore(t)
	all := make(map[string]any)
	for _, n := range names {
		all[n] = "old " + n
	}
	whole, _ := json.Marshal(all)
	for i, n := range names {
		for form, doc := range map[string][]byte{"alone": []byte("{}"), "among all": whole, "all escaped": escapeAll(all)} {
			want := make(map[string]any)
			if err := json.Unmarshal(doc, &want); err != nil {
				t.Fatalf("%s: %v", doc, err)
			}
			must(s.Put(ctx, "k", doc))
			path := quote(n)
			if _, err := s.JSONSet(ctx, "k", path, fmt.Appendf(nil, "%d", i)); err != nil {
				t.Errorf("%s: JSONSet(%q): %v", form, path, err)
				continue
			}
			want[n] = float64(i)
			same(t, fmt.Sprintf("%s: after JSONSet(%q)", form, path), must(s.Get(ctx, "k")).Value, want)
			if got, err := s.JSONGet(ctx, "k", "$"+`["`+n+`"]`); !strings.ContainsAny(n, `"]`) &&
				(err != nil || string(got) != fmt.Sprint(i)) {
				t.Errorf("%s: JSONGet($[%q]) = %s, %v, want %d", form, n, got, err, i)
			}
			if _, err := s.JSONDelete(ctx, "k", path); err != nil {
				t.Errorf("%s: JSONDelete(%q): %v", form, path, err)
				continue
			}
			delete(want, n)
			same(t, fmt.Sprintf("%s: after JSONDelete(%q)", form, path), must(s.Get(ctx, "k")).Value, want)
			// A member of an object that does not exist yet.
			if _, err := s.JSONSet(ctx, "k", path+"."+path, []byte("true")); err != nil {
				t.Errorf("%s: JSONSet(%q.%[2]q): %v", form, path, err)
				continue
			}
			want[n] = map[string]any{n: true}
			same(t, fmt.Sprintf("%s: after JSONSet(%q.%[2]q)", form, path), must(s.Get(ctx, "k")).Value, want)
		}
	}
}

// escapeAll encodes an object of strings with every character as a \u escape.
func escapeAll(m map[string]any) []byte {
	var b bytes.Buffer
	write := func(s string) {
		b.WriteByte('"')
		for _, r := range s {
			if r > 0xffff {
				r -= 0x10000
				fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
				continue
			}
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		b.WriteByte('"')
	}
	b.WriteString(" {")
	for _, n := range names {
		if b.Len() > 2 {
			b.WriteString(" ,\n")
		}
		write(n)
		b.WriteString(" : ")
		write(m[n].(string))
	}
	b.WriteString("} ")
	return b.Bytes()
}

func same(t *testing.T, what string, doc []byte, want any) {
	t.Helper()
	var got any
	if err := json.Unmarshal(doc, &got); err != nil {
		t.Errorf("%s the document is %.200q: %v", what, doc, err)
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s the document is\n%.300s\nwant\n%.300s", what, doc, must(json.Marshal(want)))
	}
}

// TestJSONBrackets: a quoted name in brackets is literal.
func TestJSONBrackets(t *testing.T) {
	ctx, s := within(t), openStore(t)
	for path, name := range map[string]string{
		`$['a b']`: "a b", `$["a.b"]`: "a.b", `$['#']`: "#", `$['a[0]']`: "a[0]", `$["]"]`: "]", `$['a"b']`: `a"b`, `$["it's"]`: "it's",
		`$['$']`: "$", `$['0']`: "0",
	} {
		must(s.Put(ctx, "k", []byte("{}")))
		if _, err := s.JSONSet(ctx, "k", path, []byte("1")); err != nil {
			t.Errorf("JSONSet(%s): %v", path, err)
			continue
		}
		same(t, "after JSONSet("+path+")", must(s.Get(ctx, "k")).Value, map[string]any{name: 1.0})
		if got, err := s.JSONGet(ctx, "k", path); err != nil || string(got) != "1" {
			t.Errorf("JSONGet(%s) = %s, %v, want 1", path, got, err)
		}
	}
}

// TestJSONInvalidUTF8: a name that JSON cannot represent is refused, not replaced.
func TestJSONInvalidUTF8(t *testing.T) {
	ctx, s := within(t), openStore(t)
	must(s.Put(ctx, "k", []byte(`{}`)))
	for range 2 {
		_, err := s.JSONSet(ctx, "k", "a\xff", []byte("1"))
		wantErr(t, `JSONSet("a\xff")`, err, kv.ErrInvalid)
	}
	if e := must(s.Get(ctx, "k")); string(e.Value) != "{}" {
		t.Errorf("the document is %q, want {}", e.Value)
	}
}

// TestJSONDuplicateNames: after a successful delete, nothing remains at the path.
func TestJSONDuplicateNames(t *testing.T) {
	ctx, s := within(t), openStore(t)
	must(s.Put(ctx, "k", []byte(`{"a":1,"b":2,"a":3}`)))
	if _, err := s.JSONDelete(ctx, "k", "a"); err != nil {
		return // refusing such a document is fine too
	}
	if got, err := s.JSONGet(ctx, "k", "a"); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("JSONGet(a) after JSONDelete(a) = %s, %v, want ErrNotFound", got, err)
	}
}

// TestJSONGetIsBounded: a gjson path cannot multiply a document.
func TestJSONGetIsBounded(t *testing.T) {
	ctx, s := within(t), openStore(t)
	doc := []byte(`{"a":"` + strings.Repeat(`\"`, 2000) + `","b":[1,2,3]}`)
	must(s.Put(ctx, "k", doc))
	for _, path := range []string{
		strings.Repeat("[@this,@this]|", 8) + "@this",
		strings.Repeat(`{"a":@this,"b":@this}|`, 8) + "@this",
		strings.Repeat("@tostr|", 8) + "@tostr",
		strings.Repeat("@values|@keys|", 4) + "@this",
		`@pretty:{"indent":"` + strings.Repeat(" ", 4000) + `"}`,
		"[" + strings.Repeat("@this,", 600) + "@this]",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := s.JSONGet(ctx, "k", path)
		runtime.ReadMemStats(&after)
		if len(got) > 2*len(doc) {
			t.Errorf("JSONGet(%.40q...) of %d bytes gives %d bytes (%v) and allocates %d", path, len(doc), len(got), err,
				after.TotalAlloc-before.TotalAlloc)
		}
	}
}

func TestJSONGetPaths(t *testing.T) {
	ctx, s := within(t), openStore(t)
	must(s.Put(ctx, "k", []byte(`{"user":{"tags":["x","y"],"name":"Ada"},"items":[{"id":1,"ok":true},{"id":2,"ok":false}],"a.b":5,"$":6}`)))
	for path, want := range map[string]string{
		"user.tags.0": `"x"`, "user.tags.#": "2", "items.#.id": "[1,2]", "items.#(id==2).ok": "false", `items.#(ok==true)#.id`: "[1]",
		"user.na*": `"Ada"`,
		`a\.b`:     "5", `$["a.b"]`: "5", "$.user.tags[1]": `"y"`, "$.items[0].id": "1", `\$`: "6", "$['$']": "6", "user.tags": `["x","y"]`,
	} {
		if got, err := s.JSONGet(ctx, "k", path); err != nil || string(got) != want {
			t.Errorf("JSONGet(%q) = %s, %v, want %s", path, got, err, want)
		}
	}
	for _, path := range []string{"nope", "user.tags.2", "user.tags.-1", "$.user.tags[2]", "$.nope", "user.name.x", "user.n{me*",
		"user.n[me*", "user.n!me*", `user.\{me*`} {
		_, err := s.JSONGet(ctx, "k", path)
		wantErr(t, fmt.Sprintf("JSONGet(%q)", path), err, kv.ErrNotFound)
	}
	for _, path := range []string{
		strings.Repeat("a.", 100_000), "$.a[", "$x", "$..", "{a}*", "[a]*", "!a*", "@a*", "a@a*", "items.#.{id}", "items.#|{id}",
		"items.#.[id]", "items.#|[id]", "items.#.!id",
		"items.#|!id", "items.#|@id",
	} {
		_, err := s.JSONGet(ctx, "k", path)
		wantErr(t, fmt.Sprintf("JSONGet(%.20q)", path), err, kv.ErrInvalid)
	}
}
