package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// jobOf compiles a job of some operators, with a state in memory.
func jobOf(t *testing.T, operators string) (*Program, *memory) {
	t.Helper()
	job,
		problems := Parse([]byte("name: test\nmax_future_ms: 36000000000\nsources: [{name: in, event_time: $.t, stream: {name: in, " +
		"partitions: all}}]\noperators: [" + operators + "]\nsinks: [{name: out, stream: out}]\n"))
	if job == nil {
		t.Fatalf("%+v", problems)
	}
	p, err := Compile(job, numbersOf(job))
	if err != nil {
		t.Fatal(err)
	}
	return p, newMemory()
}

// valued are records of some values, each with an event time.
func valued(t *testing.T, p *Program, values ...string) (batch []Record) {
	t.Helper()
	for i, v := range values {
		rec := Record{Value: []byte(v), Origin: Origin{Offset: uint64(i)}}
		var err error
		if rec.EventTime, err = p.EventTime(&rec); err != nil {
			t.Fatal(err)
		}
		batch = append(batch, rec)
	}
	return batch
}

// TestSessionsOfOneKey: what a record and a timer cost does not depend on how many sessions the key
// has, whether they wait for the watermark or for late records.
func TestSessionsOfOneKey(t *testing.T) {
	for _, lateness := range []int{0, 1000} {
		cost := func(n int) int {
			p, state := jobOf(t, fmt.Sprintf("{name: s, type: aggregate, function: count, window: session, gap: 1, allowed_lateness: %d}",
				lateness))
			var values []string
			for i := range n {
				values = append(values, fmt.Sprintf(`{"t":%d}`, (i*7919%n)*3000)) // n is no multiple of 7919: each once, in no order
			}
			tick := p.NewTick(state, nil, Limits{}, MinTime)
			if err := tick.Add(context.Background(), valued(t, p, values...)); err != nil {
				t.Fatal(err)
			}
			if next, err := tick.Advance(context.Background(), int64(n)*3000, nil); err != nil || next != nil {
				t.Fatal(next, err)
			}
			if len(tick.Writes()) != n {
				t.Fatalf("%d sessions of %d", len(tick.Writes()), n)
			}
			return state.read
		}
		if once, fourfold := cost(500), cost(2000); fourfold > 6*once {
			t.Errorf("lateness %d s: 500 sessions read %d rows, 2,000 read %d", lateness, once, fourfold)
		}
	}
}

// TestRecordOfManyWrites: a record that comes to more than a tick may hold in sinks is a failure,
// and the next one goes on.
func TestRecordOfManyWrites(t *testing.T) {
	p, state := jobOf(t, `{name: f, type: flatmap, array_field: $.list}`)
	p.job.Sinks = append(p.job.Sinks, p.job.Sinks[0], p.job.Sinks[0])
	batch := valued(t, p, `{"t":1,"list":[`+strings.Repeat("1,", 40_000)+`1]}`, `{"t":1,"list":[1]}`)
	if err := p.NewTick(state, nil, Limits{}, MinTime).Add(context.Background(), batch); !errors.Is(err, ErrBatch) {
		t.Errorf("both records: %v, want ErrBatch", err)
	}
	for i, want := range []struct{ writes, failures int }{{0, 1}, {3, 0}} {
		tick := p.NewTick(state, nil, Limits{Rows: 1}, MinTime)
		if err := tick.Add(context.Background(), batch[i:i+1]); err != nil {
			t.Fatal(err)
		}
		if len(tick.Writes()) != want.writes || len(tick.Failures()) != want.failures {
			t.Errorf("record %d: %d writes and %d failures, want %+v", i, len(tick.Writes()), len(tick.Failures()), want)
		}
	}
}

// TestPatternWithinBudget: a regular expression pays for what it may take, so that no record takes
// seconds.
func TestPatternWithinBudget(t *testing.T) {
	p, state := jobOf(t,
		`{name: f, type: filter, condition: 'expr: text matches "(x+x+){1,20}y"'}, {name: short, type: filter, condition: 'expr: text matches "^[a-z]+$"'}`)
	tick := p.NewTick(state, nil, Limits{}, MinTime)
	long := fmt.Sprintf(`{"t":1,"text":%q}`, strings.Repeat("x", 60<<10))
	if err := tick.Add(context.Background(), valued(t, p, long, `{"t":1,"text":"xxy"}`)); err != nil {
		t.Fatal(err)
	}
	if f := tick.Failures(); len(f) != 1 || f[0].Operator != "f" || f[0].Reason != "the expression takes too long" {
		t.Errorf("failures %+v", f)
	}
	if len(tick.Writes()) != 1 {
		t.Errorf("%d records passed, want that with little text", len(tick.Writes()))
	}
}

// TestWindowOfManyPanes: a window that fires costs far less than its panes, all of which are there,
// and a late record that changes a thousand windows, too.
func TestWindowOfManyPanes(t *testing.T) {
	for _, late := range []bool{false, true} {
		cost := func(panes int) int {
			p, state := jobOf(t,
				fmt.Sprintf("{name: w, type: aggregate, function: sum, field: n, window: sliding, window_size: %d, slide: 1, "+
					"allowed_lateness: 3000}", panes))
			var values []string
			for i := range 3 * panes {
				values = append(values, fmt.Sprintf(`{"t":%d,"n":1}`, i*1000))
			}
			tick := p.NewTick(state, nil, Limits{}, MinTime)
			if err := tick.Add(context.Background(), valued(t, p, values...)); err != nil {
				t.Fatal(err)
			}
			to := int64(2 * panes * 1000)
			if next, err := tick.Advance(context.Background(), to, nil); err != nil || next != nil {
				t.Fatal(next, err)
			}
			if late {
				state.read = 0
				tick = p.NewTick(state, nil, Limits{}, to)
				if err := tick.Add(context.Background(), valued(t, p, fmt.Sprintf(`{"t":%d,"n":1}`, panes/2*1000))); err != nil {
					t.Fatal(err)
				}
				if next, err := tick.Advance(context.Background(), to, nil); err != nil || next != nil {
					t.Fatal(next, err)
				}
			}
			return state.read / len(tick.Writes())
		}
		// A root makes 1.4 of it, and what a window costs beside its pieces is the same.
		if once, twice := cost(500), cost(1000); twice > once*16/10 || twice > 500 {
			t.Errorf("late %v: a window of 500 panes reads %d rows, one of 1,000 reads %d", late, once, twice)
		}
	}
}

// TestWindowOfFewPanes: a window of a thousand panes costs as much as those that are there.
func TestWindowOfFewPanes(t *testing.T) {
	p, state := jobOf(t, `{name: w, type: aggregate, function: sum, field: n, window: sliding, window_size: 1000, slide: 1}`)
	tick := p.NewTick(state, nil, Limits{}, MinTime)
	if err := tick.Add(context.Background(), valued(t, p, `{"t":500,"n":1}`, `{"t":300000,"n":2}`)); err != nil {
		t.Fatal(err)
	}
	if next, err := tick.Advance(context.Background(), EndOfTime, nil); err != nil || next != nil {
		t.Fatal(next, err)
	}
	if n := len(tick.Writes()); n != 1300 || state.scans > 20*n {
		t.Errorf("%d windows, %d scans", n, state.scans)
	}
}
