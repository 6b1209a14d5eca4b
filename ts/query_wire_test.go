package ts

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/agg"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points"
	"github.com/floedb/floe/internal/pushdown"
	"github.com/floedb/floe/internal/test/machinetest"
)

func exampleSelection(t testing.TB) floql.Selection {
	glob, err := floql.NewFilter("host", floql.Match, "web-{a,b}*")
	if err != nil {
		t.Fatal(err)
	}
	return floql.Selection{
		Measurement: "cpu", Filters: []floql.Filter{glob}, Fields: []string{"usage"}, From: -5, To: 1 << 40, LookBack: 7,
		Limits: floql.Limits{Points: 1, Series: -1, Bytes: 1 << 20},
	}
}

func exampleRead(t testing.TB) (asked, answered *readQuery) {
	asked = &readQuery{namespace: "n", selection: exampleSelection(t), exact: true, inc: 9, start: spot{-3, 2, 17, math.MinInt64}}
	whole := *asked
	answered = &whole
	answered.series = []readSeries{{5, "usage", tagList{{"host", "a"}}}, {6, "usage", nil}}
	answered.runs = []readRun{{0, []int64{1, 2, 5}, []float64{1.5, -2, 1e300}}, {1, []int64{-7}, []float64{0.1 + 0.2}}}
	answered.next, answered.more, answered.refused = spot{4, 1, 6, 5}, true, "points"
	return asked, answered
}

// TestQueriesArriveAsTheyWere: queries and their results survive encoding between processes.
func TestQueriesArriveAsTheyWere(t *testing.T) {
	wire := engine.NewWire([]engine.Primitive{table()})
	read, readAnswer := exampleRead(t)
	tags := &tagsQuery{namespace: "n", name: "m"}
	tagsAnswer := &tagsQuery{namespace: "n", name: "m", found: true,
		tags: []TagValues{{"host", []string{"a", "b"}, true}, {"none", nil, false}}}
	measurement := Measurement{
		Name: "m", CreatedAt: time.UnixMilli(1), Fields: []Field{{"f", Integer}}, Series: 2, Points: 3, Oldest: time.UnixMilli(4),
		Newest:    time.UnixMilli(5),
		Retention: Retention{6, []Downsample{{7, 8}}}, Held: 9, HeldBy: Downsample{10, 11}, version: 12,
	}
	for _, tt := range []struct{ asked, answered engine.Query }{
		{read, readAnswer}, {tags, tagsAnswer},
		{&lastQuery{namespace: "n", selection: exampleSelection(t), inc: 9, first: 17}, &lastQuery{
			namespace: "n", selection: exampleSelection(t), inc: 9, first: 17,
			points: []lastPoint{{tagList{{"host", "a"}}, -7, 0.1 + 0.2}, {nil, 1 << 40, 1e300}}, next: 12, more: true, refused: "bytes",
		}},
		{&aggregateQuery{namespace: "n", selection: exampleSelection(t), plan: []byte{1, 2}},
			&aggregateQuery{namespace: "n", selection: exampleSelection(t), plan: []byte{1, 2}, partial: []byte{3}, refused: "bytes"}},
		{&measurementQuery{namespace: "n", name: "m"}, &measurementQuery{namespace: "n", name: "m", items: []Measurement{measurement}}},
		{
			&measurementQuery{namespace: "n", name: "m"},
			&measurementQuery{namespace: "n", name: "m", policy: 1, retention: Retention{6, nil}},
		},
		{
			&measurementsQuery{namespace: "n", prefix: "p", after: "a", limit: 2},
			&measurementsQuery{namespace: "n", prefix: "p", after: "a", limit: 2, items: []Measurement{measurement, measurement},
				more: true, next: "z"},
		},
		{
			&seriesQuery{namespace: "n", name: "m", tags: tagList{{"host", "a"}}, filters: exampleSelection(t).Filters, from: 3, limit: 4},
			&seriesQuery{
				namespace: "n", name: "m", tags: tagList{{"host", "a"}}, filters: exampleSelection(t).Filters, from: 3, limit: 4,
				inc: 5, items: []foundSeries{{id: 6, row: seriesRow{fingerprint: 8, tags: tagList{{"host", "b"}}}}}, more: true, next: 7,
			},
		},
		{
			&resolveQuery{namespace: "n", wanted: []wanted{{"m", [][hashLen]byte{{1}, {hashLen - 1: 2}}}}},
			&resolveQuery{
				namespace: "n", wanted: []wanted{{"m", [][hashLen]byte{{1}, {hashLen - 1: 2}}}},
				found: []resolved{{inc: 3, ids: []uint64{4, 0}, worst: LimitError{"n", 5, 6, 7, "host", 8, true}}}, room: 8, limit: 9,
				spread: true,
			},
		},
		{&aggregateQuery{namespace: "n", selection: exampleSelection(t)},
			&aggregateQuery{namespace: "n", selection: exampleSelection(t), failed: &pushdown.StageError{Stage: 1, Message: "no number"}}},
	} {
		got, err := wire.DecodeQuery(engine.AppendQuery(nil, tt.asked))
		if err != nil || !reflect.DeepEqual(got, tt.asked) {
			t.Errorf("%T arrives as %+v, %v, want %+v", tt.asked, got, err, tt.asked)
			continue
		}
		if err := engine.DecodeResults(got, engine.AppendResults(nil, tt.answered)); err != nil || !reflect.DeepEqual(got, tt.answered) {
			t.Errorf("the answer of %T arrives as %+v, %v, want %+v", tt.asked, got, err, tt.answered)
		}
	}
}

