package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"

	"github.com/floedb/floe/internal/test/quota"
)

var (
	seedFlag     = flag.Uint64("seed", 0, "run this seed alone; 0 runs many, from a random one on")
	seedsFlag    = flag.Int("seeds", 0, "how many seeds each suite runs, some of them several for each of it; 0: its default")
	commandsFlag = flag.Int("commands", 0, "commands of a seed before everything heals; 0: the suite's default")
	traceFlag    = flag.Bool("trace", false, "print the last steps of a seed that passes, too")
)

// suite is a kind of run.
type suite struct {
	test     string // its name
	seeds    int    // number run by go test; the Makefile sets how many a change has to pass
	short    int    // number with -short, which has a quarter of the commands
	commands int
	nodes    int
}

var (
	oneNode = suite{"TestNode", 12, 10, 500, 1}
	cluster = suite{"TestCluster", 3, 3, 2000, 3}
	five    = suite{"TestFive", 1, 1, 2000, 5}
)

// TestNode runs a single node: crashes of all kinds, with either durability.
func TestNode(t *testing.T) { oneNode.run(t) }

// TestCluster runs three nodes.
func TestCluster(t *testing.T) { cluster.run(t) }

// TestFive runs five nodes; two may be down at a time.
func TestFive(t *testing.T) { five.run(t) }

// run runs the seeds that once failed, and then new ones.
func (u suite) run(t *testing.T) {
	if testing.Short() {
		u.seeds, u.commands = u.short, u.commands/4
	}
	if *commandsFlag != 0 {
		u.commands = *commandsFlag
	}
	if *seedFlag != 0 {
		r := u.seed(t, *seedFlag)
		t.Logf("%v\n%v\n%s", r.plan, r.counts, r.signature())
		return
	}
	for _, s := range u.kept(t) {
		u.seed(t, s)
	}
	want := u.seeds
	if *seedsFlag != 0 {
		want = *seedsFlag
	}
	first, q, counts := rand.Uint64()>>20+1, quota.New(t, want), make(map[string]int)
	for q.More() {
		for what, times := range u.seed(t, first+uint64(q.Rounds())-1).counts {
			counts[what] += times
		}
	}
	t.Logf("seeds %d to %d: %d\n%v", first, first+uint64(q.Rounds())-1, q.Rounds(), counts)
}

// seed runs a seed and prints how to repeat it if it fails.
func (u suite) seed(t *testing.T, seed uint64) report {
	r := u.simulate(t, seed)
	if r.err == nil {
		if *traceFlag {
			t.Logf("%v\n%v\n%s", r.plan, r.counts, r.tail)
		}
		return r
	}
	path := filepath.Join(t.ArtifactDir(), fmt.Sprintf("%s-%d.txt", u.test, seed))
	if err := os.WriteFile(path, []byte(fmt.Sprintf("%v\n%v\n%v\n%s", r.plan, r.counts, r.err, r.tail)), 0o600); err != nil {
		t.Error(err)
	}
	t.Errorf("seed %d%s\n%v\n%v\n%v\nthe last of %d steps are in %s\nrepeat with: go test ./internal/test/sim -run '^%s$' -seed %d "+
		"-commands %d",
		seed, commit(), r.plan, r.counts, r.err, r.steps, path, u.test, seed, u.commands)
	return r
}

// commit returns the commit of the program, if known.
func commit() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return " at commit " + s.Value
		}
	}
	return ""
}

// simulate runs a seed.
func (u suite) simulate(t *testing.T, seed uint64) report {
	cryptotest.SetGlobalRandom(t, seed)
	rng := rand.New(rand.NewPCG(seed, 99))
	rng.Uint64() // kept seeds date from a time when this draw chose the number of nodes
	return run(newPlan(rng, u.nodes, u.commands), rng)
}

// kept returns the seeds in testdata/seeds: each has failed once.
func (u suite) kept(t *testing.T) (seeds []uint64) {
	path := filepath.Join("testdata", "seeds", u.test)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		number, _, _ := strings.Cut(line, "#")
		if number = strings.TrimSpace(number); number == "" {
			continue
		}
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatalf("%s:%d: %v", path, i+1, err)
		}
		seeds = append(seeds, seed)
	}
	return seeds
}
