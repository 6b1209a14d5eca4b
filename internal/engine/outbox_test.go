package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// TestOutboxDeliversOnce repeats, overlaps and reorders deliveries, with lost outcomes and restarts
// of both sides in between: every message takes effect once.
func TestOutboxDeliversOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	r := newRig(t, 2)
	ctx := context.Background()
	router := engine.NewRouter(r)
	if err := engine.NewNamespaces(router).Create(ctx, "s", true); err != nil {
		t.Fatal(err)
	}
	name := func(shard engine.ShardID) string {
		for i := 0; ; i++ {
			if n := fmt.Sprint("k", i); engine.NameShard("s", n, 2) == shard {
				return n
			}
		}
	}
	from, to := name(0), name(1)
	if _, err := router.Propose(ctx, from, addTo(from, 10000).In("s")); err != nil {
		t.Fatal(err)
	}
	sent := int64(0)
	var old []engine.Step
	d := r.execs[0].NewDispatch(1)
	for round := range 400 {
		for range rng.IntN(5) {
			amount := 1 + rng.Int64N(5)
			send := toy.Command{Kind: toy.Send, Name: from, Delta: amount, Target: to}.In("s")
			if _, err := router.Propose(ctx, from, send); err != nil {
				t.Fatal(err)
			}
			sent += amount
		}
		if round%17 == 3 {
			r.restart()
			d = r.execs[0].NewDispatch(1)
		}
		if step, _, ok, err := d.Next(r.now, 1<<40); err != nil {
			t.Fatal(err)
		} else if ok {
			old = append(old, step)
			switch o := r.apply(step.Shard, step.Command)[0]; rng.IntN(4) {
			case 0: // the outcome is lost
				d.Done(nil, engine.ErrUnknownOutcome, r.now)
			case 1: // and a new leader takes over
				d = r.execs[0].NewDispatch(1)
			default:
				d.Done(o.Result, o.Err, r.now)
			}
		}
		if len(old) > 0 { // an old step is repeated
			step := old[rng.IntN(len(old))]
			r.apply(step.Shard, step.Command)
		}
	}
	r.deliver(0, 1)
	if got := r.counter(1, "s", to); got != sent {
		t.Errorf("%d have arrived of %d sent", got, sent)
	}
	if targets := r.execs[0].PendingTargets(); len(targets) != 0 {
		t.Errorf("PendingTargets = %v after everything was settled, want none", targets)
	}
	if n := r.execs[1].Refused(); n != 0 {
		t.Errorf("%d messages were refused", n)
	}
	if n := strings.Count(r.dump(1), "00010073"); n != 1 {
		t.Errorf("%d rows at the target tell of deliveries, want 1", n)
	}
}

// TestOutboxHoldsBackWhatIsNotDurable checks that a message is delivered only once the entry that
// sent it is durable.
func TestOutboxHoldsBackWhatIsNotDurable(t *testing.T) {
	r := newRig(t, 1)
	send := toy.Command{Kind: toy.Send, Name: "a", Delta: 1, Target: "b"}.In("n")
	r.apply(0, addTo("a", 10).In("n"))
	r.apply(0, send) // index 2
	r.apply(0, send) // index 3
	d := r.execs[0].NewDispatch(0)
	for i, want := range []int64{0, 1, 2} {
		r.durable = uint64(i + 1)
		r.dispatch(d, nil)
		if got := r.counter(0, "n", "b"); got != want {
			t.Errorf("with %d durable b = %d, want %d", i+1, got, want)
		}
	}
}

// lanes is a stage whose machine one sends commands to machine two of the same shard, in lanes
// named in the command: "lane step".
func lanes(s *stage, reply bool, commands ...string) {
	s.t.Helper()
	s.one.steps["send"] = func(tx *engine.Tx) error {
		for _, c := range commands {
			tx.Send(engine.Message{Command: s.cmd(s.two, c), Lane: uint64(c[0]), Token: []byte(c), Reply: reply})
		}
		return nil
	}
	if o, _ := s.do(s.one, "send"); o.Err != nil {
		s.t.Fatal(o.Err)
	}
	s.log = nil
}

func TestRefusedMessagesComeBack(t *testing.T) {
	s := newStage(t)
	s.two.steps["b"] = func(tx *engine.Tx) error { set(tx, "b"); return errNo }
	lanes(s, false, "a", "b", "c")
	s.deliver(0, 0)
	s.wantLog(strings.Join(s.log, ", "), "a, b, c, b:  no")
	if strings.Contains(s.dump(0), fmt.Sprintf("%x = ", "b")) {
		t.Error("a refused message has left a row")
	}
	if n := s.execs[0].Refused(); n != 1 {
		t.Errorf("%d messages refused, want 1", n)
	}
	s.one.steps["on d"] = func(tx *engine.Tx) error { tx.Then(s.cmd(s.two, "after")); return nil }
	lanes(s, true, "d", "e")
	s.deliver(0, 0)
	s.wantLog(strings.Join(s.log, ", "), "d, e, d: did d <nil>, after, e: did e <nil>")
}

