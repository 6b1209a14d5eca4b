package dashboard

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rawjson"
	"github.com/floedb/floe/workflow"
)

// flowRunSummary is an item of the listing of runs. completed_at and duration_ms are 0 for a run
// that has not ended.
type flowRunSummary struct {
	RunID             string  `json:"run_id"`
	Workflow          string  `json:"workflow"`
	Version           string  `json:"version"`
	Status            string  `json:"status"`
	TriggeredBy       string  `json:"triggered_by"`
	CurrentStep       *string `json:"current_step"`
	StartedAt         int64   `json:"started_at"`
	CompletedAt       int64   `json:"completed_at"`
	DurationMillis    int64   `json:"duration_ms"`
	Error             *string `json:"error"`
	HistoryEventCount int64   `json:"history_event_count"`

	// Number of visits to steps that could not be compensated, so that their effects remain: with
	// fields=all.
	CompensationsFailed *int64 `json:"compensations_failed,omitempty"`
}

func (f fieldsAsked) summarize(r workflow.RunInfo) flowRunSummary {
	s := flowRunSummary{
		RunID: string(r.ID), Workflow: r.Workflow, Version: r.Version, Status: r.Status.String(), TriggeredBy: r.TriggeredBy,
		CurrentStep: given(r.CurrentStep), StartedAt: r.StartedAt.UnixMilli(), DurationMillis: r.Duration().Milliseconds(),
		Error:             given(r.Error),
		HistoryEventCount: r.Events,
	}
	if f.all {
		s.CompensationsFailed = &r.CompensationsFailed
	}
	if !r.CompletedAt.IsZero() {
		s.CompletedAt = r.CompletedAt.UnixMilli()
	}
	return s
}

// flowRunsRequest asks for limit runs after a position.
type flowRunsRequest struct {
	namespace string
	after     string
	limit     int
	filters   []workflow.RunOption
	fieldsAsked
}

func (q *flowRunsRequest) parse(in *input) {
	q.fieldsAsked.parse(in)
	q.namespace = in.namespace()
	q.after = in.text("after")
	q.limit = int(in.integer("limit", pageLimit))
	if name, given := in.param("workflow"); given {
		q.filters = append(q.filters, workflow.Of(name))
	}
	if name := in.oneOf("status", "pending", "running", "waiting", "completed", "failed", "cancelled", "timed_out"); name != "" {
		status, err := workflow.ParseStatus(name)
		in.check(err)
		q.filters = append(q.filters, workflow.InState(status))
	}
	if is, given := in.param("attribute"); given {
		name, value, ok := strings.Cut(is, "=")
		if !ok || name == "" {
			in.invalid("parameter attribute is %.64q, it takes NAME=VALUE", is)
		}
		q.filters = append(q.filters, workflow.Has(name, workflow.AttributeValue(value)))
	}
	if from, to := in.optional("started_from", startTimes), in.optional("started_before", startTimes); from != nil || to != nil {
		q.filters = append(q.filters, workflow.StartedBetween(millisTime(from), millisTime(to)))
	}
}

// startTimes is the range of started_from and started_before, ms since 1970.
var startTimes = span{min: 1, max: 253402300799999}

// millisTime converts a time in ms, the zero time if it is missing.
func millisTime(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms)
}

func (h *handler) flowRuns(ctx context.Context, q flowRunsRequest) (listing[flowRunSummary], error) {
	page := func(after string, n int) ([]workflow.RunInfo, string, error) {
		opts := append([]workflow.RunOption{workflow.Limit(n), workflow.Cursor(after)}, q.filters...)
		page, err := h.backend.Workflow(q.namespace).Runs().Page(ctx, opts...)
		return page.Items, page.Cursor, err
	}
	return collect(q.after, q.limit, page, q.summarize, nil)
}

// startFlowRequest starts a run: the body is its input.
type startFlowRequest struct {
	namespace string
	workflow  string
	opts      []workflow.StartOption
	input     []byte
}

func (q *startFlowRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.workflow = in.required("workflow", "the name of a workflow")
	if version, given := in.param("version"); given {
		q.opts = append(q.opts, workflow.Version(version))
	}
	if key := in.idempotencyKey(); key != "" {
		q.opts = append(q.opts, workflow.IdempotencyKey(key))
	}
	if id, given := in.param("run_id"); given {
		if id == "" {
			in.invalid("parameter run_id is empty")
		}
		q.opts = append(q.opts, workflow.UseID(workflow.RunID(id)))
	}
	q.input = in.jsonPayload()
}

// flowStarted is the response to a start.
type flowStarted struct {
	OK       bool   `json:"ok"`
	RunID    string `json:"run_id"`
	Workflow string `json:"workflow"`
	Status   string `json:"status"`
}

func (h *handler) startFlow(ctx context.Context, q startFlowRequest) (flowStarted, error) {
	started, err := h.backend.Workflow(q.namespace).Start(ctx, q.workflow, q.input, q.opts...)
	if err != nil {
		return flowStarted{}, err
	}
	return flowStarted{true, string(started.Run), q.workflow, started.Status.String()}, nil
}

