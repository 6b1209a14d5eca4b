package workers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is a machine with a worker registry and no runs.
type machine struct{ workers.Registry }

// kindCall is a command that changes the registry like a polling worker's call. Its body is "took",
// "completed", "failed", "called", "check", "forget" or "clear", the worker's ID and names of
// actions.
const kindCall = 1

func (m *machine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	if cmd.Kind != kindCall {
		return m.Registry.Apply(tx, cmd)
	}
	words := strings.Split(string(cmd.Body), " ")
	what, id, actions := words[0], words[1], words[2:]
	switch what {
	case "took":
		m.Took(tx, id, actions)
	case "called":
		m.Called(tx, id)
	case "clear":
		return []byte(fmt.Sprint(m.Clear(tx))), nil
	case "check":
		if err := workers.CheckTakes(tx, id); err != nil {
			return []byte(err.Error()), nil
		}
		return nil, nil
	case "forget":
		return []byte(fmt.Sprint(m.Forget(tx, id))), nil
	}
	for _, action := range actions {
		if what != "took" {
			m.Ended(tx, id, action, what == "failed")
		}
	}
	return nil, nil
}

func (m *machine) Workers() *workers.Registry { return &m.Registry }

func (*machine) OnTimer(*engine.Tx, []byte)     {}
func (*machine) Restore(*engine.View) error     { return nil }
func (m *machine) Duties() []engine.Duty        { return []engine.Duty{m.Duty()} }
func (m *machine) Verify(a *engine.Audit) error { return m.Registry.Verify(a) }

// primitive returns the machine's table, with other commands before those of the registry.
func primitive() engine.Primitive {
	p := engine.Primitive{
		ID: engine.MachineAction, Name: "workers", New: func() engine.Machine { return new(machine) },
	}
	for kind := uint8(1); kind < workers.QueryReport; kind++ {
		q := engine.QueryRow(kind, fmt.Sprint("other ", kind),
			func(m *machine, v *engine.View, o *other) error { return m.WatchTakes(v, "n", o.worker) })
		q.New = func() engine.Query { return &other{kind: kind} }
		p.Queries = append(p.Queries, q)
	}
	p.Queries = append(p.Queries, workers.Queries()...)
	for kind := uint8(1); kind < workers.KindJoin; kind++ {
		p.Commands = append(p.Commands, engine.CommandType{Kind: kind, Name: fmt.Sprint("other ", kind), From: engine.FromMachines})
	}
	p.Commands[kindCall-1].From, p.Commands[kindCall-1].Admit = engine.FromUsers, func(engine.Command, int) error { return nil }
	p.Commands = append(p.Commands, workers.Commands()...)
	return p
}

// other stands for the host's own queries. It checks whether a worker may take runs.
type other struct {
	kind   uint8
	worker string
}

func (*other) Machine() engine.MachineID { return engine.MachineAction }
func (o *other) Kind() uint8             { return o.kind }
func (o *other) Arguments(f *codec.Fields) {
	f.Text("worker", &o.worker)
}
func (*other) Results(*codec.Fields) {}

// ground is a rig with a namespace of workers.
type ground struct {
	*machinetest.Rig
	t     *testing.T
	scope engine.Scope
}

// newGround returns a ground that only one goroutine uses, so each read fails once.
func newGround(t *testing.T, shards int, spread bool) *ground {
	t.Helper()
	g := newSharedGround(t, shards, spread)
	g.FailReads(nil)
	return g
}

// newSharedGround returns a ground that a registrar may use too.
func newSharedGround(t *testing.T, shards int, spread bool) *ground {
	t.Helper()
	r := machinetest.New(t, shards, primitive())
	router := r.Router()
	if spread {
		if err := engine.NewNamespaces(router).Create(t.Context(), "n", true); err != nil {
			t.Fatal(err)
		}
	}
	router.Attach(workers.NewFastRegistrar(router))
	return &ground{r, t, router.Scope("n", 1<<20)}
}

// propose sends an operation.
func (g *ground) propose(op engine.Op) error {
	_, err := engine.Propose(g.t.Context(), &g.scope, op, func([]byte) (struct{}, error) { return struct{}{}, nil })
	return err
}

func (g *ground) mustPropose(op engine.Op) {
	g.t.Helper()
	if err := g.propose(op); err != nil {
		g.t.Fatal(err)
	}
}

// take returns the error of a worker that may not take runs.
func (g *ground) take(id string) error {
	return g.Query(g.t.Context(), 0, &other{kind: 1, worker: id})
}

// report sends heartbeats to one shard and returns the indexes of unknown workers.
func (g *ground) report(list ...workers.Reported) []int {
	g.t.Helper()
	q, unknown := workers.Report("n", list...)
	if err := g.scope.Query(g.t.Context(), list[0].ID, q); err != nil {
		g.t.Fatal(err)
	}
	return unknown()
}

// call applies kindCall in a shard.
func (g *ground) call(shard engine.ShardID, words string) string {
	g.t.Helper()
	cmd := engine.Command{Machine: engine.MachineAction, Kind: kindCall, Namespace: "n", Body: []byte(words)}
	cmd.Spread, _ = g.scope.Spread(g.t.Context())
	out := g.Entry(shard, cmd)[0]
	if out.Err != nil {
		g.t.Fatal(out.Err)
	}
	return string(out.Result)
}

// rows counts the machine's rows in a shard by the first byte of their keys.
func (g *ground) rows(shard engine.ShardID) map[string]int {
	n := make(map[string]int)
	for _, row := range g.Rows(shard) {
		if row.Machine == engine.MachineAction {
			n[string(row.Key[:1])]++
		}
	}
	return n
}

func (g *ground) find(id string) workers.Info {
	g.t.Helper()
	i, err := workers.Find(g.t.Context(), &g.scope, id)
	if err != nil {
		g.t.Fatal(err)
	}
	return i
}

// failOver gives all shards a new leader, which has no heartbeats.
func (g *ground) failOver(term uint64) {
	g.Restart()
	g.SetTerm(term)
	g.Advance(0)
}

// entries returns the number of log entries.
func (g *ground) entries() uint64 { return g.Executor(0).Applied().Index }

func named(id string) workers.Worker {
	return workers.Worker{ID: id, Type: "action", Machine: "host", Max: 10, Handles: []string{"a", "b"}}
}

func ran(runs, failures int64, at int64) []workers.Process {
	return []workers.Process{{Name: "a", Kind: "job", Runs: runs, Failures: failures, LastRun: time.UnixMilli(at)}}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// note proposes a command as the leader of shard 0.
func (g *ground) note(op engine.Op) {
	g.t.Helper()
	cmd := op.Command
	cmd.Namespace = "n"
	x := g.Executor(0)
	for _, d := range x.Duties(1, func() engine.LeadDoor { return leadDoor{g} }) {
		if _, err := d.Lead.Propose(g.t.Context(), cmd); err != nil {
			g.t.Fatal(err)
		}
	}
}

type leadDoor struct{ g *ground }

func (d leadDoor) Now() int64 { return d.g.Now() }
func (d leadDoor) Propose(_ context.Context, cmd engine.Command) ([]byte, error) {
	out := d.g.Entry(0, cmd)[0]
	return out.Result, out.Err
}
func (leadDoor) Sleep(ctx context.Context, _ <-chan struct{}, _ int64) error { return ctx.Err() }
