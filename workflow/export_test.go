package workflow

import (
	"context"

	"github.com/floedb/floe/internal/engine"
)

// ShardOf returns the shard of a run with a generated id.
func ShardOf(id RunID) (shard int, ok bool) {
	p, err := id.parse()
	return int(p.shard), err == nil
}

// TableOf returns the primitive with machines whose plans cache up to the given limits.
func TableOf(maxCached, maxCachedBytes int64) engine.Primitive {
	p := table()
	p.New = func() engine.Machine {
		m := newMachine()
		m.maxCached, m.maxCachedBytes = maxCached, maxCachedBytes
		return m
	}
	return p
}

// TableLimitedTo returns the primitive with machines whose runs have at most maxEvents events.
func TableLimitedTo(maxEvents int64) engine.Primitive {
	p := table()
	p.New = func() engine.Machine {
		m := newMachine()
		m.maxEvents = maxEvents
		return m
	}
	return p
}

// TableOfVersions returns the primitive with machines whose workflows have at most maxVersions
// versions.
func TableOfVersions(maxVersions uint32) engine.Primitive {
	p := table()
	p.New = func() engine.Machine {
		m := newMachine()
		m.maxVersions = maxVersions
		return m
	}
	return p
}

// Fallbacks are the targets of outcomes without a transition.
var Fallbacks = fallbacks

// Unheard exports unheard for tests.
func (s *Store) Unheard(ctx context.Context, name string) bool { return s.unheard(ctx, name) }
