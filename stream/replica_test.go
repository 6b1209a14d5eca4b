package stream_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// TestReplicasAreEqual applies one random log on replicas that commit at different times, cache
// different amounts and restart in the middle: all rows and the state's hash are equal.
func TestReplicasAreEqual(t *testing.T) {
	log := randomLog(t, rand.New(rand.NewPCG(machinetest.Seed(t), 0)), 1000)
	machinetest.EqualReplicas(t, log, []engine.Primitive{engine.TableOf[stream.Store]()},
		machinetest.Replica{Name: "commits each", Commit: 1, CacheBytes: 1 << 20},
		machinetest.Replica{Name: "commits 7", Commit: 7},
		machinetest.Replica{Name: "commits all", CacheBytes: 1 << 20},
		machinetest.Replica{Name: "restarts", Commit: 13, Restart: 500},
		machinetest.Replica{Name: "restarts often", Commit: 1, Restart: 3, CacheBytes: 1 << 20},
		machinetest.Replica{Name: "restarts late", Commit: 40, Restart: 777},
	)
}

// capture is a Door that keeps the proposed command and knows no namespace.
type capture struct{ cmd engine.Command }

func (*capture) Shards() int { return 1 }

func (*capture) Query(context.Context, engine.ShardID, engine.Query) error { return nil }

func (*capture) Take(context.Context, engine.ShardID, engine.Take) ([]byte, error) { return nil, nil }

func (c *capture) Propose(_ context.Context, _ engine.ShardID, cmd engine.Command) ([]byte, error) {
	c.cmd = cmd
	return nil, stream.ErrConflict
}

// randomLog makes entries of 1 to 5 commands: operations in two namespaces, transactions that often
// fail, and Fire.
func randomLog(t *testing.T, rng *rand.Rand, entries int) (log [][]byte) {
	r, s := newStore(t)
	m := &model{t: t, rng: rng, ground: r, store: s, streams: make(modelState), partitions: 5}
	stamp := int64(machinetest.Epoch)
	for range entries {
		if stamp += rng.Int64N(20); rng.IntN(30) == 0 {
			stamp += rng.Int64N(5) * 3_600_000
		}
		e := engine.Entry{Stamp: stamp - rng.Int64N(10)} // a leader's clock may be behind
		for range rng.IntN(5) + 1 {
			cmd := engine.Fire()
			switch n := rng.IntN(10); {
			case n == 0:
			case n < 4:
				c := &capture{}
				txn := engine.NewTxn(engine.NewRouter(c), "n", stream.DefaultMaxPayloadBytes)
				if rng.IntN(3) == 0 {
					txn.If(stream.LastIDIs(m.name(), rng.IntN(2), stream.ID{}))
				}
				for range 1 + rng.IntN(4) {
					txn.Do(randomOp(m))
				}
				txn.Commit(t.Context())
				cmd = c.cmd
			default:
				cmd, _ = engine.OpOf(randomOp(m)).Limit(stream.DefaultMaxPayloadBytes)
			}
			if cmd.Machine == engine.MachineStream {
				cmd.Namespace = []string{"n", "o"}[rng.IntN(2)]
			}
			e.Commands = append(e.Commands, cmd.AppendTo(nil))
		}
		log = append(log, e.AppendTo(nil))
	}
	return log
}

// randomOp returns an operation on a stream, or on one of its groups.
func randomOp(m *model) engine.Operation {
	if m.rng.IntN(2) == 0 {
		return m.draw(m.name()).op
	}
	rng, name := m.rng, m.name()
	mode := stream.Mode(rng.IntN(3))
	group, consumer := mode.String(), string(rune('a'+rng.IntN(3)))
	refs := make([]stream.Ref, 1+rng.IntN(6))
	at := stream.Ref{Partition: rng.IntN(m.partitions), Offset: 1 + rng.Uint64N(30), Attempt: rng.IntN(3)}
	for i := range refs {
		if refs[i] = at; rng.IntN(3) == 0 {
			refs[i].Offset = 1 + rng.Uint64N(30)
		}
		at.Offset++
	}
	slices.SortFunc(refs, func(a, b stream.Ref) int { return cmp.Compare(a.Offset, b.Offset) })
	refs = slices.Compact(refs)
	switch n := rng.IntN(43); {
	case n < 18:
		opts := []stream.GroupReadOption{
			stream.Limit(1 + rng.IntN(12)), stream.InMode(mode), stream.AckTimeout(time.Duration(1+rng.IntN(200)) * time.Millisecond),
			stream.MaxAttempts(rng.IntN(4)), stream.Backoff(time.Duration(rng.IntN(2)*20)*time.Millisecond, 100*time.Millisecond),
		}
		if rng.IntN(4) == 0 {
			opts = append(opts, stream.NoAck())
		}
		return stream.ReadGroupOp(name, group, consumer, opts...)
	case n < 24:
		refs[0].Attempt = 0
		return stream.AckOp(name, group, refs[0])
	case n < 30:
		return stream.NackOp(name, group, refs, stream.Delay(time.Duration(rng.IntN(3)*rng.IntN(60))*time.Millisecond),
			stream.Reason("random"))
	case n < 33:
		return stream.NackOp(name, group, refs)
	case n < 35:
		return stream.ExtendOp(name, group, refs, time.Duration(1+rng.IntN(300))*time.Millisecond)
	case n < 38:
		return stream.LeaveOp(name, group, consumer)
	case n < 39:
		return stream.SeekOp(name, group, stream.FromBeginning())
	case n < 40:
		return stream.SeekOp(name, group, stream.FromEnd(), stream.Partition(rng.IntN(m.partitions)))
	case n < 42:
		opts := []stream.SettingOption{stream.MaxAttempts(rng.IntN(4)),
			stream.AckTimeout(time.Duration(1+rng.IntN(200)) * time.Millisecond), stream.Backoff(0, time.Second)}
		return stream.ConfigureGroupOp(name, group, opts[rng.IntN(3)])
	}
	return stream.DeleteGroupOp(name, group)
}
