package queue

import "github.com/floedb/floe/internal/engine"

// countQueues is the counter of the machine.
const countQueues engine.Counter = 0

// Primitive is what package floe makes nodes and clients with queues of; programs have no use for it.
var Primitive = newWiring()

type (
	hiddenWiring = engine.Wiring[Store]
	wiring       struct{ *hiddenWiring }
)

func newWiring() wiring { return wiring{engine.NewWiring(table, newStore)} }

func newStore(s engine.Scope) *Store { return &Store{s} }

func table() engine.Primitive {
	return engine.Primitive{
		ID: engine.MachineQueue, Name: "queue", New: newMachine,
		// On a full disk: deliveries, extensions, releases and nacks rewrite rows, but take next to nothing of their own.
		Commands: []engine.CommandType{
			{Kind: kindEnqueue, Name: "enqueue", From: engine.FromUsers | engine.FromShards | engine.FromMachines, Admit: admit},
			{Kind: kindDequeue, Name: "dequeue", From: engine.FromUsers, Admit: admit},
			{Kind: kindAck, Name: "ack", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindNack, Name: "nack", From: engine.FromUsers, Admit: admit},
			{Kind: kindExtend, Name: "extend", From: engine.FromUsers, Admit: admit},
			{Kind: kindCheck, Name: "check", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindConfigure, Name: "configure", From: engine.FromUsers, Admit: admit},
			{Kind: kindPause, Name: "pause", From: engine.FromUsers, Admit: admit},
			{Kind: kindPurge, Name: "purge", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindDelete, Name: "delete", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindRequeue, Name: "requeue", From: engine.FromUsers, Admit: admit},
			{Kind: kindRedrive, Name: "redrive", From: engine.FromUsers, Admit: admit},
			{Kind: kindDiscard, Name: "discard", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindRenew, Name: "renew", From: engine.FromUsers, Admit: admit},
			{Kind: kindRelease, Name: "release", From: engine.FromUsers, Admit: admit},
			{Kind: kindRemove, Name: "remove", From: engine.FromUsers, Admit: admit, Shrinks: true},
		},
		Queries: []engine.QueryType{
			{Kind: queryStats, Name: "stats", New: engine.NewQuery[statsQuery]},
			{Kind: queryList, Name: "list", New: engine.NewQuery[listQuery]},
			{Kind: queryPeek, Name: "peek", New: engine.NewQuery[peekQuery]},
			{Kind: queryDead, Name: "dead letters", New: engine.NewQuery[deadQuery]},
			{Kind: queryMessage, Name: "message", New: engine.NewQuery[messageQuery]},
		},
		Errors: []engine.ErrorType{engine.NewErrorType(errorReceipt, "receipt", codeReceipt)},
		Counters: []engine.CounterType{
			{Counter: countQueues, Name: "queues", Field: func(c *engine.Counts) *int64 { return &c.Queues }},
		},
		// Rows of queues, which every command reads, and of dedup keys, most of them looked for in vain.
		Caches: func(k []byte) bool { return k[0] == 'q' || k[0] == 'k' },
	}
}

func newMachine() engine.Machine {
	return newMachineOf(standardLimits)
}

func newMachineOf(l limits) *machine {
	m := &machine{maxInflight: maxInflight, limits: l}
	m.queues = engine.NewMemory[uint64](l.queues, m.undo)
	return m
}

// admit checks a command of a user in another process.
func admit(cmd engine.Command, maxPayload int) error {
	var c command
	if err := c.decode(cmd.Kind, cmd.Body); err != nil {
		return err
	}
	size := 0
	for i := range c.messages {
		n := len(c.messages[i].payload)
		if err := engine.CheckPayload(n, maxPayload); err != nil {
			return err
		}
		if size += int(c.messages[i].bytes()) + messageOverhead; size > MaxBatchBytes && len(c.messages) > 1 {
			return tooLong()
		}
	}
	return checkName(string(c.name))
}
