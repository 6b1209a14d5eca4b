package stream_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/quota"
	"github.com/floedb/floe/internal/rig"
	"github.com/floedb/floe/stream"
)

var (
	groupRuns = flag.Int("group-runs", 8, "runs of TestGroupHistories for each mode")
	groupSeed = flag.Uint64("group-seed", 0, "the one run of TestGroupHistories to repeat")
)

// TestGroupHistories lets consumers of a group do things at random and checks what a group promises: no record is with two consumers, none is delivered after it
// was acknowledged, attempts are counted, keys keep their order in a KeyShared group, an exclusive one has one consumer, and in the end every record
// was acknowledged or is a dead letter. Then another replica applies the same entries, in other batches and forgetting what it remembers now and then: it has
// to come to the same state.
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

// history is a group under test and what is known of it.
type history struct {
	t       *testing.T
	rng     *rand.Rand
	r       *rig.Rig
	s       *stream.Store
	mode    stream.Mode
	opts    []stream.GroupOption
	records map[stream.Ref]*tracked
	order   map[string][]stream.Ref // of each key and partition, as appended
	held    map[string][]stream.Delivery
	count   int
	trimmed bool
}

type tracked struct {
	key      string
	acked    bool
	attempts int
	holder   string // the consumer that has it
	deadline int64
	dead     bool
}

const (
	historyAckTimeout = 1000
	historyMaxDeliver = 4
)

func runHistory(t *testing.T, mode stream.Mode, seed uint64) {
	stream.StartTurns()
	rng := rand.New(rand.NewPCG(seed, 0))
	h := &history{
		t: t, rng: rng, mode: mode, records: make(map[stream.Ref]*tracked), order: make(map[string][]stream.Ref), held: make(map[string][]stream.Delivery),
	}
	namespace := "n"
	if rng.IntN(3) == 0 {
		h.r = rig.New(t, 3, stream.Primitive())
		namespace = "wide"
		if err := engine.NewNamespaces(h.r.Router()).Create(t.Context(), namespace, true); err != nil {
			t.Fatal(err)
		}
	} else {
		h.r = rig.New(t, 1, stream.Primitive())
	}
	h.s = stream.New(h.r.Router(), namespace, 0)
	must(t, h.s.Create(t.Context(), "log", stream.Partitions(1+rng.IntN(3))))
	h.opts = []stream.GroupOption{
		stream.WithMode(mode), stream.AckTimeout(historyAckTimeout * time.Millisecond), stream.MaxDeliver(historyMaxDeliver),
		stream.Backoff(time.Duration(rng.IntN(3))*50*time.Millisecond, 200*time.Millisecond),
	}
	must(t, h.s.CreateGroup(t.Context(), "log", "g", h.opts...))
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
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *history) step() {
	switch n := h.rng.IntN(100); {
	case n < 30:
		h.append()
	case n < 60:
		h.read(h.consumer())
	case n < 75:
		h.settle(h.consumer())
	case n < 78:
		h.failTransaction()
	case n < 94:
		h.r.Advance(int64(h.rng.IntN(historyAckTimeout / 2)))
	case n < 96:
		h.r.Restart()
	case n < 98:
		c := h.consumer()
		must(h.t, h.s.Leave(h.t.Context(), "log", "g", c))
		h.lose(c)
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
		h.records[ref] = &tracked{key: msgs[i].Key}
		if msgs[i].Key != "" {
			of := fmt.Sprint(msgs[i].Key, " ", a.Partition)
			h.order[of] = append(h.order[of], ref)
		}
	}
}

func (h *history) read(c string) {
	ds, err := h.s.ReadGroup(h.t.Context(), "log", "g", c, stream.Limit(1+h.rng.IntN(6)))
	must(h.t, err)
	for _, d := range ds {
		h.delivered(c, d)
	}
	h.held[c] = append(h.held[c], ds...)
}

// delivered checks a delivery against what is known.
func (h *history) delivered(c string, d stream.Delivery) {
	ref := stream.Ref{Partition: d.Partition, Offset: d.Offset}
	rec := h.records[ref]
	switch {
	case rec == nil:
		h.t.Errorf("%s got %+v, which nobody appended", c, ref)
		return
	case rec.acked:
		h.t.Errorf("%s got %+v after it was acknowledged", c, ref)
	case rec.dead:
		h.t.Errorf("%s got %+v after it was a dead letter", c, ref)
	case rec.holder != "" && h.r.Now() < rec.deadline && (h.mode == stream.Shared || h.mode == stream.KeyShared && d.Key == ""):
		// In the other modes it may have been taken back together with others.
		h.t.Errorf("%s got %+v while %s had it", c, ref, rec.holder)
	case d.Attempt != rec.attempts+1 || h.mode != stream.KeyShared && d.Attempt > historyMaxDeliver:
		h.t.Errorf("%s got %+v as attempt %d after %d", c, ref, d.Attempt, rec.attempts)
	}
	rec.attempts, rec.holder, rec.deadline = d.Attempt, c, d.Deadline.UnixMilli()
	if h.mode == stream.KeyShared && d.Key != "" {
		h.inOrder(c, d, ref)
	}
}

