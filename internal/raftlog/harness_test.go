package raftlog

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const testDir = "node/ual"

// large makes segments of a few blocks of the crashing file system, so that a crash can tear holes
// into them.
func large(fs vfs.FS) Options {
	return Options{FS: fs, Dir: testDir, SegmentSize: 50_000, CacheBytes: 10_000, Random: sameMark{}}
}

// reusing makes segments of three blocks, which a driver that drops them early uses again and
// again.
func reusing(fs vfs.FS) Options {
	return Options{FS: fs, Dir: testDir, SegmentSize: 12_000, CacheBytes: 10_000, Random: sameMark{}}
}

// small makes segments of a few records and a cache of a few entries, so that short tests see many
// of both.
func small(fs vfs.FS) Options {
	return Options{FS: fs, Dir: testDir, SegmentSize: 700, CacheBytes: 1000, Random: sameMark{}}
}

// sameMark gives every log the same mark, so that runs can be repeated.
type sameMark struct{}

const testMark = 0x73737373

func (sameMark) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0x73
	}
	return len(p), nil
}

func mustOpen(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func reopen(t testing.TB, l *Log, o Options) *Log {
	t.Helper()
	must(t, "Close", l.Close())
	return mustOpen(t, o)
}

func must(t testing.TB, call string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
}

func entry(index, term uint64, data string) *raftpb.Entry {
	e := &raftpb.Entry{Index: new(index), Term: new(term), Type: raftpb.EntryNormal.Enum()}
	if data != "" {
		e.Data = []byte(data)
	}
	return e
}

// entries returns the entries from..to of one term, each with data that names it.
func entries(from, to, term uint64) []*raftpb.Entry {
	var es []*raftpb.Entry
	for i := from; i <= to; i++ {
		es = append(es, entry(i, term, fmt.Sprintf("entry %d of term %d", i, term)))
	}
	return es
}

func hard(term, vote, commit uint64) *raftpb.HardState {
	return &raftpb.HardState{Term: new(term), Vote: new(vote), Commit: new(commit)}
}

// state is what a log must contain: the model. The zero shardState is that of an unknown shard.
type state map[uint16]shardState

type shardState struct {
	hard      hardState
	compacted Position
	entries   []*raftpb.Entry // from compacted.Index+1 on
	reserved  uint64
}

func (s shardState) last() uint64 {
	return s.compacted.Index + uint64(len(s.entries))
}

func (s shardState) term(i uint64) uint64 {
	if i == s.compacted.Index {
		return s.compacted.Term
	}
	return s.entries[i-s.compacted.Index-1].GetTerm()
}

// settled is the state after a crash or close, with what Open mends.
func (s shardState) settled() shardState {
	if t := s.term(s.last()); s.hard.term < t {
		s.hard = hardState{term: t, commit: s.hard.commit}
	}
	if s.hard != (hardState{}) {
		s.hard.commit = max(min(s.hard.commit, s.last()), s.compacted.Index)
	}
	return s
}

func (s state) settled() state {
	out := state{}
	for id, sh := range s {
		out[id] = sh.settled()
	}
	return out
}

// effect is the smallest thing a log does or does not survive a crash with: one record.
type effect struct {
	kind  recordKind
	shard uint16
	pos   Position
	hard  hardState
	entry *raftpb.Entry
	mark  uint64
}

func (s state) apply(effects ...effect) state {
	out := make(state, len(s))
	for id, sh := range s {
		out[id] = sh
	}
	for _, e := range effects {
		sh := out[e.shard]
		switch e.kind {
		case kindReset:
			sh.compacted, sh.entries = e.pos, nil
		case kindHardState:
			sh.hard = e.hard
		case kindEntry:
			keep := e.entry.GetIndex() - sh.compacted.Index - 1
			sh.entries = append(sh.entries[:keep:keep], e.entry)
		case kindReserve:
			sh.reserved = max(sh.reserved, e.mark)
		case kindCompact:
			sh.entries = sh.entries[e.pos.Index-sh.compacted.Index:]
			sh.compacted = e.pos
		}
		out[e.shard] = sh
	}
	return out
}

func effectsOf(us []Update) []effect {
	var out []effect
	for _, u := range us {
		if u.Reset != nil {
			out = append(out, effect{kind: kindReset, shard: u.Shard, pos: *u.Reset})
		}
		if h := u.HardState; h != nil {
			h := hardState{h.GetTerm(), h.GetVote(), h.GetCommit()}
			out = append(out, effect{kind: kindHardState, shard: u.Shard, hard: h})
		}
		for _, e := range u.Entries {
			out = append(out, effect{kind: kindEntry, shard: u.Shard, entry: e})
		}
		if u.Reserve > 0 {
			out = append(out, effect{kind: kindReserve, shard: u.Shard, mark: u.Reserve})
		}
	}
	return out
}

// cutsOf is what Truncate(upTo) does in state s.
func (s state) cutsOf(upTo map[uint16]uint64) []effect {
	var out []effect
	for _, id := range slices.Sorted(maps.Keys(upTo)) {
		sh, i := s[id], min(upTo[id], s[id].last())
		if i > sh.compacted.Index {
			out = append(out, effect{kind: kindCompact, shard: id, pos: Position{Index: i, Term: sh.term(i)}})
		}
	}
	return out
}

// String prints a state so that two can be compared line by line.
func (s state) String() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(s)) {
		sh := s[id]
		fmt.Fprintf(&b, "shard %d: hard %v compacted %v reserved %d\n", id, sh.hard, sh.compacted, sh.reserved)
		for _, e := range sh.entries {
			fmt.Fprintf(&b, "  %d/%d %v %d:%08x\n", e.GetIndex(), e.GetTerm(), e.GetType(), len(e.GetData()),
				crc32.ChecksumIEEE(e.GetData()))
		}
	}
	return b.String()
}

