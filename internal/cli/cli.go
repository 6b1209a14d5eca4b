// Package cli is the command line of floe. Every primitive has a file with its commands; commands is the table of them.
//
// Results go to stdout, everything else to stderr. The exit code is 0 if the command did what it was asked, 1 if it could not,
// and 2 if it was not understood.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Process is what a command knows of the process it runs in.
type Process struct {
	Args      []string // without the name of the program
	Stdout    io.Writer
	Stderr    io.Writer
	LookupEnv func(name string) (value string, given bool)
}

// commands are the commands of floe, in the order of their help.
var commands = []func(Process) *cobra.Command{
	serverCommand,
	versionCommand,
}

// Main runs the command line of this process and returns its exit code. SIGINT and SIGTERM ask the command to end; a second one
// ends the process at once.
func Main() int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitFailure)
	}()
	return Run(ctx, Process{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr, LookupEnv: os.LookupEnv})
}

// Run carries out one command line and returns the exit code. When ctx is done, a command that runs until it is stopped ends
// in order, and any other gives up.
func Run(ctx context.Context, p Process) int {
	root := group("floe", "A data node: key-value over a replicated log")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetArgs(append([]string{}, p.Args...)) // nil would be those of the process
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{err, helpHint(cmd)}
	})
	for _, command := range commands {
		root.AddCommand(command(p))
	}
	return report(p.Stderr, root.ExecuteContext(ctx))
}

// group returns a command that only has commands below it.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(below...)
	return cmd
}

func unknownCommand(cmd *cobra.Command, name string) error {
	hint := helpHint(cmd)
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s %s?", cmd.CommandPath(), near[0])
	}
	return &usageError{fmt.Errorf("unknown command %q of %s", name, cmd.CommandPath()), hint}
}

// noArgs is the Args of a command that takes none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &usageError{fmt.Errorf("unexpected argument %q", args[0]), helpHint(cmd)}
}

// oneArg is the Args of a command that takes exactly one, called what the help calls it.
func oneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return &usageError{fmt.Errorf("%s is missing", name), helpHint(cmd)}
		case len(args) > 1:
			return &usageError{fmt.Errorf("unexpected argument %q", args[1]), helpHint(cmd)}
		}
		return nil
	}
}

func helpHint(cmd *cobra.Command) string { return "see " + cmd.CommandPath() + " --help" }
