package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream/processing"
)

var processingRows = []row{
	{use: "submit [FILE]", short: "Submit a job", flags: processingSubmit,
		long: `Submit a job: a definition of sources, operators and sinks, YAML or JSON. It starts at once.
The namespace is that of --namespace, else that of the definition.`,
		example: `  floe processing submit -f orders.yaml
  floe processing submit orders.yaml -n shop`},
	{code: processingValidate},
	{use: "status JOB", short: "Show a job", flags: processingStatus,
		long: `Show a job, which is named by its id or, if no other job has it, by its name.`},
	{use: "list", short: "List the jobs of a namespace", flags: processingList},
	{use: "stop JOB", short: "Stop a job, keeping its state", flags: onJob((*processing.Store).Stop)},
	{use: "cancel JOB", short: "Cancel a job and drop its state", flags: onJob((*processing.Store).Cancel)},
	{use: "savepoint JOB", short: "Create a savepoint of a job", flags: processingSavepoint,
		long: "Copy the state of a job while it runs, and wait until the copy is complete."},
	{use: "restore JOB [SAVEPOINT]", short: "Resume a stopped job, optionally from a savepoint", flags: processingRestore,
		long: `Resume a job that is stopped, failed or completed. With a savepoint it has the state of the
savepoint, and later output is written again; without one it continues at its position.

With --file the job gets another definition: sources and operators with unchanged names and
keys keep their state. "floe processing plan" lists them. --restart-source is for a source
whose stream was deleted and created again: it restarts, and operators keep their state.`},
	{use: "plan JOB [SAVEPOINT] -f FILE", short: "Show which state a changed definition keeps", flags: processingPlan},
	{use: "apply [FILE]", short: "Create a job or change its definition", flags: processingApply,
		long: `Create a job or change its definition. Without a job of that name, one is submitted. Else the
job is stopped and resumes with the definition; sources and operators with unchanged names
and keys keep their state. A job that already has the definition is left unchanged.`},
	{use: "rescale JOB N", short: "Set the parallelism of a job", flags: processingRescale},
}

// pipeline reads the pipeline named by --file or an argument.
func (f *frame) pipeline(cmd *cobra.Command, file string, args []string) ([]byte, error) {
	if len(args) > 0 {
		if file != "" {
			return nil, &usageError{fmt.Errorf("FILE %q: contradicts --file", args[0]), helpHint(cmd)}
		}
		file = args[0]
	}
	return f.definition(cmd, file)
}

// jobIn returns the store and id of a job. name is the job's id, or its name if no other job has
// the same name.
func (s *session) jobIn(ctx context.Context, cmd *cobra.Command, name string) (*processing.Store, processing.JobID, error) {
	store := s.Processing(s.namespace)
	if strings.HasPrefix(name, "job-") {
		if own, err := store.Locate(ctx, processing.JobID(name)); err == nil && !cmd.Flags().Changed("namespace") {
			s.namespace = own
			return s.Processing(own), processing.JobID(name), nil
		} else if err == nil {
			return store, processing.JobID(name), nil
		}
	}
	var found []processing.Job
	for j, err := range store.All(ctx, processing.Named(name)) {
		if err != nil {
			return nil, "", err
		}
		if j.Status != processing.Cancelled {
			found = append(found, j)
		}
	}
	switch len(found) {
	case 0:
		return nil, "", fmt.Errorf("job %q: %w", name, floe.ErrNotFound)
	case 1:
		return store, found[0].ID, nil
	}
	return nil, "", fmt.Errorf("%d jobs are called %q: give the id of one: %w", len(found), name, floe.ErrConflict)
}

// jobMistakes splits the error of a pipeline into one error per mistake.
func jobMistakes(err error) error {
	var bad *processing.DefinitionError
	if !errors.As(err, &bad) {
		return err
	}
	var all []error
	for _, p := range bad.Problems {
		if !p.Warning {
			all = append(all, errors.New(p.String()))
		}
	}
	return &exitError{errors.Join(all...), exitUsage}
}

