package action

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// invoked is the result of kindInvoke.
type invoked struct {
	runLocation
	duplicate bool
	lsn       uint64
}

func (i *invoked) code(c *codec.Coder) {
	i.runLocation.code(c)
	c.Bool(&i.duplicate)
	c.Uvarint(&i.lsn)
}

// invoke creates a run.
func (w *work) invoke(v *protocol.Invoke) ([]byte, error) {
	v.Name = w.name
	res, err := w.begin(v)
	if err != nil {
		return nil, err
	}
	return encode(nil, &res, (*invoked).code), nil
}

// begin creates a run. On error nothing has changed, so the command may continue.
func (w *work) begin(v *protocol.Invoke) (res invoked, err error) {
	a := w.action(v.Name)
	switch {
	case a == nil:
		return res, notFound(v.Name)
	case !a.enabled:
		return res, engine.Errorf(ErrConflict, "action %q is disabled", v.Name)
	}
	ref := protocol.Ref{Action: a.id, Run: uint64(w.tx.LSN()), Tag: w.tx.Tag()}
	res = invoked{runLocation: runLocation{w.tx.Shard(), ref}, lsn: uint64(w.tx.LSN())}
	keyed := v.IdempotencyKey != "" && !v.Repeated
	if keyed {
		if res.Ref, res.duplicate, err = a.recall(v); err != nil || res.duplicate {
			if res.duplicate && v.Awaited && a.active(res.Ref) {
				a.await(res.Ref)
			}
			return res, err
		}
		res.Ref = ref
	}
	if err := a.place(v); err != nil {
		return res, err
	}
	if err := a.checkSet(v.Labels); err != nil {
		return res, err
	}
	if keyed {
		a.remember(ref, v)
	}
	a.insert(ref, v, a.setOf(v.Labels))
	return res, nil
}

// place returns an error if the run must be in another shard of a spread namespace.
func (a *act) place(v *protocol.Invoke) error {
	if route := a.route(v); a.tx.Spread() && route != "" && !a.tx.Here(route) {
		return &placeError{a.name, route}
	}
	return nil
}

// route returns a name whose shard must hold the run, "" if any shard can. Runs under a limit are
// at the home of the action, so that the limit holds. So are those of an action whose name has a
// {tag}, for transactions with other objects of that tag.
//
// A run with an idempotency key is in the shard of that key, where a repeat looks for it. If the
// action has or had limits, the run is at the home. A repeat still looks in the shard of the key
// first, which may have an earlier run, but creates no run there. So a change of limits never
// duplicates a run. Machines look for their runs in their own shard.
func (a *act) route(v *protocol.Invoke) string {
	keyed := v.IdempotencyKey != "" && v.Notify.Machine == 0
	switch {
	case a.limited(v.ConcurrencyKey), keyed && a.homed, engine.Tagged(a.name):
		return a.name
	case keyed:
		return keyRoute(a.name, v.IdempotencyKey)
	}
	return ""
}

// keyRoute is the name that routes an idempotency key of an action to its shard.
func keyRoute(action, key string) string { return action + "\x00" + key }

// placeError rejects a run that must be in the shard of another name. Users never see it.
type placeError struct{ action, route string }

func (e *placeError) Error() string {
	return engine.Text("action %q: its limits, or the idempotency key, ask for another shard", e.action)
}

// CallRoute returns a name whose shard can hold the run; it is for machines that invoke actions.
func (e *placeError) CallRoute() string { return e.route }

// Unwrap returns ErrConflict.
func (e *placeError) Unwrap() error { return ErrConflict }

func (e *placeError) code(c *codec.Coder) {
	c.String(&e.action)
	c.String(&e.route)
}

// keyRow is the value of a row 'k'.
type keyRow struct {
	ref   protocol.Ref
	hash  uint64
	until int64
	over  bool // its 24 h are over: it counts only until the run has ended
}

func (k *keyRow) code(c *codec.Coder) {
	k.ref.Code(c)
	c.Fixed64(&k.hash)
	c.Varint(&k.until)
	if c.More(k.over) {
		c.Bool(&k.over)
	}
}

