package queue_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
)

// modelOp is an operation, its effect on the model, and its expected result or error.
type modelOp struct {
	name  string
	op    engine.Operation
	apply func() (want any, err error)
	done  func(got any) // copies values that the model cannot know
}

// one runs one operation, with a method of the store.
func (m *model) one() {
	o := m.draw()
	m.last = o.name
	m.settle()
	before := m.snapshot()
	want, wantErr := o.apply()
	txn := engine.NewTxn(m.router, "n", queue.DefaultMaxPayloadBytes).Do(o.op)
	var got any
	res, err := txn.Commit(m.t.Context())
	if err == nil {
		got = res.Values[0]
	}
	m.result(o, got, err, want, wantErr)
	if err != nil {
		m.queues = before
	}
}

func (m *model) result(o modelOp, got any, err error, want any, wantErr error) {
	m.t.Helper()
	if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		m.errorf("%s: error %v, want %v", o.name, err, wantErr)
		return
	}
	if err != nil {
		return
	}
	if o.done != nil {
		o.done(got)
	}
	if a, b := fmt.Sprintf("%+v", scrub(got)), fmt.Sprintf("%+v", scrub(want)); a != b {
		m.errorf("%s:\ngot  %s\nwant %s", o.name, a, b)
	}
}

// scrub removes from a result the values that the model cannot know.
func scrub(v any) any {
	switch v := v.(type) {
	case queue.Enqueued:
		v.LSN = 0
		return v
	case []queue.Enqueued:
		v = slices.Clone(v)
		for i := range v {
			v[i].LSN = 0
		}
		return v
	case []queue.Message:
		v = slices.Clone(v)
		for i := range v {
			v[i].Receipt = ""
		}
		return v
	}
	return v
}

// txn runs several operations in a transaction, and restores the model if one of them fails.
func (m *model) txn() {
	m.settle()
	before := m.snapshot()
	txn := engine.NewTxn(m.router, "n", queue.DefaultMaxPayloadBytes)
	var ops []modelOp
	var wants []any
	var wantErr error
	m.last = "txn"
	for range 1 + m.rng.IntN(4) {
		o := m.draw()
		m.last += " ; " + o.name
		ops = append(ops, o)
		txn.Do(o.op)
		if wantErr == nil {
			m.settle() // the previous operation may have made something due
			var want any
			want, wantErr = o.apply()
			wants = append(wants, want)
		}
	}
	if m.rng.IntN(4) == 0 && !m.spread {
		m.last += " ; fail"
		txn.Do(kv.DeleteOp("absent"))
		if wantErr == nil {
			wantErr = kv.ErrNotFound
		}
	}
	res, err := txn.Commit(m.t.Context())
	if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		m.errorf("error %v, want %v", err, wantErr)
		return
	}
	if err != nil {
		m.queues = before
		return
	}
	for i, o := range ops {
		m.result(o, res.Values[i], nil, wants[i], nil)
	}
}

// name draws a queue. In a spread namespace all queues share a shard, so that transactions are
// possible.
func (m *model) name() string { return "{t}" + string(rune('a'+m.rng.IntN(3))) }

func (m *model) draw() modelOp {
	name := m.name()
	switch n := m.rng.IntN(100); {
	case n < 30:
		return m.drawEnqueue(name)
	case n < 60:
		return m.drawDequeue(name)
	case n < 72:
		return m.drawAck(name)
	case n < 84:
		return m.drawNack(name)
	case n < 86:
		return m.drawExtend(name)
	case n < 88:
		return m.drawRenew(name)
	case n < 90:
		return m.drawRelease(name)
	case n < 92:
		return m.drawDead(name)
	case n < 94:
		return m.drawDelete(name)
	}
	return m.drawAdmin(name)
}

func (m *model) payload() []byte {
	if m.rng.IntN(5) == 0 {
		return bytes.Repeat([]byte{byte(m.rng.IntN(256))}, m.rng.IntN(800))
	}
	return fmt.Appendf(nil, "%d", m.rng.IntN(1000))
}

