package ts

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// measurementQuery queries one measurement.
type measurementQuery struct {
	namespace, name string

	// Results:

	items         []Measurement // none or one
	policy, limit uint64        // versions of its retention and of the namespace's series limit, even if the measurement does not exist
	retention     Retention     // even if the measurement does not exist
}

// Machine returns engine.MachineTS.
func (*measurementQuery) Machine() engine.MachineID { return engine.MachineTS }

// Kind identifies the kind of query.
func (*measurementQuery) Kind() uint8 { return queryMeasurement }

// Arguments codes the arguments of the query.
func (q *measurementQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("measurement", &q.name)
}

// Results codes the results.
func (q *measurementQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "measurements", &q.items, (*Measurement).code)
	kept := q.retention.RawTTL > 0 || len(q.retention.Downsample) > 0
	if f.More(q.policy > 0 || q.limit > 0 || kept) {
		f.Uvarint("retention_version", &q.policy)
		f.Uvarint("limit_version", &q.limit)
	}
	if f.More(kept) {
		q.retention.code(f)
	}
}

func (q *measurementQuery) answer(v *engine.View) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	v.Freeze()
	m, ok, err := measurementNow(v, ns, q.name)
	if ok {
		q.items = []Measurement{m}
	}
	if err != nil {
		return err
	}
	b, ok, err := v.Get(nameKey(nil, rowPolicy, ns, q.name))
	if err != nil {
		return err
	}
	if ok {
		p, err := decodePolicy(b)
		if err != nil {
			return err
		}
		q.policy, q.retention = p.version, p.retention()
	}
	if b, ok, err = v.Get(limitKey(nil, ns)); err != nil || !ok {
		return err
	}
	l, err := decodeLimit(b)
	q.limit = l.version
	return err
}

// measurementNow reads all rows of a measurement, or returns false if none exists.
func measurementNow(v *engine.View, ns uint32, name string) (m Measurement, ok bool, err error) {
	o, ok, err := openView(v, ns, name)
	if err != nil || !ok {
		return m, false, err
	}
	m = Measurement{
		Name: name, CreatedAt: time.UnixMilli(o.createdAt), Series: int64(o.content.series),
		Retention: o.policy.retention(), version: o.policy.version,
	}
	kept, past, err := o.extent(v)
	if err != nil {
		return m, false, err
	}
	if len(past) > 0 {
		needed, by, err := o.neededFrom(v.Now(), v.Iter)
		if err != nil {
			return m, false, err
		}
		for _, p := range past { // some may expire within the hour
			if by != nil && p.number >= floorDiv(needed, o.partition) {
				m.Held, m.HeldBy = m.Held+p.row.points, Downsample{duration(by.every), duration(by.ttl)}
			}
		}
	}
	if kept.oldest <= kept.newest {
		m.Points, m.Oldest, m.Newest = kept.points, time.UnixMilli(kept.oldest), time.UnixMilli(kept.newest)
	}
	for _, f := range o.fields {
		m.Fields = append(m.Fields, Field{f.name, f.kind})
	}
	return m, true, nil
}

// extent returns the number of readable points, and bounds for their times: see Measurement.
// Partitions whose points are all too old do not count. They are the second result.
func (o *open) extent(v *engine.View) (s span, past []partitionAt, err error) {
	c := &o.content
	s = span{c.points, max(c.oldest, o.policy.oldest(v.Now())), c.newest}
	if c.oldest > c.newest { // there were no writes
		return s, past, nil
	}
	erased, err := o.erasures(v)
	if err != nil {
		return s, past, err
	}
	prefix := tierKey(nil, rowPartition, o.inc, rawTier)
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return s, past, err
	}
	first, newest := int64(math.MaxInt64), int64(math.MinInt64) // of the stored points
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		from := partitionOf(it.Key()) * o.partition
		if from+o.partition > s.oldest {
			first = from
			break
		}
		var p partitionRow
		p, err = decodePartition(it.Value())
		past = append(past, partitionAt{partitionOf(it.Key()), p})
		s.points -= p.points
	}
	if err == nil && it.SeekLT(key.PrefixEnd(prefix)) {
		var p partitionRow
		p, err = decodePartition(it.Value())
		newest = p.newest
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return s, past, err
	}
	s.oldest = max(s.oldest, min(first, c.blocks.least()))
	if c.blocks.points == 0 {
		s.newest = min(s.newest, newest)
	}
	for near := true; near && s.oldest <= s.newest; {
		near = false
		for i := range erased {
			if e := &erased[i]; len(e.ids) == 0 && c.last <= e.upTo {
				near = s.without(e.ranges[0]) || near // of the points
			}
		}
	}
	return s, past, nil
}

