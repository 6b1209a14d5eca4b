package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/rawjson"
)

var workerRows = []row{
	{use: "await ACTION... --worker-id ID", short: "Take runs of actions for a worker", complete: listers{actionNames}, flags: workerAwait,
		long: `Take runs of actions for a worker, which settles them with floe worker complete or fail. A
run that is not settled within the action's timeout is retried; floe worker touch extends
the timeout.

Scripts should pass --attempt, as the one below does. Without it, complete and fail settle
the current attempt; if an attempt was too slow, that may be the next one, on the same
worker. With it, settling an earlier attempt is rejected. --delivery is stricter: a released
attempt does not count, so the next one has the same ATTEMPT, but another DELIVERY. With -o
raw INPUT is the rest of the line; DELIVERY is in tables and in -o json.

The command succeeds if there are no runs.`,
		example: `  floe worker await send-email --worker-id mailer-1 --wait 20s -o raw | while IFS=$'\t' read -r run action attempt input; do
    if send "$input"; then
      floe worker complete "$run" --attempt "$attempt" --worker-id mailer-1
    else
      floe worker fail "$run" --attempt "$attempt" --worker-id mailer-1 --error 'no luck' --retry
    fi
  done`},
	{use: "complete RUN --worker-id ID", short: "Complete a run with its result", flags: workerComplete,
		long: `Complete a run from floe worker await with its result. Scripts should pass --attempt:
otherwise a slow script may complete a later attempt.`},
	{use: "fail RUN --worker-id ID --error TEXT", short: "Fail an attempt of a run", flags: workerFail,
		long: `Fail an attempt of a run from floe worker await. Scripts should pass --attempt: otherwise a
slow script may fail a later attempt.`},
	{use: "touch RUN --worker-id ID", short: "Extend the timeout of an attempt", flags: workerTouch},
	{use: "register ACTION... --worker-id ID", short: "Register a worker", complete: listers{actionNames}, flags: workerRegister,
		long: `Register a worker that takes runs with floe worker await. This is optional: the first await
lists the worker too, without the details that are given here.

A worker without runs that makes no call for 90 s is listed as unhealthy, and removed after
24 h. Send a heartbeat about every 10 s, unless it is waiting for runs.`},
	{use: "heartbeat --worker-id ID", short: "Send a worker heartbeat", flags: workerHeartbeat},
	{use: "drain --worker-id ID", short: "Stop assigning new runs to a worker",
		flags: workerDrain,
		long:  "Stop assigning new runs to a worker. Its await calls are rejected, also one that is waiting."},
	{use: "deregister --worker-id ID", short: "Deregister a worker and release its runs",
		flags: workerDeregister},
	{use: "list", short: "List the workers of a namespace", run: workerList},
}

// taskText is a run assigned to a worker, in JSON.
type taskText struct {
	RunID          string            `json:"run_id"`
	Action         string            `json:"action"`
	Attempt        int               `json:"attempt"`
	MaxAttempts    int               `json:"max_attempts"`
	Delivery       int               `json:"delivery"`
	Input          any               `json:"input"`
	Priority       int               `json:"priority"`
	Labels         map[string]string `json:"labels"`
	ConcurrencyKey string            `json:"concurrency_key"`
	IdempotencyKey string            `json:"idempotency_key"`
	Source         string            `json:"source"`
	CreatedAt      int64             `json:"created_at"`
	Deadline       int64             `json:"deadline"`
}

func newTaskText(t action.Task) taskText {
	return taskText{
		RunID: string(t.Run), Action: t.Action, Attempt: t.Attempt, MaxAttempts: t.MaxAttempts, Delivery: t.Delivery,
		Input: rawjson.Value(t.Input), Priority: t.Priority,
		Labels: t.Labels, ConcurrencyKey: t.ConcurrencyKey, IdempotencyKey: t.IdempotencyKey, Source: t.Source,
		CreatedAt: t.CreatedAt.UnixMilli(), Deadline: t.Deadline.UnixMilli(),
	}
}

// taskList is the runs assigned to a worker, in JSON.
type taskList struct {
	WorkerID  string     `json:"worker_id"`
	Namespace string     `json:"namespace"`
	Runs      []taskText `json:"runs"`
	Count     int        `json:"count"`
}

