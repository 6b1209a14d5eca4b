package check

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/floedb/floe/action"
)

// Runs records the calls of callers and workers of actions, and their results. An accepted
// invocation makes one run. Workers receive it until it has ended and never afterwards, each time
// as a new attempt. It ends once, in a way that a call requested or that its attempts imply, and
// calls for an attempt that has ended are refused. It is safe for concurrent use. Inputs of
// invocations must be unique.
//
//	r.Invoke(`"a"`)
//	i, err := store.Invoke(ctx, "job", []byte(`"a"`))
//	err = r.Invoked(`"a"`, i.Run) // or r.Refused(`"a"`), or nothing
//	call := r.Ask()
//	tasks, err := store.Await(ctx, "worker", []string{"job"})
//	err = call.Got("worker", tasks)
//	end := r.End(check.RunEnd{Run: tasks[0].Run, How: check.Completes, Attempt: 1, Worker: "worker", Text: "1"})
//	err = store.Complete(ctx, tasks[0].Run, "worker", []byte("1"))
//	err = end.Done() // or end.Refused(), or nothing
type Runs struct {
	// Loose permits any worker to release its runs.
	Loose bool

	mu     sync.Mutex // guards what follows, and all calls and ends
	runs   map[action.RunID]*ran
	inputs map[string]*invocation
	ticks  map[string]action.RunID // by idempotency key
	calls  int64                   // counts all recorded events
}

// invocation is the known state of an input.
type invocation struct {
	run     action.RunID // "": unknown
	refused bool
}

// ran is the known state of a run.
type ran struct {
	sure    bool         // its invocation was acknowledged, or a worker has had it
	told    map[int]bool // attempts reported to workers
	workers []string     // the workers of these attempts
	last    int          // the latest of them
	loose   bool         // perhaps one was released: attempts that do not count have the number of a later one
	ends    []*RunEnd
	retried *RunEnd // the last attempt that certainly ended and was followed by another one
	ended   *RunEnd // what certainly ended it
	at      int64   // when that became known
	seen    bool    // it existed at the end
}

// RunOutcome is the way in which a call ends a run or an attempt.
type RunOutcome uint8

// The outcomes.
const (
	Completes RunOutcome = iota
	Fails                // no other attempt follows
	Retries              // another attempt follows if one is left
	Cancels
)

func (o RunOutcome) String() string {
	return [...]string{"result", "failure", "error", "cancellation"}[o]
}

// RunEnd is a call that ends an attempt or a run.
type RunEnd struct {
	Run     action.RunID
	How     RunOutcome
	Attempt int    // for all except Cancels
	Last    bool   // no attempts are left
	Worker  string // for all except Cancels
	Text    string // output, error or reason, unique among all calls

	of      *Runs
	stale   string // why it must be refused
	refused bool
}

// NewRuns returns the check of actions without runs.
func NewRuns() *Runs {
	return &Runs{runs: make(map[action.RunID]*ran), inputs: make(map[string]*invocation), ticks: make(map[string]action.RunID)}
}

func (r *Runs) runLocked(id action.RunID) *ran {
	one := r.runs[id]
	if one == nil {
		one = &ran{told: make(map[int]bool), loose: r.Loose}
		r.runs[id] = one
	}
	return one
}

// Invoke notes that a run is about to be invoked.
func (r *Runs) Invoke(input string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inputs[input] == nil {
		r.inputs[input] = new(invocation)
	}
}

// Refused notes that an invocation was definitely refused.
func (r *Runs) Refused(input string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inputs[input].refused = true
}

// Invoked notes that an invocation was accepted.
func (r *Runs) Invoked(input string, id action.RunID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runLocked(id).sure = true
	return r.madeLocked(input, id)
}

// madeLocked notes the run that an invocation has made.
func (r *Runs) madeLocked(input string, id action.RunID) error {
	i := r.inputs[input]
	switch {
	case i == nil || i.refused:
		return fmt.Errorf("run %s has the input %s, with which nothing was invoked", id, input)
	case i.run != "" && i.run != id:
		return fmt.Errorf("runs %s and %s have the input %s, with which one was invoked", i.run, id, input)
	}
	i.run = id
	return nil
}

