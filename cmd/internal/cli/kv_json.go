package cli

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"
)

var jsonRows = []row{
	{use: "get KEY [PATH]", short: "Print a part of a document", flags: jsonGet,
		long: `Print a part of the JSON document at a key, by default all of it. PATH has names and indexes
between dots, as in user.tags.0, or the form $.user.tags[0]. Queries such as items.#.id match
several parts.`},
	{use: "set KEY PATH [JSON]", short: "Set a part of a document", flags: jsonSet,
		long: `Set the part of a JSON document at PATH; missing objects, and the document, are created. JSON is
the argument itself, @FILE, or stdin. The index -1 appends to an array.`,
		example: `  floe kv json set user:42 address.city '"Oslo"'
  floe kv json set user:42 tags '[]'
  floe kv json set user:42 tags.-1 '"new"'`},
	{use: "delete KEY PATH", short: "Delete a part of a document", run: jsonDelete},
}

// keyPart is a part of a document.
type keyPart struct {
	keyText
	Namespace string          `json:"namespace"`
	Path      string          `json:"path"`
	Value     json.RawMessage `json:"value"`
}

func jsonGet(_ *frame, cmd *cobra.Command) prepare {
	access := addStale(cmd)
	return func(args []string) (callFunc, error) {
		path := append(args, "")[1]
		return func(ctx context.Context, s *session) error {
			raw, err := s.KV(s.namespace, access()...).JSONGet(ctx, args[0], path)
			if err != nil {
				return err
			}
			return s.printValue(keyPart{newKeyText(args[0]), s.namespace, path, raw}, raw)
		}, nil
	}
}

func jsonSet(f *frame, cmd *cobra.Command) prepare {
	return func(args []string) (callFunc, error) {
		raw, err := f.payload(cmd, "JSON", args[2:])
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			written, err := s.KV(s.namespace).JSONSet(ctx, args[0], args[1], raw)
			if err != nil {
				return err
			}
			return s.printWritten(args[0], written)
		}, nil
	}
}

func jsonDelete(ctx context.Context, s *session, args []string) error {
	written, err := s.KV(s.namespace).JSONDelete(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	return s.printWritten(args[0], written)
}

// keyDone is the result of a change to a key that has no other result.
type keyDone struct {
	OK bool `json:"ok"`
	keyText
	Namespace string `json:"namespace"`
}

func kvTouch(_ *frame, cmd *cobra.Command) prepare {
	var ttl time.Duration
	cmd.Flags().Var(newFlag(&ttl, "duration", durationOrNone), "ttl", "time to live from now; 0s: no limit")
	return func(args []string) (callFunc, error) {
		if !cmd.Flags().Changed("ttl") {
			return nil, &usageError{errors.New("--ttl is missing"), helpHint(cmd)}
		}
		return func(ctx context.Context, s *session) error {
			store := s.KV(s.namespace)
			touch := func() error { return store.Touch(ctx, args[0], ttl) }
			if ttl == 0 {
				touch = func() error { return store.Persist(ctx, args[0]) }
			}
			if err := touch(); err != nil {
				return err
			}
			return s.print(keyDone{true, newKeyText(args[0]), s.namespace}, table{head: []string{"KEY"}, rows: [][]string{{args[0]}}})
		}, nil
	}
}
