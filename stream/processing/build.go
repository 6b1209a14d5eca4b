package processing

import (
	"time"

	"github.com/floedb/floe/internal/document"
)

// Definition is a job definition as a Go value. YAML returns it as text for Submit, Validate,
// ReplaceDefinition and Plan, which check it like a hand-written one and enforce the same limits.
// Zero values mean defaults. Durations are rounded up to whole milliseconds.
//
//	orders := processing.Definition{
//		Name:      "totals",
//		Sources:   []processing.Source{{Name: "orders", From: processing.FromStream{Name: "orders"}, EventTime: "$.at"}},
//		Operators: []processing.Operator{
//			{Name: "customer", Do: processing.KeyBy{Key: "$.customer"}},
//			{Name: "hourly", Do: processing.Aggregate{Function: processing.Sum, Field: "$.amount", Window: processing.Tumbling(time.Hour)}},
//		},
//		Sinks: []processing.Sink{{Name: "out", To: processing.ToStream{Name: "totals"}}},
//	}
//	made, err := node.Processing("default").Submit(ctx, orders.YAML())
type Definition struct {
	Name        string
	Namespace   string // of the job; "" for the store's
	Description string
	Parallelism int           // processors per tick, 1-64; 0 means 1
	BatchSize   int           // records read at a time, 1-10,000; 0 means 100
	FailOnError bool          // a record that an operator cannot process fails the job, instead of going to the error stream
	StopAtEnd   bool          // complete the job when it has read all records that existed when it was submitted or last restored
	MaxFuture   time.Duration // maximum by which the event time of a record may be ahead of its append; 0 means an hour
	Sources     []Source      // at least one
	Operators   []Operator    // applied to every record, in order
	Sinks       []Sink        // at least one
}

// Source is an input of a job.
type Source struct {
	Name      string        // by which a restored job finds its cursors; "" generates one
	From      Input         // FromStream or FromSeries
	EventTime string        // path to the event time of a record, in ms or RFC 3339; "" for the time of its append
	Disorder  time.Duration // how far event times may be out of order; 0 means 5 s with EventTime and none without, negative none
	IdleAfter time.Duration // when a partition without new records stops holding up the others; 0 means 30 s, negative at once
}

// Input is FromStream or FromSeries.
type Input interface {
	input() (key string, value doc)
}

// FromStream reads a stream of the job's namespace.
type FromStream struct {
	Name       string
	Partitions []int // nil means all
	Start      Start // Earliest, Latest, or the ID of a record after which reading begins; "" means Earliest
}

// Start is the start position of a source: Earliest, Latest, or, for a stream, the ID of a record.
type Start string

// The start positions of sources.
const (
	Earliest Start = "earliest"
	Latest   Start = "latest"
)

// FromSeries reads the points of a field of a measurement, as records of the form {"measurement",
// "value", "timestamp_ms", "tags"}.
type FromSeries struct {
	Measurement string
	Field       string            // "" means value
	Tags        map[string]string // required of a series
	Poll        time.Duration     // interval between reads; 0 means a second
	// minimum age of a point before it is read; 0 means 5 s, negative none. Points written later
	// are missed and counted
	Delay time.Duration
	Start Start // Earliest or Latest; "" means Earliest
}

// Operator is a step of a job.
type Operator struct {
	Name        string // by which a restored job finds the operator's state; "" generates one
	Description string
	Do          Work // Filter, Map, Set, FlatMap, KeyBy, Aggregate, Lookup, Classify, Dedup, Join, Call or Passthrough
}

// Work is what an operator does: Filter, Map, Set, FlatMap, KeyBy, Aggregate, Lookup, Classify,
// Dedup, Join, Call or Passthrough.
type Work interface {
	work() (typ string, fields doc)
}

// Filter keeps records for which a condition holds: "expr: amount > 100", "json:$.amount>100",
// "key_prefix: eu-", "not_empty" and others.
type Filter struct{ Condition string }

// Map turns each record into a new object.
type Map struct{ Fields []Field }

// Set adds and replaces fields of a record that is an object. Text values are expressions.
type Set struct{ Fields []Field }

// Field is a field of an object that Map or Set makes. Value is a string ("$.path", "expr: ...",
// text with "${$.path}" in it, or a constant), a number, a boolean, nil, or a slice or map of
// these.
type Field struct {
	Name  string
	Value any
}

