package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/raftlog"
	"github.com/floedb/floe/internal/test/toy"
)

// stepper drives a core by hand, in one goroutine, against a real in-memory log, like a simulator.
type stepper struct {
	t     *testing.T
	core  *core
	log   *raftlog.Log
	clock *fakeClock

	appends  []*appendTask // not finished yet
	applied  []*raftpb.Entry
	sent     []*raftpb.Message
	proposed []proposedEntry
	refused  []refusal
	due      int64
}

func newStepper(t *testing.T) *stepper {
	t.Helper()
	return newVoter(t, 1, 1)
}

// newVoter returns one of the voters; the second is the preferred first leader.
func newVoter(t *testing.T, id uint64, voters ...uint64) *stepper {
	t.Helper()
	log, err := raftlog.Open(raftlog.Options{FS: vfs.NewMem(), Dir: "log"})
	must(t, err)
	t.Cleanup(func() { must(t, log.Close()) })
	s := &stepper{t: t, log: log, clock: &fakeClock{wall: 1000}, due: engine.NoTimer}
	s.core, err = newCore(coreConfig{
		node: id, shared: sharedFlight, first: id == 2, clock: &shardClock{clock: Clock{s.clock}}, logger: raftLogger{discard()},
		storage: &storage{Shard: log.Shard(0), conf: &raftpb.ConfState{Voters: voters}},
	})
	must(t, err)
	return s
}

// step feeds the core once and keeps the work it requests.
func (s *stepper) step(in input) {
	s.t.Helper()
	in.nextDue = s.due
	out := s.core.Step(in)
	if out.append != nil {
		s.appends = append(s.appends, out.append)
	}
	s.sent = append(s.sent, out.send...)
	s.proposed = append(s.proposed, out.proposed...)
	s.refused = append(s.refused, out.refused...)
	if out.apply != nil {
		s.applied = append(s.applied, out.apply.entries...)
		s.step(input{responses: out.apply.responses, applied: s.lastOf(out.apply.entries)})
	}
}

// lastOf returns the sequence of the last entry that is this node's own; 0: none is.
func (s *stepper) lastOf(entries []*raftpb.Entry) (sequence uint64) {
	s.t.Helper()
	for _, entry := range entries {
		if len(entry.GetData()) == 0 { // the entry that begins a term
			continue
		}
		var e engine.Entry
		must(s.t, e.Decode(entry.GetData()))
		if e.Origin == s.core.node {
			sequence = e.Sequence
		}
	}
	return sequence
}

// finish writes the oldest append and notifies the core.
func (s *stepper) finish() {
	s.t.Helper()
	a := s.appends[0]
	s.appends = s.appends[1:]
	must(s.t, s.log.Write([]raftlog.Update{a.update}))
	must(s.t, s.log.Sync())
	var in input
	for _, m := range a.responses {
		if m.GetTo() == s.core.node {
			in.responses = append(in.responses, m)
		} else {
			s.sent = append(s.sent, m)
		}
	}
	if a.entries {
		in.appended = 1
	}
	s.step(in)
}

func (s *stepper) settle() {
	s.t.Helper()
	for len(s.appends) > 0 {
		s.finish()
	}
}

func (s *stepper) lead() {
	s.t.Helper()
	s.step(input{campaign: true})
	s.settle()
	if !s.core.isLeader {
		s.t.Fatal("the only voter does not lead")
	}
	s.applied, s.proposed = nil, nil
}

func proposals(n, size int) (ps []*proposal) {
	for range n {
		ps = append(ps, &proposal{data: make([]byte, size)})
	}
	return ps
}

// exchange delivers the messages of all voters but cutOff until there are none left.
func exchange(voters []*stepper, cutOff uint64) {
	for said := true; said; {
		said = false
		for _, s := range voters {
			s.settle()
			for _, m := range s.sent {
				if m.GetTo() != cutOff && s.core.node != cutOff {
					said = true
					voters[m.GetTo()-1].step(input{messages: []*raftpb.Message{m}})
				}
			}
			s.sent = nil
		}
	}
}

