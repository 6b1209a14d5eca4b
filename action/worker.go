package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workers"
	"github.com/floedb/floe/internal/workloop"
)

// Defaults and limits of workers.
const (
	DefaultConcurrency = workloop.DefaultConcurrency
	MaxConcurrency     = 1000
	DefaultGrace       = workloop.DefaultGrace
)

// WorkerConfig configures a worker. The zero value is valid.
type WorkerConfig struct {
	// ID identifies the worker in the namespace. Two workers with the same id count as one. ""
	// generates an id from the machine's name and a random number.
	ID string
	// Concurrency is the maximum number of concurrent runs, 1 to 1,000. 0 means 1. All workers of a
	// process together hold up to 1,000 runs in a shard.
	Concurrency int
	// Labels are the worker's labels, for runs that require some of them (see Labels): up to 1,024
	// bytes. nil: none.
	Labels map[string]string
	// Metadata is shown in the list of workers: any value that json.Marshal encodes as an object,
	// up to 4 KiB. nil: null.
	Metadata any
	// Grace is the time handlers have to finish after Run ends, before they are cancelled. 0 means
	// 10 s, negative means no time.
	Grace time.Duration
	// OnError receives errors while the worker continues, from several goroutines at once. Handler
	// errors and results that could not be delivered come with the task. An unreachable shard is
	// reported with a nil task. nil means no callback. The result of a run is sent after OnError
	// has returned. While several calls are pending, outages are not reported.
	OnError func(t *Task, err error)
}

// Handler executes one attempt of a run. Its first result is the output of the run: bytes are
// stored unchanged, other values as JSON. An error fails the attempt. Another attempt follows after
// the action's back-off, if any are left. Permanent, Code, Snooze and Outcome change this.
//
// ctx ends, with a cause (context.Cause): when the run is cancelled (ErrCancelled), when the
// attempt has exceeded the action's timeout (ErrConflict), when no node was reachable for too long
// (also ErrConflict), and when the worker ends and the Grace is over. A handler should then return,
// with an error if its work is not done. Its results have no effect if the run was cancelled, has
// ended or now belongs to another attempt. After an outage, and when the worker ends, the run may
// still belong to this attempt. In that case a result without an error completes it, an attempt
// with an error does not count, and a panic fails the attempt as usual.
type Handler = func(ctx context.Context, t *Task) (any, error)

// Worker executes runs of some actions. Store.Worker creates it, Handle adds handlers, and Run runs
// it once.
type Worker struct {
	store    *Store
	config   WorkerConfig
	handlers map[string]Handler
	err      error
}

// Worker returns a worker of the namespace that is not running yet.
func (s *Store) Worker(c WorkerConfig) *Worker {
	w := &Worker{store: s, config: c, handlers: make(map[string]Handler)}
	w.config.Labels = maps.Clone(c.Labels)
	if c.Concurrency == 0 {
		w.config.Concurrency = DefaultConcurrency
	}
	if c.Concurrency < 0 || c.Concurrency > MaxConcurrency {
		w.fail(engine.Errorf(ErrInvalid, "action: concurrency %d is not in 1-%d", c.Concurrency, MaxConcurrency))
	}
	if c.Grace == 0 {
		w.config.Grace = DefaultGrace
	}
	w.config.Grace = max(w.config.Grace, 0)
	if c.ID == "" {
		w.config.ID = processName()
	}
	return w
}

// processName generates a name for an object in this process.
func processName() string {
	return strings.TrimPrefix(fmt.Sprintf("%s-%08x", workers.Machine(), rand.Uint32()), "-")
}

func (w *Worker) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// ID returns the worker's id.
func (w *Worker) ID() string { return w.config.ID }

// Handle sets f as the handler of an action, which need not be registered yet. It returns the
// worker. Run returns the error for an invalid action name or one that already has a handler.
func (w *Worker) Handle(action string, f Handler) *Worker {
	switch err := checkAction(action); {
	case err != nil:
		w.fail(err)
	case w.handlers[action] != nil:
		w.fail(engine.Errorf(ErrInvalid, "action: %q has two handlers", action))
	case f == nil:
		w.fail(engine.Errorf(ErrInvalid, "action: the handler of %q is nil", action))
	}
	w.handlers[action] = f
	return w
}

