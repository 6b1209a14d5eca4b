package stream_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// consumer is a member of a group in a test.
type consumer struct {
	t             testing.TB
	s             *stream.Store
	stream, group string
	name          string
}

// read returns the consumer's deliveries as payloads, followed by the attempt if it is not the
// first.
func (c consumer) read(opts ...stream.GroupReadOption) (ds []stream.Delivery, text string) {
	c.t.Helper()
	ds, err := c.s.ReadGroup(c.t.Context(), c.stream, c.group, c.name, opts...)
	if err != nil {
		c.t.Fatalf("ReadGroup as %s: %v", c.name, err)
	}
	return ds, deliveries(ds)
}

func deliveries(ds []stream.Delivery) string {
	var all []string
	for _, d := range ds {
		s := string(d.Payload)
		if d.Attempt > 1 {
			s += fmt.Sprintf("#%d", d.Attempt)
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

// want reads and checks the deliveries.
func (c consumer) want(want string, opts ...stream.GroupReadOption) []stream.Delivery {
	c.t.Helper()
	ds, got := c.read(opts...)
	if got != want {
		c.t.Errorf("%s got %q, want %q", c.name, got, want)
	}
	return ds
}

func (c consumer) ack(want int, ds ...stream.Delivery) {
	c.t.Helper()
	if n, err := c.s.Ack(c.t.Context(), c.stream, c.group, stream.RefsOf(ds)...); n != want || err != nil {
		c.t.Errorf("Ack of %q by %s = %d, %v, want %d", deliveries(ds), c.name, n, err, want)
	}
}

func (c consumer) nack(ds []stream.Delivery, opts ...stream.NackOption) {
	c.t.Helper()
	if n, err := c.s.Nack(c.t.Context(), c.stream, c.group, stream.RefsOf(ds), opts...); n != len(ds) || err != nil {
		c.t.Errorf("Nack of %q by %s = %d, %v", deliveries(ds), c.name, n, err)
	}
}

func consumers(t testing.TB, s *stream.Store, mode stream.Mode, opts ...stream.GroupOption) (a, b consumer) {
	t.Helper()
	if err := s.Groups("log").Create(t.Context(), "g", append(opts, stream.InMode(mode))...); err != nil {
		t.Fatal(err)
	}
	return consumer{t, s, "log", "g", "a"}, consumer{t, s, "log", "g", "b"}
}

func TestSharedGroup(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "1", "2", "3", "4", "5")
	a, b := consumers(t, s, stream.Shared)
	one := a.want("1 2", stream.Limit(2))
	two := b.want("3 4 5")
	a.want("")
	a.ack(2, one...)
	a.ack(0, one...)
	r.Restart()
	r.Advance(10_000)
	b.nack(two[:1])
	r.Advance(999)
	a.want("")
	r.Advance(1)
	again := a.want("3#2")
	// The previous consumer may not acknowledge records that another one now holds.
	b.ack(0, two[0])
	a.ack(1, again...)
	r.Advance(19_000) // 30 s since the delivery of 4 and 5, plus a second of back-off
	b.ack(1, two[1])  // late, but not yet redelivered
	r.Advance(1000)
	a.want("5#2")
	info, err := s.Groups("log").Get(t.Context(), "g")
	if err != nil || info.Pending() != 1 || info.Lag() != 0 || len(info.Members) != 2 {
		t.Errorf("Group = %+v, %v", info, err)
	}
	if acked, last := info.Cursors[0].Acked, info.Cursors[0].LastDelivered; acked.Seq != 3 || last.Seq != 4 {
		t.Errorf("acked up to %v, delivered up to %v, want the 4th and the 5th", acked, last)
	}
}

func TestMaxAttempts(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "poison", "fine")
	a, _ := consumers(t, s, stream.Shared, stream.MaxAttempts(2), stream.Backoff(0, 0))
	ds := a.want("poison fine")
	a.ack(1, ds[1])
	a.nack(ds[:1], stream.Reason("first"))
	ds = a.want("poison#2")
	r.Advance(30_000)
	a.want("")
	recs := wantRead(t, s, "log.dlq", "poison")
	h := recs[0].Headers
	if h[stream.HeaderGroup] != "g" || h[stream.HeaderAttempts] != "2" || h[stream.HeaderError] != "ack timeout" ||
		h[stream.HeaderID] != ds[0].ID.String() {
		t.Errorf("headers of the dead letter: %v", h)
	}
	if info, err := s.Groups("log").Get(t.Context(), "g"); err != nil || info.Pending() != 0 {
		t.Errorf("Group = %+v, %v", info, err)
	}
}

func TestExtendAndNoAck(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "1", "2", "3")
	a, b := consumers(t, s, stream.Shared, stream.Backoff(0, 0))
	a.want("1", stream.Limit(1), stream.NoAck())
	ds := a.want("2 3")
	now := r.Now()
	if until, err := s.Extend(t.Context(), "log", "g", ds[1].Ref(), time.Minute); until.UnixMilli() != now+60_000 || err != nil {
		t.Errorf("Extend = %v, %v, want a minute from %d", until, err, now)
	}
	gone := stream.Ref{Partition: 0, Offset: 1}
	var conflict *stream.ConflictError
	if until, err := s.Extend(t.Context(), "log", "g", gone, time.Minute); !until.IsZero() || !errors.As(err, &conflict) ||
		!errors.Is(err, stream.ErrConflict) {
		t.Errorf("Extend of a record that is done = %v, %v", until, err)
	}
	e, err := s.ExtendMany(t.Context(), "log", "g", []stream.Ref{gone, ds[1].Ref()}, time.Minute)
	if e.Records != 1 || e.Until.UnixMilli() != now+60_000 || err != nil {
		t.Errorf("ExtendMany = %+v, %v", e, err)
	}
	r.Advance(30_000)
	b.want("2#2")
	r.Restart()
	r.Advance(29_999)
	a.ack(1, ds[1])
	r.Advance(1)
	a.want("2#3")
}