// TestFirstLeaderDoesNotWait: in a shard without any election so far, the preferred node stands for
// election once, at the first tick after it can be reached, and leads.
func TestFirstLeaderDoesNotWait(t *testing.T) {
	for _, ids := range [][]uint64{{1, 2, 3}, {1, 2, 3, 4, 5}} {
		var voters []*stepper
		for _, id := range ids {
			voters = append(voters, newVoter(t, id, ids...))
		}
		best := voters[1]
		for range 3 {
			best.step(input{ticks: 1})
			exchange(voters, 2)
		}
		for range electionTicks - 1 {
			for _, s := range voters {
				s.step(input{ticks: 1})
			}
			exchange(voters, 0)
			if !best.core.isLeader || best.core.term != 1 {
				t.Fatalf("of %d voters the second has not become the first leader: it is in term %d, and the leader is %d", len(ids),
					best.core.term, best.core.leader)
			}
		}
	}
}

// TestFirstLeaderComesLate: if another node already leads the shard, the preferred first leader
// takes no part in elections.
func TestFirstLeaderComesLate(t *testing.T) {
	voters := []*stepper{newVoter(t, 1, 1, 2, 3), newVoter(t, 2, 1, 2, 3), newVoter(t, 3, 1, 2, 3)}
	voters[0].step(input{campaign: true})
	exchange(voters, 2)
	if !voters[0].core.isLeader {
		t.Fatal("no leader")
	}
	for range electionTicks - 1 {
		voters[1].step(input{ticks: 1})
		exchange(voters, 0)
	}
	if s := voters[0].core; !s.isLeader || s.term != 1 {
		t.Errorf("the leader of term 1 leads: %v, and is in term %d", s.isLeader, s.term)
	}
}

// TestHandOverWaitsForOutcomes: a leader with a slow disk used to hand over before it knew the
// outcome of its last proposals, and their callers never learned it.
func TestHandOverWaitsForOutcomes(t *testing.T) {
	voters := []*stepper{newVoter(t, 1, 1, 2, 3), newVoter(t, 2, 1, 2, 3), newVoter(t, 3, 1, 2, 3)}
	old, transferee := voters[1], voters[0]
	old.step(input{campaign: true})
	exchange(voters, 0)
	old.applied = nil
	old.step(input{proposals: proposals(1, 10)})
	old.step(input{transfer: 1})
	old.step(input{proposals: proposals(1, 10)})
	for range 4 { // all disks but the old leader's are fast
		for _, s := range voters {
			sent := s.sent
			s.sent = nil
			for _, m := range sent {
				if m.GetType() == raftpb.MsgTimeoutNow {
					t.Fatal("the leadership was given away with a proposal in flight")
				}
				voters[m.GetTo()-1].step(input{messages: []*raftpb.Message{m}})
			}
			if s != old {
				s.settle()
			}
		}
	}
	if wake := old.core.wakeAt(0); wake != engine.NoTimer {
		t.Errorf("the loop is to wake at %d for timers that have to wait", wake)
	}
	exchange(voters, 0)
	if !transferee.core.isLeader || len(old.applied) != 2 || len(old.refused) != 1 {
		t.Errorf("the transferee leads: %v; the old leader has applied %d entries and refused %d proposals, want 2, with the one that "+
			"begins the new term, and 1",
			transferee.core.isLeader, len(old.applied), len(old.refused))
	}
}

