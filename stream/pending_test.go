package stream_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// TestPagesOfPendingRecords: a page visits the records behind its cursor, not all pending records
// of the group, and GroupStats visits hardly any. All pages together hold all records, in order,
// whatever their history: delivered in many sizes, acknowledged in part, extended, failed and
// redelivered far apart.
func TestPagesOfPendingRecords(t *testing.T) {
	for _, mode := range []stream.Mode{stream.Shared, stream.KeyShared} {
		t.Run(mode.String(), func(t *testing.T) {
			const records = 14_000
			rng := rand.New(rand.NewPCG(machinetest.Seed(t), 0))
			r, s, a, _ := manyPending(t, mode, records)
			want := make(map[stream.Ref]bool)
			var all []stream.Ref
			for p, err := range s.Pending("log", "g").All(t.Context(), stream.Limit(1000)) {
				must(t, err)
				all = append(all, stream.Ref{Partition: p.Ref.Partition, Offset: p.Ref.Offset})
				want[all[len(all)-1]] = true
			}
			if len(all) != records {
				t.Fatalf("%d records are under way, want %d", len(all), records)
			}
			some := func() (refs []stream.Ref) {
				for range 300 {
					refs = append(refs, all[rng.IntN(len(all))])
				}
				slices.SortFunc(refs, func(a, b stream.Ref) int {
					return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
				})
				return slices.Compact(refs)
			}
			acked := some()
			_, err := s.Ack(t.Context(), "log", "g", acked...)
			must(t, err)
			for _, ref := range acked {
				if mode != stream.KeyShared {
					delete(want, ref)
				}
			}
			_, err = s.ExtendMany(t.Context(), "log", "g", some(), 2*time.Hour)
			must(t, err)
			_, err = s.Nack(t.Context(), "log", "g", some())
			must(t, err)
			a.read(stream.Limit(200)) // some of them, as one delivery of scattered records
			if mode == stream.KeyShared {
				clear(want)
				for p, err := range s.Pending("log", "g").All(t.Context(), stream.Limit(1000)) {
					must(t, err)
					want[stream.Ref{Partition: p.Ref.Partition, Offset: p.Ref.Offset}] = true
				}
			}

			x := r.Executor(0)
			before := x.Scanned()
			info, err := s.Groups("log").Get(t.Context(), "g")
			if looked := x.Scanned() - before; err != nil || info.Pending() != len(want) || looked > 100 {
				t.Errorf("GroupStats looked at %d rows and counts %d records under way, %v, want %d", looked, info.Pending(), err,
					len(want))
			}
			var got []stream.Ref
			pages, most := 0, int64(0)
			for cursor := ""; ; pages++ {
				before := x.Scanned()
				page, err := s.Pending("log", "g").Page(t.Context(), stream.Limit(100), stream.Cursor(cursor))
				must(t, err)
				most = max(most, x.Scanned()-before)
				for _, p := range page.Items {
					got = append(got, stream.Ref{Partition: p.Ref.Partition, Offset: p.Ref.Offset})
				}
				if cursor = page.Cursor; cursor == "" {
					break
				}
			}
			if !slices.IsSortedFunc(got, func(a, b stream.Ref) int {
				return 100_000*(a.Partition-b.Partition) + int(a.Offset) - int(b.Offset)
			}) {
				t.Error("the pages are not in order")
			}
			if len(got) != len(want) {
				t.Errorf("%d records in %d pages, want %d", len(got), pages, len(want))
			}
			for _, ref := range got {
				if !want[ref] {
					t.Fatalf("%+v is not under way", ref)
				}
				delete(want, ref)
			}
			if most > 3300 {
				t.Errorf("a page of 100 looked at %d rows", most)
			}
			t.Logf("%d pages, the largest looked at %d rows", pages, most)
		})
	}
}

