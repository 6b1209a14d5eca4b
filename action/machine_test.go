package action

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// world drives a machine with commands, without a store.
type world struct {
	t    testing.TB
	rng  *rand.Rand
	r    *machinetest.Rig
	held []taken
	of   map[protocol.Ref]uint64 // session
	live []uint64
	all  []protocol.Ref

	together bool // runs are created and taken in one entry
}

func newWorld(t testing.TB, rng *rand.Rand) *world {
	return &world{t: t, rng: rng, r: machinetest.New(t, 1, table()), of: make(map[protocol.Ref]uint64)}
}

func (w *world) do(kind uint8, body []byte) ([]byte, error) {
	return w.r.Propose(context.Background(), 0, engine.Command{Machine: engine.MachineAction, Kind: kind, Namespace: "n", Body: body})
}

func (w *world) name() string { return string(rune('a' + w.rng.IntN(3))) }

func (w *world) register(name string, s spec) {
	if _, err := w.do(kindRegister, body(register, name, s)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) invoke(v protocol.Invoke) (invoked, error) {
	b, err := w.do(kindInvoke, encode(nil, &v, (*protocol.Invoke).Code))
	if err != nil {
		return invoked{}, err
	}
	res, err := decode(b, (*invoked).code)
	if err == nil && !res.duplicate {
		w.all = append(w.all, res.Ref)
	}
	return res, err
}

func (w *world) open(groups ...group) uint64 {
	b, err := w.do(kindOpen, body(openSession, "", openBody{process: "p", groups: groups}))
	if err != nil {
		w.t.Fatal(err)
	}
	r := codec.NewReader(b)
	w.live = append(w.live, r.Uvarint())
	return w.live[len(w.live)-1]
}

func (w *world) work(c workBody) (worked, error) {
	b, err := w.do(kindWork, body(takeRuns, "", c))
	if err != nil || len(b) == 0 {
		return worked{}, err
	}
	return takeRuns.Decode(b)
}

func labels(m map[string]string) string { return string(engine.AppendHeaders(nil, m)) }

// TestRandom runs random operations and repeatedly verifies all rows: no run is ever without an
// owner, a time or an end.
func TestRandom(t *testing.T) {
	runs := 20
	if testing.Short() {
		runs = 5
	}
	for range runs {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, rand.New(rand.NewPCG(seed, 1)))
			for i := range 600 {
				w.step()
				if i%20 == 0 {
					w.r.Verify()
				}
			}
			machinetest.EqualReplicas(t, w.r.Log(0), []engine.Primitive{table()}, machinetest.Replica{}, machinetest.Replica{})
		})
	}
}

func (w *world) step() {
	rng := w.rng
	switch n := rng.IntN(100); {
	case n < 8 || len(w.live) == 0:
		s := defaultSpec
		s.maxRunning, s.maxPerKey = int64(rng.IntN(4)), int64(rng.IntN(3))
		s.retainRuns = int64(rng.IntN(20))
		s.timeout = 1 + int64(rng.IntN(20_000))
		if s.maxRetries = int64(rng.IntN(3)); rng.IntN(3) == 0 {
			s.rate = rate{1 + int64(rng.IntN(3)), 1000, 1 + int64(rng.IntN(3))}
		}
		if s.backoffMin = int64(rng.IntN(2)) * 1000; s.backoffMin == 0 {
			s.backoffMax = 0
		}
		w.register(w.name(), s)
		w.open(group{labels(map[string]string{"gpu": "a"}), []string{"a", "b"}}, group{"", []string{w.name(), "c"}})
	case n < 45:
		v := protocol.Invoke{Name: w.name(), Input: []byte(`{"n":1}`), Priority: uint8(rng.IntN(3))}
		if rng.IntN(3) == 0 {
			v.Delay = int64(rng.IntN(3000))
		}
		if rng.IntN(2) == 0 {
			v.ConcurrencyKey = w.name()
		}
		if rng.IntN(4) == 0 {
			v.Labels = []byte(labels(map[string]string{"gpu": w.name()}))
		}
		if rng.IntN(6) == 0 {
			v.IdempotencyKey = w.name()
		}
		if v.Awaited = rng.IntN(4) == 0; rng.IntN(4) == 0 {
			v.Expires = 1 + int64(rng.IntN(5000))
		}
		_, err := w.invoke(v)
		w.definite(err)
	case n < 75:
		w.turn()
	case n < 80 && len(w.all) > 0:
		_, err := w.do(kindCancel, encode(nil, &protocol.Cancel{Ref: w.all[rng.IntN(len(w.all))]}, (*protocol.Cancel).Code))
		w.definite(err)
	case n < 81 && len(w.all) > 0:
		kind := uint8(kindRetry)
		if rng.IntN(2) == 0 {
			kind = kindRunNow
		}
		_, err := w.do(kind, body(retryRun, "", w.all[rng.IntN(len(w.all))]))
		w.definite(err)
	case n < 82 && len(w.held) > 0:
		h := w.held[rng.IntN(len(w.held))]
		_, err := w.do(kindTouch, body(touchRun, "",
			touchBody{session: w.of[h.ref], ref: h.ref, attempt: h.attempt, extend: 1 + int64(rng.IntN(50_000))}))
		w.definite(err)
	case n < 84:
		kind := uint8(kindClose)
		_, err := w.do(kind, body(closeSession, "", sessionBody{session: w.live[rng.IntN(len(w.live))]}))
		w.definite(err)
	case n < 86:
		_, err := w.do(kindDelete, body(remove, w.name(), rng.IntN(2) == 0))
		w.definite(err)
	default:
		ms := int64(rng.IntN(2000))
		if rng.IntN(20) == 0 {
			ms = 40_000
		}
		if rng.IntN(100) == 0 {
			ms = 25 * 3600_000
		}
		w.r.Pass(ms)
		w.r.Fire()
	}
}

