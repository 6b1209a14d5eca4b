package dashboard

import (
	"context"
	"errors"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rawjson"
)

var actionRoutes = []route{
	endpoint("GET /api/v1/actions", (*handler).actions, "List the actions of a namespace."),
	endpoint("GET /api/v1/actions/:name", (*handler).action, "Get an action with its last runs and its workers."),
	endpoint("GET /api/v1/actions/:name/runs", (*handler).actionRuns, "List the runs of an action, newest first."),
	endpoint("POST /api/v1/actions/:name/invoke", (*handler).invoke, "Invoke an action. The body is its input, JSON."),
	endpoint("POST /api/v1/actions/:name/runs/:id/retry", (*handler).retryRun, "Retry a run that has ended without success."),
	endpoint("POST /api/v1/actions/:name/runs/:id/run-now", (*handler).runNow, "Start a delayed run now."),
	endpoint("GET /api/v1/workers", (*handler).workers, "List the workers of a namespace."),
	endpoint("GET /api/v1/workers/:id", (*handler).worker, "Get a worker."),
}

// recentRuns is the number of runs in the detail of an action.
const recentRuns = 20

// actionSummary is an item of the listing of actions.
type actionSummary struct {
	Name          string        `json:"name"`
	Namespace     string        `json:"namespace"`
	Type          string        `json:"type"`
	Owner         string        `json:"owner"`
	Version       int           `json:"version"`
	Enabled       bool          `json:"enabled"`
	TimeoutMillis int64         `json:"timeout_ms"`
	MaxRetries    int           `json:"max_retries"`
	WorkerCount   int           `json:"worker_count"`
	Latency       actionLatency `json:"latency"`
	Runs          actionCounts  `json:"runs"`
}

// actionLatency is the duration of completed runs.
type actionLatency struct {
	Count         int64   `json:"count"`
	AverageMillis float64 `json:"avg_ms"`
	P99Millis     float64 `json:"p99_ms"`
}

