package shard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// takeRig is a stepped host of the stores with takes, in one shard.
type takeRig struct {
	*Stepper
	t     *testing.T
	clock *fakeClock
}

func newTakeRig(t *testing.T) *takeRig {
	t.Helper()
	noLeaks(t)
	r := &takeRig{t: t, clock: &fakeClock{wall: 1_000_000}}
	c := config(vfs.NewMem())
	c.Shards, c.Clock = 1, Clock{r.clock}
	c.Primitives = []engine.Primitive{engine.TableOf[queue.Store](), engine.TableOf[stream.Store]()}
	r.Stepper = openStepped(t, c)
	return r
}

// command returns the command of an operation of the default namespace.
func (r *takeRig) command(op engine.Op) engine.Command {
	r.t.Helper()
	cmd, err := op.Limit(1 << 20)
	must(r.t, err)
	cmd.Namespace = "default"
	return cmd
}

// dequeue takes one message of a queue.
func (r *takeRig) dequeue(name string, wait time.Duration) engine.Take {
	return engine.Take{Command: r.command(engine.OpOf(queue.DequeueOp(name))), Wait: wait}
}

// enqueue submits messages, and returns the ticket of each.
func (r *takeRig) enqueue(name string, payloads ...string) (all []*Ticket) {
	r.t.Helper()
	for _, p := range payloads {
		ticket, err := r.Submit(0, r.command(engine.OpOf(queue.EnqueueOp(name, []byte(p)))))
		must(r.t, err)
		all = append(all, ticket)
	}
	return all
}

// park parks a take.
func (r *takeRig) park(t engine.Take) *Ticket {
	r.t.Helper()
	ticket, decided, err := r.Take(r.t.Context(), 0, t)
	if ticket == nil || decided || err != nil {
		r.t.Fatalf("Take = %v, %t, %v, want a ticket", ticket, decided, err)
	}
	return ticket
}

// steps takes enough steps to finish all that was submitted. It fails if admission still counts
// anything then.
func (r *takeRig) steps() {
	r.t.Helper()
	for range 8 {
		r.Step(0, 0)
		must(r.t, errors.Join(r.WriteLog(), r.Apply(0)))
	}
	if a := &r.host.shards[0].admission; a.queued.Load() != 0 || a.bytes.Load() != 0 {
		r.t.Errorf("nothing is in flight, and %d commands of %d bytes are counted", a.queued.Load(), a.bytes.Load())
	}
}

// got returns the outcome of a ticket: a payload, "something", "nothing", "waits" or an
// error.
func (r *takeRig) got(ticket *Ticket) string {
	o, done := ticket.Outcome()
	switch {
	case !done:
		return "waits"
	case o.Err != nil:
		return o.Err.Error()
	}
	for _, payload := range []string{"first", "second", "third"} {
		if strings.Contains(string(o.Result), payload) {
			return payload
		}
	}
	if len(o.Result) > 0 {
		return "something"
	}
	return "nothing"
}

// expect checks the outcomes of tickets.
func (r *takeRig) expect(when string, want string, tickets ...*Ticket) {
	r.t.Helper()
	var got []string
	for _, ticket := range tickets {
		got = append(got, r.got(ticket))
	}
	if s := fmt.Sprint(got); s != "["+want+"]" {
		r.t.Errorf("%s: %s, want [%s]", when, s, want)
	}
}

