package stream_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// betweenDoor calls a function before the next proposed command.
type betweenDoor struct {
	*machinetest.Rig
	before func()
}

func (d *betweenDoor) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	if f := d.before; f != nil {
		d.before = nil
		f()
	}
	return d.Rig.Propose(ctx, shard, cmd)
}

// countStreams checks that the namespace counts the given number of streams over all shards.
func countStreams(t *testing.T, r *machinetest.Rig, namespace string, want int64) {
	t.Helper()
	info, err := engine.NewNamespaces(r.Router()).Get(t.Context(), namespace)
	if err != nil || info.Counts.Streams != want {
		t.Errorf("namespace %s has %d streams, %v, want %d", namespace, info.Counts.Streams, err, want)
	}
}

// TestAppendWhileDeleted appends to a stream that is deleted or recreated while the command is in
// flight: the intended stream does not partly come back.
func TestAppendWhileDeleted(t *testing.T) {
	for p := range 6 {
		for _, hold := range []bool{false, true} {
			for _, again := range []int{0, 1, 8} {
				r, s := newSpread(t, 4)
				create(t, s, "log", stream.Partitions(6))
				for i := range 12 {
					if _, err := s.Append(t.Context(), "log", stream.Message{Key: fmt.Sprint(i)}); err != nil {
						t.Fatal(err)
					}
				}
				d := &betweenDoor{Rig: r, before: func() {
					r.Hold(hold)
					remove(t, s, "log")
					if again > 0 {
						create(t, s, "log", stream.Partitions(again))
					}
				}}
				late := engine.StoreOf[stream.Store](engine.NewRouter(d), "wide", 0)
				opts := []stream.AppendOption{stream.Partition(p)}
				a, err := late.Append(t.Context(), "log", text("late"), opts...)
				if hold && err == nil && a.Offset > 1 {
					// The shard did not know of it yet: the append came first.
					if _, err := s.Read(t.Context(), "log"); again == 0 {
						wantError(t, "Read", err, stream.ErrNotFound, "not found")
						continue
					}
					wantRead(t, s, "log", "")
					continue
				}
				partitions, want := max(again, 1), "late"
				if p >= partitions {
					wantError(t, "Append to a partition that there is not any more", err, stream.ErrInvalid,
						fmt.Sprintf("has 1 partitions, no partition %d", p))
					want = ""
					if again == 0 {
						countStreams(t, r, "wide", 0)
						continue
					}
				} else if err != nil || a.Offset != 1 {
					t.Errorf("partition %d, held %v, made again with %d: Append = %+v, %v", p, hold, again, a, err)
				}
				wantRead(t, s, "log", want)
				info, err := s.Get(t.Context(), "log")
				if err != nil || len(info.Partitions) != partitions || int(info.Records()) != len(want)/4 {
					t.Errorf("Stats = %+v, %v", info, err)
				}
				countStreams(t, r, "wide", 1)
				r.Hold(false)
				r.Deliver()
				wantRead(t, s, "log", want)
			}
		}
	}
}

// TestReadBeforeTheDropArrives: other shards learn later that a stream was deleted, and show none
// of it until then.
func TestReadBeforeTheDropArrives(t *testing.T) {
	r, s := newSpread(t, 4)
	create(t, s, "log", stream.Partitions(8))
	for p := range 8 {
		if _, err := s.Append(t.Context(), "log", text("old"), stream.Partition(p)); err != nil {
			t.Fatal(err)
		}
	}
	r.Hold(true)
	remove(t, s, "log")
	create(t, s, "log", stream.Partitions(8))
	wantRead(t, s, "log", "")
	wantRead(t, s, "log", "", stream.Tail())
	if info, err := s.Get(t.Context(), "log"); err != nil || info.Records() != 0 || info.Appended != 0 {
		t.Errorf("Stats = %+v, %v", info, err)
	}
	for p := range 8 {
		if a, err := s.Append(t.Context(), "log", text("%d", p), stream.Partition(p)); err != nil || a.Offset != 1 {
			t.Errorf("Append to partition %d = %+v, %v", p, a, err)
		}
		r.Advance(1)
	}
	r.Hold(false)
	r.Deliver()
	wantRead(t, s, "log", "0 1 2 3 4 5 6 7")
}

