package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/floedb/floe"
)

// Process is the environment of a command: its process.
type Process struct {
	Args      []string  // without the program name
	Stdin     io.Reader // nil: none
	Stdout    io.Writer
	Stderr    io.Writer
	LookupEnv func(name string) (value string, given bool)
	Environ   []string         // NAME=VALUE: variables that are checked for spelling
	Hangups   <-chan os.Signal // each makes a server reload its certificates; nil: none
}

// commands are the commands of floe, in the order of their help.
var commands = []func(Process) *cobra.Command{
	serverCommand,
	calls("kv", "Read and write keys", kvRows),
	calls("stream", "Append to, read and consume streams", streamRows),
	calls("queue", "Enqueue and consume messages", queueRows),
	calls("ts", "Write and query time series", tsRows),
	calls("action", "Register and invoke actions", actionRows),
	calls("worker", "Execute action runs from scripts, and list workers", workerRows),
	calls("workflow", "Create and run workflows", workflowRows),
	calls("processing", "Submit and manage stream-processing jobs", processingRows),
	txnCommand,
	calls("ns", "Create, list and delete namespaces", nsRows),
	keyCommand,
	calls("cluster", "Show the nodes of a cluster", clusterRows),
	benchCommand,
	demoCommand,
	openAPICommand,
	versionCommand,
	manCommand,
}

// Main runs the command line of this process and returns its exit code. SIGINT and SIGTERM ask the
// command to stop; a second signal kills the process at once.
func Main() int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitInterrupted)
	}()
	p := Process{Args: takeArgs(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, LookupEnv: os.LookupEnv,
		Environ: os.Environ()}
	if len(p.Args) > 1 && p.Args[0] == "server" && p.Args[1] == "start" { // any other command ends when its terminal closes
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		p.Hangups = hangups
	}
	return Run(ctx, p)
}

// Run executes one command line and returns the exit code. When ctx is done, a command that runs
// until stopped shuts down gracefully, and any other is aborted.
func Run(ctx context.Context, p Process) int {
	if len(p.Args) == 0 || !strings.HasPrefix(p.Args[0], cobra.ShellCompRequestCmd) {
		noteMisspelt(p.Stderr, p.Environ)
	}
	return report(p.Stderr, newRoot(p).ExecuteContext(ctx))
}

// newRoot returns the command floe with all commands below it.
func newRoot(p Process) *cobra.Command {
	root := group("floe", "A data node with one replicated log for all primitives")
	root.Long = root.Short + `.

Exit codes: 0 success, 1 failure, 2 invalid arguments, 3 not found, 4 conflict (a condition
does not hold, or the thing already exists), 5 unavailable (no answer, no quorum, overload or
no disk space), 6 missing or insufficient credentials, 7 data directory removed while the node
was running, 130 interrupted before the work was finished.`
	root.Version = floe.Version
	root.SetVersionTemplate(versionLine() + "\n")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		for _, older := range []string{"max-deliver", "max-retries"} {
			if err := exclusive(cmd, "max-attempts", older); err != nil {
				return err
			}
		}
		return useEnv(cmd, p)
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(append([]string{}, p.Args...)) // nil would mean the arguments of the process
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if bad := (*pflag.InvalidValueError)(nil); errors.As(err, &bad) {
			cause := bad.Unwrap()
			if bad.GetFlag().Value.Type() == "bool" {
				cause = errors.New("not one of false, true")
			}
			err = fmt.Errorf("--%s=%s: %w", bad.GetFlag().Name, bad.GetValue(), cause)
		}
		hint := helpHint(cmd)
		unknown := (*pflag.NotExistError)(nil)
		switch {
		case !errors.As(err, &unknown):
		case unknown.GetSpecifiedShortnames() == "":
			if near := nearest(unknown.GetSpecifiedName(), flagNames(cmd)); near != "" {
				hint = fmt.Sprintf("did you mean --%s? %s", near, hint)
			}
		case !cmd.HasSubCommands():
			hint += "; put an argument that begins with a dash after --"
		}
		return &usageError{err, hint}
	})
	for _, command := range commands {
		root.AddCommand(command(p))
	}
	addShorthands(root)
	root.SetHelpCommand(helpCommand())
	strictCompletion(root)
	return root
}

// shorthands are other names of commands, wherever the command is.
var shorthands = map[string]string{"list": "ls", "delete": "rm"}

// addShorthands adds the other names of commands.
func addShorthands(cmd *cobra.Command) {
	if short := shorthands[cmd.Name()]; short != "" {
		cmd.Aliases = append(cmd.Aliases, short)
	}
	for _, below := range cmd.Commands() {
		addShorthands(below)
	}
}

func flagNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// group returns a command that only has subcommands.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	makeGroup(cmd)
	cmd.AddCommand(below...)
	return cmd
}

func makeGroup(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
}

// helpCommand is cobra's help command, but help for an unknown command is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]...",
		Short: "Help about any command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if about, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, c := range about.Commands() {
					if c.IsAvailableCommand() {
						names = append(names, c.Name()+"\t"+c.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return err
			case len(rest) > 0:
				return unknownCommand(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// strictCompletion makes cobra's completion command reject unknown shells and arguments.
func strictCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		makeGroup(cmd)
		for _, shell := range cmd.Commands() {
			shell.Args = takes()
		}
	}
}

func unknownCommand(cmd *cobra.Command, name string) error {
	hint := helpHint(cmd)
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s %s?", cmd.CommandPath(), near[0])
	}
	return &usageError{fmt.Errorf("unknown command %q of %s", name, cmd.CommandPath()), hint}
}

// takes is the Args of a command whose help uses these argument names. The last name may be in
// brackets, which makes the argument optional.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > len(names):
			return &usageError{fmt.Errorf("unexpected argument %q", args[len(names)]), helpHint(cmd)}
		case len(args) < len(names) && !strings.HasPrefix(names[len(args)], "["):
			return &usageError{fmt.Errorf("%s is missing", names[len(args)]), helpHint(cmd)}
		}
		return nil
	}
}

// atLeast is the Args of a command whose last argument may be repeated.
func atLeast(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return takes(names...)(cmd, args[:min(len(args), len(names))])
	}
}

func helpHint(cmd *cobra.Command) string { return "see " + cmd.CommandPath() + " --help" }
