package stream_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/floedb/floe/stream"
)

// TestPageOfSpreadNamespace: a listing reports the same numbers as Stats for streams with
// partitions in several shards. This also holds while other shards still remember streams that were
// deleted, or deleted and recreated.
func TestPageOfSpreadNamespace(t *testing.T) {
	_, s := newSpread(t, 3)
	ctx := t.Context()
	var names []string
	for i := range 40 {
		name := fmt.Sprintf("s%02d", i)
		if i%4 == 3 {
			name = fmt.Sprintf("{tag}%02d", i)
		}
		if err := s.Create(ctx, name, stream.Partitions(1+i%5)); err != nil {
			t.Fatal(err)
		}
		for p := range 1 + i%5 {
			if p != 2 { // a partition without records
				if _, err := s.Append(ctx, name, text("x"), stream.Partition(p)); err != nil {
					t.Fatal(err)
				}
			}
		}
		switch {
		case i%3 == 0:
			if err := s.Delete(ctx, name, stream.Force()); err != nil {
				t.Fatal(err)
			}
			continue
		case i%10 == 4:
			if err := s.Delete(ctx, name, stream.Force()); err != nil {
				t.Fatal(err)
			}
			if err := s.Create(ctx, name, stream.Partitions(4)); err != nil {
				t.Fatal(err)
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, limit := range []int{1, 3, 7, 1000} {
		var got []string
		for cursor, more := "", true; more; more = cursor != "" {
			page, err := s.Page(ctx, stream.Cursor(cursor), stream.Limit(limit))
			if err != nil || len(page.Items) > limit {
				t.Fatalf("Page behind %q of %d = %v, %v", cursor, limit, page, err)
			}
			for _, stats := range page.Items {
				got = append(got, stats.Name)
				if want, err := s.Get(ctx, stats.Name); err != nil || fmt.Sprint(stats) != fmt.Sprint(want) {
					t.Errorf("Page behind %q of %d says %+v, Stats says %+v, %v", cursor, limit, stats, want, err)
				}
			}
			cursor = page.Cursor
		}
		if !slices.Equal(got, names) {
			t.Errorf("pages of %d list %q, want %q", limit, got, names)
		}
	}
}

// TestPendingOfTrimmedStream: trimmed records take no space on a page, and the last page is
// recognized as the last.
func TestPendingOfTrimmedStream(t *testing.T) {
	_, s := newStore(t)
	ctx := t.Context()
	for i := range 30 {
		appendTexts(t, s, "log", fmt.Sprint(i))
	}
	if _, err := s.ReadGroup(ctx, "log", "g", "a", stream.Limit(30)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Trim(ctx, "log", stream.MaxLen(5)); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	pages := 0
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := s.Pending("log", "g").Page(ctx, stream.Cursor(cursor), stream.Limit(2))
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range page.Items {
			got = append(got, rec.Ref.Offset)
		}
		cursor = page.Cursor
		pages++
	}
	if want := []uint64{26, 27, 28, 29, 30}; !slices.Equal(got, want) || pages != 3 {
		t.Errorf("%d pages of what is pending have the offsets %v, want three and %v", pages, got, want)
	}
}

func TestGroupsAll(t *testing.T) {
	_, s := newStore(t)
	ctx := t.Context()
	if err := s.Create(ctx, "log"); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for i := range 250 {
		name := fmt.Sprintf("g%03d", i)
		want = append(want, name)
		if err := s.Groups("log").Create(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	for g, err := range s.Groups("log").All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, g.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("Groups.All gives %q, want %q", got, want)
	}
	for _, err := range s.Groups("none").All(ctx) {
		wantError(t, "Groups of a stream that does not exist", err, stream.ErrNotFound, `"none" not found`)
	}
}

// TestGroupHasAllCursors: a group also has cursors for partitions in shards that have not received
// the group yet.
func TestGroupHasAllCursors(t *testing.T) {
	r, s := newSpread(t, 4)
	r.Hold(true)
	defer r.Hold(false)
	ctx := t.Context()
	if err := s.Create(ctx, "log", stream.Partitions(16)); err != nil {
		t.Fatal(err)
	}
	if err := s.Groups("log").Create(ctx, "g"); err != nil {
		t.Fatal(err)
	}
	info, err := s.Groups("log").Get(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, c := range info.Cursors {
		got = append(got, c.Partition)
	}
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; !slices.Equal(got, want) {
		t.Errorf("there are cursors of the partitions %v, want %v", got, want)
	}
}
