package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe/internal/rawjson"
	"github.com/floedb/floe/workflow"
)

// flowsOf returns the workflows of a run's namespace: the one given by flag, else the one in the
// run's id.
func (s *session) flowsOf(cmd *cobra.Command, id string) *workflow.Store {
	if own, ok := workflow.RunID(id).Namespace(); ok && !cmd.Flags().Changed("namespace") {
		s.namespace = own
	}
	return s.Workflow(s.namespace)
}

// runStarted is the run created by a start.
type runStarted struct {
	OK        bool   `json:"ok"`
	Workflow  string `json:"workflow"`
	Namespace string `json:"namespace"`
	RunID     string `json:"run_id"`
	Status    string `json:"status"`
	Duplicate bool   `json:"duplicate"` // an earlier start with the same key has created it
}

func workflowStart(f *frame, cmd *cobra.Command) prepare {
	flags := cmd.Flags()
	version := flags.String("version", "", "version of the workflow (default the newest)")
	key := flags.String("idempotency-key", "", "idempotency key: no second run with the same key")
	id := flags.String("run-id", "", "unique ID of the run (default generated)")
	wait := flags.Bool("wait", false, "wait until the run has ended, and print its output")
	return func(args []string) (callFunc, error) {
		var opts []workflow.StartOption
		if flags.Changed("version") {
			opts = append(opts, workflow.Version(*version))
		}
		if flags.Changed("idempotency-key") {
			opts = append(opts, workflow.IdempotencyKey(*key))
		}
		if flags.Changed("run-id") {
			opts = append(opts, workflow.UseID(workflow.RunID(*id)))
		}
		input, err := f.optionalPayload(cmd, "JSON", args[1:])
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			started, err := s.Workflow(s.namespace).Start(ctx, args[0], input, opts...)
			if err != nil {
				return uncreated(err)
			}
			if *wait {
				return s.awaitFlow(ctx, started.Run)
			}
			return s.print(
				runStarted{true, args[0], s.namespace, string(started.Run), started.Status.String(), started.Duplicate},
				table{head: []string{"WORKFLOW", "RUN", "STATUS", "DUPLICATE"},
					rows: [][]string{{args[0], string(started.Run), started.Status.String(), strconv.FormatBool(started.Duplicate)}}},
			)
		}, nil
	}
}

// optionalPayload is payload for an optional argument.
func (f *frame) optionalPayload(cmd *cobra.Command, what string, args []string) ([]byte, error) {
	if len(args) == 0 {
		return nil, nil
	}
	return f.payload(cmd, what, args)
}

// awaitFlow waits until a run ends and prints its output. It returns an error if the run does not
// complete.
func (s *session) awaitFlow(ctx context.Context, id workflow.RunID) error {
	run, err := s.Workflow(s.namespace).Wait(ctx, id)
	hint := "see floe workflow status " + string(id)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &hintedError{fmt.Errorf("run %s has not ended yet: %w", id, err), hint + ", or wait longer with --timeout"}
	case err != nil:
		return err
	case run.Status != workflow.Completed:
		return &hintedError{fmt.Errorf("run %s is %s: %s", id, run.Status, run.Error), hint}
	}
	return s.printValue(newFlowDetail(s.namespace, &run), run.Output)
}

// flowText is a run in a listing, in JSON.
type flowText struct {
	RunID          string         `json:"run_id"`
	Workflow       string         `json:"workflow"`
	Namespace      string         `json:"namespace"`
	Version        string         `json:"version"`
	Status         string         `json:"status"`
	TriggeredBy    string         `json:"triggered_by"`
	CurrentStep    string         `json:"current_step"`
	Error          string         `json:"error"`
	Code           string         `json:"code"`
	IdempotencyKey string         `json:"idempotency_key"`
	Parent         string         `json:"parent"`
	Attributes     map[string]any `json:"attributes"`
	Events         int64          `json:"events"`
	StartedAt      int64          `json:"started_at"`
	CompletedAt    *int64         `json:"completed_at"`

	CompensationsFailed int64 `json:"compensations_failed"`
}

