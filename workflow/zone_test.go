package workflow_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/floedb/floe/workflow"
)

// setZone makes the zone Test/Zone follow rules in the form of the environment variable TZ, as seen
// by the leader's machine from now on.
func setZone(t *testing.T, rules string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(zones, "Test"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(zones, "Test", "Zone"), zoneFile(rules), 0o600); err != nil {
		t.Fatal(err)
	}
}

// zoneFile returns a file in the format of RFC 9636: no transitions, and rules for all times.
func zoneFile(rules string) []byte {
	block := func(b []byte) []byte {
		b = append(append(b, "TZif2"...), make([]byte, 15)...)
		for _, n := range []uint32{0, 0, 0, 0, 1, 4} { // leap seconds, transitions and such: none; one local time type, 4 bytes of names
			b = binary.BigEndian.AppendUint32(b, n)
		}
		b = binary.BigEndian.AppendUint32(b, 3600)
		return append(b, 0, 0, 'A', 'A', 'A', 0)
	}
	return append(append(append(block(block(nil)), '\n'), rules...), '\n')
}

// TestLeadersOfDifferentZones: a government abolishes summer time, and only one of two nodes has
// the update when the leadership moves back and forth, before and after a tick. Decisions of one
// leader stay, and the next leader continues from there with its own zone data: no tick comes
// twice, and no day is skipped. On one node's clock half past two comes an hour later than on the
// other's, so a day may have both. Replicas, which have no zones, stay equal.
func TestLeadersOfDifferentZones(t *testing.T) {
	const (
		summer = "AAA-1BBB,M9.3.0,M10.2.0/3" // clocks are an hour ahead from September 16th to October 14th 2001
		none   = "AAA-1"
	)
	for _, first := range []string{summer, none} {
		r := newRig(t, 1)
		flows := flowsOf(r, "n")
		setZone(t, first)
		definition := []byte("name: daily\nretention: { days: 1000 }\nschedule: { cron: \"30 2 * * *\", timezone: Test/Zone, " +
			"max_concurrent: 0, catch_up: all, catch_up_limit: 100 }\n" +
			"start: { waitForSignal: { type: go, timeoutMs: 1, onTimeout: flo.Completed }, transitions: { success: flo.Completed, " +
			"flo.Completed: flo.Completed } }\n")
		if _, err := flows.Create(t.Context(), definition); err != nil {
			t.Fatal(err)
		}
		began := r.Now()
		const days = 45
		for hour := range days * 24 { // the leader changes a few times a day, at different hours each day
			setZone(t, []string{first, summer, none}[hour/7%3])
			r.SetTerm(uint64(2 + hour))
			if hour%5 == 0 {
				r.Restart()
			}
			r.Advance(time.Hour.Milliseconds())
		}
		byDay := make(map[string][]string)
		for run, err := range flows.Runs().All(t.Context(), workflow.Limit(1000)) {
			if err != nil {
				t.Fatal(err)
			}
			at := run.IdempotencyKey
			day := at[len("schedule:"):len("schedule:2001-10-01")]
			byDay[day] = append(byDay[day], at)
		}
		i, err := flows.Get(t.Context(), "daily")
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("begins with %s: %+v", first, *i.Schedule)
		for at := time.UnixMilli(began).UTC().AddDate(0, 0,
			1); at.Before(time.UnixMilli(r.Now()).UTC().AddDate(0, 0, -1)); at = at.AddDate(0, 0, 1) {
			runs := byDay[at.Format(time.DateOnly)]
			if len(runs) < 1 || len(runs) > 2 || len(runs) == 2 && runs[0] == runs[1] {
				t.Errorf("begins with %s: day %s has the runs %v", first, at.Format(time.DateOnly), runs)
			}
		}
		r.Replay(func() int { return 5 }, func() bool { return true })
	}
}