// TestHandOverIsGivenUp: a leader whose proposals never finish keeps leading.
func TestHandOverIsGivenUp(t *testing.T) {
	voters := []*stepper{newVoter(t, 1, 1, 2, 3), newVoter(t, 2, 1, 2, 3), newVoter(t, 3, 1, 2, 3)}
	old := voters[1]
	old.step(input{campaign: true})
	exchange(voters, 0)
	old.step(input{proposals: proposals(1, 10)})
	old.step(input{transfer: 1})
	old.step(input{proposals: proposals(1, 10)})
	proposed := len(old.proposed)
	for range electionTicks - 1 {
		old.step(input{ticks: 1})
	}
	if len(old.proposed) != proposed {
		t.Fatal("something was proposed while the leadership was to be handed over")
	}
	old.step(input{ticks: 1})
	if len(old.proposed) != proposed+1 {
		t.Errorf("%d proposals after an election timeout, want %d", len(old.proposed), proposed+1)
	}
}

func TestProposalsOfOneStepShareAnEntry(t *testing.T) {
	s := newStepper(t)
	s.lead()
	s.step(input{proposals: proposals(100, 10)})
	if len(s.proposed) != 1 || len(s.proposed[0].proposals) != 100 {
		t.Fatalf("100 proposals became %d entries", len(s.proposed))
	}
	if len(s.applied) != 0 {
		t.Error("an entry was applied before it was durable")
	}
	s.settle()
	if len(s.applied) != 1 {
		t.Errorf("%d entries were applied, want 1", len(s.applied))
	}
}

func TestLargeProposalsAreSplitOverEntries(t *testing.T) {
	s := newStepper(t)
	s.lead()
	s.step(input{proposals: proposals(5, 400<<10)})
	var sizes []int
	for _, e := range s.proposed {
		sizes = append(sizes, len(e.proposals))
	}
	if fmt.Sprint(sizes) != "[2 2 1]" {
		t.Errorf("5 proposals of 400 KiB became entries of %v, want [2 2 1]", sizes)
	}
	s.proposed, sizes = nil, nil
	s.settle()
	s.step(input{proposals: proposals(2*maxEntryCommands+1, 10)})
	for _, e := range s.proposed {
		sizes = append(sizes, len(e.proposals))
	}
	if fmt.Sprint(sizes) != "[256 256 1]" {
		t.Errorf("513 small proposals became entries of %v, want [256 256 1]", sizes)
	}
	s.settle()
	s.proposed = s.proposed[:3]
	s.step(input{proposals: proposals(1, 3<<20)})
	if n := len(s.proposed); n != 4 {
		t.Errorf("a proposal of 3 MiB: %d entries, want one of its own", n-3)
	}
}

// TestProposalsGatherBehindAppends checks that with maxAppends appends in flight further proposals
// wait and then share one entry.
func TestProposalsGatherBehindAppends(t *testing.T) {
	s := newStepper(t)
	s.lead()
	for range maxAppends + 10 {
		s.step(input{proposals: proposals(1, 10)})
	}
	if len(s.proposed) != maxAppends || len(s.appends) != maxAppends {
		t.Fatalf("%d entries in %d appends are in flight, want %d", len(s.proposed), len(s.appends), maxAppends)
	}
	s.finish()
	if last := s.proposed[len(s.proposed)-1]; len(s.proposed) != maxAppends+1 || len(last.proposals) != 10 {
		t.Errorf("after one append was done the next entry has %d proposals, want the 10 that waited", len(last.proposals))
	}
	s.settle()
	if len(s.applied) != maxAppends+1 {
		t.Errorf("%d entries were applied, want %d", len(s.applied), maxAppends+1)
	}
}

func TestAbandonedProposalIsNotProposed(t *testing.T) {
	s := newStepper(t)
	s.lead()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	given := &proposal{ctx: ctx, data: []byte{1}}
	s.step(input{proposals: append(proposals(1, 1), given)})
	if len(s.refused) != 1 || s.refused[0].p != given || !errors.Is(s.refused[0].err, context.Canceled) {
		t.Errorf("refused %+v, want the abandoned proposal", s.refused)
	}
	if len(s.proposed) != 1 || len(s.proposed[0].proposals) != 1 {
		t.Errorf("proposed %+v, want the other one", s.proposed)
	}
}