func newFlowText(namespace string, r *workflow.RunInfo) flowText {
	attributes := make(map[string]any)
	for name, value := range r.Attributes {
		if t, ok := value.(time.Time); ok {
			value = t.UnixMilli()
		}
		attributes[name] = value
	}
	return flowText{
		RunID: string(r.ID), Workflow: r.Workflow, Namespace: namespace, Version: r.Version, Status: r.Status.String(),
		TriggeredBy: r.TriggeredBy,
		CurrentStep: r.CurrentStep, Error: r.Error, Code: r.Code, IdempotencyKey: r.IdempotencyKey, Parent: string(r.Parent),
		Attributes: attributes,
		Events:     r.Events, StartedAt: r.StartedAt.UnixMilli(), CompletedAt: optionalMillis(r.CompletedAt),
		CompensationsFailed: r.CompensationsFailed,
	}
}

// flowDetail is a run with its details, in JSON.
type flowDetail struct {
	flowText
	Waits   string       `json:"waits"`
	Due     *int64       `json:"due_at"`
	Input   any          `json:"input"`
	Output  any          `json:"output"`
	Steps   []flowStep   `json:"steps"`
	Signals []flowSignal `json:"pending_signals"`
}

// flowStep is the latest visit to a step, in JSON.
type flowStep struct {
	Step        string `json:"step"`
	Outcome     string `json:"outcome"`
	Attempts    int    `json:"attempts"`
	Output      any    `json:"output"`
	Error       string `json:"error"`
	Code        string `json:"code"`
	StartedAt   int64  `json:"started_at"`
	CompletedAt int64  `json:"completed_at"`
}

// flowSignal is a pending signal in JSON.
type flowSignal struct {
	Type       string `json:"type"`
	Payload    any    `json:"payload"`
	ReceivedAt int64  `json:"received_at"`
}

func newFlowDetail(namespace string, r *workflow.Run) flowDetail {
	d := flowDetail{
		flowText: newFlowText(namespace, &r.RunInfo), Waits: r.Waits, Due: optionalMillis(r.Due), Input: rawjson.Value(r.Input),
		Output: rawjson.Value(r.Output),
		Steps:  []flowStep{}, Signals: []flowSignal{},
	}
	for _, s := range r.Steps {
		d.Steps = append(d.Steps, flowStep{s.Step, s.Outcome, s.Attempts, rawjson.Value(s.Output), s.Error, s.Code, s.StartedAt.UnixMilli(),
			s.CompletedAt.UnixMilli()})
	}
	for _, s := range r.Signals {
		d.Signals = append(d.Signals, flowSignal{s.Type, rawjson.Value(s.Payload), s.ReceivedAt.UnixMilli()})
	}
	return d
}

func workflowStatus(_ *frame, cmd *cobra.Command) prepare {
	return unchecked(func(ctx context.Context, s *session, args []string) error {
		r, err := s.flowsOf(cmd, args[0]).Runs().Get(ctx, workflow.RunID(args[0]))
		if err != nil {
			return err
		}
		return s.print(newFlowDetail(s.namespace, &r), s.flowTables(&r)...)
	})
}

