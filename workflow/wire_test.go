package workflow

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestAttributesOfListing: a listing by at most one attribute keeps its original encoding, and one
// by several appends them at the end.
func TestAttributesOfListing(t *testing.T) {
	ask := func(attributes ...string) []byte {
		t.Helper()
		q := runsQuery{namespace: "n", filter: filter{workflow: "w", attributes: attributes, after: 1, before: 2}, before: 3, limit: 4}
		b := codec.EncodeFields(nil, &q, (*runsQuery).Arguments)
		var got runsQuery
		if err := codec.DecodeFields(b, &got, (*runsQuery).Arguments); err != nil || !reflect.DeepEqual(got, q) {
			t.Errorf("attributes %q: %+v, want %+v: %v", attributes, got, q, err)
		}
		return b
	}
	none, one, two := ask(), ask("a"), ask("a", "b")
	if want := bytes.Replace(none, []byte("\x01w\x00\x00\x00"), []byte("\x01w\x00\x00\x01a"), 1); !bytes.Equal(one, want) ||
		!bytes.HasPrefix(two, one) {
		t.Errorf("one attribute is asked for as %x, want %x, and two as %x", one, want, two)
	}
	var many []string
	for i := range flow.MaxAttributes {
		many = append(many, fmt.Sprint(i))
	}
	ask(many...)
	q := runsQuery{filter: filter{attributes: append(many, "more"), before: math.MaxInt64}, limit: 1}
	if b := codec.EncodeFields(nil, &q, (*runsQuery).Arguments); codec.DecodeFields(b, &q, (*runsQuery).Arguments) == nil {
		t.Errorf("%d attributes are read", len(q.filter.attributes))
	}
}

// TestOutOfRange: rows and queries with values out of range do not decode.
func TestOutOfRange(t *testing.T) {
	invalid := func(err error) error {
		if err != nil {
			return engine.Errorf(ErrInvalid, "%v", err)
		}
		return nil
	}
	asked := func(q runsQuery) error {
		q.filter.workflow = "w"
		return invalid(codec.DecodeFields(codec.EncodeFields(nil, &q, (*runsQuery).Arguments), &q, (*runsQuery).Arguments))
	}
	plan := func(p planState) error {
		_, err := decode(encode(nil, &p, (*planState).code), (*planState).code)
		return invalid(err)
	}
	const none = math.MinInt64
	machinetest.TryLimits(t, []machinetest.Limit{
		{Name: "phase of a call", Least: none, Most: int64(phaseEnd) - 1, Says: []string{"call in phase"}, Try: func(n int64) error {
			_, err := decode(encode(nil, &callState{phase: phase(n)}, (*callState).code), (*callState).code)
			return invalid(err)
		}},
		{Name: "executor of a plan", Least: -1, Most: flow.MaxExecutors - 1, Says: []string{"plan at executor"},
			Try: func(n int64) error { return plan(planState{begun: true, at: int(n)}) }},
		{Name: "next of a plan", Least: none, Most: int64(planNextEnd) - 1, Says: []string{"plan at executor 1"},
			Try: func(n int64) error { return plan(planState{begun: true, at: 1, next: planNext(n)}) }},
		{Name: "state of a breaker", Least: none, Most: int64(breakerEnd) - 1, Says: []string{"breaker in state"},
			Try: func(n int64) error {
				_, err := decode(encode(nil, &executorRow{state: breakerState(n)}, (*executorRow).code), (*executorRow).code)
				return invalid(err)
			}},
		{Name: "cooldown", Least: 0, Most: math.MaxInt64, Says: []string{"cooldown out of range"}, Try: func(n int64) error {
			v := planBody{cooldown: n}
			return invalid(codec.DecodeFields(codec.EncodeFields(nil, &v, (*planBody).code), &v, (*planBody).code))
		}},
		{Name: "state of runs", Least: none, Most: int64(TimedOut), Says: []string{"unknown state"},
			Try: func(n int64) error { return asked(runsQuery{filter: filter{status: Status(n)}, limit: 1}) }},
		{Name: "limit of runs", Least: 1, Most: engine.MaxPageItems, Says: []string{"limit out of range"},
			Try: func(n int64) error { return asked(runsQuery{limit: int(n)}) }},
		{Name: "numbers of a run", Least: 1, Most: 1, Says: []string{"as many numbers as runs"}, Try: func(n int64) error {
			q := runsQuery{items: make([]RunInfo, 1), numbers: make([]uint64, n)}
			return invalid(codec.DecodeFields(codec.EncodeFields(nil, &q, (*runsQuery).Results), &q, (*runsQuery).Results))
		}},
	})
	machinetest.TryLimits(t, []machinetest.Limit{
		versionOf("plan", planRow{}, (*planRow).code), versionOf("cache", cacheRow{}, (*cacheRow).code),
		versionOf("workflow", record{}, (*record).code), versionOf("version", versionRow{}, (*versionRow).code),
		versionOf("run", header{status: Pending}, (*header).code), versionOf("step", stepRow{}, (*stepRow).layout),
		versionOf("schedule", scheduleRow{}, (*scheduleRow).code), versionOf("trigger", triggerRow{}, (*triggerRow).code),
	})
	attributes := func(all ...string) (got RunInfo, err error) {
		c := codec.NewEncoder(nil)
		codec.List(&c, &all, (*codec.Coder).String)
		return decode(c.Encoded(), (*RunInfo).codeAttributes)
	}
	if got, err := attributes(string(appendAttribute(nil, "a", 1.5))); err != nil || got.Attributes["a"] != 1.5 {
		t.Errorf("attributes %v, %v", got.Attributes, err)
	}
	if got, err := attributes("a"); err == nil {
		t.Errorf("a malformed attribute is read as %v", got.Attributes)
	}
}

// versionOf tries versions of a kind of row, which its first byte tells.
func versionOf[R any](kind string, row R, code func(*R, *codec.Coder)) machinetest.Limit {
	return machinetest.Limit{Name: kind + " row", Least: 1, Most: 1, Says: []string{kind + " row of version"}, Try: func(n int64) error {
		_, err := decode(append([]byte{byte(n)}, encode(nil, &row, code)[1:]...), code)
		if err != nil {
			return engine.Errorf(ErrInvalid, "%v", err)
		}
		return nil
	}}
}

// TestDuration: the duration of a run is 0 until it has ended.
func TestDuration(t *testing.T) {
	r := RunInfo{StartedAt: time.UnixMilli(1000)}
	if got := r.Duration(); got != 0 {
		t.Errorf("of a run that has not ended: %v", got)
	}
	r.CompletedAt = time.UnixMilli(3000)
	if got := r.Duration(); got != 2*time.Second {
		t.Errorf("%v, want 2s", got)
	}
}

// TestStartedInJSON: the result of a start shows the ID of the run in JSON.
func TestStartedInJSON(t *testing.T) {
	v := started{id: "mine"}
	if shown, _ := codec.AppendJSON(nil, true, v.code); !bytes.Contains(shown, []byte(`"run_id":"mine"`)) {
		t.Errorf("it is shown as %s", shown)
	}
}
