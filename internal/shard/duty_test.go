package shard

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// TestDutiesFollowTheLeader fills vaults, which a duty empties, while the node that leads their
// shards changes. A waiting duty then waits at the next leader, and at a node that comes back.
func TestDutiesFollowTheLeader(t *testing.T) {
	noLeaks(t)
	c := newCluster(t, seed(t), func(c *Config) { c.Primitives = []engine.Primitive{toy.Primitive(), toy.VaultPrimitive()} })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	router := engine.NewRouter(c)
	propose := func(route string, cmd engine.Command) {
		t.Helper()
		for {
			_, err := router.Propose(ctx, route, cmd)
			if err == nil || errors.Is(err, engine.ErrExists) {
				return
			}
			if !errors.Is(err, engine.ErrUnavailable) { // writes lost with a leader are repeated: there may be more than enough
				t.Fatal(err)
			}
		}
	}
	const ns, source = toy.VaultNamespace, "source"
	vaults := []string{"{vault1}", "{vault2}", "{vault3}"}
	if _, err := c.Propose(ctx, engine.HomeShard(ns, c.Shards()), engine.CreateNamespace(ns, true)); err != nil {
		t.Fatal(err)
	}
	for _, v := range vaults {
		propose(v, toy.Command{Kind: toy.Add, Name: v, Delta: 1000 * toy.Fee}.In(ns))
	}
	propose(source, toy.Command{Kind: toy.Add, Name: source, Delta: 1000}.In(ns))
	for round := range 4 {
		victim := uint64(round%3 + 1)
		for _, v := range vaults {
			propose(source, toy.Command{Kind: toy.Ship, Name: source, Target: v, Delta: 10}.ToVaults(ns))
		}
		c.stop(victim)
		until(ctx, t, "empty vaults", func() bool { return vaultsAreEmpty(ctx, t, c) })
		c.start(victim)
	}
	c.settle(ctx)
}

func vaultsAreEmpty(ctx context.Context, t *testing.T, c *cluster) bool {
	for id := range engine.ShardID(c.Shards()) {
		q := toy.Vaults{Namespace: toy.VaultNamespace}
		if err := c.Query(ctx, id, &q); err != nil {
			if errors.Is(err, engine.ErrUnavailable) {
				return false
			}
			t.Fatal(err)
		}
		if q.Held > 0 || q.Shipments > 0 {
			return false
		}
	}
	return true
}

// TestDutyThatFails: a failed duty is restarted, and ends with the node.
func TestDutyThatFails(t *testing.T) {
	noLeaks(t)
	runs, ended := make(chan struct{}, 100), make(chan error, 1)
	fails := true
	p := toy.Primitive()
	newMachine := p.New
	p.New = func() engine.Machine {
		return dutiful{newMachine(), func(ctx context.Context, lead *engine.Lead) error {
			runs <- struct{}{}
			if fails {
				fails = false
				return engine.Errorf(engine.ErrUnavailable, "not this time")
			}
			err := lead.View(ctx, func(v *engine.View) error {
				v.WakeAt(engine.NoTimer - 1)
				return engine.ErrWait
			})
			ended <- err
			return err
		}}
	}
	c := config(vfs.NewMem())
	c.Shards, c.Primitives = 1, []engine.Primitive{p}
	h := open(t, c)
	<-runs
	<-runs
	must(t, h.Close())
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a duty that waits when the node closes gets %v", err)
	}
}

// dutiful is a machine with one duty.
type dutiful struct {
	engine.Machine
	run func(ctx context.Context, lead *engine.Lead) error
}

func (d dutiful) Duties() []engine.Duty { return []engine.Duty{{Name: "test", Run: d.run}} }
func (d dutiful) OnReply(tx *engine.Tx, r engine.Reply) {
	d.Machine.(engine.Replier).OnReply(tx, r)
}

// TestFailuresAreToldOnce: a duty that keeps failing has one line in the log, and one a minute with
// the number of failures since. It used to have a line for each.
func TestFailuresAreToldOnce(t *testing.T) {
	var f failures
	now, lines := time.Now(), []int(nil)
	for range 90 { // with a pause of two seconds
		if n := f.failed(now); n > 0 {
			lines = append(lines, n)
		}
		now = now.Add(maxDutyPause)
	}
	if want := []int{1, 30, 30}; !slices.Equal(lines, want) {
		t.Errorf("lines tell of %v failures, want %v", lines, want)
	}
}

// TestDoorOfADuty: a command of a duty waits while the queue is full. Other errors, and the end of
// its context, end it.
func TestDoorOfADuty(t *testing.T) {
	noLeaks(t)
	h := open(t, config(vfs.NewMem()))
	defer closeHost(t, h)
	s := h.shards[0]
	door := (*leadDoor)(s)
	cmd := toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In(homed(0))
	_, err := door.Propose(t.Context(), cmd)
	must(t, err)
	if _, err := door.Propose(t.Context(), engine.Command{Machine: 200}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("an unknown command: %v", err)
	}
	for _, room := range []bool{true, false} {
		s.admission.queued.Add(2 * maxQueued)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := door.Propose(ctx, cmd)
			done <- err
		}()
		if !room {
			cancel()
		}
		if room {
			s.admission.queued.Add(-2 * maxQueued)
		}
		if err := <-done; room && err != nil || !room && !errors.Is(err, context.Canceled) {
			t.Errorf("room=%t: %v", room, err)
		}
		if cancel(); !room {
			s.admission.queued.Add(-2 * maxQueued)
		}
	}
	calls := door.Calls()
	_, err = h.Propose(t.Context(), 0, cmd)
	must(t, err)
	if got := door.Calls() - calls; got != 1 || door.Elapsed() <= 0 {
		t.Errorf("a call of a user counts as %d; elapsed %v", got, door.Elapsed())
	}
}