// TestStatsOfManyHeldRecords: the position of a KeyShared group is found without visiting all the
// records it holds for other consumers.
func TestStatsOfManyHeldRecords(t *testing.T) {
	r, s := newStore(t)
	create(t, s, "log")
	const records = 6000
	msgs := make([]stream.Message, 1000)
	for n := 0; n < records; n += len(msgs) {
		for i := range msgs {
			msgs[i] = stream.Message{Key: fmt.Sprint("k", (n+i)%700), Payload: fmt.Append(nil, n+i)}
		}
		_, err := s.AppendMany(t.Context(), "log", msgs)
		must(t, err)
	}
	a, b := consumers(t, s, stream.KeyShared, stream.AckTimeout(time.Hour))
	a.read(stream.Limit(1))
	b.read(stream.Limit(1))
	var first []stream.Delivery
	for range 8 {
		ds, _ := a.read(stream.Limit(1000))
		first = append(first, ds...)
	}
	before := r.Executor(0).Scanned()
	info, err := s.Groups("log").Get(t.Context(), "g")
	must(t, err)
	c := info.Cursors[0]
	if looked := r.Executor(0).Scanned() - before; c.Lag < 2000 || looked > 1500 {
		t.Errorf("with %d records that were not delivered GroupStats looked at %d rows", c.Lag, looked)
	}
	// One of the first records is with no consumer: the acknowledged range ends before it.
	a.ack(len(first), first...)
	if info, err = s.Groups("log").Get(t.Context(), "g"); err != nil || info.Cursors[0].Acked.Seq > 700 {
		t.Errorf("done up to %v, although others have not read: %v", info.Cursors[0].Acked, err)
	}
	ds, _ := b.read(stream.Limit(1000))
	b.ack(len(ds), ds...)
	replayed(r)
}

// TestStatsLeaveOutWhatWasTrimmed: pending records that have been trimmed are not counted, neither
// in total nor per consumer, until they are acknowledged or due.
func TestStatsLeaveOutWhatWasTrimmed(t *testing.T) {
	for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
		r, s := newStore(t)
		appendTexts(t, s, "log", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10")
		a, _ := consumers(t, s, mode, stream.AckTimeout(time.Hour))
		ds := a.want("1 2 3 4 5 6 7 8", stream.Limit(8))
		a.nack([]stream.Delivery{ds[1], ds[6]}, stream.Delay(time.Minute))
		check := func(when string, pending, has int) {
			t.Helper()
			info, err := s.Groups("log").Get(t.Context(), "g")
			if err != nil || info.Pending() != pending || info.Members[0].Pending != has {
				t.Errorf("%v, %s: %d records under way, %d with a, %v, want %d and %d", mode, when, info.Pending(), info.Members[0].Pending,
					err, pending, has)
			}
		}
		check("before", 8, 6)
		_, err := s.Trim(t.Context(), "log", stream.MaxLen(5))
		must(t, err)
		check("trimmed", 3, 2)
		a.ack(1, ds[0])
		a.ack(1, ds[5])
		check("acknowledged", 2, 1)
		r.Restart()
		check("after a restart", 2, 1)
		must(t, s.Seek(t.Context(), "log", "g", stream.FromBeginning()))
		check("moved", 0, 0)
		replayed(r)
	}
}

// TestPendingOfGroupMadeAgain: pending records of a deleted group are not listed for a new group of
// the same name, even before other shards learn of the deletion.
func TestPendingOfGroupMadeAgain(t *testing.T) {
	r, s := newSpread(t, 3)
	must(t, s.Create(t.Context(), "log", stream.Partitions(4)))
	for i := range 4 {
		_, err := s.Append(t.Context(), "log", text("%d", i), stream.Partition(i))
		must(t, err)
	}
	got, err := s.ReadGroup(t.Context(), "log", "g", "old", stream.Limit(100))
	if must(t, err); len(got) == 0 {
		t.Fatal("nothing was delivered")
	}
	r.Hold(true)
	must(t, s.Groups("log").Delete(t.Context(), "g"))
	_, err = s.ReadGroup(t.Context(), "log", "g", "new", stream.Limit(1))
	must(t, err)
	for p, err := range s.Pending("log", "g").All(t.Context()) {
		if must(t, err); p.Consumer != "new" {
			t.Errorf("the listing shows %+v of the group that was deleted", p)
		}
	}
}
