package dashboard

import (
	"context"
	"strings"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rawjson"
)

// A schedule of an action has a name that is unique within the action. A workflow has at most one
// schedule, which is part of its definition, and has no name.

const (
	schedulesPath = actionPath + "/schedules"
	schedulePath  = schedulesPath + "/:schedule"
)

var scheduleRoutes = []route{
	endpoint("GET /api/v1/schedules", (*handler).allSchedules,
		"List the schedules of a namespace: those of actions, then those of workflows."),
	endpoint("GET "+schedulesPath, (*handler).schedules, "List the schedules of an action."),
	endpoint("GET "+schedulePath, (*handler).schedule, "Get a schedule of an action with its last ticks."),
	endpoint("PUT "+schedulePath, (*handler).setSchedule,
		"Create or change a schedule of an action, with cron or interval_ms. An equal schedule is left unchanged."),
	endpoint("DELETE "+schedulePath, (*handler).deleteSchedule, "Delete a schedule of an action. Its runs continue."),
	endpoint("PUT "+schedulePath+"/pause", (*handler).pauseSchedule, "Pause a schedule of an action. Its runs continue."),
	endpoint("PUT "+schedulePath+"/resume", (*handler).resumeSchedule, "Resume a schedule of an action with its next tick."),
	endpoint("POST "+schedulePath+"/trigger", (*handler).triggerSchedule, "Start a run of a schedule now, also if it is paused."),
}

// The kinds of schedules, by what they start.
const (
	scheduledAction   = "action"
	scheduledWorkflow = "workflow"
)

// scheduleSummary is an item of a listing of schedules. It has a cron expression or an interval.
type scheduleSummary struct {
	Kind           string  `json:"kind"`   // action or workflow
	Target         string  `json:"target"` // name of the action or workflow
	Name           *string `json:"name"`   // null: the schedule of a workflow
	Cron           string  `json:"cron"`
	Timezone       string  `json:"timezone"`
	IntervalMillis int64   `json:"interval_ms"`
	Paused         bool    `json:"paused"`
	Note           string  `json:"note"` // why floe paused it, or why the last refused tick of a workflow was refused
	NextAt         *int64  `json:"next_at"`
	DecidedTo      int64   `json:"decided_to"`
	LastRunID      *string `json:"last_run_id"` // null: none, or of a workflow
	StartedTotal   int64   `json:"started_total"`
	SkippedTotal   int64   `json:"skipped_total"` // because of earlier runs
	MissedTotal    int64   `json:"missed_total"`
	RefusedTotal   int64   `json:"refused_total"` // by the action, or by the schema of the workflow
}

func summarizeSchedule(s action.Schedule) scheduleSummary {
	return scheduleSummary{
		Kind: scheduledAction, Target: s.Action, Name: &s.Name, Cron: s.Spec.Cron, Timezone: s.Spec.Zone,
		IntervalMillis: s.Spec.Every.Milliseconds(), Paused: s.Paused, Note: s.Note, NextAt: givenMillis(s.Next),
		DecidedTo: s.Last.UnixMilli(), LastRunID: given(string(s.LastRun)), StartedTotal: s.Ran, SkippedTotal: s.Skipped,
		MissedTotal: s.Missed, RefusedTotal: s.Refused,
	}
}

// schedulesRequest asks for limit schedules after a position, which starts with their kind.
type schedulesRequest struct {
	namespace    string
	kind, cursor string
	limit        int
}

func (q *schedulesRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.limit = in.listLimit()
	after := in.text("after")
	q.kind, q.cursor, _ = strings.Cut(after, "/")
	switch {
	case after == "":
		q.kind = scheduledAction
	case q.kind != scheduledAction && q.kind != scheduledWorkflow:
		in.invalid("parameter %s is %.64q, it takes the position at which an earlier listing ended", in.called("after"), after)
	}
}

