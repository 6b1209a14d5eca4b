package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionPatience is the timeout of a completion: a longer wait would feel like a hang.
const completionPatience = 2 * time.Second

// lister lists the candidates for an argument. before are the preceding arguments, and begun is the
// prefix typed so far.
type lister func(ctx context.Context, s *session, before []string, begun string) ([]string, error)

// completing adds completion of the node's names to a command: one lister for each argument, nil
// for none. The last lister also completes further arguments if the last one may be repeated.
func (f *frame) completing(cmd *cobra.Command, listers ...lister) *cobra.Command {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) (names []string, _ cobra.ShellCompDirective) {
		if useEnv(cmd, f.Process) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		f.timeout, f.wait, f.completes = min(f.timeout, completionPatience), 0, true
		var list lister
		if n := len(listers); len(args) < n || n > 0 && strings.Contains(cmd.Use, "...") {
			list = listers[min(len(args), n-1)]
		}
		if list == nil || cmd.Context() == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// A failed completion offers nothing: the shell has no place for an error.
		_ = f.call(cmd, func(ctx context.Context, s *session) error {
			all, err := list(ctx, s, args, begun)
			for _, name := range all {
				if strings.HasPrefix(name, begun) {
					names = append(names, name)
				}
			}
			return err
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// completeNamespace completes the value of --namespace.
func (f *frame) completeNamespace(cmd *cobra.Command, _ []string, begun string) (names []string, _ cobra.ShellCompDirective) {
	if cmd.Context() == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	f.timeout, f.wait, f.completes = min(f.timeout, completionPatience), 0, true
	// A failed completion offers nothing: the shell has no place for an error.
	_ = f.call(cmd, func(ctx context.Context, s *session) error {
		for n, err := range s.Namespaces().All(ctx) {
			if err != nil {
				return err
			}
			if strings.HasPrefix(n.Name, begun) {
				names = append(names, n.Name)
			}
		}
		return nil
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// withoutFiles disables file completion for the arguments of a command and its subcommands, unless
// they have a completion of their own.
func withoutFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, below := range cmd.Commands() {
		withoutFiles(below)
	}
}
