package workflow

import (
	"context"

	"github.com/floedb/floe/internal/engine"
)

// ShardOf returns the shard of a run whose id is floe's own.
func ShardOf(id RunID) (shard int, ok bool) {
	p, err := id.parse()
	return int(p.shard), err == nil
}

// TableOf returns the primitive with machines whose plans cache so much at most.
func TableOf(maxCached, maxCachedBytes int64) engine.Primitive {
	p := table()
	p.New = func() engine.Machine {
		m := newMachine()
		m.maxCached, m.maxCachedBytes = maxCached, maxCachedBytes
		return m
	}
	return p
}

// TableLimitedTo returns the primitive with machines whose runs have so many events at most.
func TableLimitedTo(maxEvents int64) engine.Primitive {
	p := table()
	p.New = func() engine.Machine {
		m := newMachine()
		m.maxEvents = maxEvents
		return m
	}
	return p
}

// TableOfVersions returns the primitive with machines whose workflows have so many versions at
// most.
func TableOfVersions(maxVersions uint32) engine.Primitive {
	p := table()
	p.New = func() engine.Machine {
		m := newMachine()
		m.maxVersions = maxVersions
		return m
	}
	return p
}

// Fallbacks are where outcomes without a transition lead.
var Fallbacks = fallbacks

// Unheard is unheard, for tests.
func (s *Store) Unheard(ctx context.Context, name string) bool { return s.unheard(ctx, name) }
