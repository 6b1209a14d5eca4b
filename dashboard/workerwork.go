package dashboard

import (
	"context"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rawjson"
)

// maxAwait is the maximum number of runs of one await, as of action.Max.
const maxAwait = 100

const workerPath = "/api/v1/workers/:id"

var workerWorkRoutes = []route{
	endpoint("PUT "+workerPath, (*handler).registerWorker, "Register a worker, or update its description."),
	endpoint("DELETE "+workerPath, (*handler).deregisterWorker, "Deregister a worker and release its runs."),
	endpoint("POST "+workerPath+"/heartbeat", (*handler).heartbeat, "Send a worker heartbeat, about every 10 s."),
	endpoint("POST "+workerPath+"/drain", (*handler).drainWorker, "Stop giving runs to a worker; those that it has continue."),
	endpoint("POST "+workerPath+"/await", (*handler).awaitRuns, "Take runs of some actions. The worker need not be registered."),
	endpoint("POST "+workerPath+"/runs/:run/complete", (*handler).completeRun, "Complete a run with its output."),
	endpoint("POST "+workerPath+"/runs/:run/fail", (*handler).failRun, "End an attempt with an error. Without retry the run has failed."),
	endpoint("POST "+workerPath+"/runs/:run/touch", (*handler).touchRun, "Move the deadline of an attempt to lease_ms from now."),
}

// oneWorker names a worker of the namespace of the request.
type oneWorker struct{ namespace, id string }

func (q *oneWorker) parse(in *input) {
	q.namespace = in.namespace()
	q.id = in.segment("id")
}

// workerDone is the response to an operation on a worker.
type workerDone struct {
	OK       bool   `json:"ok"`
	WorkerID string `json:"worker_id"`
}

// registerRequest describes a worker.
type registerRequest struct {
	oneWorker
	worker action.NewWorker
}

func (q *registerRequest) parse(in *input) {
	q.oneWorker.parse(in)
	q.worker = action.NewWorker{ID: q.id, MaxConcurrent: 1}
	readFields(in, &q.worker, newWorkerFields)
}

func newWorkerFields(w *action.NewWorker, f *codec.Fields) {
	codec.ListOf(f, "actions", &w.Actions, codec.Text)
	engine.CodePairMap(f, "labels", &w.Labels)
	f.Int("concurrency", &w.MaxConcurrent)
	f.Text("machine", &w.Machine)
	jsonField(f, "metadata", &w.Metadata)
}

func (h *handler) registerWorker(ctx context.Context, q registerRequest) (workerDone, error) {
	err := h.backend.Action(q.namespace).RegisterWorker(ctx, q.worker)
	return workerDone{true, q.id}, err
}

func (h *handler) deregisterWorker(ctx context.Context, q oneWorker) (workerDone, error) {
	err := h.backend.Action(q.namespace).Deregister(ctx, q.id)
	return workerDone{true, q.id}, err
}

func (h *handler) drainWorker(ctx context.Context, q oneWorker) (workerDone, error) {
	err := h.backend.Action(q.namespace).Drain(ctx, q.id)
	return workerDone{true, q.id}, err
}

// heartbeatRequest has the number of runs of a worker.
type heartbeatRequest struct {
	oneWorker
	load int
}

func (q *heartbeatRequest) parse(in *input) {
	q.oneWorker.parse(in)
	readFields(in, q, (*heartbeatRequest).fields)
}

func (q *heartbeatRequest) fields(f *codec.Fields) { f.Int("load", &q.load) }

func (h *handler) heartbeat(ctx context.Context, q heartbeatRequest) (workerDone, error) {
	err := h.backend.Action(q.namespace).Heartbeat(ctx, q.id, q.load)
	return workerDone{true, q.id}, err
}

// awaitRequest takes up to max runs.
type awaitRequest struct {
	oneWorker
	wait
	actions []string
	labels  map[string]string
	max     int
}

func (q *awaitRequest) parse(in *input) {
	q.oneWorker.parse(in)
	q.wait.parse(in)
	q.max = 1
	readFields(in, q, (*awaitRequest).fields)
}

func (q *awaitRequest) fields(f *codec.Fields) {
	texts(f, "actions", &q.actions, engine.MaxPageItems)
	engine.CodePairMap(f, "labels", &q.labels)
	f.Int("max", &q.max, codec.Range{Min: 1, Max: maxAwait})
	q.wait.fields(f)
}

// givenRuns is the response to await; it is empty if no run was available.
type givenRuns struct {
	Runs []givenRun `json:"runs"`
}

// givenRun is an attempt of a run that was given to the worker. Delivery is unique among the
// attempts of the run, and identifies the attempt when it ends.
type givenRun struct {
	RunID     string            `json:"run_id"`
	Action    string            `json:"action"`
	Attempt   int               `json:"attempt"`
	Delivery  int               `json:"delivery"`
	Input     any               `json:"input"`
	Labels    map[string]string `json:"labels"`
	LastError string            `json:"last_error"` // of the previous attempt

	DeadlineMillis int64 `json:"deadline_ms"` // the attempt has timed out then, unless touch moves it
}

