package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/floedb/floe"
	"github.com/floedb/floe/workflow"
)

// workflowDetail is a workflow with its schedule and trigger, in JSON.
type workflowDetail struct {
	workflowText
	Schedule *workflowSchedule `json:"schedule"` // null: none
	Trigger  *workflowTrigger  `json:"trigger"`  // null: none
}

// workflowSchedule is the schedule of a workflow, in JSON.
type workflowSchedule struct {
	Cron          string `json:"cron"`
	Zone          string `json:"zone"`
	EveryMillis   int64  `json:"every_ms"`       // 0: cron expression
	MaxConcurrent int    `json:"max_concurrent"` // 0: no limit
	Paused        bool   `json:"paused"`
	Note          string `json:"note"`
	Next          *int64 `json:"next"`
	Active        int64  `json:"active"`
	Started       int64  `json:"started"`
	Skipped       int64  `json:"skipped"`
	Missed        int64  `json:"missed"`
	Refused       int64  `json:"refused"`
}

// workflowTrigger is the trigger of a workflow, in JSON.
type workflowTrigger struct {
	Stream        string `json:"stream"`
	Namespace     string `json:"namespace"`
	Group         string `json:"consumer_group"`
	Mode          string `json:"mode"`
	BatchSize     int    `json:"batch_size"`
	WaitMillis    int64  `json:"batch_timeout_ms"`
	Start         string `json:"start"`
	MaxConcurrent int    `json:"max_concurrent"` // 0: no limit
	State         string `json:"state"`
	Reason        string `json:"reason"`
	Lag           int64  `json:"lag"`
	Active        int64  `json:"active"`
	Started       int64  `json:"started"`
	Records       int64  `json:"records"`
	Repeated      int64  `json:"repeated"`
	Refused       int64  `json:"refused"`
	Note          string `json:"note"`
}

func newWorkflowText(namespace string, i workflow.Info) workflowText {
	return workflowText{
		Name: i.Name, Namespace: namespace, Version: i.Version, Description: i.Description, Enabled: i.Enabled, Steps: orEmpty(i.Steps),
		Plans: orEmpty(i.Plans), Terminals: orEmpty(i.Terminals), HasSchedule: i.HasSchedule, HasTrigger: i.HasTrigger,
		Runs:      workflowRunsOf(i.Runs),
		CreatedAt: i.CreatedAt.UnixMilli(), UpdatedAt: i.UpdatedAt.UnixMilli(),
	}
}

func newWorkflowDetail(namespace string, i workflow.Info) workflowDetail {
	d := workflowDetail{workflowText: newWorkflowText(namespace, i)}
	if c := i.Schedule; c != nil {
		d.Schedule = &workflowSchedule{
			c.Cron, c.Zone, c.Every.Milliseconds(), c.Most, c.Paused, c.Note, optionalMillis(c.Next), c.Active, c.Started, c.Skipped,
			c.Missed, c.Refused,
		}
	}
	if t := i.Trigger; t != nil {
		d.Trigger = &workflowTrigger{
			t.Stream, t.Namespace, t.Group, string(t.Mode), t.Batch, t.Wait.Milliseconds(), string(t.Start), t.Most, t.State.String(),
			t.Reason, t.Lag, t.Active, t.Started, t.Records,
			t.Repeated, t.Refused, t.Note,
		}
	}
	return d
}

func workflowInfo(ctx context.Context, s *session, args []string) error {
	i, err := s.Workflow(s.namespace).Get(ctx, args[0])
	if err != nil {
		return uncreated(err)
	}
	return s.print(newWorkflowDetail(s.namespace, i), workflowTables(&i)...)
}

// workflowTables returns the tables of a workflow: its properties, schedule and trigger.
func workflowTables(i *workflow.Info) []table {
	r := &i.Runs
	tables := []table{{name: "workflow", head: []string{"WORKFLOW", i.Name}, rows: [][]string{
		{"version", i.Version}, {"description", i.Description}, {"enabled", strconv.FormatBool(i.Enabled)}, {"steps",
			strings.Join(i.Steps, ", ")},
		{"plans", strings.Join(i.Plans, ", ")}, {"active runs", decimal(r.Active)}, {"completed", decimal(r.Completed)}, {"failed",
			decimal(r.Failed)},
		{"cancelled", decimal(r.Cancelled)}, {"timed out", decimal(r.TimedOut)}, {"created", shownTime(i.CreatedAt)}, {"updated",
			shownTime(i.UpdatedAt)},
	}}}
	if c := i.Schedule; c != nil {
		when := strings.TrimSpace(c.Cron + " " + c.Zone)
		if c.Cron == "" {
			when = "every " + shownDuration(c.Every)
		}
		tables = append(tables, table{name: "schedule", head: []string{"SCHEDULE", when}, rows: [][]string{
			{"paused", strconv.FormatBool(c.Paused)}, {"note", c.Note}, {"next", shownOptionalTime(c.Next)}, {"active runs",
				ofMost(c.Active, c.Most)},
			{"started", decimal(c.Started)}, {"skipped", decimal(c.Skipped)}, {"missed", decimal(c.Missed)}, {"refused",
				decimal(c.Refused)},
		}})
	}
	if t := i.Trigger; t != nil {
		tables = append(tables, table{name: "trigger", head: []string{"TRIGGER", "stream " + t.Stream + " of namespace " + t.Namespace},
			rows: [][]string{
				{"group", t.Group}, {"mode", string(t.Mode)}, {"batch", batchOf(t)}, {"begins", string(t.Start)},
				{"state", t.State.String()}, {"reason", t.Reason}, {"lag", decimal(t.Lag)}, {"active runs", ofMost(t.Active, t.Most)},
				{"started", decimal(t.Started)},
				{"records", decimal(t.Records)}, {"repeated", decimal(t.Repeated)}, {"refused", decimal(t.Refused)}, {"note", t.Note},
			}})
	}
	return tables
}

