package queue_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/queue"
)

// TestScripts runs the scripts in testdata. Each line of a "run" is a store call, answered by one
// or more lines. After each line all rows are verified. "at" sets the time without other effects:
// timers go off only at "fire".
//
//	at 10s                                       the time since the beginning
//	enqueue q body prio=5 delay=1s key=k attempts=2 header=name:value
//	dequeue q max=3 lease=10s                    ack q receipt ...   extend q receipt 10s   held q receipt
//	release q receipt ...
//	nack q receipt delay=0s reason=text dlq=yes
//	configure q len=2 bytes=9 attempts=3 backoff=1s,5s retention=1h window=1m       backoff=off
//	pause q   resume q   purge q   delete q      requeue q 1   discard q 1   redrive q text
//	stats q   peek q   dead q   list   timers    fire   restart
//	txn enqueue q a ; ack q 1-2                  held may be the first
func TestScripts(t *testing.T) {
	machinetest.RunScripts(t, "testdata/scripts", func(t *testing.T) *machinetest.Script {
		r := newRig(t, 1)
		s := &script{&machinetest.Script{Rig: r, Limit: queue.DefaultMaxPayloadBytes, Operation: operation, Condition: condition,
			Result: describeResult, Verify: r.Verify}, storeOf(r, "n")}
		s.Other = s.other
		return s.Script
	})
}

type script struct {
	*machinetest.Script
	store *queue.Store
}

func (s *script) other(ctx context.Context, line, verb string, a machinetest.Args) bool {
	switch verb {
	case "redrive":
		n, err := s.store.DeadLetters(a.Word(0)).RequeueAll(context.Background(), queue.Contains(a.Word(1)))
		s.Answer(line, n, err)
	case "stats":
		q, err := s.store.Get(ctx, a.Word(0))
		s.Answer(line, describeStats(q), err)
	case "list":
		for q, err := range s.store.All(ctx) {
			s.Answer("list", q.Name, err)
		}
	case "peek":
		s.messages(line, s.store.Messages(a.Word(0)).All(ctx))
	case "dead":
		s.messages(line, s.store.DeadLetters(a.Word(0)).All(ctx))
	default:
		return false
	}
	return true
}

func operation(verb string, a machinetest.Args) (op engine.Operation, ok bool) {
	q, arg := a.Word(0), a.Word(1)
	switch verb {
	case "enqueue":
		return queue.EnqueueOp(q, []byte(arg), enqueueOptions(a)...), true
	case "dequeue":
		var opts []queue.DequeueOption
		if a.Has("max") {
			opts = append(opts, queue.Max(int(machinetest.Number(a.Named["max"]))))
		}
		if a.Has("lease") {
			opts = append(opts, queue.Lease(machinetest.Duration(a.Named["lease"])))
		}
		return queue.DequeueOp(q, opts...), true
	case "ack":
		var receipts []queue.Receipt
		for _, r := range a.Words[min(1, len(a.Words)):] {
			receipts = append(receipts, queue.Receipt(r))
		}
		return queue.AckOp(q, receipts...), true
	case "release":
		var receipts []queue.Receipt
		for _, r := range a.Words[min(1, len(a.Words)):] {
			receipts = append(receipts, queue.Receipt(r))
		}
		return queue.ReleaseOp(q, receipts...), true
	case "nack":
		return queue.NackOp(q, []queue.Receipt{queue.Receipt(arg)}, nackOptions(a)...), true
	case "extend":
		return queue.ExtendOp(q, queue.Receipt(arg), machinetest.Duration(a.Word(2))), true
	case "configure":
		return queue.ConfigureOp(q, settings(a)), true
	case "pause":
		return queue.PauseOp(q), true
	case "resume":
		return queue.ResumeOp(q), true
	case "purge":
		return queue.PurgeOp(q), true
	case "delete":
		return queue.DeleteOp(q), true
	case "requeue":
		return queue.RequeueOp(q, uint64(machinetest.Number(arg))), true
	case "discard":
		return queue.DeleteDeadOp(q, uint64(machinetest.Number(arg))), true
	}
	return op, false
}

func condition(verb string, a machinetest.Args) (c engine.Condition, ok bool) {
	if verb != "held" {
		return c, false
	}
	return queue.Held(a.Word(0), queue.Receipt(a.Word(1))), true
}