// knownLocked notes the invocation of a run, as the run itself reports it.
func (r *Runs) knownLocked(id action.RunID, source, key string, input []byte) error {
	if source == "api" {
		return r.madeLocked(string(input), id)
	}
	if other := r.ticks[key]; key != "" && other != "" && other != id {
		return fmt.Errorf("runs %s and %s are of one tick, %s", other, id, key)
	}
	r.ticks[key] = id
	return nil
}

// Known returns all runs that were reported.
func (r *Runs) Known() (ids []action.RunID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.runs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// RunCall is a call without an answer yet.
type RunCall struct {
	of *Runs
	at int64
}

// Ask notes a request for runs, to execute or to read them.
func (r *Runs) Ask() RunCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	return RunCall{r, r.calls}
}

// Got notes the runs that a worker received.
func (c RunCall) Got(worker string, tasks ...action.Task) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	var bad []error
	for i := range tasks {
		t := &tasks[i]
		bad = append(bad, c.of.knownLocked(t.Run, t.Source, t.IdempotencyKey, t.Input), c.gotLocked(worker, t))
	}
	return errors.Join(bad...)
}

func (c RunCall) gotLocked(worker string, t *action.Task) error {
	one := c.of.runLocked(t.Run)
	defer func() {
		one.sure, one.told[t.Attempt], one.last = true, true, max(one.last, t.Attempt)
		one.workers = append(one.workers, worker)
	}()
	switch {
	case t.Attempt < 1 || t.Attempt > t.MaxAttempts:
		return fmt.Errorf("run %s: attempt %d of %d", t.Run, t.Attempt, t.MaxAttempts)
	case one.ended != nil && one.at < c.at:
		return fmt.Errorf("run %s: worker %s gets attempt %d behind its end, the %v of attempt %d", t.Run, worker, t.Attempt, one.ended.How,
			one.ended.Attempt)
	case one.told[t.Attempt] && !one.loose:
		return fmt.Errorf("run %s: worker %s gets attempt %d, which another one had", t.Run, worker, t.Attempt)
	case one.retried != nil && t.Attempt <= one.retried.Attempt && one.at < c.at:
		return fmt.Errorf("run %s: worker %s gets attempt %d, although attempt %d has ended", t.Run, worker, t.Attempt, one.retried.Attempt)
	}
	return nil
}

// Leaves notes that a worker releases its runs, or may have done so.
func (r *Runs) Leaves(worker string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.runs {
		one.loose = one.loose || slices.Contains(one.workers, worker)
	}
}

// End notes that a call ends an attempt or a run. Call it before the node can have seen the call.
func (r *Runs) End(e RunEnd) *RunEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.of = r
	one := r.runLocked(e.Run)
	switch {
	case one.ended != nil:
		e.stale = fmt.Sprintf("the run had ended, with the %v of attempt %d", one.ended.How, one.ended.Attempt)
	case e.How != Cancels && one.last > e.Attempt && !one.loose:
		e.stale = fmt.Sprintf("a worker had attempt %d", one.last)
	}
	one.ends = append(one.ends, &e)
	return &e
}

// Refused notes that the call had no effect.
func (e *RunEnd) Refused() {
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	e.refused = true
}

// Done notes that the call was acknowledged.
func (e *RunEnd) Done() error {
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	one := e.of.runs[e.Run]
	followed := e.How == Retries && !e.Last
	switch {
	case e.stale != "":
		return fmt.Errorf("run %s: the %v of attempt %d was accepted, although %s", e.Run, e.How, e.Attempt, e.stale)
	case one.ended != nil && followed: // the retry came first, but its answer was late
		return nil
	case one.ended != nil:
		return fmt.Errorf("run %s: it ended twice, with the %v of attempt %d and the %v of attempt %d", e.Run, one.ended.How,
			one.ended.Attempt, e.How, e.Attempt)
	case e.How != Cancels && one.retried != nil && one.retried.Attempt >= e.Attempt && !one.loose:
		return fmt.Errorf("run %s: attempt %d ended behind attempt %d", e.Run, e.Attempt, one.retried.Attempt)
	}
	e.of.calls++
	if one.at = e.of.calls; followed {
		one.retried = e
		return nil
	}
	one.ended = e
	return nil
}

