package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// hoarder is a machine that writes as much as it is told to. Kind Clear answers Delta bytes, Kind
// Add writes Delta rows of Delay bytes each. Kind Later sets Delta timers for now, each of which
// writes one row of Delay bytes. Kind Send sends Delta messages that each write a row of Delay
// bytes.
type hoarder struct{ engine.Machine }

func (hoarder) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	c, err := toy.Decode(cmd)
	if err != nil {
		return nil, err
	}
	it := tx.Iter(hoard(tx, "", 0), hoard(tx, "\xff", 0)) // an open iterator must not outlive a refusal
	it.First()
	for i := range c.Delta {
		switch cmd.Kind {
		case toy.Add:
			tx.Set(hoard(tx, c.Name, i), make([]byte, c.Delay))
		case toy.Later:
			tx.Schedule(tx.Now(), codec.AppendVarint(codec.AppendVarint(nil, i), c.Delay))
		case toy.Send:
			one := toy.Command{Kind: toy.Add, Name: fmt.Sprint(c.Name, i), Delta: 1, Delay: c.Delay}.In(tx.NamespaceName())
			tx.Send(engine.Message{Command: one, Name: c.Target})
		}
	}
	if cmd.Kind == toy.Clear {
		return make([]byte, c.Delta), it.Close()
	}
	return codec.AppendVarint(nil, c.Delta), it.Close()
}

func (hoarder) OnReply(_ *engine.Tx, r engine.Reply) { panic(r) }

func (hoarder) OnTimer(tx *engine.Tx, token []byte) {
	r := codec.NewReader(token)
	i, size := r.Varint(), r.Varint()
	tx.Set(hoard(tx, "timer", i), make([]byte, size))
}

func hoard(tx *engine.Tx, name string, i int64) []byte {
	return binary.BigEndian.AppendUint64(append(binary.BigEndian.AppendUint32(nil, tx.Namespace()), name...), uint64(i))
}

