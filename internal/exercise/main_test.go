// Package exercise holds the tests that use floe as its users do: whole nodes, real disks, killed processes, clusters.
package exercise

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"go.uber.org/goleak"
)

var seedFlag = flag.Uint64("seed", 0, "seed of randomised tests; 0 chooses one")

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		runChild(text)
		os.Exit(0)
	}
	if text := os.Getenv(memberEnv); text != "" {
		if err := runMember(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// seed returns the seed of a randomised test and prints how to repeat it.
func seed(t *testing.T) uint64 {
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("repeat with: go test ./internal/exercise -run '^%s$' -seed %d", t.Name(), s)
	return s
}
