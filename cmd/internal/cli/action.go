package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/rawjson"
)

var actionRows = []row{
	{use: "register NAME", short: "Register or change an action", complete: listers{actionNames}, flags: actionRegister,
		long: `Register an action, or replace its settings: a setting without a flag gets its default. Runs
that were invoked before keep their timeout and number of attempts.`,
		example: `  floe action register send-email --timeout 30s --max-attempts 4 --owner team-growth
  floe action register charge --max-running-per-key 1 --rate 100/1s`},
	{use: "invoke NAME [JSON]", short: "Invoke an action", complete: listers{actionNames, nil}, flags: actionInvoke,
		long: `Invoke an action. JSON is the input: the argument itself, the content of a file as @FILE, or
stdin as -. Without it the input is null.

With --wait the command waits for the end of the run and prints its output. It fails unless
the run is completed.`,
		example: `  floe action invoke send-email '{"to":"ada@example.com"}'
  floe action invoke report @input.json --wait --timeout 5m
  floe action invoke charge '{"order":42}' --key order-42 --concurrency-key customer-7`},
	{use: "status RUN", short: "Show a run", run: actionStatus},
	{use: "runs NAME", short: "List the runs of an action, newest first", complete: listers{actionNames}, flags: actionRuns},
	{use: "list", short: "List the actions of a namespace", flags: actionList},
	{use: "enable NAME", short: "Enable a disabled action", complete: listers{actionNames},
		run: onAction("ENABLED", (*action.Store).Enable)},
	{use: "disable NAME", short: "Disable an action; its runs continue", complete: listers{actionNames},
		run: onAction("DISABLED", (*action.Store).Disable)},
	{use: "cancel RUN", short: "Cancel a run", flags: actionCancel,
		long: "Cancel a run. A pending run never starts; the handler of a running one is notified."},
	{use: "retry RUN", short: "Retry a run that ended without success", run: actionRetry},
	{use: "run-now RUN", short: "Start a delayed run now", run: actionRunNow},
	{use: "delete NAME", short: "Delete an action with its ended runs",
		complete: listers{actionNames}, asks: "it deletes the action, and cancels its active runs", flags: actionDelete},
	{use: "schedule", short: "Manage schedules of actions", below: scheduleRows},
}

// registered is an action after registration, in JSON.
type registered struct {
	OK        bool   `json:"ok"`
	Action    string `json:"action"`
	Namespace string `json:"namespace"`
	Version   int    `json:"version"`
}

func actionRegister(_ *frame, cmd *cobra.Command) prepare {
	var opts []action.RegisterOption
	var timeout, shortest, longest time.Duration
	var attempts, running, perKey int
	var rate action.Rate
	flags := cmd.Flags()
	flags.Var(newFlag(&timeout, "duration", positiveDuration), "timeout", "timeout of an attempt (default 30s)")
	maxAttempts(cmd, &attempts, "4")
	owner := flags.String("owner", "", "owner of the action")
	description := flags.String("description", "", "description of the action")
	flags.Var(newFlag(&shortest, "duration", durationOrNone), "backoff",
		"delay before the second attempt, doubled for each further one (default 1s)")
	flags.Var(newFlag(&longest, "duration", durationOrNone), "backoff-max", "maximum delay between attempts (default 5m0s)")
	flags.Var(newFlag(&running, "n", within(0, action.MaxRunningLimit)), "max-running",
		"maximum number of concurrent runs; 0: no limit (default 0)")
	flags.Var(newFlag(&perKey, "n", within(0, action.MaxRunningLimit)), "max-running-per-key",
		"maximum number of concurrent runs per concurrency key; 0: no limit (default 0)")
	flags.Var(newFlag(&rate, "n/duration", rateOf), "rate", "maximum rate of run starts, such as 100/1s (default no limit)")
	return func(args []string) (callFunc, error) {
		if flags.Changed("timeout") {
			opts = append(opts, action.Timeout(timeout))
		}
		if attempts > 0 {
			opts = append(opts, action.MaxAttempts(attempts))
		}
		if flags.Changed("backoff") || flags.Changed("backoff-max") {
			if !flags.Changed("backoff") {
				shortest = min(time.Second, longest)
			}
			if !flags.Changed("backoff-max") {
				longest = max(shortest, min(5*time.Minute, 300*shortest))
			}
			opts = append(opts, action.Backoff(shortest, longest))
		}
		opts = append(opts, action.Owner(*owner), action.Description(*description), action.MaxRunning(running),
			action.MaxRunningPerKey(perKey), action.RateLimit(rate))
		return func(ctx context.Context, s *session) error {
			version, err := s.Action(s.namespace).Register(ctx, args[0], opts...)
			if err != nil {
				return err
			}
			return s.print(
				registered{true, args[0], s.namespace, version},
				table{head: []string{"ACTION", "VERSION"}, rows: [][]string{{args[0], strconv.Itoa(version)}}},
			)
		}, nil
	}
}