// FlatMap turns each element of an array into a record.
type FlatMap struct {
	Array string // path
	Key   string // path in the element to the new key; "" keeps the key
}

// KeyBy sets the key of records: a path, text with ${paths}, or an expression ("expr: ...").
// Records without a value there keep their key.
type KeyBy struct{ Key string }

// Aggregate computes one value, or several named ones, over all records with the same key.
type Aggregate struct {
	Function   Function  // "" with Each
	Field      string    // path; "" only with Count
	Percentile float64   // of Percentile, 0-100; 0 means 95
	Each       []Measure // up to 32, instead of Function and Field: the value is an object of them
	Window     Window    // zero: the aggregate of all records so far, emitted with each record
	Lateness   time.Duration
	LateTag    string // tag of records later than Lateness, for sinks that match it; "" means late
}

// Function is what an Aggregate computes.
type Function string

// The functions of Aggregate.
const (
	Sum        Function = "sum"
	Count      Function = "count"
	Avg        Function = "avg"
	Min        Function = "min"
	Max        Function = "max"
	First      Function = "first"
	Last       Function = "last"
	Distinct   Function = "distinct" // the number of different values
	Percentile Function = "percentile"
)

// Measure is one of several values of an Aggregate. A record without the field does not change it.
// Before the first record it is null, or 0 for count and distinct.
type Measure struct {
	Name       string // member name in the value
	Function   Function
	Field      string  // path; "" only with Count
	Percentile float64 // of Percentile, 0-100; 0 means 95
}

// Window groups the records of a key for an aggregate: Tumbling, Sliding, Session or Records. The
// zero Window holds all records.
type Window struct {
	kind             string
	size, slide, gap time.Duration
	records          int
}

// Tumbling returns consecutive windows of a fixed size.
func Tumbling(size time.Duration) Window { return Window{kind: "tumbling", size: size} }

// Sliding returns windows of a fixed size, one starting every slide.
func Sliding(size, slide time.Duration) Window {
	return Window{kind: "sliding", size: size, slide: slide}
}

// Session returns windows that end after a gap without records of the key.
func Session(gap time.Duration) Window { return Window{kind: "session", gap: gap} }

// Records returns windows of n records each.
func Records(n int) Window { return Window{kind: "count", records: n} }

// Lookup joins records with the KV value of a key.
type Lookup struct {
	Key       string // text with ${paths}, or a path
	Namespace string // "" for the job's
	Filter    bool   // keep only records whose key exists in KV, unchanged
	Field     string // receives the value; "" means lookup
	OnMissing OnMissing
}

// OnMissing is how a Lookup handles a record whose key is not in KV. The default, "", is
// MissingPass, or with Filter MissingDrop.
type OnMissing string

// How a Lookup handles records whose key is not in KV.
const (
	MissingPass OnMissing = "pass" // leave the record as it is
	MissingDrop OnMissing = "drop"
	MissingNull OnMissing = "null" // the field is null
	MissingFail OnMissing = "fail" // the record is one that the operator cannot process
)

// Classify adds the tags of all matching rules to a record. It drops no records.
type Classify struct {
	Rules   []Rule
	Default string // tag of records that match no rule; "" for none
}

// Rule assigns a tag to records that match a condition, see Filter.
type Rule struct{ Condition, Tag string }

// Dedup drops records whose key was seen before.
type Dedup struct {
	Key string        // as in KeyBy; "" for the record's key
	TTL time.Duration // how long a key is remembered; 0 means forever
}

// Join joins records with those of another source whose key is the same and whose event times
// differ by at most Within.
type Join struct {
	Source string // the other source
	On     string // as in KeyBy
	Within time.Duration
	Left   bool   // also emit records without a partner, once Within has passed
	Field  string // receives the partner; "" means the name of the source
}

// Call calls a Go function of the program that contains the node, see Func.
type Call struct{ Func string }

// Passthrough emits records unchanged.
type Passthrough struct{}

// Sink is an output of a job.
type Sink struct {
	Name  string   // "" generates one
	Match []string // tags that a record has to carry, all of them; nil matches every record
	To    Output   // ToStream, ToKV, ToQueue or ToSeries
}