// flowTables returns the tables of a run, its steps and its pending signals.
func (s *session) flowTables(r *workflow.Run) []table {
	steps := table{name: "step", head: []string{"STEP", "OUTCOME", "ATTEMPTS", "STARTED", "COMPLETED", "ERROR", "OUTPUT"}}
	for _, st := range r.Steps {
		steps.rows = append(steps.rows, []string{
			st.Step, st.Outcome, strconv.Itoa(st.Attempts), shownTime(st.StartedAt), shownTime(st.CompletedAt), st.Error, s.cell(st.Output),
		})
	}
	signals := table{name: "signal", head: []string{"PENDING SIGNAL", "RECEIVED", "PAYLOAD"}}
	for _, p := range r.Signals {
		signals.rows = append(signals.rows, []string{p.Type, shownTime(p.ReceivedAt), s.cell(p.Payload)})
	}
	waits := r.Waits
	if !r.Due.IsZero() {
		waits += ", until " + shownTime(r.Due)
	}
	tables := []table{{name: "run", head: []string{"RUN", string(r.ID)}, rows: [][]string{
		{"workflow", r.Workflow}, {"version", r.Version}, {"status", r.Status.String()}, {"step", r.CurrentStep}, {"waits for",
			waits}, {"error", r.Error},
		{"code", r.Code}, {"triggered by", r.TriggeredBy}, {"started", shownTime(r.StartedAt)}, {"completed",
			shownOptionalTime(r.CompletedAt)},
		{"idempotency key", r.IdempotencyKey}, {"events", decimal(r.Events)}, {"input", s.cell(r.Input)}, {"output", s.cell(r.Output)},
	}}}
	if r.Parent != "" {
		tables[0].rows = append(tables[0].rows, []string{"parent", string(r.Parent)})
	}
	if r.CompensationsFailed > 0 {
		tables[0].rows = append(tables[0].rows, []string{"uncompensated", decimal(r.CompensationsFailed)})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Attributes)) {
		tables[0].rows = append(tables[0].rows, []string{"attribute " + name, shownAttribute(r.Attributes[name])})
	}
	for _, t := range []table{steps, signals} {
		if len(t.rows) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

// shownAttribute formats the value of a search attribute.
func shownAttribute(value any) string {
	if t, ok := value.(time.Time); ok {
		return shownTime(t)
	}
	return fmt.Sprint(value)
}

// eventText is an event of a run's history, in JSON.
type eventText struct {
	Type    string `json:"event_type"`
	Step    string `json:"step_name"`
	At      int64  `json:"timestamp_ms"`
	Attempt int    `json:"attempt"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail"`
}

// eventList is the history of a run, in JSON.
type eventList struct {
	RunID     string      `json:"run_id"`
	Namespace string      `json:"namespace"`
	Events    []eventText `json:"events"`
	Count     int         `json:"count"`
}

func workflowHistory(_ *frame, cmd *cobra.Command) prepare {
	return unchecked(func(ctx context.Context, s *session, args []string) error {
		row := func(e workflow.Event) []string {
			attempt := ""
			if e.Attempt > 0 {
				attempt = strconv.Itoa(e.Attempt)
			}
			return []string{shownTime(e.At), e.Type.String(), e.Step, attempt, e.Outcome, e.Detail}
		}
		document := func(e workflow.Event) eventText {
			return eventText{e.Type.String(), e.Step, e.At.UnixMilli(), e.Attempt, e.Outcome, e.Detail}
		}
		head := []string{"TIME", "EVENT", "STEP", "ATTEMPT", "OUTCOME", "DETAIL"}
		events := s.flowsOf(cmd, args[0]).History(workflow.RunID(args[0])).All(ctx, workflow.Limit(workflow.MaxPageItems))
		return printEach(s.output, events, head, document, row,
			func(list []eventText) any { return eventList{args[0], s.namespace, list, len(list)} })
	})
}

// flowList is a list of runs in JSON.
type flowList struct {
	Namespace string     `json:"namespace"`
	Runs      []flowText `json:"runs"`
	Count     int        `json:"count"`
}

// changeRun calls do, which changes a run, and prints the run's new state.
func (s *session) changeRun(id string, store *workflow.Store, do func(*workflow.Store) (workflow.Status, error)) error {
	status, err := do(store)
	if err != nil {
		return err
	}
	return s.print(runDone{true, id, s.namespace, status.String()},
		table{head: []string{"RUN", "STATUS"}, rows: [][]string{{id, status.String()}}})
}

func workflowSignal(f *frame, cmd *cobra.Command) prepare {
	return func(args []string) (callFunc, error) {
		payload, err := f.optionalPayload(cmd, "JSON", args[2:])
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			return s.changeRun(args[0], s.flowsOf(cmd, args[0]), func(flows *workflow.Store) (workflow.Status, error) {
				return flows.Signal(ctx, workflow.RunID(args[0]), args[1], payload)
			})
		}, nil
	}
}

func workflowCancel(_ *frame, cmd *cobra.Command) prepare {
	reason := cmd.Flags().String("reason", "", "reason, shown with the run")
	return unchecked(func(ctx context.Context, s *session, args []string) error {
		return s.changeRun(args[0], s.flowsOf(cmd, args[0]), func(flows *workflow.Store) (workflow.Status, error) {
			return flows.Cancel(ctx, workflow.RunID(args[0]), *reason)
		})
	})
}

func workflowRetry(f *frame, cmd *cobra.Command) prepare {
	flags := cmd.Flags()
	step := flags.String("from-step", "", "step to resume at (default the failed one)")
	input := flags.String("input", "", "input of that step: JSON, @FILE or - (default that of the definition)")
	return func(args []string) (callFunc, error) {
		var opts []workflow.RetryOption
		if flags.Changed("from-step") {
			opts = append(opts, workflow.FromStep(*step))
		}
		if flags.Changed("input") {
			b, err := f.payload(cmd, "--input", []string{*input})
			if err != nil {
				return nil, err
			}
			opts = append(opts, workflow.ReplaceInput(b))
		}
		return func(ctx context.Context, s *session) error {
			return s.changeRun(args[0], s.flowsOf(cmd, args[0]), func(flows *workflow.Store) (workflow.Status, error) {
				return flows.Retry(ctx, workflow.RunID(args[0]), opts...)
			})
		}, nil
	}
}