// jobDone is the result of a change to a job.
type jobDone struct {
	OK        bool   `json:"ok"`
	JobID     string `json:"job_id"`
	Namespace string `json:"namespace"`
	Status    string `json:"status"`
}

func (s *session) printJob(id processing.JobID, status string) error {
	return s.print(jobDone{true, string(id), s.namespace, status},
		table{head: []string{"JOB", "STATUS"}, rows: [][]string{{string(id), status}}})
}

// useNamespaceOf switches to the namespace in a pipeline, unless --namespace is given.
func (s *session) useNamespaceOf(cmd *cobra.Command, definition []byte) error {
	if cmd.Flags().Changed("namespace") {
		return nil
	}
	own, err := processing.DefinitionNamespace(definition)
	if err != nil {
		return jobMistakes(err)
	}
	if own != "" {
		s.namespace = own
	}
	return nil
}

func processingSubmit(f *frame, cmd *cobra.Command) prepare {
	file := addFile(cmd)
	return func(args []string) (callFunc, error) {
		definition, err := f.pipeline(cmd, *file, args)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			if err := s.useNamespaceOf(cmd, definition); err != nil {
				return err
			}
			made, err := s.Processing(s.namespace).Submit(ctx, definition)
			if err != nil {
				return jobMistakes(err)
			}
			s.noteNamesake(ctx, f, made)
			return s.printJob(made.Job, made.Status.String())
		}, nil
	}
}

// noteNamesake prints a note if another job has the name of a submitted one: it was often meant to
// be changed.
func (s *session) noteNamesake(ctx context.Context, f *frame, made processing.Submitted) {
	for j, err := range s.Processing(s.namespace).All(ctx, processing.Named(made.Name)) {
		if err != nil {
			return
		}
		if j.ID != made.Job && j.Status == processing.Running {
			fmt.Fprintf(f.Stderr, "floe: note: job %s with the name %q runs too; floe processing apply changes a job instead of adding one\n",
				j.ID, made.Name)
			return
		}
	}
}

func processingValidate(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Validate a definition without a node",
		Long: `Validate a definition without a node. The exit code is 1 if it has errors; warnings alone
do not count.`,
		Args: takes("[FILE]"),
	}
	file := addFile(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		definition, err := f.pipeline(cmd, *file, args)
		if err != nil {
			return err
		}
		list, wrong := problemList{Problems: []problemText{}}, 0
		t := table{head: []string{"LINE", "SEVERITY", "CODE", "MESSAGE"}}
		for _, p := range processing.Validate(definition) {
			severity := "warning"
			if !p.Warning {
				severity = "error"
				wrong++
			}
			list.Problems = append(list.Problems, problemText{p.Line, severity, p.Code, p.Message})
			t.rows = append(t.rows, []string{strconv.Itoa(p.Line), severity, p.Code, p.Message})
		}
		list.Count, list.Valid = len(list.Problems), wrong == 0
		if err := f.output.printProblems(list, t, "The pipeline is valid."); err != nil || wrong == 0 {
			return err
		}
		return fmt.Errorf("the pipeline cannot be submitted: errors: %d", wrong)
	}
	return f.completing(cmd)
}

// jobText is a job in JSON.
type jobText struct {
	JobID         string  `json:"job_id"`
	Name          string  `json:"name"`
	Namespace     string  `json:"namespace"`
	Status        string  `json:"status"`
	Held          bool    `json:"held"`
	Reason        string  `json:"reason"`
	Parallelism   int     `json:"parallelism"`
	BatchSize     int     `json:"batch_size"`
	CreatedAt     int64   `json:"created_at"`
	RecordsIn     int64   `json:"records_in"`
	RecordsOut    int64   `json:"records_out"`
	Errors        int64   `json:"errors"`
	Late          int64   `json:"late"`
	Dropped       int64   `json:"dropped"`
	Missed        int64   `json:"missed"`
	RecordsBehind int64   `json:"records_behind"`
	InPerSecond   float64 `json:"throughput_per_sec"`
	WatermarkLag  int64   `json:"watermark_lag_ms"`
	LatencyMillis float64 `json:"latency_avg_ms"`

	Failure *jobFailure `json:"failure,omitempty"`
}