func (h *handler) allSchedules(ctx context.Context, q schedulesRequest) (listing[scheduleSummary], error) {
	page := func(after string, n int) (items []scheduleSummary, next string, err error) {
		kind, cursor, _ := strings.Cut(after, "/")
		if kind == scheduledWorkflow {
			items, next, err = h.flowSchedules(ctx, q.namespace, cursor, n)
			return items, prefixed(scheduledWorkflow+"/", next), err
		}
		page, err := h.backend.Action(q.namespace).Schedules("").Page(ctx, action.Limit(n), action.Cursor(cursor))
		for _, s := range page.Items {
			items = append(items, summarizeSchedule(s))
		}
		if page.Cursor == "" {
			return items, scheduledWorkflow + "/", err
		}
		return items, scheduledAction + "/" + page.Cursor, err
	}
	return collect(q.kind+"/"+q.cursor, q.limit, page, func(s scheduleSummary) scheduleSummary { return s }, nil)
}

// prefixed returns text with a prefix, "" if it is empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// actionSchedulesRequest asks for limit schedules of an action after a position.
type actionSchedulesRequest struct {
	actionRequest
	after string
	limit int
}

func (q *actionSchedulesRequest) parse(in *input) {
	q.actionRequest.parse(in)
	q.after, q.limit = in.text("after"), in.listLimit()
}

func (h *handler) schedules(ctx context.Context, q actionSchedulesRequest) (listing[scheduleSummary], error) {
	store := h.backend.Action(q.namespace)
	if _, err := store.Get(ctx, q.name); err != nil {
		return listing[scheduleSummary]{}, err
	}
	page := func(after string, n int) ([]action.Schedule, string, error) {
		page, err := store.Schedules(q.name).Page(ctx, action.Limit(n), action.Cursor(after))
		return page.Items, page.Cursor, err
	}
	return collect(q.after, q.limit, page, summarizeSchedule, nil)
}

// scheduleRequest names a schedule of an action.
type scheduleRequest struct {
	actionRequest
	schedule string
}

func (q *scheduleRequest) parse(in *input) {
	q.actionRequest.parse(in)
	q.schedule = in.segment("schedule")
}

func (h *handler) schedulesOf(q scheduleRequest) action.Schedules {
	return h.backend.Action(q.namespace).Schedules(q.name)
}

// scheduleDetail is a schedule of an action.
type scheduleDetail struct {
	scheduleSummary
	Anchor         *int64            `json:"anchor_ms"` // null: 1970
	Overlap        string            `json:"overlap"`
	CatchUp        string            `json:"catch_up"`
	CatchUpLimit   int               `json:"catch_up_limit"`
	Input          any               `json:"input"`
	Priority       int               `json:"priority"`
	Labels         map[string]string `json:"labels"`
	ConcurrencyKey string            `json:"concurrency_key"`
	BufferedAt     *int64            `json:"buffered_at"` // tick that waits for the previous run to end
	CreatedAt      int64             `json:"created_at"`
	UpdatedAt      int64             `json:"updated_at"`
	Ticks          []scheduleTick    `json:"ticks"` // the last ones, newest first
}

// scheduleTick is a decided tick of a schedule.
type scheduleTick struct {
	At        *int64  `json:"at"` // null: missed ticks
	DecidedAt int64   `json:"decided_at"`
	Result    string  `json:"result"` // ran, triggered, buffered, skipped, refused or missed
	RunID     *string `json:"run_id"`
	Error     *string `json:"error"`
	Count     int64   `json:"count"` // of missed ticks
}

func (h *handler) schedule(ctx context.Context, q scheduleRequest) (scheduleDetail, error) {
	s, err := h.schedulesOf(q).Get(ctx, q.schedule)
	if err != nil {
		return scheduleDetail{}, err
	}
	d := scheduleDetail{
		scheduleSummary: summarizeSchedule(s), Anchor: givenMillis(s.Spec.Anchor), Overlap: s.Spec.Overlap.String(),
		CatchUp: s.Spec.CatchUp.String(), CatchUpLimit: s.Spec.CatchUpLimit, Input: rawjson.Value(s.Spec.Input), Priority: s.Priority,
		Labels: utf8Text.headers(s.Labels), ConcurrencyKey: s.ConcurrencyKey, BufferedAt: givenMillis(s.Buffered),
		CreatedAt: s.CreatedAt.UnixMilli(), UpdatedAt: s.UpdatedAt.UnixMilli(), Ticks: []scheduleTick{},
	}
	for _, t := range s.Ticks {
		d.Ticks = append(d.Ticks, scheduleTick{givenMillis(t.At), t.DecidedAt.UnixMilli(), t.Result.String(), given(string(t.Run)),
			given(t.Error), t.Count})
	}
	return d, nil
}

