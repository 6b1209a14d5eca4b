package toy

import "github.com/floedb/floe/internal/engine"

const countCounters engine.Counter = 0

// Primitive returns the primitive that provides toy counters.
func Primitive() engine.Primitive {
	return engine.Primitive{
		ID: engine.MachineTest, Name: "toy", New: func() engine.Machine { return machine{} },
		Commands: []engine.CommandType{
			{Kind: Add, Name: "add", From: engine.FromUsers | engine.FromShards | engine.FromMachines, Admit: admit},
			{Kind: Later, Name: "later", From: engine.FromUsers, Admit: admit},
			{Kind: Send, Name: "send", From: engine.FromUsers, Admit: admit},
			{Kind: Panic, Name: "panic", From: engine.FromUsers, Admit: admit},
			{Kind: Clear, Name: "clear", From: engine.FromUsers, Admit: admit},
		},
		Queries: []engine.QueryType{
			engine.QueryRow(queryCounter, "counter", machine.counter),
			engine.QueryRow(querySum, "sum", machine.sum),
		},
		Counters: []engine.CounterType{
			// Shown in a field that none of the primitives tested with it uses.
			{Counter: countCounters, Name: "counters", Field: func(c *engine.Counts) *int64 { return &c.Workflows }},
		},
	}
}

func admit(cmd engine.Command, _ int) error {
	if _, err := Decode(cmd); err != nil {
		return engine.Errorf(engine.ErrInvalid, "toy: %v", err)
	}
	return nil
}
