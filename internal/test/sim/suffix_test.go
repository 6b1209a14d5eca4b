package sim

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/kv"
)

// acknowledged notes a write that an async node may lose.
func (v *verdict) acknowledged(namespace string, e kv.Event) {
	if v.sim.plan.durability != shard.Async {
		return
	}
	w := check.Write{At: int64(v.sim.now), Revision: e.Revision, Key: namespace + "/" + e.Key, Value: string(e.Value)}
	if err := v.suffix.Acked(v.shardOf(w.Key), w); err != nil {
		v.sim.failf("%w", err)
	}
}

// shardOf returns the shard of a key; its name begins with its namespace.
func (v *verdict) shardOf(name string) engine.ShardID {
	ns, key, _ := strings.Cut(name, "/")
	if ns == spread {
		return engine.NameShard(ns, key, v.sim.plan.shards)
	}
	return engine.HomeShard(ns, v.sim.plan.shards)
}

// lookForSuffix is the work of an auditor after a power failure, before other clients may write.
// The lost acknowledged writes must be the newest ones. Their maximum age follows from what was
// durable, see lose.
func (v *verdict) lookForSuffix(c *client, life int) {
	c.auditor = true
	histories, ok := v.histories(c, life)
	if !ok {
		return // the node has ended again: the next auditor checks
	}
	lost, err := v.suffix.PowerFailed(int64(v.sim.now), int64(v.sim.now), func(_ engine.ShardID, w check.Write) (bool, error) {
		return survived(histories[w.Key], w), nil
	})
	if err != nil {
		v.sim.failf("%w", err)
	}
	v.sim.counts["lost"] += lost
	v.looking = false
}

// histories reads the versions of all keys.
func (v *verdict) histories(c *client, life int) (map[string][]kv.Version, bool) {
	all := make(map[string][]kv.Version)
	for _, name := range slices.Sorted(maps.Keys(v.names)) {
		ns, key, _ := strings.Cut(name, "/")
		for {
			versions, err := engine.Collect(engine.StoreOf[kv.Store](c.router, ns, maxValue).History(key).All(ctx))
			if err == nil || errors.Is(err, kv.ErrNotFound) {
				all[name] = versions
				break
			}
			if v.sim.nodes[0].life != life || !c.sleep(time.Millisecond) {
				return nil, false
			}
		}
	}
	return all, v.sim.nodes[0].life == life
}

// survived reports whether a write is in the history of its key, or so old that the history has
// dropped it.
func survived(versions []kv.Version, w check.Write) bool {
	if len(versions) == kv.MaxVersions && w.Revision < versions[len(versions)-1].Revision {
		return true
	}
	return slices.ContainsFunc(versions, func(v kv.Version) bool { return v.Revision == w.Revision && string(v.Value) == w.Value })
}
