package pipeline

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/expression"
)

// everything is a definition with every table, so that reading it visits all keys.
const everything = `
kind: Processing
name: everything
sources:
  - {name: a, stream: {name: a, partitions: all}, watermark: {idle_timeout_ms: 1}}
  - {name: b, ts: {measurement: b}}
operators:
  - {name: filter, type: filter, condition: not_empty}
  - {name: map, type: map, fields: {x: 1}}
  - {name: set, type: set, fields: {x: 1}}
  - {name: flatmap, type: flatmap, array_field: $.x}
  - {name: keyby, type: keyby, key_expression: $.x}
  - {name: aggregate, type: aggregate, function: count}
  - {name: several, type: aggregate, aggregates: [{name: n, function: count}]}
  - {name: kv_lookup, type: kv_lookup, lookup_key: $.x}
  - {name: classify, type: classify, rules: [{condition: not_empty, tag: x}]}
  - {name: dedup, type: dedup}
  - {name: join, type: join, source: b, on: $.x, within_ms: 1}
  - {name: func, type: func, function: x}
  - {name: passthrough, type: passthrough}
sinks:
  - {name: c, stream: {name: c}}
  - {name: d, kv: {}}
  - {name: e, queue: {name: e}}
  - {name: f, ts: {measurement: f, value_field: $.x}}
`

// table is a table of definitions: its keys with their aliases, as parsed.
type table struct {
	name string
	keys [][]string
}

var index = regexp.MustCompile(`\[\d+\]`)

// tables returns all tables of definitions, in the order in which the parser visits them.
func tables() (all []table) {
	var found document.Report
	readJob(document.Read([]byte(everything), &found), &found, false, func(at string, n *document.Node, fields []document.Field) {
		t := table{name: index.ReplaceAllString(at, "")}
		operator := t.name == "operators"
		switch {
		case at == document.Top:
			t.name = "job"
		case operator:
			t.name = "operators." + n.Get("type").Text
		}
		for _, f := range fields {
			if names := strings.Fields(f.Names); names[0] != "wasm" && names[0] != "triggers" &&
				!(operator && slices.Contains(common, names[0])) {
				t.keys = append(t.keys, names)
			}
		}
		if !slices.ContainsFunc(all, func(known table) bool { return known.name == t.name }) {
			all = append(all, t)
		}
	})
	return all
}

// common lists the keys of all operators.
var common = []string{"name", "type", "description"}

// Reference returns the documentation of definitions and expressions in Markdown, generated from
// the parsers' tables.
func Reference() []byte {
	var b bytes.Buffer
	b.WriteString("# Definitions of jobs\n\nMade from the tables of the parser by `go test ./stream/processing -run TestReference " +
		"-write-reference`. Keys may be written in snake_case or camelCase.\n" +
		"A duration is a number of milliseconds (of seconds where it says so), or text such as `500ms`, `5m` or `7d`. A path is " +
		"`$.a.b[0]`, or `a.b`.\n")
	for _, t := range tables() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", t.name, tableDocs[t.name])
		if len(t.keys) > 0 {
			b.WriteString("\n| key | also | meaning |\n|---|---|---|\n")
		}
		for _, names := range t.keys {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", names[0], quoted(names[1:]), escaped(keyDocs[t.name+"."+names[0]]))
		}
	}
	b.WriteString("\n## Conditions\n\nOf `filter` and `classify`: text of the form `name: argument`.\n\n| form | holds for |\n|---|---|\n")
	for _, c := range conditionDocs {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c[0], escaped(c[1]))
	}
	b.WriteString("\n# Expressions\n\nWhat stands behind `expr:` is an expression about one record: members of its JSON value by " +
		"their names (`amount`, `customer.id`, `items[0]`), `$` for the value as a\n" +
		"whole, `key`, `event_time` (ms) and `headers.name`. Nothing in it reads a clock. What does not go together is an error of " +
		"the record; members that are not there are null.\n" +
		fmt.Sprintf("An expression has up to %d bytes. What it may cost is bounded, by the sizes of the values that it goes over: an "+
			"evaluation ends within some 10 ms. All expressions, paths and\n"+
			"conditions that operators without state, one behind the other, evaluate for one record and for what becomes of it, may "+
			"cost %d times as much; beyond that the record is an error.\n", expression.MaxText, maxEffort/expression.Budget))
	b.WriteString("\n| operators | meaning |\n|---|---|\n")
	for _, o := range expression.OperatorDocs {
		fmt.Fprintf(&b, "| `%s` | %s |\n", escaped(o[0]), escaped(o[1]))
	}
	b.WriteString("\n| function | meaning |\n|---|---|\n")
	for _, f := range expression.Functions() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.Call, escaped(f.Doc))
	}
	return b.Bytes()
}

func quoted(names []string) string {
	for i := range names {
		names[i] = "`" + names[i] + "`"
	}
	return strings.Join(names, ", ")
}

func escaped(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
