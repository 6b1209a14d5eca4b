package action

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

var behindFlag = flag.Int("behind", 3000, "how many runs wait behind a key in TestTakesBesideFullKeys")

// TestTakesBesideFullKeys: a key has as many running runs as allowed, and many more wait behind it.
// The rows that a take reads do not depend on their number. That holds if it takes a run of another
// key, none, or the next one of the key. It also holds for the check whether there is anything to
// take.
//
//	go test -run '^TestTakesBesideFullKeys$' -behind 1000000 ./action
func TestTakesBesideFullKeys(t *testing.T) {
	few, many := takesBeside(t, 30), takesBeside(t, *behindFlag)
	for what, want := range few {
		got := many[what]
		t.Logf("%s: %d rows are looked at with %d iterators in %d steps, and %d written", what, got.Looks, got.Iters, got.Steps, got.Rows)
		if got.Looks > want.Looks || got.Iters > want.Iters || got.Rows > want.Rows || got.Steps > want.Steps+8 {
			t.Errorf("%s behind %d runs: %+v\nand behind 30: %+v", what, *behindFlag, got, want)
		}
	}
}

// takesBeside returns the maximum cost of each kind of take, with the given number of runs behind a
// key.
func takesBeside(t *testing.T, behind int) map[string]engine.Cost {
	w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
	s := defaultSpec
	s.maxPerKey, s.timeout = 1, maxMillis
	w.register("a", s)
	session := w.open(group{"", []string{"a"}})
	invoke := func(key string, n int) {
		t.Helper()
		v := protocol.Invoke{Name: "a", ConcurrencyKey: key}
		cmd := engine.Command{Machine: engine.MachineAction, Kind: kindInvoke, Namespace: "n",
			Body: encode(nil, &v, (*protocol.Invoke).Code)}
		for ; n > 0; n -= 500 {
			for _, out := range w.r.Entry(0, slices.Repeat([]engine.Command{cmd}, min(n, 500))...) {
				if out.Err != nil {
					t.Fatal(out.Err)
				}
			}
		}
	}
	invoke("full", behind+1)
	if err := w.r.DB().Flush(); err != nil {
		t.Fatal(err)
	}
	took := make(map[string]engine.Cost)
	take := func(what string, ends []end, n int) (got []taken) {
		t.Helper()
		x, c := w.r.Executor(0), workBody{session: session, ends: ends, wants: []want{{0, "w", 10}}}
		x.ForgetEfforts()
		before := x.Scanned()
		cmd := engine.Command{Machine: engine.MachineAction, Kind: kindWork, Namespace: "n", Body: body(takeRuns, "", c)}
		b, err := w.r.Take(t.Context(), 0, engine.Take{Command: cmd})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		looked := int(x.Scanned() - before)
		if n == 0 { // not proposed
			w.r.Entry(0, cmd)
		}
		if len(b) > 0 {
			got = must(takeRuns.Decode(b)).taken
		}
		if len(got) != n {
			t.Fatalf("%s: %d runs are taken, want %d", what, len(got), n)
		}
		for _, e := range x.Efforts() {
			if e.Command == "action work" {
				m := took[what]
				took[what] = engine.Cost{
					Rows: max(m.Rows, e.Rows), Looks: max(m.Looks, e.Looks+looked), Iters: max(m.Iters, e.Iters), Steps: max(m.Steps,
						e.Steps),
				}
			}
		}
		if _, ok := took[what]; !ok {
			t.Fatalf("%s: nothing was counted: %v", what, x.Efforts())
		}
		return got
	}
	first := take("the first", nil, 1)
	for i := range 5 {
		take("nothing", nil, 0)
		invoke(fmt.Sprint("other", i), 1)
		take("another key", nil, 1)
		invoke("", 1)
		take("no key", nil, 1)
		first = take("the next of the key", []end{{ref: first[0].ref, attempt: first[0].attempt, how: completed}}, 1)
	}
	return took
}