// Output is ToStream, ToKV, ToQueue or ToSeries.
type Output interface {
	output() (key string, value doc)
}

// ToStream appends records to a stream, which is created if it does not exist.
type ToStream struct {
	Name      string
	Key       string // of the message: a path, or text with ${paths}; "" for the record's
	Namespace string // "" for the job's
}

// ToKV writes records to keys.
type ToKV struct {
	Key       string // a path, or text with ${paths}; "" for the record's key
	Prefix    string // prepended to the key
	Separator string // between prefix and key; "" means :
	Mode      KVMode // "" means Upsert
	TTL       time.Duration
	Namespace string // "" for the job's
}

// KVMode is how ToKV writes.
type KVMode string

// The modes of ToKV.
const (
	Upsert    KVMode = "upsert"
	IfAbsent  KVMode = "if_absent" // keys that exist stay as they are
	Versioned KVMode = "versioned"
)

// ToQueue enqueues records.
type ToQueue struct {
	Name      string
	Priority  int // 0-255
	Delay     time.Duration
	Namespace string // "" for the job's
}

// ToSeries writes points.
type ToSeries struct {
	Measurement string
	Tags        map[string]string // names to paths
	Fields      map[string]string // names to paths
	Time        string            // path; "" for the record's event time
	Namespace   string            // "" for the job's
}

// doc is a mapping in a definition.
type doc = document.Mapping

// YAML returns the definition as text. It checks nothing: the calls that parse the text report
// errors, with the line numbers of this text.
func (d Definition) YAML() []byte {
	all := doc{}
	all.Set("kind", "Processing")
	all.Set("name", d.Name)
	all.Opt("namespace", d.Namespace)
	all.Opt("description", d.Description)
	all.Opt("parallelism", d.Parallelism)
	all.Opt("batch_size", d.BatchSize)
	if d.FailOnError {
		all.Set("on_error", "fail")
	}
	if d.StopAtEnd {
		all.Set("stop_at", "latest")
	}
	all.Opt("max_future_ms", d.MaxFuture)
	var sources, operators, sinks []doc
	for i := range d.Sources {
		sources = append(sources, d.Sources[i].doc())
	}
	for i := range d.Operators {
		operators = append(operators, d.Operators[i].doc())
	}
	for i := range d.Sinks {
		sinks = append(sinks, d.Sinks[i].doc())
	}
	all.Set("sources", sources)
	all.Opt("operators", operators)
	all.Set("sinks", sinks)
	return all.YAML()
}

func (s *Source) doc() doc {
	var all doc
	all.Opt("name", s.Name)
	if s.From != nil {
		all.Set(s.From.input())
	}
	all.Opt("event_time", s.EventTime)
	var mark doc
	mark.OptOrNone("max_out_of_orderness_ms", document.Millis(s.Disorder))
	mark.OptOrNone("idle_timeout_ms", document.Millis(s.IdleAfter))
	all.Opt("watermark", mark)
	return all
}

func (s FromStream) input() (string, doc) {
	var all doc
	all.Set("name", s.Name)
	if s.Partitions == nil {
		all.Set("partitions", "all")
	} else {
		all.Set("partitions", s.Partitions)
	}
	all.Opt("start", string(s.Start))
	return "stream", all
}

func (s FromSeries) input() (string, doc) {
	var all doc
	all.Set("measurement", s.Measurement)
	all.Opt("field", s.Field)
	all.OptPairs("tags", s.Tags)
	all.Opt("poll_interval_ms", s.Poll)
	all.OptOrNone("delay_ms", document.Millis(s.Delay))
	all.Opt("start", string(s.Start))
	return "ts", all
}

func (o *Operator) doc() doc {
	var all doc
	all.Opt("name", o.Name)
	if o.Do != nil {
		typ, fields := o.Do.work()
		all.Set("type", typ)
		all.Opt("description", o.Description)
		all = append(all, fields...)
	}
	return all
}

func (f Filter) work() (string, doc) { return "filter", document.With("condition", f.Condition) }

func (m Map) work() (string, doc) { return "map", document.With("fields", fieldsOf(m.Fields)) }

func (s Set) work() (string, doc) { return "set", document.With("fields", fieldsOf(s.Fields)) }

