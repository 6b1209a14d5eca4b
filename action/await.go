package action

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workers"
)

// The following methods are for workers in other runtimes, which make each call themselves. In Go
// use Store.Worker.
//
// A run of such a worker is assigned to it until the action's timeout is over, even if the worker
// is silent; Extend prolongs the assignment.
//
// Such a worker need not register. It is listed once it has received a run. It is active while it
// has a run, and for 90 s after each of its calls, including a waiting Await. The shards count its
// runs where they end: completed runs, and attempts that fail or time out.

// NewWorker describes a worker for RegisterWorker.
type NewWorker struct {
	ID            string
	Type          string            // "" means "action"
	Machine       string            // where it runs
	MaxConcurrent int               // maximum number of concurrent runs
	Labels        map[string]string // up to 1,024 bytes
	Actions       []string          // it has handlers for these, up to 1,000
	Metadata      []byte            // a JSON object of up to 4 KiB; nil: none
}

// RegisterWorker adds a worker to the list, with its description. Registering a listed worker again
// makes it active and keeps its counts.
//
// Errors: ErrInvalid for values out of range; ErrBusy if there are 100,000 workers.
func (s *Store) RegisterWorker(ctx context.Context, w NewWorker) error {
	if w.Type == "" {
		w.Type = kindOfWorkers
	}
	return workers.Register(ctx, &s.scope, workers.Worker{
		ID: w.ID, Type: w.Type, Machine: w.Machine, Max: w.MaxConcurrent, Labels: w.Labels, Handles: w.Actions, Metadata: w.Metadata,
	})
}

// Heartbeat reports that a registered worker is alive, its number of runs, and the counts of its
// processes since it was registered. Processes of kind "action" are ignored, because the shards
// count runs of actions. Call it about every 10 s.
//
// Errors: ErrNotFound if the worker is not, or no longer, registered. It must then register.
func (s *Store) Heartbeat(ctx context.Context, worker string, load int, processes ...Process) error {
	all := make([]workers.Process, len(processes))
	for i, p := range processes {
		all[i] = workers.Process(p)
	}
	return workers.Heartbeat(ctx, &s.scope, worker, load, all)
}

// Drain marks a registered worker as draining. From then on its Await fails, even one that is
// already waiting. It registers again to take more runs. Errors: ErrNotFound if it is not
// registered; ErrConflict for a worker that did not register itself, such as one of Store.Worker,
// which drains when the ctx of its Run ends.
func (s *Store) Drain(ctx context.Context, worker string) error {
	return workers.Leave(ctx, &s.scope, worker, true)
}

// Deregister removes the worker from the list and releases its runs; those attempts do not count.
// Errors: ErrNotFound if it is not listed.
func (s *Store) Deregister(ctx context.Context, worker string) error {
	left := workers.Leave(ctx, &s.scope, worker, false)
	if errors.Is(left, ErrInvalid) {
		return left
	}
	shards, err := s.scope.Shards(ctx)
	if err != nil {
		return err
	}
	for _, shard := range shards {
		for more := true; more; {
			more, err = engine.Propose(ctx, &s.scope, at(shard, closeSession.Op("", sessionBody{self: worker}, nil)), closeSession.Decode)
			switch {
			case err == nil && errors.Is(left, ErrNotFound):
				left = nil // it was not registered, but had runs of the shard
			case err != nil && !errors.Is(err, ErrConflict): // on ErrConflict it has none
				return err
			}
		}
	}
	return left
}

// AwaitOption is an option of Await.
type AwaitOption interface{ applyAwait(*awaitOptions) }

type awaitOptions struct {
	max    int
	wait   time.Duration
	labels map[string]string
	err    error
}

type awaitOption func(*awaitOptions)

func (f awaitOption) applyAwait(o *awaitOptions) { f(o) }

func (l LabelsOption) applyAwait(o *awaitOptions) { o.labels = l.labels }

