package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/rawjson"
)

var scheduleRows = []row{
	{use: "set ACTION NAME [JSON]", short: "Create or change a schedule of an action",
		complete: listers{actionNames, scheduleNames, nil}, flags: scheduleSet,
		long: `Create or replace a schedule, which runs an action at the times of a cron expression or in
intervals. An equal schedule is left unchanged. JSON is the input of the runs: the argument
itself, the content of a file as @FILE, or stdin as -. Without it the input is null.

A cron expression has five fields (minute, hour, day of month, month, day of week), six with
seconds in front, or is @yearly, @monthly, @weekly, @daily or @hourly. When clocks change, a
skipped time runs at the first instant after it, and a repeated time runs once; expressions
of every hour follow real time.`,
		example: `  floe action schedule set report nightly --cron '0 2 * * *' --zone Europe/Berlin
  floe action schedule set sync quarterly --every 15m --overlap buffer '{"full":false}'
  floe action schedule set bill monthly --cron '0 6 L * *' --catch-up all`},
	{use: "info ACTION NAME", short: "Show a schedule and its last ticks",
		complete: listers{actionNames, scheduleNames}, run: scheduleInfo},
	{use: "list [ACTION]", short: "List schedules", complete: listers{actionNames}, flags: scheduleList},
	{use: "pause ACTION NAME", short: "Pause a schedule", complete: listers{actionNames, scheduleNames},
		run: onSchedule("PAUSED", action.Schedules.Pause)},
	{use: "resume ACTION NAME", short: "Resume a schedule", complete: listers{actionNames, scheduleNames},
		run: onSchedule("RESUMED", action.Schedules.Resume)},
	{use: "trigger ACTION NAME", short: "Start a run of a schedule now",
		complete: listers{actionNames, scheduleNames}, run: scheduleTrigger},
	{use: "delete ACTION NAME", short: "Delete a schedule", complete: listers{actionNames, scheduleNames},
		run: onSchedule("DELETED", action.Schedules.Delete)},
}

func scheduleSet(f *frame, cmd *cobra.Command) prepare {
	var spec action.ScheduleSpec
	priority := action.DefaultPriority
	flags := cmd.Flags()
	flags.StringVar(&spec.Cron, "cron", "", "cron expression")
	flags.StringVar(&spec.Zone, "zone", "", "time zone of --cron, such as Europe/Berlin (default UTC)")
	flags.Var(newFlag(&spec.Every, "duration", positiveDuration), "every", "interval, at least 1s")
	flags.Var(newFlag(&spec.Anchor, "time", anchorOf), "anchor", "start of the intervals of --every (default 1970-01-01T00:00:00Z)")
	flags.Var(newFlag(&spec.Overlap, "policy", overlapOf), "overlap",
		"overlap policy: skip, buffer, allow or replace (default skip)")
	flags.Var(newFlag(&spec.CatchUp, "rule", catchUpOf), "catch-up", "missed ticks to run: one, none or all (default one)")
	flags.Var(newFlag(&spec.CatchUpLimit, "n", within(1, action.MaxCatchUp)), "catch-up-limit",
		"maximum number of runs of --catch-up all (default 100)")
	flags.Var(newFlag(&priority, "n", within(0, action.MaxPriority)), "priority", "priority, 0 to 255, lower is more urgent (default 100)")
	concurrency := flags.String("concurrency-key", "", "key for --max-running-per-key and fair ordering")
	var labels map[string]string
	addLabel := func(v string) (map[string]string, error) { return withHeader(labels, v) }
	flags.Var(newFlag(&labels, "k=v", addLabel), "label", "label that the worker must have; repeatable")
	flags.BoolVar(&spec.Paused, "paused", false, "create the schedule paused")
	for name, values := range map[string][]string{"overlap": {"skip", "buffer", "allow", "replace"}, "catch-up": {"one", "none", "all"}} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return func(args []string) (callFunc, error) {
		if flags.Changed("catch-up-limit") && spec.CatchUp != action.CatchUpAll {
			return nil, &usageError{errors.New("--catch-up-limit: is only for --catch-up all"), helpHint(cmd)}
		}
		opts := []action.ScheduleOption{action.Priority(priority), action.Labels(labels)}
		if flags.Changed("concurrency-key") {
			opts = append(opts, action.ConcurrencyKey(*concurrency))
		}
		if len(args) > 2 {
			var err error
			if spec.Input, err = f.payload(cmd, "JSON", args[2:]); err != nil {
				return nil, err
			}
		}
		return func(ctx context.Context, s *session) error {
			if err := s.Action(s.namespace).Schedules(args[0]).Set(ctx, args[1], spec, opts...); err != nil {
				return unregistered(err, args[0])
			}
			return s.printScheduleDone("SCHEDULE", args[0], args[1])
		}, nil
	}
}