// recall returns the run with the given idempotency key, if any.
func (a *act) recall(v *protocol.Invoke) (earlier protocol.Ref, found bool, err error) {
	b, ok := a.tx.Get(append(numberKey(nil, rowKey, a.id), v.IdempotencyKey...))
	if !ok {
		return earlier, false, nil
	}
	row := must(decode(b, (*keyRow).code))
	if (row.over || row.until <= a.tx.Now()) && !a.active(row.ref) {
		return earlier, false, nil
	}
	if row.hash != xxhash.Sum64(v.Input) {
		return earlier, false, engine.Errorf(ErrConflict, "action %q: idempotency key %q was used with another input", a.name,
			v.IdempotencyKey)
	}
	return row.ref, true, nil
}

// remember stores the idempotency key of a run. It may replace the key of a run that is no longer
// protected.
func (a *act) remember(ref protocol.Ref, v *protocol.Invoke) {
	if b, ok := a.tx.Get(append(numberKey(nil, rowKey, a.id), v.IdempotencyKey...)); ok {
		row := must(decode(b, (*keyRow).code))
		a.tx.Delete(append(timeKey(nil, rowKeyEnd, a.id, row.until), v.IdempotencyKey...))
	}
	a.setKey(v.IdempotencyKey, keyRow{ref: ref, hash: xxhash.Sum64(v.Input), until: a.tx.Now() + idempotencyMillis})
}

// setKey writes an idempotency key and its expiry.
func (a *act) setKey(name string, row keyRow) {
	a.tx.Set(append(numberKey(nil, rowKey, a.id), name...), encode(nil, &row, (*keyRow).code))
	a.tx.Set(append(timeKey(nil, rowKeyEnd, a.id, row.until), name...), nil)
	a.nextKey = min(a.nextKey, row.until)
	a.schedule(row.until)
}

// active reports whether a run has not ended.
func (w *work) active(ref protocol.Ref) bool {
	b, ok := w.tx.Get(runKey(nil, rowState, ref.Action, ref.Run))
	if ok {
		return !must(decode(b, (*stateRow).layout)).status.Final()
	}
	_, ok = w.tx.Get(runKey(nil, rowRun, ref.Action, ref.Run))
	return ok // it is fresh
}

// insert writes a new run, which waits from then on.
func (a *act) insert(ref protocol.Ref, v *protocol.Invoke, set uint8) {
	now := a.tx.Now()
	row := runRow{
		tag: ref.Tag, set: set, priority: v.Priority, createdAt: now, due: now + v.Delay, timeout: a.timeout, maxAttempts: 1 + a.maxRetries,
		key: v.ConcurrencyKey, idempotencyKey: v.IdempotencyKey, source: v.Source, notify: v.Notify, input: v.Input,
	}
	if v.Timeout > 0 {
		row.timeout = v.Timeout
	}
	if v.MaxAttempts > 0 {
		row.maxAttempts = v.MaxAttempts
	}
	if row.awaited = v.Awaited; v.Expires > 0 {
		row.expires = now + v.Expires
	}
	a.buf, a.row = runKey(a.buf[:0], rowRun, a.id, ref.Run), encode(a.row[:0], &row, (*runRow).code)
	a.tx.Insert(a.buf, a.row)
	a.pending++
	a.changed = true
	if set > 0 && a.set(set).runs >= 0 {
		a.change(set).runs++
	}
	st := row.state(ref)
	a.expect(ref, st)
	if v.Delay > 0 {
		a.postpone(ref, st, now+v.Delay)
		return
	}
	a.enqueue(ref, st, true)
}

// state returns the initial state of a run. Row 's' is written only when the state changes.
func (r *runRow) state(ref protocol.Ref) *stateRow {
	st := &stateRow{status: Pending, set: r.set, priority: r.priority, key: r.key, maxAttempts: r.maxAttempts, seq: ref.Run}
	if r.notify.Machine != 0 {
		st.flags |= flagNotify
	}
	if r.awaited {
		st.flags |= flagAwaited
	}
	if r.expires != 0 {
		st.flags |= flagExpires
	}
	return st
}

// expect sets the expiry of a run, if it has one and no attempt counts yet.
func (a *act) expect(ref protocol.Ref, st *stateRow) {
	if st.flags&flagExpires == 0 || st.attempts > 0 {
		return
	}
	at := a.runOf(ref).expires
	a.tx.Set(timedRunKey(nil, rowExpiry, a.id, at, ref.Run), nil)
	a.nextExpiry, a.changed = min(a.nextExpiry, at), true
	a.schedule(at)
}

