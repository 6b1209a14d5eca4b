package processing

import (
	"bytes"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/stream"
)

// TestFractionsOfLatencies: rows, ticks and answers about parts append fractions of a millisecond
// to their earlier layout, which is still read.
func TestFractionsOfLatencies(t *testing.T) {
	for _, sum := range []int64{0, 7 * millisecond, 7*millisecond + 1, 999} {
		row := taskRow{ticks: 3, counts: counts{in: 3}, latencySum: sum, latencyMax: sum / 2}
		tick := tickCommand{task: row, status: Running, reason: "r"}
		subtasks := subtasksQuery{jobs: make([]ref, 2), subtasks: []subtaskInfo{{}, {found: true, latencySum: sum}}}
		whole := row
		whole.latencySum, whole.latencyMax = sum/millisecond*millisecond, sum/2/millisecond*millisecond
		old, now := encode(nil, &whole, (*taskRow).code), encode(nil, &row, (*taskRow).code)
		if !bytes.HasPrefix(now, old) || len(old) == len(now) != (sum%millisecond == 0 && sum/2%millisecond == 0) {
			t.Errorf("%d µs: a row of % x, want % x and a tail if there is a fraction", sum, now, old)
		}
		if got, err := decode(now, (*taskRow).code); err != nil || got.latencySum != sum || got.latencyMax != sum/2 || got.ticks != 3 {
			t.Errorf("%d µs: the row is %+v, %v", sum, got, err)
		}
		got, err := decode(encode(nil, &tick, (*tickCommand).code), (*tickCommand).code)
		if err != nil || got.task.latencySum != sum || got.task.latencyMax != sum/2 || got.reason != "r" {
			t.Errorf("%d µs: the tick is %+v, %v", sum, got, err)
		}
		answer := subtasksQuery{jobs: subtasks.jobs}
		err = codec.DecodeFields(codec.EncodeFields(nil, &subtasks, (*subtasksQuery).Results), &answer, (*subtasksQuery).Results)
		if err != nil || answer.subtasks[1].latencySum != sum {
			t.Errorf("%d µs: the parts are %+v, %v", sum, answer.subtasks, err)
		}
	}
	bad := encode(nil, &taskRow{}, (*taskRow).codeWithin)
	for _, tail := range [][]int64{{millisecond, 0}, {0, millisecond}, {-1, 1}} {
		b := bytes.Clone(bad)
		for _, v := range tail {
			b = codec.AppendVarint(b, v)
		}
		if got, err := decode(b, (*taskRow).code); err == nil {
			t.Errorf("fractions of %v µs are read as %+v", tail, got)
		}
	}
}

// TestFailureAtTheEnd: rows and commands append a failure to their earlier layout, whatever else
// they append, and are without one what they were before.
func TestFailureAtTheEnd(t *testing.T) {
	failed := &Failure{
		Operator: "o", Reason: "r", Source: "s", Stream: "in", Partition: 3, RecordID: stream.ID{Millis: 5, Seq: 6}, Offset: 7,
	}
	for _, other := range []int64{0, 1} {
		job, tick := jobRow{status: Failed, began: other}, tickCommand{status: Failed, task: taskRow{latencySum: other}}
		report := reportCommand{status: Failed}
		old := [][]byte{
			encode(nil, &job, (*jobRow).code), encode(nil, &tick, (*tickCommand).code), encode(nil, &report, (*reportCommand).code),
		}
		job.failure, tick.failure, report.failure = failed, failed, failed
		now := [][]byte{
			encode(nil, &job, (*jobRow).code), encode(nil, &tick, (*tickCommand).code), encode(nil, &report, (*reportCommand).code),
		}
		for i := range now {
			if !bytes.HasPrefix(now[i], old[i]) || len(now[i]) == len(old[i]) {
				t.Errorf("%d: % x is now % x", i, old[i], now[i])
			}
			for _, b := range [][]byte{old[i], now[i]} {
				j, err1 := decode(b, (*jobRow).code)
				c, err2 := decode(b, (*tickCommand).code)
				r, err3 := decode(b, (*reportCommand).code)
				got, err := [...]*Failure{j.failure, c.failure, r.failure}[i], [...]error{err1, err2, err3}[i]
				if long := len(b) == len(now[i]); err != nil || long != (got != nil) || long && *got != *failed {
					t.Errorf("%d: % x is read as %+v, %v", i, b, got, err)
				}
			}
		}
	}
}
