package shard

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// member is a node whose directory is opened, copied and restored; it has no goroutine that
// contacts others.
type member struct {
	t    *testing.T
	id   uint64
	fs   *vfs.MemFS
	host *Host // nil: it is down
}

func newMember(t *testing.T, id uint64) *member {
	m := &member{t: t, id: id, fs: vfs.NewMem()}
	m.start()
	t.Cleanup(m.stop)
	return m
}

func (m *member) start() {
	m.t.Helper()
	m.stop()
	h, err := Open(Config{Dir: "node", FS: m.fs, Shards: 1, NodeID: m.id, Voters: []uint64{1, 2, 3},
		Primitives: []engine.Primitive{toy.Primitive()}})
	if err != nil {
		m.t.Fatal(err)
	}
	if err := h.Identify(); err != nil {
		m.t.Fatal(err)
	}
	m.host = h
}

func (m *member) stop() {
	if m.host != nil {
		m.host.Close()
		m.host = nil
	}
}

// copied returns a copy of the directory, as that of a node that is down.
func (m *member) copied() *vfs.MemFS {
	m.t.Helper()
	m.stop()
	old := vfs.NewMem()
	if _, err := vfs.Clone(m.fs, old, "node", "node"); err != nil {
		m.t.Fatal(err)
	}
	return old
}

// meet is a handshake: each judges the other's introduction from its beginning, the opener first.
func (m *member) meet(other *member) error {
	m.t.Helper()
	self, err := m.host.Introduce(other.id)
	must(m.t, err)
	theirs, err := other.host.Introduce(m.id)
	must(m.t, err)
	if err := m.host.Meet(theirs); err != nil {
		return fmt.Errorf("node %d refuses node %d: %w", m.id, other.id, err)
	}
	if err := other.host.Meet(self); err != nil {
		return fmt.Errorf("node %d refuses node %d: %w", other.id, m.id, err)
	}
	other.host.Confirmed(m.id)
	m.host.Confirmed(other.id)
	return nil
}

// TestMeetOlderCopy: a directory restored to an older copy is refused at each of its starts,
// however high their count. It used to be accepted once it had been started as often as the one
// before.
func TestMeetOlderCopy(t *testing.T) {
	node, judge := newMember(t, 2), newMember(t, 1)
	for range 3 {
		node.start()
		if err := judge.meet(node); err != nil {
			t.Fatalf("a node that was started again: %v", err)
		}
	}
	old, newest := node.copied(), node.fs
	for range 3 {
		node.start() // no node meets it
	}
	if err := judge.meet(node); err != nil {
		t.Fatalf("a node that was started some times since: %v", err)
	}
	node.fs = old
	for i := range 10 {
		node.start()
		if err := judge.meet(node); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("start %d of an older copy: %v, want ErrConflict", i+1, err)
		}
	}
	node.fs = newest
	if node.start(); judge.meet(node) != nil {
		t.Errorf("the newest one, started again, is refused")
	}
}

// TestMeetAfterManyStarts: a node that was away for thousands of starts of another node still
// recognizes it, and the record kept for that stays small. After 2,048 starts it used to refuse the
// other node forever, as one with an older copy of its directory.
func TestMeetAfterManyStarts(t *testing.T) {
	node, here, away := newMember(t, 3), newMember(t, 1), newMember(t, 2)
	must(t, here.meet(node))
	must(t, away.meet(node))
	for i := range 2100 {
		must(t, node.host.Identify())
		if i%100 == 0 {
			must(t, node.meet(here))
		}
	}
	for range 2 * maxShown { // and in some the connection was cut before it was confirmed
		must(t, node.host.Identify())
		_, err := node.host.Introduce(away.id)
		must(t, err)
	}
	if err := away.meet(node); err != nil {
		t.Errorf("after %d starts: %v", node.host.Identity().Boot, err)
	}
	if self, err := node.host.Introduce(away.id); err != nil || len(self.Shown) != 2 || len(shownTo(away.id, self.Shown)) != 1 ||
		len(shownTo(here.id, self.Shown)) != 1 {
		t.Errorf("it still remembers %d bytes of runs: %.300v, %v", len(fmt.Sprint(self.Shown)), self.Shown, err)
	}
}

