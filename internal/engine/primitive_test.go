package engine

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/codec"
)

// TestCountsAreAll: every number of Counts is sent and summed.
func TestCountsAreAll(t *testing.T) {
	var c Counts
	all := c.fields()
	if fields := reflect.TypeFor[Counts]().NumField(); len(all) != fields {
		t.Fatalf("%d numbers of %d", len(all), fields)
	}
	for i := range all {
		field := reflect.ValueOf(&c).Elem().Field(i).Addr().Interface().(*int64)
		if *field++; *all[i].v != 1 {
			t.Errorf("number %d is not the field in that place", i)
		}
	}
}

func TestCheckEmpty(t *testing.T) {
	for want, c := range map[string]Counts{
		"": {KeyBytes: 1, KeyReads: 1, KeySets: 1, KeyDeletes: 1, DeadKeys: 1, Series: 1, Points: 1, RunsStarted: 1, RunsCompleted: 1,
			RunsFailed: 1, RunsCancelled: 1, RunsTimedOut: 1, Signals: 1, Timers: 1, Steps: 1, Schedules: 1, CompensationsFailed: 1},
		"1 key": {Keys: 1},
		"1 stream, 1 queue, 1 measurement, 1 action, 1 workflow, 1 active workflow run, 1 processing job": {Streams: 1, Queues: 1,
			Measurements: 1, Actions: 1, Workflows: 1, RunsActive: 1, Jobs: 1},
		"2 keys, 3 streams": {Keys: 2, Streams: 3},
	} {
		err := c.checkEmpty("ns")
		if want == "" {
			if err != nil {
				t.Errorf("without contents: %v", err)
			}
		} else if !errors.Is(err, ErrConflict) || err.Error() != `namespace "ns" is not empty: `+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestCounters: the counters of the machines are stored without their trailing zeros, and mapped to
// fields and names.
func TestCounters(t *testing.T) {
	tab := newTable([]Primitive{
		{ID: MachineKV, Name: "a", New: func() Machine { return nil }, Counters: countersOf(3)},
		{ID: MachineQueue, Name: "b", New: func() Machine { return nil }, Counters: []CounterType{
			{0, "x", func(c *Counts) *int64 { return &c.Queues }}, {1, "y", func(c *Counts) *int64 { return &c.Jobs }},
		}, Reads: func(c *Counts) *int64 { return &c.Steps }},
	})
	counters := []int64{1, 2, 3, 4, 5}
	if got := tab.counts(counters, 6); got != (Counts{Keys: 1, KeyBytes: 2, KeyReads: 3, Queues: 4, Jobs: 5, Steps: 6}) {
		t.Errorf("counts: %+v", got)
	}
	for i, want := range []string{"a counter 0", "a counter 1", "a counter 2", "b counter x", "b counter y", "counter 5"} {
		if got := tab.counterName(i); got != want {
			t.Errorf("counter %d is %q, want %q", i, got, want)
		}
	}
	for want, counters := range map[string][]int64{
		"\x00": {0, 0, 0, 0, 0}, "\x01\x01\x02\x00\x02": {0, 1, 0, 0, 0}, "\x01\x03\x02\x00\x01": {0, 0, 0, 0, -1},
		"\x02\x01\x01\x02\x03\x01\x04": {1, 0, 0, 2, 0},
	} {
		b := tab.appendCounters([]byte("_"), counters)
		r := codec.NewReader(b[1:])
		back, err := tab.readCounters(&r)
		if string(b) != "_"+want || err != nil || !slices.Equal(back, counters) || r.Len() != 0 {
			t.Errorf("%d is stored as %q, want %q, and read as %d, %v", counters, b, want, back, err)
		}
	}
	for _, b := range []string{
		"\x01\x02\x01\x02",             // of an unknown machine
		"\x01\x63\x01\x02",             // of an impossible one
		"\x01\x01\x00",                 // none of a machine
		"\x01\x01\x04\x02\x02\x02\x02", // more than it has
		"\x02\x03\x01\x02\x01\x01\x02", // in another order
		"\x02\x01\x01\x02\x01\x01\x02", // twice
		"\x01\x01\x02\x02\x00",         // with a zero at the end
		"\x01\x01\x02\x02",             // cut
		"\x01\x01", "\x01",
	} {
		r := codec.NewReader([]byte(b))
		if got, err := tab.readCounters(&r); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%q is read as %d, %v", b, got, err)
		}
	}
}

// TestTablesThatAreNone: errors in a table are found before anything is opened with it.
func TestTablesThatAreNone(t *testing.T) {
	own := enginePrimitive()
	if err := own.Check(); err != nil {
		t.Error(err)
	}
	make := func() Machine { return nil }
	admit := func(Command, int) error { return nil }
	for name, tt := range map[string]struct {
		p     Primitive
		words string
	}{
		"no name":         {Primitive{ID: MachineKV, New: make}, "number, name or constructor"},
		"no constructor":  {Primitive{ID: MachineKV, Name: "x"}, "number, name or constructor"},
		"number too high": {Primitive{ID: maxMachines, Name: "x", New: make}, "number, name or constructor"},
		"gap": {Primitive{ID: MachineKV, Name: "x", New: make, Commands: []CommandType{
			{Kind: 2, Name: "a", From: FromUsers, Admit: admit},
		}}, "command 1: kind 2"},
		"twice": {Primitive{ID: MachineKV, Name: "x", New: make, Commands: []CommandType{
			{Kind: 1, Name: "a", From: FromUsers, Admit: admit}, {Kind: 1, Name: "b", From: FromUsers, Admit: admit},
		}}, "command 2: kind 1"},
		"name twice": {Primitive{ID: MachineKV, Name: "x", New: make, Commands: []CommandType{
			{Kind: 1, Name: "a", From: FromUsers, Admit: admit}, {Kind: 2, Name: "a", From: FromUsers, Admit: admit},
		}}, `command 1 is called "a"`},
		"of nobody": {Primitive{ID: MachineKV, Name: "x", New: make, Commands: []CommandType{{Kind: 1, Name: "a"}}}, "senders 0"},
		"not admitted": {Primitive{ID: MachineKV, Name: "x", New: make, Commands: []CommandType{{Kind: 1, Name: "a", From: FromUsers}}},
			"a function to admit it: false"},
		"foreign query": {Primitive{ID: MachineKV, Name: "x", New: make, Queries: []QueryType{
			QueryRow(1, "a", func(Machine, *View, *NamespaceQuery) error { return nil }),
		}}, "makes 1 of machine 0"},
		"error out of turn": {Primitive{ID: MachineKV, Name: "x", New: make, Errors: []ErrorType{
			NewErrorType(2, "a", codeNotLeader),
		}}, "error 1: kind 2"},
		"empty error": {Primitive{ID: MachineKV, Name: "x", New: make, Errors: []ErrorType{{Kind: 1, Name: "a"}}}, "can be made: false"},
		"counter out of turn": {Primitive{ID: MachineKV, Name: "x", New: make, Counters: []CounterType{
			{1, "a", func(c *Counts) *int64 { return &c.Keys }},
		}}, "counter 0: number 1"},
	} {
		if err := tt.p.Check(); err == nil || !strings.Contains(err.Error(), tt.words) {
			t.Errorf("%s: %v, want it to say %q", name, err, tt.words)
		}
	}
}