// listed returns the worker's entry in the list of workers.
func (w *Worker) listed() (workers.Worker, error) {
	l := workers.Worker{
		ID: w.config.ID, Type: kindOfWorkers, Machine: workers.Machine(), Max: w.config.Concurrency, Labels: w.config.Labels,
		Handles: slices.Sorted(maps.Keys(w.handlers)),
	}
	if w.config.Metadata != nil {
		var err error
		if l.Metadata, err = json.Marshal(w.config.Metadata); err != nil {
			return l, engine.Errorf(ErrInvalid, "action: metadata of worker %q: %s", l.ID, engine.Cut(err.Error(), maxShown))
		}
		if string(l.Metadata) == "null" {
			l.Metadata = nil
		}
	}
	return l, l.Check()
}

// kindOfWorkers is the type of workers that execute runs.
const kindOfWorkers = workers.KindOfRuns

// Run registers the worker, takes runs of the handled actions in all shards, and executes them
// until ctx ends. All workers of a process in a namespace share one waiting call per shard. Run may
// be called only once.
//
// A panic of a handler fails its attempt, with the stack and the code panic. A result that cannot
// be encoded as JSON, or is too large, ends the run as failed, with the code bad_output or
// output_too_large. A worker keeps its runs while its process sends heartbeats; if the process is
// silent for 30 s, the runs are retried elsewhere. An outage does not end Run: it continues when a
// node is reachable.
//
// When ctx ends, Run takes no more runs. Handlers have the Grace to finish; their ctx, which has
// the values of Run's, is cancelled only then. Runs that do not finish because of that are
// released, and those attempts do not count. The same applies to handlers that have not returned 5
// s later; Run does not wait for them.
//
// Run returns nil when ctx has ended and every run is settled or released. Errors: ErrInvalid for a
// configuration out of range, no handlers, or a second Run; ErrClosed, ErrUnauthorized. Other
// errors report how many handlers have not returned, and how many results could not be delivered
// (ErrUnknownOutcome).
func (w *Worker) Run(ctx context.Context) error {
	if len(w.handlers) == 0 {
		w.fail(engine.Errorf(ErrInvalid, "action: worker %q has no handlers", w.config.ID))
	}
	l, err := w.listed()
	if w.err == nil {
		w.err = err
	}
	if w.err != nil {
		return w.err
	}
	defer w.fail(engine.Errorf(ErrInvalid, "action: worker %q has run already", w.config.ID))
	scope := &w.store.scope
	if err := engine.CheckWritable(scope.Namespace()); err != nil {
		return err
	}
	if err := scope.Await(engine.Lasting(ctx)); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	src, err := enroll(scope, w.config.ID, group{labels: string(engine.AppendHeaders(nil, l.Labels)), names: l.Handles},
		w.config.Concurrency)
	if err != nil {
		return err
	}
	defer src.leave()
	stop := context.AfterFunc(ctx, src.close)
	defer stop()
	src.report = func(err error) {
		if w.config.OnError != nil {
			w.config.OnError(nil, err)
		}
	}
	src.loop = workloop.New(workloop.Config[*piece]{
		Source: src, Handle: w.handle, Each: true, Concurrency: w.config.Concurrency, Grace: w.config.Grace, OnError: w.onError,
		Observer: &listing{scope: scope, worker: l, src: src},
		Status:   workloop.Status{Kind: kindOfWorkers, Namespace: scope.Namespace(), Name: w.config.ID, Worker: w.config.ID},
		Process:  func(p *piece) string { return p.Action },
	})
	src.begin()
	return src.loop.Run(ctx)
}

// handle executes a run that was taken.
func (w *Worker) handle(ctx context.Context, p *piece) (err error) {
	defer p.link.returned(p)
	if err := p.over(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f := w.handlers[p.Action]
	if f == nil {
		f = func(context.Context, *Task) (any, error) {
			return nil, Code(CodeNoHandler, errors.New(engine.Text("worker %q has no handler for %q", w.config.ID, p.Action)))
		}
	}
	task := p.Task // the handler may modify its copy
	result, err := f(context.WithValue(ctx, taskKey{}, &task), &task)
	p.concluded, err = p.conclude(result, err, w.store.scope.MaxPayload())
	if p.concluded.how == completed || p.concluded.how == snoozed {
		return nil // Outcome and Snooze have the type of errors but are none
	}
	return err
}

func (w *Worker) onError(p **piece, err error) {
	if w.config.OnError == nil {
		return
	}
	if p == nil {
		w.config.OnError(nil, err)
		return
	}
	task := (*p).Task
	w.config.OnError(&task, err)
}

// listing lists a loop as a worker while it runs.
type listing struct {
	scope  *engine.Scope
	worker workers.Worker
	src    *source
}

// Join implements workloop.Observer.
func (l *listing) Join(status func() workloop.Status) (leave func()) {
	m, err := workers.Join(l.scope, l.worker, status)
	if err != nil {
		return func() {}
	}
	l.src.setMember(m)
	return m.Leave
}