// TestMeetRemembersEarlierBuilds: a directory that records all its runs, as earlier builds did, is
// recognized by others.
func TestMeetRemembersEarlierBuilds(t *testing.T) {
	node, other := newMember(t, 2), newMember(t, 1)
	must(t, other.meet(node))
	f := &node.host.identity.format
	f.Past, f.Shown = []string{"0123456789abcdef"}, nil
	must(t, node.host.Identify())
	if err := other.meet(node); err != nil || f.Past != nil {
		t.Errorf("%v; it keeps the runs %v", err, f.Past)
	}
}

// TestForkedHistory: an older copy of node 3's directory forms a quorum with node 2, which has not
// met its later life. Node 1 has met it, and the two do not have node 1's acknowledged writes, so
// it must join neither. Otherwise their replicas would diverge for good while all report themselves
// healthy.
func TestForkedHistory(t *testing.T) {
	for _, c := range []struct {
		name          string
		lived, forked int // starts of the true directory, and of the older copy, after the copy was made
		copyIsUpAgain bool
	}{
		{name: "as often", lived: 1, forked: 1},
		{name: "as often, and it is up", lived: 1, forked: 1, copyIsUpAgain: true},
		{name: "less often", lived: 4, forked: 1},
		{name: "more often", lived: 1, forked: 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			one, two, three := newMember(t, 1), newMember(t, 2), newMember(t, 3)
			for _, pair := range [][2]*member{{one, two}, {one, three}, {two, three}} {
				must(t, pair[0].meet(pair[1]))
			}
			old := three.copied()
			two.stop()
			for range c.lived {
				three.start()
				must(t, three.meet(one)) // and writes are acknowledged
			}
			one.stop()
			three.stop()
			three.fs = old
			two.start()
			for range c.forked {
				three.start()
				if err := three.meet(two); err != nil {
					t.Fatalf("node 2 cannot know: %v", err)
				}
			}
			one.start()
			if c.copyIsUpAgain {
				if err := one.meet(three); !errors.Is(err, engine.ErrConflict) {
					t.Errorf("node 1 meets the older copy: %v", err)
				}
			}
			for range 2 {
				for _, pair := range [][2]*member{{one, two}, {two, one}} {
					if err := pair[0].meet(pair[1]); !errors.Is(err, engine.ErrInvalid) ||
						!strings.Contains(err.Error(), "have met different copies of the data directory of node 3") {
						t.Errorf("node %d meets node %d: %v", pair[0].id, pair[1].id, err)
					}
				}
				one.start()
				two.start()
			}
		})
	}
}

// TestOneHistory: nodes that were away in turn, and met others in different runs, share one
// history.
func TestOneHistory(t *testing.T) {
	s := seed(t)
	rng := rand.New(rand.NewPCG(s, 1))
	nodes := []*member{newMember(t, 1), newMember(t, 2), newMember(t, 3)}
	for range 300 {
		a, b := nodes[rng.IntN(3)], nodes[rng.IntN(3)]
		switch {
		case a == b:
			must(t, a.host.Identify()) // as at a start
			a.host.identity.theirs = nil
			a.host.identity.clusters = nil
		case rng.IntN(4) == 0: // cut before any judgement
			_, err := a.host.Introduce(b.id)
			must(t, err)
		case rng.IntN(4) == 0: // cut before it was confirmed
			self, err := a.host.Introduce(b.id)
			must(t, err)
			must(t, b.host.Meet(self))
		default:
			must(t, a.meet(b))
		}
	}
}

