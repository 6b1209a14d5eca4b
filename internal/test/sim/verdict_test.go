package sim

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/internal/test/toy"
	"github.com/floedb/floe/kv"
)

// verdict is the known history of a run, and its first error.
type verdict struct {
	sim      *sim
	history  *check.History
	cluster  *check.Cluster
	watch    *check.Watch
	watchers []*watcher
	suffix   *check.Suffix // for an async node
	looking  bool          // an auditor checks what survived a power failure; all other clients wait

	uses   map[string]int // of keys
	names  map[string]bool
	mortal map[[2]string]bool // namespace and key: with a time to live

	ledgers []ledger // by shard
	seen    map[uint64][]uint64
	terms   map[[2]uint64]uint64 // node and shard -> latest term that it has promised to others
	durable []uint64             // by shard: the index up to which the log must survive
	lossy   bool                 // acknowledged writes may have been lost
	added   int64
	unknown int64
}

// ledger holds the committed entries of a shard.
type ledger struct {
	entries map[uint64]uint64 // index -> hash of term and data
	credits map[uint64]int64  // index -> credit that the entry gives to toy counters
}

func newVerdict(s *sim) *verdict {
	v := &verdict{
		sim: s, history: check.NewHistory(), cluster: check.NewCluster(), watch: check.NewWatch(), suffix: check.NewSuffix(),
		uses: make(map[string]int), names: make(map[string]bool),
		mortal: make(map[[2]string]bool), seen: make(map[uint64][]uint64), terms: make(map[[2]uint64]uint64), ledgers: make([]ledger,
			s.plan.shards),
	}
	for id := range v.ledgers {
		v.ledgers[id] = ledger{entries: make(map[uint64]uint64), credits: make(map[uint64]int64)}
	}
	return v
}

// stepped checks a shard after a step of its core.
func (v *verdict) stepped(n *node, id engine.ShardID) {
	st := n.host.State(id)
	if !st.Leads {
		return
	}
	if err := v.cluster.Leader(id, st.Term, n.id); err != nil {
		v.sim.failf("%w", err)
	}
}

// sent checks a message. By some messages a node promises that it has durably stored the term and
// its vote.
func (v *verdict) sent(m *message) {
	switch m.raft.GetType() {
	case raftpb.MsgVoteResp, raftpb.MsgAppResp:
		if m.raft.GetReject() {
			return
		}
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
	default:
		return
	}
	of := [2]uint64{m.from, uint64(m.shard)}
	v.terms[of] = max(v.terms[of], m.raft.GetTerm())
}

// applied checks a shard after entries have been applied.
func (v *verdict) applied(n *node, id engine.ShardID) {
	a := n.host.State(id).Applied
	if from := v.seen[n.id][id]; from != a.Index {
		v.sim.trace.add(v.sim.now, "applied", n.id<<8|uint64(id), a.Index, a.Hash)
		v.commit(n, id, from, a)
		v.seen[n.id][id] = a.Index
	}
	if err := v.cluster.Applied(id, n.id, a); err != nil {
		v.sim.failf("%w", err)
	}
}

// commit notes entries that a node has applied: they are committed, and never change.
func (v *verdict) commit(n *node, id engine.ShardID, after uint64, a engine.Applied) {
	// After an installed snapshot the log may hold entries that were never committed, until it is
	// made to begin there.
	if last, err := n.host.Entry(id, a.Index); err != nil || last.GetTerm() != a.Term {
		return
	}
	l := &v.ledgers[id]
	for i := after + 1; i <= a.Index; i++ {
		e, err := n.host.Entry(id, i)
		if errors.Is(err, raft.ErrCompacted) || errors.Is(err, raft.ErrUnavailable) {
			continue // it came in a snapshot
		}
		if err != nil {
			v.sim.failf("node %d: shard %d: read entry %d: %v", n.id, id, i, err)
			return
		}
		h := xxhash.Sum64(e.GetData()) ^ e.GetTerm()
		if other, ok := l.entries[i]; ok && other != h {
			v.sim.failf("node %d: shard %d: entry %d of term %d is not the one that was committed", n.id, id, i, e.GetTerm())
		}
		l.entries[i] = h
		if l.credits[i], err = credit(e.GetData()); err != nil {
			v.sim.failf("shard %d: entry %d: %v", id, i, err)
		}
	}
}

