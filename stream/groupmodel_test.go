package stream_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/test/quota"
	"github.com/floedb/floe/stream"
)

var (
	groupRuns = flag.Int("group-runs", 4, "runs of TestGroupHistories for each mode")
	groupSeed = flag.Uint64("group-seed", 0, "the one run of TestGroupHistories to repeat")
)

// TestGroupHistories runs random operations of a group's consumers and checks the guarantees of
// groups. No record is with two consumers. None is delivered after it was acknowledged or without
// need. Attempts are counted, except those excused because a consumer leaves. Keys keep their order
// in a KeyShared group, an exclusive group has one consumer, and in the other two modes first
// deliveries are in order. At the end every record was acknowledged or is a dead letter after its
// maximum number of attempts. After a seek, records behind the new position start over and those
// before it are done. Then other replicas apply the same entries in other batches, dropping their
// caches occasionally or always, and must reach the same state.
func TestGroupHistories(t *testing.T) {
	for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			for q := quota.New(t, *groupRuns); q.More(); {
				seed := rand.Uint64()
				if *groupSeed != 0 {
					seed = *groupSeed
				}
				if !t.Run(fmt.Sprint(seed), func(t *testing.T) { runHistory(t, mode, seed) }) {
					return
				}
			}
		})
	}
}

// history is a group under test and the expected state.
type history struct {
	partitions int
	t          *testing.T
	rng        *rand.Rand
	r          *machinetest.Rig
	s          *stream.Store
	mode       stream.Mode
	opts       []stream.GroupOption
	records    map[stream.Ref]*tracked
	order      map[string][]stream.Ref // of each key and partition, as appended
	held       map[string][]stream.Delivery
	stale      []stream.Ref   // of deliveries before a seek
	newest     map[int]uint64 // offset of the latest first delivery, by partition
	most       int            // maximum deliveries of a record; 0: unlimited
	count      int
	trimmed    bool
	buried     map[string]int // dead letters that existed at the last seek
}

type tracked struct {
	id       stream.ID
	text     string
	key      string
	acked    bool
	attempts int
	excused  int    // deliveries that do not count
	holder   string // the consumer that holds it
	deadline int64
	unwanted bool // a consumer asked to dead-letter it at once
}

const historyAckTimeout = 1000

func runHistory(t *testing.T, mode stream.Mode, seed uint64) {
	stream.StartTurns()
	rng := rand.New(rand.NewPCG(seed, 0))
	h := &history{
		t: t, rng: rng, mode: mode, records: make(map[stream.Ref]*tracked), order: make(map[string][]stream.Ref),
		held:   make(map[string][]stream.Delivery),
		newest: make(map[int]uint64), most: []int{0, 1, 4, 4}[rng.IntN(4)],
	}
	namespace := "n"
	if rng.IntN(3) == 0 {
		h.r = machinetest.New(t, 3, engine.TableOf[stream.Store]())
		namespace = "wide"
		if err := engine.NewNamespaces(h.r.Router()).Create(t.Context(), namespace, true); err != nil {
			t.Fatal(err)
		}
	} else {
		h.r = machinetest.New(t, 1, engine.TableOf[stream.Store]())
	}
	h.s = engine.StoreOf[stream.Store](h.r.Router(), namespace, 0)
	h.partitions = 1 + rng.IntN(3)
	must(t, h.s.Create(t.Context(), "log", stream.Partitions(h.partitions)))
	h.opts = []stream.GroupOption{
		stream.InMode(mode), stream.AckTimeout(historyAckTimeout * time.Millisecond), stream.MaxAttempts(h.most),
		stream.Backoff(time.Duration(rng.IntN(3))*50*time.Millisecond, 200*time.Millisecond),
	}
	must(t, h.s.Groups("log").Create(t.Context(), "g", h.opts...))
	for range 300 {
		if h.step(); rng.IntN(20) == 0 {
			h.r.Verify()
		}
		if t.Failed() {
			return
		}
	}
	h.drain()
	h.r.Verify()
	h.r.Replay(func() int { return 1 + rng.IntN(8) }, func() bool { return rng.IntN(10) == 0 })
	h.r.Replay(func() int { return 1 }, func() bool { return true })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *history) step() {
	switch n := h.rng.IntN(100); {
	case n < 26:
		h.append()
	case n < 50:
		h.read(h.consumer(), false)
	case n < 55:
		h.read(h.consumer(), true)
	case n < 67:
		h.settle(h.consumer())
	case n < 74:
		h.nackOne(h.consumer())
	case n < 77:
		h.failTransaction()
	case n < 90:
		h.r.Advance(int64(h.rng.IntN(historyAckTimeout / 2)))
	case n < 91:
		h.r.Advance(4 * historyAckTimeout) // all are silent for so long that they leave the group
	case n < 93:
		h.r.Restart()
	case n < 97:
		h.leave(h.consumer())
	case n < 98:
		h.settleStale()
		h.seek()
		h.settleStale()
	case n < 99:
		h.configure()
	default:
		h.trim()
	}
}

