package workflow

import (
	"slices"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestVerifyPlans: Verify reports a run whose plan refers to missing executors, whichever of them
// it is.
func TestVerifyPlans(t *testing.T) {
	ctx := t.Context()
	r := machinetest.New(t, 1, engine.TableOf[action.Store](), table())
	flows, actions := engine.StoreOf[Store](r.Router(), "n", 1<<20), engine.StoreOf[action.Store](r.Router(), "n", 1<<20)
	if _, err := actions.Register(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := flows.Create(ctx, []byte(`
name: w
start: { run: "@plan/p", transitions: { success: flo.Completed } }
plans: { p: { executors: [{ name: one, run: "@actions/a" }, { name: two, run: "@actions/a" }] } }
`)); err != nil {
		t.Fatal(err)
	}
	if _, err := flows.Start(ctx, "w", nil); err != nil {
		t.Fatal(err)
	}
	r.Verify()
	rows := r.Rows(0)
	at := slices.IndexFunc(rows, func(row machinetest.Row) bool {
		return row.Machine == engine.MachineWorkflow && row.Key[0] == rowRun && len(row.Key) == partAt+1 && row.Key[partAt] == partHeader
	})
	row := rows[at]
	for name, change := range map[string]func(p *planState){
		"an executor that there is not":           func(p *planState) { p.at = 2 },
		"no executor, and none to be chosen":      func(p *planState) { p.at = -1 },
		"another executor that there is not next": func(p *planState) { p.rest = []byte{1, 2} },
		"no plan": func(p *planState) { *p = planState{} },
	} {
		h := must(decode(row.Value, (*header).code))
		if h.call.phase != phaseCalled || !h.call.plan.begun {
			t.Fatalf("the call is in phase %d", h.call.phase)
		}
		change(&h.call.plan)
		r.Tamper(0, machinetest.Row{Machine: row.Machine, Key: row.Key, Value: encode(nil, &h, (*header).code)})
		if len(r.Problems(0)) == 0 {
			t.Errorf("Verify says nothing about %s", name)
		}
		r.Tamper(0, row)
	}
	r.Verify()
}
