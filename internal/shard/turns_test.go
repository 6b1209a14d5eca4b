package shard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// tenant is a group of callers in a namespace, each of which has its next command ready when the
// last one is applied.
type tenant struct {
	namespace     string
	callers, size int

	free, made   int // callers without a command in flight; commands created
	done, bytes  int // applied commands, and their counted size
	lastOfItsOwn int // number of the last of them
}

// crowd is a shard that some tenants use, measured in turns of its disk. Time is counted in bytes
// written: an empty write takes as long as 32 small commands, about as on a real disk.
type crowd struct {
	*stepper
	tenants []*tenant
	time    int
	most    int // maximum bytes that namespace a had in flight
}

const emptyWrite = 32 * commandCost

func newCrowd(t *testing.T, tenants ...*tenant) *crowd {
	t.Helper()
	c := &crowd{stepper: newStepper(t), tenants: tenants}
	c.lead()
	for _, n := range tenants {
		n.free = n.callers
	}
	return c
}

// run runs the crowd for the time last.
func (c *crowd) run(last int) {
	c.t.Helper()
	for end := c.time + last; c.time < end; {
		var in input
		for _, n := range c.tenants {
			for ; n.free > 0; n.free-- {
				p := &proposal{namespace: n.namespace, data: make([]byte, max(n.size, 8))}
				n.made++
				binary.LittleEndian.PutUint64(p.data, uint64(n.made))
				in.proposals = append(in.proposals, p)
			}
		}
		c.step(in)
		if l := c.core.turns.lanes["a"]; l != nil {
			c.most = max(c.most, l.flying)
		}
		c.time += emptyWrite
		for range c.appends { // in one write
			for _, e := range c.appends[0].update.Entries {
				c.time += len(e.GetData())
			}
			c.finish()
		}
		c.count()
	}
}

// count gives the callers of applied commands their next turn.
func (c *crowd) count() {
	c.t.Helper()
	entries := c.applied
	c.applied = nil
	for range entries {
		e := c.proposed[0]
		c.proposed = c.proposed[1:]
		for _, p := range e.proposals {
			c.time += commandCost
			for _, n := range c.tenants {
				if n.namespace != p.namespace {
					continue
				}
				number := int(binary.LittleEndian.Uint64(p.data))
				if number != n.lastOfItsOwn+1 {
					c.t.Fatalf("command %d of namespace %q is applied after %d", number, n.namespace, n.lastOfItsOwn)
				}
				n.lastOfItsOwn = number
				n.free++
				n.done++
				n.bytes += p.cost()
			}
		}
	}
}

// TestTurns: next to 256 callers of another namespace, one caller gets a fourth of its throughput
// alone. It used to get a twentieth, and next to 8,192 callers nothing.
func TestTurns(t *testing.T) {
	const last = 500 * emptyWrite
	for _, c := range []struct{ callers, size int }{{256, 100}, {8192, 100}, {256, 64 << 10}} {
		alone := &tenant{namespace: "b", callers: 1, size: c.size}
		newCrowd(t, alone).run(last)
		flood, one := &tenant{namespace: "a", callers: c.callers, size: c.size}, &tenant{namespace: "b", callers: 1, size: c.size}
		newCrowd(t, flood, one).run(last)
		t.Logf("%d bytes, beside %d callers: %d of %d; they: %d", c.size, c.callers, one.done, alone.done, flood.done)
		if one.done*4 < alone.done {
			t.Errorf("%d bytes: one caller beside %d of another namespace does %d, alone it does %d", c.size, c.callers, one.done,
				alone.done)
		}
	}
}

// TestTurnsOfTheShard: commands without a namespace wait for no more than one namespace alone may
// have in flight.
func TestTurnsOfTheShard(t *testing.T) {
	flood, own := &tenant{namespace: "a", callers: 8192, size: 100}, &tenant{callers: 1, size: 100}
	c := newCrowd(t, flood, own)
	c.run(2000 * emptyWrite)
	if want := c.time / (2 * (maxFlight + emptyWrite)); own.done < want {
		t.Errorf("of no namespace %d commands are applied beside %d of one, want %d", own.done, flood.done, want)
	}
}

