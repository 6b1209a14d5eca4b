package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionPatience is how long a shell waits for names: more would feel as if it hung.
const completionPatience = 2 * time.Second

// lister lists what a shell may offer for an argument; before are the arguments in front of it,
// begun is how it begins.
type lister func(ctx context.Context, s *session, before []string, begun string) ([]string, error)

// completing makes a shell offer names that the node knows, a lister for each argument, nil for
// none. The last one is also for those that follow, if there may be several.
func (f *frame) completing(cmd *cobra.Command, listers ...lister) *cobra.Command {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) (names []string, _ cobra.ShellCompDirective) {
		f.timeout, f.wait = min(f.timeout, completionPatience), 0
		var list lister
		if len(args) < len(listers) || strings.HasSuffix(cmd.Use, "...") {
			list = listers[min(len(args), len(listers)-1)]
		}
		if list == nil || cmd.Context() == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// A shell in which a completion fails offers nothing; there is no place for an error.
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

// withoutFiles makes shells offer no files for the arguments of a command and those below it,
// unless something else is said.
func withoutFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, below := range cmd.Commands() {
		withoutFiles(below)
	}
}
