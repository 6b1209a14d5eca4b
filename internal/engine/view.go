package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/wait"
)

// ErrWait is returned by a machine's Query that has nothing to answer yet, after it called
// View.WaitOn.
var ErrWait = errors.New("wait for the topic")

// View is what a query reads: the applied state of one shard, restricted to the machine's own rows.
type View struct {
	x       *Executor
	machine MachineID
	now     func() int64
	mono    func() int64 // nil: now
	frozen  *frozen
	counted string // namespace, see CountRead
	scratch []byte
	waiter  *wait.Waiter
	looked  *wait.Look // of a look on behalf of a take
	claims  []Topic
	duty    bool  // it is that of one
	wakeAt  int64 // of a duty
	scan    scan

	again     int64 // see LookAgainAt; 0: never
	stale     bool  // see Stale
	stamp     int64 // the log had come to it before anything was read
	asked     int64 // when the query came, by the clock; 0: nobody has wanted to know
	unsettled int64 // the latest time that the clock has come to and the log has not, and that matters; 0: none
}

// Now returns the shard's present time in ms since the epoch: never before the stamp of anything
// applied.
func (v *View) Now() int64 { return v.now() }

// Stamp returns the time to which the log has come, in what the view sees at least: what is applied
// later has no earlier stamp.
func (v *View) Stamp() int64 { return v.stamp }

// Mono returns the time of a clock of this process that nobody sets, in ms: differences alone mean
// something. Silence is measured with it.
func (v *View) Mono() int64 {
	if v.mono == nil {
		return v.now()
	}
	return v.mono()
}

// Passed reports whether something is over that ends at a time (ms). The log decides that: while it
// has not come to the time, an entry may be under way that was stamped before it, and puts the end
// off; and the next leader's clock may be behind. So once the clock has come to the time and the
// log has not, the query is asked again when it has, which is soon: the timer of that end takes it
// there.
func (v *View) Passed(at int64) bool {
	if at <= v.stamp {
		return true
	}
	if v.asked == 0 {
		v.asked = v.now()
	}
	if at > v.asked {
		return false
	}
	v.unsettled = max(v.unsettled, at)
	return true
}

// Beside returns a view of the rows of another machine, which sees the same state as this one, and
// that machine. It is for duties of machines that may look at those rows (see MayPeek); what they
// wait for is a matter of this view.
func (v *View) Beside(m MachineID) (*View, Machine) {
	if !MayPeek(v.machine, m) {
		panic(fmt.Sprintf("shard %d: machine %d may not read rows of machine %d", v.x.shard, v.machine, m))
	}
	v.Freeze()
	beside := &View{x: v.x, machine: m, now: v.now, frozen: v.frozen, stale: v.stale, stamp: v.stamp}
	beside.scan = scan{ctx: v.scan.ctx, stop: v.scan.stop, endless: v.scan.endless, fault: v.scan.fault}
	return beside, v.x.machine(m)
}

// Stale reports whether the replica may lag behind what has been acknowledged: what it does not
// know yet may exist.
func (v *View) Stale() bool { return v.stale }

// Shard returns the shard the query runs in.
func (v *View) Shard() ShardID { return v.x.shard }

// Shards returns the number of shards of the node.
func (v *View) Shards() int { return v.x.shards }

// Spread reports whether a namespace that the shard holds something of is spread over all shards.
func (v *View) Spread(name string) bool {
	ns := v.x.dir.visible(name)
	return ns != nil && ns.spread
}

// Here reports whether a name of a namespace lives in this shard, its home.
func (v *View) Here(namespace, name string) bool {
	return !v.Spread(namespace) || NameShard(namespace, name, v.x.shards) == v.x.shard
}

// Namespace returns the number that stands for the namespace in the shard's row keys, or false if
// the shard holds nothing of it.
func (v *View) Namespace(name string) (id uint32, ok bool) {
	ns := v.x.dir.visible(name)
	if ns == nil {
		return 0, false
	}
	return ns.id, true
}

