package floql

import (
	"strings"
	"time"

	"github.com/floedb/floe/internal/agg"
)

// role is how the planner treats a stage.
type role uint8

const (
	pointWise   role = iota // processes the points of each series, one after the other
	aggregation             // combines points of buckets
	counting                // rate and increase: of each series, in their own buckets
	windowing
	grouped
	selecting
	shifting
	naming
	filling
	whole // needs all series of the stage before it
)

// spec is the complete definition of a stage.
type spec struct {
	name   string
	doc    string // one sentence
	role   role
	params []param

	fn      agg.Func                               // of an aggregation
	pre     agg.Pre                                // of a counting stage
	points  func(s *stage) func(*Series) pointFunc // of a point-wise stage
	ordered bool                                   // point-wise, and the result for a point depends on those before it
	apply   func(r *run, f *frame, s *stage) error // of a stage that needs all series
}

// kind is the type of an argument.
type kind uint8

const (
	aDuration kind = iota // 5m
	aWindow               // 5m, 1mo
	aNumber
	aWhole // number
	aWord  // one of several
	aWordOrNumber
	aZone
	aText
	names    // one or more, all the rest
	tagNames // the same, or *
	anExpression
	aCondition
	anOperator
	aQuery
)

// param is a parameter of a stage. Arguments are given in order, or by name.
type param struct {
	name        string
	kind        kind
	optional    bool
	named       bool // only by name
	words       []string
	preset      string  // what a missing optional argument means, for the reference
	least, most float64 // bounds of numbers, inclusive, unless they are equal
}

// stages is the language: all stages, in the order of the reference.
var stages = []*spec{
	{name: "field", role: selecting, doc: "keep only these fields", params: []param{{name: "field", kind: names}}},
	{name: "window", role: windowing, doc: "divide time into buckets for the next aggregation",
		params: []param{{name: "size", kind: aWindow}, {name: "every", kind: aWindow, optional: true, preset: "size"},
			{name: "tz", kind: aZone, optional: true, named: true, preset: "UTC"}}},
	{name: "avg", role: aggregation, fn: agg.Avg, doc: "mean of the points of each bucket"},
	{name: "sum", role: aggregation, fn: agg.Total, doc: "exact sum of the points of each bucket, rounded once"},
	{name: "count", role: aggregation, fn: agg.Count, doc: "number of points in each bucket"},
	{name: "min", role: aggregation, fn: agg.Min, doc: "minimum of each bucket"},
	{name: "max", role: aggregation, fn: agg.Max, doc: "maximum of each bucket"},
	{name: "first", role: aggregation, fn: agg.First, doc: "first value of each bucket"},
	{name: "last", role: aggregation, fn: agg.Last, doc: "last value of each bucket"},
	{name: "median", role: aggregation, fn: agg.Percentile, doc: "median of each bucket, the 50th percentile"},
	{name: "stddev", role: aggregation, fn: agg.Stddev, doc: "sample standard deviation (n-1) of each bucket"},
	{name: "spread", role: aggregation, fn: agg.Spread, doc: "maximum minus minimum of each bucket"},
	{name: "percentile", role: aggregation, fn: agg.Percentile,
		doc:    "p-th percentile of each bucket, linearly interpolated between ranks",
		params: []param{{name: "p", kind: aNumber, least: 0, most: 100}}},
	{name: "rate", role: counting, pre: agg.Rate, doc: "increase per second of each series in buckets of d; counter resets are handled",
		params: []param{{name: "d", kind: aWindow}, {name: "tz", kind: aZone, optional: true, named: true, preset: "UTC"}}},
	{name: "increase", role: counting, pre: agg.Increase, doc: "increase of each series in buckets of d; counter resets are handled",
		params: []param{{name: "d", kind: aWindow}, {name: "tz", kind: aZone, optional: true, named: true, preset: "UTC"}}},
	{name: "delta", points: delta, ordered: true, doc: "difference to the previous point of the series"},
	{name: "derivative", points: derivative, ordered: true, doc: "change per d since the previous point of the series",
		params: []param{{name: "d", kind: aDuration}}},
	{name: "where", points: where, doc: "keep the points for which an expression over value, timestamp, tags and field is true",
		params: []param{{name: "expr", kind: aCondition}}},
	{name: "math", points: math_, doc: "replace each value by the result of an expression over value, timestamp, tags and field",
		params: []param{{name: "expr", kind: anExpression}}},
	{name: "group_by", role: grouped, doc: "aggregate series with equal values of these tags together; * keeps all series apart",
		params: []param{{name: "tag", kind: tagNames}}},
	{name: "topk", role: whole, apply: topk, doc: "keep the k series with the largest avg, max, min, last or sum",
		params: []param{{name: "k", kind: aWhole, least: 1, most: 1e9},
			{name: "by", kind: aWord, optional: true, words: ranks, preset: "avg"}}},
	{name: "bottomk", role: whole, apply: bottomk, doc: "keep the k series with the smallest avg, max, min, last or sum",
		params: []param{{name: "k", kind: aWhole, least: 1, most: 1e9},
			{name: "by", kind: aWord, optional: true, words: ranks, preset: "avg"}}},
	{name: "sort", role: whole, apply: sortSeries, doc: "order the series by their last value",
		params: []param{{name: "order", kind: aWord, optional: true, words: []string{"asc", "desc"}, preset: "asc"}}},
	{name: "limit", points: limit, ordered: true, doc: "keep the first n points of each series",
		params: []param{{name: "n", kind: aWhole, least: 0, most: 1e9}}},
	{name: "fill", role: filling, apply: fill,
		doc:    "fill empty buckets with null, the previous value, a linear interpolation, or a number",
		params: []param{{name: "with", kind: aWordOrNumber, words: []string{"null", "prev", "linear"}}}},
	{name: "moving_avg", points: movingAvg, ordered: true, doc: "mean of each point and the n-1 points before it",
		params: []param{{name: "n", kind: aWhole, least: 1, most: 1e6}}},
	{name: "cumsum", points: cumsum, ordered: true, doc: "cumulative sum"},
	{name: "abs", points: abs, doc: "absolute value"},
	{name: "ceil", points: ceil, doc: "round up to an integer"},
	{name: "floor", points: floor, doc: "round down to an integer"},
	{name: "round", points: round, doc: "round to n decimals, halves away from zero",
		params: []param{{name: "n", kind: aWhole, optional: true, least: -300, most: 300, preset: "0"}}},
	{name: "clamp", points: clamp, doc: "limit values to the range lo to hi",
		params: []param{{name: "lo", kind: aNumber}, {name: "hi", kind: aNumber}}},
	{name: "shift", role: shifting, doc: "move points from d earlier to now",
		params: []param{{name: "d", kind: aDuration}}},
	{name: "alias", role: naming, doc: "rename the series, which have the name of the measurement",
		params: []param{{name: "name", kind: aText}}},
	{name: "join", role: whole, apply: join, doc: "combine points with those of another query, at equal times and with equal tags",
		params: []param{{name: "op", kind: anOperator, words: []string{"+", "-", "*", "/"}}, {name: "query", kind: aQuery}}},
}