// TestSteppedTakes: takes that are decided at once, that wait, that leave, and that find nothing
// because another command was faster. Each message goes to one take, in the order of waiting.
func TestSteppedTakes(t *testing.T) {
	r := newTakeRig(t)
	defer func() { must(t, r.Close()) }()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	unknown := engine.Take{Command: engine.Command{Machine: 200}, Wait: time.Hour}
	for name, c := range map[string]struct {
		ctx     context.Context
		take    engine.Take
		decided bool
		err     error
	}{
		"nothing there":   {t.Context(), r.dequeue("q", 0), true, nil},
		"caller has gone": {gone, r.dequeue("q", time.Hour), false, context.Canceled},
		"unknown command": {t.Context(), unknown, false, engine.ErrInvalid},
		"refused": {t.Context(), engine.Take{Command: r.command(engine.OpOf(stream.ReadGroupOp("none", "g", "c"))), Wait: time.Hour}, true,
			engine.ErrNotFound},
	} {
		if ticket, decided, err := r.Take(c.ctx, 0, c.take); ticket != nil || decided != c.decided || !errors.Is(err, c.err) {
			t.Errorf("%s: Take = %v, %t, %v, want %t, %v", name, ticket, decided, err, c.decided, c.err)
		}
	}

	left, a, b := r.park(r.dequeue("q", time.Hour)), r.park(r.dequeue("q", time.Hour)), r.park(r.dequeue("q", time.Hour))
	if !r.Leave(0, left) {
		t.Error("a parked take leaves only with an outcome")
	}
	r.steps()
	r.expect("before any message", "waits waits waits", left, a, b)
	index := r.State(0).Applied.Index
	enqueued := r.enqueue("q", "first")
	r.steps()
	r.expect("after one message", "first waits waits", a, b, left)
	if got := r.State(0).Applied.Index - index; got != 1 {
		t.Errorf("a message and the take that gets it have made %d entries, want 1", got)
	}
	if o, ok := enqueued[0].Outcome(); !ok || o.Err != nil {
		t.Errorf("the message: %v, %t", o.Err, ok)
	}

	// The take is in the log behind a command that is faster, and waits on.
	r.enqueue("q2", "second")
	r.steps()
	faster, err := r.Submit(0, r.dequeue("q2", 0).Command)
	must(t, err)
	slower := r.park(r.dequeue("q2", time.Hour))
	if r.Leave(0, slower) {
		t.Error("a take in flight is reported as parked")
	}
	r.steps()
	r.expect("two for one message", "second nothing", faster, slower)
	r.enqueue("q2", "second")
	r.steps()
	faster, err = r.Submit(0, r.dequeue("q2", 0).Command)
	must(t, err)
	slower = r.park(r.dequeue("q2", time.Hour))
	r.steps()
	r.expect("two for one message", "second waits", faster, slower)
	r.enqueue("q2", "third")
	r.steps()
	r.expect("with another message", "third", slower)
	r.enqueue("q", "second", "third")
	r.steps()
	r.expect("in the end", "second", b)
}

// TestRecall: a take whose machine asked for a time is checked again at that time, neither before
// nor after.
func TestRecall(t *testing.T) {
	r := newTakeRig(t)
	defer func() { must(t, r.Close()) }()
	s := r.host.shards[0]
	do := func(op engine.Op) {
		t.Helper()
		_, err := stepped(t, r.Stepper, 0, r.command(op))
		must(t, err)
	}
	record := func(payload string) engine.Op {
		return engine.OpOf(stream.AppendOp("s", stream.Message{Payload: []byte(payload)}))
	}
	do(engine.OpOf(stream.CreateOp("s")))
	do(record("first"))
	do(engine.OpOf(stream.ReadGroupOp("s", "g", "c", stream.AckTimeout(10*time.Second))))
	take := engine.Take{Command: r.command(engine.OpOf(stream.ReadGroupOp("s", "g", "c"))), Wait: time.Hour}
	ticket := r.park(take)
	due := r.Now(0) + 5000 // with a record, the consumer must call again within half the timeout
	if got := s.exec.WakeAt(ticket.p.take); got != due {
		t.Fatalf("it is due at %d, want %d", got, due)
	}
	r.steps()
	before := r.State(0).Applied.Index
	r.clock.advance(4999 * time.Millisecond)
	r.Recall(0, ticket)
	r.steps()
	if got := r.State(0).Applied.Index - before; got != 0 {
		t.Errorf("%d entries before it is due", got)
	}
	var wake recall
	defer wake.stop()
	soon := wake.at(s, ticket.p.take)
	if again := wake.at(s, ticket.p.take); again != soon {
		t.Error("the same time has two timers")
	}
	select {
	case <-soon:
	case <-testContext(t).Done():
		t.Error("the timer of the last millisecond does not fire")
	}
	r.clock.advance(time.Millisecond)
	r.Recall(0, ticket)
	r.steps()
	if got := r.State(0).Applied.Index - before; got != 1 {
		t.Errorf("%d entries when it is due, want 1", got)
	}
	r.expect("without a record", "waits", ticket)
	if never := wake.at(s, ticket.p.take); never != nil {
		t.Error("a take that is due at no time has a timer")
	}
	do(record("second"))
	r.steps()
	r.expect("with a record", "something", ticket)
}

