package processing

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pipeline"
	"github.com/floedb/floe/internal/test/machinetest"
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

// TestOutOfRange: commands and queries with values out of range do not decode.
func TestOutOfRange(t *testing.T) {
	invalid := func(err error) error {
		if err != nil {
			return engine.Errorf(ErrInvalid, "%v", err)
		}
		return nil
	}
	jobs := func(q jobsQuery) error {
		return invalid(codec.DecodeFields(codec.EncodeFields(nil, &q, (*jobsQuery).Arguments), &q, (*jobsQuery).Arguments))
	}
	exchange := func(kind byte, n int64) error {
		_, err := decode(encode(nil, &exchangeChange{kind: kind, key: make([]byte, n)}, (*exchangeChange).code), (*exchangeChange).code)
		return invalid(err)
	}
	const none = math.MinInt64
	machinetest.TryLimits(t, []machinetest.Limit{
		{Name: "change of state", Least: none, Most: int64(stateRange), Says: []string{"unknown change"}, Try: func(n int64) error {
			_, err := decode(encode(nil, &stateChange{op: byte(n)}, (*stateChange).code), (*stateChange).code)
			return invalid(err)
		}},
		{Name: "key of an exchange", Least: exchangeKeyLen, Most: exchangeKeyLen, Says: []string{"unknown row"},
			Try: func(n int64) error { return exchange(rowExchange, n) }},
		{Name: "key of a message", Least: messageKeyLen, Most: messageKeyLen, Says: []string{"unknown row"},
			Try: func(n int64) error { return exchange(rowMessage, n) }},
		{Name: "state of jobs", Least: none, Most: int64(Completed), Says: []string{"unknown state"},
			Try: func(n int64) error { return jobs(jobsQuery{status: Status(n), limit: 1}) }},
		{Name: "limit of jobs", Least: 1, Most: engine.MaxPageItems, Says: []string{"limit out of range"},
			Try: func(n int64) error { return jobs(jobsQuery{limit: int(n)}) }},
		{Name: "jobs of subtasks", Least: none, Most: engine.MaxPageItems, Says: []string{"too many jobs"}, Try: func(n int64) error {
			q := subtasksQuery{jobs: make([]ref, max(n, 0))}
			return invalid(codec.DecodeFields(codec.EncodeFields(nil, &q, (*subtasksQuery).Arguments), &q, (*subtasksQuery).Arguments))
		}},
		{Name: "answers for a job", Least: 1, Most: 1, Says: []string{"not one answer"}, Try: func(n int64) error {
			q, got := subtasksQuery{subtasks: make([]subtaskInfo, n)}, subtasksQuery{jobs: make([]ref, 1)}
			return invalid(codec.DecodeFields(codec.EncodeFields(nil, &q, (*subtasksQuery).Results), &got, (*subtasksQuery).Results))
		}},
		{Name: "numbers of a savepoint", Least: 1, Most: 1, Says: []string{"savepoints without numbers"}, Try: func(n int64) error {
			q := jobQuery{savepoints: make([]Savepoint, 1), saved: make([][]numbered, n)}
			q.found = true
			return invalid(codec.DecodeFields(codec.EncodeFields(nil, &q, (*jobQuery).Results), &q, (*jobQuery).Results))
		}},
	})
}

// TestHeadersArrive: the headers of records in an exchange and of failures are the same after
// decoding. A failure's own headers replace them if there is no room for both.
func TestHeadersArrive(t *testing.T) {
	headers := []pipeline.Tag{{Name: "a", Value: "1"}, {Name: "b"}}
	p := passed{records: []pipeline.Record{{Headers: headers}}}
	if got, err := decode(encode(nil, &p, (*passed).code), (*passed).code); err != nil || !slices.Equal(got.records[0].Headers, headers) {
		t.Errorf("a record arrives as %+v, %v", got.records, err)
	}
	f := failure{reason: "why", headers: headers}
	got, err := decode(encode(nil, &f, (*failure).code), (*failure).code)
	if err != nil || !slices.Equal(got.headers, headers) {
		t.Fatalf("a failure arrives as %+v, %v", got, err)
	}
	if h := got.message().Headers; h["a"] != "1" || h[headerReason] != "why" {
		t.Errorf("headers %v", h)
	}
	got.headers = append(headers, pipeline.Tag{Name: "large", Value: strings.Repeat("x", engine.MaxHeaderBytes)})
	if h := got.message().Headers; len(h) != 6 || h[headerReason] != "why" || engine.CheckHeaders("stream", h) != nil {
		t.Errorf("without room there are %d headers: %.100v", len(h), h)
	}
}
