package check

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/action"
)

func tasked(id action.RunID, attempt int) action.Task {
	return action.Task{Run: id, Attempt: attempt, MaxAttempts: 2, Source: "api", Input: []byte(id)}
}

func endedRun(id action.RunID, status action.Status, attempt int, text string) action.Run {
	run := action.Run{ID: id, Status: status, Attempt: attempt, MaxAttempts: 2, Source: "api", Input: []byte(id), Outcome: "outcome",
		CompletedAt: time.UnixMilli(1)}
	switch run.WorkerID = "w"; status {
	case action.Completed:
		run.Output = []byte(text)
	case action.TimedOut:
		run.Code = action.CodeTimeout
	default:
		run.Error = text
	}
	return run
}

// TestRuns feeds the checker with valid histories, and with histories that it must refuse. The
// input of a run is its ID.
func TestRuns(t *testing.T) {
	accept := func(r *Runs, id action.RunID) error {
		r.Invoke(string(id))
		return r.Invoked(string(id), id)
	}
	deliver := func(r *Runs, id action.RunID, attempt int) error { return r.Ask().Got("w", tasked(id, attempt)) }
	end := func(r *Runs, id action.RunID, how RunOutcome, attempt int, text string) *RunEnd {
		return r.End(RunEnd{Run: id, How: how, Attempt: attempt, Last: attempt == 2, Worker: "w", Text: text})
	}
	rest := func(r *Runs, run action.Run) error { return errors.Join(r.Rest(run), r.Check()) }
	for _, c := range []struct {
		name  string
		steps func(r *Runs) []error
		want  string // "": valid
	}{
		{"failed once, and completed", func(r *Runs) []error {
			return []error{
				accept(r, "a"), deliver(r, "a", 1), end(r, "a", Retries, 1, "e").Done(), deliver(r, "a", 2), end(r, "a", Completes, 2,
					"1").Done(),
				r.Ask().Saw(endedRun("a", action.Completed, 2, "1")), rest(r, endedRun("a", action.Completed, 2, "1")),
			}
		}, ""},
		{"invoked without an answer, and there", func(r *Runs) []error {
			r.Invoke("a")
			err := deliver(r, "a", 1)
			return []error{err, end(r, "a", Fails, 1, "e").Done(), rest(r, endedRun("a", action.Failed, 1, "e"))}
		}, ""},
		{"invoked without an answer, and not there", func(r *Runs) []error { r.Invoke("a"); return []error{r.Check()} }, ""},
		{"ended without an answer", func(r *Runs) []error {
			errs := []error{accept(r, "a"), deliver(r, "a", 1)}
			end(r, "a", Completes, 1, "1")
			return append(errs, rest(r, endedRun("a", action.Completed, 1, "1")))
		}, ""},
		{"out of time", func(r *Runs) []error {
			return []error{accept(r, "a"), deliver(r, "a", 1), deliver(r, "a", 2), rest(r, endedRun("a", action.TimedOut, 2, ""))}
		}, ""},
		{"cancelled while an attempt fails", func(r *Runs) []error {
			errs := []error{accept(r, "a"), deliver(r, "a", 1)}
			failed := end(r, "a", Retries, 1, "e")
			return append(errs, end(r, "a", Cancels, 0, "c").Done(), failed.Done(), rest(r, endedRun("a", action.Cancelled, 1, "c")))
		}, ""},
		{"given back", func(r *Runs) []error {
			errs := []error{accept(r, "a"), deliver(r, "a", 1)}
			r.Leaves("w")
			return append(errs, deliver(r, "a", 1))
		}, ""},
		{"asked for before its end was told, and got", func(r *Runs) []error {
			errs := []error{accept(r, "a"), deliver(r, "a", 1)}
			call := r.Ask()
			return append(errs, end(r, "a", Completes, 1, "1").Done(), call.Got("w", tasked("a", 2)))
		}, ""},

		{"of nobody", func(r *Runs) []error { return []error{deliver(r, "a", 1)} }, "with which nothing was invoked"},
		{"refused, and there", func(r *Runs) []error {
			r.Invoke("a")
			r.Refused("a")
			return []error{deliver(r, "a", 1)}
		}, "with which nothing was invoked"},
		{"twice", func(r *Runs) []error { return []error{accept(r, "a"), r.Invoked("a", "b")} }, "with which one was invoked"},
		{"two runs of a tick", func(r *Runs) []error {
			one, other := tasked("a", 1), tasked("b", 1)
			one.Source, one.IdempotencyKey, other.Source, other.IdempotencyKey = "schedule:s", "k", "schedule:s", "k"
			return []error{r.Ask().Got("w", one, other)}
		}, "of one tick"},
		{"lost", func(r *Runs) []error { return []error{accept(r, "a"), r.Check()} }, "is lost"},
		{"stuck", func(r *Runs) []error {
			run := endedRun("a", action.Completed, 1, "")
			run.Status = action.Pending
			return []error{accept(r, "a"), r.Rest(run)}
		}, "in the end"},
		{"an attempt twice", func(r *Runs) []error { return []error{accept(r, "a"), deliver(r, "a", 1), deliver(r, "a", 1)} },
			"which another one had"},
		{"too many attempts", func(r *Runs) []error { return []error{accept(r, "a"), deliver(r, "a", 3)} }, "attempt 3 of 2"},
		{"an attempt that failed comes back", func(r *Runs) []error {
			errs := []error{accept(r, "a"), deliver(r, "a", 1)}
			r.Leaves("w")
			return append(errs, end(r, "a", Retries, 1, "e").Done(), deliver(r, "a", 1))
		}, "although attempt 1 has ended"},
		{"got behind its end", func(r *Runs) []error {
			return []error{accept(r, "a"), deliver(r, "a", 1), end(r, "a", Completes, 1, "1").Done(), deliver(r, "a", 2)}
		}, "behind its end"},
		{"a late result", func(r *Runs) []error {
			return []error{accept(r, "a"), deliver(r, "a", 1), deliver(r, "a", 2), end(r, "a", Completes, 1, "1").Done()}
		}, "although a worker had attempt 2"},
		{"a result behind the end", func(r *Runs) []error {
			return []error{accept(r, "a"), deliver(r, "a", 1), end(r, "a", Cancels, 0, "c").Done(), end(r, "a", Completes, 1, "1").Done()}
		}, "although the run had ended"},
		{"two ends at once", func(r *Runs) []error {
			errs := []error{accept(r, "a"), deliver(r, "a", 1)}
			one, other := end(r, "a", Cancels, 0, "c"), end(r, "a", Completes, 1, "1")
			return append(errs, one.Done(), other.Done())
		}, "it ended twice"},
		{"pending behind its end", func(r *Runs) []error {
			run := endedRun("a", action.Completed, 1, "")
			run.Status = action.Pending
			return []error{accept(r, "a"), deliver(r, "a", 1), end(r, "a", Completes, 1, "1").Done(), r.Ask().Saw(run)}
		}, "behind its end"},
		{"another output", func(r *Runs) []error {
			return []error{accept(r, "a"), deliver(r, "a", 1), end(r, "a", Completes, 1, "1").Done(),
				rest(r, endedRun("a", action.Completed, 1, "2"))}
		}, "but its end was the result"},
		{"a refused result", func(r *Runs) []error {
			errs := []error{accept(r, "a"), deliver(r, "a", 1)}
			end(r, "a", Completes, 1, "1").Refused()
			return append(errs, rest(r, endedRun("a", action.Completed, 1, "1")))
		}, "for which nobody asked"},
		{"an attempt forgotten", func(r *Runs) []error {
			errs := []error{accept(r, "a"), deliver(r, "a", 1)}
			end(r, "a", Completes, 1, "1")
			return append(errs, deliver(r, "a", 2), rest(r, endedRun("a", action.Completed, 1, "1")))
		}, "but a worker had attempt 2"},
		{"out of time with an attempt left", func(r *Runs) []error {
			return []error{accept(r, "a"), deliver(r, "a", 1), rest(r, endedRun("a", action.TimedOut, 1, ""))}
		}, "for which nobody asked"},
		{"failed with an attempt left", func(r *Runs) []error {
			errs := []error{accept(r, "a"), deliver(r, "a", 1)}
			end(r, "a", Retries, 1, "e")
			return append(errs, rest(r, endedRun("a", action.Failed, 1, "e")))
		}, "for which nobody asked"},
		{"without a time", func(r *Runs) []error {
			run := endedRun("a", action.TimedOut, 2, "")
			run.CompletedAt = time.Time{}
			return []error{accept(r, "a"), rest(r, run)}
		}, "has no time"},
	} {
		err := errors.Join(c.steps(NewRuns())...)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
