package stream_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/floedb/floe/stream"
)

// TestPageOfSpreadNamespace: a listing says of streams whose partitions are in several shards what Info says, also when other shards still remember streams
// that have been deleted, or deleted and made again.
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
		for after := ""; ; after = got[len(got)-1] {
			page, err := s.Page(ctx, after, limit)
			if err != nil || len(page) > limit {
				t.Fatalf("Page(%q, %d) = %v, %v", after, limit, page, err)
			}
			if len(page) == 0 {
				break
			}
			for _, info := range page {
				got = append(got, info.Name)
				if want, err := s.Info(ctx, info.Name); err != nil || fmt.Sprint(info) != fmt.Sprint(want) {
					t.Errorf("Page(%q, %d) says %+v, Info says %+v, %v", after, limit, info, want, err)
				}
			}
		}
		if !slices.Equal(got, names) {
			t.Errorf("pages of %d list %q, want %q", limit, got, names)
		}
	}
}

// TestPendingOfTrimmedStream: records that were trimmed take no place on a page, so an empty one is the end.
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
	for after := (stream.Ref{}); ; {
		page, err := s.Pending(ctx, "log", "g", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, rec := range page {
			got, after = append(got, rec.Ref.Offset), rec.Ref
		}
	}
	if want := []uint64{26, 27, 28, 29, 30}; !slices.Equal(got, want) {
		t.Errorf("pages of what is pending have the offsets %v, want %v", got, want)
	}
}

func TestAllGroups(t *testing.T) {
	_, s := newStore(t)
	ctx := t.Context()
	if err := s.Create(ctx, "log"); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for i := range 250 {
		name := fmt.Sprintf("g%03d", i)
		want = append(want, name)
		if err := s.CreateGroup(ctx, "log", name); err != nil {
			t.Fatal(err)
		}
	}
	for g, err := range s.AllGroups(ctx, "log") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, g.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("AllGroups gives %q, want %q", got, want)
	}
	for _, err := range s.AllGroups(ctx, "none") {
		wantError(t, "AllGroups of a stream that does not exist", err, stream.ErrNotFound, `"none" not found`)
	}
}
