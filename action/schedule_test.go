package action

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// scheduling is an action "job" with schedules, on a rig.
type scheduling struct {
	*machinetest.Rig
	t testing.TB
	*actions
	Schedules
}

func newScheduling(t testing.TB, shards int) *scheduling {
	t.Helper()
	r := machinetest.New(t, shards, engine.TableOf[Store]())
	a := newActions(t, r, "n")
	c := &scheduling{r, t, a, a.store.Schedules("job")}
	c.register("job")
	return c
}

func (c *scheduling) set(name string, spec ScheduleSpec) {
	c.t.Helper()
	if err := c.Set(c.t.Context(), name, spec); err != nil {
		c.t.Fatalf("Set(%s): %v", name, err)
	}
	c.Advance(0)
}

func (c *scheduling) get(name string) Schedule {
	c.t.Helper()
	s, err := c.Get(c.t.Context(), name)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// until advances the time to an instant.
func (c *scheduling) until(when string) {
	c.t.Helper()
	at, err := time.Parse(time.RFC3339, when)
	if err != nil {
		c.t.Fatal(err)
	}
	c.Advance(at.UnixMilli() - c.Now())
}

// runs returns the times of the ticks whose runs have begun, as hh:mm or in a longer layout, and
// the states of the runs.
func (c *scheduling) runs() string {
	c.t.Helper()
	var all []string
	for _, r := range c.runsOf("job") {
		text := strings.TrimSuffix(r.IdempotencyKey[strings.LastIndexByte(r.IdempotencyKey, 'T')+1:], "Z")
		if r.IdempotencyKey == "" {
			text = "now"
		}
		if r.Status != Pending {
			text += " " + r.Status.String()
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func (c *scheduling) wantRuns(want string) {
	c.t.Helper()
	if got := c.runs(); got != want {
		c.t.Fatalf("runs: %s, want %s", got, want)
	}
}

// end ends the last run of a schedule.
func (c *scheduling) end(name string) {
	c.t.Helper()
	c.cancel(c.get(name).LastRun)
}

func (s *Schedule) counts() string {
	return fmt.Sprintf("ran %d, skipped %d, missed %d, refused %d", s.Ran, s.Skipped, s.Missed, s.Refused)
}

func (c *scheduling) wantCounts(name, want string) {
	c.t.Helper()
	if s := c.get(name); s.counts() != want {
		c.t.Fatalf("%s: %s, want %s", name, s.counts(), want)
	}
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("15:04:05")
}

// The rig begins at 01:46:40.
func TestScheduleRuns(t *testing.T) {
	c := newScheduling(t, 1)
	c.set("s", ScheduleSpec{Every: time.Hour, Overlap: OverlapAllow, Input: []byte(`{"x":1}`)})
	if s := c.get("s"); clock(s.Next) != "02:00:00" || clock(s.Last) != "01:46:40" || s.LastRun != "" || len(s.Ticks) != 0 {
		t.Errorf("after Set: %+v", s)
	}
	c.until("2001-09-09T01:59:59Z")
	c.wantRuns("")
	c.until("2001-09-09T02:00:00Z")
	c.Advance(0)
	c.wantRuns("02:00:00")
	c.until("2001-09-09T03:00:01Z")
	c.wantRuns("02:00:00, 03:00:00")
	s := c.get("s")
	if clock(s.Next) != "04:00:00" || clock(s.Last) != "03:00:00" || s.Ran != 2 || len(s.Ticks) != 2 {
		t.Errorf("after two ticks: %+v", s)
	}
	runs := c.runsOf("job")
	if r := runs[1]; r.Source != "schedule:s" || r.IdempotencyKey != "schedule:s:2001-09-09T03:00:00Z" || string(r.Input) != `{"x":1}` ||
		s.LastRun != r.ID {
		t.Errorf("run %+v of %+v", r, s)
	}
	if tick := s.Ticks[0]; tick.Result != TickRan || clock(tick.At) != "03:00:00" || clock(tick.DecidedAt) != "03:00:01" ||
		tick.Run != s.LastRun {
		t.Errorf("tick %+v", tick)
	}
}

func TestScheduleOverlap(t *testing.T) {
	for _, test := range []struct {
		overlap      Overlap
		runs, counts string
		after        string // the first run has ended
	}{
		{OverlapSkip, "02:00:00", "ran 1, skipped 2, missed 0, refused 0", "02:00:00 cancelled"},
		{OverlapBuffer, "02:00:00", "ran 1, skipped 1, missed 0, refused 0", "02:00:00 cancelled, 03:00:00"},
		{OverlapAllow, "02:00:00, 03:00:00, 04:00:00", "ran 3, skipped 0, missed 0, refused 0", "02:00:00, 03:00:00, 04:00:00 cancelled"},
		{OverlapReplace, "02:00:00 cancelled, 03:00:00 cancelled, 04:00:00", "ran 3, skipped 0, missed 0, refused 0",
			"02:00:00 cancelled, 03:00:00 cancelled, 04:00:00 cancelled"},
	} {
		t.Run(test.overlap.String(), func(t *testing.T) {
			c := newScheduling(t, 1)
			c.set("s", ScheduleSpec{Every: time.Hour, Overlap: test.overlap})
			for range 3 {
				c.Advance(hours(1))
			}
			c.wantRuns(test.runs)
			c.wantCounts("s", test.counts)
			if s := c.get("s"); s.Buffered.IsZero() != (test.overlap != OverlapBuffer) {
				t.Errorf("buffered: %v", s.Buffered)
			}
			c.Restart()
			c.end("s")
			c.wantRuns(test.after)
			if s := c.get("s"); !s.Buffered.IsZero() {
				t.Errorf("buffered after the end: %v", s.Buffered)
			}
		})
	}
}

func hours(n int64) int64 { return n * 3600 * 1000 }

// TestScheduleOutage: the runs made after an outage of several hours.
func TestScheduleOutage(t *testing.T) {
	for _, test := range []struct {
		rule   CatchUp
		limit  int
		runs   string
		counts string
	}{
		{CatchUpNone, 0, "02:00:00", "ran 1, skipped 0, missed 5, refused 0"},
		{CatchUpOne, 0, "02:00:00, 07:00:00", "ran 2, skipped 0, missed 4, refused 0"},
		{CatchUpAll, 0, "02:00:00, 03:00:00, 04:00:00, 05:00:00, 06:00:00, 07:00:00", "ran 6, skipped 0, missed 0, refused 0"},
		{CatchUpAll, 2, "02:00:00, 06:00:00, 07:00:00", "ran 3, skipped 0, missed 3, refused 0"},
	} {
		t.Run(fmt.Sprint(test.rule, test.limit), func(t *testing.T) {
			c := newScheduling(t, 1)
			c.set("s", ScheduleSpec{Every: time.Hour, Overlap: OverlapAllow, CatchUp: test.rule, CatchUpLimit: test.limit})
			c.until("2001-09-09T02:00:00Z")
			c.Pass(hours(5) + 30*60*1000) // no leader
			c.Restart()
			c.Advance(0)
			c.wantRuns(test.runs)
			c.wantCounts("s", test.counts)
			if s := c.get("s"); clock(s.Next) != "08:00:00" {
				t.Errorf("next: %v", s.Next)
			}
			c.until("2001-09-09T08:00:00Z")
			c.wantRuns(test.runs + ", 08:00:00")
		})
	}
}

// TestScheduleOutageSkips: catching up on all ticks does not make runs overlap.
func TestScheduleOutageSkips(t *testing.T) {
	c := newScheduling(t, 1)
	c.set("s", ScheduleSpec{Every: time.Hour, CatchUp: CatchUpAll})
	c.Advance(hours(4))
	c.wantRuns("02:00:00")
	c.wantCounts("s", "ran 1, skipped 3, missed 0, refused 0")
}

// TestScheduleLongOutage: a year of seconds is caught up in parts, and costs no more than its
// limit.
func TestScheduleLongOutage(t *testing.T) {
	c := newScheduling(t, 1)
	c.set("s", ScheduleSpec{Every: time.Second, Overlap: OverlapAllow, CatchUp: CatchUpAll, CatchUpLimit: MaxCatchUp})
	c.Advance(365 * hours(24))
	s := c.get("s")
	if s.Ran != MaxCatchUp || s.Ran+s.Missed != 365*24*3600 || clock(s.Next) != "01:46:41" {
		t.Errorf("%s, next %v", s.counts(), s.Next)
	}
	runs := c.runsOf("job")
	first, last := runs[0].IdempotencyKey, runs[len(runs)-1].IdempotencyKey
	if first != "schedule:s:2002-09-09T01:30:01Z" || last != "schedule:s:2002-09-09T01:46:40Z" {
		t.Errorf("caught up from %s to %s", first, last)
	}
}

// TestSchedulePause: resuming a schedule does not catch up.
func TestSchedulePause(t *testing.T) {
	c := newScheduling(t, 1)
	c.set("s", ScheduleSpec{Every: time.Hour, Overlap: OverlapBuffer, CatchUp: CatchUpAll})
	c.until("2001-09-09T03:00:00Z")
	if s := c.get("s"); s.Buffered.IsZero() {
		t.Fatal("no tick waits")
	}
	for range 2 { // pausing twice has no further effect
		if err := c.Pause(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
	}
	if s := c.get("s"); !s.Paused || !s.Next.IsZero() || !s.Buffered.IsZero() {
		t.Errorf("paused: %+v", s)
	}
	c.end("s")
	c.Advance(hours(5))
	c.wantRuns("02:00:00 cancelled")
	if err := c.Resume(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	c.Advance(0)
	c.wantRuns("02:00:00 cancelled")
	c.wantCounts("s", "ran 1, skipped 1, missed 0, refused 0")
	c.Advance(hours(1))
	c.wantRuns("02:00:00 cancelled, 09:00:00")
}

// TestScheduleSetAgain: a program sets its schedules at each start.
func TestScheduleSetAgain(t *testing.T) {
	c := newScheduling(t, 1)
	spec := ScheduleSpec{Every: time.Hour, Overlap: OverlapAllow, CatchUp: CatchUpAll}
	c.set("s", spec)
	before := c.get("s")
	c.Pass(hours(3)) // the program was down
	c.set("s", spec)
	c.wantRuns("02:00:00, 03:00:00, 04:00:00")
	if s := c.get("s"); !s.UpdatedAt.Equal(before.UpdatedAt) {
		t.Errorf("updated at %v, was %v", s.UpdatedAt, before.UpdatedAt)
	}
	spec.Input = []byte(`2`)
	c.Pass(hours(2))
	c.set("s", spec) // other input: its ticks continue
	c.wantRuns("02:00:00, 03:00:00, 04:00:00, 05:00:00, 06:00:00")
	spec.Every = 2 * time.Hour
	c.Pass(hours(3))
	c.set("s", spec) // other times: they count from now on
	c.wantRuns("02:00:00, 03:00:00, 04:00:00, 05:00:00, 06:00:00")
	if s := c.get("s"); clock(s.Next) != "10:00:00" || s.Spec.Every != 2*time.Hour {
		t.Errorf("next %v", s.Next)
	}
	spec.Paused = true // only for new schedules
	c.set("s", spec)
	if s := c.get("s"); s.Paused {
		t.Error("paused by Set")
	}
	c.set("other", spec)
	if s := c.get("other"); !s.Paused || !s.Next.IsZero() {
		t.Errorf("made paused: %+v", s)
	}
}

func TestScheduleTrigger(t *testing.T) {
	c := newScheduling(t, 1)
	c.set("s", ScheduleSpec{Every: time.Hour, Paused: true})
	first, err := c.Trigger(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if s := c.get("s"); s.LastRun != first.Run || s.Ran != 1 || s.Ticks[0].Result != TickTriggered {
		t.Errorf("%+v", s)
	}
	if _, err := c.Trigger(t.Context(), "s"); !errors.Is(err, ErrConflict) {
		t.Errorf("Trigger beside a run: %v", err)
	}
	c.set("s", ScheduleSpec{Every: time.Hour, Overlap: OverlapReplace})
	if _, err := c.Trigger(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	c.wantRuns("now cancelled, now")
	c.change(kindEnable, "job", false)
	if _, err := c.Trigger(t.Context(), "s"); !errors.Is(err, ErrConflict) {
		t.Errorf("Trigger of a disabled action: %v", err)
	}
	c.wantCounts("s", "ran 2, skipped 0, missed 0, refused 0")
}

// TestScheduleRefused: a tick counts as decided even if the action refuses its run.
func TestScheduleRefused(t *testing.T) {
	c := newScheduling(t, 1)
	c.set("s", ScheduleSpec{Every: time.Hour})
	c.change(kindEnable, "job", false)
	c.Advance(hours(1))
	c.wantCounts("s", "ran 0, skipped 0, missed 0, refused 1")
	if tick := c.get("s").Ticks[0]; tick.Result != TickRefused || !strings.Contains(tick.Error, "disabled") {
		t.Errorf("%+v", tick)
	}
	c.change(kindEnable, "job", true)
	c.Advance(hours(1))
	c.wantRuns("03:00:00")
}

func TestScheduleDelete(t *testing.T) {
	c := newScheduling(t, 1)
	c.set("s", ScheduleSpec{Every: time.Hour})
	c.set("t", ScheduleSpec{Every: time.Hour})
	c.until("2001-09-09T02:00:00Z")
	run := c.get("s").LastRun
	if err := c.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	c.cancel(run) // the run's end finds no schedule
	if _, err := c.Get(t.Context(), "s"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	for name, f := range map[string]func(context.Context, string) error{"Pause": c.Pause, "Resume": c.Resume, "Delete": c.Delete} {
		if err := f(t.Context(), "s"); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Trigger(t.Context(), "s"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Trigger: %v", err)
	}
	c.end("t")
	c.change(kindDelete, "job", true)
	if err := c.Set(t.Context(), "s", ScheduleSpec{Every: time.Hour}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Set for no action: %v", err)
	}
	c.Advance(hours(3))
	for _, kind := range []byte{rowPlan, rowSchedule, rowDue} {
		for _, row := range c.Rows(0) {
			if row.Key[0] == kind && row.Machine == engine.MachineAction {
				t.Errorf("row %x is left", row.Key)
			}
		}
	}
}

func TestScheduleErrors(t *testing.T) {
	c := newScheduling(t, 1)
	for _, test := range []struct {
		name string
		spec ScheduleSpec
		want string
	}{
		{"", ScheduleSpec{Cron: "@daily"}, "schedule name is empty"},
		{strings.Repeat("x", 201), ScheduleSpec{Cron: "@daily"}, "action: schedule name of 201 bytes exceeds 200"},
		{"s", ScheduleSpec{}, "action: schedule: neither a cron expression nor an interval"},
		{"s", ScheduleSpec{Cron: "0 0 30 2 *"}, `action: schedule: cron "0 0 30 2 *": there is no such day in any year`},
		{"s", ScheduleSpec{Cron: "@daily", Zone: "Mars/Olympus"},
			`action: schedule: time zone "Mars/Olympus" is unknown: names are such as Europe/Berlin`},
		{"s", ScheduleSpec{Cron: strings.Repeat("*", 300)}, "action: cron of 300 bytes exceeds 256"},
		{"s", ScheduleSpec{Every: time.Minute + 1}, "action: schedule: an interval of 1m0.000000001s is not whole milliseconds"},
		{"s", ScheduleSpec{Every: time.Millisecond}, "action: schedule: an interval of 1ms is below 1s"},
		{"s", ScheduleSpec{Every: -time.Hour}, "action: interval of -3600000 ms is not in 0-9223372036855"},
		{"s", ScheduleSpec{Every: time.Hour, CatchUpLimit: 1001}, "action: catch up limit 1001 is not in 1-1000"},
		{"s", ScheduleSpec{Every: time.Hour, Input: []byte("{")}, `action: input is not valid JSON: "{"`},
		{"s", ScheduleSpec{Every: time.Hour, Overlap: 9}, "action: unknown overlap 9"},
	} {
		if err := c.Set(t.Context(), test.name, test.spec); !errors.Is(err, ErrInvalid) || err.Error() != test.want {
			t.Errorf("Set(%q, %+v): %v, want %s", test.name, test.spec, err, test.want)
		}
	}
}

// TestSchedulesAtOnce: 1,000 schedules of an action, the maximum, are due at once.
func TestSchedulesAtOnce(t *testing.T) {
	c := newScheduling(t, 1)
	for i := range MaxSchedules {
		if err := c.Set(t.Context(), fmt.Sprint(i), ScheduleSpec{Cron: "0 3 * * *"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Set(t.Context(), "more", ScheduleSpec{Cron: "0 3 * * *"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("one more schedule: %v", err)
	}
	c.Advance(0)
	before := len(c.Log(0))
	c.until("2001-09-09T03:00:00Z")
	runs := c.runsOf("job")
	if len(runs) != MaxSchedules {
		t.Fatalf("%d runs", len(runs))
	}
	if n := len(c.Log(0)) - before; n > MaxSchedules/maxDueTicks+2 {
		t.Errorf("they took %d entries", n)
	}
	c.Advance(0)
	c.Advance(hours(1))
	if n := len(c.runsOf("job")); n != MaxSchedules {
		t.Errorf("%d runs an hour later", n)
	}
}

// TestScheduleLargeInputs: the bytes that one command of the duty writes are bounded.
func TestScheduleLargeInputs(t *testing.T) {
	c := newScheduling(t, 1)
	input := []byte(`"` + strings.Repeat("x", 1000_000) + `"`)
	for i := range 12 {
		c.set(fmt.Sprint(i), ScheduleSpec{Cron: "0 3 * * *", Input: input})
	}
	c.set("all", ScheduleSpec{Cron: "*/6 * * * *", Input: input, Overlap: OverlapAllow, CatchUp: CatchUpAll})
	before := len(c.Log(0))
	c.until("2001-09-09T03:00:00Z")
	if n := len(c.runsOf("job")); n != 12+13 {
		t.Errorf("%d runs", n)
	}
	if n := len(c.Log(0)) - before; n < 3 || n > 5 {
		t.Errorf("25 MB took %d entries", n)
	}
}

// TestScheduleClockChanges: the duty handles a zone's clock changes, and the runs show them.
func TestScheduleClockChanges(t *testing.T) {
	c := newScheduling(t, 1)
	c.until("2025-10-25T12:00:00Z")
	spec := ScheduleSpec{Cron: "30 2 * * *", Zone: "Europe/Berlin", Overlap: OverlapAllow}
	c.set("night", spec)
	spec.Cron = "*/30 2,3 * * *"
	for range 48 {
		c.Advance(30 * 60 * 1000)
	}
	c.wantRuns("00:30:00") // 02:30 in summer time, not again in winter time
	c.until("2026-03-28T12:00:00Z")
	c.set("half", spec)
	for range 48 {
		c.Advance(30 * 60 * 1000)
	}
	c.wantRuns("00:30:00, 01:30:00, 01:00:00, 01:00:00, 01:30:00") // times in the gap run once, at its end; both schedules
	if s := c.get("night"); s.Missed != 152 {
		t.Errorf("missed in winter: %s", s.counts())
	}
}

// TestScheduleReplicas: replicas that apply the log of a busy period have the same rows, whatever
// they cache.
func TestScheduleReplicas(t *testing.T) {
	c := newScheduling(t, 1)
	for i, overlap := range []Overlap{OverlapSkip, OverlapBuffer, OverlapAllow, OverlapReplace} {
		c.set(fmt.Sprint("a", i), ScheduleSpec{Every: time.Minute, Overlap: overlap, CatchUp: CatchUpAll, Input: []byte(`1`)})
		c.set(fmt.Sprint("b", i), ScheduleSpec{Cron: "*/7 * * * *", Zone: "Asia/Kathmandu", Overlap: overlap})
	}
	for i := range 60 {
		c.Advance(int64(i) * 3000)
		name := fmt.Sprint("a", i%4)
		switch i % 5 {
		case 0:
			if c.get(name).LastRun != "" {
				c.end(name)
			}
		case 1:
			c.must(c.Pause(t.Context(), name))
		case 2:
			c.must(c.Resume(t.Context(), fmt.Sprint("a", (i-1)%4)))
		}
	}
	machinetest.EqualReplicas(t, c.Log(0), []engine.Primitive{engine.TableOf[Store]()}, machinetest.Replica{Name: "each entry", Commit: 1},
		machinetest.Replica{Name: "restarts", Commit: 7, Restart: 31})
}

// TestScheduleProblem: a schedule is paused with a note if this build cannot read its times,
// perhaps because an older one knew more zones.
func TestScheduleProblem(t *testing.T) {
	c := newScheduling(t, 1)
	s := scheduleBody{name: "s", times: times{cron: "@daily", zone: "Europe/Atlantis", limit: 1}}
	if out := c.Entry(0, engine.Command{Machine: engine.MachineAction, Kind: kindSchedule, Namespace: "n",
		Body: body(setSchedule, "job", s)})[0]; out.Err != nil {
		t.Fatal(out.Err)
	}
	c.Advance(0)
	if s := c.get("s"); !s.Paused || !strings.Contains(s.Note, "Europe/Atlantis") {
		t.Errorf("%+v", s)
	}
	c.set("s", ScheduleSpec{Every: time.Hour})
	c.must(c.Resume(t.Context(), "s"))
	c.Advance(hours(1))
	c.wantRuns("02:00:00")
}

// TestScheduleManyEnd: when the ends of many runs start large ticks, a command starts some of them,
// and the duty the others.
func TestScheduleManyEnd(t *testing.T) {
	const n = 8
	c := newScheduling(t, 1)
	input := []byte(`"` + strings.Repeat("x", 1000_000) + `"`)
	for i := range n {
		c.set(fmt.Sprint(i), ScheduleSpec{Every: time.Hour, Overlap: OverlapBuffer, Input: input})
	}
	c.Advance(hours(1))
	c.Advance(hours(1))
	propose := func(kind uint8, body []byte) []byte {
		b, err := c.Propose(t.Context(), 0, engine.Command{Machine: engine.MachineAction, Kind: kind, Namespace: "n", Body: body})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	open := openBody{process: "p", groups: []group{{"", []string{"job"}}}}
	work := workBody{session: must(openSession.Decode(propose(kindOpen, body(openSession, "", open))))}
	for range n {
		take := workBody{session: work.session, wants: []want{{0, "w", 1}}}
		for _, run := range must(takeRuns.Decode(propose(kindWork, body(takeRuns, "", take)))).taken {
			work.ends = append(work.ends, end{ref: run.ref, attempt: run.attempt, how: completed, output: []byte(`1`)})
		}
	}
	propose(kindWork, body(takeRuns, "", work))
	if runs := len(c.runsOf("job")); runs <= n || runs == 2*n {
		t.Errorf("%d runs behind the command, want some of the %d that waited", runs-n, n)
	}
	c.Verify()
	c.Restart()
	c.Advance(0)
	if runs := len(c.runsOf("job")); runs != 2*n {
		t.Errorf("%d runs, want %d", runs, 2*n)
	}
	for i := range n {
		c.wantCounts(fmt.Sprint(i), "ran 2, skipped 0, missed 0, refused 0")
	}
}
