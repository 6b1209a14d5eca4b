//go:build plant

package plant

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Planted names the test of a package that must find a bug.
type Planted = struct {
	Bug Bug
	By  string
}

// bugEnv names the bug in a process that runs one test with it.
const bugEnv = "FLOE_PLANT"

func init() { Set(Bug(os.Getenv(bugEnv))) }

// Run enables one bug after the other, each in a process of its own. Its test must fail, and must
// not fail without the bug. The latter is checked once per test, however many bugs the test has to
// find.
func Run(t *testing.T, all []Planted) {
	if overlay == "" {
		t.Fatal("the bugs are not in this program: run go run ./internal/test/plant/overlay, and go test with -overlay .plant/overlay.json")
	}
	times := make(map[string]time.Duration)
	for _, p := range all {
		t.Run(string(p.Bug), func(t *testing.T) {
			if times[p.By] == 0 {
				began := time.Now()
				if out, found := finds(p.By, "", 2*time.Minute); found {
					t.Fatalf("%s fails without a bug\n%.2000s", p.By, out)
				}
				times[p.By] = time.Since(began)
			}
			// With a bug a test may also loop forever.
			if out, found := finds(p.By, p.Bug, max(5*time.Second, 10*times[p.By])); !found {
				t.Errorf("%s does not find it\n%.2000s", p.By, out)
			}
		})
	}
}

// finds reports whether a test fails with a bug, or does not end in time.
func finds(test string, bug Bug, timeout time.Duration) (output string, found bool) {
	cmd := exec.Command(os.Args[0], "-test.run", "^"+test+"$", "-test.timeout", timeout.String(), "-test.failfast")
	cmd.Env = append(os.Environ(), bugEnv+"="+string(bug))
	out, err := cmd.CombinedOutput()
	return string(out), err != nil && strings.Contains(string(out), test)
}