// actionCounts counts all runs by state.
type actionCounts struct {
	Total     int64 `json:"total"`
	Pending   int64 `json:"pending"`
	Running   int64 `json:"running"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
	TimedOut  int64 `json:"timed_out"`
}

func summarizeAction(namespace string, i action.Info) actionSummary {
	return actionSummary{
		Name: i.Name, Namespace: namespace, Type: string(i.Type), Owner: i.Owner, Version: i.Version, Enabled: i.Enabled,
		TimeoutMillis: i.Timeout.Milliseconds(),
		MaxRetries:    i.MaxAttempts - 1, WorkerCount: i.Workers,
		Latency: actionLatency{i.Latency.Count, fractionalMillis(i.Latency.Average), fractionalMillis(i.Latency.P99)},
		Runs:    actionCounts(i.Runs),
	}
}

func fractionalMillis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (h *handler) actions(ctx context.Context, q listRequest) (listing[actionSummary], error) {
	page := func(after string, n int) ([]action.Info, string, error) {
		page, err := h.backend.Action(q.namespace).Page(ctx, action.Limit(n), action.Cursor(after))
		return page.Items, page.Cursor, err
	}
	return collect(q.after, q.limit, page, func(i action.Info) actionSummary { return summarizeAction(q.namespace, i) }, nil)
}

// actionRequest names an action.
type actionRequest struct{ namespace, name string }

func (q *actionRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.name = in.segment("name")
}

// actionDetail is the body of /actions/:name.
type actionDetail struct {
	actionSummary
	RecentRuns []actionRun    `json:"recent_runs"`
	Workers    []workerRecord `json:"workers"`
}

func (h *handler) action(ctx context.Context, q actionRequest) (actionDetail, error) {
	store := h.backend.Action(q.namespace)
	info, err := store.Get(ctx, q.name)
	if err != nil {
		return actionDetail{}, err
	}
	d := actionDetail{actionSummary: summarizeAction(q.namespace, info), RecentRuns: []actionRun{}, Workers: []workerRecord{}}
	runs, err := store.Runs().Page(ctx, action.Of(q.name), action.Limit(recentRuns))
	if err != nil {
		return actionDetail{}, err
	}
	for _, r := range runs.Items {
		d.RecentRuns = append(d.RecentRuns, showRun(r))
	}
	for w, err := range store.Workers().All(ctx, action.HandlersOf(q.name)) {
		if err != nil {
			return actionDetail{}, err
		}
		if d.Workers = append(d.Workers, showWorker(q.namespace, w)); len(d.Workers) == h.maxListed {
			break
		}
	}
	return d, nil
}

// actionRun is a run in a listing.
type actionRun struct {
	RunID          string  `json:"run_id"`
	Status         string  `json:"status"`
	Attempt        int     `json:"attempt"`
	Input          any     `json:"input"`
	Output         any     `json:"output"`
	Error          *string `json:"error"`
	Source         string  `json:"source"`
	WorkerID       *string `json:"worker_id"`
	CreatedAt      int64   `json:"created_at"`
	StartedAt      *int64  `json:"started_at"`
	CompletedAt    *int64  `json:"completed_at"`
	DurationMillis *int64  `json:"duration_ms"`
}

func showRun(r action.Run) actionRun {
	shown := actionRun{
		RunID: string(r.ID), Status: r.Status.String(), Attempt: r.Attempt, Input: rawjson.Value(r.Input), Output: rawjson.Value(r.Output),
		Error:  given(r.Error),
		Source: r.Source, WorkerID: given(r.WorkerID), CreatedAt: r.CreatedAt.UnixMilli(), StartedAt: givenMillis(r.StartedAt),
		CompletedAt: givenMillis(r.CompletedAt),
	}
	if !r.StartedAt.IsZero() && !r.CompletedAt.IsZero() {
		shown.DurationMillis = new(r.Duration().Milliseconds())
	}
	return shown
}

// given returns a pointer to a text, nil if it is empty.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// givenMillis returns a time in ms, nil for the zero time.
func givenMillis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.UnixMilli())
}

// runsRequest asks for limit runs after a position.
type runsRequest struct {
	actionRequest
	after  string
	limit  int
	status action.Status // 0: all
	with   []action.RunOption
}

// runAttributes are the parameters that filter runs.
var runAttributes = []action.Attribute{
	action.AttributeSource, action.AttributeConcurrencyKey, action.AttributeIdempotencyKey, action.AttributeWorker, action.AttributeOutcome,
	action.AttributeCode,
}

func (q *runsRequest) parse(in *input) {
	q.actionRequest.parse(in)
	q.after = in.text("after")
	q.limit = int(in.integer("limit", pageLimit))
	if name := in.oneOf("status", "pending", "running", "completed", "failed", "cancelled", "timed_out"); name != "" {
		var err error
		q.status, err = action.ParseStatus(name)
		in.check(err)
	}
	for _, name := range runAttributes {
		if value, given := in.param(string(name)); given {
			q.with = append(q.with, action.Has(name, value))
		}
	}
	q.with = append(q.with, action.InvokedBetween(givenTime(in.optional("from", anyMillis)), givenTime(in.optional("to", anyMillis))))
}

// anyMillis is the range of a time in ms since the epoch.
var anyMillis = span{min: 1, max: 1 << 50}

// givenTime returns a time in ms, the zero time for nil.
func givenTime(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms)
}

func (h *handler) actionRuns(ctx context.Context, q runsRequest) (listing[actionRun], error) {
	page := func(after string, n int) ([]action.Run, string, error) {
		opts := append([]action.RunOption{action.Limit(n), action.Cursor(after)}, q.with...)
		if q.status != 0 {
			opts = append(opts, action.InState(q.status))
		}
		page, err := h.backend.Action(q.namespace).Runs().Page(ctx, append([]action.RunOption{action.Of(q.name)}, opts...)...)
		return page.Items, page.Cursor, err
	}
	return collect(q.after, q.limit, page, showRun, func(r action.Run) int { return len(r.Input) + len(r.Output) })
}

// runRequest names a run of an action.
type runRequest struct {
	located
	name string
	id   action.RunID
}

func (q *runRequest) parse(in *input) {
	q.name = in.segment("name")
	q.id = action.RunID(in.segment("id"))
	q.located.parse(in)
}

// runChanged is the response after a run was retried or started, with the new status.
type runChanged struct {
	OK        bool   `json:"ok"`
	RunID     string `json:"run_id"`
	Namespace string `json:"namespace"`
	Status    string `json:"status"`
}

func (h *handler) retryRun(ctx context.Context, q runRequest) (runChanged, error) {
	return h.changeRun(ctx, q, (*action.Store).Retry)
}

func (h *handler) runNow(ctx context.Context, q runRequest) (runChanged, error) {
	return h.changeRun(ctx, q, (*action.Store).RunNow)
}

// locateRun returns the namespace of a run of the action.
func (h *handler) locateRun(ctx context.Context, q runRequest) (string, error) {
	return h.locate(ctx, q.located, engine.Text("run %q", q.id), func(ctx context.Context, namespace string) error {
		run, err := h.backend.Action(namespace).Runs().Get(ctx, q.id)
		if err == nil && run.Action != q.name {
			err = engine.Errorf(engine.ErrNotFound, "action %q has no run %s", q.name, q.id)
		}
		return err
	})
}

func (h *handler) changeRun(ctx context.Context, q runRequest, change func(*action.Store, context.Context, action.RunID) error) (runChanged,
	error) {
	namespace, err := h.locateRun(ctx, q)
	if err != nil {
		return runChanged{}, err
	}
	store := h.backend.Action(namespace)
	if err := change(store, ctx, q.id); err != nil {
		return runChanged{}, err
	}
	run, err := store.Runs().Get(ctx, q.id)
	return runChanged{err == nil, string(q.id), namespace, run.Status.String()}, err
}

// invokeRequest is an invocation: the body is its input.
type invokeRequest struct {
	actionRequest
	priority int
	delay    time.Duration
	key      string
	input    []byte
	opts     []action.InvokeOption // options that were given
}

func (q *invokeRequest) parse(in *input) {
	q.actionRequest.parse(in)
	q.priority = int(in.integer("priority", span{absent: action.DefaultPriority, min: 0, max: action.MaxPriority}))
	q.delay = time.Duration(in.integer("delay_ms", delayMillis)) * time.Millisecond
	if ms := in.optional("expire_ms", attemptMillis); ms != nil {
		q.opts = append(q.opts, action.Expire(time.Duration(*ms)*time.Millisecond))
	}
	if ms := in.optional("timeout_ms", attemptMillis); ms != nil {
		q.opts = append(q.opts, action.Timeout(time.Duration(*ms)*time.Millisecond))
	}
	attempts := in.optional("max_attempts", span{min: 1, max: action.MaxAttemptsLimit})
	if attempts != nil {
		q.opts = append(q.opts, action.MaxAttempts(int(*attempts)))
	}
	if n := in.optional("max_retries", span{min: 0, max: action.MaxAttemptsLimit - 1}); n != nil {
		q.opts = append(q.opts, action.MaxAttempts(1+int(*n)))
		if attempts != nil && *attempts != 1+*n {
			in.invalid("parameter max_attempts is %d, max_retries is %d, which means %d attempts", *attempts, *n, 1+*n)
		}
	}
	q.key = in.idempotencyKey()
	q.input = in.jsonPayload()
}

// attemptMillis is the range of durations of a run's attempts.
var attemptMillis = span{min: 1, max: delayMillis.max}

// jsonPayload returns the body, which must be JSON unless it is empty.
func (in *input) jsonPayload() []byte {
	in.reads(jsonMedia)
	payload := in.payload(utf8Text)
	if len(payload) > 0 {
		in.check(checkText(payload))
		in.check(checkSyntax(payload))
	}
	return payload
}

// idempotencyKey returns the idempotency key of a call: the parameter idempotency_key, or the
// header Idempotency-Key.
func (in *input) idempotencyKey() string {
	key, given := in.param("idempotency_key")
	header := in.headerValues("Idempotency-Key")
	switch {
	case len(header) > 1:
		in.invalid("header Idempotency-Key is given %d times, it takes one value", len(header))
	case given && len(header) == 1 && header[0] != key:
		in.invalid("parameter idempotency_key is %.64q, header Idempotency-Key is %.64q", key, header[0])
	case given && key == "", len(header) == 1 && header[0] == "":
		in.invalid("the idempotency key is empty")
	case !given && len(header) == 1:
		key = header[0]
	}
	return key
}

// invocation is the response to an invocation.
type invocation struct {
	OK        bool   `json:"ok"`
	Action    string `json:"action"`
	Namespace string `json:"namespace"`
	Status    string `json:"status"`
	RunID     string `json:"run_id"`
}

func (h *handler) invoke(ctx context.Context, q invokeRequest) (invocation, error) {
	opts := append([]action.InvokeOption{action.Priority(q.priority), action.Delay(q.delay)}, q.opts...)
	if q.key != "" {
		opts = append(opts, action.IdempotencyKey(q.key))
	}
	store := h.backend.Action(q.namespace)
	made, err := store.Invoke(ctx, q.name, q.input, opts...)
	if err != nil {
		return invocation{}, err
	}
	status := action.Pending
	if made.Duplicate { // the run may have a later state by now, or no longer be retained
		run, err := store.Runs().Get(ctx, made.Run)
		switch {
		case err == nil:
			status = run.Status
		case errors.Is(err, action.ErrNotFound):
			status = action.Completed
		default:
			return invocation{}, err
		}
	}
	return invocation{true, q.name, q.namespace, status.String(), string(made.Run)}, nil
}

// workerRecord is a worker.
type workerRecord struct {
	WorkerID       string          `json:"worker_id"`
	Status         string          `json:"status"` // active, draining or unhealthy
	WorkerType     string          `json:"worker_type"`
	Namespace      string          `json:"namespace"`
	MachineID      *string         `json:"machine_id"`
	CurrentLoad    int             `json:"current_load"`
	MaxConcurrent  int             `json:"max_concurrent"`
	TasksCompleted int64           `json:"tasks_completed"`
	TasksFailed    int64           `json:"tasks_failed"`
	LastSeen       int64           `json:"last_seen"`
	RegisteredAt   int64           `json:"registered_at"`
	Metadata       any             `json:"metadata"`
	Processes      []workerProcess `json:"processes"`
}

// workerProcess counts the runs of one kind of a worker's work.
type workerProcess struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	RunCount  int64  `json:"run_count"`
	FailCount int64  `json:"fail_count"`
	LastRunAt int64  `json:"last_run_at"`
}

func showWorker(namespace string, w action.WorkerInfo) workerRecord {
	shown := workerRecord{
		WorkerID: w.ID, Status: w.Status.String(), WorkerType: w.Type, Namespace: namespace, MachineID: given(w.Machine),
		CurrentLoad:   w.Load,
		MaxConcurrent: w.MaxConcurrent, TasksCompleted: w.Completed, TasksFailed: w.Failed, LastSeen: w.LastSeen.UnixMilli(),
		RegisteredAt: w.RegisteredAt.UnixMilli(), Metadata: rawjson.Value(w.Metadata), Processes: []workerProcess{},
	}
	for _, p := range w.Processes {
		at := int64(0) // a worker that reports its own counts may omit it
		if !p.LastRun.IsZero() {
			at = p.LastRun.UnixMilli()
		}
		shown.Processes = append(shown.Processes, workerProcess{p.Name, p.Kind, p.Runs, p.Failures, at})
	}
	return shown
}

func (h *handler) workers(ctx context.Context, q listRequest) (listing[workerRecord], error) {
	page := func(after string, n int) ([]action.WorkerInfo, string, error) {
		page, err := h.backend.Action(q.namespace).Workers().Page(ctx, action.Limit(n), action.Cursor(after))
		return page.Items, page.Cursor, err
	}
	return collect(q.after, q.limit, page, func(w action.WorkerInfo) workerRecord { return showWorker(q.namespace, w) }, nil)
}

// workerRequest names a worker.
type workerRequest struct {
	located
	id string
}

func (q *workerRequest) parse(in *input) {
	q.located.parse(in)
	q.id = in.segment("id")
}

func (h *handler) worker(ctx context.Context, q workerRequest) (workerRecord, error) {
	find := func(ctx context.Context, namespace string) error {
		_, err := h.backend.Action(namespace).Workers().Get(ctx, q.id)
		return err
	}
	namespace, err := h.locate(ctx, q.located, engine.Text("worker %q", q.id), find)
	if err != nil {
		return workerRecord{}, err
	}
	w, err := h.backend.Action(namespace).Workers().Get(ctx, q.id)
	if err != nil {
		return workerRecord{}, err
	}
	return showWorker(namespace, w), nil
}

func (h *handler) checkActions(ctx context.Context, ns string, add func(finding)) (bool, error) {
	page, err := h.backend.Action(ns).Page(ctx, action.Limit(mostChecked))
	for _, a := range page.Items {
		if a.Runs.Pending > 0 && a.Workers == 0 {
			add(finding{Kind: "action", Name: a.Name, Severity: "crit", Count: a.Runs.Pending,
				Text: counted(a.Runs.Pending, "run") + " waiting, no worker"})
		}
	}
	return page.Cursor != "", err
}

func (h *handler) checkWorkers(ctx context.Context, ns string, add func(finding)) (bool, error) {
	page, err := h.backend.Action(ns).Workers().Page(ctx, action.Limit(mostChecked))
	for _, w := range page.Items {
		if w.Status == action.Unhealthy {
			add(finding{Kind: "worker", Name: w.ID, Severity: "warn", Count: 1,
				Text: "last heartbeat " + h.now().Sub(w.LastSeen).Round(time.Second).String() + " ago"})
		}
	}
	return page.Cursor != "", err
}

func (b staleBackend) Action(ns string, _ ...floe.AccessOption) *action.Store {
	return b.DB.Action(ns, floe.Stale())
}
