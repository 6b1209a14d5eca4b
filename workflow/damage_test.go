package workflow

import (
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rig"
)

// TestDamages: what Verify reports of each row that is damaged.
func TestDamages(t *testing.T) {
	row := func(kind byte) func(k []byte) bool { return func(k []byte) bool { return k[0] == kind } }
	part := func(kind byte) func(k []byte) bool {
		return func(k []byte) bool { return k[0] == rowRun && k[partAt] == kind }
	}
	rig.RunDamages(t, "testdata/damages", engine.MachineWorkflow, map[string]rig.RowKind{
		"workflow":  rig.RowOf(row(rowWorkflow), (*record).code),
		"name":      rig.RowOf(row(rowName), (*nameRow).code),
		"grave":     rig.RowOf(row(rowGrave), (*record).code),
		"graves":    rig.BareRow(row(rowGraves)),
		"version":   rig.RowOf(row(rowVersion), (*versionRow).code),
		"versions":  rig.RowOf(row(rowVersions), (*versionIndex).code),
		"of":        rig.BareRow(row(rowOf)),
		"in":        rig.BareRow(row(rowIn)),
		"status":    rig.BareRow(row(rowByStatus)),
		"ended":     rig.BareRow(row(rowEnded)),
		"key":       rig.RowOf(row(rowKey), (*keyRow).code),
		"id":        rig.BareRow(row(rowID)),
		"attribute": rig.BareRow(row(rowAttribute)),
		"plan":      rig.RowOf(row(rowPlan), (*planRow).code),
		"cache":     rig.RowOf(row(rowCache), (*cacheRow).code),
		"stale":     rig.BareRow(row(rowStale)),
		"schedule":  rig.RowOf(row(rowSchedule), (*scheduleRow).code),
		"due":       rig.BareRow(row(rowDue)),
		"ticked":    rig.BareRow(row(rowTicked)),
		"trigger":   rig.RowOf(row(rowTrigger), (*triggerRow).code),
		"header":    rig.RowOf(part(partHeader), (*header).code),
		"input":     rig.BareRow(part(partInput)),
		"output":    rig.BareRow(part(partOutput)),
		"step":      rig.RowOf(part(partStep), (*stepRow).layout),
		"events":    rig.RowOf(part(partEvents), (*eventRow).code),
		"signal":    rig.RowOf(part(partSignal), (*signalRow).code),
		"undo":      rig.RowOf(part(partUndo), (*undoRow).code),
		"branch":    rig.RowOf(part(partBranch), (*branchRow).layout),
		"items":     rig.RowOf(part(partItems), (*itemsRow).code),
	}, newDamageable)
}

// newDamageable returns a rig with rows of all kinds.
func newDamageable(t *testing.T) *rig.Rig {
	w := newWorked(t)
	actions := engine.StoreOf(action.Primitive, w.Router(), "n", 1<<20)
	end := func(code string) {
		tasks, err := actions.Await(t.Context(), "w", []string{"two"})
		w.must(err)
		for i := range tasks {
			if code == "" {
				w.must(actions.Complete(t.Context(), tasks[i].Run, "w", []byte("2")))
			} else {
				w.must(actions.Fail(t.Context(), tasks[i].Run, "w", "no", action.WithCode(code)))
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
	_, err = w.flows.Start(t.Context(), "gone", nil, WithRunID("mine"))
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
