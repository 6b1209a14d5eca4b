package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// MaxPageItems is the largest Limit of a page.
const MaxPageItems = engine.MaxPageItems

// Page is one page of a listing. All packages of floe use the same type.
type Page[T any] = struct {
	Items  []T
	Cursor string // where the next page begins, for the option Cursor; "" on the last page
}

// ListOption is an option of a listing of streams or of a stream's groups: Limit, Cursor or Prefix.
type ListOption interface{ listOption }

// PageOption is an option of every listing of floe: Limit or Cursor.
type PageOption interface{ pageOption }

type (
	listOption  = engine.ListOption
	pageOption  = engine.PageOption
	limitOption = engine.LimitOption
)

// Cursor continues a listing after an earlier page, with that page's Cursor. Items added or removed
// since may or may not appear, depending on their position; all others appear exactly once. A
// cursor is the position of a page's end. For streams and groups it is a name. For pending records
// it is the partition and the Offset, such as "3-17".
func Cursor(c string) PageOption { return engine.Cursor(c) }

// Prefix lists only streams, or groups, whose names have the prefix p.
func Prefix(p string) ListOption { return engine.Prefix(p) }

// Page returns a page of the streams of the namespace, in order of their names, across all shards.
// The page may be shorter than Limit if the streams have many partitions.
//
// Options: Limit, Cursor, Prefix. Errors: ErrInvalid for a limit outside 1-1000, a prefix of more
// than 255 bytes, and a cursor that is not a name with the prefix.
func (s *Store) Page(ctx context.Context, opts ...ListOption) (page Page[Stats], err error) {
	at, err := engine.ListingOf(opts)
	for ; err == nil; at.Cursor = page.Cursor {
		if page, err = s.page(ctx, at); len(page.Items) > 0 || page.Cursor == "" {
			break
		}
		// The remaining parts belong to deleted streams.
	}
	return page, err
}

// All iterates over the streams of the namespace, in order of their names. Each pair is a stream
// and nil, or zero Stats and an error, after which iteration ends; nothing runs before the first
// step, and break or a done ctx releases everything.
//
// Options and errors are those of Page.
func (s *Store) All(ctx context.Context, opts ...ListOption) iter.Seq2[Stats, error] {
	return engine.All(ctx, s.Page, opts)
}

// listed is a stream's entry in a shard's listing.
type listed struct {
	Stats
	id         uint64
	partitions int // in all shards
	home       bool
}

// page queries each shard for a page and merges the results. The merged page may be empty without
// being the last.
func (s *Store) page(ctx context.Context, l engine.Listing) (page Page[Stats], err error) {
	parts, shards, err := engine.AskAll(ctx, &s.scope,
		listQuery{namespace: s.scope.Namespace(), prefix: l.Prefix, after: l.Cursor, limit: l.Limit})
	if err != nil {
		return page, err
	}
	for at, q := range parts {
		for i := range q.streams {
			l := &q.streams[i]
			l.home = len(shards) == 1 || s.shardOf(l.Name, 0) == shards[at]
		}
	}
	found := func(q *listQuery) ([]listed, bool, string) { return q.streams, q.more, q.last }
	return engine.Merge(parts, l.Limit, found, func(l listed) string { return l.Name }, s.joined), nil
}

// joined merges the shards' entries for a stream. The home decides which stream has the name.
func (s *Store) joined(parts []listed) (Stats, bool) {
	home := slices.IndexFunc(parts, func(l listed) bool { return l.home })
	if home < 0 {
		return Stats{}, false
	}
	l := parts[home]
	for i, p := range parts {
		if i != home && p.id == l.id {
			l.Appended += p.Appended
			l.Reads += p.Reads
			l.Partitions = append(l.Partitions, p.Partitions...)
		}
	}
	s.complete(&l)
	return l.Stats, true
}

// complete adds the partitions of shards without a record yet.
func (s *Store) complete(l *listed) {
	known := make(map[int]bool, len(l.Partitions))
	for _, p := range l.Partitions {
		known[p.Partition] = true
	}
	for p := range l.partitions {
		if !known[p] {
			l.Partitions = append(l.Partitions, PartitionStats{Partition: p, First: 1, Shard: int(s.shardOf(l.Name, p))})
		}
	}
	sortPartitions(l.Partitions)
}

func sortPartitions(ps []PartitionStats) {
	slices.SortFunc(ps, func(a, b PartitionStats) int { return cmp.Compare(a.Partition, b.Partition) })
}

func (m *machine) queryList(v *engine.View, q *listQuery) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	lower, upper, ok := key.Behind(streamKey(nil, ns, q.prefix), streamKey(nil, ns, q.after))
	if !ok {
		return nil
	}
	v.Freeze()
	it, err := v.Iter(lower, upper)
	if err != nil {
		return err
	}
	partitions := 0
	for ok := it.First(); ok; ok = it.Next() {
		if q.more = len(q.streams) == q.limit || partitions >= maxListedPartitions || q.last != "" && v.Full(); q.more {
			break
		}
		name := string(it.Key()[5:])
		q.last = name
		h, err := decodeHeader(it.Value())
		if err == nil && !h.deleted() {
			var stats Stats
			stats, err = m.describe(&view{header: h, v: v, namespace: q.namespace, name: name, spread: v.Spread(q.namespace) &&
				!engine.Tagged(name)})
			q.streams = append(q.streams, listed{Stats: stats, id: h.id, partitions: h.partitions})
			partitions += len(stats.Partitions)
		}
		if err != nil {
			it.Close()
			return err
		}
	}
	return it.Close()
}

