package ts

import (
	"cmp"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// The progress of a measurement's rollups is recorded in rows that Apply writes, so that every
// replica, and every query, sees the same:
//
//	dirty rows         buckets of a tier that are to be computed anew; sealing points marks theirs
//	content.blocks     no block has points from before blocks.least(); points of blocks are marked when they are sealed
//	content.lost       of a tier, the time before which raw partitions have been removed after it was made of them
//
// A raw partition is removed when its points are too old and no bucket that contains its points can
// still change; see neededFrom.

// iterate opens an iterator of a view or a command.
type iterate func(lower, upper []byte) (*engine.Iter, error)

// firstDirty returns the first range of dirty buckets of a tier, and its end, or false if there is
// none. Later ranges begin after it.
func firstDirty(iter iterate, inc incarnation, id tierID) (until int64, d dirty, ok bool, err error) {
	prefix := tierKey(nil, rowDirty, inc, id)
	it, err := iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return 0, d, false, err
	}
	if ok = it.First(); ok {
		until = partitionOf(it.Key())
		d, err = decodeDirty(it.Value())
	}
	return until, d, ok, cmp.Or(err, it.Close())
}

// rolledUpTo returns the time before which every bucket of a tier contains all of its points. That
// is the earlier of the start of its first dirty bucket and the start of the bucket of the oldest
// point in a block. It is math.MaxInt64 if there is neither.
func (o *open) rolledUpTo(iter iterate, t *tier) (int64, error) {
	rolled := o.content.blocks.least()
	if o.content.blocks.points > 0 {
		rolled = bucketOf(rolled, t.every)
	}
	_, d, ok, err := firstDirty(iter, o.inc, t.id)
	if ok {
		rolled = min(rolled, d.from)
	}
	return rolled, err
}

// neededFrom returns the time from which points are kept. They are not too old, or belong to
// buckets that must still be computed, or recomputed because they can still receive points. So a
// bucket is always computed from all its points, even if it is longer than the retention. It also
// returns the tier that needs the oldest points, nil if none needs any.
func (o *open) neededFrom(now int64, iter iterate) (needed int64, by *tier, err error) {
	oldest := o.policy.oldest(now)
	needed = oldest
	for i := range o.policy.tiers {
		t := &o.policy.tiers[i]
		rolled, err := o.rolledUpTo(iter, t)
		if err != nil {
			return 0, nil, err
		}
		from := min(bucketOf(oldest, t.every), rolled)
		if from = max(from, bucketOf(t.oldest(now), t.every)); from < needed { // buckets beyond the tier's TTL need not be computed
			needed, by = from, t
		}
	}
	return needed, by, nil
}
