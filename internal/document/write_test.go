package document

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestWrittenText: text is read back as the same text, whatever it looks like.
func TestWrittenText(t *testing.T) {
	for _, text := range []string{
		"", " ", "a", "a: b", "- a", "# a", "~", "null", "true", "yes", "off", "1", "-1.5e3", "1_000", "0x1f", "1:30", ".inf", "1.2.3",
		"2026-11-28", "<<", "*a", "&a",
		"!a", "{a}", "[a", "'", `"`, `\`, "a\nb", "\na", " a\n b\n", "a\r\nb", "\t", "a\x00\x1f\x7f\u0085\u2028\ufeff", "日本 😀",
		"@actions/a", "$.input.a", "%", strings.Repeat("x y ", 500),
	} {
		doc := With("text", text)
		doc.Set("list", []string{text})
		doc.Set(text+"key", map[string]any{text: text})
		read := readBack(t, doc)
		for _, n := range []*Node{read.Pairs[0].Value, read.Pairs[1].Value.Items[0], read.Pairs[2].Value.Pairs[0].Value} {
			if n.Kind != Text || n.Text != text || n.Ambiguous != "" {
				t.Errorf("%q is read as %+v", text, n)
			}
		}
		if key, inner := read.Pairs[2].Key, read.Pairs[2].Value.Pairs[0].Key; key != text+"key" || inner != text {
			t.Errorf("%q and %q are keys of %q", key, inner, text)
		}
	}
}

// TestWrittenValues: numbers keep their digits, durations are milliseconds, members stay in order.
func TestWrittenValues(t *testing.T) {
	doc := With("number", json.RawMessage("1.50e+400"))
	doc.Set("large", json.RawMessage("12345678901234567890123"))
	doc.Set("duration", 1500*time.Microsecond)
	doc.Set("yes", true)
	doc.Set("null", nil)
	doc.Set("list", []Mapping{With("b", 1.5), {}})
	doc.Opt("zero", 0)
	doc.Opt("none", []string{})
	doc.OptOrNone("default", 0)
	doc.OptOrNone("no", -5)
	doc.OptPairs("pairs", map[string]string{"b": "2", "a": "1"})
	doc.OptJSON("absent", nil)
	doc.OptJSON("json", json.RawMessage(`{"z":{},"a":[]}`))
	const want = `number: 1.50e+400
large: 12345678901234567890123
duration: 2
"yes": true
"null": null
list:
  - b: 1.5
  - {}
"no": 0
pairs:
  a: "1"
  b: "2"
json: {z: {}, a: []}
`
	readBack(t, doc)
	if got := string(doc.YAML()); got != want {
		t.Errorf("got\n%s", got)
	}
}

// TestNotWritten: what cannot be written is a comment that names the key.
func TestNotWritten(t *testing.T) {
	if got := string(With("a", With("b", func() {})).YAML()); got != "# a: b: json: unsupported type: func()\n" {
		t.Errorf("got %q", got)
	}
}

func readBack(t *testing.T, doc Mapping) *Node {
	t.Helper()
	var found Report
	n := Read(doc.YAML(), &found)
	if n == nil || found.Failed {
		t.Fatalf("%s\n%v", doc.YAML(), found.Problems)
	}
	return n
}
