package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/workflow"
)

var workflowRows = []row{
	{use: "create -f FILE", short: "Create a workflow or a version of one", flags: workflowCreate,
		long: `Create a workflow or a version of one, which new runs use from now on; active runs keep
theirs. An existing version with the same definition is left unchanged, with another one
it is an error. The namespace is that of --namespace, else that of the definition.`,
		example: `  floe workflow create -f order.yaml
  generate-order | floe workflow create -f -`},
	{code: workflowValidate},
	{use: "start NAME [JSON]", short: "Start a run of a workflow", complete: listers{workflowNames, nil}, flags: workflowStart,
		long: `Start a run of a workflow. JSON is the input: the argument itself, the content of a file as
@FILE, or stdin as -. Without it the input is null.

With --wait the command waits for the end of the run and prints its output. It fails unless
the run is completed.`,
		example: `  floe workflow start order '{"orderId":"42"}' --idempotency-key order-42
  floe workflow start report @input.json --version 2.0.0 --wait --timeout 5m`},
	{use: "status RUN", short: "Show a run and its step results", complete: listers{flowIDs}, flags: workflowStatus},
	{use: "history RUN", short: "List the events of a run, oldest first", complete: listers{flowIDs}, flags: workflowHistory},
	{use: "signal RUN TYPE [JSON]", short: "Send a signal to a run", complete: listers{flowIDs, nil, nil}, flags: workflowSignal,
		long: `Send a signal to a run. A step that waits for its type takes it; otherwise the signal is kept
for a later step. JSON is the payload: the argument itself, the content of a file as @FILE,
or stdin as -. Without it the payload is null. Its member "outcome" selects the transition
of the step.`,
		example: `  floe workflow signal RUN approval '{"outcome":"rejected","by":"ada"}'`},
	{use: "cancel RUN", short: "Cancel a run and compensate its steps", complete: listers{flowIDs}, flags: workflowCancel},
	{use: "retry RUN", short: "Resume a failed run at its failed step", complete: listers{flowIDs}, flags: workflowRetry,
		long: `Resume a failed or timed-out run at its failed step, or at an earlier one. The calls of the
step get the same idempotency keys as before, unless the step gets another input.`,
		example: `  floe workflow retry RUN
  floe workflow retry RUN --from-step charge --input '{"amount":12}'`},
	{use: "list", short: "List the workflows of a namespace", flags: workflowList},
	{use: "info NAME", short: "Show a workflow, its schedule and trigger", complete: listers{workflowNames}, run: workflowInfo},
	{use: "runs", short: "List the workflow runs of a namespace", flags: workflowRuns,
		long: `List the workflow runs of a namespace, newest first. UNCOMPENSATED is the number of steps
whose compensation failed, so that their effects remain.`},
	{use: "enable NAME", short: "Enable a disabled workflow", complete: listers{workflowNames},
		run: onWorkflow("ENABLED", (*workflow.Store).Enable)},
	{use: "disable NAME", short: "Disable a workflow, its schedule and trigger", complete: listers{workflowNames},
		run: onWorkflow("DISABLED", (*workflow.Store).Disable)},
	{use: "schedule", short: "Pause and resume the schedule of a workflow", below: workflowScheduleRows},
	{use: "version", short: "Manage the versions of a workflow", below: workflowVersionRows},
	{use: "delete NAME", short: "Delete a workflow with all its versions",
		complete: listers{workflowNames}, asks: "it deletes the workflow with all versions", flags: workflowDelete,
		long: "Delete a workflow with all its versions. Ended runs are kept for a while."},
}

// addFile adds the flag for a definition file to a command.
func addFile(cmd *cobra.Command) *string {
	file := cmd.Flags().StringP("file", "f", "", "file with the definition, YAML or JSON; - for stdin")
	_ = cmd.RegisterFlagCompletionFunc("file", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	})
	return file
}

// definition reads the file named by --file.
func (f *frame) definition(cmd *cobra.Command, file string) ([]byte, error) {
	if file == "" {
		return nil, &usageError{errors.New("--file is missing"), helpHint(cmd)}
	}
	return f.document(cmd, "--file", file)
}

