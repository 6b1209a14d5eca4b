package queue_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/queue"
)

// TestModel runs random operations and transactions, many of them failing, on nodes that restart
// and crash at random. It compares every result, error, count and listing with those of plain maps.
//
//	go test -run TestModel -seed 7 -runs 1600 ./queue
func TestModel(t *testing.T) {
	machinetest.Models{
		Primitives: primitives(engine.TableOf[queue.Store]().New), Forgetful: primitives(queue.NewForgetful), CacheBytes: 4 << 20,
		Runs: 16, Steps: 400, ShortRuns: 6, ShortSteps: 400, MaxShards: 3,
		Begin: func(t *testing.T, rng *rand.Rand, g machinetest.Ground, spread bool) machinetest.Model {
			return newModel(t, rng, g, spread)
		},
	}.Run(t)
}

// model is a namespace as maps. Everything happens at exactly the time it is due.
type model struct {
	t      *testing.T
	rng    *rand.Rand
	ground machinetest.Ground
	router *engine.Router
	store  *queue.Store
	spread bool
	queues map[string]*modelQueue
	last   string // the last operation, for messages
}

type modelQueue struct {
	settings queue.Settings
	paused   bool
	seq      uint64
	messages map[uint64]*modelMessage
	keys     map[string]modelKey
	stats    queue.Stats // counters since the beginning
	old      []queue.Receipt
}

type modelMessage struct {
	m     queue.Message
	after int64 // not ready before, ms
}

type modelKey struct {
	seq   uint64
	until int64
}

func newModel(t *testing.T, rng *rand.Rand, g machinetest.Ground, spread bool) *model {
	router := g.Router()
	return &model{t: t, rng: rng, ground: g, router: router, store: engine.StoreOf[queue.Store](router, "n", 0), spread: spread,
		queues: make(map[string]*modelQueue)}
}

func (m *model) now() int64 { return m.ground.Now() }

func (m *model) errorf(format string, args ...any) {
	m.t.Helper()
	m.t.Errorf(m.last+": "+format, args...)
}

func newModelQueue(now int64) *modelQueue {
	q := &modelQueue{settings: filled(queue.Settings{}), messages: make(map[uint64]*modelMessage), keys: make(map[string]modelKey)}
	q.stats.CreatedAt = time.UnixMilli(now)
	return q
}

// filled fills in the defaults.
func filled(s queue.Settings) queue.Settings {
	s.MaxAttempts = cmp.Or(s.MaxAttempts, 5)
	s.BackoffMin, s.BackoffMax = cmp.Or(s.BackoffMin, time.Second), cmp.Or(s.BackoffMax, 5*time.Minute)
	if s.BackoffMin < 0 {
		s.BackoffMax = 0
	}
	s.DedupWindow = cmp.Or(s.DedupWindow, time.Hour)
	return s
}

func (q *modelQueue) clone() *modelQueue {
	c := *q
	c.messages, c.keys, c.old = make(map[uint64]*modelMessage), maps.Clone(q.keys), slices.Clone(q.old)
	for seq, msg := range q.messages {
		copied := *msg
		c.messages[seq] = &copied
	}
	return &c
}

// settle processes everything due: leases end, dead letters are forgotten.
func (q *modelQueue) settle(now int64) {
	for _, seq := range slices.Sorted(maps.Keys(q.messages)) {
		msg := q.messages[seq]
		if msg.m.State == queue.Leased && msg.m.LeaseUntil.UnixMilli() <= now {
			q.stats.Expired++
			q.giveBack(msg, msg.m.LeaseUntil.UnixMilli(), q.backoff(msg.m.Attempts), "lease expired")
		}
		if msg.m.State == queue.Delayed && msg.after <= now {
			msg.m.State = queue.Ready
		}
		if died := msg.m.DiedAt; msg.m.State == queue.Dead && q.settings.DeadRetention > 0 &&
			!died.Add(q.settings.DeadRetention).After(time.UnixMilli(now)) {
			delete(q.messages, seq)
			q.stats.Discarded++
		}
	}
}

func (q *modelQueue) backoff(attempts int) int64 {
	if q.settings.BackoffMin < 0 {
		return 0
	}
	return min(q.settings.BackoffMin<<min(attempts-1, 20), q.settings.BackoffMax).Milliseconds()
}

func (q *modelQueue) giveBack(msg *modelMessage, from, delay int64, reason string) {
	q.old = append(q.old, msg.m.Receipt)
	msg.m.LastError, msg.m.Receipt, msg.m.LeaseUntil = reason, "", time.Time{}
	if msg.m.Attempts >= msg.m.MaxAttempts {
		msg.m.State, msg.m.DiedAt = queue.Dead, time.UnixMilli(from)
		return
	}
	msg.m.State, msg.after = queue.Delayed, from+delay
}

// in returns the messages in a state, in order.
func (q *modelQueue) in(states ...queue.State) (found []*modelMessage) {
	for _, msg := range q.messages {
		if slices.Contains(states, msg.m.State) {
			found = append(found, msg)
		}
	}
	slices.SortFunc(found, func(a, b *modelMessage) int {
		return cmp.Or(cmp.Compare(a.m.Priority, b.m.Priority), cmp.Compare(a.m.Seq, b.m.Seq))
	})
	return found
}