func workerAwait(f *frame, cmd *cobra.Command) prepare {
	id := workerID(cmd)
	most := 1
	var wait time.Duration
	var labels map[string]string
	flags := cmd.Flags()
	flags.Var(newFlag(&most, "n", within(1, 100)), "max", "maximum number of runs (default 1)")
	flags.Var(newFlag(&wait, "duration", durationOrNone), "wait", "time to wait for a run (default 0s)")
	addLabel := func(v string) (map[string]string, error) { return withHeader(labels, v) }
	flags.Var(newFlag(&labels, "k=v", addLabel), "label", "label of the worker; repeatable")
	return func(args []string) (callFunc, error) {
		if err := needs(cmd, "worker-id"); err != nil {
			return nil, err
		}
		f.wait = wait
		return func(ctx context.Context, s *session) error {
			tasks, err := s.Action(s.namespace).Await(ctx, *id, args, action.Max(most), action.Wait(wait), action.Labels(labels))
			if err != nil {
				return err
			}
			list := taskList{*id, s.namespace, []taskText{}, len(tasks)}
			t := table{head: []string{"RUN", "ACTION", "ATTEMPT", "INPUT", "DELIVERY"}}
			for _, task := range tasks {
				list.Runs = append(list.Runs, newTaskText(task))
				row := []string{string(task.Run), task.Action, strconv.Itoa(task.Attempt), s.line(task.Input)}
				if s.format != formatRaw { // scripts read the rest of the line as input
					row = append(row, strconv.Itoa(task.Delivery))
				}
				t.rows = append(t.rows, row)
			}
			return s.print(list, t)
		}, nil
	}
}

// workerID adds the flag for the caller's worker id, which the command requires.
func workerID(cmd *cobra.Command) *string {
	return cmd.Flags().String("worker-id", "", "ID of the worker")
}

// needs returns an error if a required flag is missing.
func needs(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if !cmd.Flags().Changed(name) {
			return &usageError{fmt.Errorf("--%s is missing", name), helpHint(cmd)}
		}
	}
	return nil
}

// lost adds a hint to the error for a run that is no longer assigned to the worker.
func lost(err error, id string) error {
	if errors.Is(err, floe.ErrConflict) {
		return &hintedError{err, "see floe action status " + id}
	}
	return err
}

func workerComplete(f *frame, cmd *cobra.Command) prepare {
	id := workerID(cmd)
	flags := cmd.Flags()
	result := flags.String("result", "", "output of the run: JSON, @FILE, or - for stdin (default none)")
	outcome := flags.String("outcome", "", "outcome of the run (default success)")
	which := attemptFlags(cmd)
	return func(args []string) (callFunc, error) {
		if err := needs(cmd, "worker-id"); err != nil {
			return nil, err
		}
		opts := which()
		if *outcome != "" {
			opts = append(opts, action.OutcomeName(*outcome))
		}
		var output []byte
		if flags.Changed("result") {
			var err error
			if output, err = f.payload(cmd, "--result", []string{*result}); err != nil {
				return nil, err
			}
			if !json.Valid(output) {
				return nil, &usageError{fmt.Errorf("--result is not valid JSON: %.40q", output),
					"a text is given in double quotes, such as --result '\"done\"'"}
			}
		}
		return func(ctx context.Context, s *session) error {
			if err := s.Action(s.namespace).Complete(ctx, action.RunID(args[0]), *id, output, opts...); err != nil {
				return lost(err, args[0])
			}
			return s.printRunDone("COMPLETED", args[0], action.Completed.String())
		}, nil
	}
}

// attemptFlags adds the flags that name the attempt that has ended.
func attemptFlags(cmd *cobra.Command) (options func() []action.EndOption) {
	var attempt, delivery int
	flags := cmd.Flags()
	flags.Var(newFlag(&attempt, "n", within(1, action.MaxAttemptsLimit)), "attempt", "number of the attempt (default the current one)")
	flags.Var(newFlag(&delivery, "n", within(1, math.MaxInt32)), "delivery", "number of the delivery, unique for each attempt")
	return func() []action.EndOption {
		return []action.EndOption{action.OfAttempt(attempt), action.OfDelivery(delivery)}
	}
}