func enqueueOptions(a machinetest.Args) (opts []queue.EnqueueOption) {
	if a.Has("prio") {
		opts = append(opts, queue.Priority(int(machinetest.Number(a.Named["prio"]))))
	}
	if a.Has("delay") {
		opts = append(opts, queue.Delay(machinetest.Duration(a.Named["delay"])))
	}
	if a.Has("key") {
		opts = append(opts, queue.DedupKey(a.Named["key"]))
	}
	if a.Has("attempts") {
		opts = append(opts, queue.MaxAttempts(int(machinetest.Number(a.Named["attempts"]))))
	}
	if a.Has("header") {
		name, value, _ := strings.Cut(a.Named["header"], ":")
		opts = append(opts, queue.Headers(map[string]string{name: value}))
	}
	return opts
}

func nackOptions(a machinetest.Args) (opts []queue.NackOption) {
	if a.Has("delay") {
		opts = append(opts, queue.Delay(machinetest.Duration(a.Named["delay"])))
	}
	if a.Has("reason") {
		opts = append(opts, queue.Reason(a.Named["reason"]))
	}
	if a.Has("dlq") {
		opts = append(opts, queue.ToDLQ())
	}
	return opts
}

func settings(a machinetest.Args) (s queue.Settings) {
	for name, field := range map[string]*int64{"len": &s.MaxLen, "bytes": &s.MaxBytes} {
		if a.Has(name) {
			*field = machinetest.Number(a.Named[name])
		}
	}
	if a.Has("attempts") {
		s.MaxAttempts = int(machinetest.Number(a.Named["attempts"]))
	}
	switch low, high, both := strings.Cut(a.Named["backoff"], ","); {
	case low == "off":
		s.BackoffMin = queue.NoBackoff
	case both:
		s.BackoffMin, s.BackoffMax = machinetest.Duration(low), machinetest.Duration(high)
	}
	if a.Has("retention") {
		s.DeadRetention = machinetest.Duration(a.Named["retention"])
	}
	if a.Has("window") {
		s.DedupWindow = machinetest.Duration(a.Named["window"])
	}
	return s
}

func describeResult(v any) string {
	switch v := v.(type) {
	case nil:
		return "ok"
	case queue.Enqueued:
		if v.Duplicate {
			return fmt.Sprintf("seq %d, a duplicate", v.Seq)
		}
		return fmt.Sprintf("seq %d", v.Seq)
	case time.Time:
		return "until " + machinetest.Since(v)
	case []queue.Message:
		if len(v) == 0 {
			return "nothing"
		}
		var all []string
		for _, m := range v {
			all = append(all, describeMessage(m))
		}
		return "\n  " + strings.Join(all, "\n  ")
	}
	return fmt.Sprint(v)
}

func describeMessage(m queue.Message) string {
	text := fmt.Sprintf("%d %q prio %d %s, attempt %d of %d, enqueued %s", m.Seq, m.Payload, m.Priority, m.State, m.Attempts, m.MaxAttempts,
		machinetest.Since(m.EnqueuedAt))
	if len(m.Headers) > 0 {
		text += fmt.Sprintf(", headers %q", m.Headers)
	}
	for name, t := range map[string]time.Time{"leased until": m.LeaseUntil, "available at": m.AvailableAt, "died": m.DiedAt} {
		if !t.IsZero() {
			text += ", " + name + " " + machinetest.Since(t)
		}
	}
	if m.LastError != "" {
		text += fmt.Sprintf(", error %q", m.LastError)
	}
	if m.Receipt != "" {
		text += ", receipt " + string(m.Receipt)
	}
	return text
}

func (s *script) messages(line string, all func(func(queue.Message, error) bool)) {
	var found []queue.Message
	for m, err := range all {
		if err != nil {
			s.Answer(line, "", err)
			return
		}
		found = append(found, m)
	}
	s.Answer(line, describeResult(found), nil)
}

func describeStats(s queue.Stats) string {
	text := fmt.Sprintf("ready %d, delayed %d, inflight %d, dead %d, bytes %d; enqueued %d, duplicates %d, dequeued %d, acked %d, "+
		"expired %d, purged %d, discarded %d",
		s.Ready, s.Delayed, s.Inflight, s.Dead, s.Bytes, s.Enqueued, s.Duplicates, s.Dequeued, s.Acked, s.Expired, s.Purged, s.Discarded)
	if s.Paused {
		text += "; paused"
	}
	return text
}
