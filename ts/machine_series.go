package ts

import (
	"cmp"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// tagChange collects changes of the number of series per value of a tag, so that each row is
// written once.
type tagChange map[tag]int64

func (t tagChange) add(of tag, delta int64) { t[of] += delta }

func (t tagChange) save(m *machine, tx *engine.Tx, inc incarnation) {
	type change struct{ values, series int64 }
	names := make(map[string]change)
	order := slices.SortedFunc(maps.Keys(t), func(a, b tag) int {
		return cmp.Or(cmpString(a.name, b.name), cmpString(a.value, b.value))
	})
	for _, of := range order {
		c := names[of.name]
		c.series += t[of]
		c.values += m.addToValue(tx, inc, of, t[of])
		names[of.name] = c
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		k, row := tagKey(nil, inc, name), tagRow{}
		if b, ok := tx.Get(k); ok {
			row = must(decodeTag(b))
		}
		row.values += uint64(names[name].values)
		row.series += uint64(names[name].series)
		if row.series == 0 {
			tx.Delete(k)
			continue
		}
		tx.Set(k, encode(nil, &row, (*tagRow).code))
	}
}

// addToValue changes the number of series that have a value of a tag. It returns the change in the
// number of values.
func (m *machine) addToValue(tx *engine.Tx, inc incarnation, of tag, delta int64) int64 {
	k, n := valueKey(nil, inc, of.name, of.value), uint64(0)
	b, ok := tx.Get(k)
	if ok {
		n = must(decodeCount(b))
	}
	n += uint64(delta)
	switch {
	case n == 0 && ok:
		tx.Delete(k)
		return -1
	case !ok:
		tx.Insert(k, encodeCount(nil, n))
		return 1
	}
	tx.Set(k, encodeCount(nil, n))
	return 0
}

// seriesBody is the body of commands about some series of a measurement. Series with a different
// fingerprint are skipped.
type seriesBody struct {
	inc    incarnation
	series []printed
	// of settle
	kept  []printed // series that have points: they are not retired
	swept uint64    // removals by retention up to this LSN have been examined
	// of forget
	closed []closing // nothing of them is left
	erased []uint64  // LSNs of completed deletions of time ranges
}

// printed is a series with its fingerprint.
type printed struct {
	id          seriesID
	fingerprint uint64
}

func (p *printed) code(f *codec.Fields) {
	codec.Narrow(f, "id", &p.id)
	f.Uvarint("fingerprint", &p.fingerprint)
}

func (l *seriesBody) code(f *codec.Fields) {
	within := codec.Range{Max: maxDeletes}
	f.Uvarint("incarnation", (*uint64)(&l.inc))
	codec.ListOf(f, "series", &l.series, (*printed).code, within)
	codec.ListOf(f, "kept", &l.kept, (*printed).code, within)
	f.Uvarint("swept", &l.swept)
	codec.ListOf(f, "closed", &l.closed, (*closing).fields)
	codec.ListOf(f, "erased", &l.erased, func(lsn *uint64, f *codec.Fields) { f.Uvarint("", lsn) })
	if n := len(l.series) + len(l.kept); f.Checking() && n > maxDeletes {
		f.Refuse(engine.Errorf(ErrInvalid, "ts: %d series in one command exceed %d", n, maxDeletes))
	}
}

func (l *closing) fields(f *codec.Fields) {
	f.Varint("before_ms", &l.before)
	f.Uvarint("up_to", &l.upTo)
	codec.Narrow(f, "tiers", &l.tiers)
}

// deleteSeries removes series from the index. Their points are no longer found, and are removed
// later. It returns the number of series that existed (uvarint).
func (s *session) deleteSeries(l *seriesBody) (int64, error) {
	m, tx := s.machine, s.tx
	o, err := s.exactly(l.inc)
	if err != nil {
		return 0, err
	}
	r := m.newRemoval(tx, o)
	for _, p := range l.series {
		if row, ok := r.row(p); ok {
			r.remove(p.id, row)
			tx.Set(seriesKey(nil, rowDeleted, o.inc, p.id), encodeCount(nil, uint64(tx.LSN())))
			o.content.deleted++
		}
	}
	r.end()
	if r.removed > 0 {
		o.content.shape = uint64(tx.LSN()) // invalidates steps of a duty in progress on these series
		m.saveContent(tx, o)
		tx.Notify(maintenanceTopic(), -1)
	}
	return int64(r.removed), nil
}

// removal removes series from the index.
type removal struct {
	m       *machine
	tx      *engine.Tx
	o       *open
	prints  *printsChange
	tags    tagChange
	removed int
}

func (m *machine) newRemoval(tx *engine.Tx, o *open) *removal {
	m.touch(tx, o)
	return &removal{m: m, tx: tx, o: o, prints: newPrintsChange(m, tx, o.inc), tags: make(tagChange)}
}

// row returns the row of a series, or false if it has another fingerprint.
func (r *removal) row(p printed) (seriesRow, bool) {
	b, ok := r.tx.Get(seriesKey(nil, rowSeries, r.o.inc, p.id))
	if !ok {
		return seriesRow{}, false
	}
	row := must(decodeSeries(b))
	return row, row.fingerprint == p.fingerprint
}

func (r *removal) remove(id seriesID, row seriesRow) {
	inc := r.o.inc
	hash, _ := row.tags.identity()
	r.tx.Delete(seriesKey(nil, rowSeries, inc, id))
	r.tx.Delete(hashKey(nil, inc, hash))
	for _, t := range row.tags {
		r.tx.Delete(postingKey(nil, inc, t.name, t.value, id))
		r.tags.add(t, -1)
	}
	r.prints.set(id, 0)
	if k := seriesKey(nil, rowRetiring, inc, id); r.o.content.retiring > 0 {
		if _, ok := r.tx.Get(k); ok {
			r.tx.Delete(k)
			r.o.content.retiring--
		}
	}
	r.o.content.series--
	r.removed++
}

func (r *removal) end() {
	r.prints.save()
	r.tags.save(r.m, r.tx, r.o.inc)
	r.tx.Count(countSeries, -int64(r.removed))
	r.m.saveContent(r.tx, r.o)
}

// retire blocks writes to series that appear to have no points. A writer that has cached the number
// of such a series must define it again, which ends the retirement.
func (s *session) retire(l *seriesBody) error {
	m, tx := s.machine, s.tx
	o, err := s.exactly(l.inc)
	if err != nil {
		return err
	}
	m.touch(tx, o)
	prints := newPrintsChange(m, tx, o.inc)
	for _, p := range l.series {
		if m.print(tx, o.inc, p.id) != p.fingerprint || p.fingerprint == 0 {
			continue
		}
		tx.Insert(seriesKey(nil, rowRetiring, o.inc, p.id), encodeCount(nil, p.fingerprint))
		prints.set(p.id, 0)
		o.content.retiring++
	}
	prints.save()
	m.saveContent(tx, o)
	return nil
}

// settle ends the retirement of series. It removes those that still had no points after writes were
// blocked, and keeps the others.
func (s *session) settle(l *seriesBody) (int64, error) {
	m, tx := s.machine, s.tx
	o, err := s.exactly(l.inc)
	if err != nil {
		return 0, err
	}
	r := m.newRemoval(tx, o)
	retiring := func(p printed) bool {
		_, ok := tx.Get(seriesKey(nil, rowRetiring, o.inc, p.id))
		return ok
	}
	for _, p := range l.series {
		if row, ok := r.row(p); ok && retiring(p) {
			r.remove(p.id, row)
		}
	}
	for _, p := range l.kept {
		if retiring(p) {
			r.prints.set(p.id, p.fingerprint)
			tx.Delete(seriesKey(nil, rowRetiring, o.inc, p.id))
			o.content.retiring--
		}
	}
	o.content.swept = max(o.content.swept, l.swept)
	r.end()
	return int64(r.removed), nil
}

// forget completes the deletion of outdated points, and of series that have no points left in any
// chunk.
func (s *session) forget(l *seriesBody) error {
	m, tx := s.machine, s.tx
	o, err := s.exactly(l.inc)
	if err != nil {
		return err
	}
	m.touch(tx, o)
	for _, p := range l.series {
		k := seriesKey(nil, rowDeleted, o.inc, p.id)
		if b, ok := tx.Get(k); ok && must(decodeCount(b)) == p.fingerprint {
			tx.Delete(k)
			o.content.deleted--
		}
	}
	m.forgetErased(tx, o, l.erased)
	for _, c := range l.closed {
		for i := range o.policy.tiers {
			if t := &o.policy.tiers[i]; t.id < c.tiers {
				o.content.lose(t, c.before)
			}
		}
	}
	o.content.closed = slices.DeleteFunc(o.content.closed, func(c closing) bool { return slices.Contains(l.closed, c) })
	m.saveContent(tx, o)
	return nil
}