// Groups are the consumer groups of a stream.
type Groups struct {
	store  *Store
	stream string
}

// Groups returns a handle to create, configure, delete and list the consumer groups of a stream.
func (s *Store) Groups(stream string) Groups { return Groups{s, stream} }

// Page returns a page of the groups, in order of their names.
//
// Options: Limit, Cursor, Prefix. Errors: ErrNotFound if the stream does not exist; ErrInvalid as
// in Store.Page.
func (l Groups) Page(ctx context.Context, opts ...ListOption) (page Page[GroupStats], err error) {
	s := l.store
	o, err := engine.ListingOf(opts)
	if err != nil {
		return page, err
	}
	parts, err := s.parts(ctx, l.stream)
	if err != nil {
		return page, err
	}
	q := groupsQuery{namespace: s.scope.Namespace(), stream: l.stream, prefix: o.Prefix, after: o.Cursor, limit: o.Limit}
	if err := s.scope.Query(ctx, l.stream, &q); err != nil {
		return page, err
	}
	if !q.found {
		return page, notFound(l.stream)
	}
	if q.more {
		page.Cursor = q.infos[len(q.infos)-1].Name
	}
	for _, g := range q.infos {
		if len(parts) > 1 {
			name := g.Name
			if g, err = s.Groups(l.stream).Get(ctx, name); errors.Is(err, ErrNotFound) {
				continue // deleted since
			}
			if err != nil {
				return Page[GroupStats]{}, err
			}
		}
		g.sort()
		page.Items = append(page.Items, g)
	}
	return page, nil
}

// All iterates over the groups, in order of their names and with the contract of Store.All. Options
// and errors are those of Page.
func (l Groups) All(ctx context.Context, opts ...ListOption) iter.Seq2[GroupStats, error] {
	return engine.All(ctx, l.Page, opts)
}

// PendingRecord is a record of a group that is delivered or waits for redelivery.
type PendingRecord struct {
	ID          ID
	Ref         Ref
	Consumer    string    // "" if the record waits for redelivery
	DeliveredAt time.Time // time of the last delivery
	Deadline    time.Time // when the delivery to the consumer ends, or when the record may be redelivered
	Reason      string    // why the record is redelivered
}

// Pending lists the pending records of a group: those delivered and unacknowledged, and those
// waiting for redelivery.
type Pending struct {
	store         *Store
	stream, group string
}

// Pending returns a handle to list the pending records of a group.
func (s *Store) Pending(stream, group string) Pending { return Pending{s, stream, group} }

// Page returns a page of the records, in order of partition and offset.
//
// Options: Limit, Cursor. Errors: ErrNotFound if the stream or group does not exist; ErrInvalid for
// a limit outside 1-1000 and for a malformed cursor.
func (l Pending) Page(ctx context.Context, opts ...PageOption) (page Page[PendingRecord], err error) {
	o, err := engine.PageOf(opts)
	after, bad := parseCursor(o.Cursor)
	if err := cmp.Or(err, bad); err != nil {
		return page, err
	}
	s := l.store
	shards, err := s.shards(ctx, l.stream, l.group)
	if err != nil {
		return page, err
	}
	more := false
	for i, p := range shards {
		q := pendingQuery{namespace: s.scope.Namespace(), stream: l.stream, group: l.group, after: after, limit: o.Limit}
		if i > 0 {
			q.streamID, q.groupID = p.spec.id, p.groupSpec.id
		}
		if err := s.scope.Query(ctx, p.route, &q); err != nil {
			return Page[PendingRecord]{}, err
		}
		if i == 0 && !q.found {
			return page, groupNotFound(l.stream, l.group)
		}
		page.Items = append(page.Items, q.records...)
		more = more || q.more
	}
	// A shard with more records has returned limit of them, so none of the others comes before the
	// page's last one.
	slices.SortFunc(page.Items, comparePending)
	if len(page.Items) > o.Limit {
		page.Items, more = page.Items[:o.Limit], true
	}
	if more {
		page.Cursor = page.Items[len(page.Items)-1].Ref.cursor()
	}
	return page, nil
}

// All iterates over the records, in the order of Page and with the contract of Store.All. Options
// and errors are those of Page.
func (l Pending) All(ctx context.Context, opts ...PageOption) iter.Seq2[PendingRecord, error] {
	return engine.All(ctx, l.Page, opts)
}

// cursor formats a position as "3-17".
func (r Ref) cursor() string { return fmt.Sprintf("%d-%d", r.Partition, r.Offset) }

// parseCursor parses a cursor; "" is before all records.
func parseCursor(cursor string) (Ref, error) {
	if cursor == "" {
		return Ref{}, nil
	}
	partition, offset, _ := strings.Cut(cursor, "-")
	p, err1 := strconv.ParseUint(partition, 10, 32)
	n, err2 := strconv.ParseUint(offset, 10, 64)
	at := Ref{Partition: int(p), Offset: n}
	if err1 != nil || err2 != nil || p >= MaxPartitions || at.cursor() != cursor {
		return Ref{}, engine.BadCursor(cursor)
	}
	return at, nil
}

func comparePending(a, b PendingRecord) int { return a.Ref.compare(b.Ref) }