// TestCandidateAsksWhenItsTermIsDurable: with the votes of others a candidate used to lead in a
// term that was not on its own disk yet. After a power failure it could lead in that term again,
// with other entries.
func TestCandidateAsksWhenItsTermIsDurable(t *testing.T) {
	log, err := raftlog.Open(raftlog.Options{FS: vfs.NewMem(), Dir: "log"})
	must(t, err)
	defer func() { must(t, log.Close()) }()
	c, err := newCore(coreConfig{
		node: 1, clock: &shardClock{clock: Clock{&fakeClock{wall: 1000}}}, logger: raftLogger{discard()},
		storage: &storage{Shard: log.Shard(0), conf: &raftpb.ConfState{Voters: []uint64{1, 2, 3, 4, 5}}},
	})
	must(t, err)
	out := c.Step(input{campaign: true, nextDue: engine.NoTimer})
	for len(out.send) == 0 && out.append != nil { // its own vote, before the real election
		out = c.Step(input{responses: out.append.responses, nextDue: engine.NoTimer})
	}
	var answers []*raftpb.Message
	for _, m := range out.send {
		if m.GetType() != raftpb.MsgPreVote {
			t.Fatalf("a candidate begins with %v", m)
		}
		answers = append(answers, &raftpb.Message{Type: raftpb.MsgPreVoteResp.Enum(), From: m.To, To: m.From, Term: m.Term})
	}
	out = c.Step(input{messages: answers, nextDue: engine.NoTimer})
	if len(out.send) > 0 {
		t.Errorf("sends %v before its term is durable", out.send)
	}
	if out.append == nil || out.append.update.HardState == nil || !out.append.mustSync {
		t.Fatalf("append %+v, want the new term", out.append)
	}
	asked := 0
	for _, m := range out.append.responses {
		if m.GetType() == raftpb.MsgVote && m.GetTerm() == out.append.update.HardState.GetTerm() {
			asked++
		}
	}
	if asked != 4 {
		t.Errorf("%d voters are asked when the term is durable, want 4: %v", asked, out.append.responses)
	}
}

func TestFollowerRefusesProposals(t *testing.T) {
	s := newStepper(t)
	s.step(input{proposals: proposals(2, 1)})
	if len(s.refused) != 2 || !errors.Is(s.refused[0].err, engine.ErrUnavailable) ||
		!strings.Contains(s.refused[0].err.Error(), "not its leader") {
		t.Errorf("refused %+v, want both with ErrUnavailable", s.refused)
	}
}

func TestLeaderFiresDueTimersOnce(t *testing.T) {
	s := newStepper(t)
	s.lead()
	s.due = 1500
	s.step(input{})
	if len(s.proposed) != 0 || s.core.wakeAt(s.due) != 1500 {
		t.Errorf("before the time: %d proposals, wake at %d; want none, 1500", len(s.proposed), s.core.wakeAt(s.due))
	}
	s.clock.advance(500 * time.Millisecond)
	s.step(input{})
	s.step(input{})
	if len(s.proposed) != 1 || !s.proposed[0].proposals[0].fire {
		t.Fatalf("proposed %+v, want one Fire", s.proposed)
	}
	if at := s.core.wakeAt(s.due); at != engine.NoTimer {
		t.Errorf("while it is in flight: wake at %d, want never", at)
	}
	s.settle()
	s.due = engine.NoTimer
	s.step(input{fired: true})
	s.due = 1600
	s.clock.advance(time.Second)
	s.step(input{})
	if len(s.proposed) != 2 {
		t.Errorf("%d proposals after the next timer, want 2", len(s.proposed))
	}
}