func anchorOf(v string) (time.Time, error) {
	t, err := parseTime(v)
	if err != nil {
		return t, errors.New("not a time such as 2025-11-21T16:00:00Z")
	}
	return t, nil
}

func overlapOf(v string) (o action.Overlap, err error) {
	if o, err = action.ParseOverlap(v); err != nil {
		return 0, errors.New("not one of skip, buffer, allow, replace")
	}
	return o, nil
}

func catchUpOf(v string) (c action.CatchUp, err error) {
	if c, err = action.ParseCatchUp(v); err != nil {
		return 0, errors.New("not one of one, none, all")
	}
	return c, nil
}

// scheduleDone is the result of a change to a schedule that has no other result.
type scheduleDone struct {
	OK        bool   `json:"ok"`
	Action    string `json:"action"`
	Schedule  string `json:"schedule"`
	Namespace string `json:"namespace"`
}

func (s *session) printScheduleDone(head, of, name string) error {
	return s.print(scheduleDone{true, of, name, s.namespace}, table{head: []string{"ACTION", head}, rows: [][]string{{of, name}}})
}

// scheduleText is a schedule in JSON.
type scheduleText struct {
	Action         string            `json:"action"`
	Name           string            `json:"name"`
	Namespace      string            `json:"namespace"`
	Cron           string            `json:"cron"`
	Zone           string            `json:"zone"`
	EveryMillis    int64             `json:"every_ms"` // 0: cron expression
	Anchor         *int64            `json:"anchor"`
	Overlap        string            `json:"overlap"`
	CatchUp        string            `json:"catch_up"`
	CatchUpLimit   int               `json:"catch_up_limit"`
	Input          any               `json:"input"`
	Priority       int               `json:"priority"`
	Labels         map[string]string `json:"labels"`
	ConcurrencyKey string            `json:"concurrency_key"`
	Paused         bool              `json:"paused"`
	Note           string            `json:"note"`
	Next           *int64            `json:"next"`
	Buffered       *int64            `json:"buffered"` // the tick that waits for the previous run to end
	LastRun        string            `json:"last_run"`
	Ran            int64             `json:"ran"`
	Skipped        int64             `json:"skipped"`
	Missed         int64             `json:"missed"`
	Refused        int64             `json:"refused"`
	Ticks          []tickText        `json:"ticks"` // newest first
	CreatedAt      int64             `json:"created_at"`
	UpdatedAt      int64             `json:"updated_at"`
}

// tickText is the result of a tick in JSON.
type tickText struct {
	At        *int64 `json:"at"` // nil: missed ticks
	DecidedAt int64  `json:"decided_at"`
	Result    string `json:"result"`
	RunID     string `json:"run_id"`
	Error     string `json:"error"`
	Count     int64  `json:"count"`
}

func newScheduleText(namespace string, s action.Schedule) scheduleText {
	t := scheduleText{
		Action: s.Action, Name: s.Name, Namespace: namespace, Cron: s.Spec.Cron, Zone: s.Spec.Zone,
		EveryMillis: s.Spec.Every.Milliseconds(),
		Anchor:      optionalMillis(s.Spec.Anchor), Overlap: s.Spec.Overlap.String(), CatchUp: s.Spec.CatchUp.String(),
		CatchUpLimit: s.Spec.CatchUpLimit,
		Input:        rawjson.Value(s.Spec.Input), Priority: s.Priority, Labels: s.Labels, ConcurrencyKey: s.ConcurrencyKey,
		Paused: s.Paused,
		Note:   s.Note,
		Next:   optionalMillis(s.Next), Buffered: optionalMillis(s.Buffered), LastRun: string(s.LastRun), Ran: s.Ran, Skipped: s.Skipped,
		Missed:  s.Missed,
		Refused: s.Refused, Ticks: []tickText{}, CreatedAt: s.CreatedAt.UnixMilli(), UpdatedAt: s.UpdatedAt.UnixMilli(),
	}
	for _, tick := range s.Ticks {
		t.Ticks = append(t.Ticks, tickText{optionalMillis(tick.At), tick.DecidedAt.UnixMilli(), tick.Result.String(), string(tick.Run),
			tick.Error, tick.Count})
	}
	return t
}

