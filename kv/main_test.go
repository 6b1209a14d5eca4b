package kv_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a node and closes it with the test; the node must not have failed by then.
func open(t testing.TB, c floe.Config) *floe.Node {
	t.Helper()
	node, err := floe.Open(c)
	if err != nil {
		t.Fatalf("Open(%+v): %v", c, err)
	}
	t.Cleanup(func() {
		if err := node.Err(); err != nil {
			t.Errorf("node failed: %v", err)
		}
		if err := node.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return node
}

// openStore opens an in-memory store.
func openStore(t testing.TB) *kv.Store { return open(t, floe.Config{Shards: 1}).KV("default") }

// within bounds all waiting in a test; exceeding it is a failure.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
