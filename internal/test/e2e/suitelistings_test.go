package e2e

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// listed is the prefix of the namespaces with items to list.
const listed = "list of"

// listing is one of the listings, of any type. Each has a Page and an All, with the options Limit,
// Cursor and, if it is by name, Prefix.
type listing struct {
	page func(limit int, cursor, prefix string) (names []string, next string, err error)
	all  func(limit int, cursor, prefix string) (names []string, err error)

	prefix     string // "": no such option
	badCursors []string
}

func listingOf[T, O any](
	page func(context.Context, ...O) (floe.Page[T], error), all func(context.Context, ...O) iter.Seq2[T, error],
	name func(T) string, more ...O,
) listing {
	options := func(limit int, cursor, prefix string) []O {
		opts := append(slices.Clone(more), any(floe.Limit(limit)).(O), any(floe.Cursor(cursor)).(O)) // floe's options suit all listings
		if byName, ok := any(floe.Prefix(prefix)).(O); ok {
			opts = append(opts, byName)
		}
		return opts
	}
	return listing{
		page: func(limit int, cursor, prefix string) (names []string, next string, err error) {
			p, err := page(context.Background(), options(limit, cursor, prefix)...)
			for _, item := range p.Items {
				names = append(names, name(item))
			}
			return names, p.Cursor, err
		},
		all: func(limit int, cursor, prefix string) (names []string, err error) {
			for item, err := range all(context.Background(), options(limit, cursor, prefix)...) {
				if err != nil {
					return names, err
				}
				names = append(names, name(item))
			}
			return names, nil
		},
	}
}

// listings returns all listings, over a namespace in which each has items.
func listings(db database, namespace string) map[string]listing {
	keys, streams, queues := db.KV(namespace), db.Stream(namespace), db.Queue(namespace)
	pending, messages, dead := streams.Pending("s/0", "g/0"), queues.Messages("q/0"), queues.DeadLetters("q/0")
	list := map[string]listing{
		"namespaces": listingOf(db.Namespaces().Page, db.Namespaces().All, func(s floe.NamespaceStats) string { return s.Name }),
		"keys":       listingOf(keys.Page, keys.All, func(it kv.Item) string { return it.Key }, kv.ListOption(kv.NoValues())),
		"streams":    listingOf(streams.Page, streams.All, func(s stream.Stats) string { return s.Name }),
		"groups": listingOf(streams.Groups("s/0").Page, streams.Groups("s/0").All,
			func(g stream.GroupStats) string { return g.Name }),
		"pending": listingOf(pending.Page, pending.All, func(r stream.PendingRecord) string { return r.ID.String() }),
		"queues":  listingOf(queues.Page, queues.All, func(s queue.Stats) string { return s.Name }),
		"messages": listingOf(messages.Page, messages.All, func(m queue.Message) string { return fmt.Sprint(m.Seq) },
			queue.MessageOption(queue.NoPayload())),
		"dead letters": listingOf(dead.Page, dead.All, func(m queue.Message) string { return fmt.Sprint(m.Seq) },
			queue.DeadOption(queue.NoPayload())),
	}
	for name, more := range map[string]listing{
		"namespaces":   {prefix: listed},
		"keys":         {prefix: "k/1", badCursors: []string{"k/1", "%", strings.Repeat("A", 10_000)}},
		"streams":      {prefix: "s/1"},
		"groups":       {prefix: "g/1"},
		"queues":       {prefix: "q/1"},
		"pending":      {badCursors: []string{"1", "x-1", "-1-1", "3-1", "1023-1", "1024-1", "1-", "0-18446744073709551616", "01-1"}},
		"messages":     {badCursors: []string{"1", "256-1", "-1-1", "1-x", "1-18446744073709551616", "01-1"}},
		"dead letters": {badCursors: []string{"x", "-1", "18446744073709551616", "1-1", "01"}},
	} {
		l := list[name]
		l.prefix, l.badCursors = more.prefix, more.badCursors
		list[name] = l
	}
	return list
}

// suiteListings checks the convention of all listings: pages of any size return the same as the
// iterator, and a cursor continues where its page ended. Values out of range are refused by both,
// with the value and the limit.
func suiteListings(t *testing.T, db database) {
	for _, namespace := range []string{listed + " one", listed + " all"} {
		fill(t, db, namespace)
		for name, l := range listings(db, namespace) {
			t.Run(namespace+"/"+name, func(t *testing.T) {
				l.whole(t)
				l.limits(t)
			})
		}
	}
}

