// Command 01-hello opens a node, stores a key, and reads it back after a restart.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/floedb/floe"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "floe-hello-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for start := 1; start <= 2; start++ {
		fmt.Fprintf(out, "start %d: ", start)
		if err := greet(ctx, out, dir); err != nil {
			return err
		}
	}
	return nil
}

// greet opens the node in dir, prints the greeting if there is one, and stores one if not.
func greet(ctx context.Context, out io.Writer, dir string) (err error) {
	node, err := floe.Open(floe.Config{DataDir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()

	store := node.KV("default")
	entry, err := store.Get(ctx, "greeting")
	if errors.Is(err, floe.ErrNotFound) {
		written, err := store.Put(ctx, "greeting", []byte("hello, world"))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "no greeting yet, stored version %d\n", written.Version)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "found %q, version %d\n", entry.Value, entry.Version)
	return nil
}
