package e2e

import (
	"flag"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/test/workload"
)

var pipeKillsFlag = flag.Int("pipe-kills", 3, "how many processes TestPipes kills, of a cluster and of a node alone each")

// actsOfPipes is the number of acts before a process is killed. Jobs sometimes need longer than
// that to read their records.
const actsOfPipes = 25

// TestPipes kills processes at random moments while stateful stream-processing jobs read and write.
// An auditor compares the contents of their sinks with the records that they have read: each record
// must have had its effects exactly once.
//
//	go test -run '^TestPipes$' -pipe-kills 200 ./internal/test/e2e
func TestPipes(t *testing.T) {
	t.Parallel()
	works := slices.DeleteFunc(slices.Clone(workload.Works), func(w workload.Work) bool {
		return w.Name != "processing" &&
			w.Name != "state"
	})
	for i := range works {
		works[i].Clients = 2
	}
	for name, start := range map[string]func(*testing.T) *processes{"three": newProcesses, "one": newProcess} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doWorks(t, start(t), works, *pipeKillsFlag, actsOfPipes)
		})
	}
}

var triggerKillsFlag = flag.Int("trigger-kills", 2, "how many processes TestTriggers kills, of a cluster and of a node alone each")

// TestTriggers kills processes while records start runs: of their own namespace, of another one and
// of a spread one. An auditor must find each record in the input of exactly one run, under any
// leader.
func TestTriggers(t *testing.T) {
	t.Parallel()
	works := slices.DeleteFunc(slices.Clone(workload.Works), func(w workload.Work) bool { return w.Name != "trigger" })
	for name, start := range map[string]func(*testing.T) *processes{"three": newProcesses, "one": newProcess} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doWorks(t, start(t), works, *triggerKillsFlag, actsOfPipes)
		})
	}
}
