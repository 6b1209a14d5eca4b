package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

var nsRows = []row{
	{use: "create NAME", short: "Create a namespace", flags: nsCreate,
		long: "Create a namespace. The first write to a missing namespace creates it too."},
	{use: "list", short: "List namespaces with their sizes", run: nsList},
	{use: "delete NAME", short: "Delete an empty namespace", run: nsDelete},
}

// namespaceCreated is the result of creating a namespace.
type namespaceCreated struct {
	OK     bool   `json:"ok"`
	Name   string `json:"name"`
	Spread bool   `json:"spread"`
}

func nsCreate(_ *frame, cmd *cobra.Command) prepare {
	spread := cmd.Flags().Bool("spread", false, "spread the namespace over all shards, for large data")
	return unchecked(func(ctx context.Context, s *session, args []string) error {
		create := s.Namespaces().Create
		var err error
		if *spread {
			err = create(ctx, args[0], floe.Spread())
		} else {
			err = create(ctx, args[0])
		}
		if err != nil {
			return err
		}
		return s.print(
			namespaceCreated{OK: true, Name: args[0], Spread: *spread},
			table{head: []string{"NAME", "SPREAD"}, rows: [][]string{{args[0], strconv.FormatBool(*spread)}}},
		)
	})
}

// namespaceDeleted is the result of deleting a namespace.
type namespaceDeleted struct {
	OK   bool   `json:"ok"`
	Name string `json:"name"`
}

func nsDelete(ctx context.Context, s *session, args []string) error {
	if err := s.Namespaces().Delete(ctx, args[0]); err != nil {
		return err
	}
	return s.print(namespaceDeleted{OK: true, Name: args[0]}, table{head: []string{"DELETED"}, rows: [][]string{{args[0]}}})
}

// namespaceSummary is a namespace in a listing.
type namespaceSummary struct {
	Name            string `json:"name"`
	StreamCount     int64  `json:"stream_count"`
	QueueCount      int64  `json:"queue_count"`
	KVCount         int64  `json:"kv_count"`
	WorkflowCount   int64  `json:"workflow_count"`
	ProcessingCount int64  `json:"processing_count"`
	ActionCount     int64  `json:"action_count"`
	IsSystem        bool   `json:"is_system"`
	Spread          bool   `json:"spread"`
	CreatedAt       int64  `json:"created_at"`
}

func nsList(ctx context.Context, s *session, _ []string) error {
	list := []namespaceSummary{}
	t := table{head: []string{"NAME", "SPREAD", "KEYS", "BYTES", "CREATED"}}
	for info, err := range s.Namespaces().All(ctx) {
		if err != nil {
			return err
		}
		list = append(list, summarizeNamespace(info))
		t.rows = append(t.rows, []string{
			info.Name, strconv.FormatBool(info.Spread), decimal(info.Counts.Keys), decimal(info.Counts.KeyBytes),
			shownTime(info.CreatedAt),
		})
	}
	return s.print(list, t)
}

func summarizeNamespace(info floe.NamespaceStats) namespaceSummary {
	return namespaceSummary{
		Name:            info.Name,
		StreamCount:     info.Counts.Streams,
		QueueCount:      info.Counts.Queues,
		KVCount:         info.Counts.Keys,
		WorkflowCount:   info.Counts.Workflows,
		ProcessingCount: info.Counts.Jobs,
		ActionCount:     info.Counts.Actions,
		IsSystem:        strings.HasPrefix(info.Name, "_"),
		Spread:          info.Spread,
		CreatedAt:       info.CreatedAt.UnixMilli(),
	}
}

// readers are the names of commands that read a namespace, and so do not create it.
var readers = strings.Fields("dequeue get history info lag last list members peek pending query read runs series stats status watch")

// noteNamespace prints a note if a command has read a namespace that does not exist: what it found
// looks the same as in an empty one.
func (s *session) noteNamespace(ctx context.Context, f *frame, cmd *cobra.Command) {
	switch {
	case f.completes, s.namespace == "default", strings.HasPrefix(s.namespace, "_"), !slices.Contains(readers, cmd.Name()):
		return
	case slices.Contains([]string{"cluster", "key", "ns", "server"}, cmd.Parent().Name()): // they are about no namespace
		return
	}
	if stale := cmd.Flags().Lookup("stale"); stale != nil && stale.Changed {
		return // the namespaces need a leader
	}
	if _, err := s.Namespaces().Get(ctx, s.namespace); errors.Is(err, floe.ErrNotFound) {
		fmt.Fprintf(f.Stderr, "floe: note: namespace %q does not exist\n", s.namespace)
	}
}
