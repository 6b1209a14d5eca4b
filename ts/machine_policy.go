package ts

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// tokenRetention begins the token of the timer that removes old partitions; the incarnation (u64)
// follows.
const tokenRetention = 'r'

// fields codes a policy as the body of a command. Commands that set it omit the version and the
// tier numbers; commands that send it to other shards have them.
func (p *policy) fields(f *codec.Fields) {
	within := codec.Range{Max: math.MaxInt64 / int64(time.Millisecond)} // the range of time.Duration
	f.Uvarint("version", &p.version)
	f.Varint("raw_ttl_ms", &p.rawTTL, within)
	codec.ListOf(f, "downsample", &p.tiers, func(t *tier, f *codec.Fields) {
		codec.Narrow(f, "id", &t.id)
		f.Varint("every_ms", &t.every, within)
		f.Varint("ttl_ms", &t.ttl, within)
	}, codec.Range{Max: MaxTiers})
	codec.Narrow(f, "next", &p.next)
}

// retention returns the policy in its public form.
func (p *policy) retention() Retention {
	r := Retention{RawTTL: duration(p.rawTTL)}
	for _, t := range p.tiers {
		r.Downsample = append(r.Downsample, Downsample{Every: duration(t.every), TTL: duration(t.ttl)})
	}
	return r
}

// check returns ErrInvalid for a policy out of range.
func (p *policy) check() error { return p.retention().check() }

// setRetention sets the policy of a measurement at its home, and sends it to the other shards.
func (s *session) setRetention(p *policy) error {
	before := s.loadPolicy(s.tx, s.name)
	if err := s.checkClosings(maxClosings); err != nil {
		return err
	}
	p.version, p.next = uint64(s.tx.LSN()), before.next
	for i := range p.tiers {
		p.tiers[i].id = before.number(p.tiers[i].every)
		if p.tiers[i].id == rawTier {
			if p.next == math.MaxUint16 {
				return engine.Errorf(ErrInvalid, "measurement %q: too many changes of rollups", s.name)
			}
			p.tiers[i].id = p.next
			p.next++
		}
	}
	s.usePolicy(*p)
	s.tellShards(kindAdoptRetention, codec.EncodeFields(codec.AppendString(nil, s.name), p, (*policy).fields))
	return nil
}

// number returns the number of the tier with buckets of a length, rawTier if none exists.
func (p *policy) number(every int64) tierID {
	for _, t := range p.tiers {
		if t.every == every {
			return t.id
		}
	}
	return rawTier
}

// find returns the tier with a number, nil if none exists.
func (p *policy) find(id tierID) *tier {
	for i := range p.tiers {
		if p.tiers[i].id == id {
			return &p.tiers[i]
		}
	}
	return nil
}

// tellShards sends a command to all other shards of a spread namespace.
func (s *session) tellShards(kind uint8, body []byte) {
	s.tx.SendOthers(engine.Command{Machine: engine.MachineTS, Kind: kind, Body: body})
}

// adoptRetention adopts the policy sent by the home of a measurement, unless the shard has a newer
// one.
func (s *session) adoptRetention(p *policy) error {
	if p.version <= s.loadPolicy(s.tx, s.name).version {
		return nil
	}
	if err := s.checkClosings(maxAdopted); err != nil {
		return err
	}
	s.usePolicy(*p)
	return nil
}

// checkClosings refuses a retention while too many removals of outdated points for earlier ones are
// pending.
func (s *session) checkClosings(most int) error {
	if o := s.load(s.tx, s.name); o != nil && len(o.content.closed) >= most {
		return engine.Errorf(ErrBusy, "measurement %q: retention changes faster than points are removed", s.name)
	}
	return nil
}

// close keeps outdated points hidden when the retention is extended.
func (o *open) close(tx *engine.Tx, before *policy) {
	longer := before.rawTTL > 0 && (o.policy.rawTTL == 0 || o.policy.rawTTL > before.rawTTL)
	if !longer {
		return
	}
	cut := before.oldest(tx.Now())
	if o.content.kept = max(o.content.kept, cut); o.content.oldest < cut {
		o.content.closed = append(o.content.closed, closing{cut, uint64(tx.LSN()), before.next})
	}
}

