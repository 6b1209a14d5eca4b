package action

import (
	"bytes"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
)

// An action's registration lives in its home, the shard of its name. In a spread namespace the home
// sends it to all other shards, so that any shard can hold runs. Each shard has its own number,
// counters and queues for the action.

// register registers an action at its home.
func (w *work) register(s *spec) (version int, err error) {
	d := definition{spec: *s, version: 1, enabled: true, homed: s.limited("any"), createdAt: w.tx.Now()}
	if a := w.action(w.name); a != nil {
		d.version, d.enabled, d.createdAt = a.version+1, a.enabled, a.createdAt
		d.homed = d.homed || a.homed
	}
	w.define(w.name, d)
	return int(d.version), nil
}

// enable enables or disables an action at its home. A disabled action accepts no invocations;
// existing runs continue.
func (w *work) enable(enabled *bool) error {
	a := w.action(w.name)
	if a == nil {
		return notFound(w.name)
	}
	if d := a.definition; d.enabled != *enabled {
		d.enabled = *enabled
		w.define(w.name, d)
	}
	return nil
}

// define changes an action at its home and sends the change to all shards.
func (w *work) define(name string, d definition) {
	d.updatedAt, d.revision = w.tx.Now(), uint64(w.tx.LSN())
	w.use(name, d)
	w.tell(&adoptBody{name: name, definition: d})
}

// tell sends the definition at an action's home to all other shards of a spread namespace.
func (w *work) tell(c *adoptBody) {
	w.tx.SendOthers(engine.Command{Machine: engine.MachineAction, Kind: kindAdopt, Body: encode(nil, c, (*adoptBody).code)})
}

// adopt takes over the definition from an action's home, unless the shard has a newer one.
func (w *work) adopt(c *adoptBody) ([]byte, error) {
	a := w.action(c.name)
	switch {
	case a != nil && a.revision >= c.definition.revision:
	case !c.gone:
		w.use(c.name, c.definition)
	case a != nil:
		a.bury()
	}
	return nil, nil
}

// use stores the current definition of an action in the shard.
func (w *work) use(name string, d definition) {
	tx := w.tx
	a := w.action(name)
	known := a != nil
	if !known {
		a = &act{record: newRecord(uint64(tx.LSN())), work: w, name: name}
		a.sets, a.read = []labelSet{{}}, 1
		w.add(a)
		tx.Insert(numberKey(nil, rowName, a.id), encode(nil, &nameRow{ns: tx.Namespace(), name: name}, (*nameRow).code))
		if tx.Here(name) {
			tx.Count(countActions, 1)
		}
		tx.Notify(setsTopic(tx.NamespaceName(), name), -1)
	}
	before := a.definition
	a.definition, a.changed = d, true
	if d.maxRunning != before.maxRunning || d.rate != before.rate {
		a.wakeAll()
	}
	if d.rate != before.rate {
		a.allowed = 0
	}
	if known && d.maxPerKey != before.maxPerKey {
		a.sweep, a.sweepKey = true, ""
	}
	a.schedule(a.nextDue())
}

// wakeAll wakes the waiters for runs of the action, because more runs may start.
func (a *act) wakeAll() {
	for i := range a.sets {
		if a.ready(i) {
			s := a.set(uint8(i))
			a.wake(uint8(i), s.queue.len()+s.lanes.len())
		}
	}
}

// delete removes an action at its home. Active runs require force, which cancels them.
func (w *work) delete(force *bool) error {
	a := w.action(w.name)
	if a == nil {
		return notFound(w.name)
	}
	if err := checkActive(w.name, a.pending+a.running); err != nil && !*force {
		return err
	}
	w.tell(&adoptBody{name: w.name, gone: true, definition: definition{revision: uint64(w.tx.LSN())}})
	w.dropSchedules(w.name)
	a.bury()
	return nil
}

// bury marks an action as deleted. Its timer cancels the remaining runs in batches, and then its
// rows are removed.
func (a *act) bury() {
	tx := a.tx
	if tx.Here(a.name) {
		tx.Count(countActions, -1)
	}
	tx.Delete(namedKey(nil, rowAction, tx.Namespace(), a.name))
	a.deleted, a.changed = true, true
	if a.pending+a.running+a.unconfirmed == 0 {
		return // save drops it
	}
	tx.Set(numberKey(nil, rowName, a.id), encode(nil, &nameRow{deleted: true, ns: tx.Namespace(), name: a.name}, (*nameRow).code))
	a.schedule(tx.Now())
}

// drop removes all rows of a deleted action that has no runs left.
func (a *act) drop() {
	a.unschedule()
	for _, kind := range [...]byte{rowDelayed, rowEligible, rowEnded, rowRun, rowKeyEnd, rowKey, rowLane, rowKeySets, rowExpiry, rowState,
		rowWaiting} {
		prefix := numberKey(nil, kind, a.id)
		a.tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	}
	for i := range a.sets {
		if i > 0 {
			a.tx.Delete(setKey(nil, a.id, uint8(i)))
		}
	}
	for _, kind := range [...]byte{rowSet, rowName, rowGrave} {
		a.tx.Delete(numberKey(nil, kind, a.id))
	}
	a.dropped = true
}

// cancelAll cancels the runs of a deleted action until the command is crowded. It reports whether
// any are left.
func (a *act) cancelAll() (more bool) {
	const reason = "the action was deleted"
	prefix := numberKey(nil, rowWaiting, a.id)
	more = a.each(prefix, prefix, func(k, value []byte) {
		ref := protocol.Ref{Action: a.id, Run: runAt(k, value)}
		a.cancelRun(ref, a.stateOf(ref), reason)
	})
	if more {
		return true
	}
	prefix = numberKey(nil, rowState, a.id)
	return a.each(runKey(nil, rowState, a.id, a.cancelFrom), prefix, func(k, value []byte) {
		ref := protocol.Ref{Action: a.id, Run: lastOf(k)}
		a.cancelFrom, a.changed = ref.Run+1, true
		if st := must(decode(value, (*stateRow).layout)); !st.status.Final() {
			a.cancelRun(ref, &st, reason)
		}
	})
}

// each calls f for rows from a key up to the end of a prefix, until the command is crowded. It
// reports whether there are more. f gets copies of the keys.
func (a *act) each(from, prefix []byte, f func(k, value []byte)) (more bool) {
	it := a.tx.Iter(from, key.PrefixEnd(prefix))
	defer mustClose(it)
	for ok := it.First(); ok; ok = it.Next() {
		if a.crowded() {
			return true
		}
		a.tx.Worked(1)
		f(bytes.Clone(it.Key()), it.Value())
	}
	return false
}
