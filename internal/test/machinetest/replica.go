package machinetest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/engine"
)

// Replica defines how a replica applies a log.
type Replica struct {
	Name       string
	Primitives []engine.Primitive // nil: those given to EqualReplicas
	Commit     int                // commits after this many entries; 0: with the last one
	// restarts after this many entries with what it has committed, and applies the others again; 0:
	// never
	Restart    int
	CacheBytes int64
	Forgetful  bool // its machines drop cached data whenever they may
}

// EqualReplicas lets replicas apply the log of one shard, whose leader changes now and then, and
// reports differences from the first one. Rows and state hashes must be equal, and Verify must
// report nothing. Two forgetful replicas are always added. EqualReplicas returns the rows.
func EqualReplicas(t testing.TB, log [][]byte, primitives []engine.Primitive, replicas ...Replica) []Row {
	t.Helper()
	var first *Rig
	replicas = append(slices.Clone(replicas),
		Replica{Name: "forgets", Commit: 1, Forgetful: true}, Replica{Name: "forgets by the way", Commit: 9, Restart: 55, Forgetful: true,
			CacheBytes: 1 << 20})
	for _, how := range replicas {
		if how.Primitives == nil {
			how.Primitives = primitives
		}
		r := Open(t, Config{Shards: 1, Primitives: how.Primitives, CacheBytes: how.CacheBytes, Forgetful: how.Forgetful})
		r.apply(log, how)
		r.Verify()
		if first == nil {
			first = r
			continue
		}
		if got, want := r.execs[0].Applied(), first.execs[0].Applied(); got != want {
			t.Errorf("%s: applied %+v, want %+v as %s", how.Name, got, want, replicas[0].Name)
		}
		r.compare(first, how.Name)
	}
	return first.Rows(0)
}

// entriesOfTerm is the number of log entries per leader.
const entriesOfTerm = 500

func (r *Rig) apply(log [][]byte, how Replica) {
	r.t.Helper()
	restartAt := how.Restart
	for i := 0; i < len(log); i++ {
		r.execs[0].Apply(uint64(1+i/entriesOfTerm), uint64(i+1), log[i], nil)
		if how.Commit > 0 && (i+1)%how.Commit == 0 || i == len(log)-1 {
			r.commitAll()
		}
		if how.Restart > 0 && i+1 == restartAt {
			r.Restart()
			restartAt += how.Restart
			i = int(r.execs[0].Applied().Index) - 1 // uncommitted entries are lost, and applied again from the log
		}
	}
}

func (r *Rig) compare(first *Rig, name string) {
	r.t.Helper()
	got, want := r.Rows(0), first.Rows(0)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) {
			r.t.Errorf("%s: %d rows, want %d", name, len(got), len(want))
			return
		}
		if g, w := got[i], want[i]; g.Machine != w.Machine || !bytes.Equal(g.Key, w.Key) || !bytes.Equal(g.Value, w.Value) {
			r.t.Errorf("%s: row %d %q = %q, want %d %q = %q", name, g.Machine, g.Key, g.Value, w.Machine, w.Key, w.Value)
			return
		}
	}
}
