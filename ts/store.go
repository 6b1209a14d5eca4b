package ts

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
)

// Store holds the time series of one namespace. It is cheap to make, safe for concurrent use and
// needs no Close.
type Store struct {
	scope   engine.Scope
	cache   *cache
	batches sync.Pool // of *batch
}

func newStore(s engine.Scope) *Store { return &Store{scope: s, cache: newCache()} }

// Namespace returns the namespace of the store.
func (s *Store) Namespace() string { return s.scope.Namespace() }

// MaxErrors is the maximum number of refused points listed in a Result.
const MaxErrors = 100

// Result is the outcome of a write.
type Result struct {
	Written int // points that are committed and visible
	Refused int // points or lines that were rejected whole
	Strings int // fields dropped because they are strings
	// Errors are the reasons for the first 100 refused points.
	Errors []PointError
}

// PointError is the reason why a point was refused.
type PointError struct {
	At  int // index of the point from 0; for WriteLine the number of the line from 1
	Err error
}

func (e PointError) Error() string { return fmt.Sprintf("point %d: %v", e.At, e.Err) }

// Unwrap returns the reason.
func (e PointError) Unwrap() error { return e.Err }

// Err returns nil if all points were written, otherwise the first reason.
func (r Result) Err() error {
	if r.Refused == 0 {
		return nil
	}
	return fmt.Errorf("ts: %d of %d points refused, the first: %w", r.Refused, r.Written+r.Refused, r.Errors[0])
}

// Write writes points in batches, with one command per shard for each. A point with the series and
// time of an existing one replaces its fields. Points without a time get the time of the call. When
// Write returns nil, all points are committed (see floe.Config.Durability) and visible; writing
// them again is safe.
//
// If some points are refused, the others are written, and the error is the first reason. The
// reasons are ErrInvalid for names, tags, fields and values out of range, and for times before the
// retention or more than a day from now; *LimitError, which is ErrBusy, if there is no room for new
// series; ErrBusy if too many points are unsealed. After other errors, such as ErrUnavailable and
// ctx's error, it is unknown how many points were written.
func (s *Store) Write(ctx context.Context, points ...Point) (Result, error) {
	var result Result
	b := s.newBatch(&result)
	defer b.release()
	for i := range points {
		err := b.addPoint(i, &points[i])
		if b.full(err) {
			if err := b.flush(ctx); err != nil {
				return result, err
			}
			b.reset()
			err = b.addPoint(i, &points[i])
		}
		if err != nil {
			b.refuse(i, err)
		}
		if len(b.values) >= maxBatch {
			if err := b.flush(ctx); err != nil {
				return result, err
			}
			b.reset()
		}
	}
	if err := b.flush(ctx); err != nil {
		return result, err
	}
	return result, result.Err()
}

// addPoint adds a point, or returns the reason for refusing it.
func (b *batch) addPoint(i int, p *Point) error {
	if len(p.Fields) == 0 {
		return engine.Errorf(ErrInvalid, "ts: point without fields")
	}
	for name, v := range p.Fields {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return engine.Errorf(ErrInvalid, "ts: field %q: value %v is not finite", name, v)
		}
	}
	tags := tagListOf(p.Tags)
	key := appendSeriesKey(nil, p.Measurement, tags)
	series, ok := b.member(key)
	if !ok {
		series = b.newSeries(string(key), p.Measurement, tags, nil)
	}
	at := b.now
	if !p.Time.IsZero() {
		at = nearMillis(p.Time)
	}
	if err := b.begin(i, series, at); err != nil {
		return err
	}
	m := &b.measurements[b.series[series].measurement]
	for guess, name := range slices.Sorted(maps.Keys(p.Fields)) { // new fields are numbered in this order
		f, err := m.field([]byte(name), Float, guess)
		if err != nil {
			b.abandon()
			return err
		}
		b.values = append(b.values, batchValue{f, notDecimal, int64(math.Float64bits(p.Fields[name]))})
	}
	b.end()
	return nil
}

// SetRetention sets the retention and rollups of a measurement, which need not exist. Points older
// than RawTTL are invisible at once and removed in the background. An added rollup is computed from
// the existing points; a rollup not listed is removed. Points older than the previous RawTTL do not
// reappear with a longer one, but such times can be written again.
//
// Points are removed only after all rollups for their times have been computed, so a call that sets
// both RawTTL and rollups of existing points loses nothing. A partition also stays as long as one
// of its buckets can still receive points: with buckets of 30 days, points stay on disk for up to
// RawTTL plus 30 days. Buckets whose points have been removed are final: points written there
// later, under a longer RawTTL, do not change them.
//
// In a spread namespace, SetRetention and SetSeriesLimit return when all shards have the setting,
// or after about a second if a shard is unreachable: it gets the setting later. Operations in
// transactions do not wait.
//
// Errors: ErrInvalid for a retention out of range; ErrBusy if it has been extended 16 times before
// outdated points were removed.
func (s *Store) SetRetention(ctx context.Context, measurement string, r Retention) error {
	return s.tell(ctx, measurement, setRetentionOp(measurement, r))
}

