package workflow

import (
	"encoding/json"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestDamages: the report of Verify for each damaged row.
func TestDamages(t *testing.T) {
	row := func(kind byte) func(k []byte) bool { return func(k []byte) bool { return k[0] == kind } }
	part := func(kind byte) func(k []byte) bool {
		return func(k []byte) bool { return k[0] == rowRun && k[partAt] == kind }
	}
	machinetest.RunDamages(t, "testdata/damages", engine.MachineWorkflow, map[string]machinetest.RowKind{
		"workflow":  machinetest.RowOf(row(rowWorkflow), (*record).code),
		"name":      machinetest.RowOf(row(rowName), (*nameRow).code),
		"grave":     machinetest.RowOf(row(rowGrave), (*record).code),
		"graves":    machinetest.BareRow(row(rowGraves)),
		"version":   machinetest.RowOf(row(rowVersion), (*versionRow).code),
		"versions":  machinetest.RowOf(row(rowVersions), (*versionIndex).code),
		"of":        machinetest.BareRow(row(rowOf)),
		"in":        machinetest.BareRow(row(rowIn)),
		"status":    machinetest.BareRow(row(rowByStatus)),
		"ended":     machinetest.BareRow(row(rowEnded)),
		"key":       machinetest.RowOf(row(rowKey), (*keyRow).code),
		"id":        machinetest.BareRow(row(rowID)),
		"attribute": machinetest.BareRow(row(rowAttribute)),
		"plan":      machinetest.RowOf(row(rowPlan), (*planRow).code),
		"cache":     machinetest.RowOf(row(rowCache), (*cacheRow).code),
		"stale":     machinetest.BareRow(row(rowStale)),
		"schedule":  machinetest.RowOf(row(rowSchedule), (*scheduleRow).code),
		"due":       machinetest.BareRow(row(rowDue)),
		"ticked":    machinetest.BareRow(row(rowTicked)),
		"trigger":   machinetest.RowOf(row(rowTrigger), (*triggerRow).code),
		"header":    machinetest.RowOf(part(partHeader), (*header).code),
		"input":     machinetest.BareRow(part(partInput)),
		"output":    machinetest.BareRow(part(partOutput)),
		"step":      machinetest.RowOf(part(partStep), (*stepRow).layout),
		"events":    machinetest.RowOf(part(partEvents), (*eventRow).code),
		"signal":    machinetest.RowOf(part(partSignal), (*signalRow).code),
		"undo":      machinetest.RowOf(part(partUndo), (*undoRow).code),
		"branch":    machinetest.RowOf(part(partBranch), (*branchRow).layout),
		"items":     machinetest.RowOf(part(partItems), (*itemsRow).code),
	}, newDamageable)
}

// newDamageable returns a rig with rows of all kinds.
func newDamageable(t *testing.T) *machinetest.Rig {
	w := newWorked(t)
	actions := engine.StoreOf[action.Store](w.Router(), "n", 1<<20)
	end := func(code string) {
		tasks, err := actions.Await(t.Context(), "w", []string{"two"})
		w.must(err)
		for i := range tasks {
			if code == "" {
				w.must(actions.Complete(t.Context(), tasks[i].Run, "w", []byte("2")))
			} else {
				w.must(actions.Fail(t.Context(), tasks[i].Run, "w", "no", action.ErrorCode(code)))
			}
		}
	}
	_, err := actions.Register(t.Context(), "two")
	w.must(err)
	for _, definition := range []string{
		`{name: gone, start: {run: "@actions/two", transitions: {success: flo.Completed}}}`,
		`{name: undoing, start: {run: "@actions/two", compensate: "@actions/undo", transitions: {success: bad}},
			steps: {bad: {run: "@actions/two", transitions: {success: flo.Completed}}}}`,
		`{name: ticking, schedule: {every: 1s}, start: {run: "@actions/undo", transitions: {success: flo.Completed}}}`,
		`{name: fanned, start: {parallel: {branches: {a: {run: "@actions/two", retry: {max_attempts: 3, initial_delay_ms: 900}}}}, transitions: {success: flo.Completed}}}`,
	} {
		_, err := w.flows.Create(t.Context(), []byte(definition))
		w.must(err)
	}
	_, err = w.flows.Start(t.Context(), "gone", nil, UseID("mine"))
	w.must(err)
	end("")
	w.must(w.flows.Delete(t.Context(), "gone", Force()))
	_, err = w.flows.Start(t.Context(), "undoing", []byte("1"))
	w.must(err)
	end("")
	end("wrong")
	w.Advance(1000)
	_, err = w.flows.Start(t.Context(), "fanned", nil)
	w.must(err)
	end("wrong")
	w.Verify()
	return w.Rig
}

// reads returns calls that read everything of a rig.
func reads(t *testing.T, r *machinetest.Rig) map[string]func() (any, error) {
	s, ctx := engine.StoreOf[Store](r.Router(), "n", 1<<20), t.Context()
	calls := map[string]func() (any, error){
		"All":        func() (any, error) { return engine.Collect(s.All(ctx)) },
		"Runs":       func() (any, error) { return engine.Collect(s.Runs().All(ctx)) },
		"Runs ended": func() (any, error) { return engine.Collect(s.Runs().All(ctx, InState(Completed))) },
	}
	for info, err := range s.All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		name := info.Name
		calls["workflow "+name] = func() (any, error) { return s.Get(ctx, name) }
		calls["versions of "+name] = func() (any, error) { return engine.Collect(s.Versions(name).All(ctx)) }
		calls["runs of "+name] = func() (any, error) { return engine.Collect(s.Runs().All(ctx, Of(name))) }
	}
	for run, err := range s.Runs().All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		id := run.ID
		calls["run "+string(id)] = func() (any, error) { return s.Runs().Get(ctx, id) }
		calls["history of "+string(id)] = func() (any, error) { return engine.Collect(s.History(id).All(ctx)) }
	}
	for name, call := range calls {
		calls[name] = func() (any, error) { // in JSON, because results have pointers
			got, err := call()
			shown, _ := json.Marshal(got)
			return string(shown), err
		}
	}
	return calls
}

// TestFailingReads: a call returns the error of any read that fails.
func TestFailingReads(t *testing.T) {
	r := newDamageable(t)
	r.EachRead(reads(t, r))
}

// TestMalformedRows: a call that reads a malformed row returns an error.
func TestMalformedRows(t *testing.T) {
	r := newDamageable(t)
	damaged := make(map[string]int) // by kind
	calls := reads(t, r)
	for name, call := range calls {
		clear(damaged)
		r.EachDamage(engine.MachineWorkflow, func(row machinetest.Row) [][]byte {
			kind := string(row.Key[0])
			if row.Key[0] == rowRun {
				kind = string(row.Key[:partAt+1]) // of a run
			}
			raw := kind[len(kind)-1] == partInput || kind[len(kind)-1] == partOutput
			if damaged[kind]++; raw || damaged[kind] > 2 {
				return nil
			}
			return machinetest.CutShort(row)
		}, map[string]func() (any, error){name: call})
	}
}
