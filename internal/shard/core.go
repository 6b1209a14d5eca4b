package shard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/raftlog"
)

// Sizes of the core.
const (
	maxEntryBytes    = 1 << 20 // commands of one entry; a larger command has an entry of its own
	maxEntryCommands = 256     // a small command can rewrite a large row, and an entry is applied as a whole
	maxStepBytes     = 4 << 20 // commands proposed by one step
	maxAppends       = 4       // appends in flight before proposals wait and gather
	maxUncommitted   = 64 << 20
	maxApplyingBytes = 8 << 20
	electionTicks    = 10
	bornTerm         = 1 // of a shard that has never had an election
)

// core is a shard's raft group as a step function: it has no goroutine, no lock and no clock, and
// does no I/O but reads of the log that raft asks for. Thin loops, or a simulator, carry out what
// Step returns and hand the outcome to the next Step.
type core struct {
	node  uint64
	shard engine.ShardID
	rn    *raft.RawNode
	clock *shardClock
	first bool // see coreConfig

	leader   uint64
	term     uint64
	isLeader bool
	appends  int // outputs with entries that have not come back

	transferee uint64 // gets the leadership when everything that has been proposed is applied; 0: nobody
	patience   int    // ticks after which that is given up

	reading   map[uint64][]*read // by round
	readRound uint64

	turns    turns // of what waits for a place in an entry
	sequence uint64
	skipTo   engine.LSN // see Config.Durability: proposed first when this node becomes leader
	pull     func(m engine.Made, limit int) []*proposal

	firing      bool   // a Fire is under way
	fireRefused bool   // raft would not take it
	skipped     bool   // skipTo has been proposed since this node leads
	term0       uint64 // term and vote as last written to the log
	vote0       uint64
}

// input is what happened since the last step.
type input struct {
	ticks     int
	messages  []*raftpb.Message // of peers
	responses []*raftpb.Message // of appends and applies that are done
	appended  int               // appends with entries that are done
	gather    bool              // propose whatever is queued, however much is in flight
	proposals []*proposal
	putOff    []*proposal // were in an entry, and have to be in another: see engine.ErrPutOff
	fired     bool        // the Fire command has been applied
	applied   uint64      // sequence of the last entry of this node that has been applied; 0: none since the last step
	nextDue   int64
	campaign  bool
	transfer  uint64 // node to hand leadership to, 0: none
	reports   []snapshotReport
	reads     []*read // that want to see everything acknowledged before
	installed bool    // the state holds the snapshot of an append; for the loop
}

type snapshotReport struct {
	to uint64
	ok bool
}

// output is what has to be done; all of it may be done concurrently, but appends in their order and
// applies in theirs.
type output struct {
	send     []*raftpb.Message
	append   *appendTask
	apply    *applyTask
	proposed []proposedEntry // to be expected from apply
	refused  []refusal       // definite: not in the log
	lost     bool            // leadership is lost: what has been proposed may or may not be applied
	changed  bool            // leader or term are new
	readable []readable      // may go on
	unread   []*read         // may not: this node is not, or no longer, known to lead
}

// read is a query on its way; done gets nil when the state may answer it.
type read struct{ done chan error }

// readable are reads that may be answered from the state at an index, or any later one.
type readable struct {
	index uint64
	stamp int64 // and whose time is this one, or later
	reads []*read
}

// appendTask is for the log. The responses are delivered to their targets once the update is as
// durable as it must be.
type appendTask struct {
	update    raftlog.Update
	snapshot  *raftpb.Snapshot // to be installed first, by the applying side
	mustSync  bool             // term or vote changed: durable before any response, whatever the durability
	entries   bool
	responses []*raftpb.Message
}

// empty reports whether there is nothing to write and nobody to tell: raft asks for that when only
// the commit index has moved.
func (t *appendTask) empty() bool {
	return t.update.Reset == nil && t.update.HardState == nil && len(t.update.Entries) == 0 && len(t.responses) == 0
}

// applyTask is for the state machine.
type applyTask struct {
	entries   []*raftpb.Entry
	responses []*raftpb.Message
}

// proposal is a command on its way into the log.
type proposal struct {
	ctx  context.Context     // of the caller; nil for the shard's own
	data []byte              // encoded command
	size int64               // that it is counted with in what is queued
	done chan engine.Outcome // capacity 1, gets exactly one outcome; nil if nobody waits
	fire bool                // the shard's own Fire

	namespace string    // of the command
	share     *share    // what of the queue it is counted for
	lane      *lane     // see turns
	next      *proposal // in the lane

	makes []engine.Made  // what it may make to take
	take  *engine.Taking // it is a take; nil: it is none
}