func workerFail(_ *frame, cmd *cobra.Command) prepare {
	id := workerID(cmd)
	flags := cmd.Flags()
	text := flags.String("error", "", "error message")
	code := flags.String("code", "", "error code")
	retry := flags.Bool("retry", false, "retry if attempts are left (default the run fails)")
	var delay time.Duration
	flags.Var(newFlag(&delay, "duration", durationOrNone), "delay", "delay before the retry (default the back-off of the action)")
	which := attemptFlags(cmd)
	return func(args []string) (callFunc, error) {
		if err := needs(cmd, "worker-id", "error"); err != nil {
			return nil, err
		}
		opts := which()
		if *code != "" {
			opts = append(opts, action.ErrorCode(*code))
		}
		if *retry {
			opts = append(opts, action.Retry())
		}
		if flags.Changed("delay") {
			if !*retry {
				return nil, &usageError{errors.New("--delay requires --retry"), helpHint(cmd)}
			}
			opts = append(opts, action.Delay(delay))
		}
		return func(ctx context.Context, s *session) error {
			store := s.Action(s.namespace)
			if err := store.Fail(ctx, action.RunID(args[0]), *id, *text, opts...); err != nil {
				return lost(err, args[0])
			}
			run, err := store.Runs().Get(ctx, action.RunID(args[0]))
			if err != nil {
				return err
			}
			return s.printRunDone("ENDED", args[0], run.Status.String())
		}, nil
	}
}

// touched is the new deadline of a run.
type touched struct {
	OK        bool   `json:"ok"`
	RunID     string `json:"run_id"`
	Namespace string `json:"namespace"`
	Deadline  int64  `json:"deadline"`
}

func workerTouch(_ *frame, cmd *cobra.Command) prepare {
	id := workerID(cmd)
	d := 30 * time.Second
	cmd.Flags().Var(newFlag(&d, "duration", positiveDuration), "for", "new duration from now (default 30s)")
	return func(args []string) (callFunc, error) {
		if err := needs(cmd, "worker-id"); err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			until, err := s.Action(s.namespace).Extend(ctx, action.RunID(args[0]), *id, d)
			if err != nil {
				return lost(err, args[0])
			}
			return s.print(
				touched{true, args[0], s.namespace, until.UnixMilli()},
				table{head: []string{"RUN", "DEADLINE"}, rows: [][]string{{args[0], shownTime(until)}}},
			)
		}, nil
	}
}

// workerText is a worker in JSON.
type workerText struct {
	WorkerID       string            `json:"worker_id"`
	Status         string            `json:"status"`
	WorkerType     string            `json:"worker_type"`
	Namespace      string            `json:"namespace"`
	MachineID      string            `json:"machine_id"`
	CurrentLoad    int               `json:"current_load"`
	MaxConcurrent  int               `json:"max_concurrent"`
	TasksCompleted int64             `json:"tasks_completed"`
	TasksFailed    int64             `json:"tasks_failed"`
	LastSeen       int64             `json:"last_seen"`
	RegisteredAt   int64             `json:"registered_at"`
	Labels         map[string]string `json:"labels"`
	Actions        []string          `json:"actions"`
	Metadata       json.RawMessage   `json:"metadata"`
}

// workersText is the list of a namespace's workers in JSON.
type workersText struct {
	Namespace string       `json:"namespace"`
	Workers   []workerText `json:"workers"`
	Count     int          `json:"count"`
}

func workerList(ctx context.Context, s *session, _ []string) error {
	document := func(w action.WorkerInfo) workerText {
		text := workerText{
			WorkerID: w.ID, Status: w.Status.String(), WorkerType: w.Type, Namespace: s.namespace, MachineID: w.Machine,
			CurrentLoad:   w.Load,
			MaxConcurrent: w.MaxConcurrent, TasksCompleted: w.Completed, TasksFailed: w.Failed,
			LastSeen:     w.LastSeen.UnixMilli(),
			RegisteredAt: w.RegisteredAt.UnixMilli(), Labels: w.Labels, Actions: w.Actions, Metadata: w.Metadata,
		}
		if w.Metadata == nil {
			text.Metadata = json.RawMessage("null")
		}
		return text
	}
	row := func(w action.WorkerInfo) []string {
		load := strconv.Itoa(w.Load)
		if w.MaxConcurrent > 0 { // a worker that has not registered has no limit to show
			load += "/" + strconv.Itoa(w.MaxConcurrent)
		}
		return []string{w.ID, w.Type, w.Status.String(), load, decimal(w.Completed), decimal(w.Failed), shownTime(w.LastSeen),
			w.Machine}
	}
	head := []string{"WORKER", "TYPE", "STATUS", "LOAD", "COMPLETED", "FAILED", "LAST SEEN", "MACHINE"}
	return printEach(s.output, s.Action(s.namespace).Workers().All(ctx), head, document, row,
		func(list []workerText) any { return workersText{s.namespace, list, len(list)} })
}
