package primitive

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
)

// TestTables compares the tables of all primitives with testdata/tables.txt: their numbers are in
// logs, in states and in what is sent, so none may change its meaning. What is new is added to the
// file; nothing else in it changes.
func TestTables(t *testing.T) {
	var b strings.Builder
	ids, names := make(map[engine.MachineID]bool), make(map[string]bool)
	for _, p := range All() {
		if err := p.Check(); err != nil {
			t.Error(err)
		}
		if ids[p.ID] || names[p.Name] {
			t.Errorf("number %d or name %q is there twice", p.ID, p.Name)
		}
		ids[p.ID], names[p.Name] = true, true
		fmt.Fprintf(&b, "%d %s\n", p.ID, p.Name)
		for _, c := range p.Commands {
			fmt.Fprintf(&b, "command %d %s:%s\n", c.Kind, c.Name, attributes(c))
		}
		for _, q := range p.Queries {
			fmt.Fprintf(&b, "query %d %s\n", q.Kind, q.Name)
		}
		for _, e := range p.Errors {
			fmt.Fprintf(&b, "error %d %s\n", e.Kind, e.Name)
		}
		for _, c := range p.Counters {
			fmt.Fprintf(&b, "counter %d %s\n", c.Counter, c.Name)
		}
	}
	want, err := os.ReadFile("testdata/tables.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("the tables are:\n%s\nwant:\n%s", got, want)
	}
}

func attributes(c engine.CommandType) (s string) {
	for _, from := range []struct {
		bit  engine.Senders
		name string
	}{{engine.FromUsers, "users"}, {engine.FromShards, "shards"}, {engine.FromLeaders, "leaders"}} {
		if c.From&from.bit != 0 {
			s += " " + from.name
		}
	}
	if c.Shrinks {
		s += ", shrinks"
	}
	return s
}

// TestCountersAreShownOnce: no two counters are shown in the same place, and each place is a number
// of its own.
func TestCountersAreShownOnce(t *testing.T) {
	var c engine.Counts
	shown := make(map[*int64]string)
	for _, p := range All() {
		for _, counter := range p.Counters {
			name := p.Name + " " + counter.Name
			if other := shown[counter.Field(&c)]; other != "" {
				t.Errorf("%s and %s are shown in the same place", name, other)
			}
			shown[counter.Field(&c)] = name
		}
		if p.Reads != nil {
			if other := shown[p.Reads(&c)]; other != "" {
				t.Errorf("reads of %s and %s are shown in the same place", p.Name, other)
			}
			shown[p.Reads(&c)] = p.Name + " reads"
		}
	}
}