type proposedEntry struct {
	sequence  uint64
	proposals []*proposal
}

type refusal struct {
	p   *proposal
	err error
}

func newCore(c coreConfig) (*core, error) {
	rn, err := raft.NewRawNode(&raft.Config{
		ID:                        c.node,
		ElectionTick:              electionTicks,
		HeartbeatTick:             1,
		Storage:                   c.storage,
		Applied:                   c.applied,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             maxEntryBytes,
		MaxCommittedSizePerReady:  maxApplyingBytes,
		MaxUncommittedEntriesSize: maxUncommitted,
		MaxInflightMsgs:           256,
		MaxInflightBytes:          4 << 20, // for a slow way even that is a lot
		CheckQuorum:               true,
		PreVote:                   true,
		DisableProposalForwarding: true,
		Logger:                    c.logger,
	})
	if err != nil {
		return nil, fmt.Errorf("shard %d: start raft: %w", c.shard, err)
	}
	hs, _, err := c.storage.InitialState()
	if err != nil {
		return nil, err
	}
	return &core{
		node: c.node, shard: c.shard, rn: rn, clock: c.clock, first: c.first, sequence: c.sequence, skipTo: c.skipTo, pull: c.pull,
		turns: newTurns(c.shared), reading: make(map[uint64][]*read), term: hs.GetTerm(), term0: hs.GetTerm(), vote0: hs.GetVote(),
	}, nil
}

type coreConfig struct {
	node     uint64
	shard    engine.ShardID
	storage  raft.Storage
	applied  uint64
	clock    *shardClock
	first    bool   // leads before anybody else, if it can: asks for it with every tick until there has been an election
	sequence uint64 // entries of this process are numbered from here; random, so that those of an earlier one never match
	skipTo   engine.LSN
	shared   int                                        // see sharedFlight
	pull     func(m engine.Made, limit int) []*proposal // takes that can have something of what a command may make; nil: there are none
	logger   raft.Logger
}

// Step takes what happened and returns what is to be done.
func (c *core) Step(in input) output {
	var out output
	c.feed(in)
	if in.fired || in.ticks > 0 && c.fireRefused {
		c.firing, c.fireRefused = false, false
	}
	c.appends -= in.appended
	c.turns.end(in.applied)
	c.turns.putOff(in.putOff)
	for _, p := range in.proposals {
		c.turns.add(p, c.sequence+1)
	}
	c.observeState(&out)
	c.read(in.reads, &out)
	c.lead(in.nextDue, in.gather, &out)
	for c.rn.HasReady() {
		c.take(c.rn.Ready(), &out)
	}
	if out.append != nil && out.append.empty() {
		out.append = nil
	}
	holdBack(&out)
	c.observeState(&out)
	return out
}

// holdBack makes messages of a new term, or after a vote, wait until that is durable. Raft itself
// holds back only answers: with asynchronous writes it asks for votes at once, and votes of others
// can make a leader of a candidate whose own term is not on its disk. If that loses its power then,
// it asks for the same term again, gets the same votes, and there are two leaders of one term, with
// different entries.
func holdBack(out *output) {
	if t := out.append; t != nil && t.update.HardState != nil {
		t.responses = append(t.responses, out.send...)
		out.send = nil
	}
}

func (c *core) feed(in input) {
	// Raft reports messages it has no use for as errors; they are its own to ignore.
	for _, m := range in.responses {
		_ = c.rn.Step(m)
	}
	for _, m := range in.messages {
		_ = c.rn.Step(m)
	}
	for range in.ticks {
		c.rn.Tick()
	}
	for _, r := range in.reports {
		status := raft.SnapshotFailure
		if r.ok {
			status = raft.SnapshotFinish
		}
		c.rn.ReportSnapshot(r.to, status)
	}
	if in.campaign || in.ticks > 0 && c.begins() {
		_ = c.rn.Campaign()
	}
	if in.transfer != 0 && c.isLeader {
		c.transferee, c.patience = in.transfer, electionTicks
	} else if c.patience = max(c.patience-in.ticks, 0); c.patience == 0 {
		c.transferee = 0
	}
}

// begins reports whether this node has to be the first to lead the shard. As long as there has been
// no election nobody has a leader to lose, so that it need not wait for the election timeout. A
// pre-vote costs nothing if the others do not listen yet, or have elected already: only with a
// quorum of answers does an election follow, and with it the first term.
func (c *core) begins() bool { return c.first && c.rn.BasicStatus().GetTerm() <= bornTerm }

