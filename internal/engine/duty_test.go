package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// leadDoor is an engine.LeadDoor that the test controls.
type leadDoor struct {
	now     int64
	sleep   func(wake <-chan struct{}, until int64) error
	propose func(engine.Command) ([]byte, error)
}

func (d *leadDoor) Now() int64 { return d.now }
func (d *leadDoor) Propose(_ context.Context, cmd engine.Command) ([]byte, error) {
	return d.propose(cmd)
}
func (d *leadDoor) Sleep(_ context.Context, wake <-chan struct{}, until int64) error {
	return d.sleep(wake, until)
}

// vaultDuty is the duty of the vaults in the shard of a rig for one term.
func vaultDuty(t *testing.T, r *rig, term uint64, d *leadDoor) engine.LedDuty {
	t.Helper()
	duties := r.execs[0].Duties(term, func() engine.LeadDoor { return d })
	if len(duties) != 1 || duties[0].String() != "vault sweep" {
		t.Fatalf("the duties are %v", duties)
	}
	return duties[0]
}

// fill adds to a vault of the rig's one shard.
func fill(r *rig) {
	const ns, vault = toy.VaultNamespace, "{vault}"
	spread := func(cmd engine.Command) engine.Command { cmd.Spread = true; return cmd }
	r.apply(0, engine.CreateNamespace(ns, true))
	r.apply(0,
		spread(toy.Command{Kind: toy.Add, Name: vault, Delta: 100}.In(ns)),
		spread(toy.Command{Kind: toy.Ship, Name: vault, Target: vault, Delta: 10}.ToVaults(ns)))
	r.deliver(0, 0)
}

func (r *rig) held() int64 {
	q := toy.Vaults{Namespace: toy.VaultNamespace}
	if err := r.Query(context.Background(), 0, &q); err != nil {
		r.t.Fatal(err)
	}
	return q.Held
}

// TestDutyWaits waits for a topic and then for a time; a change during a look is not missed.
func TestDutyWaits(t *testing.T) {
	r := newRigOf(t, 1, toy.Primitive(), toy.VaultPrimitive())
	ctx, cancel := context.WithCancel(t.Context())
	var slept []int64
	d := &leadDoor{now: r.now}
	d.propose = func(cmd engine.Command) ([]byte, error) { return r.Propose(ctx, 0, cmd) }
	d.sleep = func(wake <-chan struct{}, until int64) error {
		slept = append(slept, until)
		switch len(slept) {
		case 1:
			fill(r)
			select {
			case <-wake:
			default:
				t.Error("a deposit has not woken the duty")
			}
		case 2:
			d.now, r.now = until, until
		default:
			cancel()
		}
		return ctx.Err()
	}
	duty := vaultDuty(t, r, 1, d)
	if err := duty.Run(ctx, duty.Lead); !errors.Is(err, context.Canceled) {
		t.Errorf("the duty ends with %v", err)
	}
	if len(slept) != 3 || slept[0] != engine.NoTimer || slept[1] != 1050 || slept[2] != engine.NoTimer {
		t.Errorf("the duty has slept until %d", slept)
	}
	if held := r.held(); held != 0 {
		t.Errorf("the vault holds %d", held)
	}
	if n := r.execs[0].Waiting(); n != 0 {
		t.Errorf("%d wait for ever", n)
	}
}

// clockDoor is a leadDoor with the optional clocks and counts.
type clockDoor struct{ leadDoor }

func (*clockDoor) Mono() int64            { return 7 }
func (*clockDoor) Calls() int64           { return 3 }
func (*clockDoor) Elapsed() time.Duration { return 7*time.Millisecond + 1 }

