package engine

import "testing"

// TestRelations checks the rules of the table: each pair appears once, with a reason, and there is
// none without need.
func TestRelations(t *testing.T) {
	seen := make(map[[2]MachineID]bool)
	for _, r := range relations {
		switch pair := [2]MachineID{r.from, r.to}; {
		case seen[pair]:
			t.Errorf("%v twice", pair)
		case r.why == "" || !r.then && !r.peek:
			t.Errorf("%v: what for?", pair)
		case r.from == machineEngine || r.to == machineEngine || r.to >= maxMachines:
			t.Errorf("%v: not of two machines", pair)
		case r.peek && r.from == r.to:
			t.Errorf("%v: a machine reads its own rows with Get", pair)
		default:
			seen[pair] = true
		}
	}
	for _, primitive := range []MachineID{MachineKV, MachineQueue, MachineTS, MachineStream} {
		for to := range MachineID(maxMachines) {
			feeds := primitive == MachineStream && to == MachineWorkflow // its triggers: the subscriber has declared that it takes records
			if MayPeek(primitive, to) || MayFollow(primitive, to) && !feeds {
				t.Errorf("machine %d, which knows of no other, may use machine %d", primitive, to)
			}
		}
	}
}