// TestATemporaryRefusalBlocksItsLaneOnly checks order, back-off, and that a blocked lane retries
// one message at a time.
func TestATemporaryRefusalBlocksItsLaneOnly(t *testing.T) {
	for _, full := range []error{engine.Errorf(engine.ErrBusy, "full"), engine.Errorf(engine.ErrReadOnly, "no space")} {
		s := newStage(t)
		s.two.steps["b1"] = func(tx *engine.Tx) error { set(tx, "b1"); return full }
		lanes(s, true, "a1", "b1", "a2", "b2", "c1", "b3")
		d := s.execs[0].NewDispatch(0)
		s.dispatch(d, nil)
		s.wantLog(strings.Join(s.log, ", "), "a1, a2, b1, c1, a1: did a1 <nil>, a2: did a2 <nil>, c1: did c1 <nil>")
		var count int
		var bytes int64
		s.one.steps["count"] = func(tx *engine.Tx) error { count, bytes = tx.Backlog(0, 'b'); return nil }
		if s.do(s.one, "count"); count != 3 || bytes == 0 {
			t.Errorf("backlog of %d messages, %d bytes, want 3", count, bytes)
		}
		s.log = nil
		before := s.execs[0].Applied().Index
		_, until, ok, err := d.Next(s.now, 1<<40)
		if ok || err != nil || until <= s.now || until == engine.NoTimer {
			t.Errorf("while the lane is held: step %v, until %d, %v", ok, until, err)
		}
		lanes(s, false, "d1") // other lanes proceed
		s.dispatch(d, nil)
		s.wantLog(strings.Join(s.log, ", "), "d1")

		s.log, s.now = nil, until
		s.dispatch(d, nil)
		s.wantLog(strings.Join(s.log, ", "), "b1")
		_, next, _, _ := d.Next(s.now, 1<<40)
		if next-s.now <= until-1000 {
			t.Errorf("pause of %d ms after one of %d, want a longer one", next-s.now, until-1000)
		}
		delete(s.two.steps, "b1")
		s.log, s.now = nil, next
		s.dispatch(d, nil)
		s.wantLog(strings.Join(s.log, ", "), "b1, b1: did b1 <nil>, b2, b3, b2: did b2 <nil>, b3: did b3 <nil>")
		if s.do(s.one, "count"); count != 0 || bytes != 0 {
			t.Errorf("backlog of %d messages, %d bytes at the end", count, bytes)
		}
		if after := s.execs[0].Applied().Index; after > before+12 {
			t.Errorf("%d entries for it", after-before)
		}
	}
}

// TestADeliveryThatIsRefusedAsAWhole: a delivery refused by a target without space is retried after
// a pause.
func TestADeliveryThatIsRefusedAsAWhole(t *testing.T) {
	s := newStage(t)
	lanes(s, false, "a", "b")
	d := s.execs[0].NewDispatch(0)
	for range 2 {
		step, _, _, _ := d.Next(s.now, 1<<40)
		o := s.apply(step.Shard, step.Command)[0]
		d.Done(o.Result, o.Err, s.now)
	}
	step, _, ok, _ := d.Next(s.now, 1<<40)
	if !ok || s.execs[0].Shrinks(step.Command) {
		t.Error("a delivery of what takes space is for a full disk")
	}
	d.Done(nil, engine.ErrReadOnly, s.now)
	_, until, ok, _ := d.Next(s.now, 1<<40)
	if ok || until == engine.NoTimer {
		t.Errorf("a step at once after ErrReadOnly, or never again (%d)", until)
	}
	s.now = until
	s.log = nil
	s.dispatch(d, nil)
	s.wantLog(strings.Join(s.log, ", "), "a, b")
}

