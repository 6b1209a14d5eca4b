package workflow

import (
	"bytes"
	"errors"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/schedule"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// manyKinds is a workflow with a step of each kind, and everything that creates rows.
const manyKinds = `
name: many
version: "1"
timeout_ms: 3600000
input_schema: { required: [ids] }
searchAttributes: [{ name: size, type: number, from: $.input.size }]
schedule: { cron: "0 6 * * *", timezone: Europe/Berlin }
trigger: { stream: orders }
start: { run: "@actions/one", compensate: "@actions/undo", retry: { max_attempts: 3, initial_delay_ms: 1000 }, transitions: { success: pay } }
steps:
  pay: { run: "@plan/pay", transitions: { success: fan } }
  fan:
    parallel: { each: $.input.ids, run: "@actions/one", max_concurrency: 2 }
    transitions: { success: ask }
  ask:
    waitForSignal: { type: go, timeoutMs: 60000, onTimeout: nap }
    transitions: { success: nap, nap: nap }
  nap: { sleep: { ms: 1000 }, transitions: { success: child } }
  child: { run: "@workflow/leaf", transitions: { success: flo.Completed } }
plans:
  pay:
    selection: health-weighted
    executors:
      - { name: a, run: "@actions/one", breaker: { failure_threshold: 2, cooldown_ms: 1000 }, rate_limit: { max_per_second: 10 } }
    cache: { ttl_ms: 60000, key: "k:{input.size}" }
`

const leaf = `
name: leaf
start: { waitForSignal: { type: leave, timeoutMs: 60000 }, transitions: { success: flo.Completed } }
`

// worked is a namespace, and its store, with runs of workflow many at each of its steps.
type worked struct {
	*machinetest.Rig
	t     testing.TB
	flows *Store
	runs  []RunID
}

func newWorked(t testing.TB) *worked {
	r := machinetest.New(t, 1, engine.TableOf[action.Store](), engine.TableOf[stream.Store](), engine.TableOf[Store]())
	w := &worked{Rig: r, t: t, flows: engine.StoreOf[Store](r.Router(), "n", 1<<20)}
	actions := engine.StoreOf[action.Store](r.Router(), "n", 1<<20)
	for _, name := range []string{"one", "undo"} {
		_, err := actions.Register(t.Context(), name)
		w.must(err)
	}
	for _, definition := range []string{leaf, manyKinds} {
		_, err := w.flows.Create(t.Context(), []byte(definition))
		w.must(err)
	}
	for _, calls := range []int{6, 4, 2, 1, 0} {
		s, err := w.flows.Start(t.Context(), "many", []byte(`{"ids":[1,2,3,4],"size":7}`), IdempotencyKey(string(rune('a'+calls))))
		w.must(err)
		w.runs = append(w.runs, s.Run)
		for range calls {
			tasks, err := actions.Await(t.Context(), "w", []string{"one"})
			w.must(err)
			for i := range tasks {
				w.must(actions.Complete(t.Context(), tasks[i].Run, "w", []byte(`{"n":1}`)))
			}
		}
		_, err = w.flows.Signal(t.Context(), s.Run, "other", []byte(`{"x":1}`))
		w.must(err)
	}
	_, err := w.flows.Cancel(t.Context(), w.runs[3], "enough")
	w.must(err)
	w.Verify()
	return w
}

func (w *worked) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// FuzzCommand applies bodies that Admit accepts: each is refused or applied. Nothing panics,
// neither then nor when time advances, and all rows stay consistent.
func FuzzCommand(f *testing.F) {
	for _, op := range []engine.Operation{
		CreateOp([]byte(leaf)), EnableOp("many"), DisableOp("many"), DeleteOp("many"), DeleteOp("leaf", Force()),
		StartOp("many", []byte(`{"ids":[1]}`), IdempotencyKey("k"), Version("1")), StartOp("leaf", nil, UseID("mine")),
		SignalOp("mine", "leave", []byte(`{"outcome":"x"}`)), CancelOp("mine", "why"), RetryOp("mine", FromStep("fan"),
			ReplaceInput([]byte(`1`))),
		pauseSchedule.Op("many", true, nil), pauseSchedule.Op("many", false, nil), invalidate.Op("many", planBody{plan: "pay"},
			nil), RemoveVersionOp("many", "1"), SetDefaultOp("many", "1"),
	} {
		cmd, err := engine.OpOf(op).Limit(1 << 20)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(cmd.Kind, cmd.Body, uint8(0))
		f.Add(cmd.Kind, cmd.Body, uint8(1))
	}
	for _, cmd := range []engine.Command{
		command(kindSignal, "", &signalBody{number0, "go", []byte(`{"a":1}`)}, (*signalBody).code),
		command(kindCancel, "", &cancelBody{number0, []byte("r")}, (*cancelBody).code),
		command(kindRetry, "", &retryBody{number0, "pay", nil}, (*retryBody).code),
	} {
		for n := range uint8(5) { // the last argument selects the run
			f.Add(cmd.Kind, cmd.Body, n<<1)
		}
	}
	p := table()
	f.Fuzz(func(t *testing.T, kind uint8, body []byte, how uint8) {
		w := newWorked(t)
		at, err := w.runs[int(how>>1)%len(w.runs)].parse()
		w.must(err)
		cmd := engine.Command{Machine: engine.MachineWorkflow, Kind: kind, Namespace: "n", Body: aimed(kind, body, at)}
		if err := p.Admit(cmd, 1<<20); err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("Admit: %v, want ErrInvalid", err)
			}
			return
		}
		machinetest.SameInJSON(t, p, cmd)
		for range 1 + how&1 {
			_, err := w.Propose(t.Context(), 0, cmd)
			var refused *engine.Error
			if err != nil && !errors.As(err, &refused) {
				t.Errorf("command %d: %v is no definite refusal", kind, err)
			}
			w.Verify()
		}
		w.Advance(61_000)
		w.Verify()
		w.Advance(3_600_000)
		w.Verify()
	})
}

