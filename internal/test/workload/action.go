package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/kv"
)

// The actions that clients use: one that never changes and has a schedule, one whose limits change
// all the time, and one that is registered and deleted together with its runs.
const (
	steady  = "steady"
	bounded = "bounded"
	brief   = "brief"
	ticking = "ticking" // the schedule
)

// gpu is the label that some runs require of their workers.
var gpu = action.Labels(map[string]string{"gpu": "a"})

// actionJob uses actions in both namespaces, with many callers and workers. Workers make the call
// for each step directly, so they wait for nothing but the node.
type actionJob struct {
	ledgers [2]*check.Runs // plain and spread
}

func newActionJob() Job { return &actionJob{[2]*check.Runs{check.NewRuns(), check.NewRuns()}} }

// actionClient invokes runs and works on them.
type actionClient struct {
	World
	*actionJob
	stores [2]*action.Store
	held   [2][]heldRun
	mine   [2][]action.RunID
	made   int
}

// heldRun is an attempt assigned to a worker of the client.
type heldRun struct {
	action.Task
	worker string
}

func (j *actionJob) client(w World) *actionClient {
	c := &actionClient{World: w, actionJob: j}
	for i, ns := range []string{Plain, Spread} {
		c.stores[i] = engine.StoreOf[action.Store](w.Router(), ns, MaxValue)
	}
	return c
}

// register registers an action whose runs soon fail or complete.
func register(store *action.Store, name string, opts ...action.RegisterOption) error {
	_, err := store.Register(context.Background(), name, append(opts,
		action.Timeout(time.Second), action.MaxAttempts(3), action.Backoff(20*time.Millisecond, 100*time.Millisecond),
		action.Retain(1000*time.Hour, 1_000_000))...)
	return err
}

func (j *actionJob) Open(w World) bool {
	for _, store := range j.client(w).stores {
		if !insist(w, func() error { return register(store, steady) }) || !insist(w, func() error { return register(store, bounded) }) {
			return false
		}
		if !insist(w, func() error { return schedule(store, action.OverlapAllow) }) {
			return false
		}
	}
	return true
}

// schedule sets the schedule, with the shortest possible interval.
func schedule(store *action.Store, overlap action.Overlap) error {
	spec := action.ScheduleSpec{Every: time.Second, Overlap: overlap, CatchUp: action.CatchUpOne, Input: []byte(`"tick"`)}
	return store.Schedules(steady).Set(context.Background(), ticking, spec)
}

func (j *actionJob) Do(w World) {
	c := j.client(w)
	for w.Working() {
		which := w.Rand().IntN(2)
		w.Note(c.act(which))
	}
}

func (c *actionClient) act(which int) error {
	switch n := c.Rand().IntN(24); {
	case n < 7:
		return c.invoke(which)
	case n < 12:
		return c.take(which)
	case n < 18:
		return c.end(which)
	case n < 20:
		return c.cancel(which)
	case n < 21:
		return c.look(which)
	case n < 22:
		return c.limit(which)
	case n < 23:
		return c.reschedule(which)
	}
	return c.pass(which)
}

// told fails the run if the checker found an error. Effects of a lossy power failure are not
// checked.
func (c *actionClient) told(err error) {
	if err != nil && !c.Lossy() {
		c.Failf("actions: %w", err)
	}
}

// text returns a JSON text that no other call uses.
func (c *actionClient) text() string {
	c.made++
	return fmt.Sprintf(`"%d.%d"`, c.Client(), c.made)
}

