package lint

import (
	"go/ast"
	"testing"

	"github.com/floedb/floe/internal/engine"
)

// machinePackages maps packages with a machine to the names of the machines.
var machinePackages = map[string]string{
	"kv": "MachineKV", "stream": "MachineStream", "queue": "MachineQueue", "ts": "MachineTS", "action": "MachineAction",
	"workflow":          "MachineWorkflow",
	"stream/processing": "MachineProcessing",
}

var machineIDs = map[string]engine.MachineID{
	"MachineKV": engine.MachineKV, "MachineStream": engine.MachineStream, "MachineQueue": engine.MachineQueue,
	"MachineTS":     engine.MachineTS,
	"MachineAction": engine.MachineAction, "MachineWorkflow": engine.MachineWorkflow, "MachineProcessing": engine.MachineProcessing,
}

// TestPeeksAreInTheTable finds machines that read rows of others without an entry in the table.
// Otherwise they would panic only at run time.
func TestPeeksAreInTheTable(t *testing.T) {
	for _, s := range sources(t) {
		from, ok := machinePackages[s.dir()]
		if !ok || s.isTest() {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || selector(call.Fun) != "tx.Peek" || len(call.Args) != 2 {
				return true
			}
			to, _ := call.Args[0].(*ast.SelectorExpr)
			if to == nil || machineIDs[to.Sel.Name] == 0 {
				t.Errorf("%s: Peek of a machine that is not named here: use its constant of package engine", s.at(n))
			} else if !engine.MayPeek(machineIDs[from], machineIDs[to.Sel.Name]) {
				t.Errorf("%s: %s may not read rows of %s: see internal/engine/relation.go", s.at(n), from, to.Sel.Name)
			}
			return true
		})
	}
}
