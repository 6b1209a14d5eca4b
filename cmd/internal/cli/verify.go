package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

func verifyCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Verify the data directory of a stopped node",
		Long: `Verify the data directory of a stopped node without changing it.

The command reads every log record and table block, replays the log in memory, and checks
all rows against each other. A problem is reported with its file and offset, or with its
shard and row.

The exit code is 0 without problems, and 1 if there are any or the directory could not be
checked.`,
		Example: `  floe server verify ./floe-data
  floe server verify /var/lib/floe -o json`,
		Args: takes("DIR"),
	}
	o := addOutput(cmd, p)
	cmd.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return verify(cmd.Context(), args[0], func(r floe.VerifyReport) error { return o.printVerified(args[0], r) })
	}
	return cmd
}

func verify(ctx context.Context, dir string, print func(floe.VerifyReport) error) error {
	r, err := floe.Verify(ctx, dir)
	switch {
	case errors.Is(err, floe.ErrInUse):
		return &hintedError{err, "stop the node first, or verify a copy of the directory made while no node was using it"}
	case err != nil:
		return err
	}
	if err := print(r); err != nil {
		return err
	}
	if n := len(r.Problems) + r.Unlisted; n > 0 {
		return &hintedError{fmt.Errorf("%s: problems found: %d", dir, n), "copy the directory before you do anything else with it"}
	}
	return nil
}

func (o *output) printVerified(dir string, r floe.VerifyReport) error {
	t := table{rows: [][]string{
		{"directory", dir},
		{"format", decimal(r.Format), "created by " + cmp.Or(r.CreatedBy, "an unnamed build"),
			"written by " + cmp.Or(r.WrittenBy, "an unnamed build")},
		{"shards", decimal(r.Shards)},
		{"log", decimal(r.Segments) + " segments", decimal(r.LogBytes) + " bytes", decimal(r.Entries) + " entries"},
		{"state", decimal(r.Tables) + " tables", decimal(r.TableBytes) + " bytes"},
	}}
	for shard, rows := range r.Rows {
		t.rows = append(t.rows, []string{fmt.Sprintf("shard %d", shard), fmt.Sprintf("%d rows", rows)})
	}
	t.rows = append(t.rows, []string{"time", r.Elapsed.Round(time.Millisecond).String()})
	switch o.format {
	case formatJSON:
		return o.encode(r, "  ")
	case formatRaw:
		for _, problem := range r.Problems {
			t.rows = append(t.rows, []string{"problem", fmt.Sprint(problem)})
		}
		t.rows = append(t.rows, []string{"problems", decimal(len(r.Problems) + r.Unlisted)})
		return o.print(nil, t)
	}
	if err := o.print(nil, t); err != nil {
		return err
	}
	for _, problem := range r.Problems {
		if _, err := fmt.Fprintf(o.w, "problem: %s\n", problem); err != nil {
			return err
		}
	}
	if r.Unlisted > 0 {
		_, err := fmt.Fprintf(o.w, "and %d more problems\n", r.Unlisted)
		return err
	}
	if len(r.Problems) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(o.w, "no problem found")
	return err
}