func TestExclusiveGroup(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "1", "2", "3")
	a, b := consumers(t, s, stream.Exclusive, stream.Backoff(0, 0))
	ds := a.want("1 2", stream.Limit(2))
	b.want("")
	a.ack(1, ds[0])
	r.Advance(20_000)
	b.want("")
	a.want("3")
	r.Advance(33_749)
	b.want("")
	r.Advance(1) // a was silent for the ack timeout and an eighth
	b.want("2#2 3#2")
	a.want("")
	if err := s.Leave(t.Context(), "log", "g", "b"); err != nil {
		t.Fatal(err)
	}
	a.want("2#3 3#3")
}

// TestExclusiveGroupOfOnePartition: in a spread namespace, an exclusive group of a stream that is
// all in one shard used to give records to every consumer.
func TestExclusiveGroupOfOnePartition(t *testing.T) {
	r, s := newSpread(t, 3)
	appendTexts(t, s, "log", "1", "2", "3")
	a, b := consumers(t, s, stream.Exclusive, stream.Backoff(0, 0))
	a.want("1", stream.Limit(1))
	b.want("", stream.Limit(1))
	a.want("2 3")
	r.Advance(33_750)
	b.want("1#2 2#2 3#2")
	a.want("")
}

func TestMembersLeaveBySilence(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "1")
	a, _ := consumers(t, s, stream.Shared)
	a.want("1")
	r.Advance(89_999)
	if info, err := s.Groups("log").Get(t.Context(), "g"); err != nil || len(info.Members) != 1 {
		t.Errorf("members before the time: %+v, %v", info.Members, err)
	}
	r.Advance(1)
	if info, err := s.Groups("log").Get(t.Context(), "g"); err != nil || len(info.Members) != 0 {
		t.Errorf("members after three times the ack timeout: %+v, %v", info.Members, err)
	}
}

// TestWhoExtendsIsThere: a consumer that only extended its records used to count as gone, and
// others got its records.
func TestWhoExtendsIsThere(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "1")
	a, b := consumers(t, s, stream.Shared)
	ds := a.want("1")
	for range 10 {
		r.Advance(20_000)
		if _, err := s.Extend(t.Context(), "log", "g", ds[0].Ref(), 30*time.Second); err != nil {
			t.Fatal(err)
		}
		b.want("")
	}
	a.ack(1, ds...)
}