// Max sets the maximum number of runs Await returns, 1 to 100; the default is 1.
func Max(n int) AwaitOption {
	return awaitOption(func(o *awaitOptions) {
		if o.max = n; n < 1 || n > maxTaken {
			o.err = engine.Errorf(ErrInvalid, "action: maximum of %d runs is not in 1-%d", n, maxTaken)
		}
	})
}

// Wait sets how long Await waits for a run; by default it does not wait.
func Wait(d time.Duration) AwaitOption {
	return awaitOption(func(o *awaitOptions) {
		if o.wait = d; d < 0 {
			o.err = engine.Errorf(ErrInvalid, "action: negative wait %v", d)
		}
	})
}

// Await takes runs of some actions for a worker, which need not be registered. It returns no runs
// if none are available within the time to wait. Each run is assigned to the worker until the
// action's timeout is over; the worker ends it with Complete or Fail. After an error the worker may
// still have been assigned runs, which are retried after the timeout.
//
// Options: Max (1), Wait (0), Labels, which are the worker's labels. Errors: ErrInvalid for names
// and options out of range; ErrConflict if the worker is draining (see Drain) or starts to while
// Await waits.
func (s *Store) Await(ctx context.Context, worker string, actions []string, opts ...AwaitOption) ([]Task, error) {
	o := awaitOptions{max: 1}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyAwait(&o)
	}
	c := workBody{
		self: worker, group: group{labels: string(engine.AppendHeaders(nil, o.labels)), names: actions},
		wants: []want{{worker: worker, slots: o.max}}, listed: true,
	}
	op := takeRuns.Op("", c, o.err)
	if op.Err != nil {
		return nil, op.Err
	}
	shards, err := s.scope.Shards(ctx)
	if err != nil {
		return nil, err
	}
	if len(shards) == 1 {
		return s.takeSelf(ctx, shards[0], &c, o.wait)
	}
	first := int(s.turns.Add(1) % uint64(len(shards))) // shards take turns to be asked first
	shards = slices.Concat(shards[first:], shards[:first])
	if i := slices.Index(shards, s.scope.SpreadShard(worker)); i > 0 { // this shard has the worker's drain state
		shards[0], shards[i] = shards[i], shards[0]
	}
	for _, shard := range shards {
		tasks, err := s.takeSelf(ctx, shard, &c, 0)
		if err != nil || len(tasks) > 0 {
			return tasks, err
		}
	}
	if o.wait == 0 {
		return nil, nil
	}
	return s.takeFirst(ctx, shards, &c, o.wait)
}

// takeSelf takes runs of a shard for a worker that calls Await itself.
func (s *Store) takeSelf(ctx context.Context, shard engine.ShardID, c *workBody, wait time.Duration) (tasks []Task, err error) {
	if wait > 0 {
		ctx = engine.Lasting(ctx)
	}
	got, err := engine.TakeFrom(ctx, &s.scope, at(shard, takeRuns.Op("", *c, nil)), engine.Take{Wait: wait}, takeRuns.Decode)
	for i := range got.taken {
		t := taskOf(shard, &got.taken[i])
		t.self = c.self
		tasks = append(tasks, t)
	}
	return tasks, err
}

// EndOption is an option of Complete and Fail.
type EndOption interface{ applyEnd(*endOptions) }

type endOption func(*end)

func (f endOption) applyEnd(e *endOptions) { f(&e.end) }

// endOptions is an end with its options.
type endOptions struct {
	end
	delayed bool // Delay is given
	err     error
}

// OfAttempt identifies the attempt that has ended by its Task.Attempt. The default is the current
// attempt, if the worker has it. OfDelivery is stricter: an attempt that does not count, because it
// was released or snoozed, has the same number as the next one.
func OfAttempt(n int) EndOption { return endOption(func(e *end) { e.attempt = int64(n) }) }

// OfDelivery identifies the attempt that has ended by its Task.Delivery, which is unique among the
// attempts of the run.
func OfDelivery(n int) EndOption { return endOption(func(e *end) { e.begun = int64(n) }) }