// without removes a range at one of the ends, and reports whether it was at an end.
func (s *span) without(r erasedRange) bool {
	switch {
	case r.from <= s.oldest && s.oldest < r.to:
		s.oldest = r.to
	case r.from <= s.newest && s.newest < r.to:
		s.newest = r.from - 1
	default:
		return false
	}
	return true
}

// openView reads a measurement for a query or a duty, or returns false if none exists.
func openView(v *engine.View, ns uint32, name string) (o *open, ok bool, err error) {
	o = new(open)
	if o.inc, ok, err = incarnationNow(v, ns, name); err != nil || !ok {
		return nil, false, err
	}
	o.policy.next = 1
	for _, row := range []struct {
		key  []byte
		read func(b []byte) error
		must bool
	}{
		{incKey(nil, rowMeasurement, o.inc), func(b []byte) (err error) { o.measurement, err = decodeMeasurement(b); return err }, true},
		{incKey(nil, rowContent, o.inc), func(b []byte) (err error) { o.content, err = decodeContent(b); return err }, true},
		{nameKey(nil, rowPolicy, ns, name), func(b []byte) (err error) { o.policy, err = decodePolicy(b); return err }, false},
	} {
		b, there, err := v.Get(row.key)
		if err == nil && there {
			err = row.read(b)
		}
		if err == nil && !there && row.must {
			err = missingRow(row.key)
		}
		if err != nil {
			return nil, false, err
		}
	}
	return o, true, nil
}

func (m *Measurement) code(f *codec.Fields) {
	f.Text("name", &m.Name)
	f.Time("created_at_ms", &m.CreatedAt)
	codec.ListOf(f, "fields", &m.Fields, func(d *Field, f *codec.Fields) {
		f.Text("name", &d.Name)
		codec.Enum(f, "type", &d.Type, fieldTypes[:])
	})
	f.Varint("series", &m.Series)
	f.Varint("points", &m.Points)
	f.Time("oldest_ms", &m.Oldest)
	f.Time("newest_ms", &m.Newest)
	m.Retention.code(f)
	f.Varint("held_since_ms", &m.Held)
	f.Duration("held_by_every_ms", &m.HeldBy.Every)
	f.Duration("held_by_ttl_ms", &m.HeldBy.TTL)
	f.Uvarint("retention_version", &m.version)
}

func (r *Retention) code(f *codec.Fields) {
	f.Duration("raw_ttl_ms", &r.RawTTL)
	codec.ListOf(f, "downsample", &r.Downsample, func(d *Downsample, f *codec.Fields) {
		f.Duration("every_ms", &d.Every)
		f.Duration("ttl_ms", &d.TTL)
	})
}

// measurementsQuery queries a page of the measurements of a shard.
type measurementsQuery struct {
	namespace, prefix, after string
	limit                    int

	items []Measurement // result
	more  bool          // result: there are more from next on
	next  string        // result
}

// Machine returns engine.MachineTS.
func (*measurementsQuery) Machine() engine.MachineID { return engine.MachineTS }

// Kind identifies the kind of query.
func (*measurementsQuery) Kind() uint8 { return queryMeasurements }

// Arguments codes the arguments of the query.
func (q *measurementsQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("prefix", &q.prefix)
	f.Text("after", &q.after)
	f.Int("limit", &q.limit, engine.PageLimit)
}

// Results codes the results.
func (q *measurementsQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "measurements", &q.items, (*Measurement).code)
	f.Bool("more", &q.more)
	f.Text("next", &q.next)
}

func (q *measurementsQuery) answer(v *engine.View) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	v.Freeze()
	read := func(k, _ []byte) (Measurement, bool, error) { return measurementNow(v, ns, string(k[nameAt:])) }
	var err error
	if q.items, q.more, err = engine.ListRows(v, nameKey(nil, rowName, ns, q.prefix), nameKey(nil, rowName, ns, q.after), q.limit,
		read); q.more {
		q.next = q.items[len(q.items)-1].Name
	}
	return err
}

// seriesQuery queries the series of a measurement in a shard that have some tags and match filters,
// starting at a number.
type seriesQuery struct {
	namespace, name string
	tags            tagList
	filters         []floql.Filter
	from            uint32
	limit           int

	inc   incarnation   // result
	items []foundSeries // result
	more  bool          // result
	next  uint32        // result: the number to continue from
}

