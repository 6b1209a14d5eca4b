package workflow_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/workflow"
)

var rewriteReference = flag.Bool("write-reference", false, "write REFERENCE.md anew")

// TestReference: REFERENCE.md agrees with the parser's tables and the package's limits.
func TestReference(t *testing.T) {
	var outcomes, limits [][2]string
	for _, outcome := range slices.Sorted(maps.Keys(workflow.Fallbacks)) {
		outcomes = append(outcomes, [2]string{"`" + outcome + "`", "`" + workflow.Fallbacks[outcome] + "`"})
	}
	for _, l := range []struct {
		what string
		n    int
		size bool
	}{
		{"input of a step, and, on a node with the default max_value_size, of a run", workflow.MaxOutput, true},
		{"output of a step, and of a run", workflow.MaxOutput, true},
		{"pending signals of a run", workflow.MaxSignals, false},
		{"payloads of pending signals together", workflow.MaxSignalBytes, true},
		{"type of a signal", workflow.MaxSignalType, true},
		{"id of a run", workflow.MaxRunID, true},
		{"idempotency key", workflow.MaxIdempotencyKey, true},
		{"reason of a cancellation", workflow.MaxReason, true},
		{"events of a run", workflow.MaxEvents, false},
		{"depth of child workflows", workflow.MaxDepth, false},
		{"versions of a workflow", workflow.MaxVersions, false},
	} {
		value := fmt.Sprint(l.n)
		if l.size {
			value = flow.Size(l.n)
		}
		limits = append(limits, [2]string{l.what, value})
	}
	want := flow.Reference(limits, outcomes)
	if *rewriteReference {
		if err := os.WriteFile("REFERENCE.md", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("REFERENCE.md"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("REFERENCE.md is not what the tables of the parser say (%v): go test ./workflow -run TestReference -write-reference", err)
	}
}