// flowRunRequest names a run. An id assigned by floe contains its namespace; an id chosen by a
// caller may exist in several namespaces.
type flowRunRequest struct {
	located
	id workflow.RunID
}

func (q *flowRunRequest) parse(in *input) {
	q.id = workflow.RunID(in.segment("id"))
	q.located.parse(in)
	own, ok := q.id.Namespace()
	if ok && !q.given {
		q.namespace, q.given = own, true
	}
	if strings.HasPrefix(string(q.id), "wfr-") && !ok { // no run can have such an id, even if it is invalid
		in.check(engine.Errorf(engine.ErrNotFound, "run %.64s not found", q.id))
	}
}

// runStore returns the store of the run's namespace.
func (h *handler) runStore(ctx context.Context, q flowRunRequest) (*workflow.Store, error) {
	namespace, err := h.locate(ctx, q.located, engine.Text("run %q", q.id), func(ctx context.Context, namespace string) error {
		_, err := h.backend.Workflow(namespace).Runs().Get(ctx, q.id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return h.backend.Workflow(namespace), nil
}

// flowRunDetail is the body of /workflow/runs/:id.
type flowRunDetail struct {
	flowRunSummary
	Input          any                   `json:"input"`
	Output         any                   `json:"output"`
	StepResults    map[string]stepResult `json:"step_results"`
	PendingSignals []pendingSignal       `json:"pending_signals"`
	follow         func(ctx context.Context) iter.Seq2[event, error]
}

func (d flowRunDetail) events() func(ctx context.Context) iter.Seq2[event, error] { return d.follow }

// stepResult is the last visit to a step.
type stepResult struct {
	Outcome     string `json:"outcome"`
	Output      any    `json:"output"`
	Attempts    int    `json:"attempts"`
	StartedAt   int64  `json:"started_at"`
	CompletedAt int64  `json:"completed_at"`
}

// pendingSignal is a signal that no step has consumed.
type pendingSignal struct {
	Type       string `json:"type"`
	Payload    any    `json:"payload"`
	ReceivedAt int64  `json:"received_at"`
}

// flowDetailRequest asks for the details of a run.
type flowDetailRequest struct {
	flowRunRequest
	fieldsAsked
	wait         // for the end of the run
	follows bool // as events
	last    string
}

func (q *flowDetailRequest) parse(in *input) {
	q.flowRunRequest.parse(in)
	q.wait.parameter(in)
	q.fieldsAsked.parse(in)
	if q.follows = in.wantsEvents(); q.follows {
		q.last = in.lastEvent()
		if _, ok := (span{max: math.MaxInt64}).parse(q.last); q.last != "" && !ok {
			in.invalid("the event after which the events continue is %.64q, it takes an integer from 0", q.last)
		}
	}
}

func (h *handler) flowRun(ctx context.Context, q flowDetailRequest) (flowRunDetail, error) {
	store, err := h.runStore(ctx, q.flowRunRequest)
	if err != nil {
		return flowRunDetail{}, err
	}
	r, err := store.Runs().Get(ctx, q.id)
	if err == nil && q.follows {
		var end func(ctx context.Context) (event, error)
		if !r.Status.Final() {
			end = func(ctx context.Context) (event, error) {
				r, err := store.Wait(ctx, q.id)
				return q.event(r), err
			}
		}
		return flowRunDetail{follow: runEvents(q.event(r), q.last, end)}, nil
	}
	if err == nil && q.time > 0 && !r.Status.Final() {
		err = q.until(ctx, func(ctx context.Context) error {
			_, err := store.Wait(ctx, q.id)
			return err
		})
		if err == nil {
			r, err = store.Runs().Get(ctx, q.id)
		}
	}
	if err != nil {
		return flowRunDetail{}, err
	}
	return q.detail(r), nil
}

// event returns a run as an event. Its id is the number of events of its history.
func (q *flowDetailRequest) event(r workflow.Run) event {
	return event{fmt.Sprint(r.Events), q.detail(r)}
}

func (f fieldsAsked) detail(r workflow.Run) flowRunDetail {
	d := flowRunDetail{
		flowRunSummary: f.summarize(r.RunInfo), Input: rawjson.Value(r.Input), Output: rawjson.Value(r.Output),
		StepResults:    make(map[string]stepResult),
		PendingSignals: []pendingSignal{},
	}
	for _, s := range r.Steps {
		d.StepResults[s.Step] = stepResult{s.Outcome, rawjson.Value(s.Output), s.Attempts, s.StartedAt.UnixMilli(),
			s.CompletedAt.UnixMilli()}
	}
	for _, s := range r.Signals {
		d.PendingSignals = append(d.PendingSignals, pendingSignal{s.Type, rawjson.Value(s.Payload), s.ReceivedAt.UnixMilli()})
	}
	return d
}

// flowHistoryRequest asks for limit events of a run after a position.
type flowHistoryRequest struct {
	flowRunRequest
	after string
	limit int
}

func (q *flowHistoryRequest) parse(in *input) {
	q.flowRunRequest.parse(in)
	q.after = in.text("after")
	q.limit = in.listLimit()
}

// flowEvent is an entry of a run's history.
type flowEvent struct {
	EventType string `json:"event_type"`
	StepName  string `json:"step_name"` // "" if not about a step
	Timestamp int64  `json:"timestamp"`
}

func (h *handler) flowHistory(ctx context.Context, q flowHistoryRequest) (listing[flowEvent], error) {
	store, err := h.runStore(ctx, q.flowRunRequest)
	if err != nil {
		return listing[flowEvent]{}, err
	}
	page := func(after string, n int) ([]workflow.Event, string, error) {
		page, err := store.History(q.id).Page(ctx, workflow.Limit(n), workflow.Cursor(after))
		return page.Items, page.Cursor, err
	}
	return collect(q.after, q.limit, page, func(e workflow.Event) flowEvent { return flowEvent{e.Type.String(), e.Step, e.At.UnixMilli()} },
		nil)
}

// flowChanged is the response after a run was cancelled, signalled or retried, with the new status.
type flowChanged struct {
	OK     bool   `json:"ok"`
	RunID  string `json:"run_id"`
	Status string `json:"status"`
}

func (h *handler) cancelFlow(ctx context.Context, q flowRunRequest) (flowChanged, error) {
	store, err := h.runStore(ctx, q)
	if err != nil {
		return flowChanged{}, err
	}
	status, err := store.Cancel(ctx, q.id, "")
	if err != nil {
		return flowChanged{}, err
	}
	return flowChanged{true, string(q.id), status.String()}, nil
}

// retryFlowRequest continues a failed run from a step, optionally with another input of that step.
type retryFlowRequest struct {
	flowRunRequest
	step  string // "": the failed step
	input []byte // JSON; nil: as defined
}

func (q *retryFlowRequest) parse(in *input) {
	q.flowRunRequest.parse(in)
	readFields(in, q, (*retryFlowRequest).fields)
}

func (q *retryFlowRequest) fields(f *codec.Fields) {
	f.Text("step", &q.step)
	jsonField(f, "input", &q.input)
}

func (h *handler) retryFlow(ctx context.Context, q retryFlowRequest) (flowChanged, error) {
	store, err := h.runStore(ctx, q.flowRunRequest)
	if err != nil {
		return flowChanged{}, err
	}
	var opts []workflow.RetryOption
	if q.step != "" {
		opts = append(opts, workflow.FromStep(q.step))
	}
	if q.input != nil {
		opts = append(opts, workflow.ReplaceInput(q.input))
	}
	status, err := store.Retry(ctx, q.id, opts...)
	if err != nil {
		return flowChanged{}, err
	}
	return flowChanged{true, string(q.id), status.String()}, nil
}

// signalFlowRequest is a signal: the body is its payload.
type signalFlowRequest struct {
	flowRunRequest
	signal  string
	payload []byte
}

func (q *signalFlowRequest) parse(in *input) {
	q.flowRunRequest.parse(in)
	signal, given := in.param("signal")
	other, also := in.param("type")
	switch {
	case !given && !also:
		in.invalid("parameter signal is missing, it takes the type of the signal")
	case given && also && signal != other:
		in.invalid("parameter signal is %.64q, type, which means the same, is %.64q", signal, other)
	case !given:
		signal = other
	}
	q.signal = signal
	q.payload = in.jsonPayload()
}

func (h *handler) signalFlow(ctx context.Context, q signalFlowRequest) (flowChanged, error) {
	store, err := h.runStore(ctx, q.flowRunRequest)
	if err != nil {
		return flowChanged{}, err
	}
	status, err := store.Signal(ctx, q.id, q.signal, q.payload)
	if err != nil {
		return flowChanged{}, err
	}
	return flowChanged{true, string(q.id), status.String()}, nil
}

// checkRuns reports recent failures by workflow, with the latest reason.
func (h *handler) checkRuns(ctx context.Context, ns string, add func(finding)) (more bool, _ error) {
	now := h.now()
	for _, ended := range []struct {
		status   workflow.Status
		word     string
		severity string
	}{{workflow.Failed, "failed", "crit"}, {workflow.TimedOut, "timed out", "warn"}} {
		page, err := h.backend.Workflow(ns).Runs().Page(ctx, workflow.InState(ended.status),
			workflow.StartedBetween(now.Add(-runsOf), now.Add(time.Minute)), workflow.Limit(mostChecked))
		if err != nil {
			return more, err
		}
		more = more || page.Cursor != ""
		count, latest := make(map[string]int64), make(map[string]workflow.RunInfo)
		var order []string
		for _, r := range page.Items { // newest first
			if count[r.Workflow]++; count[r.Workflow] == 1 {
				latest[r.Workflow] = r
				order = append(order, r.Workflow)
			}
		}
		for _, name := range order {
			text := fmt.Sprintf("%s %s within an hour%s", counted(count[name], "run"), ended.word,
				suffix(", the last: ", latest[name].Error))
			add(finding{Kind: "workflow", Name: name, Of: ended.status.String(), Severity: ended.severity, Count: count[name], Text: text})
		}
	}
	return more, nil
}
