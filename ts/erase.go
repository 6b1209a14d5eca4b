package ts

import (
	"context"
	"slices"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// The deletion of a time range is a row that hides earlier writes: those in blocks and chunks up to
// its LSN. Queries skip hidden points, and sealing does not move them into chunks. The duty's purge
// rewrites the chunks that contain hidden points and then removes the row. Later writes are not
// affected.
//
// Buckets of rollups with points in the range are hidden too. Those whose points still exist become
// dirty, and are recomputed after the purge. Other buckets are deleted if they lie wholly in the
// range, and stay unchanged if they lie partly in it.

// erasure is the row of the deletion of a time range.
type erasure struct {
	upTo   uint64 // LSN, from the key
	ids    []seriesID
	ranges []erasedRange
}

// erasedRange is the part of a tier that a deletion hides: points, or buckets by their start. Empty
// ids mean all series.
type erasedRange struct {
	tier     tierID
	from, to int64
}

func (e *erasure) code(c *codec.Coder) {
	codeVersion(c)
	codec.List(c, &e.ids, func(c *codec.Coder, id *seriesID) { c.Uint32((*uint32)(id)) })
	codec.List(c, &e.ranges, func(c *codec.Coder, r *erasedRange) {
		c.Uint16((*uint16)(&r.tier))
		c.Varint(&r.from)
		c.Varint(&r.to)
	})
	if len(e.ids) > maxDeletes || len(e.ranges) > MaxTiers+1 || !slices.IsSorted(e.ids) {
		c.Fail("deletion of a range with too many series or ranges, or series out of order")
	}
}

func decodeErasure(b []byte) (erasure, error) { return decode(b, "erasure", (*erasure).code) }

// maxErasures bounds the deletions of time ranges not yet purged, because each is checked for each
// chunk that a query reads.
const maxErasures = 256

// erasures reads the deletions of time ranges.
func (o *open) erasures(v *engine.View) (all []erasure, err error) {
	if o.content.erased == 0 {
		return nil, nil
	}
	prefix := incKey(nil, rowErased, o.inc)
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var e erasure
		e, err = decodeErasure(it.Value())
		e.upTo = blockLSN(it.Key())
		all = append(all, e)
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return all, err
}

// hole is a hidden range of times, of some series or of all.
type hole struct {
	from, to int64
	ids      []seriesID // ascending; empty: all
}

// holesOf returns the holes of a tier in writes up to an LSN.
func holesOf(all []erasure, tier tierID, lsn uint64) (holes []hole) {
	for i := range all {
		for _, r := range all[i].ranges {
			if r.tier == tier && lsn <= all[i].upTo {
				holes = append(holes, hole{r.from, r.to, all[i].ids})
			}
		}
	}
	return holes
}

// has reports whether a point of a series is hidden if its time is within the range.
func (h *hole) has(id seriesID) bool {
	if len(h.ids) == 0 {
		return true
	}
	_, ok := slices.BinarySearch(h.ids, id)
	return ok
}

// outside calls f with the parts of a run that are in none of the holes.
func outside(holes []hole, id seriesID, times []int64, values []float64, f func(times []int64, values []float64) error) error {
	for i := range holes {
		h := &holes[i]
		if len(times) == 0 || times[0] >= h.to || times[len(times)-1] < h.from || !h.has(id) {
			continue
		}
		from, _ := slices.BinarySearch(times, h.from)
		to, _ := slices.BinarySearch(times, h.to)
		if from == to {
			continue
		}
		if err := outside(holes[i+1:], id, times[:from], values[:from], f); err != nil {
			return err
		}
		times, values = times[to:], values[to:]
	}
	if len(times) == 0 {
		return nil
	}
	return f(times, values)
}

// rangeBody deletes a time range.
type rangeBody struct {
	all      bool // all series; the incarnation is then ignored
	from, to int64
	of       string // the measurement of the series, "" of none
	seriesBody
}

func (r *rangeBody) code(f *codec.Fields) {
	f.Bool("all", &r.all)
	f.Varint("from_ms", &r.from, codec.Range{Min: minTime, Max: maxTime})
	f.Varint("to_ms", &r.to, codec.Range{Min: minTime, Max: maxTime + 1})
	f.Text("series_of", &r.of)
	r.seriesBody.code(f)
}

func (r *rangeBody) check() error {
	if r.from >= r.to {
		return engine.Errorf(ErrInvalid, "ts: the range from %d ms to %d ms is empty", r.from, r.to)
	}
	if r.of == "" {
		return nil
	}
	return checkMeasurement(r.of)
}

// deleteRange hides the points of a range, of all series or of those listed, and returns the number
// of series.
func (s *session) deleteRange(r *rangeBody) (n int64, err error) {
	m, tx := s.machine, s.tx
	o := m.load(tx, s.name)
	switch {
	case o == nil && r.all && tx.Spread():
		return 0, nil // it is in other shards
	case o == nil && r.all:
		return 0, notFound(s.name)
	case !r.all && (o == nil || o.inc != r.inc):
		return 0, hasChanged(s.name)
	}
	e := erasure{}
	if !r.all {
		for _, p := range r.series {
			if row, ok := tx.Get(seriesKey(nil, rowSeries, o.inc, p.id)); ok && must(decodeSeries(row)).fingerprint == p.fingerprint {
				e.ids = append(e.ids, p.id)
			}
		}
		slices.Sort(e.ids)
	}
	if n = int64(len(e.ids)); r.all {
		n = int64(o.content.series)
	}
	if n == 0 || r.from > o.content.newest {
		return n, nil
	}
	if o.content.erased == maxErasures {
		return 0, engine.Errorf(ErrBusy, "measurement %q: limit of %d unpurged range deletions reached", s.name, maxErasures)
	}
	m.touch(tx, o)
	e.ranges = []erasedRange{{rawTier, r.from, r.to}}
	for i := range o.policy.tiers {
		m.eraseBuckets(tx, o, &o.policy.tiers[i], r.from, r.to, &e)
	}
	tx.Insert(erasedKey(nil, o.inc, uint64(tx.LSN())), encode(nil, &e, (*erasure).code))
	o.content.erased++
	o.content.shape = uint64(tx.LSN()) // invalidates steps of a duty in progress on these points
	m.saveContent(tx, o)
	tx.Notify(maintenanceTopic(), -1)
	return n, nil
}

// eraseBuckets adds the buckets of a tier that a range hides, and marks those whose points exist
// for recomputation.
func (m *machine) eraseBuckets(tx *engine.Tx, o *open, t *tier, from, to int64, e *erasure) {
	lost := o.content.lostBefore(t.id)
	first, end := bucketOf(from, t.every), bucketOf(to-1, t.every)+t.every
	if first < lost && first < from {
		first += t.every // partly in the range, and without points to recompute it from
	}
	if end <= lost && end > to {
		end -= t.every
	}
	if first >= end {
		return
	}
	e.ranges = append(e.ranges, erasedRange{t.id, first, end})
	first, end = max(first, lost, bucketOf(o.content.oldest, t.every)), min(end, bucketOf(o.content.newest, t.every)+t.every)
	if first < end {
		m.markDirty(tx, o, t.id, first, end)
	}
}

// forgetErased removes the rows of completed deletions. Series may have no points left: the duty
// searches for them.
func (m *machine) forgetErased(tx *engine.Tx, o *open, lsns []uint64) {
	for _, lsn := range lsns {
		k := erasedKey(nil, o.inc, lsn)
		if _, ok := tx.Get(k); ok {
			tx.Delete(k)
			o.content.erased--
			o.content.expired = uint64(tx.LSN())
		}
	}
}

// DeleteRange deletes the points of a measurement from one time up to, but not including, another;
// a zero time is no bound. It deletes the points of all series, or only of those that have all of
// the tags and match all filters (see Matching). It returns the number of series checked, even with
// an error. When it returns nil, no query finds the points. Points written later are not affected.
// Disk space and the counts of points are updated within minutes. Series without points are removed
// from the index.
//
// Rollups follow: a bucket is hidden at once, and recomputed from its remaining points. Where the
// points themselves have already been removed (Retention.RawTTL), buckets that lie wholly in the
// range are deleted, and buckets that are partly in it stay unchanged.
//
// With tags or filters it proceeds in steps of up to 1,000 series; in a spread namespace, shard by
// shard. A call that fails can be repeated.
//
// Errors: ErrNotFound if there is no such measurement; ErrInvalid for a range that is empty or has
// no bound at all; ErrBusy if 256 deletions of the measurement have not been purged yet;
// ErrConflict if it was deleted and recreated in the meantime.
func (s *Store) DeleteRange(ctx context.Context, measurement string, from, to time.Time, tags map[string]string,
	filters ...floql.Filter) (series int64, err error) {
	r := rangeBody{all: len(tags)+len(filters) == 0, from: minTime, to: maxTime + 1}
	if from.IsZero() && to.IsZero() {
		return 0, engine.Errorf(ErrInvalid, "ts: the range has no bounds: delete the measurement or series instead")
	}
	if !from.IsZero() {
		r.from = max(r.from, ceilMillis(from))
	}
	if !to.IsZero() {
		r.to = min(r.to, ceilMillis(to))
	}
	if r.from >= r.to {
		return 0, engine.Errorf(ErrInvalid, "ts: the range from %s to %s is empty", from.UTC().Format(time.RFC3339Nano),
			to.UTC().Format(time.RFC3339Nano))
	}
	if _, err := s.Get(ctx, measurement); err != nil {
		return 0, err
	}
	if !r.all {
		return s.deleteOfSeries(ctx, measurement, r, []SeriesOption{Limit(maxDeletes), Tags(tags), Matching(filters...)})
	}
	spread, err := s.scope.Spread(ctx)
	if err != nil {
		return 0, err
	}
	routes := []string{""}
	if spread {
		routes = routes[:0]
		for shard := range engine.ShardID(s.scope.NodeShards()) {
			routes = append(routes, engine.RouteTo(s.Namespace(), shard, s.scope.NodeShards()))
		}
	}
	for _, route := range routes {
		n, err := engine.Propose(ctx, &s.scope, routed(deleteRange.Op(measurement, r, nil), route), deleteRange.Decode)
		if series += n; err != nil {
			return series, err
		}
	}
	return series, nil
}

// deleteOfSeries deletes a range of the series that options list.
func (s *Store) deleteOfSeries(ctx context.Context, measurement string, r rangeBody, opts []SeriesOption) (series int64, err error) {
	o := seriesOptionsOf(opts)
	list := s.Series(measurement)
	for {
		found, err := list.page(ctx, &o)
		if err != nil {
			return series, err
		}
		if len(found.items) > 0 {
			r.of, r.seriesBody = measurement, found.body()
			n, err := engine.Propose(ctx, &s.scope, routed(deleteRange.Op(measurement, r, nil), found.route), deleteRange.Decode)
			if series += n; err != nil {
				return series, err
			}
		}
		if o.Cursor = found.next; o.Cursor == "" {
			return series, nil
		}
	}
}