// rateOf parses a rate, such as 100/1s.
func rateOf(v string) (r action.Rate, err error) {
	var per string
	if n, err := fmt.Sscanf(v, "%d/%s", &r.Limit, &per); n != 2 || err != nil || r.Limit < 1 || r.Limit > action.MaxRateLimit {
		return r, fmt.Errorf("not a number of 1 to %d and a duration, such as 100/1s", action.MaxRateLimit)
	}
	if r.Per, err = positiveDuration(per); err != nil {
		return r, err
	}
	return r, nil
}

// runInvoked is the run that an invocation has created, in JSON.
type runInvoked struct {
	OK        bool   `json:"ok"`
	Action    string `json:"action"`
	Namespace string `json:"namespace"`
	RunID     string `json:"run_id"`
	Duplicate bool   `json:"duplicate"` // an earlier invocation with the same key has created it
}

func actionInvoke(f *frame, cmd *cobra.Command) prepare {
	priority := action.DefaultPriority
	var delay, expire, timeout time.Duration
	var attempts int
	flags := cmd.Flags()
	wait := flags.Bool("wait", false, "wait until the run has ended, and print its output")
	flags.Var(newFlag(&priority, "n", within(0, action.MaxPriority)), "priority", "priority, 0 to 255, lower is more urgent (default 100)")
	flags.Var(newFlag(&delay, "duration", durationOrNone), "delay", "delay before the run can start (default 0s)")
	flags.Var(newFlag(&expire, "duration", positiveDuration), "expire", "time after which an unstarted run fails (default never)")
	flags.Var(newFlag(&timeout, "duration", positiveDuration), "attempt-timeout",
		"timeout of an attempt (default that of the action)")
	maxAttempts(cmd, &attempts, "the action's setting")
	key := flags.String("key", "", "idempotency key: no second run with the same key within 24 hours")
	concurrency := flags.String("concurrency-key", "", "key for --max-running-per-key and fair ordering")
	var labels map[string]string
	addLabel := func(v string) (map[string]string, error) { return withHeader(labels, v) }
	flags.Var(newFlag(&labels, "k=v", addLabel), "label", "label that the worker must have; repeatable")
	return func(args []string) (callFunc, error) {
		opts := []action.InvokeOption{action.Priority(priority), action.Delay(delay), action.Labels(labels)}
		if flags.Changed("key") {
			opts = append(opts, action.IdempotencyKey(*key))
		}
		if flags.Changed("expire") {
			if expire <= delay {
				return nil, &usageError{fmt.Errorf("--expire=%v: ends before --delay, %v", expire, delay), helpHint(cmd)}
			}
			opts = append(opts, action.Expire(expire))
		}
		if flags.Changed("attempt-timeout") {
			opts = append(opts, action.Timeout(timeout))
		}
		if attempts > 0 {
			opts = append(opts, action.MaxAttempts(attempts))
		}
		if flags.Changed("concurrency-key") {
			opts = append(opts, action.ConcurrencyKey(*concurrency))
		}
		var input []byte
		if len(args) > 1 {
			var err error
			if input, err = f.payload(cmd, "JSON", args[1:]); err != nil {
				return nil, err
			}
		}
		return func(ctx context.Context, s *session) error {
			made, err := s.Action(s.namespace).Invoke(ctx, args[0], input, opts...)
			if err != nil {
				return unregistered(err, args[0])
			}
			if *wait {
				return s.awaitRun(ctx, made.Run)
			}
			return s.print(
				runInvoked{true, args[0], s.namespace, string(made.Run), made.Duplicate},
				table{head: []string{"ACTION", "RUN", "DUPLICATE"},
					rows: [][]string{{args[0], string(made.Run), strconv.FormatBool(made.Duplicate)}}},
			)
		}, nil
	}
}

// unregistered adds a hint to the error for an unknown action.
func unregistered(err error, name string) error {
	if errors.Is(err, floe.ErrNotFound) {
		return &hintedError{err, fmt.Sprintf("register it with floe action register %s", name)}
	}
	return err
}