func newHoard(t *testing.T) *rig {
	t.Helper()
	db, err := pebble.Open("state", &pebble.Options{FS: vfs.NewMem(), DisableWAL: true, Logger: quiet{t}})
	if err != nil {
		t.Fatal(err)
	}
	p := toy.Primitive()
	own := p.New
	p.New = func() engine.Machine { return hoarder{own()} }
	x := engine.NewExecutor(engine.Config{Shards: 1, DB: db, Primitives: []engine.Primitive{p}, Strict: true})
	if err := x.Restore(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(x.Release(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return &rig{t: t, db: db, now: 1000, execs: []*engine.Executor{x}}
}

func write(name string, rows, size int64) toy.Command {
	return toy.Command{Kind: toy.Add, Name: name, Delta: rows, Delay: size}
}

// TestCommandIsBounded: a command that writes too many bytes or rows is refused and leaves nothing
// behind. The error names the limit and the amount written.
func TestCommandIsBounded(t *testing.T) {
	r := newHoard(t)
	r.apply(0, write("a", 1, 1).In("default"))
	before := r.dump(0)
	for name, c := range map[string]toy.Command{
		"bytes": write("b", 65, 1<<20), "rows": write("b", engine.MaxCommandRows+1, 1),
	} {
		out := r.apply(0, c.In("default"))
		if err := out[0].Err; !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(engine.MaxCommandBytes)) {
			t.Errorf("%s: err = %v, want ErrInvalid with the limit", name, err)
		}
		// The row with the shard's position is not counted.
		if got, want := strings.Count(r.dump(0), "\n"), strings.Count(before, "\n"); got != want {
			t.Errorf("%s: %d rows after the refusal, %d before", name, got, want)
		}
	}
	if out := r.apply(0, write("b", 63, 1<<20).In("default")); out[0].Err != nil {
		t.Errorf("63 MiB: %v", out[0].Err)
	}
}

// TestTransactionIsBoundedAsAWhole: parts that are small individually are refused together, at the
// part that reaches the limit.
func TestTransactionIsBoundedAsAWhole(t *testing.T) {
	r := newHoard(t)
	txn := engine.NewTxn(engine.NewRouter(r), "default", 1<<20)
	for i := range 10 {
		txn.Do(write(fmt.Sprint(i), 10, 1<<20).Op())
	}
	_, err := txn.Commit(t.Context())
	var refused *engine.TxnError
	if !errors.As(err, &refused) || refused.Index != 6 || !errors.Is(err, engine.ErrInvalid) {
		t.Fatalf("err = %v, want a refusal of operation 6", err)
	}
	if rows := strings.Count(r.dump(0), "\n"); rows != 1 {
		t.Errorf("%d rows are left, want that of Applied alone", rows)
	}
}

// TestAnswersAreBounded: the result of a command counts, also that of each part of a transaction. A
// command whose result is too large to send is refused before any of it is kept. It used to be
// applied and then return an error.
func TestAnswersAreBounded(t *testing.T) {
	r := newHoard(t)
	answer := func(size int64) toy.Command { return toy.Command{Kind: toy.Clear, Name: "a", Delta: size} }
	if out := r.apply(0, answer(engine.MaxCommandBytes-1<<10).In("default")); out[0].Err != nil ||
		len(out[0].Result) != engine.MaxCommandBytes-1<<10 {
		t.Errorf("%d bytes, %v, want the answer", len(out[0].Result), out[0].Err)
	}
	out := r.apply(0, answer(engine.MaxCommandBytes+1).In("default"))
	if err := out[0].Err; !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(engine.MaxCommandBytes)) {
		t.Errorf("err = %v, want ErrInvalid with the limit", err)
	}
	before := strings.Count(r.dump(0), "\n")
	txn := engine.NewTxn(engine.NewRouter(r), "default", 1<<20).Do(write("b", 1, 1).Op())
	for range 22 {
		txn.Do(answer(3 << 20).Op())
	}
	_, err := txn.Commit(t.Context())
	var refused *engine.TxnError
	if !errors.As(err, &refused) || refused.Index != 22 || !errors.Is(err, engine.ErrInvalid) {
		t.Fatalf("err = %v, want a refusal of operation 22", err)
	}
	if rows := strings.Count(r.dump(0), "\n"); rows != before {
		t.Errorf("%d rows are left, want %d", rows, before)
	}
}

// TestEntryIsBounded: once the commands of an entry have written enough, the others are put off, in
// order and without a trace. A command that does not fit behind others is put off too, and refused
// only if it comes first.
func TestEntryIsBounded(t *testing.T) {
	r := newHoard(t)
	outcomes := func(cmds ...engine.Command) (s string) {
		for _, o := range r.apply(0, cmds...) {
			switch {
			case o.Err == nil:
				s += "+"
			case o.Err == engine.ErrPutOff:
				s += "."
			default:
				s += "-"
			}
		}
		return s
	}
	small, large, huge := write("s", 1, 10).In("default"), write("l", 5, 1<<20).In("default"), write("h", 65, 1<<20).In("default")
	for want, cmds := range map[string][]engine.Command{
		"++++":  {small, small, small, small},
		"+++..": {small, large, large, small, small},
		"+...":  {small, huge, small, small},
		"-..":   {huge, small, small},
		"+.":    {write("l", 40, 1<<20).In("default"), huge},
	} {
		before := r.execs[0].Applied().LSN
		if got := outcomes(cmds...); got != want {
			t.Errorf("outcomes %s, want %s", got, want)
		}
		if n := int(r.execs[0].Applied().LSN - before); n != strings.Count(want, "+") {
			t.Errorf("%s: %d LSNs were given out", want, n)
		}
	}
	if out := r.apply(0, small, engine.Fire(), engine.Skip(1000)); out[2].Err != nil {
		t.Errorf("Skip: %v", out[2].Err)
	}
}

// TestFireEndsEarly: a Fire whose timers write much runs some of them, and later Fires run the
// rest.
func TestFireEndsEarly(t *testing.T) {
	r := newHoard(t)
	r.apply(0, toy.Command{Kind: toy.Later, Delta: 100, Delay: 1 << 20}.In("default"))
	fired, fires := uint64(0), 0
	for ; r.execs[0].NextDue() <= r.now; fires++ {
		out := r.applyOnly(0, engine.Fire())
		if out[0].Err != nil {
			t.Fatal(out[0].Err)
		}
		if p := r.execs[0].Pending(); p > 6<<20 {
			t.Fatalf("a Fire has written %d bytes", p)
		}
		r.commit(0)
		n, _ := binary.Uvarint(out[0].Result)
		if fired += n; n == 0 {
			t.Fatal("a Fire handed out nothing")
		}
	}
	if fired != 100 || fires < 20 {
		t.Errorf("%d timers in %d Fires, want 100 in many", fired, fires)
	}
}

// TestDeliveryEndsEarly: a delivery whose messages write much processes some of them, reports this,
// and continues with the next delivery.
func TestDeliveryEndsEarly(t *testing.T) {
	r := newHoard(t)
	r.apply(0, toy.Command{Kind: toy.Send, Name: "m", Delta: 40, Delay: 1 << 20, Target: "x"}.In("default"))
	deliveries := 0
	d := r.execs[0].NewDispatch(0)
	for {
		step, _, ok, err := d.Next(r.now, 1<<40)
		if err != nil || !ok {
			break
		}
		out := r.applyOnly(0, step.Command)
		if p := r.execs[0].Pending(); p > 6<<20 {
			t.Fatalf("a delivery has written %d bytes", p)
		}
		r.commit(0)
		d.Done(out[0].Result, out[0].Err, r.now)
		deliveries++
	}
	deliveries /= 2 // each has a settling
	if got := strings.Count(r.dump(0), "6d"); deliveries < 8 || got < 40 {
		t.Errorf("%d deliveries left %d rows", deliveries, got)
	}
	if n := r.execs[0].Refused(); n != 0 {
		t.Errorf("%d messages were refused", n)
	}
}

// TestFollowUpsMakeACommandFull: enlisted commands count before they have run. Otherwise a timer
// that enlists commands until it is Full would reach the limit of commands, which stops the shard,
// as a timer cannot be refused. Follow-ups that were rolled back do not count.
func TestFollowUpsMakeACommandFull(t *testing.T) {
	s := newStage(t)
	const size, all = 1 << 20, 100
	body := "large" + strings.Repeat(".", size)
	s.two.steps[body] = func(tx *engine.Tx) error { tx.Set(fmt.Append(nil, tx.LSN()), []byte(body)); return nil }
	s.one.steps["arm"] = func(tx *engine.Tx) error { tx.Schedule(tx.Now(), []byte("ring")); return nil }
	left, most := all, 0
	s.one.steps["ring"] = func(tx *engine.Tx) error {
		undone := tx.Savepoint()
		for range 20 {
			tx.Then(s.cmd(s.two, body))
		}
		if tx.Rollback(undone); tx.Full() {
			t.Error("follow-ups that were taken back count")
		}
		n := 0
		for ; left > 0 && !tx.Full(); left-- {
			if n++; left%2 == 0 {
				tx.Then(s.cmd(s.two, body))
			} else {
				tx.Ask(s.cmd(s.two, body), []byte("t"))
			}
		}
		if most = max(most, n); left > 0 {
			tx.Schedule(tx.Now(), []byte("ring"))
		}
		return nil
	}
	s.do(s.one, "arm")
	for fires := 0; s.execs[0].NextDue() <= s.now; fires++ {
		if s.apply(0, engine.Fire()); fires > all {
			t.Fatal("the timer goes on and on")
		}
	}
	if left != 0 || most < 2 || most > 6 {
		t.Errorf("%d follow-ups are left, up to %d in a command of about 4 MiB", left, most)
	}
}

// TestTimerThatGoesOn: with strict checks, a timer that continues although its command is full
// stops the shard.
func TestTimerThatGoesOn(t *testing.T) {
	const rows, bytes = 1<<12 + 1<<13, 44 << 20 // full, and one step more
	for name, c := range map[string]struct {
		rows, bytes int
		stops       bool
	}{
		"as many rows as one step has": {rows - 1, 0, false}, "one row more": {rows, 0, true},
		"fewer bytes than one step has": {0, bytes - 100, false}, "more bytes": {0, bytes, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newScripted(engine.MachineTest)
			r := newRigOf(t, 1, m.primitive())
			m.steps["arm"] = func(tx *engine.Tx) error { tx.Schedule(tx.Now(), []byte("ring")); return nil }
			m.steps["ring"] = func(tx *engine.Tx) error { // the row of the timer counts as well
				if c.bytes > 0 {
					tx.Set([]byte("k"), make([]byte, c.bytes))
				}
				tx.Worked(c.rows)
				return nil
			}
			r.apply(0, engine.Command{Machine: m.id, Kind: 1, Namespace: "n", Body: []byte("arm")})
			r.tampered = c.stops
			defer func() {
				p := fmt.Sprint(recover())
				if stopped := strings.Contains(p, "a timer of machine 15 continues although the command is full"); stopped != c.stops {
					t.Errorf("panic %q, want one: %t", p, c.stops)
				}
			}()
			r.apply(0, engine.Fire())
		})
	}
}

// TestFollowUpsOfEach: each timer of a Fire and each message of a delivery may have as many
// follow-ups as a command.
func TestFollowUpsOfEach(t *testing.T) {
	s := newStage(t)
	var left []int
	step := func(tx *engine.Tx) error {
		left = append(left, tx.FollowUpsLeft())
		for range 10 {
			tx.Then(s.cmd(s.one, "follow"))
		}
		return nil
	}
	s.one.steps["a"], s.one.steps["b"], s.two.steps["a"], s.two.steps["b"] = step, step, step, step
	s.one.steps["arm"] = func(tx *engine.Tx) error {
		tx.Schedule(tx.Now(), []byte("a"))
		tx.Schedule(tx.Now(), []byte("b"))
		return nil
	}
	s.do(s.one, "arm")
	s.apply(0, engine.Fire())
	lanes(s, false, "a", "b")
	s.deliver(0, 0)
	if got := fmt.Sprint(left); got != "[1000 1000 1000 1000]" {
		t.Errorf("follow-ups left: %s", got)
	}
}
