package action

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/machinetest"
)

// hosts are nodes with actions and callers, in one shard. They are a door to the current leader.
type hosts struct {
	t   *testing.T
	ctx context.Context
	net *shard.Network

	takes   atomic.Int64 // takes that have no result yet
	elected bool         // a leader was elected while entries were counted

	mu  sync.Mutex // guards all
	all map[uint64]*shard.Host
}

func openHosts(t *testing.T, voters ...uint64) *hosts {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	h := &hosts{t: t, ctx: ctx, net: shard.NewNetwork(1), all: make(map[uint64]*shard.Host)}
	t.Cleanup(func() {
		cancel()
		for _, id := range voters {
			h.close(id)
		}
		h.net.Close()
	})
	for _, id := range voters {
		c := shard.Config{
			Dir: "node", FS: vfs.NewMem(), Shards: 1, NodeID: id, Voters: voters, Transport: h.net.Transport(id),
			TickInterval: 10 * time.Millisecond,
			Primitives:   []engine.Primitive{table(), callerTable(60_000)},
		}
		if len(voters) == 1 {
			c.Voters, c.Transport = nil, nil
		}
		one, err := shard.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		h.all[id] = one
		h.net.Join(id, one)
	}
	return h
}

func (h *hosts) close(id uint64) {
	h.mu.Lock()
	one := h.all[id]
	delete(h.all, id)
	h.mu.Unlock()
	if one == nil {
		return
	}
	if err := one.Close(); err != nil {
		h.t.Errorf("close node %d: %v", id, err)
	}
	h.net.Join(id, nil)
}

// leader waits for a leader and returns it.
func (h *hosts) leader() (id uint64, leader *shard.Host) {
	retry := time.NewTicker(time.Millisecond)
	defer retry.Stop()
	for {
		h.mu.Lock()
		for id, one := range h.all {
			if one.Leads(0) {
				h.mu.Unlock()
				return id, one
			}
		}
		h.mu.Unlock()
		select {
		case <-retry.C:
		case <-h.ctx.Done():
			panic("nobody leads")
		}
	}
}

func (h *hosts) propose(m engine.MachineID, kind uint8, body []byte) []byte {
	h.t.Helper()
	_, leader := h.leader()
	res, err := leader.Propose(h.ctx, 0, engine.Command{Machine: m, Kind: kind, Namespace: "n", Body: body})
	if err != nil {
		h.t.Fatalf("command %d of machine %d: %v", kind, m, err)
	}
	return res
}

func (h *hosts) work(c workBody) worked {
	h.t.Helper()
	res, err := takeRuns.Decode(h.propose(engine.MachineAction, kindWork, body(takeRuns, "", c)))
	if err != nil {
		h.t.Fatal(err)
	}
	return res
}

func (h *hosts) open(name string) uint64 {
	h.t.Helper()
	c := openBody{process: "p", groups: []group{{"", []string{name}}}}
	session, err := openSession.Decode(h.propose(engine.MachineAction, kindOpen, body(openSession, "", c)))
	if err != nil {
		h.t.Fatal(err)
	}
	return session
}

// take starts a take that waits for a run at the leader.
func (h *hosts) take(session uint64) <-chan taken {
	h.t.Helper()
	got := make(chan taken, 1)
	many := h.takeMany(session, 1)
	go func() {
		defer close(got)
		if res := <-many; len(res.taken) == 1 {
			got <- res.taken[0]
		}
	}()
	return got
}

// takeMany starts a take that waits for runs.
func (h *hosts) takeMany(session uint64, slots int) <-chan worked {
	h.t.Helper()
	h.await() // an answered take may not have left yet
	h.takes.Add(1)
	op := takeRuns.Op("", workBody{session: session, wants: []want{{0, "w", slots}}}, nil)
	op.Command.Namespace = "n"
	got := make(chan worked, 1)
	go func() {
		defer close(got)
		for {
			_, leader := h.leader()
			b, err := leader.Take(h.ctx, 0, engine.Take{Command: op.Command, Wait: time.Hour})
			if h.ctx.Err() != nil {
				return
			}
			if errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, engine.ErrUnknownOutcome) || errors.Is(err, engine.ErrClosed) {
				continue
			}
			res, decoding := takeRuns.Decode(b)
			if err := errors.Join(err, decoding); err != nil || len(res.taken) == 0 {
				h.t.Errorf("take = %+v, %v", res, err)
				return
			}
			h.takes.Add(-1)
			got <- res
			return
		}
	}()
	h.await()
	return got
}

func (h *hosts) waiting() int {
	_, leader := h.leader()
	stats, err := leader.Stats()
	if err != nil {
		h.t.Fatal(err)
	}
	return stats.Waiting
}

// await returns when all takes without a result, and no others, wait at the leader.
func (h *hosts) await() {
	for h.ctx.Err() == nil && h.waiting() != int(h.takes.Load()) {
	}
}

// settle returns when the entries that a leader makes on its own are applied.
func (h *hosts) settle() {
	h.t.Helper()
	_, leader := h.leader()
	if err := leader.Query(h.ctx, 0, &engine.NamespaceQuery{Name: engine.DefaultNamespace, Wait: true}); err != nil {
		h.t.Fatal(err)
	}
}

// entries returns the number of entries that f takes.
func (h *hosts) entries(f func()) uint64 {
	h.settle()
	term, before := h.applied()
	f()
	now, after := h.applied()
	h.elected = h.elected || now != term
	return after - before
}

