package stream_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// TestActivity: the counts of records and bytes per time bucket match what a reader counts, for
// whole and cut buckets and for one partition.
func TestActivity(t *testing.T) {
	eachKind(t, func(t *testing.T, r *machinetest.Rig, s *stream.Store) {
		ids := fill(t, r, s, 60, 20)
		if _, err := s.Trim(t.Context(), "log", stream.MaxLen(8)); err != nil {
			t.Fatal(err)
		}
		recs, err := s.Read(t.Context(), "log", stream.Limit(1000))
		if err != nil {
			t.Fatal(err)
		}
		partition := recs[0].Partition
		first := ids[0].Millis
		for _, step := range []int64{1, 3, 7, 1000} {
			for _, from := range []int64{first - 5, first, first + 9, ids[59].Millis + 1} {
				for _, of := range [][]int{nil, {partition}} {
					span := stream.ActivitySpan{From: time.UnixMilli(from), Step: time.Duration(step) * time.Millisecond, Parts: 11,
						Partitions: of}
					want := stream.Activity{Records: make([]int64, 11), Bytes: make([]int64, 11)}
					for _, rec := range recs {
						part := (rec.ID.Millis - from) / step
						if rec.ID.Millis >= from && part < 11 && (of == nil || rec.Partition == partition) {
							want.Records[part]++
						}
					}
					got, err := s.Activity(t.Context(), "log", span)
					if err != nil || !slices.Equal(got.Records, want.Records) {
						t.Errorf("Activity(%+v) = %v, %v, want the records %v", span, got, err, want.Records)
					}
					for i, n := range got.Records {
						if n > 0 && got.Bytes[i] < 20*n || n == 0 && got.Bytes[i] != 0 {
							t.Errorf("Activity(%+v) = %v: %d bytes of %d records", span, got, got.Bytes[i], n)
						}
					}
				}
			}
		}
		stats, err := s.Get(t.Context(), "log")
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.Activity(t.Context(), "log", stream.ActivitySpan{From: time.UnixMilli(first), Step: time.Hour, Parts: 1})
		if err != nil || all.Records[0] != stats.Records() || all.Bytes[0] != bytesOf(&stats) {
			t.Errorf("Activity of all = %v, %v, Stats say %d records of %d bytes", all, err, stats.Records(), bytesOf(&stats))
		}
		for _, span := range []stream.ActivitySpan{
			{Step: time.Second}, {Step: time.Second, Parts: stream.MaxActivityParts + 1}, {Step: time.Microsecond, Parts: 1},
			{Step: time.Second, Parts: 1, Partitions: []int{99}}, {Step: 400 * 24 * time.Hour, Parts: 1},
		} {
			if _, err := s.Activity(t.Context(), "log", span); !errors.Is(err, stream.ErrInvalid) {
				t.Errorf("Activity(%+v): %v, want ErrInvalid", span, err)
			}
		}
		if _, err := s.Activity(t.Context(), "none", stream.ActivitySpan{Step: time.Second, Parts: 1}); !errors.Is(err,
			stream.ErrNotFound) {
			t.Errorf("Activity of no stream: %v, want ErrNotFound", err)
		}
	})
}

func bytesOf(s *stream.Stats) (n int64) {
	for _, p := range s.Partitions {
		n += p.Bytes
	}
	return n
}
