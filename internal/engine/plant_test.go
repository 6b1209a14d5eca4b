//go:build plant

package engine_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/plant"
)

// planted says which test of the engine has to find a bug that no simulation would, because it takes megabytes or a time.
var planted = []struct {
	bug plant.Bug
	by  string
}{
	{plant.EndlessEntry, "TestEntryIsBounded"},
	{plant.EndlessFire, "TestFireEndsEarly"},
	{plant.UncountedParts, "TestTransactionIsBoundedAsAWhole"},
	{plant.LaneBlocks, "TestATemporaryRefusalBlocksItsLaneOnly"},
}

// bugEnv names the bug in a process that runs one test with it.
const bugEnv = "FLOE_PLANT"

func init() { plant.Set(plant.Bug(os.Getenv(bugEnv))) }

// TestPlanted switches on one bug after the other, each in a process of its own. Its test has to fail, and does not without the bug.
func TestPlanted(t *testing.T) {
	for _, p := range planted {
		t.Run(string(p.bug), func(t *testing.T) {
			for _, bug := range []plant.Bug{p.bug, ""} {
				cmd := exec.Command(os.Args[0], "-test.run", "^"+p.by+"$", "-test.timeout", "2m")
				cmd.Env = append(os.Environ(), bugEnv+"="+string(bug))
				out, err := cmd.CombinedOutput()
				if found := err != nil && strings.Contains(string(out), p.by); found != (bug != "") {
					t.Errorf("%s with the bug %q: %v\n%.2000s", p.by, bug, err, out)
				}
			}
		})
	}
}