// awaitRun waits until a run ends and prints its output. It returns an error if the run does not
// complete.
func (s *session) awaitRun(ctx context.Context, id action.RunID) error {
	run, err := s.Action(s.namespace).Wait(ctx, id)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return &hintedError{fmt.Errorf("run %s has not ended yet: %w", id, err),
				"see floe action status " + string(id) + ", or wait longer with --timeout"}
		}
		return err
	}
	if run.Status != action.Completed {
		return &hintedError{fmt.Errorf("run %s is %s: %s", id, run.Status, run.Error), "see floe action status " + string(id)}
	}
	return s.printValue(newRunText(s.namespace, run), run.Output)
}

// runText is a run in JSON.
type runText struct {
	RunID          string            `json:"run_id"`
	Action         string            `json:"action"`
	Namespace      string            `json:"namespace"`
	Status         string            `json:"status"`
	Outcome        string            `json:"outcome"`
	Attempt        int               `json:"attempt"`
	MaxAttempts    int               `json:"max_attempts"`
	Priority       int               `json:"priority"`
	Input          any               `json:"input"`
	Output         any               `json:"output"`
	Error          string            `json:"error"`
	Code           string            `json:"code"`
	Source         string            `json:"source"`
	Labels         map[string]string `json:"labels"`
	ConcurrencyKey string            `json:"concurrency_key"`
	IdempotencyKey string            `json:"idempotency_key"`
	WorkerID       string            `json:"worker_id"`
	CreatedAt      int64             `json:"created_at"`
	AvailableAt    int64             `json:"available_at"`
	StartedAt      *int64            `json:"started_at"`
	CompletedAt    *int64            `json:"completed_at"`
}

func newRunText(namespace string, r action.Run) runText {
	return runText{
		RunID: string(r.ID), Action: r.Action, Namespace: namespace, Status: r.Status.String(), Outcome: r.Outcome, Attempt: r.Attempt,
		MaxAttempts: r.MaxAttempts, Priority: r.Priority, Input: rawjson.Value(r.Input), Output: rawjson.Value(r.Output), Error: r.Error,
		Code:   r.Code,
		Source: r.Source, Labels: r.Labels, ConcurrencyKey: r.ConcurrencyKey, IdempotencyKey: r.IdempotencyKey, WorkerID: r.WorkerID,
		CreatedAt: r.CreatedAt.UnixMilli(), AvailableAt: r.AvailableAt.UnixMilli(), StartedAt: optionalMillis(r.StartedAt),
		CompletedAt: optionalMillis(r.CompletedAt),
	}
}

func actionStatus(ctx context.Context, s *session, args []string) error {
	r, err := s.Action(s.namespace).Runs().Get(ctx, action.RunID(args[0]))
	if err != nil {
		return err
	}
	rows := [][]string{
		{"action", r.Action}, {"status", r.Status.String()}, {"outcome", r.Outcome}, {"attempt",
			fmt.Sprintf("%d/%d", r.Attempt, r.MaxAttempts)},
		{"error", r.Error}, {"code", r.Code}, {"source", r.Source}, {"worker", r.WorkerID}, {"created", shownTime(r.CreatedAt)},
		{"available", shownTime(r.AvailableAt)}, {"started", shownOptionalTime(r.StartedAt)}, {"completed",
			shownOptionalTime(r.CompletedAt)},
		{"labels", shownHeaders(r.Labels)}, {"concurrency key", r.ConcurrencyKey}, {"idempotency key", r.IdempotencyKey},
		{"input", s.cell(r.Input)}, {"output", s.cell(r.Output)},
	}
	return s.print(newRunText(s.namespace, r), table{head: []string{"RUN", string(r.ID)}, rows: rows})
}

// runList is the list of an action's runs in JSON.
type runList struct {
	Action    string    `json:"action"`
	Namespace string    `json:"namespace"`
	Runs      []runText `json:"runs"`
	Count     int       `json:"count"`
}

