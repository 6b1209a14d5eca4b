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
// its only I/O is the log reads that raft requests. Thin loops, or a simulator, do the work that
// Step returns and pass the results to the next Step.
type core struct {
	node  uint64
	shard engine.ShardID
	rn    *raft.RawNode
	clock *shardClock
	first bool // see coreConfig

	leader   uint64
	term     uint64
	isLeader bool
	appends  int // outputs with entries that are not done

	transferee uint64 // gets the leadership once all proposals are applied; 0: none
	patience   int    // ticks until the transfer is given up

	reading   map[uint64][]*read // by round
	readRound uint64

	turns    turns // of proposals waiting for a place in an entry
	sequence uint64
	skipTo   engine.LSN // see Config.Durability: proposed first when this node becomes leader
	pull     func(m engine.Made, limit int) []*proposal

	firing      bool   // a Fire is in flight
	fireRefused bool   // raft rejected it
	skipped     bool   // skipTo was proposed in this time of leading
	term0       uint64 // term and vote as last written to the log
	vote0       uint64
}

// input is the events since the last step.
type input struct {
	ticks     int
	messages  []*raftpb.Message // of peers
	responses []*raftpb.Message // of appends and applies that are done
	appended  int               // completed appends with entries
	gather    bool              // propose all that is queued, however much is in flight
	proposals []*proposal
	putOff    []*proposal // had no room in their entry, and need another: see engine.ErrPutOff
	fired     bool        // the Fire command has been applied
	applied   uint64      // sequence of this node's last applied entry; 0: none since the last step
	nextDue   int64
	campaign  bool
	transfer  uint64 // node to hand leadership to, 0: none
	reports   []snapshotReport
	reads     []*read // that must see everything acknowledged before
	installed bool    // the state holds the snapshot of an append; for the loop
}

type snapshotReport struct {
	to uint64
	ok bool
}

// output is the work to do. It may be done concurrently, but appends must stay in order, and so
// must applies.
type output struct {
	send     []*raftpb.Message
	append   *appendTask
	apply    *applyTask
	proposed []proposedEntry // whose outcomes apply will return
	refused  []refusal       // definite: not in the log
	lost     bool            // leadership is lost: proposals may or may not be applied
	changed  bool            // leader or term changed
	readable []readable      // may proceed
	unread   []*read         // may not proceed: this node is not known to lead any more
}

// read is a query in flight; done receives nil when the state may answer it.
type read struct{ done chan error }

// readable are reads that may be answered from the state at an index, or any later one.
type readable struct {
	index uint64
	stamp int64 // and whose time is at least this
	reads []*read
}

// appendTask is work for the log. The responses are delivered to their targets once the update has
// the required durability.
type appendTask struct {
	update    raftlog.Update
	snapshot  *raftpb.Snapshot // to be installed first, by the applying side
	mustSync  bool             // term or vote changed: durable before any response, whatever the durability
	entries   bool
	responses []*raftpb.Message
}

// empty reports whether there is nothing to write and no response to send. Raft requests such an
// append when only the commit index has changed.
func (t *appendTask) empty() bool {
	return t.update.Reset == nil && t.update.HardState == nil && len(t.update.Entries) == 0 && len(t.responses) == 0
}

// applyTask is work for the state machine.
type applyTask struct {
	entries   []*raftpb.Entry
	responses []*raftpb.Message
}

// proposal is a command to be logged and applied.
type proposal struct {
	ctx  context.Context     // of the caller; nil for the shard's own
	data []byte              // encoded command
	size int64               // as counted in the queue
	done chan engine.Outcome // capacity 1, receives exactly one outcome; nil if unused
	fire bool                // the shard's own Fire

	namespace string    // of the command
	share     *share    // the share in which it is counted
	lane      *lane     // see turns
	next      *proposal // in the lane

	makes []engine.Made  // what it may make available to takes
	take  *engine.Taking // the take; nil: not a take
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
		MaxInflightBytes:          4 << 20, // for a slow connection even that is a lot
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
	first    bool   // tries to lead first: campaigns with every tick until there has been an election
	sequence uint64 // entries of this process are numbered from here; random, so that those of an earlier one never match
	skipTo   engine.LSN
	shared   int                                        // see sharedFlight
	pull     func(m engine.Made, limit int) []*proposal // takes that may be satisfied by what a command makes; nil: none
	logger   raft.Logger
}