// keyed appends records k:n with key k.
func keyed(t testing.TB, s *stream.Store, texts ...string) {
	t.Helper()
	for _, text := range texts {
		k, _, _ := strings.Cut(text, ":")
		if _, err := s.Append(t.Context(), "log", stream.Message{Key: k, Payload: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKeySharedOrder(t *testing.T) {
	r, s := newStore(t)
	keyed(t, s, "x:1", "y:1", "x:2", "z:1", "x:3", "y:2")
	a, _ := consumers(t, s, stream.KeyShared, stream.Backoff(0, 0))
	first := a.want("x:1 y:1", stream.Limit(2))
	// x and y are busy: only z can proceed, and later records are held.
	z := a.want("z:1")
	a.ack(1, z...)
	a.nack(first[:1], stream.Delay(5*time.Second))
	a.ack(1, first[1])
	a.want("y:2")
	r.Restart()
	a.want("")
	r.Advance(5000)
	again := a.want("x:1#2")
	a.want("")
	a.ack(1, again...)
	a.want("x:2 x:3")
}

func TestKeySharedTakesLaterOnesBack(t *testing.T) {
	r, s := newStore(t)
	keyed(t, s, "x:1", "x:2", "y:1", "x:3")
	a, _ := consumers(t, s, stream.KeyShared, stream.Backoff(0, 0))
	ds := a.want("x:1 x:2 y:1 x:3")
	a.nack(ds[1:2])
	r.Restart()
	// x:3 was delivered too, behind the failed record, so it goes back. x:1 is still being
	// processed.
	a.want("")
	a.ack(0, ds[3])
	a.ack(1, ds[0])
	again := a.want("x:2#2 x:3#2")
	a.ack(0, ds[3]) // that delivery has been taken back
	a.ack(2, again...)
}

// TestExcusedAttempts: if a record is taken back because an earlier one failed, that attempt does
// not count.
func TestExcusedAttempts(t *testing.T) {
	r, s := newStore(t)
	keyed(t, s, "x:1", "x:2")
	a, _ := consumers(t, s, stream.KeyShared, stream.Backoff(0, 0), stream.MaxAttempts(3))
	for i := range 3 {
		want := "x:1 x:2"
		if i > 0 {
			want = fmt.Sprintf("x:1#%d x:2#%d", i+1, i+1)
		}
		ds := a.want(want)
		a.nack(ds[:1])
		r.Restart()
	}
	wantRead(t, s, "log.dlq", "x:1")
	// The consumer held it when the earlier one was given up.
	r.Advance(30_000)
	ds := a.want("x:2#4")
	a.nack(ds)
	a.want("x:2#5")
}

func TestKeySharedTakeover(t *testing.T) {
	r, s := newStore(t)
	if err := s.Create(t.Context(), "log"); err != nil {
		t.Fatal(err)
	}
	a, b := consumers(t, s, stream.KeyShared, stream.Backoff(0, 0))
	a.want("")
	b.want("")
	var texts []string
	for i := range 20 {
		texts = append(texts, fmt.Sprintf("k%d:1", i), fmt.Sprintf("k%d:2", i))
	}
	keyed(t, s, texts...)
	mine, _ := a.read()
	if len(mine) == 0 || len(mine) == 40 {
		t.Fatalf("a got %d of 40 records, want a share", len(mine))
	}
	r.Restart()
	theirs, _ := b.read()
	if len(mine)+len(theirs) != 40 {
		t.Fatalf("a got %d and b got %d records, want 40 together", len(mine), len(theirs))
	}
	owner := make(map[string]string)
	for _, d := range mine {
		owner[d.Key] = "a"
	}
	for _, d := range theirs {
		if owner[d.Key] == "a" {
			t.Errorf("key %s went to both", d.Key)
		}
	}
	b.ack(len(theirs), theirs...)
	// a crashes. Its keys are taken over, in order.
	var took []stream.Delivery
	for range 5 {
		r.Advance(10_000)
		ds, _ := b.read()
		took = append(took, ds...)
		b.ack(len(ds), ds...)
	}
	if len(took) != len(mine) {
		t.Fatalf("b took over %d records, want %d", len(took), len(mine))
	}
	last := make(map[string]string)
	for _, d := range took {
		if string(d.Payload) <= last[d.Key] {
			t.Errorf("%s after %s", d.Payload, last[d.Key])
		}
		last[d.Key] = string(d.Payload)
	}
}

func TestSeekAndTrimBelowACursor(t *testing.T) {
	_, s := newStore(t)
	ids := appendTexts(t, s, "log", "1", "2", "3", "4")
	a, _ := consumers(t, s, stream.Shared)
	a.want("1 2", stream.Limit(2))
	if err := s.Seek(t.Context(), "log", "g", stream.From(ids[1])); err != nil {
		t.Fatal(err)
	}
	ds := a.want("2 3", stream.Limit(2))
	if _, err := s.Trim(t.Context(), "log", stream.Before(ids[2])); err != nil {
		t.Fatal(err)
	}
	pending, err := s.Pending("log", "g").Page(t.Context(), stream.Limit(10))
	if err != nil || len(pending.Items) != 1 || pending.Items[0].ID != ids[2] || pending.Items[0].Consumer != "a" {
		t.Errorf("Pending = %+v, %v", pending, err)
	}
	a.ack(2, ds...)
	if err := s.Seek(t.Context(), "log", "g", stream.FromBeginning()); err != nil {
		t.Fatal(err)
	}
	a.want("3 4")
	if err := s.Seek(t.Context(), "log", "g", stream.FromEnd()); err != nil {
		t.Fatal(err)
	}
	a.want("")
	wantError(t, "Seek of a group that there is not", s.Seek(t.Context(), "log", "h", stream.FromEnd()), stream.ErrNotFound,
		`group "h" not found`)
}

// TestGenerations: a delivery cannot be settled after its partition was sought, or by another group
// of the same name.
func TestGenerations(t *testing.T) {
	for _, spread := range []bool{false, true} {
		t.Run(fmt.Sprintf("spread=%t", spread), func(t *testing.T) {
			r, s := newStore(t)
			if spread {
				r, s = newSpread(t, 3)
			}
			ctx := t.Context()
			must(t, s.Create(ctx, "log", stream.Partitions(2)))
			for p := range 2 {
				_, err := s.Append(ctx, "log", text("%d", p), stream.Partition(p))
				must(t, err)
			}
			read := func() (ds [2]stream.Delivery) {
				t.Helper()
				got, err := s.ReadGroup(ctx, "log", "g", "c")
				if err != nil || len(got) != 2 {
					t.Fatalf("ReadGroup = %v, %v", got, err)
				}
				for _, d := range got {
					if ds[d.Partition] = d; d.Generation == 0 {
						t.Errorf("%+v has no generation", d)
					}
				}
				return ds
			}
			settles := func(want int, ref stream.Ref) {
				t.Helper()
				e, err := s.ExtendMany(ctx, "log", "g", []stream.Ref{ref}, time.Hour)
				must(t, err)
				nacked, err := s.Nack(ctx, "log", "g", []stream.Ref{ref}, stream.Delay(time.Hour))
				must(t, err)
				_, txnErr := r.Txn("n").Do(stream.AckOp("log", "g", ref)).Commit(ctx)
				acked, err := s.Ack(ctx, "log", "g", ref) // of a record that waits for redelivery
				must(t, err)
				if e.Records != want || nacked != want || acked != want {
					t.Errorf("%+v: %d extended, %d refused, %d acknowledged, want %d", ref, e.Records, nacked, acked, want)
				}
				if want == 0 && !spread && !errors.Is(txnErr, stream.ErrConflict) {
					t.Errorf("%+v in a transaction: %v, want ErrConflict", ref, txnErr)
				}
			}
			first := read()
			must(t, s.Seek(ctx, "log", "g", stream.FromBeginning(), stream.Partition(1)))
			r.Restart()
			settles(0, first[1].Ref())
			settles(1, first[0].Ref())
			must(t, s.Seek(ctx, "log", "g", stream.FromBeginning()))
			again := read()
			settles(0, first[0].Ref())
			settles(0, first[1].Ref())
			settles(0, stream.Ref{Partition: 1, Offset: 1, Generation: again[1].Generation + 1})
			settles(1, stream.Ref{Partition: 1, Offset: 1, Generation: again[1].Generation})
			settles(1, stream.Ref{Partition: 0, Offset: 1, Attempt: 1})
			must(t, s.Groups("log").Delete(ctx, "g"))
			other := read()
			settles(0, again[0].Ref())
			settles(1, other[0].Ref())
			if spread {
				return // the transaction would read the partitions of the stream's home only
			}
			must(t, s.Seek(ctx, "log", "g", stream.FromBeginning()))
			res, err := r.Txn("n").Do(stream.ReadGroupOp("log", "g", "c")).Commit(ctx)
			must(t, err)
			refs := res.Values[0].([]stream.Ref)
			if len(refs) != 2 || refs[0].Generation == 0 || refs[0].Generation == other[refs[0].Partition].Generation {
				t.Errorf("ReadGroupOp = %+v", refs)
			}
		})
	}
}

func TestAckInTransaction(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "1")
	a, _ := consumers(t, s, stream.Shared, stream.Backoff(0, 0))
	ds := a.want("1")
	r.Advance(30_000)
	late := r.Txn("n").Do(stream.AppendOp("out", text("done")), stream.AckOp("log", "g", ds[0].Ref()))
	_, err := late.Commit(t.Context())
	wantError(t, "a transaction that acknowledges too late", err, stream.ErrConflict, "not pending")
	_, err = s.Read(t.Context(), "out")
	wantError(t, "Read of what it appended", err, stream.ErrNotFound, "out")
	ds = a.want("1#2")
	if _, err := r.Txn("n").Do(stream.AppendOp("out", text("done")),
		stream.AckOp("log", "g", ds[0].Ref())).Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRead(t, s, "out", "done")
	a.want("")
}

func TestReadGroupInTransaction(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "1", "2", "3")
	res, err := r.Txn("n").Do(stream.ReadGroupOp("log", "g", "a", stream.Limit(2)),
		stream.AppendOp("out", text("begun"))).Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refs := res.Values[0].([]stream.Ref)
	recs, err := s.Records(t.Context(), "log", refs...)
	if err != nil || payloads(recs) != "1 2" {
		t.Errorf("Records = %q, %v", payloads(recs), err)
	}
	if _, err := r.Txn("n").Do(stream.AckOp("log", "g", refs...)).Commit(t.Context()); err != nil {
		t.Error(err)
	}
	consumer{t, s, "log", "g", "b"}.want("3")
	_, err = r.Txn("n").Do(stream.ReadGroupOp("log", "g", "a", stream.Wait(time.Second))).Commit(t.Context())
	wantError(t, "a transaction that waits", err, stream.ErrInvalid, "cannot wait")
}

func TestGroupOverPartitions(t *testing.T) {
	for _, wide := range []bool{false, true} {
		t.Run(fmt.Sprintf("spread=%v", wide), func(t *testing.T) {
			r, s := newStore(t)
			if wide {
				r, s = newSpread(t, 4)
			}
			if err := s.Create(t.Context(), "log", stream.Partitions(8)); err != nil {
				t.Fatal(err)
			}
			for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
				name := mode.String()
				if err := s.Groups("log").Create(t.Context(), name, stream.InMode(mode), stream.Backoff(0, 0)); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 200 {
				keyed(t, s, fmt.Sprintf("k%d:%d", i%20, i))
			}
			for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
				a, b := consumer{t, s, "log", mode.String(), "a"}, consumer{t, s, "log", mode.String(), "b"}
				a.read(stream.Limit(1))
				b.read(stream.Limit(1))
				r.Advance(40_000)
				seen := make(map[string]int)
				for range 20 {
					for _, c := range []consumer{a, b} {
						ds, _ := c.read(stream.Limit(50))
						for _, d := range ds {
							seen[string(d.Payload)]++
						}
						c.ack(len(ds), ds...)
					}
				}
				if len(seen) != 200 {
					t.Errorf("%v: %d of 200 records were delivered", mode, len(seen))
				}
				info, err := s.Groups("log").Get(t.Context(), mode.String())
				if err != nil || info.Lag() != 0 || info.Pending() != 0 || len(info.Cursors) != 8 {
					t.Errorf("%v: Group = %+v, %v", mode, info, err)
				}
			}
			groups, err := s.Groups("log").Page(t.Context(), stream.Limit(10))
			if err != nil || len(groups.Items) != 3 || groups.Cursor != "" {
				t.Errorf("Groups = %+v, %v", groups, err)
			}
			if err := s.Groups("log").Delete(t.Context(), "shared"); err != nil {
				t.Error(err)
			}
			if err := s.Delete(t.Context(), "log", stream.Force()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReadGroupWaits(t *testing.T) {
	_, s := newStore(t)
	got := make(chan string)
	go func() {
		ds, err := s.ReadGroup(t.Context(), "log", "g", "a", stream.Wait(time.Minute))
		got <- fmt.Sprint(deliveries(ds), err)
	}()
	appendTexts(t, s, "log", "1")
	if g := <-got; g != "1<nil>" {
		t.Errorf("a waiting ReadGroup got %s", g)
	}
	ds, err := s.ReadGroup(t.Context(), "log", "g", "a", stream.Wait(10*time.Millisecond))
	if len(ds) > 0 || err != nil {
		t.Errorf("a ReadGroup that waits in vain = %v, %v", ds, err)
	}
}

// TestIdleGroupsCostNothing checks that groups without readers have no timers.
func TestIdleGroupsCostNothing(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "1")
	for i := range 100 {
		if err := s.Groups("log").Create(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if due := r.NextDue(); due < machinetest.Epoch*2 {
		t.Errorf("a timer is due at %d", due)
	}
}

// TestOddArguments: the Store rejects arguments that used to be accepted by a Node and refused by a
// Client, or the other way round.
func TestOddArguments(t *testing.T) {
	eachKind(t, func(t *testing.T, r *machinetest.Rig, s *stream.Store) {
		ctx := t.Context()
		remove(t, s, "log")
		create(t, s, "log", stream.Partitions(4))
		var ids []stream.ID
		for _, payload := range []string{"1", "2", "3"} {
			ids = append(ids, appendTexts(t, s, "log", payload)...)
			r.Pass(1) // shards assign IDs by time
		}
		must(t, s.Groups("log").Create(ctx, "g"))
		far := time.Unix(math.MaxInt64/4, 0)
		once := stream.Ref{Partition: 1, Offset: 7}
		for what, err := range map[string]error{
			"activity far from now": second(s.Activity(ctx, "log", stream.ActivitySpan{From: far, Step: time.Second, Parts: 1})),
			"activity of many partitions": second(s.Activity(ctx, "log",
				stream.ActivitySpan{Step: time.Second, Parts: 1, Partitions: make([]int, 2000)})),
			"records of a partition -1":    second(s.Records(ctx, "log", stream.Ref{Partition: -1, Offset: 1})),
			"records of a partition 5,000": second(s.Records(ctx, "log", stream.Ref{Partition: 5000, Offset: 1})),
			"ack of a record twice":        second(s.Ack(ctx, "log", "g", once, stream.Ref{Partition: 2, Offset: 1}, once)),
			"nack of a record twice":       second(s.Nack(ctx, "log", "g", []stream.Ref{once, once})),
			"extend of a record twice": second(s.ExtendMany(ctx, "log", "g",
				[]stream.Ref{once, {Partition: 1, Offset: 7, Attempt: 1}, once}, time.Second)),
			"ack in a partition -1":    second(s.Ack(ctx, "log", "g", stream.Ref{Partition: -1, Offset: 7})),
			"extend for too long":      second(s.Extend(ctx, "none", "g", once, math.MaxInt64)),
			"a delay that is too long": second(s.Nack(ctx, "none", "g", []stream.Ref{once}, stream.Delay(math.MaxInt64))),
			"ack timeout too long":     s.Groups("log").Create(ctx, "h", stream.AckTimeout(math.MaxInt64)),
			"seek in a partition 4":    s.Seek(ctx, "log", "g", stream.FromEnd(), stream.Partition(4)),
			"seek in a partition -1":   s.Seek(ctx, "log", "g", stream.FromEnd(), stream.Partition(-1)),
			"no setting":               s.Groups("log").Configure(ctx, "g"),
			"negative bytes":           s.SetRetention(ctx, "log", stream.Retention{MaxBytes: -1}),
		} {
			if !errors.Is(err, stream.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", what, err)
			}
		}
		if n, err := s.Ack(ctx, "none", "none"); n != 0 || err != nil {
			t.Errorf("Ack without refs = %d, %v, want nothing", n, err)
		}
		wantRead(t, s, "log", "1 2 3", stream.FromTime(time.Unix(math.MinInt64/4, 0)), stream.UntilTime(far))
		wantRead(t, s, "log", "", stream.FromTime(far))
		wantRead(t, s, "log", "", stream.UntilTime(time.Unix(math.MinInt64/4, 0)))
		wantRead(t, s, "log", "", stream.Until(stream.ID{}))
		wantRead(t, s, "log", "", stream.Until(stream.ID{}), stream.Tail())
		wantRead(t, s, "log", "1", stream.Until(ids[0]))
		must(t, s.SetRetention(ctx, "log", stream.Retention{MaxAge: math.MaxInt64}))
		if info, err := s.Get(ctx, "log"); err != nil || info.Retention.MaxAge != math.MaxInt64 || info.Records() != 3 {
			t.Errorf("Stats = %+v, %v, want the longest MaxAge", info, err)
		}
	})
}

func second[T any](_ T, err error) error { return err }