// TestTakesAreDropped: what was reserved for a take goes to the next one if the caller of the first
// leaves before it is in the log. The takes of a stopped shard are refused.
func TestTakesAreDropped(t *testing.T) {
	r := newTakeRig(t)
	defer func() { must(t, r.Close()) }()
	s := r.host.shards[0]
	r.enqueue("q", "first")
	r.steps()
	ctx, cancel := context.WithCancel(t.Context())
	a, decided, err := r.Take(ctx, 0, r.dequeue("q", time.Hour))
	if a == nil || decided || err != nil {
		t.Fatalf("Take = %v, %t, %v", a, decided, err)
	}
	b, c := r.park(r.dequeue("q", time.Hour)), r.park(r.dequeue("q", time.Hour))
	cancel()
	r.steps()
	r.expect("after the first has left", "context canceled first waits", a, b, c)
	s.halt("stopped")
	r.steps()
	if got := r.got(c); !strings.Contains(got, "not its leader") {
		t.Errorf("a parked take of a stopped shard got %s", got)
	}
	for _, wait := range []time.Duration{0, time.Hour} {
		ticket, decided, err := r.Take(t.Context(), 0, r.dequeue("q", wait))
		if ticket != nil || decided || !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "stopped") {
			t.Errorf("a new one: %v, %t, %v", ticket, decided, err)
		}
	}
	s.role.halted.Store(nil)
}

// TestStopped: when the host stops, a call gets the outcome if there is one. Otherwise that of a
// parked take is definite, and that of a command in flight is unknown.
func TestStopped(t *testing.T) {
	r := newTakeRig(t)
	s := r.host.shards[0]
	r.enqueue("answered", "first")
	r.enqueue("flying", "second")
	r.steps()
	parked, answered := r.park(r.dequeue("q", time.Hour)), r.park(r.dequeue("answered", time.Hour))
	done := r.enqueue("other", "third")[0]
	r.steps()
	flying, queued := r.park(r.dequeue("flying", time.Hour)), r.enqueue("other", "third")[0]
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.outcome(gone, queued.p); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone got %v", err)
	}
	r.host.stopOnce()
	for name, c := range map[string]struct {
		call            func() ([]byte, error)
		closed, unknown bool
	}{
		"parked":             {func() ([]byte, error) { return s.stopped(parked.p) }, true, false},
		"answered":           {func() ([]byte, error) { return s.stopped(answered.p) }, false, false},
		"in flight":          {func() ([]byte, error) { return s.stopped(flying.p) }, true, true},
		"command, done":      {func() ([]byte, error) { return s.outcome(t.Context(), done.p) }, false, false},
		"command, in flight": {func() ([]byte, error) { return s.outcome(t.Context(), queued.p) }, true, true},
	} {
		result, err := c.call()
		if errors.Is(err, engine.ErrClosed) != c.closed || errors.Is(err, engine.ErrUnknownOutcome) != c.unknown ||
			!c.closed && (err != nil || len(result) == 0) {
			t.Errorf("%s: %q, %v", name, result, err)
		}
	}
	must(t, r.Close())
}
