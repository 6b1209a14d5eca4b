package processing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream/processing"
)

const called = `
name: called
sources: [{ name: in, stream: { name: in } }]
operators:
  - { name: kind, type: classify, rules: [{ condition: not_empty, tag: some }] }
  - { name: scored, type: func, function: score }
sinks: [{ name: out, stream: { name: out } }]
`

// typedNil is an error that panics when it is nil.
type typedNil struct{ text string }

func (e *typedNil) Error() string { return e.text }

// worse is an error whose text panics with the error itself.
type worse struct{}

func (w worse) Error() string { panic(w) }

// TestFunc: the records that a function returns continue in the pipeline, and any other result is
// an error of the record.
func TestFunc(t *testing.T) {
	score := func(_ context.Context, rec processing.Record) ([]processing.Record, error) {
		switch string(rec.Value) {
		case "two":
			rec.Value = bytes.ToUpper(rec.Value)
			return []processing.Record{rec, {Key: "second", Headers: map[string]string{"b": "2", "a": "1"}, Time: time.Unix(7, 0),
				Tags: []string{"other"}}}, nil
		case "none":
			return nil, nil
		case "error":
			return []processing.Record{rec}, errors.New("no score")
		case "nil error":
			return nil, (*typedNil)(nil)
		case "panic":
			panic(fmt.Errorf("out of range"))
		case "worse":
			panic(worse{})
		case "exit":
			runtime.Goexit()
		case "growth":
			return []processing.Record{{Value: make([]byte, 9<<20)}, {Value: make([]byte, 9<<20)}}, nil
		case "seen":
			return []processing.Record{{Value: fmt.Appendf(nil, "%s %v %d %v", rec.Key, rec.Headers, rec.Time.UnixMilli(), rec.Tags)}}, nil
		}
		clear(rec.Value) // a function may do this
		return []processing.Record{rec}, nil
	}
	var samples processing.Samples
	for _, v := range []string{"two", "none", "error", "nil error", "panic", "worse", "exit", "growth", "seen"} {
		samples.Records = append(samples.Records,
			processing.Sample{Key: "k", Value: []byte(v), Headers: map[string]string{"h": "1"}, Time: time.UnixMilli(5)})
	}
	cleared := []byte("cleared")
	samples.Records = append(samples.Records, processing.Sample{Value: cleared})
	if _, err := processing.Test(t.Context(), []byte(called), samples); !errors.Is(err, processing.ErrInvalid) ||
		!strings.Contains(err.Error(), `operator "scored": function "score" is not registered`) {
		t.Errorf("without the function: %v", err)
	}
	samples.Funcs = map[string]processing.Func{"score": score}
	got, err := processing.Test(t.Context(), []byte(called), samples)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, w := range got.Written {
		all = append(all, fmt.Sprintf("%s %d %v %s", w.Key, w.Time.UnixMilli(), w.Tags, w.Value))
	}
	if want := "k 5 [some] TWO, second 5 [some] ,  5 [some] k map[h:1] 5 [some],  5 [some] \x00\x00\x00\x00\x00\x00\x00"; strings.Join(all,
		", ") != want {
		t.Errorf("written %q, want %q", strings.Join(all, ", "), want)
	}
	all = nil
	for _, f := range got.Failures {
		all = append(all, string(f.Value)+": "+f.Reason)
	}
	want := `error: function "score": no score
nil error: function "score": panic: runtime error: invalid memory address or nil pointer dereference
panic: function "score": panic: out of range
worse: function "score": panic
exit: function "score": it called runtime.Goexit
growth: the record becomes larger than 16 MiB`
	if text := strings.Join(all, "\n"); text != want {
		t.Errorf("failures:\n%s\nwant:\n%s", text, want)
	}
	if string(cleared) != "cleared" {
		t.Errorf("the function has changed the sample to %q", cleared)
	}
	if o := got.Operators[1]; o.In != 10 || o.Out != 5 || o.Dropped != 1 || o.Errors != 6 {
		t.Errorf("operator %+v", o)
	}
}

// TestFuncNotRegistered: on a node without a function the job waits, names the function, and loses
// nothing.
func TestFuncNotRegistered(t *testing.T) {
	table := engine.TableOf[processing.Store]()
	s := newStageOf(t, 1, table)
	id := s.submit(called)
	s.append("in", "a", "b")
	s.run()
	s.Advance(60_000)
	var j processing.Job
	s.lane(id, bed{asleep: func(<-chan struct{}, int64) { j = s.job(id) }})
	if j.Status != processing.Running || !j.Held || j.Reason != `operator "scored": function "score" is not registered on this node` ||
		j.Metrics.RecordsIn != 0 {
		t.Errorf("without the function: %+v", j)
	}
	table.Given(map[string]processing.Func{"score": func(_ context.Context, rec processing.Record) ([]processing.Record, error) {
		rec.Value = append(rec.Value, '!')
		return []processing.Record{rec}, nil
	}})
	s.Restart()
	s.run()
	s.want("out", "a! b!")
	if j = s.job(id); j.Held || j.Reason != "" || j.Metrics.Errors != 0 || j.Metrics.RecordsIn != 2 {
		t.Errorf("with the function: %+v", j)
	}
}

// TestFuncFails: with on_error: fail the first record on which a function fails ends the job.
func TestFuncFails(t *testing.T) {
	table := engine.TableOf[processing.Store]()
	table.Given(map[string]processing.Func{"score": func(context.Context, processing.Record) ([]processing.Record, error) { panic("no") }})
	s := newStageOf(t, 1, table)
	id := s.submit("on_error: fail\n" + called)
	s.append("in", "a")
	s.run()
	if j := s.job(id); j.Status != processing.Failed || !strings.Contains(j.Reason, `function "score": panic: no`) {
		t.Errorf("job %+v", j)
	}
}
