package workflow

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestVerifyComparesHistories damages one row at a time: Verify reports that the run does not match
// its history.
func TestVerifyComparesHistories(t *testing.T) {
	for name, test := range map[string]struct {
		part   byte
		damage func(b []byte) []byte
		want   string
	}{
		"at another step": {partHeader, change((*header).code, func(h *header) { h.step = 1 }), `it is at step "_start", not "pay"`},
		"one visit more":  {partHeader, change((*header).code, func(h *header) { h.visit++ }), "visits to steps, not"},
		"a signal more":   {partHeader, change((*header).code, func(h *header) { h.pending++ }), "pending signals, not"},
		"it has ended": {partHeader, change((*header).code, func(h *header) { h.status, h.wait = Completed, waitNothing }),
			"it ends as unknown"},
		"another outcome": {partStep, change((*stepRow).layout, func(s *stepRow) { s.outcome = "failure" }),
			`is at "failure", attempt 1`},
		"another attempt":  {partStep, change((*stepRow).layout, func(s *stepRow) { s.attempts++ }), ", attempt 2"},
		"another error":    {partStep, change((*stepRow).layout, func(s *stepRow) { s.message = "no" }), "(no), but in the history"},
		"an earlier visit": {partStep, change((*stepRow).layout, func(s *stepRow) { s.visit = 77 }), "visit 77 is at"},
		"a later key": {partStep, change((*stepRow).layout, func(s *stepRow) { s.key = 77 }),
			"has the idempotency key of visit 77"},
		"no such step": {partStep, func([]byte) []byte { return nil }, "ended steps have no rows"},
		"undoes another step": {partUndo, change((*undoRow).code, func(u *undoRow) { u.step = 1 }),
			"is to be compensated as a visit to step 1"},
		"an event less": {partEvents, change((*eventRow).code, func(r *eventRow) { r.events = r.events[1:] }),
			"a history has one start"},
		"events in disorder": {partEvents, change((*eventRow).code, func(r *eventRow) { slices.Reverse(r.events) }),
			"a history has one start"},
		"events of before": {partEvents, change((*eventRow).code, func(r *eventRow) { r.at = -5 }), "come after those of"},
		"a step ends twice": {partEvents, change((*eventRow).code, func(r *eventRow) {
			r.events = append(r.events, event{kind: StepCompleted, step: "child"})
		}), "it is not under way"},
		"it is retried": {partEvents, change((*eventRow).code,
			func(r *eventRow) { r.events = append(r.events, event{kind: WorkflowRetried}) }), "the run is already"},
		"nothing is undone": {partEvents, change((*eventRow).code, func(r *eventRow) {
			r.events = append(r.events, event{kind: CompensationFailed, step: "pay"})
		}), "it is not being compensated"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorked(t)
			for _, row := range w.Rows(0) {
				if row.Machine == engine.MachineWorkflow && row.Key[0] == rowRun && row.Key[partAt] == test.part {
					w.Tamper(0, machinetest.Row{Machine: row.Machine, Key: row.Key, Value: test.damage(bytes.Clone(row.Value))})
				}
			}
			if found := strings.Join(w.Problems(0), "\n"); !strings.Contains(found, test.want) {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}

// change modifies the value of a row.
func change[T any](code func(*T, *codec.Coder), f func(*T)) func([]byte) []byte {
	return func(b []byte) []byte {
		v := must(decode(b, code))
		f(&v)
		return encode(nil, &v, code)
	}
}
