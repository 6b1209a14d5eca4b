package queue_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
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

// newRig returns a rig that also has key-value, for transactions over both.
func newRig(t testing.TB, shards int) *machinetest.Rig {
	return newRigOf(t, shards, engine.TableOf[queue.Store]().New)
}

// newRigOf is newRig with the given queue machine.
func newRigOf(t testing.TB, shards int, machine func() engine.Machine) *machinetest.Rig {
	return machinetest.Open(t, machinetest.Config{Shards: shards, Primitives: primitives(machine), CacheBytes: 4 << 20})
}

func primitives(machine func() engine.Machine) []engine.Primitive {
	p := engine.TableOf[queue.Store]()
	p.New = machine
	return []engine.Primitive{engine.TableOf[kv.Store](), p}
}

func storeOf(r *machinetest.Rig, namespace string) *queue.Store {
	return engine.StoreOf[queue.Store](r.Router(), namespace, 0)
}

// openStore opens an in-memory store.
func openStore(t testing.TB) *queue.Store { return open(t, floe.Config{Shards: 1}).Queue("default") }

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
