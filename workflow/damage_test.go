package workflow

import (
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
