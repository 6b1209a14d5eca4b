package e2e

import (
	"flag"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/test/workload"
)

var pipeKillsFlag = flag.Int("pipe-kills", 3, "how many processes TestPipes kills, of a cluster and of a node alone each")

// actsOfPipes is how much is done before a process is killed: less than what the jobs take to read
// it, now and then.
const actsOfPipes = 25

// TestPipes kills processes at random moments while jobs of stream processing read, remember and
// write. An auditor compares all that their sinks hold with what they have read: each record has
// had its effects, once.
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

// TestTriggers kills processes while records start runs: of their namespace, of another one and of
// a spread one. An auditor finds each record in the input of exactly one run, whoever led when it
// was handed out.
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
