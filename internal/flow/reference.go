package flow

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
name: everything
retention: { days: 1 }
input_schema: {}
signals: [{ type: go }]
search_attributes: [{ name: a, from: $.input.a }]
schedule: { interval: 1m }
trigger: { stream: s }
start:
  run: "@plan/p"
  retry: {}
  poll: {}
  compensate: { run: "@actions/a" }
  transitions: { success: signal }
steps:
  signal: { wait_for_signal: { type: go }, transitions: { success: pause } }
  pause: { sleep: { ms: 1 }, transitions: { success: fan } }
  fan: { parallel: { branches: { a: { run: "@actions/a" } } }, transitions: { success: flo.Completed } }
terminals: { t: { status: failed } }
plans:
  p:
    executors: [{ name: e, run: "@actions/a", breaker: {}, rate_limit: {}, tracking: {} }]
    health: {}
    cache: { key: x }
    fallback: { value: 1 }
    errors: {}
`

// docTable is a table of definitions as parsed.
type docTable struct {
	name string
	keys []docKey
}

// docKey is a key of a table, with its aliases and the type, default and limits of its value.
type docKey struct {
	names []string
	kind  string
}

var (
	listIndex = regexp.MustCompile(`\[\d+\]$`)
	// tableNames are the names of tables that occur under several keys, or under keys that are
	// names.
	tableNames = []struct {
		at   *regexp.Regexp
		name string
	}{
		{regexp.MustCompile(`^` + document.Top + `$`), "workflow"},
		{regexp.MustCompile(`^(start|steps\.\w+)$`), "step"},
		{regexp.MustCompile(`\.(compensate|branches\.a)$`), "call"},
		{regexp.MustCompile(`schema$`), "schema"},
		{regexp.MustCompile(`^(terminals|plans)\.\w$`), "$1"},
		{regexp.MustCompile(`^.*\.(\w+)$`), "$1"},
	}
)

// tables returns all tables of definitions, in the order in which the parser visits them.
func tables() (all []docTable) {
	var found document.Report
	r := newReader(&found)
	r.seen = func(at string, fields []document.Field) {
		t := docTable{name: listIndex.ReplaceAllString(at, "")}
		for _, n := range tableNames {
			if n.at.MatchString(t.name) {
				t.name = n.at.ReplaceAllString(n.at.FindString(t.name), n.name)
				break
			}
		}
		for _, f := range fields {
			k := docKey{names: strings.Fields(f.Names)}
			r.Tell = func(kind string) { k.kind = kind }
			f.Read(&document.Node{}, at)
			r.Tell = nil
			t.keys = append(t.keys, k)
		}
		if !slices.ContainsFunc(all, func(known docTable) bool { return known.name == t.name }) {
			all = append(all, t)
		}
	}
	r.definition(document.Read([]byte(everything), &found))
	slices.SortStableFunc(all, func(a, b docTable) int { return slices.Index(tableOrder, a.name) - slices.Index(tableOrder, b.name) })
	return all
}

// Reference returns the documentation of definitions, paths and expressions in Markdown. It is
// generated from the parsers' tables. The caller passes the limits and outcomes of runs, which
// package workflow defines.
func Reference(limits, outcomes [][2]string) string {
	var b strings.Builder
	b.WriteString("# Workflow definitions\n\nA definition is YAML or JSON. Keys are written in snake_case or camelCase; an unknown key is an error.\n\n" +
		fmt.Sprintf("- A **name** has 1 to %d bytes of UTF-8 without control characters.\n", document.MaxName) +
		"- A **duration** is a number of milliseconds, or text such as `500ms`, `5m`, `1h30m` or `7d`.\n" +
		"- A **target** is `@actions/<name>`, `@plan/<name>`, `@workflow/<name>` or `@workflow/<name>:<version>`.\n" +
		fmt.Sprintf("- A **template** is a JSON value in which each string that is a path stands for the value at that path. It has "+
			"at most %d paths and renders at most %s.\n", maxPaths, Size(MaxRendered)) +
		"  Text that holds a JSON object or array is read as that value.\n")
	for _, t := range tables() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| key | also | value | meaning |\n|---|---|---|---|\n", t.name, tableDocs[t.name])
		for _, k := range t.keys {
			meaning, kind := keyDoc(t.name, k.names[0]), k.kind
			if strings.HasPrefix(meaning, "required") {
				kind, _, _ = strings.Cut(kind, "; default")
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.names[0], quoted(k.names[1:]), escaped(kind), escaped(meaning))
		}
	}
	b.WriteString("\n# Outcomes\n\nA transition of a step leads from an outcome to a step or terminal. Actions and signals may name " +
		"other outcomes. An outcome without a transition leads where " +
		"its fallback leads; without either the run fails.\n")
	rows(&b, "outcome | fallback", outcomes)
	b.WriteString("\n# Paths\n\nA path is a root with members behind it: `.name`, `[\"any name\"]` or `[0]`, " +
		fmt.Sprintf("at most %d of them. A path to a missing value is null.\n", expression.MaxHops))
	rows(&b, "root | value", rootDocs)
	b.WriteString("\n# Expressions\n\nAn expression is the condition of a `when`. It consists of literals (`1`, `2.5`, `\"text\"`, `true`, " +
		"`null`, `[1, 2]`), paths with or without `$.`, and operators. " +
		"Integers have 64 bits, and an overflow is an error; other numbers are float64. Strings are compared by their bytes. A type " +
		"error fails the step. " +
		fmt.Sprintf("An expression has at most %d bytes, %d terms and %d paths; the cost of its evaluation is bounded.\n", MaxExpression,
			expression.MaxTerms, maxPaths))
	b.WriteString("\n| operator | example | meaning |\n|---|---|---|\n")
	for _, o := range operatorDocs {
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", escaped(quoted(strings.Split(o[0], ","))), escaped(o[1]), escaped(o[2]))
	}
	b.WriteString("\n# Limits\n")
	rows(&b, "limit | value", append(limitsOfDefinitions(), limits...))
	return b.String()
}

func rows(b *strings.Builder, head string, list [][2]string) {
	fmt.Fprintf(b, "\n| %s |\n|---|---|\n", head)
	for _, row := range list {
		fmt.Fprintf(b, "| %s | %s |\n", escaped(row[0]), escaped(row[1]))
	}
}

// keyDoc returns the description of a key. The keys of a call mean the same in every call.
func keyDoc(table, key string) string {
	if doc := keyDocs[table+"."+key]; doc != "" {
		return doc
	}
	if key == "description" {
		return "description, for readers"
	}
	if slices.Contains([]string{"step", "parallel", "executors"}, table) {
		return keyDocs["call."+key]
	}
	return ""
}

func quoted(names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = "`" + name + "`"
	}
	return strings.Join(list, ", ")
}

func escaped(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