func TestMergeEntries(t *testing.T) {
	entries := func(term uint64, from, to uint64) (es []*raftpb.Entry) {
		for i := from; i <= to; i++ {
			es = append(es, &raftpb.Entry{Index: new(i), Term: new(term)})
		}
		return es
	}
	text := func(es []*raftpb.Entry) string {
		var b strings.Builder
		for _, e := range es {
			fmt.Fprintf(&b, "%d/%d ", e.GetIndex(), e.GetTerm())
		}
		return b.String()
	}
	for _, c := range []struct {
		a, b []*raftpb.Entry
		want string
	}{
		{nil, entries(1, 5, 6), "5/1 6/1 "},
		{entries(1, 3, 4), entries(1, 5, 6), "3/1 4/1 5/1 6/1 "},
		{entries(1, 3, 6), entries(2, 5, 5), "3/1 4/1 5/2 "},
		{entries(1, 3, 6), entries(2, 2, 3), "2/2 3/2 "},
	} {
		if got := text(mergeEntries(c.a, c.b)); got != c.want {
			t.Errorf("mergeEntries(%s, %s) = %s, want %s", text(c.a), text(c.b), got, c.want)
		}
	}
}

// TestRaftRefuses: proposals that raft rejects because too much is uncommitted are refused for
// certain, together with the takes that would have followed them. A timer is retried.
func TestRaftRefuses(t *testing.T) {
	s := newStepper(t)
	s.lead()
	s.step(input{proposals: proposals(1, maxUncommitted)})
	s.due = s.clock.Wall()
	take := proposals(1, 10)[0]
	s.core.pull = func(engine.Made, int) []*proposal { return []*proposal{take} }
	two := proposals(2, 10)
	two[0].namespace, two[1].namespace = "b", "b" // more of the first namespace would wait
	two[0].makes = []engine.Made{{Topic: 1, N: 1}}
	s.step(input{proposals: two})
	if len(s.proposed) != 1 || len(s.refused) != 4 || !slices.ContainsFunc(s.refused, func(r refusal) bool { return r.p == take }) {
		t.Fatalf("behind %d bytes that are not committed %d entries were proposed and %d commands refused, want 0 and 4, a take among them",
			maxUncommitted, len(s.proposed)-1, len(s.refused))
	}
	for _, r := range s.refused {
		if !errors.Is(r.err, engine.ErrBusy) || errors.Is(r.err, engine.ErrUnknownOutcome) {
			t.Errorf("refused with %v, want ErrBusy", r.err)
		}
	}
	s.step(input{})
	if len(s.refused) != 4 {
		t.Errorf("%d commands refused, want the timer to wait for a tick", len(s.refused)-4)
	}
	s.step(input{ticks: 1})
	if len(s.refused) != 5 || !s.refused[4].p.fire {
		t.Errorf("with the next tick %d commands were tried again, want the timer", len(s.refused)-4)
	}
}

// TestFullQueueIsBusy checks that proposals beyond the bound are refused at once, and accepted
// again when there is room.
func TestFullQueueIsBusy(t *testing.T) {
	noLeaks(t)
	h := open(t, config(vfs.NewMem()))
	defer closeHost(t, h)
	ctx := context.Background()
	cmd := toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In(homed(0))
	s := h.shards[0]
	for name, fill := range map[string]func(sign int64){
		"count": func(sign int64) { s.admission.queued.Add(sign * maxQueued) },
		"bytes": func(sign int64) { s.admission.bytes.Add(sign * s.host.cfg.QueueBytes) },
	} {
		fill(1)
		if _, err := h.Propose(ctx, 0, cmd); !errors.Is(err, engine.ErrBusy) || !strings.Contains(err.Error(), "the limits are 16384") {
			t.Errorf("%s: Propose to a full queue = %v, want ErrBusy naming the limits", name, err)
		}
		fill(-1)
		if _, err := h.Propose(ctx, 0, cmd); err != nil {
			t.Errorf("%s: Propose when there is room: %v", name, err)
		}
	}
}