// NamespaceName returns the name of the namespace with a number, or false if the shard holds
// nothing of it.
func (v *View) NamespaceName(id uint32) (name string, ok bool) {
	ns := v.x.dir.get(id)
	if ns == nil || v.x.dir.visible(ns.name) != ns {
		return "", false
	}
	return ns.name, true
}

// Counted returns a counter of the machine for a namespace as the view sees it, 0 if the shard
// holds nothing of that.
func (v *View) Counted(name string, c Counter) (int64, error) {
	ns := v.x.dir.visible(name)
	if ns == nil {
		return 0, nil
	}
	// Not the one in memory, which runs ahead of what is committed.
	row, ok, err := v.getRow(namespaceRow(v.rowKey(machineEngine), ns.id))
	if err != nil || !ok {
		return 0, err
	}
	got, err := v.x.table.decodeNamespace(row)
	if err != nil {
		return 0, err
	}
	return got.counts[v.x.table.base[v.machine]+int(c)], nil
}

// Waited reports whether the query has subscribed before in this call, and so was woken by whatever
// happened since. A call that is repeated, at another replica or at the same one, has not.
func (v *View) Waited() bool { return v.waiter != nil }

// CountRead counts a read of the namespace for its statistics, once the query has been answered.
func (v *View) CountRead(name string) { v.counted = name }

// Freeze makes all further reads of this view see one state.
func (v *View) Freeze() {
	if v.frozen == nil {
		v.frozen = &frozen{Snapshot: v.x.committed.db.NewSnapshot()}
	}
}

// LSN returns the LSN of the last change the view sees; it freezes the view.
func (v *View) LSN() (LSN, error) {
	v.Freeze()
	a, err := readApplied(v.reader(), v.x.shard)
	return a.LSN, err
}

// WaitOn subscribes the query to a topic before it returns ErrWait.
func (v *View) WaitOn(t Topic) error { return v.WaitTurn(t, v.Now()) }

// WaitTurn is WaitOn for who has waited since an earlier time (ms): it is woken before those who
// came later.
func (v *View) WaitTurn(t Topic, since int64) error { return v.wait(0, t, since) }

// WaitTurnWithin is WaitTurn for a topic that the notifier knows only to be within another, see
// Tx.NotifyWithin. It has to be the first wait of the query or take.
func (v *View) WaitTurnWithin(parent, t Topic, since int64) error { return v.wait(parent, t, since) }

// WaitApart is WaitOn for a wait of floe's own, which goes on all the time: it is not counted among
// those of users, and takes no place of theirs.
func (v *View) WaitApart(t Topic) error {
	if v.waiter == nil {
		v.waiter = wait.NewWaiter(v.Now())
		v.waiter.Background = true
	}
	return subscribed(v.x.hub.Subscribe(v.waiter, t))
}

func (v *View) wait(parent, t Topic, since int64) error {
	if v.looked != nil {
		if len(v.looked.Topics) == 0 {
			v.looked.Parent = parent
		}
		v.looked.WaitFor(t)
		return nil
	}
	if v.waiter == nil {
		v.waiter = wait.NewWaiter(since)
		v.waiter.Parent, v.waiter.Background = parent, v.duty
	}
	return subscribed(v.x.hub.Subscribe(v.waiter, t))
}

// Only says which kinds of what is made on its topics a take wants, if not all. All takes that have
// the same first topic have to want the same.
func (v *View) Only(s Slots) {
	if v.looked != nil {
		v.looked.Only = s
	}
}

// WakeAt makes a take that waits (see Taker) or a duty (see Lead.View) look again at a time, ms.
func (v *View) WakeAt(at int64) {
	if v.looked != nil {
		v.looked.WakeAt = min(v.looked.WakeAt, at)
	}
	v.wakeAt = min(v.wakeAt, at)
}

