package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/queue"
)

// TestScripts runs the scripts in testdata. Each line of a "run" is a call of the store, answered by one or more lines; after each line all rows
// are verified. Time is given by "at" and moves nothing by itself: timers go off when the script says "fire".
//
//	at 10s                                       the time since the beginning
//	enqueue q body prio=5 delay=1s key=k attempts=2 header=name:value
//	dequeue q max=3 lease=10s                    ack q receipt ...   extend q receipt 10s   held q receipt
//	nack q receipt delay=0s reason=text dlq=yes
//	configure q len=2 bytes=9 attempts=3 backoff=1s,5s retention=1h window=1m       backoff=off
//	pause q   resume q   purge q   delete q      requeue q 1   discard q 1   redrive q text
//	stats q   peek q   dead q   list   timers    fire   restart
//	txn enqueue q a ; ack q 1-2                  held may be the first
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		r := newRig(t, 1)
		s := &script{rig: r, store: r.store("n")}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown directive %q, want run", d.Cmd)
			}
			s.out.Reset()
			for _, line := range strings.Split(d.Input, "\n") {
				s.line(t.Context(), line)
				r.verify()
			}
			return s.out.String()
		})
	})
}

type script struct {
	rig   *rig
	store *queue.Store
	out   strings.Builder
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// args are the words of a line: positional ones and name=value.
type args struct {
	words []string
	named map[string]string
}

func parseArgs(line string) (verb string, a args) {
	a.named = make(map[string]string)
	for _, word := range strings.Fields(line) {
		if name, value, ok := strings.Cut(word, "="); ok {
			a.named[name] = value
		} else {
			a.words = append(a.words, word)
		}
	}
	verb = a.words[0]
	a.words = append(a.words[1:], "", "", "")
	return verb, a
}

func (a args) has(name string) bool { return a.named[name] != "" }

func duration(word string) time.Duration { return must(time.ParseDuration(word)) }

func number(word string) int { return must(strconv.Atoi(word)) }

func (s *script) line(ctx context.Context, line string) {
	verb, a := parseArgs(line)
	if verb == "txn" {
		s.txn(ctx, line)
		return
	}
	if op, ok := operation(verb, a); ok {
		s.op(ctx, line, op)
		return
	}
	switch verb {
	case "at":
		s.rig.now = epoch + duration(a.words[0]).Milliseconds()
		s.printf("at %s", a.words[0])
	case "fire":
		s.printf("fire: %d", s.rig.fire())
	case "restart":
		s.rig.restart()
		s.printf("restart")
	case "redrive":
		n, err := s.store.RequeueAll(ctx, a.words[0], queue.Contains(a.words[1]))
		s.answer(line, n, err)
	case "stats":
		q, err := s.store.Stats(ctx, a.words[0])
		s.answer(line, describeStats(q), err)
	case "list":
		for q, err := range s.store.All(ctx) {
			s.answer("list", q.Name, err)
		}
	case "peek":
		s.messages(line, s.store.Messages(a.words[0]).All(ctx))
	case "dead":
		s.messages(line, s.store.DeadLetters(a.words[0]).All(ctx))
	case "timers":
		for _, row := range rows(s.rig.t, s.rig.db, 0) {
			if row.machine == 0 && row.key[0] == 't' {
				s.printf("timer: %v %q", time.Duration(key.Int64(row.key[1:])-epoch)*time.Millisecond, row.key[14:])
			}
		}
	default:
		s.printf("%s: unknown command", line)
	}
}

func operation(verb string, a args) (op engine.Op, ok bool) {
	q, arg := a.words[0], a.words[1]
	switch verb {
	case "enqueue":
		return queue.EnqueueOp(q, []byte(arg), enqueueOptions(a)...), true
	case "dequeue":
		var opts []queue.DequeueOption
		if a.has("max") {
			opts = append(opts, queue.Max(number(a.named["max"])))
		}
		if a.has("lease") {
			opts = append(opts, queue.Lease(duration(a.named["lease"])))
		}
		return queue.DequeueOp(q, opts...), true
	case "ack":
		var receipts []queue.Receipt
		for _, r := range a.words[1:] {
			if r != "" {
				receipts = append(receipts, queue.Receipt(r))
			}
		}
		return queue.AckOp(q, receipts...), true
	case "nack":
		return queue.NackOp(q, queue.Receipt(arg), nackOptions(a)...), true
	case "extend":
		return queue.ExtendOp(q, queue.Receipt(arg), duration(a.words[2])), true
	case "held":
		return engine.Op(queue.Held(q, queue.Receipt(arg))), true
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
		return queue.RequeueOp(q, uint64(number(arg))), true
	case "discard":
		return queue.DeleteDeadOp(q, uint64(number(arg))), true
	}
	return op, false
}

func enqueueOptions(a args) (opts []queue.EnqueueOption) {
	if a.has("prio") {
		opts = append(opts, queue.Priority(number(a.named["prio"])))
	}
	if a.has("delay") {
		opts = append(opts, queue.Delay(duration(a.named["delay"])))
	}
	if a.has("key") {
		opts = append(opts, queue.DedupKey(a.named["key"]))
	}
	if a.has("attempts") {
		opts = append(opts, queue.MaxAttempts(number(a.named["attempts"])))
	}
	if a.has("header") {
		name, value, _ := strings.Cut(a.named["header"], ":")
		opts = append(opts, queue.Headers(map[string]string{name: value}))
	}
	return opts
}

func nackOptions(a args) (opts []queue.NackOption) {
	if a.has("delay") {
		opts = append(opts, queue.Delay(duration(a.named["delay"])))
	}
	if a.has("reason") {
		opts = append(opts, queue.Reason(a.named["reason"]))
	}
	if a.has("dlq") {
		opts = append(opts, queue.ToDLQ())
	}
	return opts
}

func settings(a args) (s queue.Settings) {
	for name, field := range map[string]*int64{"len": &s.MaxLen, "bytes": &s.MaxBytes} {
		if a.has(name) {
			*field = int64(number(a.named[name]))
		}
	}
	if a.has("attempts") {
		s.MaxAttempts = number(a.named["attempts"])
	}
	switch low, high, both := strings.Cut(a.named["backoff"], ","); {
	case low == "off":
		s.BackoffMin = queue.NoBackoff
	case both:
		s.BackoffMin, s.BackoffMax = duration(low), duration(high)
	}
	if a.has("retention") {
		s.DeadRetention = duration(a.named["retention"])
	}
	if a.has("window") {
		s.DedupWindow = duration(a.named["window"])
	}
	return s
}

// op proposes one operation by itself.
func (s *script) op(ctx context.Context, line string, op engine.Op) {
	cmd, err := op.Limit(queue.DefaultMaxPayloadBytes)
	if err != nil {
		s.answer(line, "", err)
		return
	}
	cmd.Namespace = s.store.Namespace()
	result, err := s.rig.Propose(ctx, 0, cmd)
	if err != nil {
		s.answer(line, "", err)
		return
	}
	s.answer(line, describeResult(must(op.Decode(result))), nil)
}

func (s *script) txn(ctx context.Context, line string) {
	txn := engine.NewTxn(engine.NewRouter(s.rig), "n", queue.DefaultMaxPayloadBytes)
	for _, part := range strings.Split(strings.TrimPrefix(line, "txn "), " ; ") {
		verb, a := parseArgs(part)
		op, _ := operation(verb, a)
		if verb == "held" {
			txn.If(engine.Condition(op))
		} else {
			txn.Do(op)
		}
	}
	res, err := txn.Commit(ctx)
	var results []string
	if err == nil {
		for _, v := range res.Values {
			results = append(results, describeResult(v))
		}
	}
	s.answer(line, strings.Join(results, " ; "), err)
}

func (s *script) answer(line string, result any, err error) {
	if err != nil {
		result = describe(err)
	}
	text := fmt.Sprintf("%s: %v", strings.TrimSpace(line), result)
	s.printf("%s", strings.ReplaceAll(text, ": \n", ":\n"))
}

// describe words an error with its kind, so that a script sees what errors.Is would say.
func describe(err error) string {
	for kind, name := range map[error]string{
		queue.ErrNotFound: "NotFound", queue.ErrConflict: "Conflict", queue.ErrInvalid: "Invalid", queue.ErrBusy: "Busy",
	} {
		if errors.Is(err, kind) {
			return name + ": " + err.Error()
		}
	}
	return err.Error()
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
		return "until " + since(v)
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

func since(t time.Time) string { return t.Sub(time.UnixMilli(epoch)).String() }

func describeMessage(m queue.Message) string {
	text := fmt.Sprintf("%d %q prio %d %s, attempt %d of %d, enqueued %s", m.Seq, m.Payload, m.Priority, m.State, m.Attempts, m.MaxAttempts, since(m.EnqueuedAt))
	if len(m.Headers) > 0 {
		text += fmt.Sprintf(", headers %q", m.Headers)
	}
	for name, t := range map[string]time.Time{"leased until": m.LeaseUntil, "available at": m.AvailableAt, "died": m.DiedAt} {
		if !t.IsZero() {
			text += ", " + name + " " + since(t)
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
			s.answer(line, "", err)
			return
		}
		found = append(found, m)
	}
	s.answer(line, describeResult(found), nil)
}

func describeStats(s queue.Stats) string {
	text := fmt.Sprintf("ready %d, delayed %d, inflight %d, dead %d, bytes %d; enqueued %d, duplicates %d, dequeued %d, acked %d, expired %d, purged %d, discarded %d",
		s.Ready, s.Delayed, s.Inflight, s.Dead, s.Bytes, s.Enqueued, s.Duplicates, s.Dequeued, s.Acked, s.Expired, s.Purged, s.Discarded)
	if s.Paused {
		text += "; paused"
	}
	return text
}
