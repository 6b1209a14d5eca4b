package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
)

// workerState is the new status of a worker, in JSON.
type workerState struct {
	OK        bool   `json:"ok"`
	WorkerID  string `json:"worker_id"`
	Namespace string `json:"namespace"`
	Status    string `json:"status"`
}

func (s *session) printWorker(id, status string) error {
	return s.print(workerState{true, id, s.namespace, status}, table{head: []string{"WORKER", "STATUS"}, rows: [][]string{{id, status}}})
}

func workerRegister(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "register ACTION... --worker-id ID",
		Short: "Register a worker",
		Long: `Register a worker that takes runs with floe worker await. This is optional: the first await
lists the worker too, without the details that are given here.

A worker without runs that makes no call for 90 s is listed as unhealthy, and removed after
24 h. Send a heartbeat about every 10 s, unless it is waiting for runs.`,
		Args: atLeast("ACTION"),
	}
	id := workerID(cmd)
	w := action.NewWorker{MaxConcurrent: 1}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(newFlag(&w.MaxConcurrent, "n", within(1, action.MaxConcurrency)), "concurrency",
		"maximum number of concurrent runs (default 1)")
	addLabel := func(v string) (map[string]string, error) { return withHeader(w.Labels, v) }
	flags.Var(newFlag(&w.Labels, "k=v", addLabel), "label", "label of the worker; repeatable")
	flags.StringVar(&w.Machine, "machine", "", "machine of the worker (default the host name)")
	metadata := flags.String("metadata", "", "metadata for the list, a JSON object (default none)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needs(cmd, "worker-id"); err != nil {
			return err
		}
		w.ID, w.Actions = *id, args
		if w.Machine == "" {
			w.Machine, _ = os.Hostname() // the machine stays empty on an error
		}
		if *metadata != "" {
			if w.Metadata = []byte(*metadata); !json.Valid(w.Metadata) {
				return &usageError{fmt.Errorf("--metadata=%s: not JSON", *metadata), helpHint(cmd)}
			}
		}
		return f.call(cmd, func(ctx context.Context, s *session) error {
			if err := s.Action(s.namespace).RegisterWorker(ctx, w); err != nil {
				return err
			}
			return s.printWorker(*id, action.Active.String())
		})
	}
	return f.completing(cmd, actionNames)
}

// unlisted adds a hint to the error for an unknown worker.
func unlisted(err error) error {
	if errors.Is(err, floe.ErrNotFound) {
		return &hintedError{err, "see floe worker register --help"}
	}
	return err
}

// workerCall returns a command for a registered worker. state is the worker's new status; "" takes
// it from the list of workers.
func workerCall(f *frame, cmd *cobra.Command, state string, do func(context.Context, *action.Store, string) error) *cobra.Command {
	cmd.Args = takes()
	id := workerID(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := needs(cmd, "worker-id"); err != nil {
			return err
		}
		return f.call(cmd, func(ctx context.Context, s *session) error {
			store := s.Action(s.namespace)
			if err := do(ctx, store, *id); err != nil {
				return unlisted(err)
			}
			shown := state
			if shown == "" {
				w, err := store.Workers().Get(ctx, *id)
				if err != nil {
					return unlisted(err)
				}
				shown = w.Status.String()
			}
			return s.printWorker(*id, shown)
		})
	}
	return f.completing(cmd)
}

func workerHeartbeat(f *frame) *cobra.Command {
	cmd := &cobra.Command{Use: "heartbeat --worker-id ID", Short: "Send a worker heartbeat"}
	load := 0
	cmd.Flags().Var(newFlag(&load, "n", within(0, action.MaxConcurrency)), "load", "number of active runs (default 0)")
	return workerCall(f, cmd, "", func(ctx context.Context, store *action.Store, id string) error { return store.Heartbeat(ctx, id, load) })
}

func workerDrain(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain --worker-id ID",
		Short: "Stop assigning new runs to a worker",
		Long:  "Stop assigning new runs to a worker. Its await calls are rejected, also one that is waiting.",
	}
	return workerCall(f, cmd, action.Draining.String(),
		func(ctx context.Context, store *action.Store, id string) error { return store.Drain(ctx, id) })
}

func workerDeregister(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deregister --worker-id ID",
		Short: "Deregister a worker and release its runs",
	}
	return workerCall(f, cmd, "gone", func(ctx context.Context, store *action.Store, id string) error { return store.Deregister(ctx, id) })
}