// TestFirstDelivery: a delivery takes at most 256 messages, and those of further lanes while it is
// smaller than 256 KiB.
func TestFirstDelivery(t *testing.T) {
	sized := func(s *stage, size int) []string {
		return []string{strings.Repeat("a", size-len(s.cmd(s.two, "").AppendTo(nil))), "b"}
	}
	many := func(a, b int) []string {
		return append(slices.Repeat([]string{"a"}, a), slices.Repeat([]string{"b"}, b)...)
	}
	for name, c := range map[string]struct {
		messages func(s *stage) []string
		want     int
	}{
		"almost 256 KiB":             {func(s *stage) []string { return sized(s, 256<<10-1) }, 2},
		"256 KiB":                    {func(s *stage) []string { return sized(s, 256<<10) }, 1},
		"more":                       {func(s *stage) []string { return sized(s, 256<<10+1) }, 1},
		"256 KiB and more of a lane": {func(s *stage) []string { return append(sized(s, 256<<10)[:1], "a") }, 1},
		"one lane":                   {func(*stage) []string { return many(257, 0) }, 256},
		"two lanes":                  {func(*stage) []string { return many(255, 3) }, 256},
		"a full lane":                {func(*stage) []string { return many(256, 1) }, 256},
	} {
		s := newStage(t)
		lanes(s, false, c.messages(s)...)
		d := s.execs[0].NewDispatch(0)
		for range 3 { // to ask for outcomes, to settle none, to deliver
			step, _, _, _ := d.Next(s.now, 1<<40)
			o := s.apply(step.Shard, step.Command)[0]
			d.Done(o.Result, o.Err, s.now)
		}
		expect(t, name, len(s.log), c.want)
	}
}

// TestManyLanes sends in more lanes than fit in one delivery.
func TestManyLanes(t *testing.T) {
	s := newStage(t)
	want := make(map[string]bool)
	s.one.steps["send"] = func(tx *engine.Tx) error {
		for i := range uint64(700) {
			c := fmt.Sprint("m", i)
			want[c] = true
			tx.Send(engine.Message{Command: s.cmd(s.two, c), Lane: i, Token: []byte(c)})
		}
		return nil
	}
	s.do(s.one, "send")
	s.log = nil
	s.deliver(0, 0)
	if len(s.log) != len(want) {
		t.Errorf("%d messages applied, want %d", len(s.log), len(want))
	}
	for _, c := range s.log {
		delete(want, c)
	}
	if len(want) > 0 {
		t.Errorf("not applied: %v", want)
	}
	if targets := s.execs[0].PendingTargets(); len(targets) > 0 {
		t.Errorf("PendingTargets = %v", targets)
	}
}

func TestSendNeedsSomebodyWhoHears(t *testing.T) {
	defer func() {
		if r := fmt.Sprint(recover()); !strings.Contains(r, "a message of machine 15: engine: command 2 (fire) is not for other shards") {
			t.Errorf("panic %q", r)
		}
	}()
	s := newStage(t)
	s.one.steps["send"] = func(tx *engine.Tx) error { tx.Send(engine.Message{Command: engine.Fire()}); return nil }
	s.do(s.one, "send")
}

// FuzzDeliver applies deliveries and settlings that no shard has created. They are applied, or stop
// the shard with a specific error: only the engine creates them.
func FuzzDeliver(f *testing.F) {
	f.Add(byte(3), []byte{0, 1, 1, 15, 0, 0, 1, 5, 1, 3, 1, 15, 1})
	f.Add(byte(4), []byte{0, 1, 15, 0, 0, 9, 0})
	f.Add(byte(3), codec.AppendUvarint(nil, 1<<40))
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		r := newRig(t, 1)
		r.tampered = true
		defer func() {
			if p := recover(); p != nil && !strings.Contains(fmt.Sprint(p), "does not decode") &&
				!strings.Contains(fmt.Sprint(p), "unknown command") {
				panic(p)
			}
		}()
		o := r.apply(0, engine.Command{Machine: 0, Kind: 3 + kind%2, Body: body})[0]
		if o.Err != nil && !errors.Is(o.Err, engine.ErrInvalid) {
			t.Errorf("error %v, want ErrInvalid or none", o.Err)
		}
	})
}

// TestDeliveryOfLargeReplies: a delivery ends when the replies, each with some room for its number,
// exceed 256 KiB. The next one continues.
func TestDeliveryOfLargeReplies(t *testing.T) {
	const reply = 984 // so that 250 of them and their numbers fit, and the 251st is the last
	s := newStage(t)
	var commands []string
	for i := range 256 {
		commands = append(commands, fmt.Sprintf("a%0*d", reply-len("did a"), i))
	}
	lanes(s, true, commands...)
	d, arrived := s.execs[0].NewDispatch(0), []int{}
	s.dispatch(d, func(engine.Step) bool {
		n := 0
		for _, step := range s.log {
			if strings.HasPrefix(step, "a") && !strings.Contains(step, ":") {
				n++
			}
		}
		if len(arrived) == 0 || n > arrived[len(arrived)-1] {
			arrived = append(arrived, n)
		}
		return true
	})
	if got := fmt.Sprint(arrived); got != "[0 251 256]" {
		t.Errorf("messages that have arrived after each delivery: %s", got)
	}
	if len(s.log) != 2*256 {
		t.Errorf("%d messages and replies, want 512", len(s.log))
	}
}