func TestCloseEndsWaiters(t *testing.T) {
	noLeaks(t)
	h := open(t, config(vfs.NewMem()))
	ctx := context.Background()
	waiting := make(chan error, 2)
	for range 2 {
		go func() {
			waiting <- h.Query(ctx, 0, &toy.Counter{Namespace: homed(0), Name: "a", Min: 1})
		}()
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for stats(t, h).Waiting < 2 {
		<-poll.C
	}
	closeHost(t, h)
	for range 2 {
		if err := <-waiting; !errors.Is(err, engine.ErrClosed) {
			t.Errorf("waiting query = %v, want ErrClosed", err)
		}
	}
	if err := h.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := h.Propose(ctx, 0, engine.Skip(0)); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("Propose after Close = %v, want ErrClosed", err)
	}
	if err := h.Query(ctx, 0, &toy.Counter{}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("Query after Close = %v, want ErrClosed", err)
	}
}

// TestLogIsBounded checks that the log does not grow without a flush of the state, even if the
// state hardly changes.
func TestLogIsBounded(t *testing.T) {
	noLeaks(t)
	c := config(vfs.NewMem())
	c.SegmentBytes, c.MaxLogBytes = 64<<10, 256<<10
	h := open(t, c)
	defer closeHost(t, h)
	ctx := context.Background()
	refused := toy.Command{Kind: toy.Add, Name: strings.Repeat("x", 4096), Delta: -1}.In(homed(0))
	deadline, largest := time.After(30*time.Second), int64(0)
	for h.shards[0].log.FirstIndex() < 100 {
		if _, err := h.Propose(ctx, 0, refused); !errors.Is(err, engine.ErrConflict) {
			t.Fatal(err)
		}
		largest = max(largest, h.ual.Size())
		select {
		case <-deadline:
			t.Fatalf("the log has grown to %d bytes and was never truncated", largest)
		default:
		}
	}
	if largest < c.MaxLogBytes {
		t.Errorf("the log was truncated at %d bytes already, want %d to be the reason", largest, c.MaxLogBytes)
	}
}

// TestHalt: a stopped core rejects everything that waits, and no longer leads.
func TestHalt(t *testing.T) {
	s := newStepper(t)
	s.lead()
	s.step(input{proposals: proposals(1, 10)})
	late, waiting := &read{}, &read{}
	s.core.reading[7] = []*read{waiting}
	why := errors.New("stopped")
	for range maxAppends {
		s.step(input{proposals: proposals(1, 10)})
	}
	flying := s.core.turns.laneOf(s.proposed[0].proposals[0])
	out := s.core.halt(input{proposals: proposals(2, 1), putOff: s.proposed[0].proposals, reads: []*read{late}}, why)
	if len(out.refused) != 4 { // one has waited for the appends
		t.Errorf("%d proposals are refused, want 4", len(out.refused))
	}
	for _, r := range out.refused {
		if r.err != why {
			t.Errorf("refused with %v", r.err)
		}
	}
	if len(out.unread) != 2 || out.unread[0] != late || out.unread[1] != waiting || len(s.core.reading) != 0 || !out.changed || !out.lost ||
		flying.flying != 0 || s.core.turns.waiting != 0 {
		t.Errorf("halt = %+v, %d bytes still in flight", out, flying.flying)
	}
	if again := s.core.halt(input{}, why); again.changed || again.lost || len(again.refused)+len(again.unread) > 0 || s.core.leader != 0 {
		t.Errorf("again: %+v, leader %d", again, s.core.leader)
	}
}

// TestJoined: joined lists keep their order, and the arguments are not written to.
func TestJoined(t *testing.T) {
	more := make([]int, 2, 4)
	copy(more, []int{3, 4})
	for _, c := range []struct{ list, more, want []int }{
		{nil, nil, nil}, {nil, more, []int{3, 4}}, {[]int{1}, more, []int{1, 3, 4}}, {[]int{1, 2}, nil, []int{1, 2}},
	} {
		if got := joined(c.list, c.more); !slices.Equal(got, c.want) {
			t.Errorf("joined(%v, %v) = %v, want %v", c.list, c.more, got, c.want)
		}
	}
	if _ = append(joined(nil, more), 5); more[:3][2] != 0 {
		t.Error("appending to the result has changed the argument")
	}
}