// unexpect removes the expiry, because the run has started or ended.
func (a *act) unexpect(ref protocol.Ref, st *stateRow) {
	if st.flags&flagExpires != 0 && st.attempts == 0 {
		a.tx.Delete(timedRunKey(nil, rowExpiry, a.id, a.runOf(ref).expires, ref.Run))
	}
}

// await notes that a caller waits for the end of an existing run.
func (a *act) await(ref protocol.Ref) {
	row := a.runOf(ref)
	if row.awaited {
		return
	}
	row.awaited = true
	a.tx.Set(runKey(nil, rowRun, a.id, ref.Run), encode(nil, row, (*runRow).code))
	if b, ok := a.tx.Get(runKey(nil, rowState, a.id, ref.Run)); ok {
		st := must(decode(b, (*stateRow).layout))
		st.flags |= flagAwaited
		a.setState(ref, &st)
	}
}

// stateOf returns the state of an existing run.
func (a *act) stateOf(ref protocol.Ref) *stateRow {
	a.buf = runKey(a.buf[:0], rowState, ref.Action, ref.Run)
	if b, ok := a.tx.Get(a.buf); ok {
		st := must(decode(b, (*stateRow).layout))
		return &st
	}
	return a.runOf(ref).state(ref)
}

// runOf returns the invocation row of an existing run.
func (a *act) runOf(ref protocol.Ref) *runRow {
	a.buf = runKey(a.buf[:0], rowRun, ref.Action, ref.Run)
	b, ok := a.tx.Get(a.buf)
	if !ok {
		panic(fmt.Sprintf("action %q: run %d has no row", a.name, ref.Run))
	}
	r := must(decode(b, (*runRow).code))
	return &r
}

func (a *act) setState(ref protocol.Ref, st *stateRow) {
	a.buf, a.row = runKey(a.buf[:0], rowState, ref.Action, ref.Run), encode(a.row[:0], st, (*stateRow).layout)
	a.tx.Set(a.buf, a.row)
}

// postpone makes a run wait until a time.
func (a *act) postpone(ref protocol.Ref, st *stateRow, due int64) {
	st.status, st.due = Pending, due
	a.setState(ref, st)
	a.tx.Insert(timedRunKey(nil, rowDelayed, a.id, due, ref.Run), nil)
	a.delayed++
	a.nextDelayed, a.changed = min(a.nextDelayed, due), true
	a.schedule(due)
}

// enqueue puts a run into its lane, at the position in st. A fresh run has no row 's'.
func (a *act) enqueue(ref protocol.Ref, st *stateRow, fresh bool) {
	a.changed = true
	if st.status, st.due = Pending, 0; !fresh {
		a.setState(ref, st)
	}
	number := uint64(st.set)
	if st.key == "" {
		a.change(st.set).queue.push(st.priority, st.seq)
	} else {
		l := a.lane(st.set, st.key)
		l.queue.push(st.priority, st.seq)
		number = l.number
		a.settleLane(l)
	}
	a.wake(st.set, 1)
	var value []byte
	if !fresh {
		value = binary.AppendUvarint(nil, ref.Run)
	}
	a.buf = waitingKey(a.buf[:0], a.id, number, st.priority, st.seq)
	a.tx.Insert(a.buf, value)
}

// dequeue takes a run out of its lane.
func (a *act) dequeue(st *stateRow) {
	a.changed = true
	number := uint64(st.set)
	if st.key == "" {
		a.change(st.set).queue.remove(st.priority, st.seq)
	} else {
		l := a.lane(st.set, st.key)
		l.queue.remove(st.priority, st.seq)
		number = l.number
		a.settleLane(l)
	}
	a.tx.Delete(waitingKey(nil, a.id, number, st.priority, st.seq))
}

// lane holds the waiting runs of a concurrency key while a command changes it.
type lane struct {
	laneRow
	set   uint8
	key   string
	fresh bool // it has no row yet
}

// lane returns the lane of a key, creating it if needed.
func (a *act) lane(set uint8, key string) *lane {
	l := &lane{set: set, key: key}
	if b, ok := a.tx.Get(lanesKey(nil, a.id, set, key)); ok {
		l.laneRow = must(decode(b, (*laneRow).code))
	} else {
		a.turn++
		l.number, l.turn, l.fresh = a.turn+maxSets, a.turn, true
	}
	return l
}