// TestTurnsByBytes: namespaces that all demand more than is available get the same, whatever the
// number of their callers and the size of their commands. A namespace that demands less gets all of
// it.
func TestTurnsByBytes(t *testing.T) {
	all := []*tenant{
		{namespace: "many", callers: 4096, size: 100}, {namespace: "large", callers: 64, size: 200 << 10}, {namespace: "some", callers: 512,
			size: 4 << 10},
		{namespace: "", callers: 600, size: 100}, {namespace: "little", callers: 1, size: 100},
	}
	c := newCrowd(t, all...)
	c.run(2000 * emptyWrite)
	for _, n := range all[:4] {
		if ratio := float64(n.bytes) / float64(all[0].bytes); ratio < 0.8 || ratio > 1.25 {
			t.Errorf("%q has %.2f of what %q has", n.namespace, ratio, all[0].namespace)
		}
	}
	t.Logf("bytes: %d %d %d %d %d", all[0].bytes, all[1].bytes, all[2].bytes, all[3].bytes, all[4].bytes)
}

// TestOneNamespaceIsNotHeld: a single namespace may have as much in flight as is useful, and again
// after another one has gone.
func TestOneNamespaceIsNotHeld(t *testing.T) {
	flood, guest := &tenant{namespace: "a", callers: 800, size: 100}, &tenant{namespace: "b", callers: 1, size: 100, free: 1}
	c := newCrowd(t, flood)
	most := func() int {
		c.run(50 * emptyWrite)
		c.most = 0
		c.run(50 * emptyWrite)
		return c.most / (commandCost + 100)
	}
	if n := most(); n != flood.callers {
		t.Errorf("%d of %d commands are under way", n, flood.callers)
	}
	c.tenants = append(c.tenants, guest)
	if n := most(); n != sharedFlight/(commandCost+100) {
		t.Errorf("beside another namespace %d commands are under way, want %d", n, sharedFlight/commandCost)
	}
	c.tenants = c.tenants[:1]
	if n := most(); n != flood.callers {
		t.Errorf("when the other namespace has gone %d of %d commands are under way", n, flood.callers)
	}
}

// TestLanesAreForgotten: namespaces with nothing in flight take no memory.
func TestLanesAreForgotten(t *testing.T) {
	s := newStepper(t)
	s.lead()
	for i := range 10 * idleLanes {
		p := proposals(1, 10)
		p[0].namespace = fmt.Sprint(i)
		s.step(input{proposals: p})
		s.settle()
	}
	if n := len(s.core.turns.lanes); n > idleLanes || len(s.core.turns.flights) > 0 {
		t.Errorf("%d namespaces are remembered, and %d of their commands", n, len(s.core.turns.flights))
	}
	if len(s.proposed) != 10*idleLanes {
		t.Errorf("%d entries", len(s.proposed))
	}
}

// TestLostLeaderForgetsFlights: bytes in flight when a leader lost the leadership do not count when
// it leads again.
func TestLostLeaderForgetsFlights(t *testing.T) {
	voters := []*stepper{newVoter(t, 1, 1, 2, 3), newVoter(t, 2, 1, 2, 3), newVoter(t, 3, 1, 2, 3)}
	old := voters[1]
	old.step(input{campaign: true})
	exchange(voters, 0)
	old.step(input{proposals: proposals(1, maxFlight)}) // no voter receives it
	old.settle()
	if l := old.core.turns.lanes[""]; l.flying < maxFlight {
		t.Fatalf("%d bytes are under way", l.flying)
	}
	for range 2 * electionTicks { // nor does any voter answer
		old.step(input{ticks: 1})
	}
	if old.core.isLeader {
		t.Fatal("the leader leads on")
	}
	if l := old.core.turns.lanes[""]; l.flying != 0 || len(old.core.turns.flights) > 0 {
		t.Errorf("%d bytes are under way for one who does not lead", l.flying)
	}
}

// TestFloodLeavesRoom: a namespace with many commands waiting at a shard leaves room for those of
// others, by number and by bytes. It used to take all of it, and all others were refused.
func TestFloodLeavesRoom(t *testing.T) {
	noLeaks(t)
	c := config(vfs.NewMem())
	c.QueueBytes = 1 << 20
	h := open(t, c)
	defer closeHost(t, h)
	s := h.shards[0]
	for _, size := range []int{1, 8 << 10} {
		busy := func(namespace string) (n int) {
			t.Helper()
			for ; n <= maxQueued; n++ {
				_, err := s.submit(t.Context(), toy.Command{Kind: toy.Add, Name: strings.Repeat("a", size), Delta: 1}.In(namespace))
				if errors.Is(err, engine.ErrBusy) {
					return n
				}
				must(t, err)
			}
			return n
		}
		s.loop.mu.Lock() // nothing proceeds meanwhile
		first, second, third := busy("a"), busy("b"), busy("c")
		_, err := s.submit(context.Background(), engine.Skip(0))
		s.loop.mu.Unlock()
		t.Logf("with %d bytes: %d, %d, %d", size, first, second, third)
		if err != nil {
			t.Errorf("with %d bytes: the shard's own command: %v", size, err)
		}
		if second < first/4 || third < second/4 || third == 0 {
			t.Errorf("with %d bytes: the first of three namespaces has %d commands waiting, the second %d, the third %d", size, first,
				second, third)
		}
		until(t.Context(), t, "the end of all", func() bool { return s.admission.queued.Load() == 0 })
		for i := range s.admission.shares {
			if n, bytes := s.admission.shares[i].add(0, 0); n != 0 || bytes != 0 {
				t.Errorf("%d commands with %d bytes count when all are applied", n, bytes)
			}
		}
	}
}

