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

// WorkerConfig says how a worker works. The zero value is good.
type WorkerConfig struct {
	// ID names the worker among all of the namespace. Two workers with one id are taken for one. ""
	// makes one up, of the machine and a random number.
	ID string
	// Concurrency is how many runs are carried out at once, 1 to 1,000. 0 means 1. All workers of a
	// process have up to 1,000 runs in a shard.
	Concurrency int
	// Labels are what the worker has, for runs that ask for some of them (see Labels): up to 1,024
	// bytes. nil: none.
	Labels map[string]string
	// Metadata is shown in the list of workers: whatever json.Marshal makes an object of, up to 4
	// KiB. nil: null.
	Metadata any
	// Grace is how long handlers may go on when Run ends, before they are cancelled. 0 means 10 s,
	// negative not at all.
	Grace time.Duration
	// OnError is told what goes wrong while the worker goes on, by several goroutines at once: what
	// handlers return, and that a result could not be handed over, with the task; with nil that a
	// shard could not be reached. nil is nobody. The result of a run is sent after OnError has
	// returned. While several calls of it have not returned, outages are not reported to it.
	OnError func(t *Task, err error)
}

// Handler carries out an action. What it returns is the output of the run: bytes as they are, all
// else as JSON. An error is that of the attempt: another one follows, after the action's back-off,
// if any are left. Permanent, Code, Snooze and Outcome say otherwise.
//
// ctx ends, with a cause that says why (context.Cause): when the run is cancelled (ErrCancelled),
// when the attempt has taken longer than the action's timeout (ErrConflict), when no node could be
// reached for too long (ErrConflict too), and when the worker ends and the Grace is over. A handler
// should return then, with an error if its work is not done. What it returns has no effect if the
// run was cancelled, has ended or belongs to another attempt by now. After an outage, and at the
// worker's end, the run may still belong to this attempt: then a result without an error completes
// it, with an error the attempt does not count, and a panic is a failed attempt as always.
type Handler = func(ctx context.Context, t *Task) (any, error)

// Worker carries out runs of some actions. It is made by Store.Worker, given its handlers, and run
// once.
type Worker struct {
	store    *Store
	config   WorkerConfig
	handlers map[string]Handler
	err      error
}

// Worker returns a worker of the namespace that does nothing yet.
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

// processName makes up a name for something in this process.
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

// Handle has the worker carry out runs of an action, which need not be registered yet, by f. It
// returns the worker. Run tells what is wrong: a name that is no action's, or that has a handler
// already.
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

// listed returns what the list of workers says of it.
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

// kindOfWorkers is the type of workers that carry out runs.
const kindOfWorkers = workers.KindOfRuns

// Run registers the worker, takes runs of the actions that it has handlers for, in all shards, and
// carries them out, until ctx ends. All workers of a process in a namespace share one waiting call
// per shard, whatever their number. Run is to be called once.
//
// A panic of a handler is the error of its attempt, with the stack and the code panic. A result
// that has no JSON, or is too large, ends the run as failed, with the code bad_output or
// output_too_large. What a worker has is its own as long as its process is heard of: when that was
// silent for 30 s, the runs are retried elsewhere. An outage ends nothing: Run goes on when there
// is somebody to ask.
//
// When ctx ends no more runs are taken. Handlers have the Grace to finish; their ctx, which has the
// values of Run's, is cancelled only then. Runs that they fail to do because of that are given
// back: that attempt does not count. So are those of handlers that have not returned 5 s later;
// these are left alone.
//
// Run returns nil when ctx has ended and everything is settled or given back. Errors: ErrInvalid
// for a configuration out of its limits, no handlers, or a second Run; ErrClosed, ErrUnauthorized;
// ones that say how many handlers have not returned, and how many results could not be handed over
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
	defer w.fail(engine.Errorf(ErrInvalid, "action: worker %q was run before", w.config.ID))
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

// handle carries out a run that was taken.
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
	task := p.Task // the handler may write to its own
	result, err := f(context.WithValue(ctx, taskKey{}, &task), &task)
	p.concluded, err = p.conclude(result, err, w.store.scope.MaxPayload())
	if p.concluded.how == completed || p.concluded.how == snoozed {
		return nil // Outcome and Snooze are errors only in form
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

// listing has a loop listed as a worker while it runs.
type listing struct {
	scope  *engine.Scope
	worker workers.Worker
	src    *source
}

// Join is of workloop.Observer.
func (l *listing) Join(status func() workloop.Status) (leave func()) {
	m, err := workers.Join(l.scope, l.worker, status)
	if err != nil {
		return func() {}
	}
	l.src.setMember(m)
	return m.Leave
}
