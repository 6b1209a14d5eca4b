package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// completionPatience is how long a shell waits for names: more would feel as if it hung.
const completionPatience = 2 * time.Second

// lister lists what a shell may offer for an argument; before are the arguments in front of it, begun is how it begins.
type lister func(ctx context.Context, s *session, before []string, begun string) ([]string, error)

// completing makes a shell offer names that the node knows, a lister for each argument, nil for none. The last one is also for those that
// follow, if there may be several.
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

// withoutFiles makes shells offer no files for the arguments of a command and those below it, unless something else is said.
func withoutFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, below := range cmd.Commands() {
		withoutFiles(below)
	}
}

func streamNames(ctx context.Context, s *session, _ []string, begun string) (names []string, err error) {
	page, err := s.Stream(s.namespace).Page(ctx, stream.Prefix(begun), stream.Limit(stream.MaxPageItems))
	for _, s := range page.Items {
		names = append(names, s.Name)
	}
	return names, err
}

// groupNames lists the groups of the stream in front.
func groupNames(ctx context.Context, s *session, before []string, begun string) (names []string, err error) {
	page, err := s.Stream(s.namespace).Groups(before[0]).Page(ctx, stream.Prefix(begun), stream.Limit(stream.MaxPageItems))
	for _, g := range page.Items {
		names = append(names, g.Name)
	}
	return names, err
}

// consumerNames lists the members of the group in front.
func consumerNames(ctx context.Context, s *session, before []string, _ string) (names []string, err error) {
	g, err := s.Stream(s.namespace).Groups(before[0]).Get(ctx, before[1])
	for _, m := range g.Members {
		names = append(names, m.Consumer)
	}
	return names, err
}

// pendingIDs lists the records that the group in front has not done.
func pendingIDs(ctx context.Context, s *session, before []string, _ string) (ids []string, err error) {
	page, err := s.Stream(s.namespace).Pending(before[0], before[1]).Page(ctx, stream.Limit(stream.MaxPageItems))
	for _, r := range page.Items {
		ids = append(ids, r.ID.String())
	}
	return ids, err
}

func queueNames(ctx context.Context, s *session, _ []string, begun string) (names []string, err error) {
	page, err := s.Queue(s.namespace).Page(ctx, queue.Prefix(begun), queue.Limit(queue.MaxPageItems))
	for _, q := range page.Items {
		names = append(names, q.Name)
	}
	return names, err
}

// deadSeqs lists the dead letters of the queue in front.
func deadSeqs(ctx context.Context, s *session, before []string, _ string) (seqs []string, err error) {
	page, err := s.Queue(s.namespace).DeadLetters(before[0]).Page(ctx, queue.NoPayload())
	for _, m := range page.Items {
		seqs = append(seqs, decimal(m.Seq))
	}
	return seqs, err
}
