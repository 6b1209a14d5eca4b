package kv_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// TestReplicasAreEqual applies one random log on three replicas that commit at different times, one
// of which restarts midway. All rows and the state's hash are equal.
func TestReplicasAreEqual(t *testing.T) {
	log := randomLog(rand.New(rand.NewPCG(machinetest.Seed(t), 0)), 2000)
	rows := machinetest.EqualReplicas(t, log, primitives,
		machinetest.Replica{Name: "commits each", Commit: 1},
		machinetest.Replica{Name: "commits 7", Commit: 7},
		machinetest.Replica{Name: "commits all", CacheBytes: 1 << 20},
		machinetest.Replica{Name: "restarts", Commit: 13, Restart: len(log) / 2},
		machinetest.Replica{Name: "restarts often", Commit: 5, Restart: 101, CacheBytes: 1 << 20},
	)
	if c := recountRows(rows); len(c.errs) > 0 {
		t.Errorf("the rows do not fit together: %v", c.errs)
	}
}

// randomLog makes entries of 1 to 5 commands: operations in two namespaces, transactions that often
// fail, and Fire.
func randomLog(rng *rand.Rand, entries int) (log [][]byte) {
	m := &model{rng: rng, keys: make(map[string]*modelKey), pass: func() {}, now: func() int64 { return machinetest.Epoch }}
	stamp := int64(machinetest.Epoch)
	for range entries {
		if stamp += rng.Int64N(200); rng.IntN(50) == 0 {
			stamp += rng.Int64N(13) * time.Hour.Milliseconds()
		}
		e := engine.Entry{Stamp: stamp - rng.Int64N(100)} // a leader's clock may lag
		for range rng.IntN(5) + 1 {
			cmd := engine.Fire()
			switch rng.IntN(10) {
			case 0:
			case 1, 2, 3:
				cmd = transaction(m)
			default:
				cmd, _ = engine.OpOf(m.draw().op).Limit(kv.DefaultMaxValueBytes)
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

// capture is a Door that keeps the proposed command and knows no namespaces.
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
