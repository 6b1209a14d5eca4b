package floql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/test/reference"
)

const referenceIntro = "# FloQL\n\n" +
	"A query is a source and stages, separated by `|`: `cpu{host=~web-*}[6h] | window(5m) | group_by(region) | avg()`. A source is a " +
	"measurement, filters of tags in braces, and a range in brackets. The default range is the last hour; a range is a duration up " +
	"to now, or two times: `[30m]`, `[now-2h..now-1h]`, `[2024-05-01T00:00:00Z..2024-06-01T00:00:00Z]`. The end is exclusive.\n\n" +
	"- A **duration** is a number and a unit, such as `5m` or `1h30m`: `ms`, `s`, `m`, `h`, `d`, `w`. Windows also take `mo` and `y`.\n" +
	"- Arguments are given in order or by name: `window(1d, tz=Europe/Berlin)`. An argument in brackets is optional.\n"

// argumentDocs describes the kinds of arguments.
var argumentDocs = map[kind]string{
	aDuration: "duration", aWindow: "duration, also in months and years", aNumber: "number", aWhole: "integer", aZone: "time zone",
	aText: "text", names: "one or more names", tagNames: "one or more tags, or `*`", anExpression: "expression",
	aCondition: "expression that is true or false", aQuery: "query in parentheses",
}

// filterDocs describes the operators of filters.
var filterDocs = [...]string{
	Equal:    "value of the tag; a missing tag has the empty value",
	NotEqual: "any other value, or no tag",
	Match:    "glob: `*`, `?`, `[a-z]`, `{a,b}`",
	NotMatch: "values that do not match a glob",
}

// operatorDocs has an example of each operator of expressions.
var operatorDocs = [][2]string{
	{`value + 1 - 2 * 3 / 4`, "arithmetic; `/` gives a float64"},
	{`int(value) % 2 == 0`, "remainder of integers"},
	{`value ** 2 > 4`, "power"},
	{`value > 1 and value <= 2 or not (field == "idle")`, "comparison and logic; also `&&`, `||`, `!`"},
	{`tags.host in ["a", "b"]`, "element of a list; also `not in`"},
	{`tags.host matches "^web-[0-9]+$"`, "regular expression (RE2), a constant"},
	{`(value > 0 ? value : 0) > 1`, "choice"},
}

// functionDocs describes the functions of expressions.
var functionDocs = map[string][2]string{
	"abs": {"abs(x)", "absolute value"}, "ceil": {"ceil(x)", "rounded up"}, "floor": {"floor(x)", "rounded down"},
	"round": {"round(x)", "rounded to the nearest integer, halves away from zero"},
	"int":   {"int(x)", "without its fraction"}, "float": {"float(x)", "as a float64"},
	"max": {"max(x, ...)", "maximum"}, "min": {"min(x, ...)", "minimum"},
}

// TestReference: docs/reference/floql.md agrees with the tables of the language.
func TestReference(t *testing.T) {
	var filters, operators, calls [][]string
	for op, doc := range filterDocs {
		filters = append(filters, []string{reference.Code("tag" + ops[op] + "value"), doc})
	}
	for _, o := range operatorDocs {
		if _, err := compileExpression(o[0], strings.ContainsAny(o[0], "=<>") || strings.Contains(o[0], "tags"), new(int64)); err != nil {
			t.Errorf("%s: %v", o[0], err)
		}
		operators = append(operators, []string{reference.Code(o[0]), o[1]})
	}
	for _, f := range functions {
		if functionDocs[f][0] == "" {
			t.Errorf("function %s is not documented", f)
		}
		calls = append(calls, []string{reference.Code(functionDocs[f][0]), functionDocs[f][1]})
	}
	page := referenceIntro + "\n## Filters\n" + reference.Table([]string{"filter", "matches"}, filters)
	page += "\n## Stages\n\nStages that keep series apart, choose series, or define buckets.\n" +
		reference.Table([]string{"stage", "arguments", "meaning"}, stageRows(false))
	page += "\n## Aggregations\n\nThey combine the points of all series of a field in a bucket: of all together, or of those with " +
		"equal tags (`group_by`). Without `window` the range is one bucket.\n" +
		reference.Table([]string{"stage", "arguments", "meaning"}, stageRows(true))
	page += "\n## Expressions\n\n`where` and `math` evaluate an expression for each point. Its names are `value`, `timestamp` (ms), " +
		"`tags` and `field`.\n" + reference.Table([]string{"example", "operators"}, operators) +
		reference.Table([]string{"function", "result"}, calls)
	reference.Check(t, "floql.md", page+"\n## Limits\n"+reference.Table([]string{"limit", "value"}, limitRows()))
}

// stageRows returns the rows of the aggregations, or of all other stages.
func stageRows(aggregations bool) (rows [][]string) {
	for _, s := range stages {
		if (s.role == aggregation) != aggregations {
			continue
		}
		var args []string
		for _, p := range s.params {
			args = append(args, reference.Code(p.name)+": "+p.doc())
		}
		rows = append(rows, []string{reference.Code(s.signature()), strings.Join(args, "\n"), s.doc})
	}
	return rows
}

func (p param) doc() string {
	doc := argumentDocs[p.kind]
	if len(p.words) > 0 {
		doc = "`" + strings.Join(p.words, "`, `") + "`"
	}
	if p.kind == aWordOrNumber {
		doc += " or a number"
	}
	if p.least < p.most {
		doc += fmt.Sprintf(", %s to %s", plain(p.least), plain(p.most))
	}
	if p.preset != "" {
		doc += fmt.Sprintf("; default `%s`", p.preset)
	}
	return doc
}

func plain(n float64) string { return fmt.Sprintf("%.0f", n) }

func limitRows() (rows [][]string) {
	for _, l := range []struct {
		name  string
		value any
	}{
		{"points read", defaults.Points}, {"series read", defaults.Series}, {"points or buckets of the result", defaults.ResultPoints},
		{"memory in bytes", defaults.Bytes}, {"running time", defaults.Time}, {"bytes of a query", maxText},
		{"stages of a query", maxStages}, {"stages of a query with its nested queries", maxNested}, {"depth of nested queries", maxDepth},
		{"bytes of an expression", maxExpression}, {"terms of an expression", maxExpressionNodes},
		{"instructions of the patterns of an expression", maxPattern}, {"instructions of the patterns of a query", maxPatterns},
		{"steps per point of all expressions and patterns", maxPointSteps}, {"alternatives of a glob", maxAlternatives},
		{"bytes of the alternatives of a glob", maxGlobBytes}, {"bytes of its alternatives with a `*`", maxStarBytes},
	} {
		rows = append(rows, []string{l.name, fmt.Sprint(l.value)})
	}
	return rows
}