// jobFailure is the record that failed a job, in JSON.
type jobFailure struct {
	Operator    string `json:"operator"`
	Reason      string `json:"reason"`
	Source      string `json:"source"`
	Stream      string `json:"stream"`
	Measurement string `json:"measurement"`
	Partition   int    `json:"partition"`
	RecordID    string `json:"record_id"`
	Offset      uint64 `json:"offset"`
}

func textOfFailure(f *processing.Failure) *jobFailure {
	if f == nil {
		return nil
	}
	text := &jobFailure{Operator: f.Operator, Reason: f.Reason, Source: f.Source, Stream: f.Stream,
		Measurement: f.Measurement, Partition: f.Partition, Offset: f.Offset}
	if f.Source != "" {
		text.RecordID = f.RecordID.String()
	}
	return text
}

// tableOfFailure has the position of the record that failed a job.
func tableOfFailure(f *processing.Failure) table {
	return table{name: "failure", head: []string{"FAILED AT", "SOURCE", "INPUT", "PARTITION", "OFFSET", "RECORD"},
		rows: [][]string{{
			f.Operator, f.Source, cmp.Or(f.Stream, f.Measurement), decimal(f.Partition), decimal(f.Offset), f.RecordID.String(),
		}}}
}

func textOfJob(j processing.Job) jobText {
	m := &j.Metrics
	return jobText{
		JobID: string(j.ID), Name: j.Name, Namespace: j.Namespace, Status: j.Status.String(), Held: j.Held, Reason: j.Reason,
		Parallelism: j.Parallelism,
		BatchSize:   j.BatchSize, CreatedAt: j.CreatedAt.UnixMilli(), RecordsIn: m.RecordsIn, RecordsOut: m.RecordsOut, Errors: m.Errors,
		Late:    m.Late,
		Dropped: m.Dropped, Missed: m.Missed, RecordsBehind: m.RecordsBehind, InPerSecond: m.InPerSecond,
		WatermarkLag:  m.Lag.Milliseconds(),
		LatencyMillis: float64(m.LatencyAvg) / float64(time.Millisecond), Failure: textOfFailure(j.Failure),
	}
}

// jobsText is the list of a namespace's jobs in JSON.
type jobsText struct {
	Namespace string    `json:"namespace"`
	Jobs      []jobText `json:"jobs"`
	Count     int       `json:"count"`
}

var jobHead = []string{"JOB", "NAME", "STATUS", "IN", "OUT", "ERRORS", "LATE", "BEHIND", "LAG", "REASON"}

