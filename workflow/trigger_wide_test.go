package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

// places are the locations of a stream and the workflow it starts.
var places = []struct {
	name           string
	shards         int
	flows, streams string // namespaces; those with the prefix s are spread
	partitions     int
}{
	{"one shard", 1, "n", "n", 1},
	{"partitions", 1, "n", "n", 5},
	{"another namespace", 4, "n", "m", 1},
	{"spread", 4, "s", "s", 6},
	{"from a spread namespace", 4, "n", "s", 6},
	{"into a spread namespace", 4, "s", "m", 2},
	{"between spread namespaces", 4, "s", "s2", 6},
}

// eachPlace runs a test for each place.
func eachPlace(t *testing.T, f func(t *testing.T, p *placed)) {
	for _, at := range places {
		t.Run(at.name, func(t *testing.T) {
			r := newRig(t, at.shards)
			for _, ns := range []string{at.flows, at.streams} {
				if err := engine.NewNamespaces(r.Router()).Create(t.Context(), ns, ns[0] == 's'); err != nil &&
					!errors.Is(err, engine.ErrExists) {
					t.Fatal(err)
				}
			}
			f(t, &placed{r, flowsOf(r, at.flows), streamsOf(r, at.streams), at.streams, at.partitions})
		})
	}
}

type placed struct {
	r          *machinetest.Rig
	flows      *workflow.Store
	streams    *stream.Store
	namespace  string // of the stream
	partitions int
}

func (p *placed) trigger(more string) string {
	return fmt.Sprintf(`"stream": "orders", "namespace": %q%s`, p.namespace, more)
}

func (p *placed) makeStream(t *testing.T) {
	t.Helper()
	if err := p.streams.Create(t.Context(), "orders", stream.Partitions(p.partitions)); err != nil {
		t.Fatal(err)
	}
}

// append appends records with the numbers from from to below-1 to the partitions in turn.
func (p *placed) append(t *testing.T, from, below int) {
	t.Helper()
	for i := from; i < below; i++ {
		if _, err := p.streams.Append(t.Context(), "orders", stream.Message{Payload: fmt.Append(nil, i)},
			stream.Partition(i%p.partitions)); err != nil {
			t.Fatal(err)
		}
	}
}

// settle lets the leaders do their pending work.
func (p *placed) settle() {
	for range 6 {
		p.r.Advance(0)
	}
}

// wantRecords checks that there is one run for each record with a number of at least from and less
// than below.
func (p *placed) wantRecords(t *testing.T, from, below int) {
	t.Helper()
	var got []int
	for _, records := range inputs(t, p.flows) {
		for _, r := range records {
			got = append(got, int(r["payload"].(float64)))
		}
	}
	slices.Sort(got)
	var want []int
	for i := from; i < below; i++ {
		want = append(want, i)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("runs of records %v, want %v", got, want)
	}
}