// OutcomeName sets the outcome of a completed run, in up to 255 bytes. The default is "success".
func OutcomeName(name string) EndOption { return endOption(func(e *end) { e.outcome = name }) }

// ErrorCode sets the code of a failed attempt's error, see Code.
func ErrorCode(code string) EndOption { return endOption(func(e *end) { e.code = code }) }

// Retry makes another attempt follow a failed one, after the action's back-off or Delay, if any are
// left.
func Retry() EndOption { return endOption(func(e *end) { e.how = failed }) }

// Complete completes a run that a worker got from Await, with its output: JSON or other bytes; nil
// means none.
//
// Options: OfAttempt, OfDelivery, OutcomeName. Errors: ErrConflict if the run is no longer assigned
// to the worker or was cancelled; ErrInvalid for an output that is too large.
func (s *Store) Complete(ctx context.Context, run RunID, worker string, output []byte, opts ...EndOption) error {
	return s.ended(ctx, run, worker, end{how: completed, output: output}, opts)
}

// Fail ends an attempt that a worker got from Await, with an error. Without Retry the run has
// failed.
//
// Options: OfAttempt, OfDelivery, ErrorCode, Retry, Delay with Retry. Errors: ErrConflict if the
// run is no longer assigned to the worker or was cancelled.
func (s *Store) Fail(ctx context.Context, run RunID, worker string, message string, opts ...EndOption) error {
	return s.ended(ctx, run, worker, end{how: refused, message: shorten(message, MaxErrorBytes), delay: -1}, opts)
}

func (s *Store) ended(ctx context.Context, run RunID, worker string, e end, opts []EndOption) error {
	e, err := e.with(opts)
	if err != nil {
		return err
	}
	return s.end(ctx, run, worker, e)
}

// with applies options to the end.
func (e end) with(opts []EndOption) (end, error) {
	how := e.how
	opts, err := engine.Given(opts)
	if err != nil {
		return e, err
	}
	o := endOptions{end: e}
	for _, opt := range opts {
		opt.applyEnd(&o)
	}
	switch e = o.end; {
	case o.err != nil:
		return e, o.err
	case how == completed && (e.how != completed || e.code != "" || o.delayed), how != completed && e.outcome != "":
		return e, engine.Errorf(ErrInvalid, "action: an option of Fail was given to Complete, or vice versa")
	case o.delayed && e.how != failed:
		return e, engine.Errorf(ErrInvalid, "action: a delay before the next attempt, but no attempt follows without Retry")
	}
	return e, nil
}

func (s *Store) end(ctx context.Context, run RunID, worker string, e end) error {
	p, err := run.parse()
	if err != nil {
		return err
	}
	e.ref = p.Ref
	c := workBody{self: worker, ends: []end{e}}
	got, err := proposeWork(ctx, &s.scope, at(p.shard, takeRuns.Op("", c, nil)), &c)
	switch {
	case err != nil:
		return err
	case len(got.verdicts) == 1 && got.verdicts[0] == abandoned:
		return engine.Errorf(ErrConflict, "run %s was cancelled", run)
	case len(got.verdicts) != 1 || got.verdicts[0] != accepted:
		return errNotHeld(p, worker)
	}
	return nil
}

func errNotHeld(p runLocation, worker string) error {
	return engine.Errorf(ErrConflict, "run %s is no longer assigned to worker %q", p.id(), worker)
}

// Extend moves the deadline of an attempt that a worker got from Await to d from now, and returns
// the new deadline. Errors: ErrConflict if the run is no longer assigned to the worker or was
// cancelled; ErrInvalid if d is not positive.
func (s *Store) Extend(ctx context.Context, run RunID, worker string, d time.Duration) (time.Time, error) {
	p, err := run.parse()
	if err != nil {
		return time.Time{}, err
	}
	op := touchRun.Op("", touchBody{self: worker, ref: p.Ref, extend: millis(d)}, nil)
	return engine.Propose(ctx, &s.scope, at(p.shard, op), touchRun.Decode)
}