// read returns everything a log says it contains.
func read(l *Log) (state, error) {
	out := state{}
	for _, id := range l.Shards() {
		s := l.Shard(id)
		first, last, h := s.FirstIndex(), s.LastIndex(), s.HardState()
		term, err := s.Term(first - 1)
		if err != nil {
			return nil, fmt.Errorf("Term(%d): %w", first-1, err)
		}
		es, err := s.Entries(first, last+1, math.MaxUint64)
		if err != nil {
			return nil, err
		}
		for _, e := range es {
			if got, err := s.Term(e.GetIndex()); err != nil || got != e.GetTerm() {
				return nil, fmt.Errorf("Term(%d) = %d, %v, the entry has %d", e.GetIndex(), got, err, e.GetTerm())
			}
		}
		out[id] = shardState{
			hard:      hardState{h.GetTerm(), h.GetVote(), h.GetCommit()},
			compacted: Position{Index: first - 1, Term: term},
			entries:   es,
			reserved:  s.Reserved(),
		}
	}
	return out, nil
}

func checkState(t testing.TB, what string, l *Log, want state) {
	t.Helper()
	got, err := read(l)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if got.String() != want.String() {
		t.Fatalf("%s: got\n%swant\n%s", what, got, want)
	}
}

// driver does random operations on a log and knows what must be in it, whatever happens.
type driver struct {
	rng    *rand.Rand
	log    *Log
	shards int

	base    state      // what history begins with
	history []effect   // what the log was asked for and did not refuse
	synced  int        // how much of history is durable for certain
	now     state      // base with history
	maybe   [][]effect // what may follow history after a crash: the call in flight, calls that failed
}

func newDriver(seed uint64, l *Log, shards int) *driver {
	return &driver{rng: rand.New(rand.NewPCG(seed, 1)), log: l, shards: shards, base: state{}, now: state{}}
}

// step does one operation and returns its error. A log of several segments is cut to one now and
// then.
func (d *driver) step() error {
	if d.log.Size() > 2*d.log.segmentSize && d.rng.IntN(3) == 0 {
		upTo := map[uint16]uint64{}
		for id, sh := range d.now {
			upTo[id] = sh.last()
		}
		return d.cut(upTo)
	}
	switch n := d.rng.IntN(24); {
	case n < 13:
		return d.write(d.updates())
	case n < 20:
		return d.sync()
	case n < 22:
		return d.truncate()
	case n < 23 || d.rng.IntN(4) > 0:
		return d.log.Prepare(context.Background())
	default:
		return d.log.ReleaseSpare()
	}
}

