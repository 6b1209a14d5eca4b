package processing

import (
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pipeline"
)

// countJobs is the counter of the machine: jobs that are not cancelled.
const countJobs engine.Counter = 0

// Primitive is what package floe makes nodes and clients with stream processing of; programs have no use for it.
var Primitive = newWiring()

type (
	hiddenWiring = engine.Wiring[Store]
	wiring       struct{ *hiddenWiring }
)

func newWiring() wiring { return wiring{engine.NewWiring(table, newStore)} }

// table returns the table of a node, whose shards share what they remember.
func table() engine.Primitive { return tableOf(newMemory(cacheBytes)) }

func tableOf(shared *memory) engine.Primitive {
	var funcs map[string]pipeline.Func
	return engine.Primitive{
		ID: engine.MachineProcessing, Name: "processing", New: func() engine.Machine { return &machine{memory: shared, funcs: funcs} }, Kept: shared,
		Given: func(v any) { funcs = pipelineFuncs(v.(map[string]Func)) },
		// On a full disk jobs are held, and can be ended.
		Commands: []engine.CommandType{
			{Kind: kindSubmit, Name: "submit", From: engine.FromUsers, Admit: admit, Reaches: reaches},
			{Kind: kindStop, Name: "stop", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindCancel, Name: "cancel", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindRescale, Name: "rescale", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindSavepoint, Name: "savepoint", From: engine.FromUsers, Admit: admit},
			{Kind: kindRestore, Name: "restore", From: engine.FromUsers, Admit: admit, Reaches: reaches},
			{Kind: kindTick, Name: "tick", From: engine.FromLeaders},
			{Kind: kindBeginSave, Name: "begin savepoint", From: engine.FromLeaders},
			{Kind: kindSave, Name: "save", From: engine.FromLeaders},
			{Kind: kindFill, Name: "fill", From: engine.FromLeaders},
			{Kind: kindDropSavepoint, Name: "drop savepoint", From: engine.FromUsers, Admit: admit, Shrinks: true},
			{Kind: kindFollow, Name: "follow", From: engine.FromShards, Shrinks: true},
			{Kind: kindReport, Name: "report", From: engine.FromShards, Shrinks: true},
			{Kind: kindPass, Name: "pass", From: engine.FromShards},
			{Kind: kindPhase, Name: "phase", From: engine.FromShards, Shrinks: true},
		},
		Queries: []engine.QueryType{
			{Kind: queryJob, Name: "job", New: engine.NewQuery[jobQuery]},
			{Kind: queryJobs, Name: "jobs", New: engine.NewQuery[jobsQuery]},
			{Kind: queryParts, Name: "parts", New: engine.NewQuery[partsQuery]},
		},
		Counters: []engine.CounterType{
			{Counter: countJobs, Name: "jobs", Field: func(c *engine.Counts) *int64 { return &c.Jobs }},
		},
		// Rows of jobs and of their tasks: each tick reads and writes them.
		Caches: func(k []byte) bool { return k[0] == rowJob || k[0] == rowTask || k[0] == rowPart || k[0] == rowInbox },
	}
}

// reaches returns the other namespaces that the sinks of a definition write to.
func reaches(cmd engine.Command) (all []string) {
	var s submitCommand
	var err error
	if cmd.Kind == kindRestore {
		var r restoreCommand
		r, err = decodeBody(cmd.Body, (*restoreCommand).code)
		s = r.submitCommand
	} else {
		s, err = decodeBody(cmd.Body, (*submitCommand).codeSubmit)
	}
	if err != nil || len(s.source) == 0 {
		return nil
	}
	p, err := parse(s.source)
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

// admit checks a command of a user in another process.
func admit(cmd engine.Command, maxPayload int) error {
	switch cmd.Kind {
	case kindSubmit:
		s, err := decodeBody(cmd.Body, (*submitCommand).codeSubmit)
		if err != nil {
			return err
		}
		return s.check(cmd, maxPayload, numberAll)
	case kindRestore:
		r, err := decodeBody(cmd.Body, (*restoreCommand).code)
		if err != nil || !r.edited {
			return err
		}
		return r.submitCommand.check(cmd, maxPayload, func(p []numbered) []numbered {
			seen := make(map[uint16]bool)
			for i := range p {
				if n := r.numbers[min(i, len(r.numbers)-1)].number; n > 0 && n <= r.last && !seen[n] {
					p[i].number, seen[n] = n, true
				}
			}
			return p
		})
	}
	_, err := decodeBody(cmd.Body, (*jobCommand).code)
	return err
}

// check refuses a command that does not say what its definition says. number gives the parts of the definition their numbers.
func (s *submitCommand) check(cmd engine.Command, maxPayload int, number func([]numbered) []numbered) error {
	p, err := parse(s.source)
	if err != nil {
		return err
	}
	if err := p.isFor(cmd.Namespace); err != nil {
		return err
	}
	if cmd.Spread {
		p.spread()
	}
	if len(s.numbers) != len(p.parts) {
		return engine.Errorf(ErrInvalid, "processing: %d numbers for %d parts of a definition", len(s.numbers), len(p.parts))
	}
	if s.name != p.job.Name || s.parallelism != p.job.Parallelism || s.batch != p.job.BatchSize || s.maxPayload < 0 || s.maxPayload > maxPayload ||
		!slices.Equal(number(p.parts), s.numbers) {
		return engine.Errorf(ErrInvalid, "processing: the command does not say what its definition says")
	}
	return nil
}