func fieldsOf(fields []Field) doc {
	all := doc{}
	for _, f := range fields {
		all.Set(f.Name, f.Value)
	}
	return all
}

func (f FlatMap) work() (string, doc) {
	all := document.With("array_field", f.Array)
	all.Opt("element_key", f.Key)
	return "flatmap", all
}

func (k KeyBy) work() (string, doc) { return "keyby", document.With("key_expression", k.Key) }

func (a Aggregate) work() (string, doc) {
	var each []doc
	for _, m := range a.Each {
		each = append(each, append(document.With("name", m.Name), measureOf(m.Function, m.Field, m.Percentile)...))
	}
	all := document.With("aggregates", each)
	if each == nil {
		all = measureOf(a.Function, a.Field, a.Percentile)
	}
	all.Opt("window", a.Window.kind)
	switch a.Window.kind {
	case "tumbling":
		all.Set("window_size_ms", a.Window.size)
	case "sliding":
		all.Set("window_size_ms", a.Window.size)
		all.Set("slide_ms", a.Window.slide)
	case "session":
		all.Set("gap_ms", a.Window.gap)
	case "count":
		all.Set("window_size", a.Window.records)
	}
	all.Opt("allowed_lateness_ms", a.Lateness)
	all.Opt("late_tag", a.LateTag)
	return "aggregate", all
}

func measureOf(function Function, field string, percentile float64) doc {
	all := document.With("function", string(function))
	all.Opt("field", field)
	all.Opt("percentile", percentile)
	return all
}

func (l Lookup) work() (string, doc) {
	all := document.With("lookup_key", l.Key)
	all.Opt("namespace", l.Namespace)
	mode := "enrich"
	if l.Filter {
		mode = "filter"
	}
	all.Set("mode", mode)
	all.Opt("enrich_field", l.Field)
	all.Opt("on_missing", string(l.OnMissing))
	return "kv_lookup", all
}

func (c Classify) work() (string, doc) {
	rules := []doc{}
	for _, r := range c.Rules {
		rule := document.With("condition", r.Condition)
		rule.Set("tag", r.Tag)
		rules = append(rules, rule)
	}
	all := document.With("rules", rules)
	all.Opt("default_tag", c.Default)
	return "classify", all
}

func (d Dedup) work() (string, doc) {
	var all doc
	all.Opt("key", d.Key)
	all.Opt("ttl_ms", d.TTL)
	return "dedup", all
}

func (j Join) work() (string, doc) {
	all := document.With("source", j.Source)
	all.Set("on", j.On)
	all.Set("within_ms", j.Within)
	if j.Left {
		all.Set("mode", "left")
	}
	all.Opt("enrich_field", j.Field)
	return "join", all
}

func (c Call) work() (string, doc) { return "func", document.With("function", c.Func) }

func (Passthrough) work() (string, doc) { return "passthrough", nil }

func (s *Sink) doc() doc {
	var all doc
	all.Opt("name", s.Name)
	if s.To != nil {
		all.Set(s.To.output())
	}
	all.Opt("match", s.Match)
	return all
}

func (s ToStream) output() (string, doc) {
	all := document.With("name", s.Name)
	all.Opt("key", s.Key)
	all.Opt("namespace", s.Namespace)
	return "stream", all
}

func (k ToKV) output() (string, doc) {
	all := doc{}
	all.Opt("key", k.Key)
	all.Opt("key_prefix", k.Prefix)
	all.Opt("separator", k.Separator)
	all.Opt("write_mode", string(k.Mode))
	all.Opt("ttl_ms", k.TTL)
	all.Opt("namespace", k.Namespace)
	return "kv", all
}

func (q ToQueue) output() (string, doc) {
	all := document.With("name", q.Name)
	all.Opt("priority", q.Priority)
	all.Opt("delay_ms", q.Delay)
	all.Opt("namespace", q.Namespace)
	return "queue", all
}

func (s ToSeries) output() (string, doc) {
	all := document.With("measurement", s.Measurement)
	all.OptPairs("tags", s.Tags)
	all.OptPairs("fields", s.Fields)
	all.Opt("timestamp", s.Time)
	all.Opt("namespace", s.Namespace)
	return "ts", all
}
