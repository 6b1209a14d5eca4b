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

func workerRegister(_ *frame, cmd *cobra.Command) prepare {
	id := workerID(cmd)
	w := action.NewWorker{MaxConcurrent: 1}
	flags := cmd.Flags()
	flags.Var(newFlag(&w.MaxConcurrent, "n", within(1, action.MaxConcurrency)), "concurrency",
		"maximum number of concurrent runs (default 1)")
	addLabel := func(v string) (map[string]string, error) { return withHeader(w.Labels, v) }
	flags.Var(newFlag(&w.Labels, "k=v", addLabel), "label", "label of the worker; repeatable")
	flags.StringVar(&w.Machine, "machine", "", "machine of the worker (default the host name)")
	metadata := flags.String("metadata", "", "metadata for the list, a JSON object (default none)")
	return func(args []string) (callFunc, error) {
		if err := needs(cmd, "worker-id"); err != nil {
			return nil, err
		}
		w.ID, w.Actions = *id, args
		if w.Machine == "" {
			w.Machine, _ = os.Hostname() // the machine stays empty on an error
		}
		if *metadata != "" {
			if w.Metadata = []byte(*metadata); !json.Valid(w.Metadata) {
				return nil, &usageError{fmt.Errorf("--metadata=%s: not JSON", *metadata), helpHint(cmd)}
			}
		}
		return func(ctx context.Context, s *session) error {
			if err := s.Action(s.namespace).RegisterWorker(ctx, w); err != nil {
				return err
			}
			return s.printWorker(*id, action.Active.String())
		}, nil
	}
}

// unlisted adds a hint to the error for an unknown worker.
func unlisted(err error) error {
	if errors.Is(err, floe.ErrNotFound) {
		return &hintedError{err, "see floe worker register --help"}
	}
	return err
}

func workerHeartbeat(_ *frame, cmd *cobra.Command) prepare {
	load := 0
	cmd.Flags().Var(newFlag(&load, "n", within(0, action.MaxConcurrency)), "load", "number of active runs (default 0)")
	return onWorker(cmd, "", func(store *action.Store, ctx context.Context, id string) error { return store.Heartbeat(ctx, id, load) })
}

func workerDrain(_ *frame, cmd *cobra.Command) prepare {
	return onWorker(cmd, action.Draining.String(), (*action.Store).Drain)
}

func workerDeregister(_ *frame, cmd *cobra.Command) prepare {
	return onWorker(cmd, "gone", (*action.Store).Deregister)
}

// onWorker calls do for a worker and prints the worker's state; "" means the one that the node
// reports.
func onWorker(cmd *cobra.Command, state string, do func(*action.Store, context.Context, string) error) prepare {
	id := workerID(cmd)
	return func([]string) (callFunc, error) {
		return func(ctx context.Context, s *session) error {
			store := s.Action(s.namespace)
			if err := do(store, ctx, *id); err != nil {
				return unlisted(err)
			}
			if state != "" {
				return s.printWorker(*id, state)
			}
			w, err := store.Workers().Get(ctx, *id)
			if err != nil {
				return unlisted(err)
			}
			return s.printWorker(*id, w.Status.String())
		}, needs(cmd, "worker-id")
	}
}