// active returns the runs that have not ended.
func (p *placed) active(t *testing.T) (ids []workflow.RunID) {
	t.Helper()
	for r, err := range p.flows.Runs().All(t.Context(), workflow.Active()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	return ids
}

// TestTriggerPlaces: wherever stream and workflow are, each record starts one run.
func TestTriggerPlaces(t *testing.T) {
	eachPlace(t, func(t *testing.T, p *placed) {
		create(t, p.flows, triggered("order", p.trigger("")))
		if i := trigger(t, p.flows, "order"); i.State != workflow.TriggerWaiting || i.Reason == "" {
			t.Fatalf("without a stream: %+v", i)
		}
		p.makeStream(t)
		p.append(t, 0, 20)
		p.settle()
		p.wantRecords(t, 0, 20)
		if i := trigger(t, p.flows, "order"); i.State != workflow.TriggerActive || i.Lag != 0 || i.Started != 20 || i.Records != 20 {
			t.Fatalf("%+v", i)
		}
		if err := p.flows.Disable(t.Context(), "order"); err != nil {
			t.Fatal(err)
		}
		p.append(t, 20, 30)
		p.settle()
		p.wantRecords(t, 0, 20)
		if i := trigger(t, p.flows, "order"); i.State != workflow.TriggerPaused || i.Lag != 10 {
			t.Fatalf("paused: %+v", i)
		}
		if err := p.flows.Enable(t.Context(), "order"); err != nil {
			t.Fatal(err)
		}
		p.settle()
		p.wantRecords(t, 0, 30)

		// Another version resumes where this one is.
		next := strings.Replace(string(triggered("order", p.trigger(`, "batch_size": 3, "batch_timeout_ms": 0`))), `"name"`,
			`"version": "2", "name"`, 1)
		create(t, p.flows, []byte(next))
		p.append(t, 30, 40)
		p.settle()
		p.wantRecords(t, 0, 40)

		// A recreated stream is a new one: all of its records start runs.
		if err := p.streams.Delete(t.Context(), "orders", stream.Force()); err != nil {
			t.Fatal(err)
		}
		if i := trigger(t, p.flows, "order"); i.State != workflow.TriggerWaiting {
			t.Fatalf("deleted: %+v", i)
		}
		p.r.Pass(1000)
		p.makeStream(t)
		p.append(t, 40, 50)
		p.settle()
		p.wantRecords(t, 0, 50)

		// A version without a trigger removes the trigger and its group.
		last := strings.Replace(string(triggered("order", p.trigger(""))), `"trigger": {`+p.trigger("")+`}`, `"version": "3"`, 1)
		create(t, p.flows, []byte(last))
		p.append(t, 50, 60)
		p.settle()
		p.wantRecords(t, 0, 50)
		if _, err := p.streams.Groups("orders").Get(t.Context(), "wf-order"); !errors.Is(err, stream.ErrNotFound) {
			t.Fatalf("the group of a trigger that is gone: %v", err)
		}
		// The group of the next trigger begins after all existing records.
		create(t, p.flows, []byte(strings.Replace(string(triggered("order", p.trigger(""))), `"name"`, `"version": "4", "name"`, 1)))
		p.append(t, 60, 70)
		p.settle()
		if i := trigger(t, p.flows, "order"); i.Started != 10 || i.Lag != 0 {
			t.Fatalf("a new trigger: %+v", i)
		}
		if err := p.flows.Delete(t.Context(), "order", workflow.Force()); err != nil {
			t.Fatal(err)
		}
		p.settle()
	})
}

// TestTriggerSpreads: the runs that a trigger starts are in all shards of a spread namespace,
// wherever the stream is. Each is where a manual start with the same idempotency key finds it. They
// used to be all in the workflow's home if the stream was in another namespace. Records that reach
// a shard without the workflow start their runs at home.
func TestTriggerSpreads(t *testing.T) {
	for _, early := range []bool{false, true} {
		eachPlace(t, func(t *testing.T, p *placed) {
			if p.flows.Namespace()[0] != 's' {
				return
			}
			p.makeStream(t)
			p.r.Hold(early)
			create(t, p.flows, triggered("order", p.trigger(`, "start": "earliest"`)))
			p.append(t, 0, 1)
			p.r.Hold(false)
			p.settle()
			p.append(t, 1, 40)
			p.settle()
			p.wantRecords(t, 0, 40)
			in := make(map[int]int)
			for listed, err := range p.flows.Runs().All(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				shard, ok := workflow.ShardOf(listed.ID)
				if !ok {
					t.Fatalf("run %s", listed.ID)
				}
				in[shard]++
				run, err := p.flows.Runs().Get(t.Context(), listed.ID)
				if err != nil {
					t.Fatal(err)
				}
				if p.namespace == p.flows.Namespace() || early && strings.Contains(string(run.Input), `"payload":0`) {
					continue // it is in the shard of its records, or maybe at home
				}
				if s, err := p.flows.Start(t.Context(), "order", run.Input, workflow.IdempotencyKey(run.IdempotencyKey)); err != nil ||
					!s.Duplicate || s.Run != run.ID {
					t.Fatalf("start with key %s: %+v, %v", run.IdempotencyKey, s, err)
				}
			}
			if p.namespace != p.flows.Namespace() && len(in) != p.r.Shards() {
				t.Errorf("runs are in shards %v, want all %d", in, p.r.Shards())
			}
		})
	}
}

// TestTriggerLimit: the active runs of a trigger, over all shards, stay within the definition's
// limit, and the end of one makes room for another.
func TestTriggerLimit(t *testing.T) {
	eachPlace(t, func(t *testing.T, p *placed) {
		p.makeStream(t)
		create(t, p.flows, triggered("order", p.trigger(`, "max_concurrent": 3`)))
		p.append(t, 0, 24)
		for rounds := 0; ; rounds++ {
			p.settle()
			active := p.active(t)
			if len(active) > 3 || rounds > 30 {
				t.Fatalf("round %d: %d runs are active", rounds, len(active))
			}
			if len(active) == 0 {
				break
			}
			if i := trigger(t, p.flows, "order"); i.Active != int64(len(active)) || len(active) == 3 && i.Reason == "" {
				t.Fatalf("%d runs are active: %+v", len(active), i)
			}
			if _, err := p.flows.Signal(t.Context(), active[len(active)-1], "go", nil); err != nil {
				t.Fatal(err)
			}
		}
		p.wantRecords(t, 0, 24)
	})
}

// TestTriggeredRunRetried: a failed run of a trigger counts as active again when it is retried.
func TestTriggeredRunRetried(t *testing.T) {
	eachPlace(t, func(t *testing.T, p *placed) {
		ctx := t.Context()
		p.makeStream(t)
		create(t, p.flows, fmt.Appendf(nil, `{"name": "order", "trigger": {%s},
			"start": {"waitForSignal": {"type": "go"}, "transitions": {"success": "flo.Completed", "bad": "flo.Failed"}}}`, p.trigger(`, "max_concurrent": 1`)))
		p.append(t, 0, 1)
		p.settle()
		id := p.active(t)[0]
		for range 2 {
			if _, err := p.flows.Signal(ctx, id, "go", []byte(`{"outcome": "bad"}`)); err != nil {
				t.Fatal(err)
			}
			p.settle()
			if i := trigger(t, p.flows, "order"); i.Active != 0 {
				t.Fatalf("a run that has ended is active: %+v", i)
			}
			if _, err := p.flows.Retry(ctx, id); err != nil {
				t.Fatal(err)
			}
			p.settle()
			if i := trigger(t, p.flows, "order"); i.Active != 1 {
				t.Fatalf("a run that was retried is not active: %+v", i)
			}
		}
		p.append(t, 1, 2)
		p.settle()
		p.wantRecords(t, 0, 1)
		if _, err := p.flows.Signal(ctx, id, "go", nil); err != nil {
			t.Fatal(err)
		}
		p.settle()
		p.wantRecords(t, 0, 2)
	})
}

// TestTriggerMovedBack: a group that is moved back forms other batches of its records, wherever
// runs of these records are. Records that already have a run start no other one, and the rest do.
func TestTriggerMovedBack(t *testing.T) {
	eachPlace(t, func(t *testing.T, p *placed) {
		p.partitions = 1
		p.makeStream(t)
		create(t, p.flows, triggered("order", p.trigger(`, "batch_size": 3, "batch_timeout_ms": 1000`)))
		pass := func() {
			p.settle()
			p.r.Advance(1000)
			p.settle()
		}
		back := func() {
			t.Helper()
			if err := p.streams.Seek(t.Context(), "orders", "wf-order", stream.FromBeginning()); err != nil {
				t.Fatal(err)
			}
			pass()
		}
		p.settle()
		p.append(t, 0, 2)
		pass() // a run of records 0 and 1
		p.append(t, 2, 3)
		pass() // one of record 2
		for range 3 {
			back() // the rest of 0, 1 and 2 has its run, which may be in another shard
			p.wantRecords(t, 0, 3)
		}
		p.append(t, 3, 4)
		pass()
		p.append(t, 4, 20)
		back()
		p.wantRecords(t, 0, 20)
		if i := trigger(t, p.flows, "order"); i.Refused != 0 || i.Lag != 0 || i.Repeated == 0 {
			t.Errorf("%+v", i)
		}
	})
}

// TestTriggerRefused: records that do not match the schema go to the dead letters, and the others
// start runs.
func TestTriggerRefused(t *testing.T) {
	eachPlace(t, func(t *testing.T, p *placed) {
		ctx := t.Context()
		p.makeStream(t)
		d := strings.Replace(string(triggered("order", p.trigger(`, "max_concurrent": 1`))), `"name"`,
			`"input_schema": {"type": "number", "maximum": 5}, "name"`, 1)
		create(t, p.flows, []byte(d))
		p.append(t, 0, 3)
		p.append(t, 10, 12)
		p.append(t, 3, 6)
		for range 20 {
			p.settle()
			for _, id := range p.active(t) {
				if _, err := p.flows.Signal(ctx, id, "go", nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.wantRecords(t, 0, 6)
		dead, err := p.streams.Read(ctx, "orders.dlq")
		if err != nil || len(dead) != 2 || dead[0].Headers[stream.HeaderGroup] != "wf-order" ||
			!strings.Contains(dead[0].Headers[stream.HeaderError], "5") {
			t.Fatalf("dead letters %+v, %v", dead, err)
		}
		if i := trigger(t, p.flows, "order"); i.Refused != 2 || i.Started != 6 || i.Note == "" || i.Lag != 0 {
			t.Fatalf("%+v", i)
		}
	})
}

// TestTriggerBatches: a batch ends at its maximum number of records or bytes, or when its first
// record has waited long enough.
func TestTriggerBatches(t *testing.T) {
	r := newRig(t, 1)
	flows, streams := flowsOf(r, "n"), streamsOf(r, "n")
	create(t, flows, triggered("order", `"stream": "orders", "batch_size": 3, "batch_timeout_ms": 5000`))
	sizes := func() (all []int) {
		for _, records := range inputs(t, flows) {
			all = append(all, len(records))
		}
		return all
	}
	appendAll(t, streams, "orders", "1", "2")
	r.Advance(4999)
	if got := sizes(); len(got) != 0 {
		t.Fatalf("batches of %d", got)
	}
	r.Advance(1)
	appendAll(t, streams, "orders", "3", "4", "5", "6", "7", "8", "9")
	r.Advance(0)
	if got := sizes(); !slices.Equal(got, []int{2, 3, 3}) {
		t.Fatalf("batches of %d", got)
	}
	r.Advance(5000)
	if got := sizes(); !slices.Equal(got, []int{2, 3, 3, 1}) {
		t.Fatalf("batches of %d", got)
	}
	// Besides its payload a record has its key, its headers and their lengths: two bytes here.
	half := strings.Repeat("x", protocol.MaxBatchBytes/2-2)
	appendAll(t, streams, "orders", half, half, half)
	r.Advance(0)
	r.Advance(5000)
	if got := sizes()[4:]; !slices.Equal(got, []int{2, 1}) {
		t.Fatalf("batches of %d at the limit", got)
	}
	appendAll(t, streams, "orders", half, half+"x", half)
	r.Advance(0)
	r.Advance(5000)
	if got := sizes()[6:]; !slices.Equal(got, []int{1, 1, 1}) && !slices.Equal(got, []int{1, 2}) {
		t.Fatalf("batches of %d behind the limit", got)
	}
	appendAll(t, streams, "orders", strings.Repeat("x", protocol.MaxBatchBytes), "1", "2")
	r.Advance(0)
	r.Advance(5000)
	if got := sizes(); !slices.Equal(got[len(got)-2:], []int{1, 2}) {
		t.Fatalf("batches of %d with a record of the limit", got)
	}
}

// TestTriggerTooMuch: the initial work of a run may exceed what one command may write. It is done
// in parts, and the record does not become a dead letter.
func TestTriggerTooMuch(t *testing.T) {
	r := newRig(t, 1)
	flows, streams, actions := flowsOf(r, "n"), streamsOf(r, "n"), actionsOf(r, "n")
	if _, err := actions.Register(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	all := workflow.Parallel{}
	for i := range 64 {
		all.Branches = append(all.Branches, workflow.Branch{Name: fmt.Sprint("b", i), Call: calling("@actions/a")})
	}
	order := workflow.Definition{Name: "order", Trigger: &workflow.Trigger{Stream: "orders"}, Start: does(all, "success", "flo.Completed")}
	create(t, flows, order.YAML())
	large := strings.Repeat("x", 1<<20-2)
	appendAll(t, streams, "orders", `1`, `"`+large+`"`, `2`)
	for range 40 {
		r.Advance(0)
	}
	if got := payloads(inputs(t, flows)); got != "1, "+large+", 2" {
		t.Fatalf("runs of %.100s", got)
	}
	if i := trigger(t, flows, "order"); i.Refused != 0 || i.Lag != 0 {
		t.Fatalf("%+v", i)
	}
	if info, err := actions.Get(t.Context(), "a"); err != nil || info.Runs.Pending != 3*64 {
		t.Fatalf("%d runs of branches, %v; want 3 times 64", info.Runs.Pending, err)
	}
}

// TestTriggerMany: very many records due at once start runs in many commands.
func TestTriggerMany(t *testing.T) {
	r := newRig(t, 1)
	flows, streams := flowsOf(r, "n"), streamsOf(r, "n")
	create(t, flows, triggered("order", `"stream": "orders", "batch_size": 1, "batch_timeout_ms": 0`))
	many := make([]string, 2000)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	appendAll(t, streams, "orders", many...)
	r.Advance(0)
	seen := make(map[string]bool)
	for run, err := range flows.Runs().All(t.Context()) {
		if err != nil || seen[run.IdempotencyKey] {
			t.Fatalf("%+v, %v", run, err)
		}
		seen[run.IdempotencyKey] = true
	}
	if len(seen) != 2000 {
		t.Fatalf("%d runs of 2000 records", len(seen))
	}
}

// TestTriggerTakesOver: a trigger that takes over a group with consumers continues with the records
// they have left, in every mode.
func TestTriggerTakesOver(t *testing.T) {
	for _, mode := range []stream.Mode{stream.Shared, stream.Exclusive, stream.KeyShared} {
		t.Run(mode.String(), func(t *testing.T) {
			ctx := context.Background()
			r := newRig(t, 1)
			flows, streams := flowsOf(r, "n"), streamsOf(r, "n")
			var msgs []stream.Message
			for i := range 12 {
				msgs = append(msgs, stream.Message{Key: fmt.Sprint("k", i%3), Payload: fmt.Append(nil, i)})
			}
			if _, err := streams.AppendMany(ctx, "orders", msgs); err != nil {
				t.Fatal(err)
			}
			ds, err := streams.ReadGroup(ctx, "orders", "g", "c", stream.Limit(6), stream.InMode(mode))
			if err != nil || len(ds) != 6 {
				t.Fatal(len(ds), err)
			}
			if _, err := streams.Ack(ctx, "orders", "g", ds[0].Ref(), ds[1].Ref()); err != nil {
				t.Fatal(err)
			}
			create(t, flows, triggered("order", `"stream": "orders", "consumer_group": "g", "batch_size": 4, "batch_timeout_ms": 0`))
			r.Advance(0)
			for range 10 {
				r.Advance(60_000)
			}
			seen := make(map[int]bool)
			for _, records := range inputs(t, flows) {
				for _, rec := range records {
					n := int(rec["payload"].(float64))
					if seen[n] {
						t.Errorf("record %d has started two runs", n)
					}
					seen[n] = true
				}
			}
			if len(seen) != 10 {
				t.Fatalf("runs of records %v", seen)
			}
			if err := flows.Delete(ctx, "order", workflow.Force()); err != nil {
				t.Fatal(err)
			}
			if _, err := streams.Groups("orders").Get(ctx, "g"); err != nil {
				t.Errorf("a group that was there before has gone with the trigger: %v", err)
			}
		})
	}
}
