package action

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestVerifyFindsDamagedSchedules damages rows one at a time; their check must report each.
func TestVerifyFindsDamagedSchedules(t *testing.T) {
	change := func(f func(*scheduleRow)) func(b []byte) []byte {
		return func(b []byte) []byte {
			r := must(decode(b, (*scheduleRow).code))
			f(&r)
			return encode(nil, &r, (*scheduleRow).code)
		}
	}
	gone := func([]byte) []byte { return nil }
	for name, test := range map[string]struct {
		kind   byte
		damage func(b []byte) []byte
		want   string
	}{
		"a plan for schedule":   {rowSchedule, gone, "a plan for schedule"},
		"not a row":             {rowSchedule, func(b []byte) []byte { return b[:3] }, "invalid schedule row"},
		"nothing to run":        {rowPlan, gone, "what it runs has 0 bytes"},
		"other things to run":   {rowPlan, func(b []byte) []byte { return append(b, 1) }, "invalid plan row"},
		"never due":             {rowDue, gone, "no timer is due"},
		"due with a value":      {rowDue, func([]byte) []byte { return []byte{1} }, "invalid due row"},
		"due at another time":   {rowSchedule, change(func(r *scheduleRow) { r.next++ }), "is not due at row"},
		"decided in the future": {rowSchedule, change(func(r *scheduleRow) { r.last += 1e9; r.next += 1e9 }), "it is"},
		"behind its next":       {rowSchedule, change(func(r *scheduleRow) { r.last = r.next }), "is not behind"},
		"another action":        {rowSchedule, change(func(r *scheduleRow) { r.id++ }), "is not there"},
		"paused and due":        {rowSchedule, change(func(r *scheduleRow) { r.paused = true }), "is paused: true"},
		"released too early": {rowSchedule, change(func(r *scheduleRow) { r.buffered, r.released = 0, true }),
			"a tick that there is not"},
		"waits for nothing":    {rowSchedule, change(func(r *scheduleRow) { r.run.Run += 1e6 }), "which is not there"},
		"waits without reason": {rowSchedule, change(func(r *scheduleRow) { r.overlap = OverlapAllow }), "waits for the end of a run"},
		"waits for an ended run": {rowState, func(b []byte) []byte {
			st := must(decode(b, (*stateRow).layout))
			st.status = Completed
			return encode(nil, &st, (*stateRow).layout)
		}, "which has ended (<nil>)"},
		"waits for a malformed run": {rowState, func(b []byte) []byte { return b[:1] }, "which has ended ("},
		"fewer than none":           {rowSchedule, change(func(r *scheduleRow) { r.missed = -1 }), "counts"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newScheduling(t, 1)
			c.set("s", ScheduleSpec{Every: time.Hour, Overlap: OverlapBuffer})
			c.Advance(hours(1))
			if tasks, err := c.actions.store.Await(t.Context(), "w", []string{"job"}); err != nil || len(tasks) != 1 {
				t.Fatalf("Await = %v, %v", tasks, err)
			}
			c.Advance(hours(1))
			c.Verify()
			for _, row := range c.Rows(0) {
				if row.Machine == engine.MachineAction && row.Key[0] == test.kind {
					c.Tamper(0, machinetest.Row{Machine: row.Machine, Key: row.Key, Value: test.damage(bytes.Clone(row.Value))})
				}
			}
			if found := strings.Join(c.Problems(0), "\n"); !strings.Contains(found, test.want) {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}