// whenOf describes in a word or two when a schedule runs.
func whenOf(s action.ScheduleSpec) string {
	if s.Cron == "" {
		return "every " + shownDuration(s.Every)
	}
	return strings.TrimSpace(s.Cron + " " + s.Zone)
}

func scheduleInfo(ctx context.Context, s *session, args []string) error {
	found, err := s.Action(s.namespace).Schedules(args[0]).Get(ctx, args[1])
	if err != nil {
		return err
	}
	rows := [][]string{
		{"action", found.Action}, {"when", whenOf(found.Spec)}, {"overlap", found.Spec.Overlap.String()}, {"catch-up",
			found.Spec.CatchUp.String()},
		{"paused", strconv.FormatBool(found.Paused)}, {"note", found.Note}, {"next", shownOptionalTime(found.Next)},
		{"ran", decimal(found.Ran)}, {"skipped", decimal(found.Skipped)}, {"missed", decimal(found.Missed)}, {"refused",
			decimal(found.Refused)},
		{"last run", string(found.LastRun)}, {"input", s.cell(found.Spec.Input)},
	}
	ticks := table{head: []string{"TICK", "RESULT", "DECIDED", "RUN", "ERROR"}}
	for _, t := range found.Ticks {
		result := t.Result.String()
		if t.Count > 1 {
			result += " " + decimal(t.Count)
		}
		ticks.rows = append(ticks.rows,
			[]string{shownOptionalTime(t.At), result, shownTime(t.DecidedAt), string(t.Run), t.Error})
	}
	return s.print(newScheduleText(s.namespace, found), table{head: []string{"SCHEDULE", found.Name}, rows: rows}, ticks)
}

// schedulesText is the list of a namespace's schedules in JSON.
type schedulesText struct {
	Namespace string         `json:"namespace"`
	Schedules []scheduleText `json:"schedules"`
	Count     int            `json:"count"`
}

func scheduleList(_ *frame, cmd *cobra.Command) prepare {
	return func(args []string) (callFunc, error) {
		of := ""
		if len(args) > 0 {
			of = args[0]
		}
		return func(ctx context.Context, s *session) error {
			document := func(i action.Schedule) scheduleText { return newScheduleText(s.namespace, i) }
			row := func(i action.Schedule) []string {
				return []string{
					i.Action, i.Name, whenOf(i.Spec), strconv.FormatBool(i.Paused), shownOptionalTime(i.Next), decimal(i.Ran),
					decimal(i.Skipped),
					decimal(i.Missed), decimal(i.Refused),
				}
			}
			head := []string{"ACTION", "SCHEDULE", "WHEN", "PAUSED", "NEXT", "RAN", "SKIPPED", "MISSED", "REFUSED"}
			return printEach(s.output, s.Action(s.namespace).Schedules(of).All(ctx), head, document, row,
				func(list []scheduleText) any { return schedulesText{s.namespace, list, len(list)} })
		}, nil
	}
}

// onSchedule returns the run of a command that changes a schedule.
func onSchedule(head string, do func(action.Schedules, context.Context, string) error) runFunc {
	return func(ctx context.Context, s *session, args []string) error {
		if err := do(s.Action(s.namespace).Schedules(args[0]), ctx, args[1]); err != nil {
			return err
		}
		return s.printScheduleDone(head, args[0], args[1])
	}
}

func scheduleTrigger(ctx context.Context, s *session, args []string) error {
	made, err := s.Action(s.namespace).Schedules(args[0]).Trigger(ctx, args[1])
	if errors.Is(err, floe.ErrConflict) {
		return &hintedError{err, "see floe action schedule info " + args[0] + " " + args[1]}
	}
	if err != nil {
		return err
	}
	return s.print(
		runInvoked{true, args[0], s.namespace, string(made.Run), made.Duplicate},
		table{head: []string{"ACTION", "SCHEDULE", "RUN"}, rows: [][]string{{args[0], args[1], string(made.Run)}}},
	)
}

// scheduleNames lists the schedules of the action before it on the command line, for completion.
func scheduleNames(ctx context.Context, s *session, before []string, begun string) (names []string, err error) {
	page, err := s.Action(s.namespace).Schedules(before[0]).Page(ctx, action.Limit(action.MaxPageItems))
	for _, i := range page.Items {
		if strings.HasPrefix(i.Name, begun) {
			names = append(names, i.Name)
		}
	}
	return names, err
}