// TestRangesOfOtherProcesses: a selection that this process never makes is refused, and an
// unlimited memory limit is capped.
func TestRangesOfOtherProcesses(t *testing.T) {
	wire := engine.NewWire([]engine.Primitive{table()})
	arrives := func(q engine.Query) error {
		if _, err := wire.DecodeQuery(engine.AppendQuery(nil, q)); err != nil {
			return engine.Errorf(ErrInvalid, "%v", err)
		}
		return nil
	}
	const none = math.MinInt64
	tags := func(n int64) (all tagList) {
		for i := range n {
			all = append(all, tag{fmt.Sprintf("t%03d", i), "v"})
		}
		return all
	}
	machinetest.TryLimits(t, []machinetest.Limit{
		{Name: "limit of measurements", Least: 1, Most: engine.MaxPageItems, Says: []string{"limit"},
			Try: func(n int64) error { return arrives(&measurementsQuery{limit: int(n)}) }},
		{Name: "limit of series", Least: 1, Most: engine.MaxPageItems, Says: []string{"limit"},
			Try: func(n int64) error { return arrives(&seriesQuery{limit: int(n)}) }},
		{Name: "tags of series", Least: none, Most: MaxTags, Says: []string{"tags"},
			Try: func(n int64) error { return arrives(&seriesQuery{limit: 1, tags: tags(n)}) }},
		{Name: "series to resolve", Least: none, Most: maxResolve, Says: []string{"series"}, Try: func(n int64) error {
			return arrives(&resolveQuery{wanted: []wanted{{"a", make([][hashLen]byte, 1)}, {"b", make([][hashLen]byte, n-1)}}})
		}},
		{Name: "field of a read", Least: none, Most: MaxFields, Says: []string{""}, Try: func(n int64) error {
			return arrives(&readQuery{selection: exampleSelection(t), start: spot{field: int(n)}})
		}},
		{Name: "bytes of an answer", Least: 0, Most: maxQueryBytes, Try: func(n int64) error {
			q := &readQuery{selection: exampleSelection(t)}
			q.selection.Limits.Bytes = n
			if got, err := wire.DecodeQuery(engine.AppendQuery(nil, q)); err != nil || got.(*readQuery).selection.Limits.Bytes != n {
				return engine.Errorf(ErrInvalid, "other ones arrive: %v", err)
			}
			return nil
		}},
	})
	q := &readQuery{namespace: "n", selection: exampleSelection(t)}
	q.selection.Limits.Bytes = -1
	got, err := wire.DecodeQuery(engine.AppendQuery(nil, q))
	if err != nil || got.(*readQuery).selection.Limits.Bytes != maxQueryBytes {
		t.Errorf("%+v, %v, want %d bytes at most", got, err, maxQueryBytes)
	}
	q.selection.From, q.selection.To = 5, 5
	if _, err := wire.DecodeQuery(engine.AppendQuery(nil, q)); err == nil {
		t.Error("an empty range is decoded")
	}
	q = &readQuery{namespace: "n", selection: exampleSelection(t), start: spot{field: MaxFields + 1}}
	if _, err := wire.DecodeQuery(engine.AppendQuery(nil, q)); err == nil {
		t.Error("a field out of range is decoded")
	}
}

