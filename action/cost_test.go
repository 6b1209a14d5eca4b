package action

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

var costsFlag = flag.Int("costs", 2000, "beside how many of each TestCosts looks at a run")

// TestCosts: the cost of a run, from its invocation to its end, does not grow with other data:
// names, label sets, keys, waiting and forgotten runs. It is measured repeatedly, each time with
// twice as many of them.
//
//	go test -run '^TestCosts$' -costs 100000 ./action
func TestCosts(t *testing.T) {
	const runs = 64
	set := func(i int) []byte { return []byte(labels(map[string]string{"n": fmt.Sprint(i)})) }
	for _, c := range []struct {
		name   string
		least  int
		most   int
		before func(w *world, n int)
		invoke func(i, n int) protocol.Invoke // run i beside n other items
	}{
		{"keys at once", 250, *costsFlag, func(w *world, n int) {
			for i := range n {
				w.mustInvoke(protocol.Invoke{ConcurrencyKey: fmt.Sprint(i), Priority: 100})
			}
		}, func(i, n int) protocol.Invoke { return protocol.Invoke{ConcurrencyKey: fmt.Sprint("other", i)} }},
		{"keys one after the other", 250, *costsFlag, func(w *world, n int) {
			for i := range n {
				w.carryOut(protocol.Invoke{ConcurrencyKey: fmt.Sprint(i)})
			}
		}, func(i, n int) protocol.Invoke { return protocol.Invoke{ConcurrencyKey: fmt.Sprint("other", i)} }},
		{"keys one after the other, in one entry", 250, *costsFlag, func(w *world, n int) {
			for i := range n {
				w.carryOut(protocol.Invoke{ConcurrencyKey: fmt.Sprint(i)})
			}
			w.together = true
		}, func(i, n int) protocol.Invoke { return protocol.Invoke{ConcurrencyKey: fmt.Sprint("other", i)} }},
		{"waiting", 250, *costsFlag, func(w *world, n int) {
			for range n {
				w.mustInvoke(protocol.Invoke{Priority: 100})
			}
		}, func(i, n int) protocol.Invoke { return protocol.Invoke{Priority: uint8(10 + i%2)} }},
		{"delayed", 250, *costsFlag, func(w *world, n int) {
			for i := range n {
				w.mustInvoke(protocol.Invoke{Delay: 1_000_000 + int64(i)})
			}
		}, func(int, int) protocol.Invoke { return protocol.Invoke{} }},
		{"forgotten", 250, *costsFlag, func(w *world, n int) {
			for i := range n {
				w.carryOut(protocol.Invoke{IdempotencyKey: fmt.Sprint("before", i)})
			}
		}, func(i, n int) protocol.Invoke { return protocol.Invoke{IdempotencyKey: fmt.Sprint(i)} }},
		{"sets of labels", 15, 60, func(w *world, n int) {
			for i := range n {
				w.mustInvoke(protocol.Invoke{Labels: set(i), ConcurrencyKey: fmt.Sprint(i)})
			}
		}, func(i, n int) protocol.Invoke { return protocol.Invoke{ConcurrencyKey: fmt.Sprint(i)} }},
		{"sets one after the other", 250, *costsFlag, func(w *world, n int) {
			for i := range n {
				ref := w.mustInvoke(protocol.Invoke{Labels: set(i)})
				if _, err := w.do(kindCancel, encode(nil, &protocol.Cancel{Ref: ref}, (*protocol.Cancel).Code)); err != nil {
					w.t.Fatal(err)
				}
				w.r.Pass(1)
			}
		}, func(i, n int) protocol.Invoke { return protocol.Invoke{Labels: set(-1 - i)} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			least := 0
			for n := c.least; n <= c.most; n *= 2 {
				s := defaultSpec
				s.retainRuns, s.maxPerKey, s.maxRetries = 20, 1000, 0
				w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
				w.register("a", s)
				c.before(w, n)
				before := w.cost()
				for i := range runs {
					w.carryOut(c.invoke(i, n))
				}
				cost := (w.cost() - before) / runs
				if least == 0 {
					least = cost
				}
				t.Logf("%d: a run looks at %d rows and positions", n, cost)
				if cost > least+least/2 {
					t.Errorf("beside %d a run takes %d looks, seeks, steps and moves, beside %d %d", n, cost, c.least, least)
				}
			}
		})
	}
}