// TestHandOverHappensOnce: a leader without proposals hands over at once, and asks one node.
func TestHandOverHappensOnce(t *testing.T) {
	voters := []*stepper{newVoter(t, 1, 1, 2, 3), newVoter(t, 2, 1, 2, 3), newVoter(t, 3, 1, 2, 3)}
	old := voters[1]
	old.step(input{campaign: true})
	exchange(voters, 0)
	old.step(input{transfer: 3})
	asked := 0
	for _, m := range old.sent {
		if m.GetType() == raftpb.MsgTimeoutNow {
			if asked++; m.GetTo() != 3 {
				t.Errorf("node %d is asked", m.GetTo())
			}
		}
	}
	if asked != 1 || old.core.transferee != 0 || !old.core.transferring() {
		t.Errorf("%d nodes are asked, the next is %d, transferring %t", asked, old.core.transferee, old.core.transferring())
	}
	exchange(voters, 0)
	if !voters[2].core.isLeader || old.core.isLeader || old.core.leader != 3 {
		t.Errorf("node 3 leads: %t; the old one follows node %d", voters[2].core.isLeader, old.core.leader)
	}
}

// TestWakeAt: the loop wakes for timers only while the leader may propose a Fire.
func TestWakeAt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *core)
		wakes  bool
	}{
		"leads":            {func(*core) {}, true},
		"does not lead":    {func(c *core) { c.isLeader = false }, false},
		"fires":            {func(c *core) { c.firing = true }, false},
		"clock unknown":    {func(c *core) { c.clock = &shardClock{others: &clocks{}} }, false},
		"few appends":      {func(c *core) { c.appends = maxAppends - 1 }, true},
		"many appends":     {func(c *core) { c.appends = maxAppends }, false},
		"hands over":       {func(c *core) { c.transferee = 2 }, false},
		"has handed over":  {func(c *core) { c.rn.TransferLeader(2) }, true}, // a stranger: raft ignores it
		"refused, in time": {func(c *core) { c.fireRefused = true }, true},
	} {
		s := newStepper(t)
		s.lead()
		c.change(s.core)
		if got := s.core.wakeAt(1234); got != map[bool]int64{true: 1234, false: engine.NoTimer}[c.wakes] {
			t.Errorf("%s: wake at %d", name, got)
		}
	}
}

// TestStepBudget: a step proposes about 4 MiB, in entries of at most 1 MiB or one command.
func TestStepBudget(t *testing.T) {
	for _, c := range []struct {
		n, size int
		want    string // commands of each entry
	}{
		{10, maxEntryBytes, "[1 1 1 1]"}, {10, maxEntryBytes / 2, "[2 2 2 2]"}, {5, maxEntryBytes/2 + 1, "[1 1 1 1 1]"},
		{3, 3 * maxEntryBytes, "[1]"}, {9, maxEntryBytes / 4, "[4 4 1]"},
	} {
		s := newStepper(t)
		s.lead()
		s.step(input{proposals: proposals(c.n, c.size)})
		var sizes []int
		for _, e := range s.proposed {
			sizes = append(sizes, len(e.proposals))
		}
		if got := fmt.Sprint(sizes); got != c.want {
			t.Errorf("%d commands of %d bytes become entries of %s, want %s", c.n, c.size, got, c.want)
		}
	}
}

