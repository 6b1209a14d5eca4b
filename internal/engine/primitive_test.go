package engine

import (
	"errors"
	"reflect"
	"strings"
	"testing"
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
