package workflow_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/test/reference"
	"github.com/floedb/floe/workflow"
)

// TestReference: docs/reference/workflow.md agrees with the parser's tables and the limits.
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
	reference.Check(t, "workflow.md", flow.Reference(limits, outcomes))
}