// TestNamesOfTypesAndRollups checks the names of field types and rollup lengths.
func TestNamesOfTypesAndRollups(t *testing.T) {
	for typ, want := range map[FieldType]string{0: "unknown", Float: "float", Integer: "integer", Boolean: "boolean",
		Boolean + 1: "unknown"} {
		if got := typ.String(); got != want {
			t.Errorf("type %d is called %q, want %q", typ, got, want)
		}
	}
	for every, d := range map[string]time.Duration{
		"1s": time.Second, "90s": 90 * time.Second, "5m": 5 * time.Minute, "36h": 36 * time.Hour, "366d": maxEvery, "31622400s": maxEvery,
		"": 0, "m": 0, "0m": 0, "-5m": 0, "5": 0, "5x": 0, "367d": 0, "31622401s": 0, "1234567890123s": 0,
	} {
		if got := (Downsample{Every: max(d, time.Second)}).Is(every); got != (d > 0) {
			t.Errorf("%q is %v: %t", every, d, got)
		}
		if (Downsample{Every: d + time.Second}).Is(every) {
			t.Errorf("%q is %v", every, d+time.Second)
		}
	}
}

// FuzzReadAnswer decodes answers of another process.
func FuzzReadAnswer(f *testing.F) {
	_, answer := exampleRead(f)
	f.Add(engine.AppendResults(nil, answer))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		q := new(readQuery)
		if engine.DecodeResults(q, b) != nil {
			return
		}
		series := make(map[seriesField]*floql.Series)
		for _, r := range q.runs {
			if q.seriesOf(series, r.series) == nil || len(r.times) != len(r.values) || len(r.times) == 0 || len(r.times) > points.MaxRun {
				t.Fatalf("a run of %d times and %d values", len(r.times), len(r.values))
			}
		}
		again := new(readQuery)
		if err := engine.DecodeResults(again, engine.AppendResults(nil, q)); err != nil {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
	})
}

// TestHeldBlockInOrder: a block with series in any order reads the same as one with ascending
// series.
func TestHeldBlockInOrder(t *testing.T) {
	var e points.Encoder
	e.Float(0, 0, 1, 70)
	e.Float(1, 0, 1, 30)
	e.Float(2, 0, 1, 50)
	e.Float(2, 0, 2, 51)
	b := block{ids: []seriesID{7, 3, 5}, fields: []fieldID{4}, span: span{4, 1, 2}, points: e.Append(nil)}
	h, err := holdBlock(b)
	if err != nil {
		t.Fatal(err)
	}
	f, err := h.feed(4)
	if err != nil {
		t.Fatal(err)
	}
	for id := range seriesID(9) {
		ok, err := f.seek(id)
		if err != nil || ok != (id == 3 || id == 5 || id == 7) {
			t.Fatalf("seek(%d) = %t, %v", id, ok, err)
		}
		if !ok {
			continue
		}
		if _, values := f.read(); values[0] != float64(id)*10 {
			t.Errorf("series %d begins with %v", id, values[0])
		}
	}
	if f, err := h.feed(3); f != nil || err != nil {
		t.Errorf("a field that is not there: %v, %v", f, err)
	}
}

// TestDecodeSelection: an invalid selection is refused, and the longest selection is accepted.
func TestDecodeSelection(t *testing.T) {
	var back floql.Selection
	for what, sel := range map[string]floql.Selection{
		"an empty range":        {From: 1, To: 1},
		"an early range":        {From: -2*agg.MaxTime - 1, To: 1},
		"a late range":          {From: 1, To: 2*agg.MaxTime + 1},
		"a negative look back":  {From: 1, To: 2, LookBack: -1},
		"too long a look back":  {From: 1, To: 2, LookBack: 2*agg.MaxTime + 1},
		"an unknown operator":   {From: 1, To: 2, Filters: []floql.Filter{{Tag: "a", Op: floql.NotMatch + 1}}},
		"a pattern without end": {From: 1, To: 2, Filters: []floql.Filter{{Tag: "a", Op: floql.Match, Value: "["}}},
	} {
		if err := decodeSelection(encodeSelection(&sel), &back); err == nil {
			t.Errorf("a selection with %s is accepted", what)
		}
	}
	far := encodeSelection(&floql.Selection{From: -2 * agg.MaxTime, To: 2 * agg.MaxTime, LookBack: 2 * agg.MaxTime})
	if err := decodeSelection(far, &back); err != nil {
		t.Errorf("the longest selection: %v", err)
	}
	if err := decodeSelection(append(far, 0), &back); err == nil {
		t.Error("a selection with a byte behind it is accepted")
	}
}

func FuzzDecodeSelection(f *testing.F) {
	s := exampleSelection(f)
	f.Add(encodeSelection(&s))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s floql.Selection
		if decodeSelection(b, &s) != nil {
			return
		}
		if back := encodeSelection(&s); !bytes.Equal(back, b) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, s, back)
		}
	})
}