// definite fails the test for an error that is not a refusal.
func (w *world) definite(err error) {
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrInvalid) {
		w.t.Fatal(err)
	}
}

// turn has a session end some of its runs, and take others.
func (w *world) turn() {
	c := workBody{}
	if w.rng.IntN(5) == 0 {
		c.self, c.group = w.name(), group{"", []string{"a", "b", "c"}}
		c.wants, c.listed = []want{{0, c.self, 1 + w.rng.IntN(2)}}, w.rng.IntN(4) > 0
	} else {
		c.session = w.live[w.rng.IntN(len(w.live))]
		if w.rng.IntN(3) > 0 {
			c.wants = []want{{w.rng.IntN(2), "w1", 1 + w.rng.IntN(5)}, {0, "w2", 1}}
		}
	}
	for i := 0; i < len(w.held) && len(c.ends) < maxEnds; i++ {
		if h := w.held[i]; w.of[h.ref] == c.session && w.rng.IntN(2) == 0 {
			e := end{ref: h.ref, attempt: h.attempt, how: how(1 + w.rng.IntN(5)), delay: int64(w.rng.IntN(3))*500 - 500,
				output: []byte("1")}
			if e.how == snoozed {
				e.delay = max(e.delay, 0)
			}
			c.ends = append(c.ends, e)
			w.held = append(w.held[:i], w.held[i+1:]...)
			i--
		}
	}
	if len(c.ends)+len(c.wants) == 0 {
		return
	}
	res, err := w.work(c)
	w.definite(err)
	for _, t := range res.taken {
		w.held = append(w.held, t)
		w.of[t.ref] = c.session
	}
}

// TestRetainedRuns: a large number of retained runs may be exceeded by one in a hundred, a small
// one not at all. The oldest runs go, and leave no timer behind.
func TestRetainedRuns(t *testing.T) {
	for _, c := range []struct{ retained, most int }{{3, 3}, {99, 99}, {200, 202}} {
		w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
		s := defaultSpec
		s.retainRuns = int64(c.retained)
		w.register("a", s)
		session := w.open(group{"", []string{"a"}})
		least, most := c.retained, 0
		for i := range 2*c.retained + 10 {
			if _, err := w.invoke(protocol.Invoke{Name: "a", MaxAttempts: 1}); err != nil {
				t.Fatal(err)
			}
			res, err := w.work(workBody{session: session, wants: []want{{0, "w", 1}}})
			if err != nil || len(res.taken) != 1 {
				t.Fatalf("took %d runs: %v", len(res.taken), err)
			}
			if _, err := w.work(workBody{session: session,
				ends: []end{{ref: res.taken[0].ref, attempt: res.taken[0].attempt, how: completed}}}); err != nil {
				t.Fatal(err)
			}
			w.r.Pass(1)
			if q := (runsQuery{namespace: "n", name: "a", before: math.MaxUint64, limit: 1000, maxBytes: 1 << 20}); i >= c.retained {
				if err := w.r.Query(context.Background(), 0, &q); err != nil {
					t.Fatal(err)
				}
				if least, most = min(least, len(q.items)), max(most, len(q.items)); !slices.ContainsFunc(q.items,
					func(r Run) bool { return r.ID == (runLocation{0, res.taken[0].ref}).id() }) {
					t.Fatalf("run %d is not kept, which ended last", i)
				}
			}
		}
		if least != c.retained || most != c.most {
			t.Errorf("%d to %d runs were kept, want %d to %d", least, most, c.retained, c.most)
		}
		w.r.Verify()
	}
}
