package engine

import "fmt"

// relation is the access of one machine to another within a command.
type relation struct {
	from, to MachineID
	then     bool   // Tx.Then and Tx.Ask: run its commands
	peek     bool   // Tx.Peek: read its rows
	why      string // reason
}

// relations lists every pair of machines where one may access the other; any other pair panics. A
// machine reads its own rows and runs its own commands directly. Its own commands are in the table
// only as follow-ups.
var relations = []relation{
	{from: MachineAction, to: MachineWorkflow, then: true, why: "the end of a run is the end of the step that waits for it"},
	{from: MachineAction, to: MachineAction, then: true, why: "the end of a run begins the tick of its schedule that waits for it"},
	{from: MachineWorkflow, to: MachineAction, then: true, peek: true,
		why: "steps invoke and cancel runs; a missing or disabled action is an outcome"},
	{from: MachineWorkflow, to: MachineWorkflow, then: true, why: "steps start and cancel children, whose end is the end of a step"},
	{from: MachineWorkflow, to: MachineStream, then: true, peek: true, why: "triggers acknowledge the records they have started runs for"},
	{from: MachineStream, to: MachineWorkflow, then: true, why: "triggers: a batch of records starts a run"},
	{from: MachineProcessing, to: MachineKV, then: true, peek: true, why: "sink; records are looked up"},
	{from: MachineProcessing, to: MachineStream, then: true, peek: true,
		why: "sink, stream of errors; a source may be trimmed, or another one of that name"},
	{from: MachineProcessing, to: MachineQueue, then: true, peek: true, why: "sink; one that is full is waited for"},
	{from: MachineProcessing, to: MachineTS, then: true, peek: true, why: "sink, source"},
	{from: MachineTest, to: MachineTest, then: true, why: "tests"},
	{from: MachineTest, to: MachineAction, then: true, why: "tests"},
	{from: MachineAction, to: MachineTest, then: true, why: "tests"},
	{from: MachineTest, to: MachineTest2, then: true, peek: true, why: "tests"},
	{from: MachineTest2, to: MachineTest, then: true, why: "tests"},
}

// MayPeek reports whether a machine may read rows of another with Tx.Peek.
func MayPeek(from, to MachineID) bool { return related(from, to).peek }

// MayFollow reports whether a machine may run commands of another with Tx.Then and Tx.Ask.
func MayFollow(from, to MachineID) bool { return related(from, to).then }

func related(from, to MachineID) relation {
	for _, r := range relations {
		if r.from == from && r.to == to {
			return r
		}
	}
	return relation{}
}

// Peek returns the value of a row of another machine in this shard. The key contains the number of
// the command's namespace (see Namespace), as built by the other machine's package. Peek panics for
// a pair of machines that is not in the table of relations.
func (tx *Tx) Peek(m MachineID, k []byte) (value []byte, ok bool) {
	if !MayPeek(tx.machine, m) {
		panic(fmt.Sprintf("shard %d: machine %d may not read rows of machine %d", tx.x.shard, tx.machine, m))
	}
	return tx.getRow(append(tx.rowKey(m), k...))
}