// count returns the current stats.
func (q *modelQueue) count(name string) queue.Stats {
	s := q.stats
	s.Name, s.Paused, s.Settings = name, q.paused, q.settings
	s.Ready, s.Delayed = int64(len(q.in(queue.Ready))), int64(len(q.in(queue.Delayed)))
	s.Inflight, s.Dead = int64(len(q.in(queue.Leased))), int64(len(q.in(queue.Dead)))
	for _, msg := range q.in(queue.Ready, queue.Delayed, queue.Leased) {
		s.Bytes += bytesOf(&msg.m)
	}
	return s
}

// bytesOf returns the counted size of a message: its payload and headers, with a length prefix of
// one or two bytes for each name and value.
func bytesOf(m *queue.Message) int64 {
	n := len(m.Payload)
	for name, value := range m.Headers {
		n += len(codec.AppendString(codec.AppendString(nil, name), value))
	}
	return int64(n)
}

// full reports whether one more message would exceed the bounds.
func (q *modelQueue) full(m *queue.Message) bool {
	s := q.count("")
	held := s.Ready + s.Delayed + s.Inflight
	return q.settings.MaxLen > 0 && held >= q.settings.MaxLen || q.settings.MaxBytes > 0 && s.Bytes+bytesOf(m) > q.settings.MaxBytes
}

// Step runs one random step.
func (m *model) Step() {
	switch n := m.rng.IntN(100); {
	case n < 60:
		m.one()
	case n < 80:
		m.txn()
	case n < 90:
		m.let()
	case n < 97:
		m.Compare()
	default:
		m.last = "restart"
		m.ground.Restart()
		m.Compare()
	}
}

// let advances time.
func (m *model) let() {
	m.last = "let time go by"
	millis := int64(m.rng.IntN(3000))
	if m.rng.IntN(10) == 0 {
		millis = int64(m.rng.IntN(3)) * 3_600_000
	}
	m.ground.Pass(millis)
	if m.rng.IntN(2) == 0 {
		m.ground.Fire()
	}
}

func (m *model) settle() {
	for _, q := range m.queues {
		q.settle(m.now())
	}
}

func (m *model) snapshot() map[string]*modelQueue {
	all := make(map[string]*modelQueue)
	for name, q := range m.queues {
		all[name] = q.clone()
	}
	return all
}

// Compare compares everything that can be read.
func (m *model) Compare() {
	m.last += ", then compare"
	m.ground.Fire()
	m.settle()
	m.ground.Verify()
	ctx := m.t.Context()
	var want []queue.Stats
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		q := m.queues[name]
		want = append(want, q.count(name))
		m.compareMessages("Messages", name, collect(m.store.Messages(name).All(ctx, queue.Limit(1+m.rng.IntN(20)))),
			q.in(queue.Ready, queue.Delayed, queue.Leased))
		m.compareMessages("Messages leased", name, collect(m.store.Messages(name).All(ctx, queue.InState(queue.Leased))),
			q.in(queue.Leased))
		dead := q.in(queue.Dead)
		slices.SortFunc(dead, func(a, b *modelMessage) int { return cmp.Compare(a.m.Seq, b.m.Seq) })
		m.compareBySeq(name, q)
		m.compareMessages("DeadLetters", name, collect(m.store.DeadLetters(name).All(ctx, queue.Limit(1+m.rng.IntN(20)))), dead)
	}
	if got := collect(m.store.All(ctx, queue.Limit(1+m.rng.IntN(3)))); !slices.Equal(got, want) {
		m.errorf("List = %+v\nwant %+v", got, want)
	}
}

// compareBySeq looks up some messages, including some that do not exist.
func (m *model) compareBySeq(name string, q *modelQueue) {
	for range 3 {
		seq := uint64(m.rng.IntN(int(q.seq) + 2))
		got, err := m.store.Messages(name).Get(m.t.Context(), seq)
		want := q.messages[seq]
		switch {
		case want != nil && err == nil:
			m.compareMessages("Message", name, []queue.Message{got}, []*modelMessage{want})
		case want != nil || !errors.Is(err, queue.ErrNotFound):
			m.errorf("Message %s %d = %+v, %v, want %+v", name, seq, got, err, want)
		}
	}
}

func (m *model) compareMessages(what, name string, got []queue.Message, want []*modelMessage) {
	var text, wanted string
	for _, g := range got {
		text += fmt.Sprintf("%+v\n", g)
	}
	for _, w := range want {
		msg := w.m
		msg.Queue, msg.Receipt = name, ""
		if msg.State == queue.Delayed {
			msg.AvailableAt = time.UnixMilli(w.after)
		}
		if msg.State == queue.Ready && msg.Attempts == 0 {
			msg.LastError = ""
		}
		wanted += fmt.Sprintf("%+v\n", msg)
	}
	if text != wanted {
		m.errorf("%s %s =\n%swant\n%s", what, name, text, wanted)
	}
}

func collect[T any](all func(func(T, error) bool)) (items []T) {
	for it, err := range all {
		items = append(items, must(it, err))
	}
	return items
}
