package ts

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Page is a part of a listing, in its order, the same type in all packages of floe.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins, for the option Cursor; "" if this is the last one
}

// ListOption says which measurements a Store lists, or which series of one.
type ListOption interface{ applyList(*listOptions) }

type listOption func(*listOptions)

func (f listOption) applyList(o *listOptions) { f(o) }

type listOptions struct {
	engine.Listing
	tags map[string]string
}

// Limit sets how many items a page holds at most, 1 to 1000; the default is 100. Iterators read pages of this size.
func Limit(n int) ListOption { return listOption(func(o *listOptions) { o.Limit = n }) }

// Cursor continues a listing behind an earlier page, with its Cursor.
func Cursor(c string) ListOption { return listOption(func(o *listOptions) { o.Cursor = c }) }

// Prefix lists only measurements whose names begin with p.
func Prefix(p string) ListOption { return listOption(func(o *listOptions) { o.Prefix = p }) }

// WithTags lists only series that carry all of the tags, whatever others they have.
func WithTags(tags map[string]string) ListOption {
	return listOption(func(o *listOptions) { o.tags = tags })
}

func listOptionsOf(opts []ListOption) listOptions {
	o := listOptions{Listing: engine.NewListing()}
	for _, opt := range opts {
		opt.applyList(&o)
	}
	return o
}

// Measurement returns what there is of a measurement, summed over all shards. Nothing is counted for it. Errors: ErrNotFound.
func (s *Store) Measurement(ctx context.Context, name string) (Measurement, error) {
	if err := engine.CheckName("measurement", name); err != nil {
		return Measurement{}, err
	}
	parts, _, err := engine.AskAll(ctx, &s.scope, measurementQuery{namespace: s.scope.Namespace(), name: name})
	if err != nil {
		return Measurement{}, err
	}
	var found []Measurement
	for _, p := range parts {
		found = append(found, p.items...)
	}
	if len(found) == 0 {
		return Measurement{}, notFound(name)
	}
	return joinMeasurements(found)[0], nil
}

// Page returns a page of the measurements of the namespace, in order of their names, over all shards.
//
// Options: Limit, Cursor, Prefix. Errors: ErrInvalid for a limit that is not 1-1000, a prefix of more than 255 bytes, and a cursor that is no name
// with the prefix.
func (s *Store) Page(ctx context.Context, opts ...ListOption) (page Page[Measurement], err error) {
	o := listOptionsOf(opts)
	if err := o.Check("ts"); err != nil {
		return page, err
	}
	q := measurementsQuery{namespace: s.scope.Namespace(), prefix: o.Prefix, after: o.Cursor, limit: o.Limit}
	parts, _, err := engine.AskAll(ctx, &s.scope, q)
	if err != nil {
		return page, err
	}
	more, end := false, ""
	for _, p := range parts {
		page.Items = append(page.Items, p.items...)
		// Of what comes behind the last one that such a shard has told of, it may have told nothing.
		if last := p.next; p.more && (!more || last < end) {
			more, end = true, last
		}
	}
	page.Items = joinMeasurements(page.Items)
	if more {
		page.Items = slices.DeleteFunc(page.Items, func(m Measurement) bool { return m.Name > end })
	}
	if len(page.Items) > o.Limit {
		page.Items, more = page.Items[:o.Limit], true
		end = page.Items[o.Limit-1].Name
	}
	if more {
		page.Cursor = end
	}
	return page, nil
}

// All iterates over the measurements of the namespace, in order of their names. Each pair is a measurement and nil, or a zero Measurement and an
// error, after which iteration ends; nothing runs before the first step, and break or a done ctx releases everything.
//
// Options and errors are those of Page.
func (s *Store) All(ctx context.Context, opts ...ListOption) iter.Seq2[Measurement, error] {
	return engine.All(ctx, s.Page, opts, Cursor)
}

// joinMeasurements sorts by name, and makes one of what several shards have of a measurement.
func joinMeasurements(parts []Measurement) []Measurement {
	slices.SortStableFunc(parts, func(a, b Measurement) int { return cmp.Compare(a.Name, b.Name) })
	joined := parts[:0]
	for _, p := range parts {
		if n := len(joined); n > 0 && joined[n-1].Name == p.Name {
			joined[n-1].join(p)
			continue
		}
		joined = append(joined, p)
	}
	return joined
}

func (m *Measurement) join(p Measurement) {
	m.Series, m.Points = m.Series+p.Series, m.Points+p.Points
	if p.CreatedAt.Before(m.CreatedAt) {
		m.CreatedAt = p.CreatedAt
	}
	if !p.Oldest.IsZero() && (m.Oldest.IsZero() || p.Oldest.Before(m.Oldest)) {
		m.Oldest = p.Oldest
	}
	if p.Newest.After(m.Newest) {
		m.Newest = p.Newest
	}
	for _, f := range p.Fields {
		if !slices.ContainsFunc(m.Fields, func(has Field) bool { return has.Name == f.Name }) {
			m.Fields = append(m.Fields, f)
		}
	}
	if m.version < p.version {
		m.version, m.Retention = p.version, p.Retention
	}
}

