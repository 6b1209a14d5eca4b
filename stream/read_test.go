package stream_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// kinds are streams of one and of several partitions, in one shard and in several.
var kinds = []struct {
	name       string
	partitions int
	spread     bool
}{{"one", 1, false}, {"five", 5, false}, {"spread", 5, true}, {"spread over few", 2, true}}

// eachKind runs a test with an empty stream "log" of each of the kinds.
func eachKind(t *testing.T, f func(t *testing.T, r *machinetest.Rig, s *stream.Store)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			r, s := newStore(t)
			if k.spread {
				r, s = newSpread(t, 4)
			}
			create(t, s, "log", stream.Partitions(k.partitions))
			f(t, r, s)
		})
	}
}

// fill appends n messages of the given size one by one, a few per millisecond.
func fill(t testing.TB, r *machinetest.Rig, s *stream.Store, n, size int) (ids []stream.ID) {
	t.Helper()
	for i := range n {
		payload := fmt.Appendf(nil, "%d", i)
		payload = append(payload, bytes.Repeat([]byte("."), max(size-len(payload), 0))...)
		a, err := s.Append(t.Context(), "log", stream.Message{Key: fmt.Sprint("key", i), Payload: payload})
		if err != nil {
			t.Fatalf("Append: %v", err)
		}
		if ids = append(ids, a.ID); i%3 == 2 {
			r.Advance(1)
		}
	}
	return ids
}

func idsOf(recs []stream.Record) (ids []stream.ID) {
	for i := range recs {
		ids = append(ids, recs[i].ID)
	}
	return ids
}

// TestPages reads a stream in pages of every size, each after the last ID of the previous one: no
// record is missing or repeated.
func TestPages(t *testing.T) {
	eachKind(t, func(t *testing.T, r *machinetest.Rig, s *stream.Store) {
		want := slices.SortedFunc(slices.Values(fill(t, r, s, 60, 0)), stream.ID.Compare)
		for _, limit := range []int{1, 2, 7, 59, 60, 61} {
			var got []stream.ID
			for after := (stream.ID{}); ; {
				recs, err := s.Read(t.Context(), "log", stream.After(after), stream.Limit(limit))
				if err != nil || len(recs) > limit {
					t.Fatalf("Read(After(%v), Limit(%d)) = %d records, %v", after, limit, len(recs), err)
				}
				if len(recs) == 0 {
					break
				}
				got = append(got, idsOf(recs)...)
				after = got[len(got)-1]
			}
			if !slices.Equal(got, want) {
				t.Errorf("in pages of %d: %v, want %v", limit, got, want)
			}
		}
	})
}

// TestTail compares the tail with the end of the whole stream, also up to an ID.
func TestTail(t *testing.T) {
	eachKind(t, func(t *testing.T, r *machinetest.Rig, s *stream.Store) {
		all := slices.SortedFunc(slices.Values(fill(t, r, s, 40, 0)), stream.ID.Compare)
		if _, err := s.Trim(t.Context(), "log", stream.Before(all[5])); err != nil {
			t.Fatal(err)
		}
		all = all[5:]
		for _, limit := range []int{1, 2, 7, 34, 35, 36, 1000} {
			for _, end := range []int{0, 1, 20, 34} {
				recs, err := s.Read(t.Context(), "log", stream.Tail(), stream.Limit(limit), stream.Until(all[end]))
				if want := all[max(end+1-limit, 0) : end+1]; err != nil || !slices.Equal(idsOf(recs), want) {
					t.Errorf("the last %d up to the one of %d = %v, %v, want %v", limit, end, idsOf(recs), err, want)
				}
			}
			recs, err := s.Read(t.Context(), "log", stream.Tail(), stream.Limit(limit))
			if want := all[max(35-limit, 0):]; err != nil || !slices.Equal(idsOf(recs), want) {
				t.Errorf("the last %d = %v, %v, want %v", limit, idsOf(recs), err, want)
			}
		}
		wantRead(t, s, "log", "", stream.Tail(), stream.Until(stream.ID{Millis: 1}))
	})
}

