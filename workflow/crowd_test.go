package workflow_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/workflow"
	"github.com/floedb/floe/workflow/workflowtest"
)

// TestLargeFanBehindTimer: a run that reaches a parallel step by a timer starts its branches in
// groups, however large their inputs are. Starting all at once used to reach the limit of commands,
// which stopped the shard: a timer cannot be refused.
func TestLargeFanBehindTimer(t *testing.T) {
	const branches = 100
	w := workflowtest.New(t)
	done := 0
	w.Handle("big", func(context.Context, *action.Task) (any, error) { done++; return nil, nil })
	fan := workflow.Parallel{}
	for i := range branches {
		fan.Branches = append(fan.Branches, workflow.Branch{Name: fmt.Sprint("b", i), Call: calling("@actions/big")})
	}
	w.Create(startsWith("fan", does(workflow.Sleep{For: 1000}, "success", "all"), named("all", does(fan, "success", "flo.Completed"))))
	if run := w.Run("fan", `"`+strings.Repeat("x", 1<<20-100)+`"`); run.Status != workflow.Completed || done != branches {
		t.Errorf("%s: %s, %d branches done, want %d", run.Status, run.Error, done, branches)
	}
}
