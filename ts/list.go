package ts

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/floedb/floe/internal/engine"
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