// Retention returns the retention and rollups of a measurement, also before its first point.
// Errors: ErrNotFound if it has neither points nor settings.
func (s *Store) Retention(ctx context.Context, measurement string) (Retention, error) {
	if err := engine.CheckName("measurement", measurement); err != nil {
		return Retention{}, err
	}
	_, ok, newest, err := s.measurement(ctx, measurement)
	if err == nil && !ok && newest.policy == 0 {
		err = notFound(measurement)
	}
	return newest.retention, err
}

// tell changes a setting, and waits until all shards of a spread namespace have it.
func (s *Store) tell(ctx context.Context, measurement string, op engine.Op) error {
	_, err := engine.Propose(ctx, &s.scope, op, remove.Decode)
	if err == nil {
		q := measurementQuery{namespace: s.Namespace(), name: measurement}
		engine.Agree(ctx, &s.scope, q, func(a, b *measurementQuery) bool { return a.policy == b.policy && a.limit == b.limit })
	}
	return err
}

// SetSeriesLimit sets the maximum number of series of the namespace. Existing series stay, even
// beyond it. The default is a million. In a spread namespace each shard has an equal share.
//
// Errors: ErrInvalid for a limit that is not 1-2^31.
func (s *Store) SetSeriesLimit(ctx context.Context, series int64) error {
	return s.tell(ctx, "", setLimit.Op("", limitRow{limit: uint64(series)}, nil))
}

// Delete removes a measurement with all its points, rollups and settings. Errors: ErrNotFound.
func (s *Store) Delete(ctx context.Context, name string) error {
	spread, err := s.scope.Spread(ctx)
	if err != nil {
		return err
	}
	if !spread {
		_, err := remove.Do(ctx, &s.scope, name, engine.Nothing{}, nil)
		return err
	}
	if _, err := s.Get(ctx, name); err != nil {
		return err
	}
	shards := s.scope.NodeShards()
	for shard := range engine.ShardID(shards) {
		op := routed(remove.Op(name, engine.Nothing{}, nil), engine.RouteTo(s.Namespace(), shard, shards))
		if _, err := engine.Propose(ctx, &s.scope, op, remove.Decode); err != nil {
			return err
		}
	}
	return nil
}

// Delete deletes the series of a measurement that have all of the tags and match all filters (see
// Matching), with their points. It returns the number of series deleted, even with an error. When
// it returns, no query finds them. Their disk space is freed later. It proceeds in steps of up to
// 1,000.
//
// Errors: ErrNotFound if there is no such measurement; ErrInvalid without tags and filters, which
// would be Store.Delete; ErrConflict if it was deleted and recreated in the meantime.
func (l SeriesList) Delete(ctx context.Context, tags map[string]string, filters ...floql.Filter) (deleted int64, err error) {
	s := l.store
	if len(tags)+len(filters) == 0 {
		return 0, engine.Errorf(ErrInvalid, "ts: no tags or filters: delete the measurement instead")
	}
	if _, err := s.Get(ctx, l.name); err != nil {
		return 0, err
	}
	o := seriesOptionsOf([]SeriesOption{Limit(maxDeletes), Tags(tags), Matching(filters...)})
	for {
		found, err := l.page(ctx, &o)
		if err != nil {
			return deleted, err
		}
		if len(found.items) > 0 {
			n, err := engine.Propose(ctx, &s.scope, routed(deleteSeries.Op(l.name, found.body(), nil), found.route), deleteSeries.Decode)
			if deleted += n; err != nil {
				return deleted, err
			}
		}
		if o.Cursor = found.next; o.Cursor == "" {
			return deleted, nil
		}
	}
}

// flush writes the batch.
//
// Each round looks up unknown series, and sends one write to each shard. Series that a shard
// reports as stale are looked up again. A series is stale if it was deleted, its write was lost
// with the tail of the log, or the address now belongs to another cluster.
func (b *batch) flush(ctx context.Context) error {
	for setbacks := 0; b.pending > 0; {
		before := b.pending
		if err := b.identify(ctx); err != nil {
			return err
		}
		plans := b.planAll()
		if err := b.proposeAll(ctx, plans); err != nil {
			return err
		}
		if b.pending < before {
			continue
		}
		if setbacks++; setbacks == maxSetbacks {
			b.refuseAll(engine.Errorf(ErrBusy, "ts: series are deleted faster than they can be looked up"))
		}
	}
	return nil
}