var number0 = number{1, 1}

// aimed redirects a command that names number0 to a run.
func aimed(kind uint8, body []byte, p runLocation) []byte {
	head := codec.EncodeFields(nil, &target{number: number0}, (*target).code)
	switch kind {
	case kindSignal, kindCancel, kindRetry:
		if rest, ok := bytes.CutPrefix(body, head); ok {
			return append(codec.EncodeFields(nil, &target{number: number{p.run, p.tag}}, (*target).code), rest...)
		}
	}
	return body
}

// decoders decode rows, and the bodies of commands, timers and messages.
var decoders = []func(t *testing.T, b []byte){
	fuzzed((*record).code), fuzzed((*nameRow).code), fuzzed((*versionRow).code), fuzzed((*versionIndex).code), fuzzed((*keyRow).code),
	fuzzed((*header).code), fuzzed((*stepRow).layout), fuzzed((*signalRow).code), fuzzed((*undoRow).code), fuzzed((*eventRow).code),
	fuzzed((*branchRow).layout), fuzzed((*itemsRow).code), fuzzed((*planRow).code), fuzzed((*cacheRow).code), fuzzed((*scheduleRow).code),
	fuzzed((*triggerRow).code), fuzzed((*token).code), fuzzed((*runLocation).code), fuzzedFields((*createBody).code),
	fuzzed((*adoptCommand).code),
	fuzzedFields(codec.Flag("on")), fuzzedFields((*startBody).code), fuzzedFields((*signalBody).code), fuzzedFields((*cancelBody).code),
	fuzzedFields((*retryBody).code), fuzzed((*relayCommand).code), fuzzedFields((*planBody).code), fuzzed(schedules.CodeAll),
	fuzzed((*scheduledRun).code), fuzzedFields((*created).code), fuzzedFields((*started).code), fuzzedFields((*changed).code),
}

// fuzzed checks that everything a decoder accepts encodes to the same bytes.
func fuzzed[T any](code func(*T, *codec.Coder)) func(t *testing.T, b []byte) {
	return func(t *testing.T, b []byte) {
		v, err := decode(b, code)
		if err != nil {
			if !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("%v, want ErrCorrupt", err)
			}
			return
		}
		back := encode(nil, &v, code)
		if !bytes.HasPrefix(b, back) { // fields appended by a later layout are omitted when they have their defaults
			t.Errorf("%T: read %x, wrote back %x", v, b, back)
		}
		if v, err := decode(back, code); err != nil || !bytes.Equal(encode(nil, &v, code), back) {
			t.Errorf("%T: wrote %x, read that as %+v, %v", v, back, v, err)
		}
	}
}

// fuzzedFields is fuzzed for values declared field by field.
func fuzzedFields[T any](code func(*T, *codec.Fields)) func(t *testing.T, b []byte) {
	return func(t *testing.T, b []byte) {
		var v T
		if codec.DecodeFields(b, &v, code) != nil {
			return
		}
		if back := codec.EncodeFields(nil, &v, code); !bytes.Equal(b, back) {
			t.Errorf("%T: read %x, wrote back %x", v, b, back)
		}
	}
}

// FuzzRows: everything a decoder accepts encodes to the same bytes.
func FuzzRows(f *testing.F) {
	w := newWorked(f)
	for _, row := range w.Rows(0) {
		if row.Machine != engine.MachineWorkflow {
			continue
		}
		kind := row.Key[0]
		if kind == rowRun {
			kind = row.Key[partAt] + 128
		}
		if n, ok := decoderOf[kind]; ok {
			f.Add(n, row.Value)
		}
	}
	f.Add(uint8(16), encode(nil, &token{shard: 3, run: 7, tag: 9, child: true, slot: 2, seq: 4}, (*token).code))
	f.Add(uint8(21), codec.EncodeFields(nil, &startBody{version: "1", id: "i", key: []byte("k"), source: "s", parent: "p", depth: 3,
		input: []byte("1")}, (*startBody).code))
	f.Add(uint8(27),
		encode(nil, &[]dueTicks{{1, schedule.Due{Revision: 2, After: 3, Run: []int64{4, 5}, Missed: 6, Last: 7, Next: never,
			Problem: "p"}}}, schedules.CodeAll))
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) { decoders[int(kind)%len(decoders)](t, b) })
}

// decoderOf is the index in decoders for the rows of a kind; rows of parts of runs count from 128.
var decoderOf = map[byte]uint8{
	rowWorkflow: 0, rowGrave: 0, rowName: 1, rowVersion: 2, rowVersions: 3, rowKey: 4, rowPlan: 12, rowCache: 13, rowSchedule: 14,
	rowTrigger:       15,
	partHeader + 128: 5, partStep + 128: 6, partSignal + 128: 7, partUndo + 128: 8, partEvents + 128: 9, partBranch + 128: 10,
	partItems + 128: 11,
}