// Claim says that the answer tells of something that only one can take, and no more have been told
// than there is to take (Tx.Notify with a number). If the one told takes something else instead, it
// says so with PassOn; in case it is gone, the next one that waits for the topic is woken within
// 100 ms.
func (v *View) Claim(t Topic) { v.claims = append(v.claims, t) }

// Get returns a copy of the row's value.
func (v *View) Get(k []byte) (value []byte, ok bool, err error) {
	if !v.looksAt() {
		return nil, false, v.scan.err
	}
	if err := v.fails(); err != nil {
		return nil, false, err
	}
	value, ok, err = v.getRow(append(v.rowKey(v.machine), k...))
	v.holds(len(value))
	if v.scan.err != nil {
		return nil, false, v.scan.err
	}
	return value, ok, err
}

// Iter iterates over the rows with lower <= key < upper in key order. Close it. It ends early when
// nobody waits for the answer any more, or the node closes.
func (v *View) Iter(lower, upper []byte) (*Iter, error) {
	if err := v.fails(); err != nil {
		return nil, err
	}
	it, err := newIter(v.reader(), v.x.rowKey(nil, v.machine), lower, upper, nil)
	if err == nil {
		it.view = v
	}
	return it, err
}

func (v *View) reader() pebble.Reader {
	if v.frozen != nil {
		return v.frozen.Snapshot
	}
	return v.x.committed.db
}

func (v *View) rowKey(m MachineID) []byte {
	v.scratch = v.x.rowKey(v.scratch[:0], m)
	return v.scratch
}

func (v *View) getRow(k []byte) (value []byte, ok bool, err error) {
	x := v.x
	if v.frozen != nil {
		return v.frozen.get(k)
	}
	if !x.committed.caches(k) {
		return getRow(x.committed.db, k)
	}
	if value, ok := x.committed.rows.get(k); ok {
		return bytes.Clone(value), true, nil
	}
	seq := x.committed.rows.seq.Load()
	value, ok, err = getRow(x.committed.db, k)
	if ok {
		x.committed.rows.offer(seq, k, value)
	}
	return value, ok, err
}

// Cached returns a row of the machine whose key is kind, the number of the namespace (u32) and
// name, if it is in memory; hash is that of the name. It must not be changed. Unlike a query it
// does not wait, allocates nothing and does not say that there is no such row.
func (x *Executor) Cached(p *Place, m MachineID, kind byte, name string, hash uint64) (row []byte, ok bool) {
	ns := p.at(x)
	if ns == nil {
		return nil, false
	}
	return x.committed.rows.getNamed(m, kind, ns, name, hash)
}

// frozen is the state that a query sees from View.Freeze on.
type frozen struct {
	*pebble.Snapshot
	points *pebble.Iterator // for single rows: nil before the first
}

func (f *frozen) get(k []byte) (value []byte, ok bool, err error) {
	if f.points == nil {
		if f.points, err = f.NewIter(&pebble.IterOptions{UseL6Filters: true}); err != nil {
			return nil, false, fmt.Errorf("read state: %w", err)
		}
	}
	b, ok, err := seek(f.points, k)
	if err != nil {
		return nil, false, fmt.Errorf("read state: %w", err)
	}
	if ok {
		value = append(make([]byte, 0, len(b)), b...)
	}
	return value, ok, nil
}

func (f *frozen) close() {
	if f.points != nil {
		f.points.Close() // its error is that of the last seek
	}
	f.Close()
}

// getRow returns a copy of a row's value. It does not use Get of Pebble, which ignores the bloom
// filters of the lowest level: there a missing row would cost reading the block that could hold it,
// which is as large as the values beside it.
func getRow(r pebble.Reader, k []byte) (value []byte, ok bool, err error) {
	it, err := r.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return nil, false, fmt.Errorf("read state: %w", err)
	}
	b, ok, err := seek(it, k)
	if ok {
		value = append(make([]byte, 0, len(b)), b...)
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, false, fmt.Errorf("read state: %w", err)
	}
	return value, ok, nil
}