// observeState notices changes of leader and term.
func (c *core) observeState(out *output) {
	st := c.rn.BasicStatus()
	isLeader := st.RaftState == raft.StateLeader
	if st.Lead != c.leader || st.GetTerm() != c.term || isLeader != c.isLeader {
		out.changed = true
	}
	if c.isLeader && (!isLeader || st.GetTerm() != c.term) {
		out.lost, c.firing, c.skipped, c.transferee = true, false, false, 0
		c.turns.end(math.MaxUint64) // what becomes of it, others tell
		for _, reads := range c.reading {
			out.unread = append(out.unread, reads...)
		}
		clear(c.reading)
	}
	c.leader, c.term, c.isLeader = st.Lead, st.GetTerm(), isLeader
}

// read asks the other voters whether this node still leads, once for all reads of a step (raft
// thesis, section 6.4). Heartbeats repeat the question until it is answered or leadership is lost.
func (c *core) read(reads []*read, out *output) {
	switch {
	case len(reads) == 0:
	case !c.isLeader:
		out.unread = append(out.unread, reads...)
	default:
		c.readRound++
		c.reading[c.readRound] = slices.Clone(reads)
		c.rn.ReadIndex(binary.LittleEndian.AppendUint64(nil, c.readRound))
	}
}

// lead does what only a leader may: it proposes what is queued, and its own duties.
func (c *core) lead(nextDue int64, gather bool, out *output) {
	if !c.isLeader {
		c.refuseAll(out)
		return
	}
	c.transferLeadership()
	if c.transferring() || !c.clock.ready() || c.appends >= maxAppends && !gather {
		return
	}
	if c.skipTo > 0 && !c.skipped {
		c.skipped = true
		c.propose([]*proposal{{data: engine.Skip(c.skipTo).AppendTo(nil)}}, out)
	}
	if !c.firing && nextDue <= c.clock.now() {
		c.firing = true
		c.propose([]*proposal{{data: engine.Fire().AppendTo(nil), fire: true}}, out)
	}
	for budget := maxStepBytes; budget > 0; {
		batch, size := c.nextBatch(out)
		if len(batch) == 0 {
			return
		}
		c.propose(batch, out)
		budget -= size
	}
}

// halt is Step of a shard that has stopped: it takes part in nothing any more, and refuses what is
// asked of it.
func (c *core) halt(in input, why error) (out output) {
	c.turns.end(math.MaxUint64)
	c.turns.putOff(in.putOff)
	for _, p := range in.proposals {
		c.turns.add(p, c.sequence+1)
	}
	for c.turns.waiting > 0 {
		out.refused = append(out.refused, refusal{c.turns.take(), why})
	}
	out.unread = slices.Clone(in.reads)
	for _, reads := range c.reading {
		out.unread = append(out.unread, reads...)
	}
	clear(c.reading)
	out.changed, out.lost = c.leader != 0 || c.isLeader, c.isLeader
	c.leader, c.isLeader = 0, false
	return out
}

// transferLeadership gives the leadership away once all that was proposed is applied: callers of
// what is still under way would never know what became of it.
func (c *core) transferLeadership() {
	if c.transferee == 0 || c.appends > 0 {
		return
	}
	if st := c.rn.Status(); st.Applied >= st.Progress[c.node].Match {
		c.rn.TransferLeader(c.transferee)
		c.transferee = 0
	}
}

// transferring reports whether the leadership is on its way to another node. What is proposed now
// waits, for this leader or to be sent to the next one; raft would drop it.
func (c *core) transferring() bool {
	return c.transferee != 0 || c.rn.BasicStatus().LeadTransferee != 0
}

func (c *core) refuseAll(out *output) {
	if c.turns.waiting == 0 {
		return
	}
	err := &engine.NotLeaderError{Shard: c.shard, Node: c.node, Leader: c.leader}
	for c.turns.waiting > 0 {
		out.refused = append(out.refused, refusal{c.turns.take(), err})
	}
}