type foundSeries struct {
	id  seriesID
	row seriesRow
}

// Machine returns engine.MachineTS.
func (*seriesQuery) Machine() engine.MachineID { return engine.MachineTS }

// Kind identifies the kind of query.
func (*seriesQuery) Kind() uint8 { return querySeries }

// Arguments codes the arguments of the query.
func (q *seriesQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("measurement", &q.name)
	q.tags.codeAs(f, "tags")
	codec.ListOf(f, "filters", &q.filters, codeFilter)
	codec.Narrow(f, "from_series", &q.from)
	f.Int("limit", &q.limit, engine.PageLimit)
	if f.Checking() {
		_, err := checkFilters(q.filters)
		f.Refuse(err)
		f.Refuse(q.tags.check())
	}
}

func codeFilter(d *floql.Filter, f *codec.Fields) {
	f.Text("tag", &d.Tag)
	codec.Enum(f, "op", &d.Op, []string{"=", "!=", "=~", "!~"})
	f.Text("value", &d.Value)
	c := f.Binary()
	if !f.Parsing() && (c == nil || !c.Reading() || c.Err() != nil) {
		return
	}
	made, err := floql.NewFilter(d.Tag, d.Op, d.Value)
	if *d = made; err != nil {
		if f.Refuse(err); c != nil {
			c.Fail(err.Error())
		}
	}
}

// Results codes the results.
func (q *seriesQuery) Results(f *codec.Fields) {
	f.Uvarint("incarnation", (*uint64)(&q.inc))
	codec.ListOf(f, "series", &q.items, func(s *foundSeries, f *codec.Fields) {
		codec.Narrow(f, "id", &s.id)
		if c := f.Binary(); c != nil {
			s.row.code(c)
			return
		}
		f.Uvarint("fingerprint", &s.row.fingerprint)
		s.row.tags.codeJSON(f, "tags")
	})
	f.Bool("more", &q.more)
	codec.Narrow(f, "next_series", &q.next)
}

func (q *seriesQuery) answer(v *engine.View) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	v.Freeze()
	inc, ok, err := incarnationNow(v, ns, q.name)
	if err != nil || !ok {
		return err
	}
	q.inc = inc
	// The tag with the fewest series selects the candidates. The other tags are looked up in the
	// rows of the series.
	prefix, err := q.narrowest(v)
	if err != nil {
		return err
	}
	it, err := v.Iter(key.AppendUint32(bytes.Clone(prefix), q.from), key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		id := seriesOf(it.Key())
		if len(q.items) == q.limit || v.Full() && uint32(id) > q.from {
			q.more, q.next = true, uint32(id)
			break
		}
		err = q.take(v, id)
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return err
}

// narrowest returns the key prefix of the rows to read: series, or postings of one tag.
func (q *seriesQuery) narrowest(v *engine.View) (prefix []byte, err error) {
	prefix = incKey(nil, rowSeries, q.inc)
	fewest := uint64(math.MaxUint64)
	for _, t := range q.tags {
		b, ok, err := v.Get(valueKey(nil, q.inc, t.name, t.value))
		if err != nil {
			return nil, err
		}
		n := uint64(0)
		if ok {
			if n, err = decodeCount(b); err != nil {
				return nil, err
			}
		}
		if n < fewest {
			fewest, prefix = n, postingPrefix(nil, q.inc, t.name, t.value)
		}
	}
	return prefix, nil
}

func (q *seriesQuery) take(v *engine.View, id seriesID) error {
	k := seriesKey(nil, rowSeries, q.inc, id)
	b, ok, err := v.Get(k)
	if err != nil {
		return err
	}
	if !ok {
		return missingRow(k)
	}
	row, err := decodeSeries(b)
	if err != nil {
		return err
	}
	for _, t := range q.tags {
		if row.tags.get(t.name) != t.value {
			return nil
		}
	}
	for i := range q.filters {
		if f := &q.filters[i]; !f.Matches(row.tags.get(f.Tag)) {
			return nil
		}
	}
	q.items = append(q.items, foundSeries{id, row})
	return nil
}

// missingRow is the error for a row that other rows refer to.
func missingRow(k []byte) error {
	if len(k) < numberAt {
		return codec.ErrCorrupt
	}
	return engine.Errorf(codec.ErrCorrupt, "ts: missing row %q of measurement %d: %x", k[0], binary.BigEndian.Uint64(k[incarnationAt:]), k)
}