// batchOf describes the batch of records for which one run starts.
func batchOf(t *workflow.TriggerInfo) string {
	if t.Batch == 1 {
		return "1 record"
	}
	return "up to " + strconv.Itoa(t.Batch) + " records, or after " + shownDuration(t.Wait)
}

// ofMost formats a number of runs, with its limit if there is one.
func ofMost(n int64, most int) string {
	if most == 0 {
		return decimal(n)
	}
	return decimal(n) + " of " + strconv.Itoa(most)
}

// versionText is a version of a workflow, in JSON.
type versionText struct {
	Version   string `json:"version"`
	Default   bool   `json:"default"`
	CreatedAt int64  `json:"created_at"`
}

// versionList is the list of a workflow's versions in JSON.
type versionList struct {
	Workflow  string        `json:"workflow"`
	Namespace string        `json:"namespace"`
	Versions  []versionText `json:"versions"`
	Count     int           `json:"count"`
}

var workflowVersionRows = []row{
	{use: "list NAME", short: "List the versions of a workflow, newest first", complete: listers{workflowNames}, run: workflowVersionList},
	{use: "default NAME VERSION", short: "Set the default version of a workflow",
		complete: listers{workflowNames}, run: workflowVersionDefault},
	{use: "remove NAME VERSION", short: "Remove a version of a workflow",
		complete: listers{workflowNames}, asks: "it removes the version", run: workflowVersionRemove},
}

func workflowVersionList(ctx context.Context, s *session, args []string) error {
	all, err := collected(s.Workflow(s.namespace).Versions(args[0]).All(ctx))
	if err != nil {
		return uncreated(err)
	}
	list, t := versionList{args[0], s.namespace, []versionText{},
		len(all)}, table{head: []string{"VERSION", "DEFAULT", "CREATED"}}
	for _, v := range all {
		list.Versions = append(list.Versions, versionText{v.Version, v.Default, v.CreatedAt.UnixMilli()})
		t.rows = append(t.rows, []string{v.Version, strconv.FormatBool(v.Default), shownTime(v.CreatedAt)})
	}
	return s.print(list, t)
}

func workflowVersionDefault(ctx context.Context, s *session, args []string) error {
	if err := s.Workflow(s.namespace).Versions(args[0]).SetDefault(ctx, args[1]); err != nil {
		return err
	}
	return s.printWorkflowDone("DEFAULT", args[0])
}

func workflowVersionRemove(ctx context.Context, s *session, args []string) error {
	if err := s.Workflow(s.namespace).Versions(args[0]).Delete(ctx, args[1]); err != nil {
		return err
	}
	return s.printWorkflowDone("REMOVED", args[0])
}

var workflowScheduleRows = []row{
	{use: "pause NAME", short: "Pause the schedule of a workflow", complete: listers{workflowNames},
		run: onWorkflowSchedule("PAUSED", workflow.Schedule.Pause)},
	{use: "resume NAME", short: "Resume a workflow's schedule without missed ticks", complete: listers{workflowNames},
		run: onWorkflowSchedule("RESUMED", workflow.Schedule.Resume)},
}

// unscheduled adds a hint to the error for a missing workflow or schedule.
func unscheduled(err error) error {
	if errors.Is(err, floe.ErrNotFound) {
		return &hintedError{err, "floe workflow list shows which workflows have a schedule"}
	}
	return err
}

// onWorkflowSchedule returns the run of a command that changes the schedule of a workflow.
func onWorkflowSchedule(head string, do func(workflow.Schedule, context.Context) error) runFunc {
	return func(ctx context.Context, s *session, args []string) error {
		if err := do(s.Workflow(s.namespace).Schedule(args[0]), ctx); err != nil {
			return unscheduled(err)
		}
		return s.printWorkflowDone(head, args[0])
	}
}