// usePolicy stores a policy. Rows of removed tiers are deleted; new tiers are computed from the
// existing points.
func (s *session) usePolicy(p policy) {
	m, tx := s.machine, s.tx
	before := m.loadPolicy(tx, s.name)
	tx.Set(nameKey(nil, rowPolicy, tx.Namespace(), s.name), p.encode(nil))
	o := m.load(tx, s.name)
	if o == nil {
		return
	}
	m.touch(tx, o)
	o.policy, o.content.shape = p, uint64(tx.LSN())
	o.close(tx, &before)
	for _, t := range before.tiers {
		if p.find(t.id) == nil {
			m.dropTier(tx, o, t.id)
		}
	}
	o.limitTiers(tx.Now(), &before)
	for _, t := range p.tiers {
		if before.find(t.id) == nil && o.content.oldest <= o.content.newest {
			m.markDirty(tx, o, t.id, bucketOf(o.content.oldest, t.every), bucketOf(o.content.newest, t.every)+t.every)
		}
	}
	m.armRetention(tx, o)
	m.saveContent(tx, o)
	tx.Notify(maintenanceTopic(), -1)
}

// limitTiers records the times from which the tiers of a new policy are complete. An added tier has
// no buckets for points that retention has removed. A tier whose TTL was extended lacks the buckets
// that were too old. Queries use another tier for earlier times.
func (o *open) limitTiers(now int64, before *policy) {
	limit := func(t *tier, from int64) {
		if from > minTime && (o.content.expired > 0 || o.content.oldest < from) {
			o.content.since = raise(o.content.since, t, from)
		}
	}
	for i := range o.policy.tiers {
		t := &o.policy.tiers[i]
		switch was := before.find(t.id); {
		case was == nil:
			limit(t, max(before.oldest(now), o.content.kept))
		case was.ttl > 0 && (t.ttl == 0 || t.ttl > was.ttl):
			limit(t, was.oldest(now))
		}
	}
}

// bucketOf returns the start of the bucket that contains a time.
func bucketOf(at, every int64) int64 { return floorDiv(at, every) * every }

func (m *machine) dropTier(tx *engine.Tx, o *open, id tierID) {
	its := func(l lost) bool { return l.tier == id }
	o.content.lost, o.content.since = slices.DeleteFunc(o.content.lost, its), slices.DeleteFunc(o.content.since, its)
	for _, kind := range []byte{rowPartition, rowChunk, rowDirty} {
		prefix := tierKey(nil, kind, o.inc, id)
		tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	}
}

// markDirty adds a range of buckets to those to recompute.
func (m *machine) markDirty(tx *engine.Tx, o *open, id tierID, from, until int64) {
	prefix := tierKey(nil, rowDirty, o.inc, id)
	it := tx.Iter(partKey(nil, rowDirty, o.inc, id, from), key.PrefixEnd(prefix))
	var joined [][]byte
	for ok := it.First(); ok; ok = it.Next() {
		d := must(decodeDirty(it.Value()))
		if d.from > until {
			break
		}
		from, until = min(from, d.from), max(until, partitionOf(it.Key()))
		joined = append(joined, append([]byte(nil), it.Key()...))
	}
	if err := it.Close(); err != nil {
		panic(err)
	}
	for _, k := range joined {
		tx.Delete(k)
	}
	d := dirty{from: from, lsn: uint64(tx.LSN())}
	tx.Set(partKey(nil, rowDirty, o.inc, id, until), d.encode(nil))
}

// armRetention sets the timer for the earliest time at which a partition can become too old.
func (m *machine) armRetention(tx *engine.Tx, o *open) {
	due := int64(math.MaxInt64)
	next := func(ttl, length int64) {
		if ttl > 0 {
			due = min(due, (floorDiv(tx.Now()-ttl, length)+1)*length+ttl)
		}
	}
	next(o.policy.rawTTL, o.partition)
	for _, t := range o.policy.tiers {
		next(t.ttl, t.partition(o.partition))
	}
	if due == math.MaxInt64 {
		due = 0
	}
	if due == o.content.timer {
		m.saveContent(tx, o)
		return
	}
	m.disarmRetention(tx, o)
	if due > 0 {
		tx.Schedule(due, retentionToken(o.inc))
	}
	o.content.timer = due
	m.saveContent(tx, o)
}

func (m *machine) disarmRetention(tx *engine.Tx, o *open) {
	if o.content.timer > 0 {
		tx.Unschedule(o.content.timer, retentionToken(o.inc))
	}
}

func retentionToken(inc incarnation) []byte {
	return key.AppendUint64([]byte{tokenRetention}, uint64(inc))
}