// invoke invokes a run, and repeats it with its idempotency key until the outcome is known.
// Sometimes it does so in a transaction that fails.
func (c *actionClient) invoke(which int) error {
	ctx, rng, ledger, name := context.Background(), c.Rand(), c.ledgers[which], steady
	if rng.IntN(3) == 0 {
		name = bounded
	}
	input := c.text()
	opts := c.settings(name)
	if which == 0 && rng.IntN(8) == 0 {
		_, err := engine.NewTxn(c.Router(), Plain, MaxValue).Do(action.InvokeOp(name, []byte(input), opts...),
			kv.DeleteOp(name)).Commit(ctx)
		if err == nil {
			c.Failf("a transaction went through although key %q does not exist", name)
		}
		return err
	}
	again := rng.IntN(2) == 0 && !c.Async()
	if again {
		opts = append(opts, action.IdempotencyKey(input))
	}
	ledger.Invoke(input)
	for {
		i, err := c.stores[which].Invoke(ctx, name, []byte(input), opts...)
		switch {
		case err == nil:
			c.mine[which] = append(c.mine[which], i.Run)
			c.told(ledger.Invoked(input, i.Run))
			return nil
		case !errors.Is(err, engine.ErrUnknownOutcome) && !again:
			ledger.Refused(input)
			return err
		case !again || errors.Is(err, engine.ErrConflict) || !c.Sleep(10*time.Millisecond): // now disabled, perhaps not before
			return err
		}
	}
}

// settings draws random options for a run.
func (c *actionClient) settings(name string) []action.InvokeOption {
	rng := c.Rand()
	opts := []action.InvokeOption{action.Priority(rng.IntN(3))}
	if rng.IntN(4) == 0 {
		opts = append(opts, action.Delay(upTo(c, 500*time.Millisecond)))
	}
	if rng.IntN(3) == 0 || name == bounded {
		opts = append(opts, action.ConcurrencyKey(fmt.Sprint("key", rng.IntN(3))))
	}
	if rng.IntN(8) == 0 {
		opts = append(opts, gpu)
	}
	return opts
}

// take takes runs. It waits only in the plain namespace, where all runs come from one shard.
func (c *actionClient) take(which int) error {
	rng, worker := c.Rand(), fmt.Sprintf("worker %d.%d", c.Client(), c.Rand().IntN(2))
	opts := []action.AwaitOption{action.Max(1 + rng.IntN(3))}
	if rng.IntN(2) == 0 {
		opts = append(opts, gpu)
	}
	if which == 0 && rng.IntN(3) == 0 {
		opts = append(opts, action.Wait(upTo(c, time.Second)))
	}
	_, err := c.await(which, worker, opts...)
	return err
}

func (c *actionClient) await(which int, worker string, opts ...action.AwaitOption) (n int, err error) {
	asked := c.ledgers[which].Ask()
	tasks, err := c.stores[which].Await(context.Background(), worker, []string{steady, bounded, brief}, opts...)
	for _, t := range tasks {
		if t.Action != brief {
			c.told(asked.Got(worker, t))
		}
		c.held[which] = append(c.held[which], heldRun{t, worker})
	}
	return len(tasks), err
}

// end ends an attempt, whose lease may have expired.
func (c *actionClient) end(which int) error {
	ctx, rng := context.Background(), c.Rand()
	if len(c.held[which]) == 0 {
		return c.take(which)
	}
	i := rng.IntN(len(c.held[which]))
	h := c.held[which][i]
	e := check.RunEnd{Run: h.Run, Attempt: h.Attempt, Last: h.Attempt == h.MaxAttempts, Worker: h.worker, Text: c.text()}
	switch rng.IntN(8) {
	case 0:
		_, err := c.stores[which].Extend(ctx, h.Run, h.worker, upTo(c, time.Second)+time.Millisecond)
		return err
	case 1:
		e.How = check.Fails
	case 2, 3:
		e.How = check.Retries
	}
	c.held[which] = slices.Delete(c.held[which], i, i+1)
	return c.settle(which, &h.Task, e)
}

// settle ends an attempt. The ledger does not track attempts of the action that is deleted now and
// then.
func (c *actionClient) settle(which int, t *action.Task, e check.RunEnd) error {
	ctx, store := context.Background(), c.stores[which]
	call := func() error {
		switch e.How {
		case check.Completes:
			return store.Complete(ctx, e.Run, e.Worker, []byte(e.Text), action.OfDelivery(t.Delivery))
		case check.Fails:
			return store.Fail(ctx, e.Run, e.Worker, e.Text, action.OfDelivery(t.Delivery), action.ErrorCode("code"))
		}
		return store.Fail(ctx, e.Run, e.Worker, e.Text, action.OfDelivery(t.Delivery), action.Retry())
	}
	if t.Action == brief {
		return call()
	}
	return c.noted(c.ledgers[which].End(e), call())
}

