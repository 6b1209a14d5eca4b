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

// ErrWait is returned by a machine's Query that has no answer yet, after it has called View.WaitOn.
var ErrWait = errors.New("wait for the topic")

// View is the applied state of one shard as a query reads it, restricted to the machine's own rows.
type View struct {
	x       *Executor
	machine MachineID
	now     func() int64
	mono    func() int64 // nil: now
	frozen  *frozen
	counted string // namespace, see CountRead
	scratch []byte
	waiter  *wait.Waiter
	looked  *wait.Look // for the look of a take
	claims  []Topic
	duty    bool  // the view belongs to a duty
	wakeAt  int64 // of a duty
	scan    scan

	again     int64 // see LookAgainAt; 0: never
	stale     bool  // see Stale
	stamp     int64 // the log had reached it before anything was read
	asked     int64 // clock time at which the query came; 0: not needed so far
	unsettled int64 // the latest relevant time that the clock has reached and the log has not; 0: none
}

// Now returns the shard's present time in ms since the epoch. It is never before the stamp of an
// applied entry.
func (v *View) Now() int64 { return v.now() }

// Stamp returns a time that the log has reached in the state of the view. Later entries have no
// earlier stamp.
func (v *View) Stamp() int64 { return v.stamp }

// Mono returns the time of a monotonic clock of this process, in ms. Only differences are
// meaningful. It measures silence.
func (v *View) Mono() int64 {
	if v.mono == nil {
		return v.now()
	}
	return v.mono()
}

// Passed reports whether a period that ends at a time (ms) is over, by the time of the log. Until
// the log has reached the time, an entry with an earlier stamp may be in flight and postpone the
// end, and the next leader's clock may be behind. So if the clock has reached the time and the log
// has not, the query runs again when the log has. That is soon, because the timer of that end
// advances the log.
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

// Beside returns a view of the rows of another machine in the same state as this view, and that
// machine. It is for duties of machines that may read those rows (see MayPeek); their waits are
// those of this view.
func (v *View) Beside(m MachineID) (*View, Machine) {
	if !MayPeek(v.machine, m) {
		panic(fmt.Sprintf("shard %d: machine %d may not read rows of machine %d", v.x.shard, v.machine, m))
	}
	v.Freeze()
	beside := &View{x: v.x, machine: m, now: v.now, frozen: v.frozen, stale: v.stale, stamp: v.stamp}
	beside.scan = scan{ctx: v.scan.ctx, stop: v.scan.stop, endless: v.scan.endless, fault: v.scan.fault}
	return beside, v.x.machine(m)
}

// Stale reports whether the replica may lag behind acknowledged writes. An object that it does not
// have yet may exist.
func (v *View) Stale() bool { return v.stale }

// Shard returns the shard in which the query runs.
func (v *View) Shard() ShardID { return v.x.shard }

// Shards returns the number of shards of the node.
func (v *View) Shards() int { return v.x.shards }

// Spread reports whether a namespace is spread over all shards, if the shard holds a part of it.
func (v *View) Spread(name string) bool {
	ns := v.x.dir.visible(name)
	return ns != nil && ns.spread
}

// Here reports whether a name of a namespace lives in this shard, its home.
func (v *View) Here(namespace, name string) bool {
	return !v.Spread(namespace) || NameShard(namespace, name, v.x.shards) == v.x.shard
}

// Namespace returns the number of the namespace in the shard's row keys, or false if the shard does
// not have it.
func (v *View) Namespace(name string) (id uint32, ok bool) {
	ns := v.x.dir.visible(name)
	if ns == nil {
		return 0, false
	}
	return ns.id, true
}

// NamespaceName returns the name of the namespace with a number, or false if the shard does not
// have it.
func (v *View) NamespaceName(id uint32) (name string, ok bool) {
	ns := v.x.dir.get(id)
	if ns == nil || v.x.dir.visible(ns.name) != ns {
		return "", false
	}
	return ns.name, true
}

