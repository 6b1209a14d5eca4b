package processing

import (
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pipeline"
)

// countJobs is the counter of the machine: the jobs that are not cancelled.
const countJobs engine.Counter = 0

var _ = engine.Provide(table, newStore)

// table returns the table of a node, whose shards share the cache of keyed state.
func table() engine.Primitive { return tableOf(newMemory(cacheBytes)) }

func tableOf(shared *memory) engine.Primitive {
	var funcs map[string]pipeline.Func
	types := commands.Types()
	types[kindSubmit-1].Admit, types[kindSubmit-1].Reaches = admitSubmit, reaches
	types[kindRestore-1].Admit, types[kindRestore-1].Reaches = admitRestore, reaches
	return engine.Primitive{
		ID: engine.MachineProcessing, Name: "processing", New: func() engine.Machine { return newMachine(shared, funcs) }, Kept: shared,
		Given:    func(v any) { funcs = pipelineFuncs(v.(map[string]Func)) },
		Commands: types,
		Queries: []engine.QueryType{
			engine.QueryRow(queryJob, "job", (*machine).queryJob),
			engine.QueryRow(queryJobs, "jobs", (*machine).queryJobs),
			engine.QueryRow(querySubtasks, "parts", (*machine).querySubtasks),
		},
		Counters: []engine.CounterType{
			{Counter: countJobs, Name: "jobs", Field: func(c *engine.Counts) *int64 { return &c.Jobs }},
		},
		// Rows of jobs and of their tasks: every tick reads and writes them.
		Caches: func(k []byte) bool {
			return k[0] == rowJob || k[0] == rowTask || k[0] == rowSubtask || k[0] == rowExchange
		},
	}
}

// newMachine returns the machine of a shard.
func newMachine(shared *memory, funcs map[string]pipeline.Func) *machine {
	return &machine{calls: commands.NewCalls(), memory: shared, funcs: funcs}
}

// reaches returns the other namespaces that the sinks of a definition write to.
func reaches(cmd engine.Command) (all []string) {
	var b submitBody
	var err error
	if cmd.Kind == kindRestore {
		var r restoreBody
		_, r, err = restore.Read(cmd)
		b = r.submitBody
	} else {
		_, b, err = submit.Read(cmd)
	}
	if err != nil || len(b.source) == 0 {
		return nil
	}
	p, err := parse(b.source)
	if err != nil {
		return nil
	}
	for i := range p.job.Sinks {
		if ns := p.job.Sinks[i].Namespace; ns != "" {
			all = append(all, ns)
		}
	}
	return all
}

// admitSubmit validates a submission that a user sent from another process.
func admitSubmit(cmd engine.Command, maxPayload int) error {
	name, b, err := submit.Read(cmd)
	if err != nil {
		return err
	}
	b.name = string(name)
	return b.check(cmd, maxPayload, numberAll)
}

// admitRestore is admitSubmit for a restore.
func admitRestore(cmd engine.Command, maxPayload int) error {
	_, b, err := restore.Read(cmd)
	if err == nil {
		err = b.limit()
	}
	if err != nil || !b.edited {
		return err
	}
	return b.check(cmd, maxPayload, func(p []numbered) []numbered {
		seen := make(map[uint16]bool)
		for i := range p {
			if n := b.numbers[min(i, len(b.numbers)-1)].number; n > 0 && n <= b.last && !seen[n] {
				p[i].number, seen[n] = n, true
			}
		}
		return p
	})
}

// check rejects a command that differs from its definition. number assigns numbers to the parts of
// the definition.
func (b *submitBody) check(cmd engine.Command, maxPayload int, number func([]numbered) []numbered) error {
	p, err := parse(b.source)
	if err != nil {
		return err
	}
	if err := p.isFor(cmd.Namespace); err != nil {
		return err
	}
	if cmd.Spread {
		p.spread()
	}
	if len(b.numbers) != len(p.parts) {
		return engine.Errorf(ErrInvalid, "processing: %d numbers for %d parts of a definition", len(b.numbers), len(p.parts))
	}
	if b.name != p.job.Name || b.parallelism != p.job.Parallelism || b.batch != p.job.BatchSize || b.maxPayload < 0 ||
		b.maxPayload > maxPayload ||
		!slices.Equal(number(p.parts), b.numbers) {
		return engine.Errorf(ErrInvalid, "processing: the command does not say what its definition says")
	}
	return nil
}