// newMessage draws a message, and returns a function that adds it to the model.
func (m *model) newMessage() (n queue.NewMessage, text string, add func(q *modelQueue) (queue.Enqueued, error)) {
	msg := queue.Message{Priority: queue.DefaultPriority, Payload: m.payload(), State: queue.Ready}
	n.Payload = msg.Payload
	key, delay := "", int64(0)
	if m.rng.IntN(2) == 0 {
		msg.Priority = []int{0, 1, 100, 255}[m.rng.IntN(4)]
		n.Options = append(n.Options, queue.Priority(msg.Priority))
	}
	if m.rng.IntN(5) == 0 {
		delay = int64(m.rng.IntN(5000))
		n.Options = append(n.Options, queue.Delay(time.Duration(delay)*time.Millisecond))
	}
	if m.rng.IntN(5) == 0 {
		msg.MaxAttempts = 1 + m.rng.IntN(3)
		n.Options = append(n.Options, queue.MaxAttempts(msg.MaxAttempts))
	}
	if m.rng.IntN(5) == 0 {
		key = string(rune('a' + m.rng.IntN(5)))
		n.Options = append(n.Options, queue.DedupKey(key))
	}
	if m.rng.IntN(4) == 0 {
		msg.Headers = map[string]string{}
		for range m.rng.IntN(4) {
			msg.Headers[fmt.Sprint("header ", m.rng.IntN(20))] = string(bytes.Repeat([]byte{byte(m.rng.IntN(256))}, m.rng.IntN(200)))
		}
		n.Options = append(n.Options, queue.Headers(msg.Headers))
	}
	text = fmt.Sprintf("%.10q prio %d delay %d attempts %d key %q", msg.Payload, msg.Priority, delay, msg.MaxAttempts, key)
	return n, text, func(q *modelQueue) (queue.Enqueued, error) {
		if k, ok := q.keys[key]; ok && k.until > m.now() {
			q.stats.Duplicates++
			return queue.Enqueued{Seq: k.seq, Duplicate: true}, nil
		}
		if q.full(&msg) {
			return queue.Enqueued{}, queue.ErrBusy
		}
		q.seq++
		q.stats.Enqueued++
		added := &modelMessage{m: msg}
		added.m.Seq, added.m.EnqueuedAt, added.m.Size = q.seq, time.UnixMilli(m.now()), len(msg.Payload)
		if added.m.MaxAttempts == 0 {
			added.m.MaxAttempts = q.settings.MaxAttempts
		}
		if delay > 0 {
			added.m.State, added.after = queue.Delayed, m.now()+delay
		}
		q.messages[q.seq] = added
		if key != "" {
			q.keys[key] = modelKey{q.seq, m.now() + q.settings.DedupWindow.Milliseconds()}
		}
		return queue.Enqueued{Seq: q.seq}, nil
	}
}

// open returns a queue of the model, and creates it if necessary.
func (m *model) open(name string) *modelQueue {
	if m.queues[name] == nil {
		m.queues[name] = newModelQueue(m.now())
	}
	return m.queues[name]
}