// credit returns the amount that an entry adds to the toy counters, now or later.
func credit(data []byte) (sum int64, err error) {
	if len(data) == 0 {
		return 0, nil
	}
	var e engine.Entry
	if err := e.Decode(data); err != nil {
		return 0, err
	}
	for _, b := range e.Commands {
		cmd, err := engine.DecodeCommand(b)
		if err != nil {
			return 0, err
		}
		if cmd.Machine != engine.MachineTest || cmd.Kind == toy.Send {
			continue
		}
		c, err := toy.Decode(cmd)
		if err != nil {
			return 0, err
		}
		sum += c.Delta
	}
	return sum, nil
}

// started checks a node that has been opened.
func (v *verdict) started(n *node) {
	v.seen[n.id] = make([]uint64, v.sim.plan.shards)
	for id := range n.host.Shards() {
		id := engine.ShardID(id)
		st := n.host.State(id)
		v.seen[n.id][id] = st.Applied.Index
		if told := v.terms[[2]uint64{n.id, uint64(id)}]; st.Term < told {
			v.sim.failf("node %d: shard %d: it has given its word in term %d, and comes back in term %d", n.id, id, told, st.Term)
		}
		if v.lossy {
			v.lose(id, max(st.Last, st.Applied.Index))
		}
		if err := v.cluster.Applied(id, n.id, st.Applied); err != nil {
			v.sim.failf("after a restart: %w", err)
		}
	}
	if v.looking {
		v.sim.spawn(func(c *client) { v.lookForSuffix(c, n.life) })
	}
}

// lose forgets what a single node has lost in a power failure. Steps of its senders must not be
// repeated. A settlement could be, without the delivery that it depends on, if another node had
// sent it; that is why clusters are always sync.
func (v *verdict) lose(id engine.ShardID, after uint64) {
	v.sim.stale = nil
	l := &v.ledgers[id]
	if durable := v.durable[id]; after < durable {
		v.sim.failf("shard %d: only entries up to %d survived, those up to %d were durable", id, after, durable)
	}
	for i := range l.entries {
		if i > after {
			delete(l.entries, i)
			delete(l.credits, i)
		}
	}
	v.cluster.Lost(id, after)
}

func (v *verdict) ended(n *node) { v.cluster.Restart(n.id) }

// powerLost notes what must survive the power failure of a node.
func (v *verdict) powerLost(n *node) {
	if v.sim.plan.durability != shard.Async {
		return
	}
	v.lossy = true
	v.looking = true
	if !n.disk.stopped() {
		v.promise(n)
	}
}

// promise notes what must survive from now on.
func (v *verdict) promise(n *node) {
	v.durable = make([]uint64, n.host.Shards())
	for id := range n.host.Shards() {
		v.durable[id] = n.host.State(engine.ShardID(id)).Durable
	}
}

// note checks the outcome of a client's call; most errors are expected.
func (v *verdict) note(err error) {
	if err == nil {
		v.sim.counts["done"]++
		return
	}
	for _, known := range []error{engine.ErrUnavailable, engine.ErrUnknownOutcome, engine.ErrBusy, kv.ErrConflict, kv.ErrNotFound,
		kv.ErrInvalid} {
		if errors.Is(err, known) {
			v.sim.counts[known.Error()]++
			return
		}
	}
	v.sim.failf("a client got the error %w", err)
}

// told notes the outcome of a toy command.
func (v *verdict) told(c toy.Command, err error) {
	switch {
	case c.Kind == toy.Send:
	case err == nil:
		v.added += c.Delta
	case errors.Is(err, engine.ErrUnknownOutcome):
		v.unknown += c.Delta
	}
	v.note(err)
}

// audit is the work of the last client: it reads everything once more.
func (v *verdict) audit(c *client) {
	k := newKeyClient(c)
	for _, name := range slices.Sorted(maps.Keys(v.names)) {
		ns, key, _ := strings.Cut(name, "/")
		k.get(k.stores[ns], key)
	}
	for _, job := range v.sim.jobs {
		job.Audit(world{c})
	}
	emptyVaults(c)
	for _, w := range v.watchers {
		w.finish(c)
	}
	for _, name := range slices.SortedFunc(maps.Keys(v.mortal), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		v.expired(k, k.stores[name[0]], name[1])
	}
}

