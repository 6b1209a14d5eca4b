//go:build plant

package plant

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Planted says which test of a package has to find a bug.
type Planted = struct {
	Bug Bug
	By  string
}

// bugEnv names the bug in a process that runs one test with it.
const bugEnv = "FLOE_PLANT"

func init() { Set(Bug(os.Getenv(bugEnv))) }

// Run switches on one bug after the other, each in a process of its own. Its test has to fail, and does not without the bug.
func Run(t *testing.T, all []Planted) {
	for _, p := range all {
		t.Run(string(p.Bug), func(t *testing.T) {
			for _, bug := range []Bug{p.Bug, ""} {
				cmd := exec.Command(os.Args[0], "-test.run", "^"+p.By+"$", "-test.timeout", "2m", "-test.failfast")
				cmd.Env = append(os.Environ(), bugEnv+"="+string(bug))
				out, err := cmd.CombinedOutput()
				if found := err != nil && strings.Contains(string(out), p.By); found != (bug != "") {
					t.Errorf("%s with the bug %q: %v\n%.2000s", p.By, bug, err, out)
				}
			}
		})
	}
}
