package ts_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/ts"
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

func newRig(t testing.TB, shards int) *machinetest.Rig {
	return newRigOf(t, shards, engine.TableOf[ts.Store]().New)
}

// newRigOf returns a rig with the given time-series machine.
func newRigOf(t testing.TB, shards int, machine func() engine.Machine) *machinetest.Rig {
	return machinetest.Open(t, machinetest.Config{Shards: shards, Primitives: primitives(machine), CacheBytes: 4 << 20})
}

func primitives(machine func() engine.Machine) []engine.Primitive {
	p := engine.TableOf[ts.Store]()
	p.New = machine
	return []engine.Primitive{engine.TableOf[kv.Store](), p}
}

func storeOf(r *machinetest.Rig, namespace string) *ts.Store {
	return engine.StoreOf[ts.Store](r.Router(), namespace, 0)
}

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

func collect[T any](all func(func(T, error) bool)) (items []T) {
	for it, err := range all {
		items = append(items, must(it, err))
	}
	return items
}

// at returns a time of a rig, relative to the rig's start in 2001.
func at(millis int64) time.Time { return time.UnixMilli(machinetest.Epoch + millis) }

// point returns a point with a single field "value".
func point(host string, millis int64, value float64) ts.Point {
	return ts.Point{Measurement: "cpu", Tags: map[string]string{"host": host}, Fields: map[string]float64{"value": value}, Time: at(millis)}
}

// write writes points and fails the test if any is refused.
func write(t testing.TB, s *ts.Store, points ...ts.Point) {
	t.Helper()
	if result, err := s.Write(t.Context(), points...); err != nil || result.Written != len(points) {
		t.Fatalf("Write = %+v, %v, want %d written", result, err, len(points))
	}
}

// contents lists the values of all shards as lines.
func contents(r *machinetest.Rig) string {
	var lines []string
	for shard := range engine.ShardID(r.Shards()) {
		for k, v := range ts.Contents(r, shard, 0, 0) {
			lines = append(lines, fmt.Sprintf("%s %s %s %d %v", k.Measurement, k.Tags, k.Field, k.Time-machinetest.Epoch, v))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// check compares the values of all shards.
func check(t testing.TB, r *machinetest.Rig, want ...string) {
	t.Helper()
	if got := contents(r); got != strings.Join(want, "\n") {
		t.Errorf("there is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