// TestReadBytes: a read ends at 4 MiB, wherever it begins; a tail cut by this limit is the end of
// the stream.
func TestReadBytes(t *testing.T) {
	eachKind(t, func(t *testing.T, r *machinetest.Rig, s *stream.Store) {
		const size = 300 << 10
		all := slices.SortedFunc(slices.Values(fill(t, r, s, 40, size)), stream.ID.Compare)
		check := func(what string, recs []stream.Record, err error, want []stream.ID) {
			t.Helper()
			if n := len(recs); err != nil || n < 13 || n > 14 {
				t.Errorf("%s = %d records of 300 KiB, %v, want those of 4 MiB", what, n, err)
			} else if !slices.Equal(idsOf(recs), want) {
				t.Errorf("%s = %v, want %v", what, idsOf(recs), want)
			}
		}
		recs, err := s.Read(t.Context(), "log", stream.Limit(100))
		check("Read", recs, err, all[:min(len(recs), 40)])
		recs, err = s.Read(t.Context(), "log", stream.Tail(), stream.Limit(100))
		check("Tail", recs, err, all[max(40-len(recs), 0):])
		var got []stream.ID
		for rec, err := range s.Follow(t.Context(), "log") {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, rec.ID); len(got) == 40 {
				break
			}
		}
		if !slices.Equal(got, all) {
			t.Errorf("Follow = %v, want %v", got, all)
		}
	})
}