// OnTimer removes partitions that are too old.
func (m *machine) OnTimer(tx *engine.Tx, token []byte) {
	inc := incarnation(binary.BigEndian.Uint64(token[1:]))
	b, ok := tx.Get(incKey(nil, rowMeasurement, inc))
	if !ok {
		return
	}
	o := m.load(tx, must(decodeMeasurement(b)).name)
	if o == nil || o.inc != inc {
		return
	}
	m.touch(tx, o)
	o.content.timer = 0
	m.expireRaw(tx, o)
	for i := range o.policy.tiers {
		if t := &o.policy.tiers[i]; t.ttl > 0 {
			m.expire(tx, o, t.id, floorDiv(tx.Now()-t.ttl, t.partition(o.partition)))
		}
	}
	m.armRetention(tx, o)
}

// expireRaw removes partitions of points that are too old, except those still needed to compute a
// rollup.
func (m *machine) expireRaw(tx *engine.Tx, o *open) {
	if o.policy.rawTTL == 0 {
		return
	}
	floor, _, err := o.neededFrom(tx.Now(), func(lower, upper []byte) (*engine.Iter, error) { return tx.Iter(lower, upper), nil })
	last, some := m.expire(tx, o, rawTier, floorDiv(must(floor, err), o.partition))
	if !some {
		return
	}
	o.content.oldest = max(o.content.oldest, min(floorDiv(floor, o.partition)*o.partition, o.content.newest))
	for i := range o.policy.tiers {
		o.content.lose(&o.policy.tiers[i], (last+1)*o.partition)
	}
}

// expire removes the partitions of a tier before cut. It returns the last one removed, and whether
// there were any.
func (m *machine) expire(tx *engine.Tx, o *open, id tierID, cut int64) (last int64, some bool) {
	first := tierKey(nil, rowPartition, o.inc, id)
	end := partKey(nil, rowPartition, o.inc, id, cut)
	it := tx.Iter(first, end)
	points := int64(0)
	for ok := it.First(); ok; ok = it.Next() {
		last, some = partitionOf(it.Key()), true
		points += must(decodePartition(it.Value())).points
	}
	if err := it.Close(); err != nil {
		panic(err)
	}
	if !some {
		return 0, false
	}
	tx.DeleteRange(first, end)
	tx.DeleteRange(tierKey(nil, rowChunk, o.inc, id), partKey(nil, rowChunk, o.inc, id, cut))
	o.content.points -= points
	tx.Count(countPoints, -points)
	o.content.shape, o.content.expired = uint64(tx.LSN()), uint64(tx.LSN())
	tx.Notify(maintenanceTopic(), -1)
	return last, true
}

// Leave removes the settings of measurements that do not exist, and the series limit.
func (m *machine) Leave(tx *engine.Tx) (found bool) {
	for _, prefix := range [...][]byte{nameKey(nil, rowPolicy, tx.Namespace(), ""), limitKey(nil, tx.Namespace())} {
		if _, _, ok := tx.First(prefix, key.PrefixEnd(prefix)); ok {
			tx.DeleteRange(prefix, key.PrefixEnd(prefix))
			found = true
		}
	}
	return found
}

// fields codes a limit as the body of a command. Commands that set it omit the version; commands
// that send it to other shards have it.
func (l *limitRow) fields(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		l.code(c)
		return
	}
	f.Uvarint("version", &l.version)
	f.Uvarint("series_limit", &l.limit, codec.Range{Min: 1, Max: maxSeriesLimit})
}

func (*limitRow) route() string { return limitRoute }

func (s *session) setLimit(l *limitRow) error {
	l.version = uint64(s.tx.LSN())
	s.tx.Set(limitKey(nil, s.tx.Namespace()), encode(nil, l, (*limitRow).code))
	s.tellShards(kindAdoptLimit, encode(nil, l, (*limitRow).code))
	return nil
}

// limitRoute is the routing key of a namespace's series limit.
const limitRoute = "series limit"

// maxSeriesLimit is the largest series limit of a namespace.
const maxSeriesLimit = 1 << 31

func (s *session) adoptLimit(l *limitRow) error {
	if b, ok := s.tx.Get(limitKey(nil, s.tx.Namespace())); ok && must(decodeLimit(b)).version >= l.version {
		return nil
	}
	s.tx.Set(limitKey(nil, s.tx.Namespace()), encode(nil, l, (*limitRow).code))
	return nil
}
