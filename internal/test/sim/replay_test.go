package sim

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestReplay runs seeds twice here and once in another process. Every step must be the same;
// otherwise a failing seed could not be reproduced.
func TestReplay(t *testing.T) {
	seeds, commands := uint64(1), 400
	if testing.Short() {
		seeds, commands = 1, 100
	}
	if *seedsFlag != 0 {
		seeds = uint64(*seedsFlag)
	}
	for _, u := range []suite{oneNode, cluster, five} {
		u.commands = commands
		for seed := uint64(1); seed <= seeds; seed++ {
			first, second := u.simulate(t, seed), u.simulate(t, seed)
			if first.err != nil {
				t.Fatalf("%s: seed %d: %v", u.test, seed, first.err)
			}
			if first.hash != second.hash || first.steps != second.steps {
				t.Errorf("%s: seed %d took %d steps with hash %x, and then %d with %x", u.test, seed, first.steps, first.hash, second.steps,
					second.hash)
			}
			if seed <= 2 {
				u.elsewhere(t, seed, first)
			}
		}
	}
}

// elsewhere runs the seed in a process of its own.
func (u suite) elsewhere(t *testing.T, seed uint64, want report) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "-test.v", "-test.run=^"+u.test+"$", fmt.Sprintf("-seed=%d", seed),
		fmt.Sprintf("-commands=%d", u.commands)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), want.signature()) {
		t.Errorf("%s: seed %d: want %s, another process says %v:\n%s", u.test, seed, want.signature(), err, out)
	}
}

// signature distinguishes runs.
func (r report) signature() string { return fmt.Sprintf("%d steps with hash %016x", r.steps, r.hash) }
