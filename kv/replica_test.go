package kv_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestReplicasAreEqual applies one random log on three replicas that commit at different times, one of which starts anew in
// the middle: all rows and the state's hash are equal.
func TestReplicasAreEqual(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	log := randomLog(rand.New(rand.NewPCG(seed, 0)), 2000)
	every := replay(t, log, 1, false)
	for _, other := range []replica{replay(t, log, 7, false), replay(t, log, len(log), false), replay(t, log, 13, true)} {
		if other.applied != every.applied {
			t.Errorf("%s: applied %+v, want %+v", other.name, other.applied, every.applied)
		}
		if len(other.rows) != len(every.rows) {
			t.Errorf("%s: %d rows, want %d", other.name, len(other.rows), len(every.rows))
			continue
		}
		for i, want := range every.rows {
			if got := other.rows[i]; got.machine != want.machine || !bytes.Equal(got.key, want.key) || !bytes.Equal(got.value, want.value) {
				t.Errorf("%s: row %q = %q, want %q = %q", other.name, got.key, got.value, want.key, want.value)
				break
			}
		}
	}
	if c := takeCensus(every.rows); len(c.errs) > 0 {
		t.Errorf("the rows do not fit together: %v", c.errs)
	}
}

// randomLog makes entries of 1 to 5 commands: operations in two namespaces, transactions of which many fail, and Fire.
func randomLog(rng *rand.Rand, entries int) (log [][]byte) {
	m := &model{rng: rng, keys: make(map[string]*modelKey), pass: func() {}, now: func() int64 { return epoch }}
	stamp := int64(epoch)
	for range entries {
		if stamp += rng.Int64N(200); rng.IntN(50) == 0 {
			stamp += rng.Int64N(13) * time.Hour.Milliseconds()
		}
		e := engine.Entry{Stamp: stamp - rng.Int64N(100)} // a leader's clock may be behind
		for range rng.IntN(5) + 1 {
			cmd := engine.Fire()
			switch rng.IntN(10) {
			case 0:
			case 1, 2, 3:
				cmd = transaction(m)
			default:
				cmd, _ = m.draw().op.Limit(kv.DefaultMaxValueBytes)
			}
			if cmd.Machine == engine.MachineKV {
				cmd.Namespace = fmt.Sprint("n", rng.IntN(2))
			}
			e.Commands = append(e.Commands, cmd.AppendTo(nil))
		}
		log = append(log, e.AppendTo(nil))
	}
	return log
}

// capture is a Door that keeps what is proposed and knows no namespace.
type capture struct{ cmd engine.Command }

func (*capture) Shards() int { return 1 }

func (*capture) Query(context.Context, engine.ShardID, engine.Query) error { return nil }

func (*capture) Take(context.Context, engine.ShardID, engine.Take) ([]byte, error) { return nil, nil }

func (c *capture) Propose(_ context.Context, _ engine.ShardID, cmd engine.Command) ([]byte, error) {
	c.cmd = cmd
	return nil, kv.ErrConflict
}

func transaction(m *model) engine.Command {
	c := &capture{}
	txn := engine.NewTxn(engine.NewRouter(c), "n0", kv.DefaultMaxValueBytes)
	if m.rng.IntN(3) == 0 {
		txn.If([]engine.Condition{kv.Absent(m.key("pcj")), kv.Present(m.key("pcj"))}[m.rng.IntN(2)])
	}
	for range m.rng.IntN(4) + 1 {
		txn.Do(m.draw().op)
	}
	txn.Commit(context.Background())
	return c.cmd
}

type replica struct {
	name    string
	applied engine.Applied
	rows    []stateRow
}

// replay applies the log, committing after every n entries.
func replay(t *testing.T, log [][]byte, n int, restart bool) replica {
	db := openPebble(t)
	x := newExecutor(t, db, 0, 1)
	restartAt := 0
	if restart {
		restartAt = len(log) / 2
	}
	for i := 0; i < len(log); i++ {
		x.Apply(uint64(1+i/500), uint64(i+1), log[i], nil)
		if (i+1)%n == 0 || i == len(log)-1 {
			if err := x.Commit(); err != nil {
				t.Fatalf("Commit: %v", err)
			}
		}
		if i == restartAt && i > 0 {
			// What was not committed is lost and comes again from the log.
			x, restartAt = newExecutor(t, db, 0, 1), 0
			i = int(x.Applied().Index) - 1
		}
	}
	problems(t, x, func(p string) { t.Errorf("Verify reports: %s", p) })
	return replica{fmt.Sprintf("commit every %d, restart %v", n, restart), x.Applied(), rows(t, db, 0)}
}