// siblings returns the lanes of the same key with other sets of labels, for an action whose per-key
// limit covers all of them together.
func (a *act) siblings(l *lane) (all []*lane) {
	if a.maxPerKey == 0 {
		return nil
	}
	in := ^uint64(0)
	if a.mapped {
		in = 1 | a.setsOfKey(l.key)
	}
	for i := range a.sets {
		if set := uint8(i); set != l.set && in>>i&1 != 0 {
			if b, ok := a.tx.Get(lanesKey(nil, a.id, set, l.key)); ok {
				all = append(all, &lane{laneRow: must(decode(b, (*laneRow).code)), set: set, key: l.key})
			}
		}
	}
	return all
}

// setsOfKey returns the sets of labels in which a key has lanes, without the first set, as bits.
func (a *act) setsOfKey(name string) (sets uint64) {
	if len(a.sets) > 1 {
		b, _ := a.tx.Get(keySetsKey(nil, a.id, name))
		sets, _ = binary.Uvarint(b)
	}
	return sets
}

// mapLane notes whether a lane has a row.
func (a *act) mapLane(l *lane, has bool) {
	if l.set == 0 || !a.mapped {
		return
	}
	k, sets := keySetsKey(nil, a.id, l.key), a.setsOfKey(l.key)&^(1<<l.set)
	if has {
		sets |= 1 << l.set
	}
	if sets == 0 {
		a.tx.Delete(k)
		return
	}
	a.tx.Set(k, binary.AppendUvarint(nil, sets))
}

// freeSlot reports whether another run with the lane's key may start.
func (a *act) freeSlot(l *lane, siblings []*lane) bool {
	running := l.running
	for _, s := range siblings {
		running += s.running
	}
	return a.maxPerKey == 0 || running < a.maxPerKey
}

// settleLane writes a lane whose first run has changed, with its place in the index of lanes that
// can start a run.
func (a *act) settleLane(l *lane) { a.writeLane(l, a.freeSlot(l, a.siblings(l))) }

// settleKey writes a lane whose number of active runs has changed, and the other lanes of the key
// that are affected. It takes them in turn, so that no lane always precedes the others. wakes is
// whether to wake waiters for runs that can now start.
func (a *act) settleKey(l *lane, wakes bool) {
	siblings := a.siblings(l)
	slot := a.freeSlot(l, siblings)
	all := append(siblings, l)
	slices.SortFunc(all, func(x, y *lane) int { return cmp.Compare(x.turn, y.turn) })
	for _, one := range all {
		was := one.eligible
		if can := slot && one.queue.first() != nil; one != l && can == was {
			continue
		}
		if a.writeLane(one, slot); one.eligible && !was && wakes {
			a.wake(one.set, 1)
		}
	}
}

// writeLane writes a lane. slot is whether its key has a free slot.
func (a *act) writeLane(l *lane, slot bool) {
	a.changed = true
	first := l.queue.first()
	can := first != nil && slot
	if l.eligible && (!can || l.priority != first.priority) {
		a.tx.Delete(eligibleKey(nil, a.id, l.set, l.priority, l.turn))
		a.change(l.set).lanes.remove(l.priority, l.turn)
		l.eligible = false
	}
	if can && !l.eligible {
		a.turn++
		l.eligible, l.priority, l.turn = true, first.priority, a.turn
		a.tx.Insert(eligibleKey(nil, a.id, l.set, l.priority, l.turn), []byte(l.key))
		a.change(l.set).lanes.push(l.priority, l.turn)
	}
	k := lanesKey(nil, a.id, l.set, l.key)
	if first == nil && l.running == 0 {
		a.tx.Delete(k)
		a.mapLane(l, false)
		return
	}
	a.tx.Set(k, encode(nil, &l.laneRow, (*laneRow).code))
	if l.fresh {
		a.mapLane(l, true)
		l.fresh = false
	}
}

// hasLabels reports whether a worker's labels include all required ones; both are encoded.
func hasLabels(worker, asked string) bool {
	if asked == "" || worker == asked {
		return true
	}
	have, want := must(engine.DecodeHeaders([]byte(worker))), must(engine.DecodeHeaders([]byte(asked)))
	for name, value := range want {
		if v, ok := have[name]; !ok || v != value {
			return false
		}
	}
	return true
}