// document returns the content of a file that the help calls what; - means stdin.
func (f *frame) document(cmd *cobra.Command, what, file string) ([]byte, error) {
	if file == "-" {
		return f.payload(cmd, what, []string{"-"})
	}
	return readFile(what, file)
}

// workflowCreated is the result of creating or updating a workflow.
type workflowCreated struct {
	OK        bool   `json:"ok"`
	Workflow  string `json:"workflow"`
	Namespace string `json:"namespace"`
	Version   string `json:"version"`
	Status    string `json:"status"` // created, updated or unchanged
}

func workflowCreate(f *frame, cmd *cobra.Command) prepare {
	file := addFile(cmd)
	return func(_ []string) (callFunc, error) {
		definition, err := f.definition(cmd, *file)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			if !cmd.Flags().Changed("namespace") {
				own, err := workflow.DefinitionNamespace(definition)
				if err != nil {
					return mistakes(err)
				}
				s.namespace = cmp.Or(own, s.namespace)
			}
			made, err := s.Workflow(s.namespace).Create(ctx, definition)
			if err != nil {
				return mistakes(err)
			}
			status := "updated"
			switch {
			case made.Unchanged:
				status = "unchanged"
			case made.Versions == 1:
				status = "created"
			}
			return s.print(
				workflowCreated{true, made.Name, s.namespace, made.Version, status},
				table{head: []string{"WORKFLOW", "VERSION", "STATUS"}, rows: [][]string{{made.Name, made.Version, status}}},
			)
		}, nil
	}
}

// mistakes splits the error of a definition into one error per mistake.
func mistakes(err error) error {
	var bad *workflow.DefinitionError
	if !errors.As(err, &bad) {
		return err
	}
	var all []error
	for _, p := range bad.Problems {
		if p.Severity == workflow.Error {
			all = append(all, fmt.Errorf("line %d: %s", p.Line, p.Message))
		}
	}
	return &exitError{errors.Join(all...), exitUsage}
}

// problemText is a problem of a definition, in JSON.
type problemText struct {
	Line     int    `json:"line"`
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Message  string `json:"message"`
}

// problemList is the problems of a definition, in JSON.
type problemList struct {
	Valid    bool          `json:"valid"`
	Problems []problemText `json:"problems"`
	Count    int           `json:"count"`
}

// printProblems prints the problems of a definition. In table format it also reports a valid one.
func (o *output) printProblems(list problemList, t table, valid string) error {
	if o.format != formatTable || !list.Valid {
		return o.print(list, t)
	}
	if len(t.rows) > 0 {
		if err := o.printTable(t); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(o.w, valid)
	return err
}

func workflowValidate(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Validate a definition without a node",
		Long: `Validate a definition without a node: whether actions and other workflows exist is not
checked. The exit code is 1 if it has errors; warnings alone do not count.`,
		Args: takes(),
	}
	file := addFile(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		definition, err := f.definition(cmd, *file)
		if err != nil {
			return err
		}
		list, wrong := problemList{Problems: []problemText{}}, 0
		t := table{head: []string{"LINE", "SEVERITY", "CODE", "MESSAGE"}}
		for _, p := range workflow.Validate(definition) {
			if p.Severity == workflow.Error {
				wrong++
			}
			list.Problems = append(list.Problems, problemText{p.Line, p.Severity.String(), p.Code, p.Message})
			t.rows = append(t.rows, []string{strconv.Itoa(p.Line), p.Severity.String(), p.Code, p.Message})
		}
		list.Count, list.Valid = len(list.Problems), wrong == 0
		if err := f.output.printProblems(list, t, "The definition is valid."); err != nil || wrong == 0 {
			return err
		}
		return fmt.Errorf("the definition cannot be created: errors: %d", wrong)
	}
	return f.completing(cmd)
}

// workflowText is a workflow in JSON.
type workflowText struct {
	Name        string         `json:"name"`
	Namespace   string         `json:"namespace"`
	Version     string         `json:"version"`
	Description string         `json:"description"`
	Enabled     bool           `json:"enabled"`
	Steps       []string       `json:"steps"`
	Plans       []string       `json:"plans"`
	Terminals   []string       `json:"terminals"`
	HasSchedule bool           `json:"has_schedule"`
	HasTrigger  bool           `json:"has_trigger"`
	Runs        workflowRunsOf `json:"runs"`
	CreatedAt   int64          `json:"created_at"`
	UpdatedAt   int64          `json:"updated_at"`
}