// TestLargeWaitForRoom: large commands without room wait for it in order, and are refused at the
// end of a full line. Small ones, and large ones of another namespace with room in its part, need
// not wait for them. All used to be refused at once, and their callers came back with another copy.
func TestLargeWaitForRoom(t *testing.T) {
	noLeaks(t)
	c := config(vfs.NewMem())
	c.QueueBytes = 1 << 20
	h := open(t, c)
	s := h.shards[0]
	large := func(ctx context.Context, namespace string) error {
		_, err := s.submit(ctx, toy.Command{Kind: toy.Add, Name: strings.Repeat("a", largeBytes), Delta: 1}.In(namespace))
		return err
	}
	s.loop.mu.Lock() // nothing proceeds meanwhile
	full := 0
	for s.admission.enter(&proposal{share: s.admission.shareOf("a"), namespace: "a", size: largeBytes + 64}) == nil {
		full++
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := large(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that is gone: %v", err)
	}
	waiting, stop := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- large(waiting, "a") }()
	waits := func(n int) func() bool { return func() bool { return s.admission.line.n.Load() == int32(n) } }
	until(t.Context(), t, "one waits", waits(1))
	stop()
	if err := <-left; !errors.Is(err, context.Canceled) || s.admission.line.n.Load() != 0 {
		t.Errorf("a caller that has gone while it waited: %v, %d wait", err, s.admission.line.n.Load())
	}
	const many = 3
	order := make(chan int, many)
	for i := range many {
		go func() {
			if err := large(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			order <- i
		}()
		until(t.Context(), t, "it waits", waits(i+1))
	}
	if err := large(t.Context(), "b"); err != nil {
		t.Errorf("of another namespace: %v", err)
	}
	if _, err := s.submit(t.Context(), toy.Command{Kind: toy.Add, Name: "n", Delta: 1}.In("b")); err != nil {
		t.Errorf("a small one: %v", err)
	}
	small := make(chan error, 1)
	go func() {
		_, err := s.submit(t.Context(), toy.Command{Kind: toy.Add, Name: strings.Repeat("a", largeBytes/2), Delta: 1}.In("a"))
		small <- err
	}()
	until(t.Context(), t, "a small one waits behind the large ones of its namespace", waits(many+1))
	if s.admission.line.n.Load() != many+1 || len(order) != 0 {
		t.Errorf("%d wait, %d have gone", s.admission.line.n.Load(), len(order))
	}
	for i := range many { // part of the queue is for others: more than one has to leave
		for len(order) == 0 && full > 0 {
			s.admission.leave(s.admission.shareOf("a"), largeBytes+64)
			full--
			if s.admission.line.n.Load() < int32(many+1-i) {
				if got := <-order; got != i {
					t.Errorf("%d has gone as number %d", got, i)
				}
				break
			}
		}
	}
	for ; full > 0; full-- {
		s.admission.leave(s.admission.shareOf("a"), largeBytes+64)
	}
	if err := <-small; err != nil || s.admission.line.n.Load() != 0 {
		t.Errorf("the small one: %v; %d wait though there is room", err, s.admission.line.n.Load())
	}
	s.loop.mu.Unlock()
	until(t.Context(), t, "the end of all", func() bool { return s.admission.queued.Load() == 0 })

	s.loop.mu.Lock()
	for s.admission.enter(&proposal{share: s.admission.shareOf("a"), namespace: "a", size: largeBytes + 64}) == nil {
		full++
	}
	s.admission.line.mu.Lock()
	s.admission.line.all = make([]*inLine, maxInLine)
	s.admission.line.mu.Unlock()
	if err := large(t.Context(), "a"); !errors.Is(err, engine.ErrBusy) {
		t.Errorf("at the end of a line that is full: %v", err)
	}
	s.admission.line.mu.Lock()
	s.admission.line.all = nil
	s.admission.line.mu.Unlock()
	for range full {
		s.admission.leave(s.admission.shareOf("a"), largeBytes+64)
	}
	s.loop.mu.Unlock()
	closeHost(t, h)
}