// Counted returns a counter of the machine for a namespace as the view sees it, or 0 if the shard
// does not have the namespace.
func (v *View) Counted(name string, c Counter) (int64, error) {
	ns := v.x.dir.visible(name)
	if ns == nil {
		return 0, nil
	}
	// The counter in memory is ahead of the committed state.
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

// Waited reports whether the query has already subscribed in this call, so that any event since has
// woken it. A repeated call, at another replica or the same one, has not.
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

// WaitTurn is WaitOn for a query that has waited since an earlier time (ms). It is woken before
// later waiters.
func (v *View) WaitTurn(t Topic, since int64) error { return v.wait(0, t, since) }

// WaitTurnWithin is WaitTurn for a topic that belongs to a parent topic, which the notifier uses;
// see Tx.NotifyWithin. It must be the first wait of the query or take.
func (v *View) WaitTurnWithin(parent, t Topic, since int64) error { return v.wait(parent, t, since) }

// WaitApart is WaitOn for a permanent wait of floe itself. It does not count towards the limit of
// waiters.
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

// Only restricts the kinds of items that a take accepts on its topics. All takes with the same
// first topic must accept the same kinds.
func (v *View) Only(s Slots) {
	if v.looked != nil {
		v.looked.Only = s
	}
}

// WakeAt makes a waiting take (see Taker) or a duty (see Lead.View) check the state again at a
// time, ms.
func (v *View) WakeAt(at int64) {
	if v.looked != nil {
		v.looked.WakeAt = min(v.looked.WakeAt, at)
	}
	v.wakeAt = min(v.wakeAt, at)
}

// Claim declares that the answer offers an item that only one caller can take, and that no more
// callers were woken than there are items (Tx.Notify with a number). A caller that takes another
// item instead calls PassOn. If the caller is gone, the next waiter of the topic is woken within
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
// no caller waits for the answer, or the node closes.
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

// Cached returns the row of the machine with the key of kind, namespace number (u32) and name, if
// it is in memory; hash is that of the name. The row must not be changed. Unlike a query, Cached
// does not wait, allocates nothing, and cannot detect that a row does not exist.
func (x *Executor) Cached(p *Place, m MachineID, kind byte, name string, hash uint64) (row []byte, ok bool) {
	ns := p.at(x)
	if ns == nil {
		return nil, false
	}
	return x.committed.rows.getNamed(m, kind, ns, name, hash)
}

// frozen is the state that a query sees after View.Freeze.
type frozen struct {
	*pebble.Snapshot
	points *pebble.Iterator // for single rows; nil before the first lookup
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

// getRow returns a copy of a row's value. It does not use Pebble's Get, which ignores the bloom
// filters of the lowest level. For a missing row it would read the block that could contain it,
// which is as large as the neighbouring values.
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

// Remind wakes the next waiters for unused claims; see View.Claim. It must be called from time to
// time.
func (x *Executor) Remind() { x.hub.Renotify(math.MaxInt) }

// WakeAll makes all waiting queries check the state again.
func (x *Executor) WakeAll() { x.hub.NotifyAll() }

// Replica has the properties of the answering replica that a query needs.
type Replica struct {
	Now  func() int64 // the shard's time
	Mono func() int64 // see View.Mono; nil: Now
	May  func() error // error if it may not answer, or no longer; nil: it always may. WakeAll makes waiting queries call it again
	// Stale means that the replica may lag behind acknowledged writes.
	Stale bool
	Stop  <-chan struct{} // closed when the replica stops
	// NoWait makes a query that would wait fail with context.Canceled.
	NoWait bool
	// Fault is called before each read; if it returns an error, the read fails with it. It is for
	// tests.
	Fault func() error
	// Settle returns when the log has reached a time that the clock has already reached; nil for
	// reads that need not be linearizable.
	Settle func(ctx context.Context, at int64) error
}

// Query answers q. If the machine returns ErrWait, it waits until ctx ends. It ends early, with
// ctx's error or ErrClosed, even while the machine reads rows.
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
		if x.checks.strict && r.Fault == nil { // a test repeats a query to make its reads fail
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
		// A change between the read and the subscription woke no query, so read once more after the
		// first subscription.
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