// TestCostOfNames: a take pays for the names of its worker once, not per run that it takes, and not
// per worker of the process.
func TestCostOfNames(t *testing.T) {
	for _, workers := range []int{1, 50} {
		least := 0
		for n := 125; n <= 1000; n *= 2 {
			w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
			g := group{}
			for i := range n {
				name := fmt.Sprint(i)
				w.register(name, defaultSpec)
				g.names = append(g.names, name)
				if _, err := w.invoke(protocol.Invoke{Name: name}); err != nil {
					t.Fatal(err)
				}
			}
			c := workBody{session: w.open(g)}
			for i := range workers {
				c.wants = append(c.wants, want{0, fmt.Sprint(i), 50 / workers})
			}
			before := w.cost()
			got, err := w.work(c)
			if err != nil || len(got.taken) != 50 {
				t.Fatalf("%d runs are taken: %v", len(got.taken), err)
			}
			cost := w.cost() - before
			if least == 0 {
				least = cost
			}
			if cost > least*n/125*3/2 {
				t.Errorf("%d workers of %d names: the take looks at %d rows and positions, of 125 at %d", workers, n, cost, least)
			}
		}
	}
}

// cost returns the total reads of all commands so far.
func (w *world) cost() (n int) {
	for _, e := range w.r.Efforts() {
		if e.Command == "entry" || e.Command == "commit" {
			continue
		}
		n += e.Sum.Looks + e.Sum.Iters + e.Sum.Steps + e.Sum.Moves
	}
	return n
}

// carryOut creates, takes and ends a run, with a worker that has its labels.
func (w *world) carryOut(v protocol.Invoke) {
	w.t.Helper()
	w.r.Pass(1)
	self := "w"
	take := workBody{self: self, group: group{string(v.Labels), []string{"a"}}, wants: []want{{0, self, 1}}, listed: true}
	var got worked
	var err error
	if w.together {
		v.Name = "a"
		out := w.r.Entry(0,
			engine.Command{Machine: engine.MachineAction, Kind: kindInvoke, Namespace: "n", Body: encode(nil, &v, (*protocol.Invoke).Code)},
			engine.Command{Machine: engine.MachineAction, Kind: kindWork, Namespace: "n", Body: body(takeRuns, "", take)})
		got, err = takeRuns.Decode(out[1].Result)
	} else {
		w.mustInvoke(v)
		got, err = w.work(take)
	}
	if err != nil || len(got.taken) != 1 || got.taken[0].key != v.ConcurrencyKey || got.taken[0].priority != v.Priority {
		w.t.Fatalf("the run is not taken: %+v, %v", got.taken, err)
	}
	ref := got.taken[0].ref
	if _, err := w.work(workBody{self: self, ends: []end{{ref: ref, attempt: got.taken[0].attempt, how: completed}}}); err != nil {
		w.t.Fatal(err)
	}
}

// TestBytesOfSets: the bytes written by an invocation, its take and its end do not depend on the
// label sets and priorities of the action's other runs. All of them used to be in the action's row,
// which each command writes.
func TestBytesOfSets(t *testing.T) {
	const runs = 64
	set := func(i int) []byte {
		if i == 0 {
			return nil
		}
		return []byte(labels(map[string]string{"zone": fmt.Sprint(strings.Repeat("z", 200), i)}))
	}
	written := func(sets, priorities int) int {
		w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
		w.register("a", defaultSpec)
		for i := range sets {
			for p := range priorities {
				for _, key := range []string{"", fmt.Sprint("k", p)} {
					w.mustInvoke(protocol.Invoke{Labels: set(i), Priority: uint8(200 - p), ConcurrencyKey: key})
				}
			}
		}
		bytes := func() (n int) {
			for _, e := range w.r.Efforts() {
				if e.Command != "entry" && e.Command != "commit" {
					n += e.Sum.Bytes
				}
			}
			return n
		}
		before := bytes()
		for i := range runs {
			w.carryOut(protocol.Invoke{Labels: set(i % min(2, sets)), Priority: 10})
		}
		return (bytes() - before) / runs
	}
	least := written(2, 1)
	for _, c := range []struct{ sets, priorities int }{{4, 1}, {16, 1}, {64, 1}, {2, 4}, {64, 4}} {
		got := written(c.sets, c.priorities)
		t.Logf("%d sets, %d priorities: a run writes %d bytes", c.sets, c.priorities, got)
		if got > least+least/2 {
			t.Errorf("beside runs of %d sets and %d priorities a run writes %d bytes, beside 2 and 1 %d", c.sets, c.priorities, got, least)
		}
	}
}