// TestSpreadRetention: all shards apply the policy, including shards without a record so far and
// shards that receive the policy late.
func TestSpreadRetention(t *testing.T) {
	r, s := newSpread(t, 4)
	create(t, s, "log", stream.Partitions(8), stream.MaxAge(time.Hour))
	for p := range 4 {
		for i := range 5 {
			if _, err := s.Append(t.Context(), "log", text("%d.%d", p, i), stream.Partition(p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.Hold(true)
	if err := s.SetRetention(t.Context(), "log", stream.Retention{MaxAge: time.Hour, MaxLen: 2}); err != nil {
		t.Fatal(err)
	}
	// A command for that shard carries the policy.
	for p := range 8 {
		if _, err := s.Append(t.Context(), "log", text("%d.x", p), stream.Partition(p)); err != nil {
			t.Fatal(err)
		}
	}
	r.Hold(false)
	r.Deliver()
	info, err := s.Get(t.Context(), "log")
	if err != nil || info.Records() != 12 || info.Retention.MaxLen != 2 || info.Appended != 28 {
		t.Errorf("Stats = %+v, %v", info, err)
	}
	for i, p := range info.Partitions {
		if want := engine.NameShard("wide", map[bool]string{true: "log", false: fmt.Sprintf("log/%d", i)}[i == 0], 4); p.Partition != i ||
			p.Shard != int(want) {
			t.Errorf("partition %d is %+v, want it in shard %d", i, p, want)
		}
	}
	r.Restart()
	r.Advance(time.Hour.Milliseconds() - 1)
	if info, err := s.Get(t.Context(), "log"); err != nil || info.Records() != 12 {
		t.Errorf("a millisecond before an hour: Stats = %+v, %v", info, err)
	}
	r.Advance(1)
	wantRead(t, s, "log", "")
	if due := r.NextDue(); due != engine.NoTimer {
		t.Errorf("a timer is due at %d though the stream is empty", due)
	}
}

// TestSpreadInfo reports the shards of partitions that never had a record.
func TestSpreadInfo(t *testing.T) {
	_, s := newSpread(t, 4)
	create(t, s, "log", stream.Partitions(8))
	info, err := s.Get(t.Context(), "log")
	shards := make(map[int]bool)
	for _, p := range info.Partitions {
		shards[p.Shard] = true
	}
	if err != nil || len(shards) < 2 || len(info.Partitions) != 8 {
		t.Errorf("Stats = %+v, %v, want partitions in several shards", info, err)
	}
}

// TestSpreadDedup: a repeat reaches the partition of the first append, also after a restart.
func TestSpreadDedup(t *testing.T) {
	r, s := newSpread(t, 4)
	create(t, s, "log", stream.Partitions(8))
	for i := range uint64(20) {
		producer := fmt.Sprint("p", i%4)
		first, err := s.Append(t.Context(), "log", text("x"), stream.Dedup(producer, i))
		if err != nil {
			t.Fatal(err)
		}
		if i%7 == 0 {
			r.Restart()
		}
		first.Duplicate = true
		if again, err := s.Append(t.Context(), "log", text("x"), stream.Dedup(producer, i)); err != nil || again != first {
			t.Errorf("repeat of %d = %+v, %v, want %+v", i, again, err, first)
		}
	}
	_, err := s.AppendMany(t.Context(), "log", []stream.Message{{Key: "a"}, {Key: "b"}, {Key: "c"}, {Key: "d"}}, stream.Dedup("p", 1))
	wantError(t, "AppendMany with Dedup to several partitions", err, stream.ErrInvalid, "allow one in a spread namespace")
	info, err := s.Get(t.Context(), "log")
	if err != nil || info.Records() != 20 {
		t.Errorf("Stats = %+v, %v", info, err)
	}
}

// TestSpreadDedupOfOthers: a number reused for other messages returns the result of the first ones;
// this used to panic.
func TestSpreadDedupOfOthers(t *testing.T) {
	_, s := newSpread(t, 4)
	create(t, s, "log", stream.Partitions(8))
	first, err := s.Append(t.Context(), "log", text("a"), stream.Dedup("p", 1))
	if err != nil {
		t.Fatal(err)
	}
	first.Duplicate = true
	again, err := s.AppendMany(t.Context(), "log", []stream.Message{text("b"), text("c")}, stream.Dedup("p", 1))
	if err != nil || len(again) != 1 || again[0] != first {
		t.Errorf("AppendMany = %+v, %v, want %+v", again, err, first)
	}
	wantRead(t, s, "log", "a")
}

// TestRefusedAppendMakesNothing: a refused append does not leave an empty stream behind.
func TestRefusedAppendMakesNothing(t *testing.T) {
	r, s := newSpread(t, 4)
	_, err := s.Append(t.Context(), "log", text("x"), stream.Partition(1))
	wantError(t, "Append", err, stream.ErrInvalid, "has 1 partitions, no partition 1")
	_, err = s.Append(t.Context(), "log", text("x"), stream.IfLastID(stream.ID{Millis: 1}))
	wantError(t, "Append", err, stream.ErrConflict, "the last id of partition 0 is 0-0, want 1-0")
	countStreams(t, r, "wide", 0)
}

// TestTagged: a stream with a {tag} is in one shard of a spread namespace, and can be part of a
// transaction.
func TestTagged(t *testing.T) {
	r, s := newSpread(t, 4)
	create(t, s, "log{x}", stream.Partitions(8))
	res, err := r.Txn("wide").If(stream.LastIDIs("log{x}", 3, stream.ID{})).
		Do(stream.AppendOp("log{x}", text("a"), stream.Partition(3)), stream.AppendOp("other{x}", text("b"))).Commit(t.Context())
	if err != nil || res.Values[0].(stream.Appended).Partition != 3 {
		t.Fatalf("Commit = %+v, %v", res, err)
	}
	wantRead(t, s, "log{x}", "a")
	wantRead(t, s, "other{x}", "b")
	_, err = r.Txn("wide").If(stream.LastIDIs("log{x}", 3, stream.ID{})).Do(stream.AppendOp("log{x}", text("c"))).Commit(t.Context())
	wantError(t, "Commit on a condition that does not hold any more", err, stream.ErrConflict, "last id of partition 3")
	countStreams(t, r, "wide", 2)
	_, err = r.Txn("wide").Do(stream.CreateOp("plain", stream.Partitions(64))).Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for p := range 64 {
		_, err := r.Txn("wide").Do(stream.AppendOp("plain", text("x"), stream.Partition(p))).Commit(t.Context())
		if err != nil {
			wantError(t, "AppendOp to another shard", err, stream.ErrInvalid,
				"is in another shard of the spread namespace: give the name a {tag}")
		}
	}
	if _, err := r.Txn("wide").Do(stream.AppendOp("plain", text("x"))).Commit(t.Context()); err != nil {
		t.Errorf("AppendOp without a key: %v", err)
	}
}

// TestFromEndInASpreadNamespace: records appended after a group was created from the end used to be
// lost if their partition's shard received the group only later.
func TestFromEndInASpreadNamespace(t *testing.T) {
	ctx := context.Background()
	for name, begin := range map[string]func(s *stream.Store) error{
		"create": func(s *stream.Store) error { return s.Groups("log").Create(ctx, "g", stream.FromEnd()) },
		"read": func(s *stream.Store) error {
			ds, err := s.ReadGroup(ctx, "log", "g", "a", stream.FromEnd(), stream.Limit(1))
			if len(ds) > 0 {
				err = fmt.Errorf("read %s", deliveries(ds))
			}
			return err
		},
		"create again": func(s *stream.Store) error {
			if err := s.Groups("log").Create(ctx, "g"); err != nil {
				return err
			}
			if err := s.Groups("log").Delete(ctx, "g"); err != nil {
				return err
			}
			return s.Groups("log").Create(ctx, "g", stream.FromEnd())
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := wideGroup(t)
			r.Hold(true) // the shards receive nothing from each other
			must(t, begin(s))
			for p := range wide {
				_, err := s.Append(ctx, "log", text("new %d", p), stream.Partition(p))
				must(t, err)
			}
			info, err := s.Groups("log").Get(ctx, "g")
			if err != nil || info.Lag() != wide {
				t.Errorf("GroupStats: lag %d, %v, want %d", info.Lag(), err, wide)
			}
			a := consumer{t, s, "log", "g", "a"}
			attempts := readAll(a)
			for p, n := range attempts {
				if n != 1 {
					t.Errorf("the record of partition %d was delivered %d times, want once", p, n)
				}
			}
			r.Hold(false)
			r.Deliver()
			if again := readAll(a); again != ([wide]int{}) {
				t.Errorf("delivered again: %v", again)
			}
		})
	}
}

// TestLagBeforeShardsKnowTheGroup: partitions of shards that had not received the group used to
// count as read to their end.
func TestLagBeforeShardsKnowTheGroup(t *testing.T) {
	r, s := wideGroup(t)
	mid, err := s.Append(t.Context(), "log", text("new"), stream.Partition(wide-1))
	must(t, err)
	r.Hold(true)
	must(t, s.Groups("log").Create(t.Context(), "all"))
	must(t, s.Groups("log").Create(t.Context(), "some", stream.From(mid.ID)))
	for group, want := range map[string]int64{"all": wide + 1, "some": 1} {
		info, err := s.Groups("log").Get(t.Context(), group)
		if err != nil || info.Lag() != want || len(info.Cursors) != wide {
			t.Errorf("GroupStats of %s = %+v, %v, want a lag of %d", group, info, err, want)
		}
	}
}

// ctxDoor does not answer a call whose ctx is done, like the door of a client.
type ctxDoor struct{ *machinetest.Rig }

func (d ctxDoor) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.Rig.Query(ctx, id, q)
}

// TestShortestWaitLooks: a wait that ends before anything is known of the namespace still reads
// once.
func TestShortestWaitLooks(t *testing.T) {
	r, s := wideGroup(t)
	must(t, s.Groups("log").Create(t.Context(), "g"))
	late := engine.StoreOf[stream.Store](engine.NewRouter(ctxDoor{r}), "wide", 0)
	if ds, err := late.ReadGroup(t.Context(), "log", "g", "a", stream.Wait(1)); err != nil || len(ds) != wide {
		t.Errorf("ReadGroup with a wait of 1 ns = %s, %v, want %d records", deliveries(ds), err, wide)
	}
	late = engine.StoreOf[stream.Store](engine.NewRouter(ctxDoor{r}), "nowhere", 0)
	if ds, err := late.ReadGroup(t.Context(), "log", "g", "a", stream.Wait(1)); err != nil || len(ds) != 0 {
		t.Errorf("ReadGroup in no namespace with a wait of 1 ns = %s, %v, want nothing", deliveries(ds), err)
	}
}

// TestLateCommandForADeletedGroup: a command in flight while its group was deleted used to recreate
// it in shards that had removed it already.
func TestLateCommandForADeletedGroup(t *testing.T) {
	for p := range wide {
		r, s := wideGroup(t)
		must(t, s.Groups("log").Create(t.Context(), "other"))
		must(t, s.Groups("log").Create(t.Context(), "g"))
		d := &betweenDoor{Rig: r}
		late := engine.StoreOf[stream.Store](engine.NewRouter(d), "wide", 0)
		d.before = func() { must(t, s.Groups("log").Delete(t.Context(), "g")) }
		n, err := late.Ack(t.Context(), "log", "g", stream.Ref{Partition: p, Offset: 1})
		wantError(t, fmt.Sprintf("Ack of a record of partition %d = %d", p, n), err, stream.ErrNotFound, `consumer group "g" not found`)
		for shard := range 4 {
			if g := rowsOf(r, engine.ShardID(shard), 'g'); g > 1 {
				t.Errorf("shard %d has %d groups, want only the other one", shard, g)
			}
		}
		// Groups created before the deletion, and those created after it, are not affected.
		must(t, s.Groups("log").Create(t.Context(), "g"))
		for _, name := range []string{"g", "other"} {
			if ds, err := s.ReadGroup(t.Context(), "log", name, "a"); err != nil || len(ds) != wide {
				t.Errorf("ReadGroup of %s = %s, %v", name, deliveries(ds), err)
			}
		}
	}
}

// rowsOf returns the number of a shard's rows of a kind.
func rowsOf(r *machinetest.Rig, shard engine.ShardID, kind byte) (n int) {
	for _, row := range r.Rows(shard) {
		if row.Machine == engine.MachineStream && row.Key[0] == kind {
			n++
		}
	}
	return n
}

// TestDeletedStreamsAreForgotten: shards used to remember deleted streams forever.
func TestDeletedStreamsAreForgotten(t *testing.T) {
	r, s := newSpread(t, 4)
	for i := range 10 {
		name := fmt.Sprint("log", i)
		create(t, s, name, stream.Partitions(8))
		for p := range 8 {
			_, err := s.Append(t.Context(), name, text("x"), stream.Partition(p))
			must(t, err)
		}
		remove(t, s, name)
	}
	create(t, s, "log0", stream.Partitions(8))
	_, err := s.AppendMany(t.Context(), "log0", []stream.Message{{Key: "a"}, {Key: "b"}, {Key: "c"}, {Key: "d"}})
	must(t, err)
	rows := func() (n int) {
		for shard := range 4 {
			n += rowsOf(r, engine.ShardID(shard), 'S')
		}
		return n
	}
	before := rows()
	r.Restart()
	r.Advance((24 * time.Hour).Milliseconds() - 1)
	if n := rows(); n != before || n < 20 {
		t.Errorf("%d rows of streams a millisecond before the day is over, there were %d", n, before)
	}
	r.Advance(1)
	if n := rows(); n < 1 || n > 4 {
		t.Errorf("%d rows of streams are left, want those of one stream in at most 4 shards", n)
	}
	if due := r.NextDue(); due != engine.NoTimer {
		t.Errorf("a timer is due at %d", due)
	}
}
