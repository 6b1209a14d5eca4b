package cli

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"
)

func jsonCommand(f *frame) *cobra.Command {
	return group("json", "Read and change parts of JSON documents", jsonGet(f), jsonSet(f), jsonDelete(f))
}

// keyPart is a part of a document.
type keyPart struct {
	keyText
	Namespace string          `json:"namespace"`
	Path      string          `json:"path"`
	Value     json.RawMessage `json:"value"`
}

func jsonGet(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get KEY [PATH]",
		Short: "Print a part of a document",
		Long: `Print a part of the JSON document at a key, by default all of it. PATH has names and indexes
between dots, as in user.tags.0, or the form $.user.tags[0]. Queries such as items.#.id match
several parts.`,
		Args: takes("KEY", "[PATH]"),
	}
	access := addStale(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := append(args, "")[1]
		return f.call(cmd, func(ctx context.Context, s *session) error {
			raw, err := s.KV(s.namespace, access()...).JSONGet(ctx, args[0], path)
			if err != nil {
				return err
			}
			return s.printValue(keyPart{newKeyText(args[0]), s.namespace, path, raw}, raw)
		})
	}
	return cmd
}

func jsonSet(f *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "set KEY PATH [JSON]",
		Short: "Set a part of a document",
		Long: `Set the part of a JSON document at PATH; missing objects, and the document, are created. JSON is
the argument itself, @FILE, or stdin. The index -1 appends to an array.`,
		Example: `  floe kv json set user:42 address.city '"Oslo"'
  floe kv json set user:42 tags '[]'
  floe kv json set user:42 tags.-1 '"new"'`,
		Args: takes("KEY", "PATH", "[JSON]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := f.payload(cmd, "JSON", args[2:])
			if err != nil {
				return err
			}
			return f.call(cmd, func(ctx context.Context, s *session) error {
				written, err := s.KV(s.namespace).JSONSet(ctx, args[0], args[1], raw)
				if err != nil {
					return err
				}
				return s.printWritten(args[0], written)
			})
		},
	}
}

func jsonDelete(f *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "delete KEY PATH",
		Short: "Delete a part of a document",
		Args:  takes("KEY", "PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.call(cmd, func(ctx context.Context, s *session) error {
				written, err := s.KV(s.namespace).JSONDelete(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				return s.printWritten(args[0], written)
			})
		},
	}
}

// keyDone is the result of a change to a key that has no other result.
type keyDone struct {
	OK bool `json:"ok"`
	keyText
	Namespace string `json:"namespace"`
}

func kvTouch(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "touch KEY --ttl DURATION",
		Short: "Change the time to live of a key",
		Long:  "Change the time to live of a key. Its value, version and revision stay.",
		Args:  takes("KEY"),
	}
	var ttl time.Duration
	cmd.Flags().Var(newFlag(&ttl, "duration", durationOrNone), "ttl", "time to live from now; 0s: no limit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("ttl") {
			return &usageError{errors.New("--ttl is missing"), helpHint(cmd)}
		}
		return f.call(cmd, func(ctx context.Context, s *session) error {
			store := s.KV(s.namespace)
			touch := func() error { return store.Touch(ctx, args[0], ttl) }
			if ttl == 0 {
				touch = func() error { return store.Persist(ctx, args[0]) }
			}
			if err := touch(); err != nil {
				return err
			}
			return s.print(keyDone{true, newKeyText(args[0]), s.namespace}, table{head: []string{"KEY"}, rows: [][]string{{args[0]}}})
		})
	}
	return cmd
}