func (h *history) consumer() string { return string(rune('a' + h.rng.IntN(3))) }

func (h *history) append() {
	var msgs []stream.Message
	for range 1 + h.rng.IntN(4) {
		h.count++
		msg := text("%d", h.count)
		if h.rng.IntN(8) > 0 {
			msg.Key = fmt.Sprint("k", h.rng.IntN(6))
		}
		msgs = append(msgs, msg)
	}
	all, err := h.s.AppendMany(h.t.Context(), "log", msgs)
	must(h.t, err)
	for i, a := range all {
		ref := stream.Ref{Partition: a.Partition, Offset: a.Offset}
		h.records[ref] = &tracked{id: a.ID, text: string(msgs[i].Payload), key: msgs[i].Key}
		if msgs[i].Key != "" {
			of := fmt.Sprint(msgs[i].Key, " ", a.Partition)
			h.order[of] = append(h.order[of], ref)
		}
	}
}

func (h *history) read(c string, noAck bool) {
	opts := []stream.GroupReadOption{stream.Limit(1 + h.rng.IntN(6))}
	if noAck {
		opts = append(opts, stream.NoAck())
	}
	ds, err := h.s.ReadGroup(h.t.Context(), "log", "g", c, opts...)
	must(h.t, err)
	for i, d := range ds {
		h.delivered(c, d, ds[:i])
		if noAck {
			rec := h.records[stream.Ref{Partition: d.Partition, Offset: d.Offset}]
			rec.acked, rec.holder = true, ""
		}
	}
	if !noAck {
		h.held[c] = append(h.held[c], ds...)
	}
	if h.mode != stream.Exclusive || len(ds) == 0 {
		return
	}
	for at, p := range h.pending() {
		// In other shards of a spread namespace it takes over at its first read there.
		same := slices.ContainsFunc(ds, func(d stream.Delivery) bool { return d.Partition == at.Partition })
		if p.Consumer != "" && p.Consumer != c && same {
			h.t.Errorf("%s gets records while %s has %+v", c, p.Consumer, at)
		}
	}
}

// delivered checks a delivery against the expected state; before holds the deliveries that the same
// call returned ahead of it.
func (h *history) delivered(c string, d stream.Delivery, before []stream.Delivery) {
	ref := stream.Ref{Partition: d.Partition, Offset: d.Offset}
	rec := h.records[ref]
	switch {
	case rec == nil:
		h.t.Fatalf("%s got %+v, which nobody appended", c, ref)
	case rec.acked:
		h.t.Errorf("%s got %+v after it was acknowledged", c, ref)
	case rec.holder != "" && h.r.Now() < rec.deadline && (h.mode == stream.Shared || h.mode == stream.KeyShared && d.Key == ""):
		// In the other modes it may have been returned together with others.
		h.t.Errorf("%s got %+v while %s had it", c, ref, rec.holder)
	case d.Attempt != rec.attempts+1:
		h.t.Errorf("%s got %+v as attempt %d after %d", c, ref, d.Attempt, rec.attempts)
	case h.mode != stream.KeyShared && h.most > 0 && d.Attempt-rec.excused > h.most:
		h.t.Errorf("%s got %+v as attempt %d, with %d excused", c, ref, d.Attempt, rec.excused)
	case h.mode != stream.KeyShared && d.Attempt == 1 && d.Offset < h.newest[d.Partition]:
		h.t.Errorf("%s got %+v for the first time behind offset %d", c, ref, h.newest[d.Partition])
	}
	if d.Attempt == 1 {
		h.newest[d.Partition] = d.Offset
	}
	rec.attempts, rec.holder, rec.deadline = d.Attempt, c, d.Deadline.UnixMilli()
	if h.mode == stream.KeyShared && d.Key != "" {
		h.inOrder(c, d, before)
	}
}