func (h *handler) awaitRuns(ctx context.Context, q awaitRequest) (givenRuns, error) {
	store := h.backend.Action(q.namespace)
	tasks, err := patiently(ctx, q.wait, func(ctx context.Context, wait time.Duration) ([]action.Task, error) {
		return store.Await(ctx, q.id, q.actions, action.Max(q.max), action.Labels(q.labels), action.Wait(wait))
	})
	if err != nil {
		return givenRuns{}, err
	}
	given := givenRuns{make([]givenRun, len(tasks))}
	for i, t := range tasks {
		given.Runs[i] = givenRun{
			RunID: string(t.Run), Action: t.Action, Attempt: t.Attempt, Delivery: t.Delivery, Input: rawjson.Value(t.Input),
			Labels: utf8Text.headers(t.Labels), LastError: t.LastError, DeadlineMillis: t.Deadline.UnixMilli(),
		}
	}
	return given, nil
}

// heldRun names an attempt of a run that a worker has: without a delivery the current one.
type heldRun struct {
	oneWorker
	run      action.RunID
	delivery int
}

func (q *heldRun) parse(in *input) {
	q.oneWorker.parse(in)
	q.run = action.RunID(in.segment("run"))
}

func (q *heldRun) fields(f *codec.Fields) { f.Int("delivery", &q.delivery) }

// options returns the options that both ends of an attempt have.
func (q *heldRun) options() (opts []action.EndOption) {
	if q.delivery != 0 {
		opts = append(opts, action.OfDelivery(q.delivery))
	}
	return opts
}

// attemptDone is the response to complete and fail.
type attemptDone struct {
	OK    bool   `json:"ok"`
	RunID string `json:"run_id"`
}

type completeRequest struct {
	heldRun
	completion
}

// completion is the result of a run.
type completion struct {
	output  []byte // JSON; nil: none
	outcome string
}

func (c *completion) fields(f *codec.Fields) {
	jsonField(f, "output", &c.output)
	f.Text("outcome", &c.outcome, codec.Range{Max: action.MaxOutcomeBytes})
}

func (c *completion) options() (opts []action.EndOption) {
	if c.outcome != "" {
		opts = append(opts, action.OutcomeName(c.outcome))
	}
	return opts
}

func (q *completeRequest) parse(in *input) {
	q.heldRun.parse(in)
	readFields(in, q, (*completeRequest).fields)
}

func (q *completeRequest) fields(f *codec.Fields) {
	q.completion.fields(f)
	q.heldRun.fields(f)
}

func (h *handler) completeRun(ctx context.Context, q completeRequest) (attemptDone, error) {
	opts := append(q.heldRun.options(), q.completion.options()...)
	err := h.backend.Action(q.namespace).Complete(ctx, q.run, q.id, q.output, opts...)
	return attemptDone{true, string(q.run)}, err
}

type failRequest struct {
	heldRun
	attemptFailure
}

// attemptFailure is why an attempt failed, and what follows.
type attemptFailure struct {
	message string
	code    string
	retry   bool
	delayed bool // delay_ms is given; else the action's back-off applies
	delay   time.Duration
}

func (q *failRequest) parse(in *input) {
	q.heldRun.parse(in)
	readFields(in, q, (*failRequest).fields)
}

func (q *failRequest) fields(f *codec.Fields) {
	q.attemptFailure.fields(f)
	q.heldRun.fields(f)
}

func (a *attemptFailure) fields(f *codec.Fields) {
	f.Text("error", &a.message)
	f.Text("code", &a.code, codec.Range{Max: action.MaxOutcomeBytes})
	f.Bool("retry", &a.retry)
	if a.delayed = f.Given("delay_ms", a.delayed); a.delayed {
		f.Duration("delay_ms", &a.delay, codec.Range{Max: delayMillis.max})
	}
}

func (a *attemptFailure) options() (opts []action.EndOption) {
	if a.code != "" {
		opts = append(opts, action.ErrorCode(a.code))
	}
	if a.retry {
		opts = append(opts, action.Retry())
	}
	if a.delayed {
		opts = append(opts, action.Delay(a.delay))
	}
	return opts
}

func (h *handler) failRun(ctx context.Context, q failRequest) (attemptDone, error) {
	opts := append(q.heldRun.options(), q.attemptFailure.options()...)
	err := h.backend.Action(q.namespace).Fail(ctx, q.run, q.id, q.message, opts...)
	return attemptDone{true, string(q.run)}, err
}

type touchRunRequest struct {
	heldRun
	lease time.Duration
}

func (q *touchRunRequest) parse(in *input) {
	q.heldRun.parse(in)
	q.lease = defaultLease
	readFields(in, q, (*touchRunRequest).fields)
}

func (q *touchRunRequest) fields(f *codec.Fields) { f.Duration("lease_ms", &q.lease, leaseRange) }

// touched is the response to touch.
type touched struct {
	DeadlineMillis int64 `json:"deadline_ms"`
}

func (h *handler) touchRun(ctx context.Context, q touchRunRequest) (touched, error) {
	until, err := h.backend.Action(q.namespace).Extend(ctx, q.run, q.id, q.lease)
	return touched{until.UnixMilli()}, err
}
