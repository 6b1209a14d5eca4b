package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// Namespaces of the workload: one is in a single shard, the others are spread.
const (
	nsSolo = "solo"
	nsWide = "wide"
	nsToys = "toys"

	nsProbe = "probe" // spread too; only for writes that the ledger ignores
)

// rigLedger is the model of a node: the effects of all client acts, in the order of each shard. A
// state of the node is valid if, in each shard, it is the fold of a prefix of the acts. That prefix
// may not be shorter than what must have survived, nor longer than what was issued.
//
//	acts of a shard    0 1 2 3 4 5 6 7 8
//	                       |     |     |
//	                  synced   acked   issued
//
// Refused acts are not part of it, so any trace of one fails the comparison, and so does any row
// that was never written.
type rigLedger struct {
	shards   [rigShards]rigShardLedger
	rows     map[string][]rigVersion // KV, by namespace/key
	counters map[string][]rigEntry   // of the toy machine, by name
	paidIn   []rigEntry              // in total, for everything related to vaults
}

// rigShardLedger is the history of one shard. The counts are read during file operations by
// goroutines of the node.
type rigShardLedger struct {
	acts   []*rigAct
	synced atomic.Int64 // acts that a power failure cannot take back, whatever the durability
	acked  atomic.Int64
	issued atomic.Int64

	highest atomic.Uint64 // highest revision seen, including acts that a crash took back
}

// rigAct is one command of a client.
type rigAct struct {
	what  string
	shard engine.ShardID
	at    int  // position in its shard
	void  bool // known not to have happened
}

// rigVersion is a value that an act gives to a key.
type rigVersion struct {
	act      *rigAct
	value    string
	gone     bool   // deleted
	expires  int64  // 0: never
	revision uint64 // 0: unknown
}

// rigEntry is an amount that an act adds to a counter from a certain time on.
type rigEntry struct {
	act   *rigAct
	delta int64
	due   int64
}

func newRigLedger() *rigLedger {
	return &rigLedger{rows: make(map[string][]rigVersion), counters: make(map[string][]rigEntry)}
}

// issue notes an act that is about to be proposed.
func (l *rigLedger) issue(id engine.ShardID, format string, args ...any) *rigAct {
	s := &l.shards[id]
	a := &rigAct{what: fmt.Sprintf(format, args...), shard: id, at: len(s.acts)}
	s.acts = append(s.acts, a)
	return a
}

// issued publishes the noted acts: they may happen from now on.
func (l *rigLedger) issued() {
	for i := range l.shards {
		l.shards[i].issued.Store(int64(len(l.shards[i].acts)))
	}
}

func (l *rigLedger) set(name string, v rigVersion)  { l.rows[name] = append(l.rows[name], v) }
func (l *rigLedger) credit(name string, e rigEntry) { l.counters[name] = append(l.counters[name], e) }
func (l *rigLedger) acked(id engine.ShardID)        { l.shards[id].acked.Store(int64(len(l.shards[id].acts))) }
func (l *rigLedger) revision(name string) *uint64   { return &l.rows[name][len(l.rows[name])-1].revision }

// synced notes that everything acknowledged so far is durable.
func (l *rigLedger) synced() {
	for i := range l.shards {
		l.shards[i].synced.Store(l.shards[i].acked.Load())
	}
}

// newRevision notes an assigned revision and checks that it is new.
func (l *rigLedger) newRevision(id engine.ShardID, revision uint64) error {
	s := &l.shards[id]
	if highest := s.highest.Load(); revision <= highest {
		return fmt.Errorf("shard %d gives out revision %d, and had given out %d before", id, revision, highest)
	}
	s.highest.Store(revision)
	return nil
}

// rigCut is the minimum and maximum number of a shard's acts that may have happened, and the
// highest assigned revision.
type rigCut struct {
	least, most int
	highest     uint64
}

// floor returns what a crash now must leave: what was acknowledged or, if unsynced data may be
// lost, what was synced.
func (l *rigLedger) floor(onlySynced bool) (cuts [rigShards]rigCut) {
	for i := range l.shards {
		s := &l.shards[i]
		cuts[i] = rigCut{least: int(s.acked.Load()), highest: s.highest.Load()}
		if onlySynced {
			cuts[i].least = int(s.synced.Load())
		}
	}
	return cuts
}

// upToNow completes a floor with what has been issued so far.
func (l *rigLedger) upToNow(cuts [rigShards]rigCut) [rigShards]rigCut {
	for i := range l.shards {
		cuts[i].most = int(l.shards[i].issued.Load())
	}
	return cuts
}

// at returns the key's value after the first upTo acts of its shard, and whether it exists at a
// time.
func (l *rigLedger) at(name string, upTo int, now int64) (rigVersion, bool) {
	for _, v := range slices.Backward(l.rows[name]) {
		if v.act.at < upTo && !v.act.void {
			return v, !v.gone && (v.expires == 0 || now < v.expires)
		}
	}
	return rigVersion{}, false
}

// now returns the key's value after all acts.
func (l *rigLedger) now(name string, now int64) (rigVersion, bool) { return l.at(name, 1<<62, now) }

// counter sums a counter after the first acts of each shard.
func (l *rigLedger) counter(name string, upTo [rigShards]int, now int64) (sum int64) {
	for _, e := range l.counters[name] {
		if e.act.at < upTo[e.act.shard] && !e.act.void && e.due <= now {
			sum += e.delta
		}
	}
	return sum
}