// expired waits until a key with a time to live is gone, and its timer has fired.
func (v *verdict) expired(c *keyClient, store *kv.Store, key string) {
	for deadline := v.sim.now + settleTime; ; {
		versions, err := engine.Collect(store.History(key).All(ctx, kv.NoValues()))
		if errors.Is(err, kv.ErrNotFound) || err == nil && versions[0].Tombstone {
			return
		}
		if !c.sleep(100 * time.Millisecond) {
			return
		}
		if v.sim.now > deadline {
			v.sim.failf("key %q of namespace %s should have expired: %v, %+v", key, store.Namespace(), err, versions)
		}
	}
}

// atRest reports whether every node has applied all of its log and nothing waits for time to pass,
// or for another shard.
func (v *verdict) atRest() bool {
	s := v.sim
	for id := range s.plan.shards {
		id := engine.ShardID(id)
		want := s.nodes[0].host.State(id).Applied
		for _, n := range s.nodes {
			st := n.host.State(id)
			if st.Applied != want || st.Last != want.Index || len(st.Targets) > 0 ||
				st.NextDue < n.host.Now(id)+int64(time.Hour/time.Millisecond) {
				return false
			}
		}
	}
	return s.leader(0) != nil && len(s.parcels) == 0
}

// final makes the checks that are only possible at the end.
func (v *verdict) final() {
	s := v.sim
	if err := v.sum(); err != nil {
		s.failf("%w", err)
	}
	for id := range s.plan.shards {
		if err := v.identical(engine.ShardID(id)); err != nil {
			s.failf("%w", err)
		}
	}
	for _, n := range s.nodes {
		if err := check.Replica(n.host); err != nil {
			s.failf("node %d: %w", n.id, err)
		}
	}
	if v.lossy {
		return // losses were checked after each power failure
	}
	if err := v.watch.Check(); err != nil {
		s.failf("%w", err)
	}
	if err := v.history.Check(); err != nil {
		s.failf("%w", err)
	}
}

// sum compares the credit of all counters with the amounts in the log, and those with the answers
// to clients.
func (v *verdict) sum() error {
	got, want := int64(0), int64(0)
	for id := range v.ledgers {
		q := toy.Sum{Namespace: toys}
		if err := v.sim.nodes[0].host.Query(engine.ShardID(id), &q); err != nil {
			return err
		}
		held := toy.Vaults{Namespace: toys}
		if err := v.sim.nodes[0].host.Query(engine.ShardID(id), &held); err != nil {
			return err
		}
		if held.Shipments != 0 {
			return fmt.Errorf("shard %d: %d shipments with %d are on their way for ever", id, held.Shipments, held.Shipped)
		}
		ns := engine.NamespaceQuery{Name: toys}
		if err := v.sim.nodes[0].host.Query(engine.ShardID(id), &ns); err != nil {
			return err
		}
		if c := ns.Info.Counts; c.Workflows != q.Count || c.Actions != held.Vaults || c.Jobs != 0 {
			return fmt.Errorf("shard %d: it counts %d counters, %d vaults and %d shipments, and has %d, %d and none",
				id, c.Workflows, c.Actions, c.Jobs, q.Count, held.Vaults)
		}
		got += q.Sum + held.Held
		for _, c := range v.ledgers[id].credits {
			want += c
		}
	}
	if got != want {
		return fmt.Errorf("the toy counters add up to %d, their log to %d", got, want)
	}
	if got > v.added+v.unknown || got < v.added && !v.lossy {
		return fmt.Errorf("the toy counters add up to %d, clients were told %d, and of %d they do not know", got, v.added, v.unknown)
	}
	return nil
}

// identical compares the rows of all replicas.
func (v *verdict) identical(id engine.ShardID) error {
	var want []byte
	for _, n := range v.sim.nodes {
		var b bytes.Buffer
		if err := n.host.WriteState(id, &b); err != nil {
			return fmt.Errorf("node %d: %w", n.id, err)
		}
		v.sim.trace.add(v.sim.now, "state", n.id, uint64(id), xxhash.Sum64(b.Bytes()))
		if want == nil {
			want = b.Bytes()
		} else if !bytes.Equal(b.Bytes(), want) {
			return fmt.Errorf("shard %d: nodes 1 and %d are at the same index with different rows", id, n.id)
		}
	}
	return nil
}
