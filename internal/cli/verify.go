package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

func verifyCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check the data directory of a stopped node",
		Long: `Check the data directory of a stopped node, without changing anything in it.

Every record of the log and every block of the tables is read, the log is replayed
in memory, and all rows are checked against one another. Each problem is named by
its file and offset, or by its shard and row.

The exit code is 0 if there is no problem, and 1 if there is any or the directory
could not be checked.`,
		Example: `  floe server verify ./floe-data
  floe server verify /var/lib/floe -o json`,
		Args: takes("DIR"),
	}
	output := &text{value: "table", kind: "format"}
	cmd.Flags().VarP(output, "output", "o", "format of the result: table or json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var print func(io.Writer, string, floe.VerifyReport) error
		err := choose(&print, output.value, map[string]func(io.Writer, string, floe.VerifyReport) error{
			"table": printVerified, "json": printVerifiedJSON,
		})
		if err != nil {
			return &usageError{fmt.Errorf("--output=%s: %w", output.value, err), helpHint(cmd)}
		}
		return verify(cmd.Context(), args[0], func(r floe.VerifyReport) error { return print(p.Stdout, args[0], r) })
	}
	return cmd
}

func verify(ctx context.Context, dir string, print func(floe.VerifyReport) error) error {
	r, err := floe.Verify(ctx, dir)
	switch {
	case errors.Is(err, floe.ErrInUse):
		return &hintedError{err, "stop the node first, or verify a copy of the directory that was made while no node had it"}
	case err != nil:
		return err
	}
	if err := print(r); err != nil {
		return err
	}
	if n := len(r.Problems) + r.Unlisted; n > 0 {
		return &hintedError{fmt.Errorf("%s: problems found: %d", dir, n), "make a copy of the directory before anything else is done to it"}
	}
	return nil
}

func printVerified(w io.Writer, dir string, r floe.VerifyReport) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "directory\t%s\n", dir)
	fmt.Fprintf(t, "shards\t%d\n", r.Shards)
	fmt.Fprintf(t, "log\t%d segments\t%d bytes\t%d entries\n", r.Segments, r.LogBytes, r.Entries)
	fmt.Fprintf(t, "state\t%d tables\t%d bytes\n", r.Tables, r.TableBytes)
	for shard, rows := range r.Rows {
		fmt.Fprintf(t, "shard %d\t%d rows\n", shard, rows)
	}
	fmt.Fprintf(t, "time\t%v\n", r.Elapsed.Round(time.Millisecond))
	if err := t.Flush(); err != nil {
		return err
	}
	for _, problem := range r.Problems {
		if _, err := fmt.Fprintf(w, "problem: %s\n", problem); err != nil {
			return err
		}
	}
	if r.Unlisted > 0 {
		_, err := fmt.Fprintf(w, "and %d more problems\n", r.Unlisted)
		return err
	}
	if len(r.Problems) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "no problem found")
	return err
}

func printVerifiedJSON(w io.Writer, _ string, r floe.VerifyReport) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}