func rowOfJob(j processing.Job) []string {
	m := &j.Metrics
	lag := "-"
	if !m.Watermark.IsZero() {
		lag = m.Lag.Round(time.Millisecond).String()
	}
	return []string{
		string(j.ID), j.Name, j.Status.String(), decimal(m.RecordsIn), decimal(m.RecordsOut), decimal(m.Errors), decimal(m.Late),
		decimal(m.RecordsBehind), lag, orDash(j.Reason),
	}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func processingList(_ *frame, cmd *cobra.Command) prepare {
	prefix := cmd.Flags().String("prefix", "", "only names with this prefix")
	return unchecked(func(ctx context.Context, s *session, _ []string) error {
		return printEach(s.output, s.Processing(s.namespace).All(ctx, processing.Prefix(*prefix)), jobHead, textOfJob, rowOfJob,
			func(list []jobText) any { return jobsText{s.namespace, list, len(list)} })
	})
}

// savepointText is a savepoint in JSON.
type savepointText struct {
	ID               string `json:"id"`
	CreatedAt        int64  `json:"created_at"`
	Complete         bool   `json:"complete"`
	RecordsProcessed int64  `json:"records_processed"`
	Bytes            int64  `json:"bytes"`
}

// jobStatus is a job with its details, in JSON.
type jobStatus struct {
	jobText
	YAML       string          `json:"yaml"`
	Savepoints []savepointText `json:"savepoints"`
}

func processingStatus(f *frame, cmd *cobra.Command) prepare {
	return unchecked(func(ctx context.Context, s *session, args []string) error {
		store, id, err := s.jobIn(ctx, cmd, args[0])
		if err != nil {
			return err
		}
		d, err := store.Get(ctx, id)
		if err != nil {
			return err
		}
		text := jobStatus{textOfJob(d.Job), string(d.Definition), []savepointText{}}
		tables := []table{{head: jobHead, rows: [][]string{rowOfJob(d.Job)}}}
		if f := d.Failure; f != nil && f.Source != "" {
			tables = append(tables, tableOfFailure(f))
		}
		saved := table{head: []string{"SAVEPOINT", "RECORDS", "BYTES", "COMPLETE"}}
		for _, p := range d.Savepoints {
			text.Savepoints = append(text.Savepoints,
				savepointText{string(p.ID), p.CreatedAt.UnixMilli(), p.Complete, p.RecordsProcessed, p.Bytes})
			saved.rows = append(saved.rows,
				[]string{string(p.ID), decimal(p.RecordsProcessed), decimal(p.Bytes), strconv.FormatBool(p.Complete)})
		}
		if len(saved.rows) > 0 {
			tables = append(tables, saved)
		}
		return s.print(text, tables...)
	})
}

// onJob returns the flags of a command that changes the status of a job.
func onJob(
	change func(*processing.Store, context.Context, processing.JobID) (processing.Status, error),
) func(*frame, *cobra.Command) prepare {
	return func(_ *frame, cmd *cobra.Command) prepare {
		return unchecked(func(ctx context.Context, s *session, args []string) error {
			store, id, err := s.jobIn(ctx, cmd, args[0])
			if err != nil {
				return err
			}
			status, err := change(store, ctx, id)
			if err != nil {
				return err
			}
			return s.printJob(id, status.String())
		})
	}
}

func processingSavepoint(_ *frame, cmd *cobra.Command) prepare {
	return unchecked(func(ctx context.Context, s *session, args []string) error {
		store, id, err := s.jobIn(ctx, cmd, args[0])
		if err != nil {
			return err
		}
		made, err := store.Savepoints(id).Create(ctx)
		if err != nil {
			return err
		}
		p, err := store.AwaitSavepoint(ctx, id, made)
		if err != nil {
			return err
		}
		return s.print(
			savepointText{string(p.ID), p.CreatedAt.UnixMilli(), p.Complete, p.RecordsProcessed, p.Bytes},
			table{head: []string{"SAVEPOINT", "RECORDS", "BYTES"},
				rows: [][]string{{string(p.ID), decimal(p.RecordsProcessed), decimal(p.Bytes)}}},
		)
	})
}

// restoreFlags adds the flags shared by restore and plan.
func (f *frame) restoreFlags(cmd *cobra.Command) func(args []string) ([]processing.RestoreOption, error) {
	file := addFile(cmd)
	again := cmd.Flags().StringSlice("restart-source", nil, "name of a source to restart; repeatable")
	return func(args []string) (opts []processing.RestoreOption, err error) {
		for _, name := range *again {
			opts = append(opts, processing.RestartSource(name))
		}
		if len(args) > 1 {
			opts = append(opts, processing.FromSavepoint(processing.SavepointID(args[1])))
		}
		if *file != "" {
			definition, err := f.definition(cmd, *file)
			if err != nil {
				return nil, err
			}
			opts = append(opts, processing.ReplaceDefinition(definition))
		}
		return opts, nil
	}
}

func processingRestore(f *frame, cmd *cobra.Command) prepare {
	options := f.restoreFlags(cmd)
	drop := cmd.Flags().Bool("drop-state", false, "allow a definition that loses state")
	return func(args []string) (callFunc, error) {
		opts, err := options(args)
		if err != nil {
			return nil, err
		}
		if *drop {
			opts = append(opts, processing.DropState())
		}
		return func(ctx context.Context, s *session) error {
			store, id, err := s.jobIn(ctx, cmd, args[0])
			if err != nil {
				return err
			}
			status, err := store.Restore(ctx, id, opts...)
			if err != nil {
				return jobMistakes(err)
			}
			return s.printJob(id, status.String())
		}, nil
	}
}

// planText is the state that a restore keeps and drops, in JSON.
type planText struct {
	Kept    []string `json:"kept"`
	Dropped []string `json:"dropped"`
	New     []string `json:"new"`
	Notes   []string `json:"notes"`
}

func processingPlan(f *frame, cmd *cobra.Command) prepare {
	options := f.restoreFlags(cmd)
	return func(args []string) (callFunc, error) {
		opts, err := options(args)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			store, id, err := s.jobIn(ctx, cmd, args[0])
			if err != nil {
				return err
			}
			p, err := store.Plan(ctx, id, opts...)
			if err != nil {
				return jobMistakes(err)
			}
			t := table{head: []string{"STATE", "OF"}}
			for _, part := range []struct {
				title string
				names []string
			}{{"kept", p.Kept}, {"dropped", p.Dropped}, {"new", p.New}, {"note", p.Notes}} {
				for _, name := range part.names {
					t.rows = append(t.rows, []string{part.title, name})
				}
			}
			return s.print(planText{orEmpty(p.Kept), orEmpty(p.Dropped), orEmpty(p.New), orEmpty(p.Notes)}, t)
		}, nil
	}
}