func actionRuns(_ *frame, cmd *cobra.Command) prepare {
	limit, status := int64(defaultMessages), action.Status(0)
	flags := cmd.Flags()
	flags.Var(newFlag(&limit, "n", count(1)), "limit", "maximum number of results (default 100)")
	flags.Var(newFlag(&status, "state", runStatus), "status",
		"only this status: pending, running, completed, failed, cancelled or timed_out")
	_ = cmd.RegisterFlagCompletionFunc("status",
		cobra.FixedCompletions([]string{"pending", "running", "completed", "failed", "cancelled", "timed_out"},
			cobra.ShellCompDirectiveNoFileComp))
	var from, to time.Time
	flags.Var(newFlag(&from, "time", parseTime), "from",
		"only runs invoked at or after this time: ms since the epoch, RFC 3339, now or -1h")
	flags.Var(newFlag(&to, "time", parseTime), "to", "only runs invoked before this time")
	var with map[string]string
	addAttribute := func(v string) (map[string]string, error) { return withHeader(with, v) }
	flags.Var(newFlag(&with, "k=v", addAttribute), "with",
		"only runs with this source, concurrency_key, idempotency_key, worker, outcome, code or label.<name>; "+
			"repeatable")
	return func(args []string) (callFunc, error) {
		if err := ordered(cmd, "from", from, "to", to); err != nil {
			return nil, err
		}
		opts := []action.RunOption{action.Limit(int(min(limit, action.MaxPageItems))), action.InvokedBetween(from, to)}
		if status != 0 {
			opts = append(opts, action.InState(status))
		}
		for _, name := range slices.Sorted(maps.Keys(with)) {
			opts = append(opts, action.Has(action.Attribute(name), with[name]))
		}
		return func(ctx context.Context, s *session) error {
			row := func(r action.Run) []string {
				return []string{
					string(r.ID), r.Status.String(), fmt.Sprintf("%d/%d", r.Attempt, r.MaxAttempts), shownTime(r.CreatedAt),
					shownOptionalTime(r.CompletedAt),
					r.WorkerID, r.Error, s.line(r.Input), s.line(r.Output),
				}
			}
			head := []string{"RUN", "STATUS", "ATTEMPT", "CREATED", "COMPLETED", "WORKER", "ERROR", "INPUT", "OUTPUT"}
			document := func(r action.Run) runText { return newRunText(s.namespace, r) }
			return printEach(s.output, first(s.Action(s.namespace).Runs().All(ctx,
				append([]action.RunOption{action.Of(args[0])}, opts...)...), limit), head, document, row,
				func(list []runText) any { return runList{args[0], s.namespace, list, len(list)} })
		}, nil
	}
}

func runStatus(v string) (status action.Status, err error) {
	if status, err = action.ParseStatus(v); err != nil {
		return 0, errors.New("not one of pending, running, completed, failed, cancelled, timed_out")
	}
	return status, nil
}

// actionText is an action in JSON.
type actionText struct {
	Name             string  `json:"name"`
	Namespace        string  `json:"namespace"`
	Type             string  `json:"type"`
	Owner            string  `json:"owner"`
	Description      string  `json:"description"`
	Version          int     `json:"version"`
	Enabled          bool    `json:"enabled"`
	TimeoutMillis    int64   `json:"timeout_ms"`
	MaxRetries       int     `json:"max_retries"` // as in REST: attempts after the first one
	MaxAttempts      int     `json:"max_attempts"`
	MaxRunning       int     `json:"max_running"`         // 0: no limit
	MaxRunningPerKey int     `json:"max_running_per_key"` // 0: no limit
	WorkerCount      int     `json:"worker_count"`
	Runs             runsOf  `json:"runs"`
	AverageMillis    float64 `json:"avg_ms"`
	P99Millis        float64 `json:"p99_ms"`
}

// maxAttempts gives a command the flag --max-attempts, which fills n. The older --max-retries still
// works: it counts the attempts after the first one.
func maxAttempts(cmd *cobra.Command, n *int, absent string) {
	flags := cmd.Flags()
	flags.Var(newFlag(n, "n", within(1, action.MaxAttemptsLimit)), "max-attempts",
		"maximum number of attempts, including the first (default "+absent+")")
	retries := func(v string) (int, error) {
		n, err := within(0, action.MaxAttemptsLimit-1)(v)
		return n + 1, err
	}
	flags.Var(newFlag(n, "n", retries), "max-retries", "")
	_ = flags.MarkHidden("max-retries")
}

