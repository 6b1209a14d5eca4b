package ts

import (
	"math"
	"reflect"
	"testing"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points"
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

// TestQueriesArriveAsTheyWere: what one process asks and another answers is the same there.
func TestQueriesArriveAsTheyWere(t *testing.T) {
	wire := engine.NewWire([]engine.Primitive{table()})
	read, readAnswer := exampleRead(t)
	tags := &tagsQuery{namespace: "n", name: "m"}
	tagsAnswer := &tagsQuery{namespace: "n", name: "m", found: true, tags: []TagValues{{"host", []string{"a", "b"}, true}, {"none", nil, false}}}
	for _, tt := range []struct{ asked, answered engine.Query }{
		{read, readAnswer}, {tags, tagsAnswer},
		{&lastQuery{namespace: "n", selection: exampleSelection(t), inc: 9, first: 17}, &lastQuery{
			namespace: "n", selection: exampleSelection(t), inc: 9, first: 17,
			points: []lastPoint{{tagList{{"host", "a"}}, -7, 0.1 + 0.2}, {nil, 1 << 40, 1e300}}, next: 12, more: true, refused: "bytes",
		}},
		{&aggregateQuery{namespace: "n", selection: exampleSelection(t), plan: []byte{1, 2}}, &aggregateQuery{namespace: "n", selection: exampleSelection(t), plan: []byte{1, 2}, partial: []byte{3}, refused: "bytes"}},
		{&aggregateQuery{namespace: "n", selection: exampleSelection(t)}, &aggregateQuery{namespace: "n", selection: exampleSelection(t), failed: &floql.StageError{Stage: 1, Message: "no number"}}},
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

// TestRangesOfOtherProcesses: a selection that nobody here makes, and a limit of memory that would take all of it.
func TestRangesOfOtherProcesses(t *testing.T) {
	wire := engine.NewWire([]engine.Primitive{table()})
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

// FuzzReadAnswer decodes answers that come from another process.
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
			t.Fatalf("what was decoded can not be encoded: %v", err)
		}
	})
}

// TestHeldBlockInOrder: a block whose series are in any order is read like one in which they ascend.
func TestHeldBlockInOrder(t *testing.T) {
	var e points.Encoder
	e.Float(0, 0, 1, 70)
	e.Float(1, 0, 1, 30)
	e.Float(2, 0, 1, 50)
	e.Float(2, 0, 2, 51)
	b := block{ids: []seriesID{7, 3, 5}, fields: []fieldID{4}, span: span{4, 1, 2}, points: e.Append(nil)}
	h, err := holdBlock(b.encode(nil))
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