// inOrder checks that all earlier records of the delivered record's key are done or were delivered
// by the same call.
func (h *history) inOrder(c string, d stream.Delivery, before []stream.Delivery) {
	for _, ref := range h.order[fmt.Sprint(d.Key, " ", d.Partition)] {
		if ref.Offset >= d.Offset {
			return
		}
		rec := h.records[ref]
		together := slices.ContainsFunc(before, func(b stream.Delivery) bool {
			return b.Partition == ref.Partition &&
				b.Offset == ref.Offset
		})
		if !rec.acked && !together && !h.dead()[rec.text] && h.there(ref) {
			h.t.Errorf("%s got offset %d of partition %d of key %s while %+v of that key is not done (%+v)", c, d.Offset, d.Partition,
				d.Key, ref, *rec)
		}
	}
}

// there reports whether a record has not been trimmed.
func (h *history) there(ref stream.Ref) bool {
	recs, err := h.s.Records(h.t.Context(), "log", ref)
	must(h.t, err)
	return len(recs) > 0
}

// dead returns the payloads of the dead letters that were added since the last seek.
func (h *history) dead() map[string]bool {
	dead := make(map[string]bool)
	for text, n := range h.deadLetters() {
		if n -= h.buried[text]; n > 1 {
			h.t.Errorf("%s is a dead letter %d times", text, n)
		}
		dead[text] = n > 0
	}
	return dead
}

// deadLetters returns how often each payload is a dead letter.
func (h *history) deadLetters() map[string]int {
	dead := make(map[string]int)
	for after := (stream.ID{}); ; {
		recs, err := h.s.Read(h.t.Context(), "log.dlq", stream.After(after), stream.Limit(1000))
		if errors.Is(err, stream.ErrNotFound) || err == nil && len(recs) == 0 {
			return dead
		}
		must(h.t, err)
		for _, rec := range recs {
			dead[string(rec.Payload)]++
			after = rec.ID
		}
	}
}

// configure changes the back-off. Other settings would change the expectations for each record.
func (h *history) configure() {
	low := time.Duration(h.rng.IntN(3)) * 50 * time.Millisecond
	must(h.t, h.s.Groups("log").Configure(h.t.Context(), "g", stream.Backoff(low, 200*time.Millisecond)))
	if g, err := h.s.Groups("log").Get(h.t.Context(), "g"); err != nil || g.BackoffMin != low || g.MaxAttempts != h.most ||
		g.AckTimeout != historyAckTimeout*time.Millisecond {
		h.t.Errorf("after the back-off was changed to %v: GroupStats = %+v, %v", low, g, err)
	}
}

// seek moves the group to the beginning, to the end or to a record, in one partition or in all.
func (h *history) seek() {
	var from stream.ID
	to := stream.SeekOption(stream.FromBeginning())
	switch h.rng.IntN(4) {
	case 0:
		to, from = stream.FromEnd(), stream.ID{Millis: 1 << 60}
	case 1, 2:
		all := slices.SortedFunc(maps.Values(h.records), func(a, b *tracked) int { return a.id.Compare(b.id) })
		if len(all) > 0 {
			from = all[h.rng.IntN(len(all))].id
			to = stream.From(from)
		}
	}
	only, opts := -1, []stream.SeekPartOption(nil)
	if h.rng.IntN(2) == 0 {
		only = h.rng.IntN(h.partitions)
		opts = append(opts, stream.Partition(only))
	}
	before := h.pending()
	must(h.t, h.s.Seek(h.t.Context(), "log", "g", to, opts...))
	moved := func(partition int) bool { return only < 0 || partition == only }
	if h.buried == nil {
		h.buried = make(map[string]int)
	}
	dead := h.deadLetters()
	for _, c := range slices.Sorted(maps.Keys(h.held)) {
		h.held[c] = slices.DeleteFunc(h.held[c], func(d stream.Delivery) bool {
			if moved(d.Partition) {
				h.stale = append(h.stale, d.Ref())
			}
			return moved(d.Partition)
		})
	}
	h.stale = h.stale[max(0, len(h.stale)-20):]
	maps.DeleteFunc(h.newest, func(p int, _ uint64) bool { return moved(p) })
	for ref, rec := range h.records {
		if moved(ref.Partition) {
			h.buried[rec.text] = dead[rec.text]
			*rec = tracked{id: rec.id, text: rec.text, key: rec.key, acked: rec.id.Compare(from) < 0}
		}
	}
	maps.DeleteFunc(before, func(ref stream.Ref, _ stream.PendingRecord) bool { return moved(ref.Partition) })
	if after := h.pending(); !maps.Equal(after, before) {
		h.t.Errorf("a group that has just been moved in partition %d (-1: all) has %v under way, want %v", only, after, before)
	}
}

