package cli

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/floedb/floe/internal/test/reference"
)

const commandsIntro = "# Command line\n\n" +
	"Results go to stdout, errors and hints to stderr. A duration is `500ms`, `1h30m` or `7d`, a size `64KiB` or `1MiB`. " +
	"`floe completion SHELL` prints a completion script. `ls` is another name of each `list`, and `rm` of each `delete`.\n"

// exitDocs describes the exit codes.
var exitDocs = [][]string{
	{fmt.Sprint(exitOK), "success; also after Ctrl-C in a command that runs until stopped"},
	{fmt.Sprint(exitFailure), "failure without a code of its own"},
	{fmt.Sprint(exitUsage), "invalid arguments or configuration, whether the command or the node rejects them"},
	{fmt.Sprint(exitNotFound), "not found"},
	{fmt.Sprint(exitConflict), "a condition does not hold, or the thing already exists"},
	{fmt.Sprint(exitUnavailable), "no answer, no quorum, overload, or no disk space"},
	{fmt.Sprint(exitUnauthorized), "missing, wrong or insufficient credentials"},
	{fmt.Sprint(exitRemoved), "the data directory was removed while the node was running; restore it before a restart"},
	{fmt.Sprint(exitInterrupted), "interrupted before the work was finished"},
}

// TestCommandsReference: docs/reference/command-line.md agrees with the commands.
func TestCommandsReference(t *testing.T) {
	root := newRoot(Process{Stdout: io.Discard, Stderr: io.Discard, LookupEnv: lookup(nil)})
	page := commandsIntro + "\n## Exit codes\n" + reference.Table([]string{"code", "meaning"}, exitDocs)
	usual := usualFlags(root)
	page += "\n## Flags of client commands\n\nEvery command that connects to a node has these flags.\n" +
		reference.Table([]string{"flag", "meaning"}, flagRows(usual, nil))
	for _, group := range root.Commands() {
		if group.Name() == "help" || group.Name() == "completion" || group.Hidden {
			continue
		}
		page += fmt.Sprintf("\n## floe %s\n", group.Name())
		if group.HasSubCommands() {
			page += "\n" + group.Short + ".\n"
		}
		page += commandDocs(group, usual)
	}
	reference.Check(t, "command-line.md", page)
}

// usualFlags returns the flags of all client commands.
func usualFlags(root *cobra.Command) *pflag.FlagSet {
	cmd, _, _ := root.Find([]string{"kv", "delete"})
	return cmd.InheritedFlags()
}

// commandDocs returns the documentation of a command and of those below it.
func commandDocs(cmd *cobra.Command, usual *pflag.FlagSet) (page string) {
	if !cmd.HasSubCommands() {
		page = fmt.Sprintf("\n### `%s`\n\n%s.\n", strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.Short)
		for _, same := range cmd.Aliases {
			if same == shorthands[cmd.Name()] {
				continue
			}
			page += fmt.Sprintf("Also `%s`.\n", same)
		}
		if cmd.Flags().Lookup("data-dir") != nil && cmd.Flags().Lookup("config") != nil {
			page += "\nIts flags include all [settings](configuration.md).\n"
		}
		if cmd.Flag("addr") == nil {
			usual = nil
		}
		if rows := flagRows(cmd.LocalFlags(), usual); len(rows) > 0 {
			page += reference.Table([]string{"flag", "meaning"}, rows)
		}
	}
	for _, sub := range cmd.Commands() {
		page += commandDocs(sub, usual)
	}
	return page
}

// flagRows returns a row for each flag that is not among those left out.
func flagRows(flags, without *pflag.FlagSet) (rows [][]string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || isSetting(f) {
			return
		}
		if without != nil {
			if other := without.Lookup(f.Name); other != nil && other.Usage == f.Usage {
				return
			}
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			name += " " + kind
		}
		rows = append(rows, []string{reference.Code(name), usage + shownDefault(f)})
	})
	return rows
}