// survive drops all but the first upTo acts of each shard: the history continues from there after a
// crash.
func (l *rigLedger) survive(upTo [rigShards]int) {
	for i := range l.shards {
		s := &l.shards[i]
		for _, a := range s.acts[upTo[i]:] {
			a.void = true
		}
		s.acked.Store(int64(len(s.acts)))
		s.synced.Store(int64(len(s.acts)))
	}
}

// rigState is the observed contents of a node.
type rigState struct {
	rows     map[string]rigVersion
	counters map[string]int64
	vaults   int64 // total in purses, in vaults and in transit
}

// observeRig reads the whole contents of a rig through the API.
func observeRig(r *rig, l *rigLedger) (o rigState, err error) {
	o = rigState{rows: make(map[string]rigVersion), counters: make(map[string]int64)}
	ctx := context.Background()
	for _, ns := range []string{nsSolo, nsWide, nsToys, nsVaults} {
		for item, err := range r.store(ns).All(ctx) {
			if err != nil {
				return o, err
			}
			o.rows[ns+"/"+item.Key] = rigVersion{value: string(item.Value), revision: item.Revision}
		}
	}
	for name := range l.counters {
		q := toy.Counter{Namespace: nsToys, Name: name}
		if err := r.router.Query(ctx, nsToys, name, &q); err != nil {
			return o, err
		}
		o.counters[name] = q.Value
	}
	o.vaults, err = rigVaults(r)
	return o, err
}

// rigShardOf returns the shard of a row of the model.
func rigShardOf(row string) engine.ShardID {
	ns, name, _ := strings.Cut(row, "/")
	if ns == nsSolo {
		return engine.HomeShard(ns, rigShards)
	}
	return engine.NameShard(ns, name, rigShards)
}

// rigKeyIn returns a key of nsProbe in the shard.
func rigKeyIn(id engine.ShardID) string {
	for i := 0; ; i++ {
		if key := strconv.Itoa(i); engine.NameShard(nsProbe, key, rigShards) == id {
			return key
		}
	}
}

// isCredit reports whether a counter is filled by acts of other shards.
func isCredit(counter string) bool { return strings.HasPrefix(counter, "to:") }

// match finds, for each shard, the longest prefix of the acts that explains the observed state.
func (l *rigLedger) match(o rigState, cuts [rigShards]rigCut, now int64) (upTo [rigShards]int, err error) {
	for name := range o.rows {
		if _, ok := l.rows[name]; !ok {
			return upTo, fmt.Errorf("key %s holds %q, nobody wrote it", name, o.rows[name].value)
		}
	}
	for i, c := range cuts {
		found := false
		for p := c.most; p >= c.least && !found; p-- {
			if upTo[i] = p; l.differs(o, engine.ShardID(i), p, now) == "" {
				found = true
			}
		}
		if !found {
			return upTo, l.explain(o, engine.ShardID(i), c, now)
		}
	}
	for name, got := range o.counters {
		if want := l.counter(name, upTo, now); isCredit(name) && got != want {
			return upTo, fmt.Errorf("counter %s is %d; what was sent to it adds up to %d", name, got, want)
		}
	}
	if want := l.paid(upTo); o.vaults != want {
		return upTo, fmt.Errorf("purses, vaults and what is on the way come to %d; %d was paid in", o.vaults, want)
	}
	return upTo, nil
}

// differs returns the first difference between a shard and the first upTo of its acts.
func (l *rigLedger) differs(o rigState, id engine.ShardID, upTo int, now int64) string {
	for name := range l.rows {
		if rigShardOf(name) != id {
			continue
		}
		want, exists := l.at(name, upTo, now)
		got, found := o.rows[name]
		switch {
		case found != exists:
			return fmt.Sprintf("%s: found %v, want %v", name, found, exists)
		case found && got.value != want.value:
			return fmt.Sprintf("%s holds %.40q, want %.40q of act %d", name, got.value, want.value, want.act.at)
		case found && want.revision != 0 && got.revision != want.revision:
			return fmt.Sprintf("%s has revision %d, want %d", name, got.revision, want.revision)
		}
	}
	for name := range l.counters {
		if isCredit(name) || rigShardOf(nsToys+"/"+name) != id {
			continue
		}
		var all [rigShards]int
		all[id] = upTo
		if got, want := o.counters[name], l.counter(name, all, now); got != want {
			return fmt.Sprintf("counter %s is %d, want %d", name, got, want)
		}
	}
	return ""
}

// explain describes how a shard differs from its minimum and maximum expected states.
func (l *rigLedger) explain(o rigState, id engine.ShardID, c rigCut, now int64) error {
	var errs []error
	s := &l.shards[id]
	for p := c.least; p <= c.most; p++ {
		last := "none"
		if p > 0 {
			last = s.acts[p-1].what
		}
		errs = append(errs, fmt.Errorf("shard %d is not what %d acts (last: %s) lead to: %s", id, p, last, l.differs(o, id, p, now)))
	}
	for p := len(s.acts); p >= 0; p-- { // perhaps older than allowed
		if l.differs(o, id, p, now) == "" {
			errs = append(errs, fmt.Errorf("it is what %d acts lead to, but has to hold %d", p, c.least))
			break
		}
	}
	return errors.Join(errs...)
}

func rigDecimal(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