func (m *model) drawEnqueue(name string) modelOp {
	if m.rng.IntN(4) > 0 {
		n, text, add := m.newMessage()
		return modelOp{name: "enqueue " + name + " " + text, op: queue.EnqueueOp(name, n.Payload, n.Options...),
			apply: func() (any, error) {
				return add(m.open(name))
			}}
	}
	var messages []queue.NewMessage
	var adds []func(*modelQueue) (queue.Enqueued, error)
	texts := "enqueue many " + name
	for range 1 + m.rng.IntN(8) {
		n, text, add := m.newMessage()
		messages, adds, texts = append(messages, n), append(adds, add), texts+", "+text
	}
	return modelOp{name: texts, op: queue.EnqueueManyOp(name, messages), apply: func() (any, error) {
		var all []queue.Enqueued
		for _, add := range adds {
			e, err := add(m.open(name))
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
		return all, nil
	}}
}

func (m *model) drawDequeue(name string) modelOp {
	limit, lease := 1+m.rng.IntN(6), int64(1+m.rng.IntN(4000))
	var taken []*modelMessage
	return modelOp{
		name: fmt.Sprintf("dequeue %s %d for %d", name, limit, lease),
		op:   queue.DequeueOp(name, queue.Max(limit), queue.Lease(time.Duration(lease)*time.Millisecond)),
		apply: func() (any, error) {
			var got []queue.Message
			q := m.queues[name]
			if q == nil || q.paused {
				return got, nil
			}
			for _, msg := range q.in(queue.Ready) {
				if len(got) == limit {
					break
				}
				msg.m.State, msg.m.LeaseUntil = queue.Leased, time.UnixMilli(m.now()+lease)
				msg.m.Attempts++
				q.stats.Dequeued++
				shown := msg.m
				shown.Queue = name
				got, taken = append(got, shown), append(taken, msg)
			}
			return got, nil
		},
		done: func(got any) {
			for i, g := range got.([]queue.Message) {
				if i < len(taken) {
					taken[i].m.Receipt = g.Receipt
				}
			}
		},
	}
}

// receipt draws a receipt, which may be valid, stale or nonsense. The returned function looks up
// its message in the model.
func (m *model) receipt(name string) (queue.Receipt, func() *modelMessage) {
	r := queue.Receipt("1-1")
	if q := m.queues[name]; q != nil {
		var good []queue.Receipt
		for _, seq := range slices.Sorted(maps.Keys(q.messages)) {
			if msg := q.messages[seq]; msg.m.State == queue.Leased && msg.m.Receipt != "" {
				good = append(good, msg.m.Receipt)
			}
		}
		if len(good) > 0 && m.rng.IntN(6) > 0 {
			r = good[m.rng.IntN(len(good))]
		} else if len(q.old) > 0 {
			r = q.old[m.rng.IntN(len(q.old))]
		}
	}
	return r, func() *modelMessage {
		if q := m.queues[name]; q != nil {
			for _, msg := range q.messages {
				if msg.m.State == queue.Leased && msg.m.Receipt == r {
					return msg
				}
			}
		}
		return nil
	}
}

func (m *model) drawAck(name string) modelOp {
	var receipts []queue.Receipt
	var find []func() *modelMessage
	for range 1 + m.rng.IntN(2) {
		if r, msg := m.receipt(name); !slices.Contains(receipts, r) {
			receipts, find = append(receipts, r), append(find, msg)
		}
	}
	return modelOp{name: fmt.Sprintf("ack %s %v", name, receipts), op: queue.AckOp(name, receipts...), apply: func() (any, error) {
		q := m.queues[name]
		if q == nil {
			return nil, queue.ErrNotFound
		}
		for i, f := range find {
			msg := f()
			if msg == nil {
				return nil, queue.ErrConflict
			}
			q.stats.Acked++
			q.old = append(q.old, receipts[i])
			delete(q.messages, msg.m.Seq)
		}
		return nil, nil
	}}
}

func (m *model) drawNack(name string) modelOp {
	r, find := m.receipt(name)
	opts, delay, bury, reason := []queue.NackOption(nil), int64(-1), false, ""
	switch m.rng.IntN(4) {
	case 0:
		delay = int64(m.rng.IntN(3000)) * int64(m.rng.IntN(2))
		opts = append(opts, queue.Delay(time.Duration(delay)*time.Millisecond))
	case 1:
		bury = true
		opts = append(opts, queue.ToDLQ())
	}
	if m.rng.IntN(2) == 0 {
		reason = strings.Repeat("r", 1+m.rng.IntN(5))
		opts = append(opts, queue.Reason(reason))
	}
	return modelOp{name: fmt.Sprintf("nack %s %s delay %d bury %v", name, r, delay, bury),
		op: queue.NackOp(name, []queue.Receipt{r}, opts...), apply: func() (any, error) {
			q, msg := m.queues[name], find()
			if q == nil {
				return nil, queue.ErrNotFound
			}
			if msg == nil {
				return nil, queue.ErrConflict
			}
			wait := delay
			if delay < 0 {
				wait = q.backoff(msg.m.Attempts)
			}
			attempts := msg.m.MaxAttempts
			if bury {
				msg.m.MaxAttempts = 0
			}
			q.giveBack(msg, m.now(), wait, reason)
			msg.m.MaxAttempts = attempts
			q.settle(m.now())
			return nil, nil
		}}
}

func (m *model) drawExtend(name string) modelOp {
	r, find := m.receipt(name)
	lease := time.Duration(1+m.rng.IntN(5000)) * time.Millisecond
	return modelOp{name: fmt.Sprintf("extend %s %s %v", name, r, lease), op: queue.ExtendOp(name, r, lease), apply: func() (any, error) {
		msg := find()
		if m.queues[name] == nil {
			return nil, queue.ErrNotFound
		}
		if msg == nil {
			return nil, queue.ErrConflict
		}
		msg.m.LeaseUntil = time.UnixMilli(m.now()).Add(lease)
		return msg.m.LeaseUntil, nil
	}}
}

func (m *model) drawRenew(name string) modelOp {
	first, find := m.receipt(name)
	second, findSecond := m.receipt(name)
	lease := time.Duration(1+m.rng.IntN(5000)) * time.Millisecond
	text := fmt.Sprintf("renew %s %s %s %v", name, first, second, lease)
	return modelOp{name: text, op: queue.RenewOp(name, lease, first, second), apply: func() (any, error) {
		if m.queues[name] == nil {
			return nil, queue.ErrNotFound
		}
		var held []bool
		for _, f := range []func() *modelMessage{find, findSecond} {
			msg := f()
			if held = append(held, msg != nil); msg != nil {
				msg.m.LeaseUntil = time.UnixMilli(m.now()).Add(lease)
			}
		}
		return held, nil
	}}
}

func (m *model) drawRelease(name string) modelOp {
	first, find := m.receipt(name)
	second, findSecond := m.receipt(name)
	return modelOp{name: fmt.Sprintf("release %s %s %s", name, first, second), op: queue.ReleaseOp(name, first, second),
		apply: func() (any, error) {
			q, n := m.queues[name], int64(0)
			if q == nil {
				return nil, queue.ErrNotFound
			}
			for _, f := range []func() *modelMessage{find, findSecond} {
				if msg := f(); msg != nil {
					n++
					reason := msg.m.LastError
					msg.m.Attempts--
					q.giveBack(msg, m.now(), 0, reason)
					msg.m.State = queue.Ready
				}
			}
			return n, nil
		}}
}