// TestHugePayloads uses messages that are each larger than a read.
func TestHugePayloads(t *testing.T) {
	r := machinetest.New(t, 1, engine.TableOf[stream.Store]())
	s := engine.StoreOf[stream.Store](r.Router(), "n", 16<<20)
	huge := bytes.Repeat([]byte("x"), 16<<20)
	for range 2 {
		if _, err := s.Append(t.Context(), "log", stream.Message{Payload: huge, Key: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	recs, err := s.Read(t.Context(), "log", stream.Tail())
	if err != nil || len(recs) != 1 || recs[0].Offset != 2 || !bytes.Equal(recs[0].Payload, huge) {
		t.Errorf("Tail = %d records, %v, want the last one", len(recs), err)
	}
	recs, err = s.Read(t.Context(), "log")
	if err != nil || len(recs) != 1 || recs[0].Offset != 1 {
		t.Errorf("Read = %d records, %v, want the first one", len(recs), err)
	}
	_, err = s.Append(t.Context(), "log", stream.Message{Payload: append(huge, 0)})
	wantError(t, "a byte too many", err, stream.ErrInvalid, "value of 16777217 bytes exceeds max_value_size")
	_, err = s.AppendMany(t.Context(), "log", []stream.Message{{Payload: huge[:3<<20]}, {Payload: huge[:3<<20]}})
	wantError(t, "two of 3 MiB", err, stream.ErrInvalid, "2 messages of 6291456 bytes exceed 4194304")
}

func TestReadAtTheEndOfIDs(t *testing.T) {
	_, s := newStore(t)
	appendTexts(t, s, "log", "a")
	last := stream.ID{Millis: math.MaxInt64, Seq: math.MaxUint64}
	wantRead(t, s, "log", "", stream.After(last))
	wantRead(t, s, "log", "", stream.After(stream.ID{Millis: machinetest.Epoch, Seq: math.MaxUint64}))
	wantRead(t, s, "log", "a", stream.Until(last))
	wantRead(t, s, "log", "a", stream.From(stream.ID{Millis: -5}))
	wantRead(t, s, "log", "a", stream.FromTime(time.UnixMilli(-5)))
	wantRead(t, s, "log", "", stream.UntilTime(time.UnixMilli(-5)))
}

func TestParseID(t *testing.T) {
	for _, id := range []stream.ID{{}, {Millis: 1, Seq: 2}, {Millis: math.MaxInt64, Seq: math.MaxUint64}, {Millis: machinetest.Epoch}} {
		if got, err := stream.ParseID(id.String()); err != nil || got != id {
			t.Errorf("ParseID(%q) = %v, %v", id, got, err)
		}
	}
	if id, err := stream.ParseID("5"); err != nil || id != (stream.ID{Millis: 5}) {
		t.Errorf(`ParseID("5") = %v, %v`, id, err)
	}
	for _, s := range []string{
		"", "-", "5-", "-5", "5-6-7", "a-1", "1-a", "+1-1", "1-+1", " 1-1", "1-1 ", "9223372036854775808-0", "0-18446744073709551616",
		"1_0-1", "0x1-1", "1.5",
	} {
		if id, err := stream.ParseID(s); err == nil {
			t.Errorf("ParseID(%q) = %v, want an error", s, id)
		} else {
			wantError(t, "ParseID", err, stream.ErrInvalid, fmt.Sprintf("id %q is not of the form", s))
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"", "0-0", "1763740800000-0", "5", "-1-1", "1-", "01-02"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := stream.ParseID(s)
		if err != nil {
			return
		}
		if again, err := stream.ParseID(id.String()); err != nil || again != id {
			t.Errorf("ParseID(%q) = %v, whose string is read as %v, %v", s, id, again, err)
		}
	})
}

// TestList lists streams of many partitions: a page holds as many as fit, and none is missing.
func TestList(t *testing.T) {
	for _, spread := range []bool{false, true} {
		_, s := newStore(t)
		if spread {
			_, s = newSpread(t, 4)
		}
		var want []string
		for i := range 30 {
			name := fmt.Sprintf("s%02d", i)
			n := 1
			if i%3 == 0 {
				n = stream.MaxPartitions
			}
			create(t, s, name, stream.Partitions(n))
			want = append(want, name)
		}
		page, err := s.Page(t.Context(), stream.Limit(1000))
		if err != nil || len(page.Items) < 5 || !spread && (len(page.Items) > 20 || page.Cursor == "") {
			t.Errorf("a page holds %d streams, cursor %q, %v", len(page.Items), page.Cursor, err)
		}
		var got []string
		for info, err := range s.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, info.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("spread %v: All = %v, want %v", spread, got, want)
		}
		if info, err := s.Get(t.Context(), "s00"); err != nil || len(info.Partitions) != stream.MaxPartitions ||
			info.Partitions[5].Partition != 5 {
			t.Errorf("Stats = %d partitions, %v", len(info.Partitions), err)
		}
	}
}

// TestRefs finds records by their IDs.
func TestRefs(t *testing.T) {
	eachKind(t, func(t *testing.T, r *machinetest.Rig, s *stream.Store) {
		ids := fill(t, r, s, 20, 0)
		recs, err := s.Read(t.Context(), "log")
		if err != nil {
			t.Fatal(err)
		}
		want := make(map[stream.Ref]bool)
		for i := range recs {
			want[stream.Ref{Partition: recs[i].Partition, Offset: recs[i].Offset}] = true
		}
		refs, err := s.Refs(t.Context(), "log",
			append(ids, stream.ID{}, stream.ID{Millis: 1 << 50}, stream.ID{Millis: machinetest.Epoch, Seq: 1 << 60})...)
		if err != nil || len(refs) != len(recs) {
			t.Errorf("Refs = %v, %v, want %d", refs, err, len(recs))
		}
		for _, ref := range refs {
			if !want[ref] {
				t.Errorf("Refs has %v, which is that of no record", ref)
			}
		}
	})
}

// TestNames: each call refuses an invalid name with the same message.
func TestNames(t *testing.T) {
	_, home := newStore(t)
	_, spread := newSpread(t, 2)
	for _, s := range []*stream.Store{home, spread} {
		for _, name := range []string{"", "a\nb", strings.Repeat("x", 256), "\xff"} {
			ctx := t.Context()
			_, appendErr := s.Append(ctx, name, text("x"))
			_, readErr := s.Read(ctx, name)
			_, infoErr := s.Get(ctx, name)
			_, trimErr := s.Trim(ctx, name, stream.MaxLen(0))
			_, refsErr := s.Refs(ctx, name, stream.ID{})
			for call, err := range map[string]error{
				"Append": appendErr, "Read": readErr, "Stats": infoErr, "Trim": trimErr, "Refs": refsErr, "Create": s.Create(ctx, name),
				"Delete": s.Delete(ctx, name, stream.Force()), "SetRetention": s.SetRetention(ctx, name, stream.Retention{}),
			} {
				wantError(t, fmt.Sprintf("%s(%q)", call, name), err, stream.ErrInvalid, "stream name")
			}
			for _, err := range s.Follow(ctx, name) {
				wantError(t, "Follow", err, stream.ErrInvalid, "stream name")
			}
		}
	}
}

// TestOptions: an out-of-range option is refused with its value and the limit.
func TestOptions(t *testing.T) {
	r, s := newStore(t)
	ctx := t.Context()
	create(t, s, "log", stream.Partitions(2))
	read := func(opts ...stream.ReadOption) error { _, err := s.Read(ctx, "log", opts...); return err }
	write := func(msg stream.Message, opts ...stream.AppendOption) error {
		_, err := s.Append(ctx, "log", msg, opts...)
		return err
	}
	many := func(msgs ...stream.Message) error { _, err := s.AppendMany(ctx, "log", msgs); return err }
	for words, err := range map[string]error{
		"limit 0 is not in 1-1000":                      read(stream.Limit(0)),
		"limit 1001 is not in 1-1000":                   read(stream.Limit(1001)),
		"wait of -1s is negative":                       read(stream.Wait(-time.Second)),
		"partition -1 is not in 0-1023":                 read(stream.Partition(-1)),
		"partition 1024 is not in 0-1023":               write(text("x"), stream.Partition(1024)),
		"has 2 partitions, no partition 2":              read(stream.Partition(2)),
		`stream "log" has 2 partitions, no partition 3`: write(text("x"), stream.Partition(3)),
		"partitions 0 is not in 1-1024":                 s.Create(ctx, "x", stream.Partitions(0)),
		"partitions 1025 is not in 1-1024":              s.Create(ctx, "x", stream.Partitions(1025)),
		"max age -1ns is less than a millisecond":       s.Create(ctx, "x", stream.MaxAge(-1)),
		"max length 0 is not positive":                  s.Create(ctx, "x", stream.MaxLen(0)),
		"max len -1 is negative":                        s.SetRetention(ctx, "log", stream.Retention{MaxLen: -1}),
		"max age 1µs is less than a millisecond":        s.SetRetention(ctx, "log", stream.Retention{MaxAge: time.Microsecond}),
		"key of 4097 bytes exceeds 4096":                write(stream.Message{Key: strings.Repeat("k", 4097)}),
		"header name is empty":                          write(stream.Message{Headers: map[string]string{"": "x"}}),
		"headers of 65537 bytes exceed 65536": write(stream.Message{Headers: map[string]string{"h": strings.Repeat("x",
			1<<16)}}),
		"producer name is empty":                write(text("x"), stream.Dedup("", 1)),
		"0 messages are not in 1-10000":         many(),
		"10001 messages are not in 1-10000":     many(make([]stream.Message, 10_001)...),
		"IfLastID with messages for partitions": lastOfTwo(t, s),
		"1001 ids exceed 1000": func() error {
			_,
				err := s.Refs(ctx, "log", make([]stream.ID, 1001)...)
			return err
		}(),
		"value of 1048577 bytes exceeds max_value_size (1048576 b": write(stream.Message{Payload: make([]byte, 1<<20+1)}),
	} {
		wantError(t, "the call", err, stream.ErrInvalid, words)
	}
	for _, op := range []engine.Operation{stream.AppendOp("log", text("x"), stream.Dedup("", 1)), stream.TrimOp("log"),
		stream.CreateOp("\n")} {
		if _, err := r.Txn("n").Do(op).Commit(ctx); err == nil {
			t.Errorf("a transaction with %+v is accepted", op)
		}
	}
	if info, err := s.Get(ctx, "log"); err != nil || info.Records() != 0 {
		t.Errorf("Stats = %+v, %v, want no record", info, err)
	}
}

// lastOfTwo appends to two partitions, each on condition of its last ID.
func lastOfTwo(t *testing.T, s *stream.Store) error {
	msgs := []stream.Message{{Key: "a"}, {Key: "b"}, {Key: "c"}, {Key: "d"}, {Key: "e"}, {Key: "f"}}
	_, err := s.AppendMany(t.Context(), "log", msgs, stream.IfLastID(stream.ID{}))
	return err
}