// StageInfo describes a stage of the language.
type StageInfo struct {
	Name      string
	Signature string // as in the reference: window(size [, every] [, tz=])
	Doc       string // one sentence without a full stop
}

// Stages returns all stages of the language, for completion and help.
func Stages() []StageInfo {
	var all []StageInfo
	for _, s := range stages {
		all = append(all, StageInfo{s.name, s.signature(), s.doc})
	}
	return all
}

func (s *spec) signature() string {
	var b strings.Builder
	b.WriteString(s.name + "(")
	for i, p := range s.params {
		text := p.name
		switch {
		case p.named:
			text += "="
		case p.kind == names:
			text += ", ..."
		case p.kind == tagNames:
			text += ", ... | *"
		case len(p.words) > 0:
			text = strings.Join(p.words, " | ")
			if p.kind == aWordOrNumber {
				text += " | number"
			}
		}
		switch {
		case p.optional && i > 0:
			text = " [, " + text + "]"
		case p.optional:
			text = "[" + text + "]"
		case i > 0:
			text = ", " + text
		}
		b.WriteString(text)
	}
	return b.String() + ")"
}

// stage is a stage of a query.
type stage struct {
	*spec
	text   string // of the query
	offset int
	args   []arg // one for each parameter
}

// arg is an argument; the kind of its parameter determines which fields are used.
type arg struct {
	given  bool
	offset int
	text   string
	list   []string
	number float64
	step   agg.Step
	zone   *time.Location
	expr   *expression
	query  *Query
}

func stageNamed(name string) *spec {
	for _, s := range stages {
		if s.name == name {
			return s
		}
	}
	return nil
}

func stageNames() (all []string) {
	for _, s := range stages {
		all = append(all, s.name)
	}
	return all
}