// pending returns the pending records by their position.
func (h *history) pending() map[stream.Ref]stream.PendingRecord {
	list, err := h.s.Pending("log", "g").Page(h.t.Context(), stream.Limit(1000))
	must(h.t, err)
	pending := make(map[stream.Ref]stream.PendingRecord)
	for _, p := range list.Items {
		pending[stream.Ref{Partition: p.Ref.Partition, Offset: p.Ref.Offset}] = p
	}
	return pending
}

// nackOne refuses one of a consumer's records, with a random delay.
func (h *history) nackOne(c string) {
	if len(h.held[c]) == 0 {
		return
	}
	i := h.rng.IntN(len(h.held[c]))
	d := h.held[c][i]
	h.held[c] = slices.Delete(h.held[c], i, i+1)
	opts := []stream.NackOption{stream.Reason("one")}
	switch h.rng.IntN(4) {
	case 0:
		opts = append(opts, stream.ToDLQ())
		h.records[stream.Ref{Partition: d.Partition, Offset: d.Offset}].unwanted = true
	case 1, 2:
		opts = append(opts, stream.Delay(time.Duration(h.rng.IntN(3)*h.rng.IntN(2000))*time.Millisecond))
	}
	_, err := h.s.Nack(h.t.Context(), "log", "g", []stream.Ref{d.Ref()}, opts...)
	must(h.t, err)
	h.release(c, d)
}

// leave stops a consumer that has acknowledged some or none of its records. The attempts of the
// records it leaves do not count.
func (h *history) leave(c string) {
	if h.rng.IntN(2) == 0 {
		h.settle(c)
	}
	had := h.pending()
	must(h.t, h.s.Leave(h.t.Context(), "log", "g", c))
	has := h.pending()
	for ref, p := range had {
		if p.Consumer != c || p.Deadline.UnixMilli() <= h.r.Now() {
			continue
		}
		h.records[ref].excused++
		if now := has[ref]; now.Consumer != "" || now.Reason != "consumer left" || now.Deadline.UnixMilli() != h.r.Now() {
			h.t.Errorf("%s had %+v and left: %+v", c, p, now)
		}
	}
	h.held[c] = nil
	for _, rec := range h.records {
		if rec.holder == c {
			rec.holder = ""
		}
	}
}

// settle acknowledges, refuses or extends some of a consumer's records, in the order of their
// delivery.
func (h *history) settle(c string) {
	n := h.rng.IntN(len(h.held[c]) + 1)
	some := h.held[c][:n]
	h.held[c] = h.held[c][n:]
	if n == 0 {
		return
	}
	switch h.rng.IntN(6) {
	case 0:
		for _, d := range some {
			if _, err := h.s.Nack(h.t.Context(), "log", "g", []stream.Ref{d.Ref()},
				stream.Delay(time.Duration(h.rng.IntN(300))*time.Millisecond)); err != nil {
				h.t.Fatal(err)
			}
			h.release(c, d)
		}
	case 1:
		if _, err := h.s.ExtendMany(h.t.Context(), "log", "g", stream.RefsOf(some), 2*historyAckTimeout*time.Millisecond); err != nil {
			h.t.Fatal(err)
		}
		h.held[c] = append(some, h.held[c]...)
		// Only the pending list shows which records were extended and which were lost already.
		h.refresh()
	default:
		for _, d := range some {
			got, err := h.s.Ack(h.t.Context(), "log", "g", d.Ref())
			must(h.t, err)
			rec := h.records[stream.Ref{Partition: d.Partition, Offset: d.Offset}]
			if got == 1 {
				rec.acked = true
			}
			h.release(c, d)
		}
	}
}