// appliedText is the result of apply, in JSON.
type appliedText struct {
	jobDone
	Made    bool `json:"made"`
	Changed bool `json:"changed"`
	planText
}

func processingApply(f *frame, cmd *cobra.Command) prepare {
	file := addFile(cmd)
	drop := cmd.Flags().Bool("drop-state", false, "allow a definition that loses state")
	return func(args []string) (callFunc, error) {
		definition, err := f.pipeline(cmd, *file, args)
		if err != nil {
			return nil, err
		}
		var opts []processing.RestoreOption
		if *drop {
			opts = append(opts, processing.DropState())
		}
		return func(ctx context.Context, s *session) error {
			if err := s.useNamespaceOf(cmd, definition); err != nil {
				return err
			}
			done, err := s.Processing(s.namespace).Apply(ctx, definition, opts...)
			if err != nil {
				return jobMistakes(err)
			}
			what := "unchanged"
			switch {
			case done.Made:
				what = "submitted"
			case done.Changed:
				what = "changed"
			}
			p, job := &done.Plan, jobDone{true, string(done.Job), s.namespace, done.Status.String()}
			return s.print(
				appliedText{job, done.Made, done.Changed, planText{orEmpty(p.Kept), orEmpty(p.Dropped), orEmpty(p.New), orEmpty(p.Notes)}},
				table{head: []string{"JOB", "STATUS", "WHAT"}, rows: [][]string{{job.JobID, job.Status, what}}},
			)
		}, nil
	}
}

func processingRescale(_ *frame, cmd *cobra.Command) prepare {
	return func(args []string) (callFunc, error) {
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return nil, &usageError{fmt.Errorf("argument %q is not a number", args[1]), helpHint(cmd)}
		}
		return func(ctx context.Context, s *session) error {
			store, id, err := s.jobIn(ctx, cmd, args[0])
			if err != nil {
				return err
			}
			if err := store.Rescale(ctx, id, n); err != nil {
				return err
			}
			j, err := store.Get(ctx, id)
			if err != nil {
				return err
			}
			return s.printJob(id, j.Status.String())
		}, nil
	}
}
