package machinetest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/quota"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")
	runsFlag = flag.Int("runs", 0, "how many runs each model has; 0: its default")
)

// GivenSeed returns the seed set by the flag for random tests, or 0.
func GivenSeed() uint64 { return *seedFlag }

// Seed returns the seed of a test, and logs it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -run '^%s$' -seed %d", t.Name(), seed)
	return seed
}

// Ground is where a model runs its operations: shards with a clock that only the model advances.
type Ground interface {
	engine.Door
	Router() *engine.Router
	Now() int64        // ms
	Pass(millis int64) // advances the time, and does nothing else
	Fire() (fired int) // fires all timers that are due
	Restart()          // closes and reopens, or crashes
	Verify()           // reports errors in the state
}

var _, _ Ground = (*Rig)(nil), (*Stepped)(nil)

// Model is the reference implementation of a primitive, as maps and slices.
type Model interface {
	// Step does a random operation, on the primitive and on the model, and compares the outcomes.
	Step()
	// Compare compares everything that can be queried.
	Compare()
}

// Models defines how the model of a primitive is run.
type Models struct {
	Primitives []engine.Primitive
	Forgetful  []engine.Primitive // the same, with machines that cache almost nothing; nil: none
	CacheBytes int64              // of a Rig

	Runs, Steps           int // by default
	ShortRuns, ShortSteps int // in a short test
	MaxShards             int

	// Begin returns a model of namespace "n", which exists if it is spread.
	Begin func(t *testing.T, rng *rand.Rand, g Ground, spread bool) Model
	// Others run elsewhere, perhaps on a real disk. There are few of them, so that they may be
	// slow.
	Others []OtherModel
}

// OtherModel is a model that creates its own ground.
type OtherModel struct {
	Name  string
	Begin func(t *testing.T, rng *rand.Rand, shards int, spread bool) Model
}

// maxOthers is the number of runs elsewhere.
const maxOthers = 12

// Run executes the runs of a test. Grounds take turns, with random configurations.
func (ms Models) Run(t *testing.T) {
	seed := Seed(t)
	runs, steps := ms.Runs, ms.Steps
	if testing.Short() {
		runs, steps = ms.ShortRuns, ms.ShortSteps
	}
	if *runsFlag > 0 {
		runs = *runsFlag
	}
	var total tally
	q := quota.New(t, runs)
	for q.More() {
		i := q.Rounds() - 1
		config := rand.New(rand.NewPCG(seed+uint64(i), 1))
		shards, spread := 1+config.IntN(ms.MaxShards), config.IntN(2) == 0
		name, begin := ms.turn(i, &total)
		ok := t.Run(fmt.Sprintf("%d/on=%s/shards=%d/spread=%v", i, name, shards, spread), func(t *testing.T) {
			m := begin(t, config, rand.New(rand.NewPCG(seed+uint64(i), 0)), shards, spread)
			for n := 0; n < steps && !t.Failed(); n++ {
				m.Step()
			}
			if !t.Failed() {
				m.Compare()
			}
		})
		if !ok {
			t.Fatalf("repeat it with -run '^%s$/^%d$' -seed %d", t.Name(), i, seed)
		}
	}
	t.Logf("%d runs of %d steps: nodes restarted %d times, %d of them in crashes; %d nodes async", q.Rounds(), steps, total.restarts,
		total.crashes, total.async)
	// Frequencies are random; only many rounds are sure to have their share.
	n := q.Rounds()
	few := total.restarts == 0 || n >= 20 && (total.restarts < n || total.crashes < n/3 || total.async == 0)
	if few && !testing.Short() && !t.Failed() {
		t.Error("too few restarts or crashes: the test has not tested what it should")
	}
}

// tally counts the events of all runs.
type tally struct{ others, restarts, crashes, async int }

type beginning func(t *testing.T, config, rng *rand.Rand, shards int, spread bool) Model

// turn chooses the ground of a run.
func (ms Models) turn(i int, total *tally) (name string, begin beginning) {
	if n := len(ms.Others); n > 0 && i%3 == 0 && total.others < maxOthers {
		o := ms.Others[total.others%n]
		total.others++
		return o.Name, func(t *testing.T, _, rng *rand.Rand, shards int, spread bool) Model {
			return o.Begin(t, rng, shards, spread)
		}
	}
	switch {
	case i%3 == 1:
		return "rig", ms.onRig(ms.Primitives)
	case i%6 == 2 && ms.Forgetful != nil:
		return "forgetful", ms.onRig(ms.Forgetful)
	}
	return "steps", func(t *testing.T, config, rng *rand.Rand, shards int, spread bool) Model {
		d := NewStepped(t, config, shards, ms.Primitives...)
		t.Cleanup(func() {
			total.restarts += d.Restarts()
			total.crashes += d.Crashes()
			if d.Async() {
				total.async++
			}
		})
		return ms.begin(t, rng, d, spread)
	}
}

func (ms Models) onRig(primitives []engine.Primitive) beginning {
	return func(t *testing.T, _, rng *rand.Rand, shards int, spread bool) Model {
		return ms.begin(t, rng, Open(t, Config{Shards: shards, Primitives: primitives, CacheBytes: ms.CacheBytes}), spread)
	}
}

func (ms Models) begin(t *testing.T, rng *rand.Rand, g Ground, spread bool) Model {
	if spread {
		if err := engine.NewNamespaces(g.Router()).Create(t.Context(), "n", true); err != nil {
			t.Fatal(err)
		}
	}
	return ms.Begin(t, rng, g, spread)
}