// TestOlderCopyAmongOthers: a node that has not met the later life of a directory refuses an older
// copy of it, if it has met another node that has.
func TestOlderCopyAmongOthers(t *testing.T) {
	one, two, three := newMember(t, 1), newMember(t, 2), newMember(t, 3)
	must(t, two.meet(three))
	must(t, one.meet(three))
	old, newest := three.copied(), three.fs
	two.stop()
	three.start()
	must(t, three.meet(one))
	three.stop()
	two.start()
	must(t, two.meet(one))
	three.fs = old
	three.start()
	if err := two.meet(three); !errors.Is(err, engine.ErrConflict) || !strings.Contains(err.Error(), "an older copy") {
		t.Errorf("node 2 meets an older copy: %v", err)
	}
	three.stop()
	three.fs = newest
	three.start()
	must(t, two.meet(three))
	must(t, one.meet(three))
}

// TestForeignCluster: a directory of another cluster is reported by the node that has it, which
// fails once most nodes agree; it used to report the others as wiped. The others name that node,
// and continue.
func TestForeignCluster(t *testing.T) {
	voters := []uint64{1, 2, 3}
	open := func(node uint64) *Host {
		t.Helper()
		h, err := Open(Config{Dir: "node", FS: vfs.NewMem(), Shards: 1, NodeID: node, Voters: voters,
			Primitives: []engine.Primitive{toy.Primitive()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		if err := h.Identify(); err != nil {
			t.Fatal(err)
		}
		return h
	}
	meet := func(h, other *Host) error {
		self, err := other.Introduce(h.cfg.NodeID)
		must(t, err)
		return h.Meet(self)
	}
	var here, there []*Host
	for _, cluster := range []*[]*Host{&here, &there} {
		for _, node := range voters {
			*cluster = append(*cluster, open(node))
		}
		for range 2 { // twice, for nodes that met before node 1 knew its cluster
			for _, a := range *cluster {
				for _, b := range *cluster {
					if err := meet(a, b); a != b && err != nil {
						t.Fatalf("node %d meets node %d: %v", a.Identity().Node, b.Identity().Node, err)
					}
				}
			}
		}
	}
	stray := there[2]
	stray.identity.clusters = nil // restarted, among nodes of the other cluster
	for i, h := range here[:2] {
		if err := meet(h, stray); !errors.Is(err, engine.ErrInvalid) ||
			!strings.Contains(err.Error(), "node 3 has the data directory of another cluster") {
			t.Errorf("node %d says %v", i+1, err)
		}
		err := meet(stray, h)
		if !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("the stray says %v of node %d", err, i+1)
		}
		if failed := stray.Err(); (failed != nil) != (i == 1) ||
			i == 1 && !strings.Contains(failed.Error(),
				"the data directory node belongs to another cluster than those of the nodes [1 2]") {
			t.Errorf("after node %d the stray has failed with %v", i+1, failed)
		}
		if err := h.Err(); err != nil {
			t.Errorf("node %d has failed: %v", i+1, err)
		}
	}
}

// TestRunsOfOneHistory: two meetings with a node are of one history if the later run lists the
// earlier one.
func TestRunsOfOneHistory(t *testing.T) {
	met := func(directory string, boot uint64, run string, shown ...Shown) Meeting {
		return Meeting{Identity{3, directory, boot, run}, shown}
	}
	to := func(node uint64, runs ...string) Shown { return Shown{node, runs} }
	for name, c := range map[string]struct {
		a, b Meeting
		want bool
	}{
		"same run":                {met("d", 5, "r5", to(2)), met("d", 5, "r5", to(1)), true},
		"another directory":       {met("d", 5, "r5", to(2, "r5")), met("e", 5, "r5", to(1, "r5")), false},
		"another, without lists":  {met("d", 5, "r5"), met("e", 4, "r4"), false},
		"earlier one listed":      {met("d", 5, "r5", to(2, "r3", "r4")), met("d", 4, "r4", to(1, "x")), true},
		"earlier one not listed":  {met("d", 5, "r5", to(2, "r3")), met("d", 4, "r4", to(1, "r4")), false},
		"listed for another":      {met("d", 5, "r5", to(1, "r4")), met("d", 4, "r4", to(1, "r4")), false},
		"without lists":           {met("d", 5, "r5"), met("d", 4, "r4", to(1, "x")), true},
		"as often, another run":   {met("d", 5, "r5", to(2, "r4")), met("d", 5, "q5", to(1, "r4")), false},
		"as often, and it listed": {met("d", 5, "r5", to(2, "q5")), met("d", 5, "q5", to(1, "r4")), true},
	} {
		if got := oneHistory(1, c.a, 2, c.b); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
		if c.a.Boot != c.b.Boot && oneHistory(2, c.b, 1, c.a) != c.want {
			t.Errorf("%s, the other way round: %t, want %t", name, !c.want, c.want)
		}
	}
}

// TestMeetWipedDirectory: a node with another directory is refused, however often it was started.
// The name of the cluster is the directory of its first node.
func TestMeetWipedDirectory(t *testing.T) {
	first, node := newMember(t, 1), newMember(t, 2)
	if name := node.host.Cluster(); name != "" {
		t.Errorf("before any meeting the cluster is %q", name)
	}
	must(t, node.meet(first))
	if name := node.host.Cluster(); name == "" || name != first.host.Cluster() || name != first.host.Identity().Directory {
		t.Errorf("the clusters are %q and %q, want %q", name, first.host.Cluster(), first.host.Identity().Directory)
	}
	node.stop()
	node.fs = vfs.NewMem()
	for range 3 {
		node.start()
		self, err := node.host.Introduce(1)
		must(t, err)
		if err := first.host.Meet(self); !errors.Is(err, engine.ErrConflict) || !strings.Contains(err.Error(), "another data directory") {
			t.Errorf("start %d of a wiped node: %v", self.Boot, err)
		}
	}
}

// TestMeetLaterRuns: a later run must have a higher number, and list the one that was met.
func TestMeetLaterRuns(t *testing.T) {
	judge := newMember(t, 1).host
	is := func(boot uint64, run string, listed ...string) Introduction {
		return Introduction{Identity: Identity{2, "d", boot, run}, Shown: []Shown{{1, listed}}}
	}
	for i, c := range []struct {
		is Introduction
		ok bool
	}{
		{is(5, "r5", "r5"), true}, {is(5, "r5"), true}, {is(5, "q5", "r5", "q5"), false}, {is(4, "r4", "r5", "r4"), false},
		{is(6, "r6", "r4", "r6"), false}, {is(6, "r6", "r5", "r6"), true}, {is(5, "r5", "r5"), false}, {is(9, "r9", "r6"), true},
	} {
		if err := judge.Meet(c.is); (err == nil) != c.ok || err != nil && !errors.Is(err, engine.ErrConflict) {
			t.Errorf("meeting %d, with %+v: %v", i, c.is, err)
		}
	}
}

// TestIdentityNeedsItsDisk: an identity that could not be made durable is not used.
func TestIdentityNeedsItsDisk(t *testing.T) {
	node := newMember(t, 1)
	other, err := newMember(t, 2).host.Introduce(1)
	must(t, err)
	before := node.host.Identity()
	random := node.host.cfg.Random
	for n := range int64(16) {
		node.host.cfg.Random = io.LimitReader(random, n)
		if err := node.host.Identify(); err == nil || node.host.Identity() != before {
			t.Errorf("%d random bytes: %v, now %v", n, err, node.host.Identity())
		}
	}
	node.host.identity.format.Self.Directory = ""
	for _, n := range []int64{15, 31} {
		node.host.cfg.Random = io.LimitReader(random, n)
		if err := node.host.Identify(); err == nil || node.host.Identity().Directory != "" {
			t.Errorf("%d random bytes for a directory and a run: %v", n, err)
		}
	}
	node.host.identity.format.Self = before
	node.host.cfg.Random = random
	must(t, node.host.Close())
	_, introduced := node.host.Introduce(3)
	for what, err := range map[string]error{"Identify": node.host.Identify(), "Introduce": introduced, "Meet": node.host.Meet(other)} {
		if !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s of a closed host: %v", what, err)
		}
	}
	if node.host.Identity() != before {
		t.Errorf("the identity is %v, want %v", node.host.Identity(), before)
	}
	node.host = nil
}