// inOrder checks that all records of the key before one that is delivered are done, or with the same consumer.
func (h *history) inOrder(c string, d stream.Delivery, ref stream.Ref) {
	for _, before := range h.order[fmt.Sprint(d.Key, " ", d.Partition)] {
		if before == ref {
			return
		}
		rec := h.records[before]
		if rec.acked || rec.dead || h.trimmed || rec.attempts >= historyMaxDeliver {
			continue
		}
		if rec.holder != c || h.r.Now() >= rec.deadline {
			h.t.Errorf("%s got %+v of key %s while %+v of that key is not done (%+v)", c, ref, d.Key, before, *rec)
		}
	}
}

// settle acknowledges, refuses or extends some of what a consumer has, in the order in which it got them.
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
			if _, err := h.s.Nack(h.t.Context(), "log", "g", []stream.Ref{d.Ref()}, stream.Delay(time.Duration(h.rng.IntN(300))*time.Millisecond)); err != nil {
				h.t.Fatal(err)
			}
			h.release(c, d)
		}
	case 1:
		if _, err := h.s.Extend(h.t.Context(), "log", "g", 2*historyAckTimeout*time.Millisecond, stream.RefsOf(some)...); err != nil {
			h.t.Fatal(err)
		}
		h.held[c] = append(some, h.held[c]...)
		// What is extended, and what was lost already, is told only by what is pending.
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

// refresh takes deadlines from the group itself.
func (h *history) refresh() {
	pending, err := h.s.Pending(h.t.Context(), "log", "g", stream.Ref{}, 1000)
	must(h.t, err)
	for _, p := range pending {
		if rec := h.records[stream.Ref{Partition: p.Ref.Partition, Offset: p.Ref.Offset}]; p.Consumer != "" {
			rec.holder, rec.deadline = p.Consumer, p.Deadline.UnixMilli()
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
	// Later ones of the key may have been taken back with it.
	for _, ref := range h.order[fmt.Sprint(d.Key, " ", d.Partition)] {
		if rec := h.records[ref]; ref.Offset > d.Offset && rec.holder == c {
			rec.deadline = h.r.Now()
		}
	}
}

// lose notes that a consumer has lost all it had.
func (h *history) lose(c string) {
	h.held[c] = nil
	for _, rec := range h.records {
		if rec.holder == c {
			rec.holder = ""
		}
	}
}

// failTransaction acknowledges and appends in a transaction that is refused.
func (h *history) failTransaction() {
	if h.s.Namespace() != "n" {
		return
	}
	tx := h.r.Txn("n").Do(stream.AppendOp("log", text("never")))
	for _, c := range []string{"a", "b", "c"} {
		for _, d := range h.held[c] {
			tx.Do(stream.NackOp("log", "g", []stream.Ref{d.Ref()}))
		}
	}
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

// drain lets one consumer finish everything.
func (h *history) drain() {
	for range 200 {
		h.r.Advance(historyAckTimeout)
		h.read("a")
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
	info, err := h.s.Group(h.t.Context(), "log", "g")
	must(h.t, err)
	if info.Lag() != 0 || info.Pending() != 0 {
		h.t.Errorf("after everything was read and acknowledged: %+v", info)
	}
	dead := make(map[string]bool)
	if recs, err := h.s.Read(h.t.Context(), "log.dlq", stream.Limit(1000)); err == nil {
		for _, rec := range recs {
			if dead[string(rec.Payload)] {
				h.t.Errorf("%s is a dead letter twice", rec.Payload)
			}
			dead[string(rec.Payload)] = true
		}
	}
	lost := 0
	for ref, rec := range h.records {
		if !rec.acked && rec.attempts < historyMaxDeliver && !h.trimmed {
			h.t.Errorf("%+v was never acknowledged: %+v", ref, *rec)
		}
		if !rec.acked {
			lost++
		}
	}
	if !h.trimmed && lost != len(dead) {
		h.t.Errorf("%d records were not acknowledged, %d are dead letters", lost, len(dead))
	}
}