func (d *driver) write(us []Update) error {
	return d.attempt(effectsOf(us), func() error { return d.log.Write(us) })
}

// attempt calls fn, which is to have the given effects.
func (d *driver) attempt(effects []effect, fn func() error) error {
	d.maybe = append(d.maybe, effects)
	err := fn()
	if err == nil {
		d.history = append(d.history, effects...)
		d.now = d.now.apply(effects...)
		if len(effects) > 0 {
			d.maybe = nil // Something was written behind a failed call: what it left is cut off.
		} else {
			d.maybe = d.maybe[:len(d.maybe)-1]
		}
	}
	return err
}

func (d *driver) sync() error {
	n := len(d.history)
	err := d.log.Sync()
	if err == nil {
		d.synced = n
	}
	return err
}

func (d *driver) truncate() error {
	upTo := map[uint16]uint64{}
	for id := range uint16(d.shards) {
		if sh := d.now[id]; d.rng.IntN(3) > 0 {
			upTo[id] = sh.compacted.Index + uint64(d.rng.IntN(len(sh.entries)+2))
		}
	}
	return d.cut(upTo)
}

func (d *driver) cut(upTo map[uint16]uint64) error {
	cuts := d.now.cutsOf(upTo)
	err := d.attempt(cuts, func() error { return d.log.Truncate(upTo) })
	if err == nil && len(cuts) > 0 {
		d.synced = len(d.history)
	}
	return err
}

func (d *driver) updates() []Update {
	us := make([]Update, 1+d.rng.IntN(3))
	now := d.now
	for i := range us {
		us[i] = d.update(now)
		now = now.apply(effectsOf(us[i : i+1])...)
	}
	return us
}

func (d *driver) update(now state) Update {
	id := uint16(d.rng.IntN(d.shards))
	sh := now[id]
	u := Update{Shard: id}
	last, term := sh.last(), max(1, sh.term(sh.last()), sh.hard.term)
	switch d.rng.IntN(12) {
	case 0: // A snapshot was installed.
		last += uint64(d.rng.IntN(5))
		u.Reset = &Position{Index: last, Term: term}
	case 1, 2: // A new leader overwrites.
		term++
		last -= uint64(d.rng.IntN(len(sh.entries) + 1))
	case 3:
		u.Reserve = sh.reserved + 1 + uint64(d.rng.IntN(100))
	}
	if term != sh.hard.term || d.rng.IntN(3) == 0 {
		u.HardState = hard(term, uint64(d.rng.IntN(3)), last)
	}
	for range d.rng.IntN(4) {
		last++
		u.Entries = append(u.Entries, entry(last, term, d.data()))
	}
	return u
}

func (d *driver) data() string {
	n := d.rng.IntN(40)
	if rare := 1 + 20*700/d.log.segmentSize; d.rng.Int64N(rare) == 0 {
		n = d.rng.IntN(3000)
	}
	return string(bytes.Repeat([]byte{byte(d.rng.Uint32())}, n))
}

// survivors are the states that a crash may leave: all that is synced, and any prefix of the rest.
func (d *driver) survivors() []state {
	s := d.base.apply(d.history[:d.synced]...)
	out := []state{s}
	for _, e := range d.history[d.synced:] {
		s = s.apply(e)
		out = append(out, s)
	}
	for _, effects := range d.maybe {
		s := s
		for _, e := range effects {
			s = s.apply(e)
			out = append(out, s)
		}
	}
	return out
}

// checkSurvivor opens what a crash has left and returns the log, open, with its state.
func (d *driver) checkSurvivor(t testing.TB, what string, o Options) (*Log, state) {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatalf("%s: Open: %v", what, err)
	}
	got, err := read(l)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	candidates, text := d.survivors(), got.String()
	ok := slices.ContainsFunc(candidates, func(s state) bool { return s.settled().String() == text })
	if !ok {
		t.Fatalf("%s: got\n%swant one of %d states, from\n%sto\n%s", what, got, len(candidates),
			candidates[0].settled(), candidates[len(candidates)-1].settled())
	}
	for id, sh := range got {
		if durable := l.Shard(id).Durable(); durable != sh.last() {
			t.Fatalf("%s: shard %d: Durable() = %d after Open, want %d", what, id, durable, sh.last())
		}
	}
	return l, got
}
