package stream_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// newStore returns the store of a namespace in a rig with one shard.
func newStore(t testing.TB) (*machinetest.Rig, *stream.Store) {
	r := machinetest.New(t, 1, engine.TableOf[stream.Store]())
	return r, engine.StoreOf[stream.Store](r.Router(), "n", 0)
}

// newSpread returns the store of a spread namespace over several shards.
func newSpread(t testing.TB, shards int) (*machinetest.Rig, *stream.Store) {
	t.Helper()
	r := machinetest.New(t, shards, engine.TableOf[stream.Store]())
	if err := engine.NewNamespaces(r.Router()).Create(t.Context(), "wide", true); err != nil {
		t.Fatal(err)
	}
	return r, engine.StoreOf[stream.Store](r.Router(), "wide", 0)
}

// text returns a message with a payload.
func text(format string, args ...any) stream.Message {
	return stream.Message{Payload: fmt.Appendf(nil, format, args...)}
}

// appendTexts appends messages with the payloads, one by one.
func appendTexts(t testing.TB, s *stream.Store, name string, payloads ...string) (ids []stream.ID) {
	t.Helper()
	for _, p := range payloads {
		a, err := s.Append(t.Context(), name, text("%s", p))
		if err != nil {
			t.Fatalf("Append(%q, %q): %v", name, p, err)
		}
		ids = append(ids, a.ID)
	}
	return ids
}

// payloads returns the payloads of the records, separated by blanks.
func payloads(recs []stream.Record) string {
	var all []string
	for _, r := range recs {
		all = append(all, string(r.Payload))
	}
	return strings.Join(all, " ")
}

// wantRead checks what a Read returns.
func wantRead(t testing.TB, s *stream.Store, name, want string, opts ...stream.ReadOption) []stream.Record {
	t.Helper()
	recs, err := s.Read(t.Context(), name, opts...)
	if err != nil {
		t.Fatalf("Read(%q): %v", name, err)
	}
	if got := payloads(recs); got != want {
		t.Errorf("Read(%q) = %q, want %q", name, got, want)
	}
	return recs
}

func wantError(t testing.TB, what string, err, want error, words string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), words) {
		t.Errorf("%s = %v, want %v that says %q", what, err, want, words)
	}
}

func TestAppendAndRead(t *testing.T) {
	r, s := newStore(t)
	ids := appendTexts(t, s, "log", "a", "b")
	r.Advance(5)
	ids = append(ids, appendTexts(t, s, "log", "c")...)
	want := []stream.ID{{Millis: machinetest.Epoch}, {Millis: machinetest.Epoch, Seq: 1}, {Millis: machinetest.Epoch + 5}}
	if !slices.Equal(ids, want) {
		t.Errorf("ids are %v, want %v", ids, want)
	}
	recs := wantRead(t, s, "log", "a b c")
	for i, rec := range recs {
		if rec.ID != ids[i] || rec.Offset != uint64(i+1) || rec.Partition != 0 || rec.LSN == 0 {
			t.Errorf("record %d is %+v", i, rec)
		}
	}
	wantRead(t, s, "log", "b c", stream.From(ids[1]))
	wantRead(t, s, "log", "c", stream.After(ids[1]))
	wantRead(t, s, "log", "c", stream.FromTime(time.UnixMilli(machinetest.Epoch+1)))
	wantRead(t, s, "log", "b c", stream.Tail(), stream.Limit(2))
	wantRead(t, s, "log", "a", stream.Limit(1))
	wantRead(t, s, "log", "a b", stream.Until(ids[1]))
	wantRead(t, s, "log", "a b", stream.UntilTime(time.UnixMilli(machinetest.Epoch+4)))
	wantRead(t, s, "log", "", stream.After(ids[2]))
	_, err := s.Read(t.Context(), "none")
	wantError(t, "Read of a stream that does not exist", err, stream.ErrNotFound, `stream "none" not found`)
}

func TestKeysAndHeaders(t *testing.T) {
	_, s := newStore(t)
	msg := stream.Message{Key: "k\x00\xff", Payload: []byte{0, 1}, Headers: map[string]string{"b": "2", "a": "", "c": "x y"}}
	if _, err := s.Append(t.Context(), "log", msg); err != nil {
		t.Fatal(err)
	}
	recs, err := s.Read(t.Context(), "log")
	if err != nil || len(recs) != 1 {
		t.Fatalf("Read = %v, %v", recs, err)
	}
	got := recs[0].Message
	if got.Key != msg.Key || string(got.Payload) != string(msg.Payload) || fmt.Sprint(got.Headers) != fmt.Sprint(msg.Headers) {
		t.Errorf("read %+v, want %+v", got, msg)
	}
}