// noted records the outcome of a call that ends an attempt or a run.
func (c *actionClient) noted(e *check.RunEnd, err error) error {
	switch {
	case err == nil:
		c.told(e.Done())
	case !errors.Is(err, engine.ErrUnknownOutcome):
		e.Refused()
	}
	return err
}

// one returns a run invoked by the client, "" if none exists.
func (c *actionClient) one(which int) action.RunID {
	if len(c.mine[which]) == 0 {
		return ""
	}
	return c.mine[which][c.Rand().IntN(len(c.mine[which]))]
}

func (c *actionClient) cancel(which int) error {
	id := c.one(which)
	if id == "" {
		return c.invoke(which)
	}
	e := c.ledgers[which].End(check.RunEnd{Run: id, How: check.Cancels, Text: c.text()})
	return c.noted(e, c.stores[which].Cancel(context.Background(), id, e.Text))
}

// look reads a run.
func (c *actionClient) look(which int) error {
	id := c.one(which)
	if id == "" {
		return c.invoke(which)
	}
	asked := c.ledgers[which].Ask()
	run, err := c.stores[which].Runs().Get(context.Background(), id)
	switch {
	case err == nil:
		c.told(asked.Saw(run))
	case errors.Is(err, engine.ErrNotFound):
		c.told(fmt.Errorf("run %s is not there any more: %w", id, err))
	}
	return err
}

// limit changes the limits, also for runs that already wait.
func (c *actionClient) limit(which int) error {
	rng, store := c.Rand(), c.stores[which]
	switch rng.IntN(6) {
	case 0:
		return store.Disable(context.Background(), bounded)
	case 1:
		return store.Enable(context.Background(), bounded)
	}
	opts := []action.RegisterOption{action.MaxRunning(rng.IntN(4)), action.MaxRunningPerKey(rng.IntN(3))}
	if rng.IntN(3) == 0 {
		opts = append(opts, action.RateLimit(action.Rate{Limit: 1 + rng.IntN(50), Per: time.Second}))
	}
	return register(store, bounded, opts...)
}

func (c *actionClient) reschedule(which int) error {
	ctx, rng, of := context.Background(), c.Rand(), c.stores[which].Schedules(steady)
	switch rng.IntN(6) {
	case 0:
		return of.Pause(ctx, ticking)
	case 1:
		return of.Resume(ctx, ticking)
	case 2:
		_, err := of.Trigger(ctx, ticking)
		return err
	}
	return schedule(c.stores[which], action.Overlap(rng.IntN(4)))
}

// pass makes changes without lasting effect: an action is registered or deleted, workers send
// heartbeats or deregister.
func (c *actionClient) pass(which int) error {
	ctx, rng, store := context.Background(), c.Rand(), c.stores[which]
	worker := fmt.Sprintf("worker %d.%d", c.Client(), rng.IntN(2))
	switch rng.IntN(8) {
	case 0:
		return store.Delete(ctx, brief, action.Force())
	case 1:
		if which == 0 { // otherwise all shards get the call at once, and a client of the simulator can call only one
			return store.Delete(ctx, brief)
		}
		return store.Enable(ctx, brief)
	case 2:
		return register(store, brief, action.MaxRunning(rng.IntN(2)))
	case 3:
		return store.RegisterWorker(ctx, action.NewWorker{ID: worker, Actions: []string{steady}, MaxConcurrent: 3})
	case 4:
		return store.Heartbeat(ctx, worker, rng.IntN(3))
	case 5:
		c.ledgers[which].Leaves(worker)
		return store.Deregister(ctx, worker)
	}
	_, err := store.Invoke(ctx, brief, nil, c.settings(brief)...)
	return err
}

// Audit completes the remaining work and checks all known runs; in the plain namespace, all runs
// that exist.
func (j *actionJob) Audit(w World) {
	c := j.client(w)
	for which := range c.stores {
		if c.calm(which) && c.drain(which) && (which > 0 || c.count()) {
			c.told(c.ledgers[which].Check())
		}
	}
}

