package ts

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
)

// Page is one page of an ordered listing. All packages of floe use the same type.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins, for the option Cursor; "" if this is the last one
}

// ListOption selects which measurements a Store lists: Limit, Cursor or Prefix.
type ListOption interface{ listOption }

// PageOption is an option for any listing of floe: Limit or Cursor.
type PageOption interface{ pageOption }

// SeriesOption selects which series of a measurement are listed.
type SeriesOption interface{ seriesOption }

type (
	listOption   = engine.ListOption
	pageOption   = engine.PageOption
	seriesOption = engine.SeriesOption
	filter       = engine.Filter
	ofSeries     = engine.OfSeries
)

type seriesOptions struct {
	engine.Listing
	tags    map[string]string
	filters []floql.Filter
}

// Limit sets the maximum number of items on a page, 1 to 1000; the default is 100. Iterators read
// pages of this size.
func Limit(n int) PageOption { return engine.Limit(n) }

// Cursor continues a listing after an earlier page, with that page's Cursor.
func Cursor(c string) PageOption { return engine.Cursor(c) }

// Prefix lists only measurements whose names begin with p.
func Prefix(p string) ListOption { return engine.Prefix(p) }

// TagsOption is the type of Tags; listings of series, Store.Read and Store.Last accept it.
type TagsOption struct {
	filter
	ofSeries
	tags map[string]string
}

// Tags selects only series that have all of the given tags. They may have others too.
func Tags(tags map[string]string) TagsOption {
	return TagsOption{filter: engine.FilterOf(func(o *seriesOptions) { o.tags = tags }), tags: tags}
}

func (t TagsOption) applyRead(o *readOptions) { o.tags = t.tags }

// MatchingOption is the type of Matching; listings of series and Store.Read accept it.
type MatchingOption struct {
	filter
	ofSeries
	filters []floql.Filter
}

// Matching selects only series that match all filters. As in queries, filters compare values of
// tags, match globs, and negate both. Create them with floql.ParseFilters(`host=~web-*,
// region!=eu`) or floql.NewFilter.
func Matching(filters ...floql.Filter) MatchingOption {
	return MatchingOption{filter: engine.FilterOf(func(o *seriesOptions) { o.filters = filters }), filters: filters}
}

func (m MatchingOption) applyRead(o *readOptions) { o.filters = m.filters }

// maxFilters is the maximum number of filters per call.
const maxFilters = 100

// checkFilters returns compiled filters, even for filters not made by floql.NewFilter, or
// ErrInvalid.
func checkFilters(all []floql.Filter) ([]floql.Filter, error) {
	if len(all) > maxFilters {
		return nil, engine.Errorf(ErrInvalid, "ts: %d filters exceed %d", len(all), maxFilters)
	}
	made := make([]floql.Filter, len(all))
	for i := range all {
		f := &all[i]
		if f.Tag == "" || len(f.Tag) > MaxTagBytes || len(f.Value) > MaxTagValueBytes {
			return nil, engine.Errorf(ErrInvalid,
				"ts: filter on tag %.200q with a value of %d bytes: tag names have 1-%d bytes, values 0-%d",
				f.Tag, len(f.Value), MaxTagBytes, MaxTagValueBytes)
		}
		var err error
		if made[i], err = floql.NewFilter(f.Tag, f.Op, f.Value); err != nil {
			return nil, engine.Errorf(ErrInvalid, "ts: filter on tag %q: %v", f.Tag, err)
		}
	}
	return made, nil
}

// checkTags returns ErrInvalid for invalid tags.
func checkTags(tags map[string]string) error {
	if len(tags) > MaxTags {
		return engine.Errorf(ErrInvalid, "ts: %d tags exceed %d", len(tags), MaxTags)
	}
	for name, value := range tags {
		if err := checkTag(name, value); err != nil {
			return err
		}
	}
	return nil
}

func seriesOptionsOf(opts []SeriesOption) seriesOptions {
	o := seriesOptions{Listing: engine.NewListing()}
	engine.Apply(&o, opts)
	return o
}

// Get returns the figures of a measurement, summed over all shards, without a scan. Errors:
// ErrNotFound.
func (s *Store) Get(ctx context.Context, name string) (Measurement, error) {
	if err := engine.CheckName("measurement", name); err != nil {
		return Measurement{}, err
	}
	m, ok, _, err := s.measurement(ctx, name)
	if err == nil && !ok {
		err = notFound(name)
	}
	return m, err
}

// measurement returns a measurement, if it has points, and the newest retention of its shards.
func (s *Store) measurement(ctx context.Context, name string) (m Measurement, ok bool, newest measurementQuery, err error) {
	parts, _, err := engine.AskAll(ctx, &s.scope, measurementQuery{namespace: s.Namespace(), name: name})
	if err != nil {
		return m, false, newest, err
	}
	var found []Measurement
	for _, p := range parts {
		found = append(found, p.items...)
		if p.policy > newest.policy {
			newest = *p
		}
	}
	m, ok = joinMeasurements(found)
	return m, ok, newest, nil
}

// Page returns a page of the measurements of the namespace, in order of their names, over all
// shards.
//
// Options: Limit, Cursor, Prefix. Errors: ErrInvalid for a limit that is not 1-1000, a prefix of
// more than 255 bytes, and a cursor that is not a name with the prefix.
func (s *Store) Page(ctx context.Context, opts ...ListOption) (page Page[Measurement], err error) {
	o, err := engine.ListingOf(opts)
	if err != nil {
		return page, err
	}
	q := measurementsQuery{namespace: s.scope.Namespace(), prefix: o.Prefix, after: o.Cursor, limit: o.Limit}
	parts, _, err := engine.AskAll(ctx, &s.scope, q)
	if err != nil {
		return page, err
	}
	found := func(q *measurementsQuery) ([]Measurement, bool, string) { return q.items, q.more, q.next }
	return engine.Merge(parts, o.Limit, found, func(m Measurement) string { return m.Name }, joinMeasurements), nil
}

