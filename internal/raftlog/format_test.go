package raftlog

import (
	"flag"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var (
	rewrite  = flag.Bool("rewrite", false, "write the golden log of the current format version anew")
	longFlag = flag.Bool("long", false, "run exhaustive and randomised tests in their long forms")
)

// brief reports whether tests are to leave most of their cases out.
func brief() bool { return !*longFlag || raceEnabled }

// TestFormat2 keeps format version 2 readable, and written as it was: testdata/format-2 is the log
// of closedLog.
func TestFormat2(t *testing.T) {
	const golden = "testdata/format-2"
	fs, want := closedLog(t)
	if *rewrite {
		must(t, "RemoveAll", vfs.Default.RemoveAll(golden))
		_, err := vfs.Clone(fs, vfs.Default, testDir, golden)
		must(t, "Clone", err)
	}
	stored := vfs.NewMem()
	must(t, "MkdirAll", stored.MkdirAll("node", 0o755))
	_, err := vfs.Clone(vfs.Default, stored, golden, testDir)
	must(t, "Clone", err)
	if got, want := dump(t, fs), dump(t, stored); got != want {
		t.Errorf("the same writes give other bytes, got\n%swant\n%s", got, want)
	}
	checkState(t, golden, mustOpen(t, small(stored)), want)
}