func TestPartitions(t *testing.T) {
	r, s := newStore(t)
	if err := s.Create(t.Context(), "log", stream.Partitions(4)); err != nil {
		t.Fatal(err)
	}
	wantError(t, "Create again", s.Create(t.Context(), "log"), stream.ErrExists, `"log" already exists`)
	var order []int
	for i := range 8 {
		a, err := s.Append(t.Context(), "log", text("%d", i))
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, a.Partition)
	}
	if want := []int{0, 1, 2, 3, 0, 1, 2, 3}; !slices.Equal(order, want) {
		t.Errorf("partitions of messages without keys are %v, want %v", order, want)
	}
	wantRead(t, s, "log", "0 1 2 3 4 5 6 7")
	wantRead(t, s, "log", "2 6", stream.Partition(2))
	wantRead(t, s, "log", "5 6 7", stream.Tail(), stream.Limit(3))
	seen := make(map[string]int)
	for i := range 100 {
		k := fmt.Sprint(i % 10)
		a, err := s.Append(t.Context(), "log", stream.Message{Key: k})
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := seen[k]; ok && p != a.Partition {
			t.Errorf("key %s is in partitions %d and %d", k, p, a.Partition)
		}
		seen[k] = a.Partition
	}
	if _, err := s.Append(t.Context(), "log", text("x"), stream.Partition(3)); err != nil {
		t.Fatal(err)
	}
	wantRead(t, s, "log", "x", stream.Tail(), stream.Limit(1), stream.Partition(3))
	_, err := s.Append(t.Context(), "log", text("x"), stream.Partition(4))
	wantError(t, "Append to partition 4", err, stream.ErrInvalid, "4 partitions, no partition 4")
	r.Restart()
	info, err := s.Get(t.Context(), "log")
	if err != nil || len(info.Partitions) != 4 || info.Records() != 109 || info.Appended != 109 {
		t.Errorf("Stats = %+v, %v", info, err)
	}
}

func TestDedup(t *testing.T) {
	r, s := newStore(t)
	put := func(seq uint64, want string, duplicate bool) {
		t.Helper()
		a, err := s.Append(t.Context(), "log", text("%d", seq), stream.Dedup("p", seq))
		if err != nil || a.ID.String() != want || a.Duplicate != duplicate {
			t.Errorf("append %d = %+v, %v, want %s, duplicate %v", seq, a, err, want, duplicate)
		}
	}
	id := func(ms, seq int) string { return fmt.Sprintf("%d-%d", machinetest.Epoch+ms, seq) }
	put(5, id(0, 0), false)
	r.Advance(1)
	put(5, id(0, 0), true)
	put(7, id(1, 0), false)
	put(5, id(0, 0), true)
	_, err := s.Append(t.Context(), "log", text("6"), stream.Dedup("p", 6))
	wantError(t, "a number that was left out", err, stream.ErrConflict, "sequence number 6")
	for i := range uint64(8) {
		put(10+i, id(1, int(i)+1), false)
	}
	_, err = s.Append(t.Context(), "log", text("5"), stream.Dedup("p", 5))
	wantError(t, "a repeat after many others", err, stream.ErrConflict, "behind its last one, 17")
	r.Restart()
	put(17, id(1, 8), true)
	if fired := r.Advance(24*3600_000 - 1); fired != 1 {
		t.Errorf("%d timers after a day, want the one of the producer", fired)
	}
	put(17, id(1, 8), true)
	r.Advance(1)
	put(17, id(24*3600_000+1, 0), false)
}

