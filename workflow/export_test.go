package workflow

import "github.com/floedb/floe/internal/engine"

// ShardOf returns the shard of a run whose id is floe's own.
func ShardOf(id RunID) (shard int, ok bool) {
	p, err := id.parse()
	return int(p.shard), err == nil
}

// TableOf returns the primitive with machines whose plans cache so much at most.
func TableOf(maxCached, maxCachedBytes int64) engine.Primitive {
	p := table()
	p.New = func() engine.Machine { return newMachineOf(maxCached, maxCachedBytes) }
	return p
}