// workflowRunsOf counts runs by state.
type workflowRunsOf struct {
	Total     int64 `json:"total"`
	Active    int64 `json:"active"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
	TimedOut  int64 `json:"timed_out"`
}

// workflowsText is the list of a namespace's workflows in JSON.
type workflowsText struct {
	Namespace string         `json:"namespace"`
	Workflows []workflowText `json:"workflows"`
	Count     int            `json:"count"`
}

func workflowList(_ *frame, cmd *cobra.Command) prepare {
	prefix := cmd.Flags().String("prefix", "", "only names with this prefix")
	return unchecked(func(ctx context.Context, s *session, _ []string) error {
		document := func(i workflow.Info) workflowText { return newWorkflowText(s.namespace, i) }
		row := func(i workflow.Info) []string {
			r := i.Runs
			return []string{
				i.Name, i.Version, strconv.FormatBool(i.Enabled), strconv.Itoa(len(i.Steps)), startedBy(i), decimal(r.Active),
				decimal(r.Completed),
				decimal(r.Failed + r.TimedOut), decimal(r.Cancelled),
			}
		}
		head := []string{"WORKFLOW", "VERSION", "ENABLED", "STEPS", "STARTED BY", "ACTIVE", "COMPLETED", "FAILED", "CANCELLED"}
		return printEach(s.output, s.Workflow(s.namespace).All(ctx, workflow.Prefix(*prefix)), head, document, row,
			func(list []workflowText) any { return workflowsText{s.namespace, list, len(list)} })
	})
}

// startedBy returns what starts a workflow automatically: its schedule, its trigger, or both.
func startedBy(i workflow.Info) string {
	switch {
	case i.HasSchedule && i.HasTrigger:
		return "schedule, trigger"
	case i.HasSchedule:
		return "schedule"
	case i.HasTrigger:
		return "trigger"
	}
	return "-"
}

// orEmpty returns a list that is [] in JSON if it is empty.
func orEmpty(list []string) []string { return append([]string{}, list...) }

// workflowDone is the result of a change to a workflow that has no other result.
type workflowDone struct {
	OK        bool   `json:"ok"`
	Workflow  string `json:"workflow"`
	Namespace string `json:"namespace"`
}

func (s *session) printWorkflowDone(head, name string) error {
	return s.print(workflowDone{true, name, s.namespace}, table{head: []string{head}, rows: [][]string{{name}}})
}

// uncreated adds a hint to the error for an unknown workflow.
func uncreated(err error) error {
	if errors.Is(err, floe.ErrNotFound) {
		return &hintedError{err, "floe workflow list lists the workflows; create one with floe workflow create -f FILE"}
	}
	return err
}

func workflowDelete(_ *frame, cmd *cobra.Command) prepare {
	force := cmd.Flags().Bool("force", false, "delete it even if it has active runs, which continue")
	return func(args []string) (callFunc, error) {
		var opts []workflow.DeleteOption
		if *force {
			opts = append(opts, workflow.Force())
		}
		return func(ctx context.Context, s *session) error {
			if err := s.Workflow(s.namespace).Delete(ctx, args[0], opts...); err != nil {
				if errors.Is(err, floe.ErrConflict) {
					return &hintedError{err, "use --force to remove it anyway; its runs continue"}
				}
				return err
			}
			return s.printWorkflowDone("DELETED", args[0])
		}, nil
	}
}

// workflowNames lists the workflows of the namespace for completion.
func workflowNames(ctx context.Context, s *session, _ []string, begun string) (names []string, err error) {
	page, err := s.Workflow(s.namespace).Page(ctx, workflow.Prefix(begun), workflow.Limit(workflow.MaxPageItems))
	for _, i := range page.Items {
		names = append(names, i.Name)
	}
	return names, err
}

// onWorkflow returns the run of a command that changes a workflow.
func onWorkflow(head string, do func(*workflow.Store, context.Context, string) error) runFunc {
	return func(ctx context.Context, s *session, args []string) error {
		if err := do(s.Workflow(s.namespace), ctx, args[0]); err != nil {
			return uncreated(err)
		}
		return s.printWorkflowDone(head, args[0])
	}
}