func workflowRuns(f *frame, cmd *cobra.Command) prepare {
	limit, status := int64(defaultMessages), workflow.Status(0)
	flags := cmd.Flags()
	of := flags.String("workflow", "", "only runs of this workflow")
	flags.Var(newFlag(&status, "state", flowStatus), "status",
		"only this status: pending, running, waiting, completed, failed, cancelled or timed_out")
	var attributes []attributeIs
	var since, until time.Time
	addAttribute := func(v string) ([]attributeIs, error) {
		a, err := parseAttribute(v)
		return append(slices.Clip(attributes), a), err
	}
	flags.Var(newFlag(&attributes, "NAME=VALUE", addAttribute), "attribute",
		`only runs with this search attribute: a number, an RFC 3339 time, or text, which may be quoted; repeatable`)
	flags.Var(newFlag(&since, "time", parseTime), "since",
		"only runs started at or after this time: ms since the epoch, RFC 3339, now or -1h")
	flags.Var(newFlag(&until, "time", parseTime), "until", "only runs started before this time")
	flags.Var(newFlag(&limit, "n", count(1)), "limit", "maximum number of results (default 100)")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(
		[]string{"pending", "running", "waiting", "completed", "failed", "cancelled", "timed_out"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("workflow", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return f.completing(&cobra.Command{}, workflowNames).ValidArgsFunction(cmd, nil, begun)
	})
	return func([]string) (callFunc, error) {
		if err := ordered(cmd, "since", since, "until", until); err != nil {
			return nil, err
		}
		opts := []workflow.RunOption{workflow.Limit(int(min(limit, workflow.MaxPageItems)))}
		if flags.Changed("workflow") {
			opts = append(opts, workflow.Of(*of))
		}
		if status != 0 {
			opts = append(opts, workflow.InState(status))
		}
		for _, a := range attributes {
			opts = append(opts, workflow.Has(a.name, a.value))
		}
		if !since.IsZero() || !until.IsZero() {
			opts = append(opts, workflow.StartedBetween(since, until))
		}
		return func(ctx context.Context, s *session) error {
			row := func(r workflow.RunInfo) []string {
				return []string{
					string(r.ID), r.Workflow, r.Version, r.Status.String(), r.CurrentStep, r.TriggeredBy, shownTime(r.StartedAt),
					shownOptionalTime(r.CompletedAt),
					decimal(r.CompensationsFailed), r.Error,
				}
			}
			head := []string{"RUN", "WORKFLOW", "VERSION", "STATUS", "STEP", "TRIGGERED BY", "STARTED", "COMPLETED", "UNCOMPENSATED",
				"ERROR"}
			document := func(r workflow.RunInfo) flowText { return newFlowText(s.namespace, &r) }
			return printEach(s.output, first(s.Workflow(s.namespace).Runs().All(ctx, opts...), limit), head, document, row,
				func(list []flowText) any { return flowList{s.namespace, list, len(list)} })
		}, nil
	}
}

// attributeIs is a search attribute with a value.
type attributeIs struct {
	name  string
	value any
}

func parseAttribute(v string) (a attributeIs, err error) {
	name, value, ok := strings.Cut(v, "=")
	if !ok || name == "" {
		return a, errors.New("not NAME=VALUE")
	}
	return attributeIs{name, workflow.AttributeValue(value)}, nil
}

func flowStatus(v string) (status workflow.Status, err error) {
	if status, err = workflow.ParseStatus(v); err != nil {
		return 0, errors.New("not one of pending, running, waiting, completed, failed, cancelled, timed_out")
	}
	return status, nil
}

// flowIDs lists the newest runs of the namespace for completion.
func flowIDs(ctx context.Context, s *session, _ []string, _ string) (ids []string, err error) {
	page, err := s.Workflow(s.namespace).Runs().Page(ctx, workflow.Limit(workflow.MaxPageItems))
	for _, r := range page.Items {
		ids = append(ids, string(r.ID))
	}
	return ids, err
}
