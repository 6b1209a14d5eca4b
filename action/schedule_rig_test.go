package action

import (
	"context"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// actions holds the actions of a namespace on any ground, with helpers for tests of schedules.
type actions struct {
	t     testing.TB
	g     machinetest.Ground
	scope engine.Scope
	store *Store
}

func newActions(t testing.TB, g machinetest.Ground, namespace string) *actions {
	router := g.Router()
	return &actions{t, g, router.Scope(namespace, 1<<20), engine.StoreOf[Store](router, namespace, 0)}
}

func (a *actions) do(kind uint8, name string, body []byte) {
	a.t.Helper()
	if _, err := engine.Propose(context.Background(), &a.scope, command(kind, name, body),
		func([]byte) (none struct{}, err error) { return none, nil }); err != nil {
		a.t.Fatalf("command %d of %s: %v", kind, name, err)
	}
}

func (a *actions) register(name string) {
	a.t.Helper()
	s := defaultSpec
	s.retainFor, s.retainRuns = maxMillis, MaxRetainedRuns
	a.do(kindRegister, name, body(register, name, s))
}

// change enables or disables an action, or deletes it.
func (a *actions) change(kind uint8, name string, flag bool) {
	a.t.Helper()
	a.do(kind, name, body(remove, name, flag))
}

// cancel ends a run.
func (a *actions) cancel(id RunID) {
	a.t.Helper()
	p, err := id.parse()
	if err != nil {
		a.t.Fatal(err)
	}
	spread, err := a.scope.Spread(context.Background())
	if err != nil {
		a.t.Fatal(err)
	}
	body := encode(nil, &protocol.Cancel{Ref: p.Ref}, (*protocol.Cancel).Code)
	cmd := engine.Command{Machine: engine.MachineAction, Kind: kindCancel, Namespace: a.scope.Namespace(), Spread: spread, Body: body}
	if _, err := a.g.Propose(context.Background(), p.shard, cmd); err != nil {
		a.t.Fatalf("cancel %s: %v", id, err)
	}
}

// runsOf returns the runs of an action at its home, in the order in which they were begun.
func (a *actions) runsOf(name string) (all []Run) {
	a.t.Helper()
	for before := uint64(1 << 63); ; {
		q := runsQuery{namespace: a.scope.Namespace(), name: name, before: before, limit: 100, maxBytes: maxPageBytes}
		if err := a.scope.Query(context.Background(), name, &q); err != nil {
			a.t.Fatal(err)
		}
		if all = append(all, q.items...); !q.more {
			slices.Reverse(all)
			return all
		}
		before = q.next
	}
}