// SeriesList lists the series of a measurement.
type SeriesList struct {
	store *Store
	name  string
}

// Series returns what lists the series of a measurement.
func (s *Store) Series(measurement string) SeriesList { return SeriesList{s, measurement} }

// Page returns a page of the series, by shards and, within a shard, in the order in which they were made. A page may be empty and not the last.
//
// Options: Limit, Cursor, WithTags. Errors: ErrInvalid for options out of their limits and for what is no cursor.
func (l SeriesList) Page(ctx context.Context, opts ...ListOption) (page Page[Series], err error) {
	o := listOptionsOf(opts)
	found, err := l.page(ctx, &o)
	for _, s := range found.items {
		page.Items = append(page.Items, Series{Measurement: l.name, Tags: s.row.tags.asMap()})
	}
	page.Cursor = found.next
	return page, err
}

// All iterates over the series, in the order of Page and by the contract of Store.All. Options and errors are those of Page.
func (l SeriesList) All(ctx context.Context, opts ...ListOption) iter.Seq2[Series, error] {
	return engine.All(ctx, l.Page, opts, Cursor)
}

func (l tagList) asMap() map[string]string {
	m := make(map[string]string, len(l))
	for _, t := range l {
		m[t.name] = t.value
	}
	return m
}

// seriesPage are series of one shard.
type seriesPage struct {
	items []foundSeries
	inc   incarnation
	route string // a name that leads to the shard
	next  string // the cursor of the next page
}

func (l SeriesList) page(ctx context.Context, o *listOptions) (p seriesPage, err error) {
	if err := engine.CheckName("measurement", l.name); err != nil {
		return p, err
	}
	if err := engine.CheckLimit("ts", o.Limit); err != nil {
		return p, err
	}
	for name, value := range o.tags {
		if err := checkTag(name, value); err != nil {
			return p, err
		}
	}
	scope := &l.store.scope
	shards, err := scope.Shards(ctx)
	if err != nil {
		return p, err
	}
	at, from, err := parseSeriesCursor(o.Cursor, len(shards))
	if err != nil {
		return p, err
	}
	q := seriesQuery{namespace: scope.Namespace(), name: l.name, tags: tagListOf(o.tags), from: from, limit: o.Limit}
	if err := scope.QueryShard(ctx, shards[at], &q); err != nil {
		return p, err
	}
	p.items, p.inc = q.items, q.inc
	p.route = shardRoute(scope.Namespace(), shards[at], scope.NodeShards())
	switch {
	case q.more:
		p.next = strconv.Itoa(at) + "-" + strconv.FormatUint(uint64(q.next), 10)
	case at+1 < len(shards):
		p.next = strconv.Itoa(at+1) + "-0"
	}
	return p, nil
}

// parseSeriesCursor reads a cursor: the place of a shard, and the first series that is to come.
func parseSeriesCursor(cursor string, shards int) (shard int, from uint32, err error) {
	if cursor == "" {
		return 0, 0, nil
	}
	left, right, _ := strings.Cut(cursor, "-")
	s, err1 := strconv.ParseUint(left, 10, 16)
	n, err2 := strconv.ParseUint(right, 10, 32)
	if err1 != nil || err2 != nil || int(s) >= shards || strconv.FormatUint(s, 10)+"-"+strconv.FormatUint(n, 10) != cursor {
		return 0, 0, engine.Errorf(ErrInvalid, "ts: cursor %.64q is not one of this listing: shard and series, such as 0-17", cursor)
	}
	return int(s), uint32(n), nil
}

func tagListOf(tags map[string]string) tagList {
	l := make(tagList, 0, len(tags))
	for name, value := range tags {
		l = append(l, tag{name, value})
	}
	slices.SortFunc(l, func(a, b tag) int { return cmp.Compare(a.name, b.name) })
	return l
}

// measurementQuery asks for one measurement.
type measurementQuery struct {
	namespace, name string

	items []Measurement // result: none or one
}

// Machine returns engine.MachineTS.
func (*measurementQuery) Machine() engine.MachineID { return engine.MachineTS }

// Kind tells the query from others.
func (*measurementQuery) Kind() uint8 { return queryMeasurement }

// Arguments codes what the query asks for.
func (q *measurementQuery) Arguments(c *codec.Coder) {
	c.String(&q.namespace)
	c.String(&q.name)
}

// Results codes the answer.
func (q *measurementQuery) Results(c *codec.Coder) { codec.List(c, &q.items, codeMeasurement) }

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
	return err
}