// All iterates over the measurements of the namespace, in order of their names. Each pair is a
// measurement and nil, or a zero Measurement and an error, after which iteration ends; nothing runs
// before the first step, and break or a done ctx releases everything.
//
// Options and errors are those of Page.
func (s *Store) All(ctx context.Context, opts ...ListOption) iter.Seq2[Measurement, error] {
	return engine.All(ctx, s.Page, opts)
}

// joinMeasurements combines the parts of a measurement in several shards. A measurement without
// fields was deleted, but its home shard has not processed that yet.
func joinMeasurements(parts []Measurement) (m Measurement, ok bool) {
	for i, p := range parts {
		if i == 0 {
			m = p
		} else {
			m.join(p)
		}
	}
	return m, len(m.Fields) > 0
}

func (m *Measurement) join(p Measurement) {
	m.Series, m.Points = m.Series+p.Series, m.Points+p.Points
	if m.Held == 0 {
		m.HeldBy = p.HeldBy
	}
	m.Held += p.Held
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

// Series returns a handle that lists the series of a measurement.
func (s *Store) Series(measurement string) SeriesList { return SeriesList{s, measurement} }

// Page returns a page of the series, shard by shard and, within a shard, in order of creation. A
// page may be empty without being the last.
//
// Options: Limit, Cursor, Tags, Matching. Errors: ErrInvalid for options out of range and for a
// malformed cursor; ErrConflict if the measurement was deleted and recreated since the previous
// page.
func (l SeriesList) Page(ctx context.Context, opts ...SeriesOption) (page Page[Series], err error) {
	o := seriesOptionsOf(opts)
	found, err := l.page(ctx, &o)
	for _, s := range found.items {
		page.Items = append(page.Items, Series{Measurement: l.name, Tags: s.row.tags.asMap()})
	}
	page.Cursor = found.next
	return page, err
}

// All iterates over the series in the order of Page, with the contract of Store.All. Options and
// errors are those of Page.
func (l SeriesList) All(ctx context.Context, opts ...SeriesOption) iter.Seq2[Series, error] {
	return engine.All(ctx, l.Page, opts)
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
	route string // a name routed to the shard
	next  string // the cursor of the next page
}

func (l SeriesList) page(ctx context.Context, o *seriesOptions) (p seriesPage, err error) {
	if err := engine.CheckName("measurement", l.name); err != nil {
		return p, err
	}
	if err := o.Err; err != nil {
		return p, err
	}
	if err := checkTags(o.tags); err != nil {
		return p, err
	}
	filters, err := checkFilters(o.filters)
	if err != nil {
		return p, err
	}
	scope := &l.store.scope
	shards, err := scope.Shards(ctx)
	if err != nil {
		return p, err
	}
	at, from, inc, err := parseSeriesCursor(o.Cursor, len(shards))
	if err != nil {
		return p, err
	}
	q := seriesQuery{namespace: scope.Namespace(), name: l.name, tags: tagListOf(o.tags), filters: filters, from: from, limit: o.Limit}
	if err := scope.QueryShard(ctx, shards[at], &q); err != nil {
		return p, err
	}
	if inc != 0 && inc != q.inc {
		return p, engine.Errorf(ErrConflict, "measurement %q was deleted while its series were listed", l.name)
	}
	p.items, p.inc = q.items, q.inc
	p.route = engine.RouteTo(scope.Namespace(), shards[at], scope.NodeShards())
	switch {
	case q.more:
		p.next = formatSeriesCursor(at, q.next, q.inc)
	case at+1 < len(shards):
		p.next = formatSeriesCursor(at+1, 0, 0)
	}
	return p, nil
}

// formatSeriesCursor makes a cursor: the index of a shard, the first series to return, and its
// incarnation, 0 for any.
func formatSeriesCursor(shard int, from uint32, inc incarnation) string {
	return strconv.Itoa(shard) + "-" + strconv.FormatUint(uint64(from), 10) + "-" + strconv.FormatUint(uint64(inc), 10)
}

// parseSeriesCursor reads a cursor.
func parseSeriesCursor(cursor string, shards int) (shard int, from uint32, inc incarnation, err error) {
	if cursor == "" {
		return 0, 0, 0, nil
	}
	var numbers [3]uint64
	parts := strings.Split(cursor, "-")
	for i := range min(len(parts), 3) {
		var bad error
		if numbers[i], bad = strconv.ParseUint(parts[i], 10, []int{16, 32, 64}[i]); bad != nil {
			err = bad
		}
	}
	shard, from, inc = int(numbers[0]), uint32(numbers[1]), incarnation(numbers[2])
	if err != nil || shard >= shards || formatSeriesCursor(shard, from, inc) != cursor {
		return 0, 0, 0, engine.BadCursor(cursor)
	}
	return shard, from, inc, nil
}

func tagListOf(tags map[string]string) tagList {
	l := make(tagList, 0, len(tags))
	for name, value := range tags {
		l = append(l, tag{name, value})
	}
	slices.SortFunc(l, func(a, b tag) int { return cmp.Compare(a.name, b.name) })
	return l
}