// TestSkipIsFirst: a leader that may have lost LSNs skips them before anything else, once in each
// time of leading.
func TestSkipIsFirst(t *testing.T) {
	s := newStepper(t)
	s.core.skipTo = 500
	s.step(input{campaign: true})
	s.settle()
	s.step(input{proposals: proposals(1, 10)})
	s.step(input{proposals: proposals(1, 10)})
	if len(s.proposed) != 3 || string(s.proposed[0].proposals[0].data) != string(engine.Skip(500).AppendTo(nil)) {
		t.Errorf("%d entries are proposed, the first is %q", len(s.proposed), s.proposed[0].proposals[0].data)
	}
	for i, e := range s.proposed {
		if e.sequence != uint64(i+1) {
			t.Errorf("entry %d has the number %d", i, e.sequence)
		}
	}
}

// TestReadsOfACore: reads of one step are confirmed together, at the commit index, unless the node
// does not lead.
func TestReadsOfACore(t *testing.T) {
	voters := []*stepper{newVoter(t, 1, 1, 2, 3), newVoter(t, 2, 1, 2, 3), newVoter(t, 3, 1, 2, 3)}
	leader := voters[0]
	leader.step(input{campaign: true})
	exchange(voters, 0)
	a, b := &read{}, &read{}
	if out := voters[1].core.Step(input{reads: []*read{a, b}, nextDue: engine.NoTimer}); len(out.unread) != 2 || len(out.readable) != 0 {
		t.Errorf("a follower answers %+v", out)
	}
	out := leader.core.Step(input{reads: []*read{a, b}, nextDue: engine.NoTimer})
	if len(out.unread)+len(out.readable) != 0 || len(leader.core.reading) != 1 || len(out.send) != 2 {
		t.Errorf("the leader answers %d and %d, and sends %d", len(out.unread), len(out.readable), len(out.send))
	}
	var answers []*raftpb.Message
	for _, m := range out.send {
		follower := voters[m.GetTo()-1]
		answers = append(answers, follower.core.Step(input{messages: []*raftpb.Message{m}, nextDue: engine.NoTimer}).send...)
	}
	out = leader.core.Step(input{messages: answers, nextDue: engine.NoTimer})
	if len(out.readable) != 1 || len(out.readable[0].reads) != 2 || out.readable[0].index != leader.log.Shard(0).LastIndex() ||
		out.readable[0].stamp != 0 || len(leader.core.reading) != 0 {
		t.Errorf("confirmed: %+v, %d are left", out.readable, len(leader.core.reading))
	}
	leader.core.Step(input{reads: []*read{a}, nextDue: engine.NoTimer})
	higher := &raftpb.Message{Type: raftpb.MsgApp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(leader.core.term + 1)}
	out = leader.core.Step(input{messages: []*raftpb.Message{higher}, nextDue: engine.NoTimer})
	if len(out.unread) != 1 || out.unread[0] != a || !out.lost || !out.changed || len(leader.core.reading) != 0 {
		t.Errorf("with the leadership lost: %+v", out)
	}
}

// TestPulledTakes: a command is followed by the takes that it may satisfy, up to the limit of an
// entry, in its lane.
func TestPulledTakes(t *testing.T) {
	s := newStepper(t)
	s.lead()
	var limits []int
	s.core.pull = func(m engine.Made, limit int) []*proposal {
		limits = append(limits, limit)
		return proposals(min(m.N, limit), 7)
	}
	makes := func(n int) *proposal {
		return &proposal{data: make([]byte, 10), makes: []engine.Made{{Topic: 1, N: n}}}
	}
	s.step(input{proposals: []*proposal{makes(2), makes(1), {data: make([]byte, 10)}, makes(300), makes(1)}})
	var sizes []int
	for _, e := range s.proposed {
		sizes = append(sizes, len(e.proposals))
		for _, p := range e.proposals {
			if p.lane == nil {
				t.Error("a take has no lane")
			}
		}
	}
	if fmt.Sprint(limits, sizes) != "[255 252 249 255] [256 2]" {
		t.Errorf("limits %v, entries of %v", limits, sizes)
	}
	lane := s.proposed[0].proposals[0].lane
	s.settle()
	if lane.flying != 0 {
		t.Errorf("%d bytes are in flight", lane.flying)
	}
}