// setScheduleRequest has all settings of a schedule; those that are absent get the defaults.
type setScheduleRequest struct {
	scheduleRequest
	spec     action.ScheduleSpec
	priority int
	labels   map[string]string
	key      string // concurrency key, "" if none
}

// Names of the values of settings, by value.
var (
	overlapNames = []string{action.OverlapSkip.String(), action.OverlapBuffer.String(), action.OverlapAllow.String(),
		action.OverlapReplace.String()}
	catchUpNames = []string{action.CatchUpOne.String(), action.CatchUpNone.String(), action.CatchUpAll.String()}
)

func (q *setScheduleRequest) parse(in *input) {
	q.scheduleRequest.parse(in)
	q.priority, q.spec.CatchUpLimit = action.DefaultPriority, action.DefaultCatchUp
	readFields(in, q, (*setScheduleRequest).fields)
}

func (q *setScheduleRequest) fields(f *codec.Fields) {
	s := &q.spec
	f.Text("cron", &s.Cron)
	f.Text("timezone", &s.Zone)
	f.Duration("interval_ms", &s.Every, codec.Range{Max: delayMillis.max})
	f.Time("anchor_ms", &s.Anchor)
	codec.Enum(f, "overlap", &s.Overlap, overlapNames)
	codec.Enum(f, "catch_up", &s.CatchUp, catchUpNames)
	f.Int("catch_up_limit", &s.CatchUpLimit, codec.Range{Min: 1, Max: action.MaxCatchUp})
	jsonField(f, "input", &s.Input)
	f.Int("priority", &q.priority, codec.Range{Max: action.MaxPriority})
	engine.CodePairMap(f, "labels", &q.labels)
	f.Text("concurrency_key", &q.key, codec.Range{Max: action.MaxKeyBytes})
	f.Bool("paused", &s.Paused)
}

func (h *handler) setSchedule(ctx context.Context, q setScheduleRequest) (scheduleDetail, error) {
	opts := []action.ScheduleOption{action.Priority(q.priority), action.Labels(q.labels)}
	if q.key != "" {
		opts = append(opts, action.ConcurrencyKey(q.key))
	}
	if err := h.schedulesOf(q.scheduleRequest).Set(ctx, q.schedule, q.spec, opts...); err != nil {
		return scheduleDetail{}, err
	}
	return h.schedule(ctx, q.scheduleRequest)
}

// scheduleDeleted is the response after a schedule was deleted.
type scheduleDeleted struct {
	OK     bool   `json:"ok"`
	Target string `json:"target"`
	Name   string `json:"name"`
}

func (h *handler) deleteSchedule(ctx context.Context, q scheduleRequest) (scheduleDeleted, error) {
	err := h.schedulesOf(q).Delete(ctx, q.schedule)
	return scheduleDeleted{true, q.name, q.schedule}, err
}

func (h *handler) pauseSchedule(ctx context.Context, q scheduleRequest) (scheduleDetail, error) {
	if err := h.schedulesOf(q).Pause(ctx, q.schedule); err != nil {
		return scheduleDetail{}, err
	}
	return h.schedule(ctx, q)
}

func (h *handler) resumeSchedule(ctx context.Context, q scheduleRequest) (scheduleDetail, error) {
	if err := h.schedulesOf(q).Resume(ctx, q.schedule); err != nil {
		return scheduleDetail{}, err
	}
	return h.schedule(ctx, q)
}

func (h *handler) triggerSchedule(ctx context.Context, q scheduleRequest) (invocation, error) {
	made, err := h.schedulesOf(q).Trigger(ctx, q.schedule)
	return invocation{true, q.name, q.namespace, action.Pending.String(), string(made.Run)}, err
}
