package dashboard

import (
	"context"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/workflow"
)

const (
	flowStartsPath   = "/api/v1/console/workflows/:name"
	flowSchedulePath = definitionsPath + "/:name/schedule"
)

// flowStartRoutes are the routes of schedules and triggers of workflows. The API specification has
// no paths for them.
var flowStartRoutes = []route{
	endpoint("GET "+flowStartsPath, (*handler).flowStarts, "Get the state of a workflow's schedule and trigger."),
	endpoint("GET "+flowSchedulePath, (*handler).flowSchedule, "Get the schedule of a workflow, which its definition sets."),
	endpoint("PUT "+flowSchedulePath+"/pause", (*handler).pauseFlowSchedule, "Pause the schedule of a workflow. Its runs continue."),
	endpoint("PUT "+flowSchedulePath+"/resume", (*handler).resumeFlowSchedule, "Resume the schedule of a workflow with its next tick."),
}

// flowStarts is the schedule and trigger of a workflow; null for one it does not have.
type flowStarts struct {
	Name      string        `json:"name"`
	Namespace string        `json:"namespace"`
	Schedule  *flowSchedule `json:"schedule"`
	Trigger   *flowTrigger  `json:"trigger"`
}

// flowSchedule is the schedule of a workflow, with its state. It has a cron expression or an
// interval.
type flowSchedule struct {
	Cron           string `json:"cron"`
	Timezone       string `json:"timezone"`
	IntervalMillis int64  `json:"interval_ms"`
	MaxConcurrent  int    `json:"max_concurrent"` // 0: no limit
	Paused         bool   `json:"paused"`
	Note           string `json:"note"`        // why floe paused it, or why the last refused tick was refused
	NextAt         *int64 `json:"next_at"`     // null: none, or not known yet
	DecidedTo      int64  `json:"decided_to"`  // ticks up to this time are decided
	ActiveRuns     int64  `json:"active_runs"` // active runs that it has started
	StartedTotal   int64  `json:"started_total"`
	SkippedTotal   int64  `json:"skipped_total"` // because max_concurrent runs were active
	MissedTotal    int64  `json:"missed_total"`
	RefusedTotal   int64  `json:"refused_total"` // by the workflow's schema
}

// flowTrigger is the trigger of a workflow, with its state.
type flowTrigger struct {
	Stream        string `json:"stream"`
	Namespace     string `json:"namespace"`
	ConsumerGroup string `json:"consumer_group"`
	Mode          string `json:"mode"`
	BatchSize     int    `json:"batch_size"`
	BatchTimeout  int64  `json:"batch_timeout_ms"`
	Start         string `json:"start"`          // latest or earliest
	MaxConcurrent int    `json:"max_concurrent"` // 0: no limit
	State         string `json:"state"`          // starting, waiting, active or paused
	Reason        string `json:"reason"`
	Lag           int64  `json:"lag"`
	ActiveRuns    int64  `json:"active_runs"`
	StartedTotal  int64  `json:"started_total"` // batches
	RecordsTotal  int64  `json:"records_total"`
	RepeatedTotal int64  `json:"repeated_total"`
	RefusedTotal  int64  `json:"refused_total"`
	Note          string `json:"note"` // reason of the last refused batch
}

func (h *handler) flowStarts(ctx context.Context, q definitionRequest) (flowStarts, error) {
	i, err := h.backend.Workflow(q.namespace).Get(ctx, q.name)
	if err != nil {
		return flowStarts{}, err
	}
	return newFlowStarts(q, &i), nil
}

func newFlowStarts(q definitionRequest, i *workflow.Info) flowStarts {
	s := flowStarts{Name: q.name, Namespace: q.namespace}
	if c := i.Schedule; c != nil {
		s.Schedule = &flowSchedule{
			c.Cron, c.Zone, c.Every.Milliseconds(), c.Most, c.Paused, c.Note, givenMillis(c.Next), c.Last.UnixMilli(), c.Active, c.Started,
			c.Skipped, c.Missed, c.Refused,
		}
	}
	if t := i.Trigger; t != nil {
		s.Trigger = &flowTrigger{
			t.Stream, t.Namespace, t.Group, string(t.Mode), t.Batch, t.Wait.Milliseconds(), string(t.Start), t.Most, t.State.String(),
			t.Reason, t.Lag, t.Active, t.Started, t.Records,
			t.Repeated, t.Refused, t.Note,
		}
	}
	return s
}

func (h *handler) flowSchedule(ctx context.Context, q definitionRequest) (flowSchedule, error) {
	starts, err := h.flowStarts(ctx, q)
	if err == nil && starts.Schedule == nil {
		err = engine.Errorf(engine.ErrNotFound, "workflow %q has no schedule", q.name)
	}
	if err != nil {
		return flowSchedule{}, err
	}
	return *starts.Schedule, nil
}

func (h *handler) pauseFlowSchedule(ctx context.Context, q definitionRequest) (flowSchedule, error) {
	return h.turnFlowSchedule(ctx, q, workflow.Schedule.Pause)
}

func (h *handler) resumeFlowSchedule(ctx context.Context, q definitionRequest) (flowSchedule, error) {
	return h.turnFlowSchedule(ctx, q, workflow.Schedule.Resume)
}

// turnFlowSchedule pauses or resumes a schedule, and returns its new state.
func (h *handler) turnFlowSchedule(ctx context.Context, q definitionRequest,
	turn func(workflow.Schedule, context.Context) error) (flowSchedule, error) {
	if err := turn(h.backend.Workflow(q.namespace).Schedule(q.name), ctx); err != nil {
		return flowSchedule{}, err
	}
	return h.flowSchedule(ctx, q)
}

func summarizeFlowSchedule(name string, s *workflow.ScheduleInfo) scheduleSummary {
	return scheduleSummary{
		Kind: scheduledWorkflow, Target: name, Cron: s.Cron, Timezone: s.Zone, IntervalMillis: s.Every.Milliseconds(), Paused: s.Paused,
		Note: s.Note, NextAt: givenMillis(s.Next), DecidedTo: s.Last.UnixMilli(), StartedTotal: s.Started, SkippedTotal: s.Skipped,
		MissedTotal: s.Missed, RefusedTotal: s.Refused,
	}
}

// flowSchedules returns up to n schedules of a page of workflows, and the name of the workflow
// after which the next page starts, "" if none follows.
func (h *handler) flowSchedules(ctx context.Context, namespace, after string, n int) (items []scheduleSummary, next string, err error) {
	page, err := h.backend.Workflow(namespace).Page(ctx, workflow.Limit(maxPage), workflow.Cursor(after))
	if err != nil {
		return nil, "", err
	}
	for i, w := range page.Items {
		if w.Schedule == nil {
			continue
		}
		if len(items) == n {
			return items, page.Items[i-1].Name, nil
		}
		items = append(items, summarizeFlowSchedule(w.Name, w.Schedule))
	}
	return items, page.Cursor, nil
}
