package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

// row declares a command that calls a node: its help, its arguments and what it does. It has run if
// it takes arguments only, flags if it also takes flags, below if it is a group, and code if it
// makes more than one call or none.
type row struct {
	use      string // name and arguments: [NAME] is optional, and NAME... may be repeated
	short    string
	long     string
	example  string
	complete listers
	asks     string // what a command that destroys data does, as the beginning of a question; see asking
	run      runFunc
	flags    func(f *frame, cmd *cobra.Command) prepare
	below    []row // makes it a group
	code     func(f *frame) *cobra.Command
}

type (
	listers  []lister
	callFunc func(ctx context.Context, s *session) error
	runFunc  func(ctx context.Context, s *session, args []string) error

	// prepare checks arguments and flags before the command connects, and returns the call.
	prepare func(args []string) (callFunc, error)
)

// unchecked is the prepare of a command that has nothing to check.
func unchecked(do runFunc) prepare {
	return func(args []string) (callFunc, error) {
		return func(ctx context.Context, s *session) error { return do(ctx, s, args) }, nil
	}
}

// calls returns a command of the top level with the commands of the rows below it.
func calls(use, short string, rows []row) func(Process) *cobra.Command {
	return func(p Process) *cobra.Command {
		f := &frame{Process: p}
		cmd := f.group(use, short, rows)
		f.equip(cmd)
		return cmd
	}
}

// group returns a command with the commands of the rows below it.
func (f *frame) group(use, short string, rows []row) *cobra.Command {
	cmd := group(use, short)
	for i := range rows {
		cmd.AddCommand(f.command(&rows[i]))
	}
	return cmd
}

// command returns the command of a row.
func (f *frame) command(r *row) *cobra.Command {
	switch {
	case r.code != nil:
		return r.code(f)
	case r.below != nil:
		return f.group(r.use, r.short, r.below)
	}
	cmd := &cobra.Command{Use: r.use, Short: r.short, Long: r.long, Example: r.example, Args: argsOf(r.use)}
	cmd.Flags().SortFlags = false
	var prepared prepare
	if r.flags != nil {
		prepared = r.flags(f, cmd)
	} else {
		prepared = unchecked(r.run)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		do, err := prepared(args)
		if err != nil {
			return err
		}
		return f.call(cmd, do)
	}
	if r.asks != "" {
		cmd = f.asking(cmd, r.asks)
	}
	return f.completing(cmd, r.complete...)
}

// argsOf returns the check of the arguments in a usage line. Flags that are required follow them.
func argsOf(use string) cobra.PositionalArgs {
	names := strings.Fields(use)[1:]
	repeated := false
	for i, name := range names {
		if strings.HasPrefix(name, "-") {
			names = names[:i]
			break
		}
		name, more := strings.CutSuffix(name, "...")
		names[i], repeated = name, repeated || more
	}
	if repeated {
		return atLeast(names...)
	}
	return takes(names...)
}
