package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

func streamsOf(r *machinetest.Rig, namespace string) *stream.Store {
	return engine.StoreOf[stream.Store](r.Router(), namespace, 1<<20)
}

// triggered is a workflow that a stream starts; its runs wait for a signal "go".
func triggered(name, trigger string) []byte {
	return fmt.Appendf(nil,
		`{"name": %q, "trigger": {%s}, "start": {"waitForSignal": {"type": "go", "timeoutMs": 3600000}, "transitions": {"success": "flo.Completed"}}}`, name, trigger)
}

// inputs returns the inputs of all runs of a workflow, the oldest first.
func inputs(t *testing.T, flows *workflow.Store) (all [][]map[string]any) {
	t.Helper()
	ctx := context.Background()
	for r, err := range flows.Runs().All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		run, err := flows.Runs().Get(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		var in []map[string]any
		if err := json.Unmarshal(run.Input, &in); err != nil { // with a batch size of 1 it is the payload itself
			var payload any
			if err := json.Unmarshal(run.Input, &payload); err != nil {
				t.Fatalf("input %s: %v", run.Input, err)
			}
			in = []map[string]any{{"payload": payload}}
		}
		all = append(all, in)
	}
	slices.Reverse(all)
	return all
}

// payloads returns the payloads of the records in all inputs.
func payloads(in [][]map[string]any) string {
	var runs []string
	for _, records := range in {
		var all []string
		for _, r := range records {
			all = append(all, fmt.Sprint(r["payload"]))
		}
		runs = append(runs, strings.Join(all, " "))
	}
	return strings.Join(runs, ", ")
}

func appendAll(t *testing.T, s *stream.Store, name string, payloads ...string) {
	t.Helper()
	var msgs []stream.Message
	for _, p := range payloads {
		msgs = append(msgs, stream.Message{Payload: []byte(p)})
	}
	if _, err := s.AppendMany(context.Background(), name, msgs); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, flows *workflow.Store, definition []byte) {
	t.Helper()
	if _, err := flows.Create(context.Background(), definition); err != nil {
		t.Fatal(err)
	}
}

func trigger(t *testing.T, flows *workflow.Store, name string) workflow.TriggerInfo {
	t.Helper()
	i, err := flows.Get(context.Background(), name)
	if err != nil || i.Trigger == nil {
		t.Fatalf("Workflow: %+v, %v", i, err)
	}
	return *i.Trigger
}

// TestTrigger: records start runs.
func TestTrigger(t *testing.T) {
	ctx := t.Context()
	r := newRig(t, 1)
	flows, streams := flowsOf(r, "n"), streamsOf(r, "n")
	appendAll(t, streams, "orders", `"before"`)
	create(t, flows, triggered("order", `"stream": "orders", "batch_size": 2, "batch_timeout_ms": 1000`))
	appendAll(t, streams, "orders", `{"total":1}`, `text`, "\xff")
	r.Advance(0)
	if got := payloads(inputs(t, flows)); got != `map[total:1] text` {
		t.Fatalf("runs of %s", got)
	}
	if i := trigger(t, flows, "order"); i.State != workflow.TriggerActive || i.Lag != 1 || i.Started != 1 || i.Records != 2 ||
		i.Group != "wf-order" {
		t.Fatalf("%+v", i)
	}
	g, err := streams.Groups("orders").Get(ctx, "wf-order")
	if err != nil || g.Lag() != 1 || g.Pending() != 0 {
		t.Fatalf("group %+v, %v", g, err)
	}
	r.Pass(1000)
	r.Advance(0)
	if got := payloads(inputs(t, flows)); got != `map[total:1] text, /w==` {
		t.Fatalf("runs of %s", got)
	}
	for run := range flows.Runs().All(ctx) {
		if run.TriggeredBy != "trigger:orders" || !strings.HasPrefix(run.IdempotencyKey, "orders/0/") {
			t.Errorf("%+v", run)
		}
	}
	if _, err := streams.ReadGroup(ctx, "orders", "wf-order", "somebody"); err == nil {
		t.Error("a consumer reads from the group of a trigger")
	}
	if err := flows.Delete(ctx, "order", workflow.Force()); err != nil {
		t.Fatal(err)
	}
	if g, err := streams.Groups("orders").Get(ctx, "wf-order"); err == nil {
		t.Errorf("the group of a trigger that is gone: %+v", g)
	}
	machinetest.EqualReplicas(t, r.Log(0), []engine.Primitive{engine.TableOf[action.Store](), engine.TableOf[stream.Store](),
		engine.TableOf[workflow.Store]()},
		machinetest.Replica{}, machinetest.Replica{Name: "crashes behind each entry", Commit: 1,
			Restart: 1}, machinetest.Replica{Name: "forgets", Forgetful: true})
}

// TestTriggersOfOneStream: a new stream gets the groups of several triggers at once, one for each.
func TestTriggersOfOneStream(t *testing.T) {
	r := newRig(t, 1)
	flows, streams := flowsOf(r, "n"), streamsOf(r, "n")
	for _, name := range []string{"one", "two", "three"} {
		create(t, flows, triggered(name, `"stream": "orders", "max_concurrent": 1`))
	}
	appendAll(t, streams, "orders", "1", "2")
	r.Advance(0)
	if got := payloads(inputs(t, flows)); got != "1, 1, 1" {
		t.Fatalf("runs of %s", got)
	}
	r.Verify()
}