// Step processes input and returns the work to do.
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

// holdBack makes messages of a new term, or after a vote, wait until the term or vote is durable.
// Raft itself holds back only responses. With asynchronous writes it requests votes at once, and
// they can make a candidate leader before its own term is on disk. If that node then loses power,
// it campaigns for the same term again and gets the same votes. So one term would have two leaders
// with different entries.
func holdBack(out *output) {
	if t := out.append; t != nil && t.update.HardState != nil {
		t.responses = append(t.responses, out.send...)
		out.send = nil
	}
}

func (c *core) feed(in input) {
	// Raft reports messages that it cannot use as errors, which are ignored.
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

// begins reports whether this node should be the first to lead the shard. Before the first election
// there is no leader to lose, so it need not wait for the election timeout. A pre-vote does no harm
// if the others are not listening yet, or have already elected a leader, because an election needs
// a quorum of answers.
func (c *core) begins() bool { return c.first && c.rn.BasicStatus().GetTerm() <= bornTerm }

// observeState detects changes of leader and term.
func (c *core) observeState(out *output) {
	st := c.rn.BasicStatus()
	isLeader := st.RaftState == raft.StateLeader
	if st.Lead != c.leader || st.GetTerm() != c.term || isLeader != c.isLeader {
		out.changed = true
	}
	if c.isLeader && (!isLeader || st.GetTerm() != c.term) {
		out.lost, c.firing, c.skipped, c.transferee = true, false, false, 0
		c.turns.end(math.MaxUint64) // the outcomes are reported elsewhere
		for _, reads := range c.reading {
			out.unread = append(out.unread, reads...)
		}
		clear(c.reading)
	}
	c.leader, c.term, c.isLeader = st.Lead, st.GetTerm(), isLeader
}

// read confirms with the other voters that this node still leads, once for all reads of a step
// (raft thesis, section 6.4). Heartbeats repeat the request until it is answered or leadership is
// lost.
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

// lead does the work of a leader: it proposes the queued commands and its own.
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

// halt is Step for a stopped shard: it no longer takes part in raft, and refuses all requests.
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

// transferLeadership transfers the leadership once all proposals are applied. Otherwise callers of
// proposals in flight would never learn their outcomes.
func (c *core) transferLeadership() {
	if c.transferee == 0 || c.appends > 0 {
		return
	}
	if st := c.rn.Status(); st.Applied >= st.Progress[c.node].Match {
		c.rn.TransferLeader(c.transferee)
		c.transferee = 0
	}
}

// transferring reports whether a leadership transfer is in progress. New proposals wait for this
// leader or the next one, because raft would drop them.
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

// nextBatch takes the proposals of the next entry from the waiting ones, and drops those whose
// callers have gone. It is empty if none may proceed now.
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
	// raft retains the slice, so it cannot be a reused buffer.
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
		c.fireRefused = c.fireRefused || p.fire // retried with the next tick
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
	// A changed commit index alone is not written, because raft finds it again, and the state
	// records the applied index.
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

// joined concatenates both lists. If one is empty, it returns the other without a copy.
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

// wakeAt returns the shard time at which the leader must be stepped for its timers, or NoTimer.
func (c *core) wakeAt(nextDue int64) int64 {
	if !c.isLeader || c.firing || !c.clock.ready() || c.appends >= maxAppends || c.transferring() {
		return math.MaxInt64
	}
	return nextDue
}