// nextBatch takes the proposals of the next entry from those that wait, dropping those whose
// callers have given up. It is empty if none may go on now.
func (c *core) nextBatch(out *output) (batch []*proposal, size int) {
	entry := c.sequence + 1
	for len(batch) < maxEntryCommands {
		p := c.turns.next(entry)
		if p == nil || len(batch) > 0 && size+len(p.data) > maxEntryBytes {
			break
		}
		if batch == nil {
			batch = make([]*proposal, 0, min(c.turns.waiting, maxEntryCommands))
		}
		c.turns.take()
		if p.ctx != nil && p.ctx.Err() != nil {
			out.refused = append(out.refused, refusal{p, p.ctx.Err()})
			continue
		}
		c.turns.begin(p, entry)
		batch = append(batch, p)
		size += len(p.data)
		for _, m := range p.makes {
			for _, take := range c.pull(m, maxEntryCommands-len(batch)) {
				take.lane = p.lane
				c.turns.begin(take, entry)
				batch = append(batch, take)
				size += len(take.data)
			}
		}
	}
	return batch, size
}

func (c *core) propose(batch []*proposal, out *output) {
	c.sequence++
	e := engine.Entry{Origin: c.node, Sequence: c.sequence, Stamp: c.clock.now()}
	size := 32
	for _, p := range batch {
		size += len(p.data) + 5
	}
	// raft keeps the slice: it can not be a reused buffer.
	data := e.AppendHeader(make([]byte, 0, size))
	for _, p := range batch {
		data = codec.AppendBytes(data, p.data)
	}
	err := c.rn.Propose(data)
	if err == nil {
		out.proposed = append(out.proposed, proposedEntry{c.sequence, batch})
		return
	}
	c.turns.undo(c.sequence)
	kind := engine.ErrUnavailable
	if errors.Is(err, raft.ErrProposalDropped) {
		kind = engine.ErrBusy // the leader's log is full of uncommitted entries
	}
	for _, p := range batch {
		c.fireRefused = c.fireRefused || p.fire // tried again with the next tick
		out.refused = append(out.refused, refusal{p, engine.Errorf(kind, "shard %d: %v", c.shard, err)})
	}
}

// take turns raft's Ready into tasks. Several Readys of one step become one append and one apply.
func (c *core) take(rd raft.Ready, out *output) {
	for _, rs := range rd.ReadStates {
		round := binary.LittleEndian.Uint64(rs.RequestCtx)
		if reads, ok := c.reading[round]; ok {
			out.readable = append(out.readable, readable{index: rs.Index, reads: reads})
			delete(c.reading, round)
		}
	}
	for _, m := range rd.Messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			c.takeAppend(m, out)
		case raft.LocalApplyThread:
			if out.apply == nil {
				out.apply = &applyTask{}
			}
			out.apply.entries = joined(out.apply.entries, m.GetEntries())
			out.apply.responses = joined(out.apply.responses, m.GetResponses())
		default:
			out.send = append(out.send, m)
		}
	}
}

func (c *core) takeAppend(m *raftpb.Message, out *output) {
	if out.append == nil {
		out.append = &appendTask{update: raftlog.Update{Shard: uint16(c.shard)}}
	}
	t := out.append
	// A changed commit index alone is not written: raft finds it out again, and apply remembers how
	// far it came.
	if m.Term != nil && (m.GetTerm() != c.term0 || m.GetVote() != c.vote0) {
		c.term0, c.vote0 = m.GetTerm(), m.GetVote()
		t.update.HardState = &raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
		t.mustSync = true
	}
	if s := m.GetSnapshot(); !raft.IsEmptySnap(s) {
		t.snapshot = s
		t.update.Reset = &raftlog.Position{Index: s.GetMetadata().GetIndex(), Term: s.GetMetadata().GetTerm()}
		t.update.Entries = nil
	}
	if es := m.GetEntries(); len(es) > 0 {
		if !t.entries {
			t.entries = true
			c.appends++
		}
		t.update.Entries = mergeEntries(t.update.Entries, es)
	}
	t.responses = joined(t.responses, m.GetResponses())
}

// joined returns both lists in one. Mostly there is only one, which then stays where raft has put
// it, and as it is.
func joined[T any](list, more []T) []T {
	if len(list) == 0 {
		return more[:len(more):len(more)]
	}
	return append(list, more...)
}

// mergeEntries appends more to es, or replaces what more overwrites.
func mergeEntries(es, more []*raftpb.Entry) []*raftpb.Entry {
	if len(es) == 0 {
		return more
	}
	if keep := int(more[0].GetIndex()) - int(es[0].GetIndex()); keep < len(es) {
		es = es[:max(keep, 0)]
	}
	return append(es[:len(es):len(es)], more...)
}

// wakeAt returns when the leader has to be stepped for its timers, in shard time, or NoTimer.
func (c *core) wakeAt(nextDue int64) int64 {
	if !c.isLeader || c.firing || !c.clock.ready() || c.appends >= maxAppends || c.transferring() {
		return math.MaxInt64
	}
	return nextDue
}