// calm ends everything that starts runs on its own or holds some back.
func (c *actionClient) calm(which int) bool {
	ctx, store := context.Background(), c.stores[which]
	for _, call := range []func() error{
		func() error { return store.Delete(ctx, brief, action.Force()) },
		func() error { return store.Schedules(steady).Delete(ctx, ticking) },
		func() error { return register(store, bounded) },
	} {
		if !insist(c, func() error { return unlessAbsent(call()) }) {
			return false
		}
	}
	return true
}

// drain completes all remaining runs.
func (c *actionClient) drain(which int) bool {
	const auditor = "auditor"
	known, left := -1, []action.RunID(nil)
	for {
		if _, err := c.await(which, auditor, action.Max(100), gpu); err != nil {
			c.Note(err)
		}
		for _, h := range c.held[which] {
			e := check.RunEnd{Run: h.Run, Attempt: h.Attempt, Worker: auditor, Text: c.text()}
			c.Note(c.settle(which, &h.Task, e))
		}
		n := len(c.held[which])
		c.held[which] = nil
		if ids := c.ledgers[which].Known(); len(ids) != known {
			known, left = len(ids), ids
		}
		left = slices.DeleteFunc(left, func(id action.RunID) bool { return c.rests(which, id) })
		if n == 0 && len(left) == 0 && (which > 0 || c.pending() == 0) {
			return true
		}
		if !c.Sleep(20 * time.Millisecond) {
			return false
		}
	}
}

// rests checks a run, and reports whether it has ended.
func (c *actionClient) rests(which int, id action.RunID) bool {
	run, err := c.stores[which].Runs().Get(context.Background(), id)
	switch {
	case err == nil && run.Status.Final():
		c.told(c.ledgers[which].Rest(run))
		return true
	case errors.Is(err, engine.ErrNotFound):
		return true // it never existed, or Check reports it as lost
	}
	c.Note(err)
	return false
}

// pending returns the number of active runs in the plain namespace, -1 if unknown.
func (c *actionClient) pending() (n int64) {
	for _, name := range []string{steady, bounded} {
		info, err := c.stores[0].Get(context.Background(), name)
		if err = unlessAbsent(err); err != nil {
			c.Note(err)
			return -1
		}
		n += info.Runs.Pending + info.Runs.Running
	}
	return n
}

// count compares the listings of the plain namespace with its counts.
func (c *actionClient) count() bool {
	ctx, store := context.Background(), c.stores[0]
	return insist(c, func() error {
		for _, name := range []string{steady, bounded} {
			info, err := store.Get(ctx, name)
			if err = unlessAbsent(err); err != nil {
				return err
			}
			var listed action.RunCounts
			for run, err := range store.Runs().All(ctx, action.Of(name)) {
				if errors.Is(err, engine.ErrNotFound) && c.Lossy() {
					break
				}
				if err != nil {
					return err
				}
				c.told(c.ledgers[0].Rest(run))
				listed.Total++
				*statusOf(&listed, run.Status)++
			}
			if listed != info.Runs {
				c.told(fmt.Errorf("action %q counts %+v, and lists %+v", name, info.Runs, listed))
			}
		}
		return nil
	})
}

func statusOf(counts *action.RunCounts, s action.Status) *int64 {
	return [...]*int64{
		action.Pending: &counts.Pending, action.Running: &counts.Running, action.Completed: &counts.Completed,
		action.Failed:    &counts.Failed,
		action.Cancelled: &counts.Cancelled, action.TimedOut: &counts.TimedOut,
	}[s]
}

// actionTally registers an action and invokes it.
func actionTally(rng *rand.Rand, tag string, payload []byte) []engine.Operation {
	input := fmt.Appendf(nil, `"%x"`, payload)
	return []engine.Operation{
		action.RegisterOp(tag+"action", action.MaxRunning(rng.IntN(3))), action.InvokeOp(tag+"action", input, action.Delay(shortly(rng))),
	}
}

func countAction(ctx context.Context, r *engine.Router, namespace, tag string) (int64, error) {
	info, err := engine.StoreOf[action.Store](r, namespace, 0).Get(ctx, tag+"action")
	return info.Runs.Total, unlessAbsent(err)
}
