package pipeline

import (
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
func Reference() string {
	var b strings.Builder
	b.WriteString("# Definitions of processing jobs\n\nA definition is YAML or JSON. Keys are written in snake_case or camelCase; an unknown key " +
		"is an error.\n\n" +
		"- A **duration** is a number of milliseconds (of seconds where noted), or text such as `500ms`, `5m` or `7d`.\n" +
		"- A **path** is `$.a.b[0]` or `a.b`.\n")
	for _, t := range tables() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", t.name, tableDocs[t.name])
		if len(t.keys) > 0 {
			b.WriteString("\n| key | also | meaning |\n|---|---|---|\n")
		}
		for _, names := range t.keys {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", names[0], quoted(names[1:]), escaped(keyDocs[t.name+"."+names[0]]))
		}
	}
	b.WriteString("\n## Conditions\n\nA condition of `filter` and `classify` is text of the form `name: argument`.\n\n| form | true for |\n|---|---|\n")
	for _, c := range conditionDocs {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c[0], escaped(c[1]))
	}
	b.WriteString("\n# Expressions\n\nAn expression follows `expr:`. It reads one record: the members of its JSON value by name " +
		"(`amount`, `customer.id`, `items[0]`), `$` for the whole value, `key`, `event_time` (ms) and `headers.name`. It cannot " +
		"read a clock. A missing member is null. A type error is an error of the record.\n\n" +
		fmt.Sprintf("An expression has at most %d bytes. Its cost is bounded by the sizes of the values that it reads: an evaluation "+
			"ends within about 10 ms. Consecutive stateless operators share a budget for each source record, which is %d times that "+
			"of one expression; beyond it the record is an error.\n", expression.MaxText, maxEffort/expression.Budget))
	b.WriteString("\n| operators | meaning |\n|---|---|\n")
	for _, o := range expression.OperatorDocs {
		fmt.Fprintf(&b, "| `%s` | %s |\n", escaped(o[0]), escaped(o[1]))
	}
	b.WriteString("\n| function | meaning |\n|---|---|\n")
	for _, f := range expression.Functions() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.Call, escaped(f.Doc))
	}
	return b.String()
}

func quoted(names []string) string {
	for i := range names {
		names[i] = "`" + names[i] + "`"
	}
	return strings.Join(names, ", ")
}

func escaped(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
