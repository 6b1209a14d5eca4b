package rawjson

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestValid(t *testing.T) {
	for _, test := range []struct {
		raw  string
		want bool
	}{
		{`1`, true}, {` [1 , 2] `, true}, {`{"a":{"b":[]}}`, true}, {`-0.5e+10`, true}, {`"\u00e9\n\/"`, true}, {`true`, true}, {`null`,
			true},
		{``, false}, {` `, false}, {`01`, false}, {`1.`, false}, {`.5`, false}, {`+1`, false}, {`1e`, false}, {`-`, false}, {`nul`,
			false}, {`nulll`, false},
		{`[1,]`, false}, {`[,1]`, false}, {`[1 2]`, false}, {`[`, false}, {`{"a"}`, false}, {`{"a":}`, false}, {`{a:1}`,
			false}, {`{"a":1,}`, false}, {`{`, false},
		{`"a`, false}, {"\"\n\"", false}, {`"\x"`, false}, {`"\u12g4"`, false}, {`"\u123"`, false}, {`"\`, false}, {"\"\xff\"",
			false}, {`1 2`, false}, {"\"\x00\"", false},
		{strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), true},
		{strings.Repeat("[", MaxDepth+2) + strings.Repeat("]", MaxDepth+2), false},
		{strings.Repeat("[", 1<<20), false},
		{strings.Repeat(`{"a":`, 1<<17), false},
	} {
		if got := Valid([]byte(test.raw)); got != test.want {
			t.Errorf("Valid(%s) = %v, want %v", test.raw[:min(60, len(test.raw))], got, test.want)
		}
	}
}

func TestMember(t *testing.T) {
	for _, test := range []struct{ raw, name, want string }{
		{`{"a": 1, "b": {"a": 2}}`, "a", `1`},
		{`{"a": 1, "b" : [1, {"c":2}] }`, "b", `[1, {"c":2}]`},
		{`{"a": 1, "a": 2}`, "a", `2`}, // as in most languages
		{`{"a": 1, "\u0061": 3}`, "a", `3`},
		{`{"a\"b": 1}`, `a"b`, `1`},
		{`{"😀": 1}`, "😀", `1`},
		{`{"\ud83d\ude00": 1}`, "😀", `1`},
		{`{"": 1}`, "", `1`},
		{`{"a": null}`, "a", `null`},
		{`{"a": 1}`, "b", ``},
		{`{"a": 1`, "a", ``},
		{`{"a": 1} x`, "a", ``},
		{`[1]`, "a", ``},
		{`"a"`, "a", ``},
		{``, "a", ``},
		{`{}`, "a", ``},
	} {
		if got := Member([]byte(test.raw), test.name); string(got) != test.want {
			t.Errorf("Member(%s, %s) = %s, want %s", test.raw, test.name, got, test.want)
		}
	}
}

func TestElements(t *testing.T) {
	for _, test := range []struct {
		raw, want string
		array     bool
	}{
		{`[1, [2, 3] ,{"a":[4]},"x,]"]`, `1|[2, 3]|{"a":[4]}|"x,]"|`, true},
		{` [ ] `, ``, true}, {`[]`, ``, true},
		{`[1, 2`, ``, false}, {`[1, 2,]`, ``, false}, {`{"a":1}`, ``, false}, {``, ``, false}, {`[1] 2`, ``, false},
	} {
		var got strings.Builder
		array := Elements([]byte(test.raw), func(e []byte) bool { fmt.Fprintf(&got, "%s|", e); return true })
		if got.String() != test.want || array != test.array {
			t.Errorf("Elements(%s): %s %v, want %s %v", test.raw, got.String(), array, test.want, test.array)
		}
	}
	n := 0
	if !Elements([]byte(`[1,2,3]`), func([]byte) bool { n++; return n < 2 }) || n != 2 {
		t.Errorf("stopped after %d elements, want 2", n)
	}
}

func TestText(t *testing.T) {
	for _, test := range []struct {
		raw, want string
		ok        bool
	}{
		{`"a\"\\\/\b\f\n\r\t\u0041"`, "a\"\\/\b\f\n\r\tA", true},
		{`"\ud83d\ude00\u65e5"`, "😀日", true},
		{`"\ud83d"`, "\ufffd", true}, {`"\ud83dx"`, "\ufffdx", true}, {`"\ude00\ud83d\ude00"`, "\ufffd😀", true}, {`"\ud83d\u0041"`,
			"\ufffdA", true},
		{` "a" `, "a", true}, {`""`, "", true},
		{`"a`, "", false}, {`1`, "", false}, {``, "", false}, {`"a" b`, "", false}, {`"`, "", false},
	} {
		if got, ok := Text([]byte(test.raw)); got != test.want || ok != test.ok {
			t.Errorf("Text(%s) = %q, %v, want %q, %v", test.raw, got, ok, test.want, test.ok)
		}
	}
}

func TestAppendText(t *testing.T) {
	for _, test := range []struct{ s, want string }{
		{"a\"\\/\n\r\t\x00\x1f<é😀", `"a\"\\/\n\r\t\u0000\u001f<é😀"`},
		{"\xffa\xed\xa0\x80", "\"\ufffda\ufffd\ufffd\ufffd\""},
		{"\u2028", "\"\u2028\""},
	} {
		if got := string(AppendText([]byte("-"), test.s)); got != "-"+test.want || !Valid([]byte(got[1:])) {
			t.Errorf("AppendText(%q) = %s, want %s", test.s, got, test.want)
		}
	}
}

func TestNumberAndTime(t *testing.T) {
	for _, test := range []struct {
		raw    string
		number float64
		is     bool
		ms     int64
		isTime bool
	}{
		{`5`, 5, true, 5, true}, {` -2.75 `, -2.75, true, -2, true}, {`1e3`, 1000, true, 1000, true},
		{`1e999`, 0, false, 0, false}, {`01`, 0, false, 0, false}, {`"5"`, 0, false, 0, false}, {``, 0, false, 0, false}, {`NaN`, 0, false,
			0, false}, {`0x1`, 0, false, 0, false},
		{`1e300`, 1e300, true, 0, false}, {`253402300799999`, 253402300799999, true, 253402300799999, true}, {`253402300800000`,
			253402300800000, true, 0, false},
		{`"2026-01-02T03:04:05.006Z"`, 0, false, 1767323045006, true}, {`"2026-01-02T03:04:05+01:00"`, 0, false, 1767319445000, true},
		{`"2026-01-02"`, 0, false, 0, false}, {`"0000-01-01T00:00:00Z"`, 0, false, 0, false}, {`null`, 0, false, 0, false},
	} {
		n, is := Number([]byte(test.raw))
		if is != test.is || is && n != test.number {
			t.Errorf("Number(%s) = %v, %v, want %v, %v", test.raw, n, is, test.number, test.is)
		}
		ms, isTime := Time([]byte(test.raw))
		if isTime != test.isTime || isTime && ms != test.ms {
			t.Errorf("Time(%s) = %v, %v, want %v, %v", test.raw, ms, isTime, test.ms, test.isTime)
		}
	}
}

// FuzzJSON compares with encoding/json, which takes bytes that are no UTF-8 and nests deeper.
// TestLongTexts: characters that end or break a string are found at each place of a long one.
func TestLongTexts(t *testing.T) {
	for at := range 40 {
		for c := range 256 {
			raw := []byte(`"` + strings.Repeat("~", at) + string([]byte{byte(c)}) + strings.Repeat("!", 40-at) + `"`)
			if want := json.Valid(raw) && utf8.Valid(raw); Valid(raw) != want {
				t.Errorf("Valid(%q) = %v", raw, !want)
			}
		}
		raw := []byte(`"` + strings.Repeat("a", at) + `\n\u00e9é` + strings.Repeat("z", 40-at) + `"`)
		if got, ok := Text(raw); !ok || got != strings.Repeat("a", at)+"\néé"+strings.Repeat("z", 40-at) {
			t.Errorf("Text(%q) = %q, %v", raw, got, ok)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"n": 7, "t": true, "list": [1, "two", 3.0, [4], {"five": 5}], "o": {"x y": null}}`,
		`{"a":{"a":[1,"\u00e9",{"a":null}]}}`, `[1,2`, `"\ud83d"`, "\"\xff\"", `{"a":1,"a":[]}`} {
		f.Add([]byte(seed), "a")
	}
	f.Fuzz(func(t *testing.T, raw []byte, name string) {
		valid := Valid(raw)
		if utf8.Valid(raw) && strings.Count(string(raw), "[")+strings.Count(string(raw), "{") < MaxDepth && valid != json.Valid(raw) {
			t.Fatalf("Valid(%q) = %v", raw, valid)
		}
		compareMember(t, raw, name, valid)
		compareElements(t, raw, valid)
		if s, ok := Text(raw); ok {
			var want string
			if err := json.Unmarshal(raw, &want); err != nil || s != want {
				t.Fatalf("Text(%q) = %q, want %q, %v", raw, s, want, err)
			}
		}
		if back, ok := Text(AppendText(nil, name)); !ok || back != strings.ToValidUTF8(name, "\ufffd") && utf8.ValidString(name) {
			t.Fatalf("Text(AppendText(%q)) = %q, %v", name, back, ok)
		}
		Number(raw)
		Time(raw)
	})
}

func compareMember(t *testing.T, raw []byte, name string, valid bool) {
	got := Member(raw, name)
	var object map[string]json.RawMessage
	if !valid || json.Unmarshal(raw, &object) != nil {
		if got != nil {
			t.Fatalf("Member(%q, %q) = %q of what is no object", raw, name, got)
		}
		return
	}
	if want, there := object[name]; (got != nil) != there || string(got) != string(want) {
		t.Fatalf("Member(%q, %q) = %q, want %q", raw, name, got, want)
	}
}

func compareElements(t *testing.T, raw []byte, valid bool) {
	var got []string
	array := Elements(raw, func(e []byte) bool { got = append(got, string(e)); return true })
	var want []json.RawMessage
	is := valid && TrimSpace(raw)[0] == '[' && json.Unmarshal(raw, &want) == nil
	if array != is || len(got) != len(want) {
		t.Fatalf("Elements(%q): %q, %v, want %q, %v", raw, got, array, want, is)
	}
	for i := range got {
		if got[i] != string(want[i]) {
			t.Fatalf("Elements(%q): %q, want %q", raw, got, want)
		}
	}
}

func TestUnpaired(t *testing.T) {
	for raw, want := range map[string]bool{
		`"a"`: false, `"\ud83d\ude00"`: false, `"\ud83d"`: true, `"\ude00"`: true, `"\ud83dx"`: true, `"\\ud83d"`: false,
		`"\\\ud83d"`: true, `"\ud83d\ude00\ud83d"`: true, `"\ud83d\ud83d\ude00"`: true, `"\u00e9\n"`: false, `{"\ude00":1}`: true, ``: false,
	} {
		if got := Unpaired([]byte(raw)); got != want {
			t.Errorf("Unpaired(%s) = %t", raw, got)
		}
	}
}