// fill puts twelve items of each kind into a namespace.
func fill(t *testing.T, db database, namespace string) {
	ctx := t.Context()
	if namespace == listed+" all" {
		if err := db.Namespaces().Create(ctx, namespace, floe.Spread()); err != nil {
			t.Fatal(err)
		}
	}
	keys, streams, queues := db.KV(namespace), db.Stream(namespace), db.Queue(namespace)
	for i := range 12 {
		ok[kv.Written](t)(keys.Put(ctx, fmt.Sprintf("k/%d", i), []byte("v")))
		name := fmt.Sprintf("s/%d", i)
		if err := streams.Create(ctx, name, stream.Partitions(3)); err != nil {
			t.Fatal(err)
		}
		ok[stream.Appended](t)(streams.Append(ctx, "s/0", message("m"), stream.Partition(i%3)))
		if err := streams.Groups("s/0").Create(ctx, fmt.Sprintf("g/%d", i)); err != nil {
			t.Fatal(err)
		}
		ok[queue.Enqueued](t)(queues.Enqueue(ctx, fmt.Sprintf("q/%d", i), []byte("m")))
		for range 2 {
			ok[queue.Enqueued](t)(queues.Enqueue(ctx, "q/0", []byte("m"), queue.Priority(i%3)))
		}
	}
	ok[[]stream.Delivery](t)(streams.ReadGroup(ctx, "s/0", "g/0", "c", stream.Limit(12)))
	for _, m := range ok[[]queue.Message](t)(queues.Dequeue(ctx, "q/0", queue.Max(12))) {
		if _, err := queues.Nack(ctx, "q/0", []queue.Receipt{m.Receipt}, queue.ToDLQ()); err != nil {
			t.Fatal(err)
		}
	}
}

// whole compares pages of several sizes with the iterator, and both with a prefix.
func (l *listing) whole(t *testing.T) {
	least := 12
	if l.prefix == listed {
		least = 2
	}
	want, err := l.all(1000, "", "")
	if err != nil || len(want) < least || len(slices.Compact(slices.Sorted(slices.Values(want)))) != len(want) {
		t.Fatalf("All = %q, %v; want %d different ones", want, err, least)
	}
	var with []string
	for _, name := range want {
		if l.prefix != "" && strings.HasPrefix(name, l.prefix) {
			with = append(with, name)
		}
	}
	for _, limit := range []int{1, 5, len(want), 1000} {
		for _, prefix := range []string{"", l.prefix} {
			expected := want
			if prefix != "" {
				expected = with
			}
			got, err := l.all(limit, "", prefix)
			if err != nil || !slices.Equal(got, expected) {
				t.Errorf("All(Limit(%d), Prefix(%q)) = %q, %v; want %q", limit, prefix, got, err, expected)
			}
			var paged []string
			for cursor, more := "", true; more; more = cursor != "" {
				rest, err := l.all(limit, cursor, prefix)
				if err != nil || !slices.Equal(rest, expected[min(len(paged), len(expected)):]) {
					t.Errorf("All(Limit(%d), Cursor(%q), Prefix(%q)) = %q, %v; behind %q", limit, cursor, prefix, rest, err, paged)
				}
				names, next, err := l.page(limit, cursor, prefix)
				if err != nil || len(names) > limit {
					t.Fatalf("Page(Limit(%d), Cursor(%q), Prefix(%q)) = %q, %v", limit, cursor, prefix, names, err)
				}
				paged, cursor = append(paged, names...), next
			}
			if !slices.Equal(paged, expected) {
				t.Errorf("pages with Limit(%d), Prefix(%q) have %q; want %q", limit, prefix, paged, expected)
			}
		}
	}
	if names, next, err := l.page(len(want), "", ""); err != nil || len(names) != len(want) || next != "" {
		t.Errorf("a page for all there is has %d of %d items, cursor %q, %v; want none", len(names), len(want), next, err)
	}
	if l.prefix != "" {
		for _, prefix := range []string{"none begins so", strings.Repeat("p", 255), "\xff\xff", "k\x00"} {
			if names, next, err := l.page(5, "", prefix); err != nil || len(names) > 0 || next != "" {
				t.Errorf("a page of what begins with %.40q = %q, cursor %q, %v", prefix, names, next, err)
			}
		}
	}
}

// limits requests impossible pages. A negative limit once made a Node panic and a Client lose its
// connection.
func (l *listing) limits(t *testing.T) {
	refused := func(limit int, cursor, prefix string, says ...string) {
		t.Helper()
		names, next, err := l.page(limit, cursor, prefix)
		seen, allErr := l.all(limit, cursor, prefix)
		if !errors.Is(err, floe.ErrInvalid) || !errors.Is(allErr, floe.ErrInvalid) || len(names) > 0 || len(seen) > 0 || next != "" {
			t.Fatalf("limit %d, cursor %.40q, prefix %.40q: %v and %v; want ErrInvalid and nothing else", limit, cursor, prefix, err,
				allErr)
		}
		for _, text := range says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("limit %d, cursor %.40q, prefix %.40q: %q does not say %q", limit, cursor, prefix, err, text)
			}
		}
	}
	for _, limit := range []int{math.MinInt, -1, 0, 1001, math.MaxInt} {
		refused(limit, "", "", fmt.Sprintf("limit %d", limit), "1-1000")
	}
	for _, cursor := range l.badCursors {
		refused(100, cursor, "", "cursor")
	}
	if l.prefix == "" {
		return
	}
	most := engine.MaxNameBytes
	if strings.HasPrefix(l.prefix, "k/") {
		most = kv.MaxKeyBytes
	}
	refused(100, "", strings.Repeat("p", most+1), "prefix", fmt.Sprint(most+1), fmt.Sprint(most))
	if most == kv.MaxKeyBytes {
		return
	}
	// The cursors of names are names.
	refused(100, strings.Repeat("n", most+1), "", "is not from this listing")
	refused(100, "two\nlines", "", `cursor "two\nlines" is not from this listing`)
	refused(100, "\xff", "", "is not from this listing")
	refused(100, "other", l.prefix, `cursor "other" is not from this listing`)
}
