package stream_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/floedb/floe/stream"
)

// TestDedupKnowsTheLastEight: repeating one of a producer's last 8 appends returns the original
// result; repeating an older one does not.
func TestDedupKnowsTheLastEight(t *testing.T) {
	_, s := newStore(t)
	first := make(map[uint64]stream.Appended)
	add := func(n uint64) (stream.Appended, error) {
		return s.Append(t.Context(), "log", stream.Message{Payload: fmt.Append(nil, n)}, stream.Dedup("p", n))
	}
	for n := uint64(1); n <= 20; n++ {
		got, err := add(n)
		if err != nil || got.Duplicate {
			t.Fatalf("append %d = %+v, %v", n, got, err)
		}
		first[n] = got
		for known := max(n, 8) - 7; known <= n; known++ {
			if got, err := add(known); err != nil || !got.Duplicate || got.ID != first[known].ID {
				t.Errorf("append %d after %d = %+v, %v, want what it was: %+v", known, n, got, err, first[known])
			}
		}
		if n > 8 {
			var conflict *stream.ConflictError
			if got, err := add(n - 8); !errors.As(err, &conflict) {
				t.Errorf("append %d after %d = %+v, %v, want a conflict", n-8, n, got, err)
			}
		}
	}
}

// TestSeekForgetsDueTimes: nothing happens at the due times of records that were pending before a
// seek.
func TestSeekForgetsDueTimes(t *testing.T) {
	for _, mode := range []stream.Mode{stream.Shared, stream.Exclusive, stream.KeyShared} {
		r, s := newStore(t)
		appendTexts(t, s, "log", "1", "2", "3")
		a, _ := consumers(t, s, mode)
		ds := a.want("1 2 3")
		a.nack(ds[2:])
		r.Advance(10)
		if err := s.Seek(t.Context(), "log", "g", stream.FromEnd()); err != nil {
			t.Fatal(err)
		}
		r.Advance(29_990) // the deadline of 1 and 2; 3 was due for redelivery long before
		a.want("")
		r.Advance(60_000)
		a.want("")
		if pending, err := s.Pending("log", "g").Page(t.Context(), stream.Limit(10)); err != nil || len(pending.Items) > 0 {
			t.Errorf("%v: after the seek to the end %+v is pending, %v", mode, pending, err)
		}
	}
}