// Saw notes the observed state of a run.
func (c RunCall) Saw(run action.Run) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	one := c.of.runLocked(run.ID)
	if err := c.of.knownLocked(run.ID, run.Source, run.IdempotencyKey, run.Input); err != nil {
		return err
	}
	switch {
	case run.Attempt > run.MaxAttempts:
		return fmt.Errorf("run %s: attempt %d of %d", run.ID, run.Attempt, run.MaxAttempts)
	case run.Status.Final():
		return one.checkEnd(&run)
	case one.ended != nil && one.at < c.at:
		return fmt.Errorf("run %s is %v behind its end, the %v of attempt %d", run.ID, run.Status, one.ended.How, one.ended.Attempt)
	}
	return nil
}

// checkEnd checks how a run has ended.
func (one *ran) checkEnd(run *action.Run) error {
	bad := fmt.Errorf("run %s is %v after attempt %d of %d, by %q, with output %s and error %q of code %q", run.ID, run.Status, run.Attempt,
		run.MaxAttempts,
		run.WorkerID, run.Output, run.Error, run.Code)
	switch e := one.ended; {
	case run.CompletedAt.IsZero() || run.Outcome == "":
		return fmt.Errorf("%w, but has no time or outcome", bad)
	case run.Attempt < one.last && !one.loose:
		return fmt.Errorf("%w, but a worker had attempt %d", bad, one.last)
	case e != nil && !e.explains(run):
		return fmt.Errorf("%w, but its end was the %v of attempt %d by %q, %q", bad, e.How, e.Attempt, e.Worker, e.Text)
	case e != nil || slices.ContainsFunc(one.ends, func(e *RunEnd) bool { return !e.refused && e.explains(run) }):
		return nil
	case run.Status == action.TimedOut && run.Code == action.CodeTimeout && run.Attempt == run.MaxAttempts:
		return nil
	case run.Status == action.Failed && run.Code == action.CodeWorkerLost && run.Attempt == run.MaxAttempts:
		return nil
	case run.Status == action.Cancelled && run.Source != "api": // replaced on behalf of its schedule
		return nil
	}
	return fmt.Errorf("%w, for which nobody asked", bad)
}

// explains reports whether the call may have ended the run this way.
func (e *RunEnd) explains(run *action.Run) bool {
	switch e.How {
	case Cancels:
		return run.Status == action.Cancelled && run.Error == e.Text
	case Completes:
		return run.Status == action.Completed && run.Attempt == e.Attempt && run.WorkerID == e.Worker && string(run.Output) == e.Text
	}
	return run.Status == action.Failed && run.Attempt == e.Attempt && run.WorkerID == e.Worker && run.Error == e.Text &&
		(e.How == Fails || run.Attempt == run.MaxAttempts)
}

// Rest notes the final state of a run, when all clients have stopped and no work is left: it must
// have ended.
func (r *Runs) Rest(run action.Run) error {
	if !run.Status.Final() {
		return fmt.Errorf("run %s is %v in the end, after attempt %d of %d", run.ID, run.Status, run.Attempt, run.MaxAttempts)
	}
	if err := r.Ask().Saw(run); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[run.ID].seen = true
	return nil
}

// Check returns an error if a run is lost. Call it after Rest of all existing runs.
func (r *Runs) Check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var bad []error
	for id, one := range r.runs {
		if one.sure && !one.seen {
			bad = append(bad, fmt.Errorf("run %s is lost: workers had attempts up to %d of it", id, one.last))
		}
	}
	return errors.Join(bad...)
}