// maxSetbacks is how often a batch may make no progress, which happens if another client deletes
// its series as fast as they are written.
const maxSetbacks = 8

func (b *batch) refuseAll(err error) {
	for i := range b.rows {
		if !b.rows[i].done {
			b.refuseRow(int32(i), err)
		}
	}
}

// identify looks up unknown series.
func (b *batch) identify(ctx context.Context) error {
	if err := engine.CheckWritable(b.store.Namespace()); err != nil {
		return err
	}
	spread, err := b.store.scope.Spread(ctx)
	if err != nil {
		return err
	}
	if b.shards = 0; spread {
		b.shards = b.store.scope.NodeShards()
	}
	home, err := b.store.scope.Shard(ctx, "")
	if err != nil {
		return err
	}
	now, refused := time.Now(), false
	var unknown []int32
	for i := range b.series {
		s := &b.series[i]
		if s.member != nil || s.err != nil {
			continue
		}
		if !s.identified {
			s.hash, s.fingerprint = s.tags.identity()
			if s.shard = home; spread {
				s.shard = b.store.scope.SpreadShard(routeOf(b.measurements[s.measurement].name, s.tags))
			}
			s.identified = true
		}
		if e := b.store.cache.refusal(s.key, now); e != nil {
			s.err, refused = e, true
			continue
		}
		unknown = append(unknown, int32(i))
	}
	if refused {
		b.refuseErrors()
	}
	slices.SortStableFunc(unknown, func(x, y int32) int { return int(b.series[x].shard) - int(b.series[y].shard) })
	for len(unknown) > 0 {
		shard, n := b.series[unknown[0]].shard, 0
		for n < len(unknown) && n < maxResolve && b.series[unknown[n]].shard == shard {
			n++
		}
		if err := b.resolve(ctx, shard, unknown[:n]); err != nil {
			return err
		}
		unknown = unknown[n:]
	}
	return nil
}

// resolve queries a shard for the numbers of series. If the shard has no room for new ones, their
// points are refused without a write.
func (b *batch) resolve(ctx context.Context, shard engine.ShardID, unknown []int32) error {
	q := resolveQuery{namespace: b.store.Namespace()}
	places := make(map[int32]int)
	var order [][]int32
	for _, i := range unknown {
		s := &b.series[i]
		at, ok := places[s.measurement]
		if !ok {
			at = len(q.wanted)
			places[s.measurement] = at
			q.wanted = append(q.wanted, wanted{measurement: b.measurements[s.measurement].name})
			order = append(order, nil)
		}
		q.wanted[at].hashes = append(q.wanted[at].hashes, s.hash)
		order[at] = append(order[at], i)
	}
	if err := b.store.scope.QueryShard(ctx, shard, &q); err != nil {
		return err
	}
	if len(q.found) != len(q.wanted) {
		return fmt.Errorf("ts: %d results for %d lookups", len(q.found), len(q.wanted))
	}
	var known []*member
	for at, found := range q.found {
		var missing []int32
		for k, i := range order[at] {
			if k < len(found.ids) && found.ids[k] > 0 {
				known = append(known, b.learn(i, found.inc, seriesID(found.ids[k]-1)))
			} else {
				missing = append(missing, i)
			}
		}
		if room := int(min(q.room, int64(len(missing)))); room < len(missing) {
			e := found.worst
			e.Namespace, e.Limit, e.Room, e.Wanted, e.Spread = b.store.Namespace(), q.limit, q.room, int64(len(missing)), q.spread
			b.refuseSeries(missing[room:], &e)
		}
		q.room = max(q.room-int64(len(missing)), 0)
	}
	b.store.cache.put(known)
	return nil
}

// learn records the number of a series.
func (b *batch) learn(i int32, inc incarnation, id seriesID) *member {
	s := &b.series[i]
	s.member = &member{
		key: s.key, measurement: b.measurements[s.measurement].name, shard: s.shard, inc: inc, id: id, fingerprint: s.fingerprint,
	}
	return s.member
}

// refuseSeries refuses all points of series without room.
func (b *batch) refuseSeries(series []int32, err *LimitError) {
	now := time.Now()
	for _, i := range series {
		b.series[i].err = err
		b.store.cache.refuse(b.series[i].key, err, now)
	}
	b.refuseErrors()
}

// refuseErrors refuses all points of series that cannot be written.
func (b *batch) refuseErrors() {
	for i := range b.rows {
		if r := &b.rows[i]; !r.done && b.series[r.series].err != nil {
			b.refuseRow(int32(i), b.series[r.series].err)
		}
	}
}