// TestLead: a duty knows its shard, term and clocks; what the door does not have is derived from
// its time, or 0.
func TestLead(t *testing.T) {
	r := newRigWith(t, engine.Config{Shards: 2, DutySpeedup: 4, Primitives: []engine.Primitive{toy.VaultPrimitive()}}, nil)
	x := r.execs[1]
	lead := func(door engine.LeadDoor) *engine.Lead {
		return x.Duties(5, func() engine.LeadDoor { return door })[0].Lead
	}
	for _, c := range []struct {
		door engine.LeadDoor
		want string
	}{{&leadDoor{now: 40}, "40 40 0 40ms"}, {&clockDoor{leadDoor{now: 40}}, "40 7 3 7.000001ms"}} {
		l := lead(c.door)
		expect(t, "clocks", fmt.Sprint(l.Now(), l.Mono(), l.Calls(), " ", l.Elapsed()), c.want)
		expect(t, "place", fmt.Sprint(l.Shard(), l.Shards(), l.Term(), l.Patience(100)), "1 2 5 25")
		err := l.View(t.Context(), func(v *engine.View) error {
			expect(t, "clock of its view", v.Mono(), l.Mono())
			expect(t, "awaited", l.Awaited(goods("x")), false)
			err := v.WaitOn(goods("x"))
			expect(t, "awaited", l.Awaited(goods("x")), true)
			return err
		})
		expect(t, "view", err, "<nil>")
		expect(t, "waiting", x.Waiting(), 0)
	}
	expect(t, "dutiful", x.Dutiful(), true)
	expect(t, "dutiful without duties", newRig(t, 1).execs[0].Dutiful(), false)
}

// TestLeadView: a view of a duty ends with its context, and must wait for something.
func TestLeadView(t *testing.T) {
	x := newRigOf(t, 1, toy.VaultPrimitive()).execs[0]
	l := x.Duties(1, func() engine.LeadDoor { return &leadDoor{} })[0].Lead
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	looks := 0
	look := func(*engine.View) error { looks++; return engine.ErrWait }
	expect(t, "ended", l.View(ctx, look), context.Canceled)
	expect(t, "looks", looks, 0)
	defer func() { expect(t, "panic", recover(), "shard 0: a duty of machine 14 waits for nothing") }()
	_ = l.View(t.Context(), look)
}

// TestFencedCommands: a duty's command in a wrong place is refused as one of a user is.
func TestFencedCommands(t *testing.T) {
	r := newRigOf(t, 1, toy.Primitive(), toy.VaultPrimitive())
	sweep := toy.Command{Kind: toy.Sweep, Name: "v"}.ToVaults("n")
	sweep.Spread = true
	expect(t, "misrouted", r.outcome(0, engine.Fenced(1, sweep)), "[] command was routed with an outdated placement")
	expect(t, "for users", r.outcome(0, engine.Fenced(1, addTo("a", 1).In("n"))), "[] toy: command 1 (add) is not for leaders")
	expect(t, "check", r.execs[0].Check(engine.Fenced(1, addTo("a", 1).In("n"))), "toy: command 1 (add) is not for leaders")
}

// TestDutyOfAnotherTerm: a duty of another term is refused and has no effect.
func TestDutyOfAnotherTerm(t *testing.T) {
	r := newRigOf(t, 1, toy.Primitive(), toy.VaultPrimitive())
	fill(r)
	before, refusals := r.dump(0), 0
	ctx, cancel := context.WithCancel(t.Context())
	d := &leadDoor{now: r.now + 1000}
	d.propose = func(cmd engine.Command) ([]byte, error) {
		result, err := r.Propose(ctx, 0, cmd)
		if !errors.Is(err, engine.ErrConflict) {
			t.Errorf("a duty of another term: %v", err)
		}
		refusals++
		cancel()
		return result, err
	}
	duty := vaultDuty(t, r, 2, d)
	if err := duty.Run(ctx, duty.Lead); !errors.Is(err, context.Canceled) || refusals != 1 {
		t.Errorf("the duty ends with %v after %d refusals", err, refusals)
	}
	if held := r.held(); held == 0 {
		t.Error("the vault has been emptied")
	}
	if after := r.dump(0); len(after) != len(before) {
		t.Errorf("the refusal has left something:\n%s\nbefore\n%s", after, before)
	}
}