// settleStale acknowledges, refuses and extends deliveries from before a seek, which has no effect.
func (h *history) settleStale() {
	if len(h.stale) == 0 {
		return
	}
	before := h.pending()
	acked, err := h.s.Ack(h.t.Context(), "log", "g", h.stale...)
	must(h.t, err)
	nacked, err := h.s.Nack(h.t.Context(), "log", "g", h.stale, stream.Delay(0))
	must(h.t, err)
	extended, err := h.s.ExtendMany(h.t.Context(), "log", "g", h.stale, time.Hour)
	must(h.t, err)
	if after := h.pending(); acked+nacked+extended.Records > 0 || !maps.Equal(after, before) {
		h.t.Errorf("%d records were acknowledged, %d refused and %d extended by deliveries before a seek: %v, then %v", acked, nacked,
			extended.Records, before, after)
	}
}

// refresh reads the deadlines from the group itself.
func (h *history) refresh() {
	for ref, p := range h.pending() {
		if p.Consumer != "" {
			h.records[ref].holder, h.records[ref].deadline = p.Consumer, p.Deadline.UnixMilli()
		}
	}
}

func (h *history) release(c string, d stream.Delivery) {
	if rec := h.records[stream.Ref{Partition: d.Partition, Offset: d.Offset}]; rec.holder == c && rec.attempts == d.Attempt {
		rec.holder = ""
	}
	if h.mode != stream.KeyShared || d.Key == "" {
		return
	}
	// Later records of the key may have been returned with it.
	for _, ref := range h.order[fmt.Sprint(d.Key, " ", d.Partition)] {
		if rec := h.records[ref]; ref.Offset > d.Offset && rec.holder == c {
			rec.deadline = h.r.Now()
		}
	}
}

// failTransaction acknowledges and appends in a transaction that fails.
func (h *history) failTransaction() {
	if h.s.Namespace() != "n" {
		return
	}
	tx := h.r.Txn("n").Do(stream.AppendOp("log", text("never")))
	for _, c := range []string{"a", "b", "c"} {
		for _, d := range h.held[c] {
			tx.Do(stream.NackOp("log", "g", []stream.Ref{d.Ref()}, stream.Delay(0), stream.Reason("never")))
		}
	}
	tx.Do(stream.ReadGroupOp("log", "g", "a", stream.NoAck(), stream.Limit(3)), stream.LeaveOp("log", "g", h.consumer()))
	tx.Do(stream.DeleteGroupOp("log", "g"), stream.AckOp("log", "g", stream.Ref{Offset: 1}))
	if _, err := tx.Commit(h.t.Context()); err == nil {
		h.t.Error("a transaction that acknowledges for a group it has deleted succeeded")
	}
}

func (h *history) trim() {
	if h.rng.IntN(4) > 0 {
		return
	}
	h.trimmed = true
	if _, err := h.s.Trim(h.t.Context(), "log", stream.MaxLen(20)); err != nil {
		h.t.Fatal(err)
	}
}

// drain lets one consumer finish all records.
func (h *history) drain() {
	for range 200 {
		h.r.Advance(historyAckTimeout)
		h.read("a", h.rng.IntN(8) == 0)
		held := h.held["a"]
		h.held["a"] = nil
		for _, d := range held {
			if n, err := h.s.Ack(h.t.Context(), "log", "g", d.Ref()); err != nil {
				h.t.Fatal(err)
			} else if n == 1 {
				h.records[stream.Ref{Partition: d.Partition, Offset: d.Offset}].acked = true
			}
		}
	}
	info, err := h.s.Groups("log").Get(h.t.Context(), "g")
	must(h.t, err)
	if info.Lag() != 0 || info.Pending() != 0 {
		h.t.Errorf("after everything was read and acknowledged: %+v", info)
	}
	dead := h.dead()
	for ref, rec := range h.records {
		switch {
		case rec.acked && dead[rec.text]:
			h.t.Errorf("%+v was acknowledged, and is a dead letter: %+v", ref, *rec)
		case rec.acked || h.trimmed && !dead[rec.text]:
		case !dead[rec.text]:
			h.t.Errorf("%+v was never acknowledged, and is no dead letter: %+v", ref, *rec)
		case rec.unwanted:
		case h.most == 0 || rec.attempts-rec.excused < h.most || h.mode != stream.KeyShared && rec.attempts-rec.excused > h.most:
			h.t.Errorf("%+v is a dead letter, of at most %d attempts: %+v", ref, h.most, *rec)
		}
	}
}
