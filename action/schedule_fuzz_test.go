package action

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/schedule"
	"github.com/floedb/floe/internal/test/machinetest"
)

// FuzzScheduleCommand applies bodies that Admit accepts to an action with schedules: each is
// refused or carried out, and all rows stay consistent. Nothing panics, neither then nor when the
// duty goes on from there.
func FuzzScheduleCommand(f *testing.F) {
	add := func(kind uint8, body []byte) { f.Add(kind, body) }
	for _, op := range []engine.Operation{
		SetScheduleOp("job", "s", ScheduleSpec{Cron: "*/5 * * * *", Zone: "Europe/Berlin", Input: []byte(`{}`)}, Priority(3),
			ConcurrencyKey("k"), Labels(map[string]string{"a": "b"})),
		SetScheduleOp("job", "t", ScheduleSpec{Every: time.Second, Anchor: time.UnixMilli(12345), Overlap: OverlapBuffer,
			CatchUp: CatchUpAll, CatchUpLimit: 1000}),
		PauseScheduleOp("job", "s"), ResumeScheduleOp("job", "s"), TriggerOp("job", "s"), DeleteScheduleOp("job", "s"),
	} {
		cmd, err := engine.OpOf(op).Limit(1 << 20)
		if err != nil {
			f.Fatal(err)
		}
		add(cmd.Kind, cmd.Body)
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		if kind < kindSchedule || kind > kindTrigger {
			return
		}
		cmd := engine.Command{Machine: engine.MachineAction, Kind: kind, Namespace: "n", Body: body}
		if err := admit(cmd, 1<<20); err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("Admit: %v, want ErrInvalid", err)
			}
			return
		}
		machinetest.SameInJSON(t, table(), cmd)
		c := newScheduling(t, 1)
		c.set("s", ScheduleSpec{Every: time.Hour, Overlap: OverlapBuffer})
		c.Advance(hours(2))
		if _, err := c.Propose(t.Context(), 0, cmd); err != nil && !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrNotFound) &&
			!errors.Is(err, ErrConflict) {
			t.Errorf("command %d: %v", kind, err)
		}
		c.Advance(hours(30))
		c.Advance(hours(1))
	})
}

// FuzzScheduleRows: any input that a decoder of rows or of duty commands accepts is what the
// encoder writes.
func FuzzScheduleRows(f *testing.F) {
	row := scheduleRow{
		times: times{cron: "@daily", zone: "UTC", every: 7, anchor: -3, overlap: OverlapReplace, catchUp: CatchUpAll,
			limit: 9}, id: 1, revision: 2, note: "x",
		last: 5, next: never, begun: true, buffered: 4, released: true, ticks: []tick{{at: 1, result: TickRan},
			{result: TickMissed, count: 8, message: "m"}},
	}
	due := []dueTicks{{"a", "n", schedule.Due{Revision: 3, After: 4, Run: []int64{5, 6}, Missed: 7, Last: 8, Next: never, Release: true,
		Problem: "p"}}}
	f.Add(uint8(0), encode(nil, &row, (*scheduleRow).code))
	f.Add(uint8(1), encode(nil, &plan{3, []byte("l"), "k", nil}, (*plan).code))
	f.Add(uint8(2), encode(nil, &due, schedules.CodeAll))
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		switch kind % 3 {
		case 0:
			fuzzRow(t, b, (*scheduleRow).code)
		case 1:
			fuzzRow(t, b, (*plan).code)
		case 2:
			fuzzRow(t, b, schedules.CodeAll)
		}
	})
}

func fuzzRow[T any](t *testing.T, b []byte, code func(*T, *codec.Coder)) {
	v, err := decode(b, code)
	if err != nil {
		if !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%v, want ErrCorrupt", err)
		}
		return
	}
	if back := encode(nil, &v, code); !bytes.Equal(back, b) {
		t.Errorf("read %x, wrote back %x", b, back)
	}
}