// measurementNow reads all rows of a measurement, or returns false if there is none.
func measurementNow(v *engine.View, ns uint32, name string) (m Measurement, ok bool, err error) {
	o, ok, err := openView(v, ns, name)
	if err != nil || !ok {
		return m, false, err
	}
	m = Measurement{
		Name: name, CreatedAt: time.UnixMilli(o.createdAt), Series: int64(o.content.series), Points: o.content.points,
		Retention: o.policy.retention(), version: o.policy.version,
	}
	if c := &o.content; c.oldest <= c.newest {
		m.Oldest, m.Newest = time.UnixMilli(c.oldest), time.UnixMilli(c.newest)
	}
	for _, f := range o.fields {
		m.Fields = append(m.Fields, Field{f.name, f.kind})
	}
	return m, true, nil
}

// openView reads a measurement for a query or a duty, or returns false if there is none.
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

func codeMeasurement(c *codec.Coder, m *Measurement) {
	c.String(&m.Name)
	c.Time(&m.CreatedAt)
	codec.List(c, &m.Fields, func(c *codec.Coder, f *Field) {
		c.String(&f.Name)
		c.Byte((*byte)(&f.Type))
	})
	c.Varint(&m.Series)
	c.Varint(&m.Points)
	c.Time(&m.Oldest)
	c.Time(&m.Newest)
	c.Varint((*int64)(&m.Retention.RawTTL))
	codec.List(c, &m.Retention.Downsample, func(c *codec.Coder, d *Downsample) {
		c.Varint((*int64)(&d.Every))
		c.Varint((*int64)(&d.TTL))
	})
	c.Uvarint(&m.version)
}

// measurementsQuery asks for a page of the measurements of a shard.
type measurementsQuery struct {
	namespace, prefix, after string
	limit                    int

	items []Measurement // result
	more  bool          // result: there are more behind next
	next  string        // result
}

// Machine returns engine.MachineTS.
func (*measurementsQuery) Machine() engine.MachineID { return engine.MachineTS }

// Kind tells the query from others.
func (*measurementsQuery) Kind() uint8 { return queryMeasurements }

// Arguments codes what the query asks for.
func (q *measurementsQuery) Arguments(c *codec.Coder) {
	c.String(&q.namespace)
	c.String(&q.prefix)
	c.String(&q.after)
	codePageLimit(c, &q.limit)
}

func codePageLimit(c *codec.Coder, limit *int) {
	c.Int(limit)
	if *limit < 1 || *limit > engine.MaxPageItems {
		c.Fail("limit out of range")
	}
}

// Results codes the answer.
func (q *measurementsQuery) Results(c *codec.Coder) {
	codec.List(c, &q.items, codeMeasurement)
	c.Bool(&q.more)
	c.String(&q.next)
}

func (q *measurementsQuery) answer(v *engine.View) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	v.Freeze()
	lower, upper, ok := key.Behind(nameKey(nil, rowName, ns, q.prefix), nameKey(nil, rowName, ns, q.after))
	if !ok {
		return nil
	}
	it, err := v.Iter(lower, upper)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		if len(q.items) == q.limit || len(q.items) > 0 && v.Full() {
			q.more, q.next = true, q.items[len(q.items)-1].Name
			break
		}
		var m Measurement
		if m, ok, err = measurementNow(v, ns, string(it.Key()[nameAt:])); ok {
			q.items = append(q.items, m)
		}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return err
}

// seriesQuery asks a shard for series of a measurement that have some tags, from a number on.
type seriesQuery struct {
	namespace, name string
	tags            tagList
	from            uint32
	limit           int

	inc   incarnation   // result
	items []foundSeries // result
	more  bool          // result
	next  uint32        // result: the number to go on from
}

type foundSeries struct {
	id  seriesID
	row seriesRow
}

// Machine returns engine.MachineTS.
func (*seriesQuery) Machine() engine.MachineID { return engine.MachineTS }

// Kind tells the query from others.
func (*seriesQuery) Kind() uint8 { return querySeries }

// Arguments codes what the query asks for.
func (q *seriesQuery) Arguments(c *codec.Coder) {
	c.String(&q.namespace)
	c.String(&q.name)
	q.tags.code(c)
	codeU32(c, &q.from)
	codePageLimit(c, &q.limit)
	if len(q.tags) > MaxTags {
		c.Fail("too many tags")
	}
}

// Results codes the answer.
func (q *seriesQuery) Results(c *codec.Coder) {
	c.Uvarint((*uint64)(&q.inc))
	codec.List(c, &q.items, func(c *codec.Coder, s *foundSeries) {
		codeU32(c, (*uint32)(&s.id))
		s.row.code(c)
	})
	c.Bool(&q.more)
	codeU32(c, &q.next)
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
	// The tag with the fewest series leads; the others are looked up in the rows of the series.
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

// narrowest returns what the keys begin with of the rows to look at: series, or postings of one tag.
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
	q.items = append(q.items, foundSeries{id, row})
	return nil
}

// missingRow is the error of a row that others say is there.
func missingRow(k []byte) error {
	if len(k) < numberAt {
		return codec.ErrCorrupt
	}
	return engine.Errorf(codec.ErrCorrupt, "ts: no row %q of measurement %d: %x", k[0], binary.BigEndian.Uint64(k[incarnationAt:]), k)
}