func TestIfLastID(t *testing.T) {
	_, s := newStore(t)
	a, err := s.Append(t.Context(), "log", text("a"), stream.IfLastID(stream.ID{}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Append(t.Context(), "log", text("b"), stream.IfLastID(stream.ID{}))
	wantError(t, "Append to what should be empty", err, stream.ErrConflict, "last id of partition 0 is "+a.ID.String())
	var conflict *stream.ConflictError
	if !errors.As(err, &conflict) || conflict.LastID != a.ID {
		t.Errorf("the error is %#v, want one with the last id", err)
	}
	if _, err := s.Append(t.Context(), "log", text("b"), stream.IfLastID(a.ID)); err != nil {
		t.Error(err)
	}
	wantRead(t, s, "log", "a b")
}

func TestTrim(t *testing.T) {
	r, s := newStore(t)
	var ids []stream.ID
	for i := range 10 {
		ids = append(ids, appendTexts(t, s, "log", fmt.Sprint(i))...)
		r.Advance(10)
	}
	trim := func(want int64, opts ...stream.TrimOption) {
		t.Helper()
		if n, err := s.Trim(t.Context(), "log", opts...); n != want || err != nil {
			t.Errorf("Trim = %d, %v, want %d", n, err, want)
		}
	}
	trim(3, stream.MaxLen(7), stream.DryRun())
	wantRead(t, s, "log", "0 1 2 3 4 5 6 7 8 9")
	trim(3, stream.MaxLen(7))
	wantRead(t, s, "log", "3 4 5 6 7 8 9")
	trim(2, stream.Before(ids[5]))
	trim(0, stream.Before(ids[5]))
	wantRead(t, s, "log", "5 6 7 8 9", stream.From(ids[1]))
	trim(2, stream.MaxAge(30*time.Millisecond)) // 7 is 30 ms old
	trim(0, stream.MaxLen(3), stream.MaxAge(time.Millisecond))
	r.Restart()
	wantRead(t, s, "log", "7 8 9")
	trim(3, stream.MaxLen(0))
	wantRead(t, s, "log", "")
	_, err := s.Trim(t.Context(), "log")
	wantError(t, "Trim without a bound", err, stream.ErrInvalid, "no bound")
	if a := appendTexts(t, s, "log", "x")[0]; a.Compare(ids[9]) <= 0 {
		t.Errorf("id %v after a trim is not behind %v", a, ids[9])
	}
	info, err := s.Get(t.Context(), "log")
	if err != nil || info.Records() != 1 || info.Partitions[0].First != 11 || info.Partitions[0].Bytes != 3 {
		t.Errorf("Stats = %+v, %v", info, err)
	}
}

func TestRetention(t *testing.T) {
	r, s := newStore(t)
	if err := s.Create(t.Context(), "log", stream.MaxAge(time.Minute), stream.MaxLen(3)); err != nil {
		t.Fatal(err)
	}
	appendTexts(t, s, "log", "a", "b", "c", "d")
	wantRead(t, s, "log", "b c d")
	r.Advance(30_000)
	appendTexts(t, s, "log", "e")
	wantRead(t, s, "log", "c d e")
	r.Advance(29_999)
	wantRead(t, s, "log", "c d e")
	r.Advance(1)
	wantRead(t, s, "log", "e")
	r.Restart()
	r.Advance(30_000)
	wantRead(t, s, "log", "")
	if due := r.NextDue(); due < 1<<62 {
		t.Errorf("a timer is due at %d though the stream is empty", due)
	}
	appendTexts(t, s, "log", "f", "g", "h")
	if err := s.SetRetention(t.Context(), "log", stream.Retention{MaxLen: 2}); err != nil {
		t.Fatal(err)
	}
	wantRead(t, s, "log", "g h")
	r.Advance(120_000)
	wantRead(t, s, "log", "g h")
	info, err := s.Get(t.Context(), "log")
	if err != nil || info.Retention.String() != "2 records" {
		t.Errorf("Stats = %+v, %v", info, err)
	}
}

func TestDelete(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "a")
	wantError(t, "Delete of a stream with records", s.Delete(t.Context(), "log"), stream.ErrConflict, "has 1 records")
	if err := s.Delete(t.Context(), "log", stream.Force()); err != nil {
		t.Fatal(err)
	}
	wantError(t, "Delete again", s.Delete(t.Context(), "log"), stream.ErrNotFound, `"log" not found`)
	r.Advance(1)
	appendTexts(t, s, "log", "b")
	recs := wantRead(t, s, "log", "b")
	if recs[0].Offset != 1 {
		t.Errorf("the first record of the new stream is %+v", recs[0])
	}
	all, err := s.Page(t.Context(), stream.Limit(10))
	if err != nil || len(all.Items) != 1 || all.Items[0].Name != "log" {
		t.Errorf("Page = %+v, %v", all, err)
	}
}

func TestSpread(t *testing.T) {
	_, s := newSpread(t, 4)
	if err := s.Create(t.Context(), "log", stream.Partitions(8)); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if _, err := s.Append(t.Context(), "log", stream.Message{Key: fmt.Sprint(i), Payload: []byte{byte('a' + i%26)}}); err != nil {
			t.Fatal(err)
		}
	}
	recs, err := s.Read(t.Context(), "log")
	if err != nil || len(recs) != 40 {
		t.Fatalf("Read = %d records, %v", len(recs), err)
	}
	info, err := s.Get(t.Context(), "log")
	if err != nil || info.Records() != 40 || len(info.Partitions) != 8 {
		t.Errorf("Stats = %+v, %v", info, err)
	}
	if err := s.Delete(t.Context(), "log", stream.Force()); err != nil {
		t.Fatal(err)
	}
	appendTexts(t, s, "log", "new")
	wantRead(t, s, "log", "new")
}

// TestTrimToBytesKeepsTheNewest: a single record that exceeds the bound stays, as with retention,
// unless the bound is zero.
func TestTrimToBytesKeepsTheNewest(t *testing.T) {
	_, s := newStore(t)
	for _, size := range []int{1000, 50_000} {
		_, err := s.Append(t.Context(), "s", stream.Message{Payload: make([]byte, size)})
		must(t, err)
	}
	for _, c := range []struct {
		options []stream.TrimOption
		want    int64
	}{
		{[]stream.TrimOption{stream.MaxBytes(100), stream.DryRun()}, 1}, {[]stream.TrimOption{stream.MaxBytes(1)}, 1},
		{[]stream.TrimOption{stream.MaxBytes(100)}, 0}, {[]stream.TrimOption{stream.MaxBytes(0), stream.DryRun()},
			1}, {[]stream.TrimOption{stream.MaxBytes(0)}, 1},
	} {
		if n, err := s.Trim(t.Context(), "s", c.options...); err != nil || n != c.want {
			t.Errorf("Trim removes %d, %v, want %d", n, err, c.want)
		}
	}
}