// applied returns how many entries the leader has applied, and its term.
func (h *hosts) applied() (term, index uint64) {
	h.t.Helper()
	_, leader := h.leader()
	stats, err := leader.Stats()
	if err != nil {
		h.t.Fatal(err)
	}
	return stats.Shards[0].Term, leader.Applied(0)
}

// TestEntriesOfSteps: a caller's step, its result and its consequences take one entry. With the
// start, three steps take four. That holds whether the worker that ends a step takes the next one
// in the same command, or another worker's waiting take does. It also holds on a node that has not
// led before.
func TestEntriesOfSteps(t *testing.T) {
	for name, voters := range map[string][]uint64{"alone": {1}, "cluster": {1, 2, 3}} {
		t.Run(name, func(t *testing.T) {
			for !stepsCounted(t, voters...) {
			}
		})
	}
}

// stepsCounted returns false if a leader was elected for a reason other than the test's. Such an
// election adds its own entries, and those of takes that start over.
func stepsCounted(t *testing.T, voters ...uint64) bool {
	h := openHosts(t, voters...)
	h.propose(engine.MachineAction, kindRegister, body(register, "step", defaultSpec))
	h.propose(engine.MachineAction, kindRegister, body(register, "other", defaultSpec))
	one, two, bystander := h.open("step"), h.open("step"), h.open("other")
	h.take(bystander)
	for round := range 2 {
		waiting := h.take(one)
		var step taken
		total := h.entries(func() {
			h.propose(engine.MachineTest, callerStart, []byte{3})
			step = <-waiting
		})
		total += h.entries(func() {
			res := h.work(workBody{session: one, wants: []want{{0, "w", 1}}, ends: []end{{ref: step.ref, how: completed}}})
			if len(res.taken) != 1 {
				t.Fatalf("what comes of the end is not taken with it: %+v", res)
			}
			step = res.taken[0]
		})
		waiting = h.take(two)
		if len(voters) > 1 && round == 0 {
			id, _ := h.leader()
			term, index := h.applied()
			h.close(id)
			h.await()
			for h.ctx.Err() == nil { // raft's own entry, and the comparison of the replicas
				now, applied := h.applied()
				if h.elected = h.elected || now > term+1; h.elected || applied >= index+2 {
					break
				}
			}
		}
		total += h.entries(func() {
			h.work(workBody{session: one, ends: []end{{ref: step.ref, how: completed}}})
			step = <-waiting
		})
		total += h.entries(func() { h.work(workBody{session: two, ends: []end{{ref: step.ref, how: completed}}}) })
		if h.elected {
			return false
		}
		if total != 4 {
			t.Errorf("three steps are %d entries", total)
		}
	}
	return true
}

// TestShare: ready runs are shared among the takes that wait for them. They used to be shared among
// all processes with a session, including busy ones.
func TestShare(t *testing.T) {
	h := openHosts(t, 1)
	h.propose(engine.MachineAction, kindRegister, body(register, "step", defaultSpec))
	h.open("step")
	h.open("step")
	var waiting []<-chan worked
	for range 3 {
		waiting = append(waiting, h.takeMany(h.open("step"), 10))
	}
	txn := engine.NewTxn(engine.NewRouter(h.all[1]), "n", 1<<20)
	for range 8 {
		v := protocol.Invoke{Name: "step", Priority: 100}
		txn.Do(command(kindInvoke, "", encode(nil, &v, (*protocol.Invoke).Code)))
	}
	n := h.entries(func() {
		if _, err := txn.Commit(h.ctx); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{3, 3, 2} {
			if res := <-waiting[i]; len(res.taken) != want {
				t.Errorf("take %d of 3 got %d of 8 runs, want %d", i+1, len(res.taken), want)
			}
		}
	})
	if n != 1 {
		t.Errorf("8 runs for 3 takes are %d entries", n)
	}
}

// TestTakeBehindDue: a take that finds an attempt overdue takes what follows from that attempt's
// end. If a caller is notified of the end, the take used to have no result yet, and stopped the
// node.
func TestTakeBehindDue(t *testing.T) {
	w := &world{t: t, r: machinetest.New(t, 1, table(), callerTable(1000)), of: make(map[protocol.Ref]uint64)}
	w.register("step", defaultSpec)
	s := w.open(group{"", []string{"step"}})
	if _, err := w.r.Propose(t.Context(), 0, engine.Command{Machine: engine.MachineTest, Kind: callerStart, Namespace: "n",
		Body: []byte{2}}); err != nil {
		t.Fatal(err)
	}
	take := func() []taken {
		t.Helper()
		res, err := w.work(workBody{session: s, wants: []want{{0, "w", 1}}})
		if err != nil {
			t.Fatal(err)
		}
		return res.taken
	}
	first := take()
	w.r.Pass(1000)
	if again := take(); len(first) != 1 || len(again) != 0 {
		t.Fatalf("%+v, then %+v", first, again)
	}
	w.r.Pass(5000)
	if second := take(); len(second) != 1 || second[0].attempt != 2 {
		t.Fatalf("%+v", second)
	}
	w.r.Pass(1000)
	if next := take(); len(next) != 1 || next[0].attempt != 1 || next[0].ref.Run == first[0].ref.Run {
		t.Errorf("%+v", next)
	}
}