// runsOf counts runs by state.
type runsOf struct {
	Total     int64 `json:"total"`
	Pending   int64 `json:"pending"`
	Running   int64 `json:"running"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
	TimedOut  int64 `json:"timed_out"`
}

// actionsText is the list of a namespace's actions in JSON.
type actionsText struct {
	Namespace string       `json:"namespace"`
	Actions   []actionText `json:"actions"`
	Count     int          `json:"count"`
}

func actionList(_ *frame, cmd *cobra.Command) prepare {
	prefix := cmd.Flags().String("prefix", "", "only names with this prefix")
	return unchecked(func(ctx context.Context, s *session, _ []string) error {
		document := func(i action.Info) actionText {
			return actionText{
				Name: i.Name, Namespace: s.namespace, Type: string(i.Type), Owner: i.Owner, Description: i.Description,
				Version: i.Version, Enabled: i.Enabled,
				TimeoutMillis: i.Timeout.Milliseconds(), MaxRetries: i.MaxAttempts - 1, MaxAttempts: i.MaxAttempts,
				MaxRunning: i.MaxRunning, MaxRunningPerKey: i.MaxRunningPerKey,
				WorkerCount: i.Workers, Runs: runsOf(i.Runs), AverageMillis: millisOf(i.Latency.Average),
				P99Millis: millisOf(i.Latency.P99),
			}
		}
		row := func(i action.Info) []string {
			r := i.Runs
			return []string{
				i.Name, strconv.Itoa(i.Version), strconv.FormatBool(i.Enabled), i.Owner, shownDuration(i.Timeout),
				strconv.Itoa(i.MaxAttempts - 1),
				strconv.Itoa(i.Workers), decimal(r.Pending), decimal(r.Running), decimal(r.Completed), decimal(r.Failed + r.TimedOut),
			}
		}
		head := []string{"ACTION", "VERSION", "ENABLED", "OWNER", "TIMEOUT", "RETRIES", "WORKERS", "PENDING", "RUNNING", "COMPLETED",
			"FAILED"}
		return printEach(s.output, s.Action(s.namespace).All(ctx, action.Prefix(*prefix)), head, document, row,
			func(list []actionText) any { return actionsText{s.namespace, list, len(list)} })
	})
}

func millisOf(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// actionDone is the result of a change to an action that has no other result.
type actionDone struct {
	OK        bool   `json:"ok"`
	Action    string `json:"action"`
	Namespace string `json:"namespace"`
}

func (s *session) printActionDone(head, name string) error {
	return s.print(actionDone{true, name, s.namespace}, table{head: []string{head}, rows: [][]string{{name}}})
}

// runDone is the result of a change to a run.
type runDone struct {
	OK        bool   `json:"ok"`
	RunID     string `json:"run_id"`
	Namespace string `json:"namespace"`
	Status    string `json:"status"`
}

func (s *session) printRunDone(head, id, status string) error {
	return s.print(runDone{true, id, s.namespace, status}, table{head: []string{head}, rows: [][]string{{id}}})
}

// onAction returns the run of a command that changes an action.
func onAction(head string, do func(*action.Store, context.Context, string) error) runFunc {
	return func(ctx context.Context, s *session, args []string) error {
		if err := do(s.Action(s.namespace), ctx, args[0]); err != nil {
			return unregistered(err, args[0])
		}
		return s.printActionDone(head, args[0])
	}
}

func actionCancel(_ *frame, cmd *cobra.Command) prepare {
	reason := cmd.Flags().String("reason", "", "reason, shown with the run")
	return unchecked(func(ctx context.Context, s *session, args []string) error {
		if err := s.Action(s.namespace).Cancel(ctx, action.RunID(args[0]), *reason); err != nil {
			return err
		}
		return s.printRunDone("CANCELLED", args[0], action.Cancelled.String())
	})
}

func actionRetry(ctx context.Context, s *session, args []string) error {
	if err := s.Action(s.namespace).Retry(ctx, action.RunID(args[0])); err != nil {
		return err
	}
	return s.printRunDone("RETRIED", args[0], action.Pending.String())
}

func actionRunNow(ctx context.Context, s *session, args []string) error {
	if err := s.Action(s.namespace).RunNow(ctx, action.RunID(args[0])); err != nil {
		return err
	}
	return s.printRunDone("READY", args[0], action.Pending.String())
}

func actionDelete(_ *frame, cmd *cobra.Command) prepare {
	force := cmd.Flags().Bool("force", false, "delete it even if it has active runs, which are cancelled")
	return func(args []string) (callFunc, error) {
		var opts []action.DeleteOption
		if *force {
			opts = append(opts, action.Force())
		}
		return func(ctx context.Context, s *session) error {
			if err := s.Action(s.namespace).Delete(ctx, args[0], opts...); err != nil {
				if errors.Is(err, floe.ErrConflict) {
					return &hintedError{err, "--force cancels them"}
				}
				return err
			}
			return s.printActionDone("DELETED", args[0])
		}, nil
	}
}

// actionNames lists the actions of the namespace for completion.
func actionNames(ctx context.Context, s *session, _ []string, begun string) (names []string, err error) {
	page, err := s.Action(s.namespace).Page(ctx, action.Prefix(begun), action.Limit(action.MaxPageItems))
	for _, i := range page.Items {
		names = append(names, i.Name)
	}
	return names, err
}