func (v *View) release() {
	if v.frozen != nil {
		v.frozen.close()
		v.frozen = nil
	}
}

// Remind makes good for claims that were not used, see View.Claim; it has to be called from time to
// time.
func (x *Executor) Remind() { x.hub.Renotify(math.MaxInt) }

// WakeAll makes all queries that wait look again.
func (x *Executor) WakeAll() { x.hub.NotifyAll() }

// Replica is what a query needs to know of the replica that answers it.
type Replica struct {
	Now  func() int64 // the shard's time
	Mono func() int64 // see View.Mono; nil: Now
	May  func() error // whether it may (still) answer; nil: always. WakeAll makes waiting queries ask again
	// Stale says that the replica may lag behind what has been acknowledged.
	Stale bool
	Stop  <-chan struct{} // closed when the replica stops
	// NoWait makes a query that would wait fail with context.Canceled.
	NoWait bool
	// Fault is called before each read; a read for which it returns an error fails with it. It is
	// for tests.
	Fault func() error
	// Settle returns when the log has come to a time that the clock has come to; nil for reads that
	// need not be linearizable.
	Settle func(ctx context.Context, at int64) error
}

// Query answers q, waiting within ctx when the machine asks to wait. It ends early, with ctx's
// error or ErrClosed, also while the machine looks at rows.
func (x *Executor) Query(ctx context.Context, q Query, r Replica) error {
	v := View{x: x, machine: q.Machine(), now: r.Now, mono: r.Mono, stale: r.Stale, scan: scan{ctx: ctx, stop: r.Stop, fault: r.Fault}}
	defer func() {
		if v.waiter != nil {
			x.hub.Unsubscribe(v.waiter)
		}
	}()
	for {
		subscribed := v.waiter != nil
		if r.May != nil {
			if err := r.May(); err != nil {
				return err
			}
		}
		v.claims = v.claims[:0]
		v.stamp, v.unsettled, v.again = x.published.stamp.Load(), 0, 0
		v.scan.rows, v.scan.bytes, v.scan.held, v.scan.skims = 0, 0, 0, false
		err := x.answer(&v, q)
		v.release()
		if x.checks.strict && r.Fault == nil { // a test repeats a query to have its reads fail
			x.checks.scanned.Add(int64(v.scan.rows))
		}
		if v.scan.err != nil {
			return v.scan.err
		}
		if v.unsettled != 0 && r.Settle != nil {
			if err := r.Settle(ctx, v.unsettled); err != nil {
				return err
			}
			continue
		}
		for _, t := range v.claims {
			x.hub.Offer(t)
		}
		if !errors.Is(err, ErrWait) {
			if err == nil && v.counted != "" {
				if ns := x.dir.visible(v.counted); ns != nil {
					ns.reads.Add(1)
				}
			}
			return err
		}
		// What happened between looking and subscribing has woken nobody: look once more after the
		// first time.
		if !subscribed {
			continue
		}
		v.letGo()
		if r.NoWait {
			return context.Canceled
		}
		select {
		case <-v.waiter.Woken():
			v.asked = 0
		case <-v.untilAgain():
			v.asked = 0
		case <-ctx.Done():
			return ctx.Err()
		case <-r.Stop:
			return Errorf(ErrClosed, "shard %d: closed while a query waited", x.shard)
		}
	}
}

func (x *Executor) answer(v *View, q Query) error {
	p := x.table.primitive(q.Machine())
	if p == nil {
		return Errorf(ErrInvalid, "no machine %d on this node", q.Machine())
	}
	kind := q.Kind()
	if kind == 0 || int(kind) > len(p.Queries) {
		return Errorf(ErrInvalid, "%s: unknown query %d", p.Name, kind)
	}
	return p.Queries[kind-1].answer(x.machine(q.Machine()), v, q)
}
