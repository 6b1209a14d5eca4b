package action

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
)

var _ engine.Verifier = (*machine)(nil)

// allKinds are the row types, in order.
const allKinds = "abcdefghijklmnopqrstwxy"

// Verify checks that all rows of the machine are consistent; see the comment on rows for their
// meaning. Above all, every run that has not ended must have an owner or a time.
func (m *machine) Verify(a *engine.Audit) error {
	v := &verifier{
		Audit: a, names: a.Names(), ids: make(map[uint64]bool), known: make(map[uint32]int64), sessions: make(map[uint64]*audited),
		found: make(map[byte]int64), want: make(map[byte]int64),
	}
	workers := func() error { return m.workers.Verify(a) }
	for _, step := range []func() error{v.unknownRows, v.allSessions, v.allActions, v.orphans, v.timers, v.schedules, workers} {
		if err := step(); err != nil {
			return err
		}
	}
	for i := range v.names {
		if n, counted := v.Counted(uint32(i), countActions); counted && n != v.known[uint32(i)] {
			v.Reportf("action: namespace %q: its row counts %d actions, found %d", v.names[i], n, v.known[uint32(i)])
		}
	}
	return nil
}

// verifier walks over the actions one by one. It keeps a few numbers for each action, and for each
// lane of the current one.
type verifier struct {
	*engine.Audit
	names       []string // of namespaces
	ids         map[uint64]bool
	known       map[uint32]int64 // actions at home, by namespace
	sessions    map[uint64]*audited
	found, want map[byte]int64 // rows that belong to runs, by type: actual and expected counts
}

// audited is a session with the runs that refer to it.
type audited struct {
	sessionRow
	runs int64
}

// unknownRows reports rows of unknown types.
func (v *verifier) unknownRows() error { return v.UnknownRows("action", allKinds) }

// each calls f for the rows of a type. Their keys must have the given length (0: any), and their
// values must decode.
func each[T any](v *verifier, prefix []byte, length int, code func(*T, *codec.Coder), f func(k []byte, row *T) error) error {
	return v.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		row, err := decode(value, code)
		if err != nil || length > 0 && len(k) != length {
			v.Reportf("action: row %x: %v", k, err)
			return nil
		}
		return f(k, &row)
	})
}

func (v *verifier) allSessions() error {
	err := each(v, []byte{rowSession}, numberAt, (*sessionRow).code, func(k []byte, s *sessionRow) error {
		id := lastOf(k)
		v.sessions[id] = &audited{sessionRow: *s}
		if int(s.ns) >= len(v.names) {
			v.Reportf("action: session %d belongs to namespace %d, which does not exist", id, s.ns)
		}
		if s.self {
			b, _, err := v.Get(namedKey(nil, rowSelf, s.ns, s.process))
			if n, _ := binary.Uvarint(b); n != id {
				v.Reportf("action: session %d of worker %q is not found by its name", id, s.process)
			}
			if s.held == 0 {
				v.Reportf("action: session %d of worker %q has no runs", id, s.process)
			}
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	return v.Scan([]byte{rowSelf}, []byte{rowSelf + 1}, func(k, value []byte) error {
		n, _ := binary.Uvarint(value)
		if s := v.sessions[n]; s == nil || !s.self || len(k) < nameAt || s.process != string(k[nameAt:]) {
			v.Reportf("action: worker %q has session %d, which does not exist", k, n)
		}
		return nil
	})
}

func (v *verifier) allActions() error {
	err := each(v, []byte{rowAction}, 0, (*record).code, func(k []byte, r *record) error {
		if len(k) <= nameAt {
			v.Reportf("action: row %x has no name", k)
			return nil
		}
		ns, name := binary.BigEndian.Uint32(k[1:]), string(k[nameAt:])
		if int(ns) < len(v.names) && v.Here(v.names[ns], name) {
			v.known[ns]++
		}
		return v.action(r, &nameRow{ns: ns, name: name})
	})
	if err != nil {
		return err
	}
	return each(v, []byte{rowGrave}, numberAt, (*record).code, func(k []byte, r *record) error {
		b, _, err := v.Get(numberKey(nil, rowName, r.id))
		if err != nil {
			return err
		}
		n, err := decode(b, (*nameRow).code)
		if err != nil || !n.deleted || lastOf(k) != r.id {
			v.Reportf("action: deleted action %d: %v", r.id, err)
			return nil
		}
		return v.action(r, &n)
	})
}

// action checks one action and all its rows.
func (v *verifier) action(r *record, n *nameRow) error {
	if v.ids[r.id] {
		v.Reportf("action %q: its number %d belongs to another action", n.name, r.id)
		return nil
	}
	v.ids[r.id] = true
	b, ok, err := v.Get(numberKey(nil, rowName, r.id))
	if err != nil {
		return err
	}
	if row, err := decode(b, (*nameRow).code); !ok || err != nil || row != *n {
		v.Reportf("action %q: the row of its number %d says %+v: %v", n.name, r.id, row, err)
	}
	a := &auditedAction{verifier: v, r: r, n: n, lanes: make(map[string]*auditedLane)}
	if err := a.labelSets(); err != nil {
		return err
	}
	for _, step := range []func() error{a.runs, a.checkLanes, a.ended, a.keys, a.timer} {
		if err := step(); err != nil {
			return err
		}
	}
	a.count("pending", r.pending, a.pending)
	a.count("running", r.running, a.running)
	a.count("unconfirmed", r.unconfirmed, a.unconfirmed)
	a.count("delayed", r.delayed, a.delayed)
	a.count("kept", r.kept, a.kept)
	for i := range r.sets {
		if s := &r.sets[i]; i > 0 && s.runs >= 0 {
			a.count(fmt.Sprintf("of set %d", i), s.runs, a.sets[i])
		}
	}
	return nil
}

// auditedAction is an action while its rows are recounted.
type auditedAction struct {
	*verifier
	r *record
	n *nameRow

	pending, running, unconfirmed, delayed, kept int64
	sets                                         [256]int64              // runs by set
	lanes                                        map[string]*auditedLane // by set and key; including runs without a key
}

// auditedLane counts the runs of a lane.
type auditedLane struct {
	waiting map[uint8]int64  // by priority
	first   map[uint8]uint64 // likewise: lowest seq
	running int64
}

func (a *auditedAction) count(what string, counted, is int64) {
	if counted != is {
		a.Reportf("action %q: its row counts %d %s runs, found %d", a.n.name, counted, what, is)
	}
}

func (a *auditedAction) lane(set uint8, key string) *auditedLane {
	name := string([]byte{set}) + key
	l := a.lanes[name]
	if l == nil {
		l = &auditedLane{waiting: make(map[uint8]int64), first: make(map[uint8]uint64)}
		a.lanes[name] = l
	}
	return l
}

// labelSets reads the label sets that have their own rows.
func (a *auditedAction) labelSets() error {
	if a.r.inline {
		return nil
	}
	if len(a.r.sets) > 1 {
		a.want[rowSet]++
	}
	for i := 1; i < len(a.r.sets); i++ {
		b, ok, err := a.Get(setKey(nil, a.r.id, uint8(i)))
		if err != nil {
			return err
		}
		s, err := decode(b, (*labelSet).code)
		if !ok || err != nil {
			a.Reportf("action %q: the row of set %d: %v", a.n.name, i, err)
			continue
		}
		a.want[rowSet]++
		a.r.sets[i] = s
		if ready, used := a.r.readySets>>i&1 != 0, a.r.usedSets>>i&1 != 0; ready != s.ready() || used != (s.runs != 0) {
			a.Reportf("action %q: set %d has ready runs %t, any runs %t; its row has %+v", a.n.name, i, ready, used, s)
		}
	}
	b, ok, err := a.Get(numberKey(nil, rowSet, a.r.id))
	if err != nil {
		return err
	}
	if l, err := decode(b, (*labelsRow).code); ok && err != nil || len(l.labels) != len(a.r.sets)-1 {
		a.Reportf("action %q: the labels of its %d sets are %q: %v", a.n.name, len(a.r.sets), l.labels, err)
	}
	return nil
}

func (a *auditedAction) runs() error {
	err := each(a.verifier, numberKey(nil, rowRun, a.r.id), numberAt+8, (*runRow).code, func(k []byte, row *runRow) error {
		ref := protocol.Ref{Action: a.r.id, Run: lastOf(k), Tag: row.tag}
		b, ok, err := a.Get(runKey(nil, rowState, a.r.id, ref.Run))
		if err != nil {
			return err
		}
		if !ok {
			a.want[rowState]--
			return a.run(ref, row.state(ref), row.expires, true)
		}
		st, err := decode(b, (*stateRow).layout)
		if err != nil {
			a.Reportf("action %q: state of run %d: %v", a.n.name, ref.Run, err)
			return nil
		}
		if st.set != row.set || st.key != row.key || st.priority != row.priority ||
			(st.flags&flagNotify != 0) != (row.notify.Machine != 0) {
			a.Reportf("action %q: run %d and its state differ: %+v, %+v", a.n.name, ref.Run, row, st)
		}
		return a.run(ref, &st, row.expires, false)
	})
	if err != nil {
		return err
	}
	// States of runs that were removed before their workers confirmed the cancellation.
	return each(a.verifier, numberKey(nil, rowState, a.r.id), numberAt+8, (*stateRow).layout, func(k []byte, st *stateRow) error {
		_, ok, err := a.Get(runKey(nil, rowRun, a.r.id, lastOf(k)))
		if err != nil || ok {
			return err
		}
		if st.status != Cancelled || st.flags&flagHeld == 0 {
			a.Reportf("action %q: the state of run %d, which does not exist", a.n.name, lastOf(k))
			return nil
		}
		a.want[rowState]++
		a.sets[st.set]++
		return a.held(protocol.Ref{Action: a.r.id, Run: lastOf(k)}, st)
	})
}

// run checks that a run has the rows of its state.
func (a *auditedAction) run(ref protocol.Ref, st *stateRow, expires int64, fresh bool) error {
	a.want[rowRun]++
	a.want[rowState]++
	a.sets[st.set]++
	if int(st.set) >= len(a.r.sets) {
		a.Reportf("action %q: run %d has label set %d, but there are only %d", a.n.name, ref.Run, st.set, len(a.r.sets))
		return nil
	}
	switch {
	case st.status.Final():
		a.kept++
		return a.finished(ref, st)
	case st.status == Running:
		a.running++
		if st.flags&flagHeld == 0 {
			a.Reportf("action %q: run %d is running without a worker", a.n.name, ref.Run)
		}
		return a.held(ref, st)
	}
	if st.flags&flagExpires != 0 && st.attempts == 0 {
		if err := a.wants(rowExpiry, timedRunKey(nil, rowExpiry, a.r.id, expires, ref.Run), ref, st); err != nil {
			return err
		}
	}
	if a.pending++; st.due > 0 {
		a.delayed++
		return a.wants(rowDelayed, timedRunKey(nil, rowDelayed, a.r.id, st.due, ref.Run), ref, st)
	}
	l := a.lane(st.set, st.key)
	if n := l.waiting[st.priority]; n == 0 || st.seq < l.first[st.priority] {
		l.first[st.priority] = st.seq
	}
	l.waiting[st.priority]++
	number := uint64(st.set)
	if st.key != "" {
		b, _, err := a.Get(lanesKey(nil, a.r.id, st.set, st.key))
		if err != nil {
			return err
		}
		row, err := decode(b, (*laneRow).code)
		if err != nil {
			a.Reportf("action %q: the lane of run %d: %v", a.n.name, ref.Run, err)
			return nil
		}
		number = row.number
	}
	k := waitingKey(nil, a.r.id, number, st.priority, st.seq)
	value, ok, err := a.Get(k)
	if ok && (runAt(k, value) != ref.Run || fresh != (len(value) == 0)) {
		a.Reportf("action %q: run %d waits at row %x, which belongs to another run", a.n.name, ref.Run, k)
	}
	if err != nil {
		return err
	}
	return a.wants(rowWaiting, k, ref, st)
}

// wants reports a run that lacks a row.
func (a *auditedAction) wants(kind byte, k []byte, ref protocol.Ref, st *stateRow) error {
	a.want[kind]++
	_, ok, err := a.Get(k)
	if err == nil && !ok {
		a.Reportf("action %q: run %d is %s (due %d), but has no row %x", a.n.name, ref.Run, st.status, st.due, k)
	}
	return err
}

func (a *auditedAction) finished(ref protocol.Ref, st *stateRow) error {
	k := timedRunKey(nil, rowEnded, a.r.id, st.endedAt, ref.Run)
	if err := a.wants(rowEnded, k, ref, st); err != nil {
		return err
	}
	if b, ok, err := a.Get(k); err != nil {
		return err
	} else if row, err := decode(b, (*endedRow).code); ok && (err != nil || row.status != st.status) {
		a.Reportf("action %q: run %d is %s, row %x says %s: %v", a.n.name, ref.Run, st.status, k, row.status, err)
	}
	if st.flags&flagHeld == 0 {
		return nil
	}
	if st.status != Cancelled {
		a.Reportf("action %q: run %d is %s, but assigned to a worker", a.n.name, ref.Run, st.status)
	}
	return a.held(ref, st)
}

// held checks that a session holds the run.
func (a *auditedAction) held(ref protocol.Ref, st *stateRow) error {
	if st.status != Running {
		a.unconfirmed++
	}
	if st.key != "" {
		a.lane(st.set, st.key).running++
	}
	s := a.sessions[st.session]
	if s == nil || s.ns != a.n.ns {
		a.Reportf("action %q: session %d, which does not exist, has run %d", a.n.name, st.session, ref.Run)
		return nil
	}
	s.runs++
	k := heldKey(nil, st.session, a.r.id, ref.Run)
	b, there, err := a.Get(k)
	if err != nil {
		return err
	}
	switch h, err := decode(b, (*held).code); {
	case err != nil && there:
		a.Reportf("action: row %x: %v", k, err)
	case err == nil && (h.deadline < s.timer || h.cancelled != (st.status == Cancelled)):
		a.Reportf("action %q: run %d is %s until %d, the timer of its session fires at %d", a.n.name, ref.Run, st.status, h.deadline,
			s.timer)
	}
	return a.wants(rowHeld, k, ref, st)
}

func (a *auditedAction) checkLanes() error {
	eligible := make([]auditedLane, len(a.r.sets))
	for i := range eligible {
		eligible[i] = auditedLane{waiting: make(map[uint8]int64), first: make(map[uint8]uint64)}
	}
	mapped := 0                       // lanes that must be in the rows of their keys
	running := make(map[string]int64) // by key
	for name, l := range a.lanes {
		running[name[1:]] += l.running
	}
	err := each(a.verifier, numberKey(nil, rowLane, a.r.id), 0, (*laneRow).code, func(k []byte, row *laneRow) error {
		if len(k) <= numberAt+1 || int(k[numberAt]) >= len(a.r.sets) {
			a.Reportf("action %q: invalid lane row %x", a.n.name, k)
			return nil
		}
		set, name := k[numberAt], string(k[numberAt+1:])
		l := a.lane(set, name)
		delete(a.lanes, string(k[numberAt:]))
		if set > 0 && a.r.mapped {
			b, _, err := a.Get(keySetsKey(nil, a.r.id, name))
			if sets, _ := binary.Uvarint(b); err != nil || sets>>set&1 == 0 {
				a.Reportf("action %q: lane %q of set %d is not among those of its key: %v", a.n.name, name, set, err)
			}
			mapped++
		}
		if l.running != row.running {
			a.Reportf("action %q: lane %q counts %d running, found %d", a.n.name, name, row.running, l.running)
		}
		a.queue(fmt.Sprintf("lane %q", name), &row.queue, l)
		can := len(row.queue.heads) > 0 && (a.r.maxPerKey == 0 || running[name] < a.r.maxPerKey)
		if can != row.eligible && !a.r.sweep {
			a.Reportf("action %q: lane %q: eligible %t, its row has %t", a.n.name, name, can, row.eligible)
		}
		if !row.eligible {
			return nil
		}
		a.want[rowEligible]++
		e := &eligible[set]
		if n := e.waiting[row.priority]; n == 0 || row.turn < e.first[row.priority] {
			e.first[row.priority] = row.turn
		}
		e.waiting[row.priority]++
		value, ok, err := a.Get(eligibleKey(nil, a.r.id, set, row.priority, row.turn))
		if err == nil && (!ok || string(value) != name || len(row.queue.heads) == 0 || row.queue.heads[0].priority != row.priority) {
			a.Reportf("action %q: lane %q has no row at its turn", a.n.name, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := a.Scan(numberKey(nil, rowKeySets, a.r.id), key.PrefixEnd(numberKey(nil, rowKeySets, a.r.id)), func(k, value []byte) error {
		a.want[rowKeySets]++
		sets, _ := binary.Uvarint(value)
		mapped -= bits.OnesCount64(sets)
		return nil
	}); err != nil {
		return err
	}
	if mapped != 0 {
		a.Reportf("action %q: %d more lanes than their keys list", a.n.name, mapped)
	}
	for i := range a.r.sets {
		set := &a.r.sets[i]
		a.queue(fmt.Sprintf("set %d", i), &set.queue, a.lane(uint8(i), ""))
		a.queue(fmt.Sprintf("lanes of set %d", i), &set.lanes, &eligible[i])
		delete(a.lanes, string([]byte{uint8(i)}))
	}
	for _, name := range slices.Sorted(maps.Keys(a.lanes)) {
		if l := a.lanes[name]; l.running > 0 || len(l.waiting) > 0 {
			a.Reportf("action %q: lane %q has no row", a.n.name, name)
		}
	}
	return nil
}

// queue checks the summary of an index.
func (a *auditedAction) queue(what string, q *queue, l *auditedLane) {
	said := make(map[uint8]int64)
	for i, h := range q.heads {
		if i > 0 && q.heads[i-1].priority >= h.priority || h.n < 1 || h.seq > l.first[h.priority] {
			a.Reportf("action %q: %s: priorities %+v, the first ones are %v", a.n.name, what, q.heads, l.first)
		}
		said[h.priority] = h.n
	}
	if !maps.Equal(said, l.waiting) {
		a.Reportf("action %q: %s: its row counts %v, found %v", a.n.name, what, said, l.waiting)
	}
}

// ended checks the index of runs by end time against its low mark.
func (a *auditedAction) ended() error {
	for _, index := range []struct {
		kind byte
		next int64
	}{{rowEnded, a.r.nextEnded}, {rowDelayed, a.r.nextDelayed}, {rowKeyEnd, a.r.nextKey}, {rowExpiry, a.r.nextExpiry}} {
		prefix := numberKey(nil, index.kind, a.r.id)
		first := true
		if err := a.Scan(prefix, key.PrefixEnd(prefix), func(k, _ []byte) error {
			if first && (len(k) < behindTimeAt || key.Int64(k[numberAt:]) < index.next) {
				a.Reportf("action %q: row %x is before %d, the start of its index", a.n.name, k, index.next)
			}
			first = false
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (a *auditedAction) keys() error {
	return each(a.verifier, numberKey(nil, rowKey, a.r.id), 0, (*keyRow).code, func(k []byte, row *keyRow) error {
		a.want[rowKeyEnd]++
		_, ok, err := a.Get(append(timeKey(nil, rowKeyEnd, a.r.id, row.until), k[numberAt:]...))
		if err == nil && !ok {
			a.Reportf("action %q: idempotency key %q has no expiry row", a.n.name, k[numberAt:])
		}
		return err
	})
}

// timer checks that the action's timer is set for its due work.
func (a *auditedAction) timer() error {
	if a.r.timer > a.r.nextDue() && a.n != nil && !a.n.deleted {
		a.Reportf("action %q: its next due time is %d, its timer fires at %d", a.n.name, a.r.nextDue(), a.r.timer)
	}
	return nil
}

// orphans reports rows without an action or run.
func (v *verifier) orphans() error {
	for _, kind := range [...]byte{rowDelayed, rowEligible, rowEnded, rowRun, rowKeyEnd, rowKey, rowLane, rowKeySets, rowSet, rowExpiry,
		rowState, rowWaiting, rowName} {
		var last uint64
		if err := v.Scan([]byte{kind}, []byte{kind + 1}, func(k, _ []byte) error {
			v.found[kind]++
			if len(k) < numberAt {
				v.Reportf("action: row %x is too short", k)
				return nil
			}
			if id := binary.BigEndian.Uint64(k[1:]); id != last {
				if last = id; !v.ids[id] {
					v.Reportf("action: rows %q of %d, which is not an action", kind, id)
				}
			}
			return nil
		}); err != nil {
			return err
		}
		switch kind {
		case rowKey, rowLane, rowName: // already checked
			continue
		}
		if v.found[kind] != v.want[kind] {
			v.Reportf("action: found %d rows %q, expected %d", v.found[kind], kind, v.want[kind])
		}
	}
	if err := v.Scan([]byte{rowHeld}, []byte{rowHeld + 1}, func([]byte, []byte) error { v.found[rowHeld]++; return nil }); err != nil {
		return err
	}
	if v.found[rowHeld] != v.want[rowHeld] {
		v.Reportf("action: found %d rows %q, expected %d", v.found[rowHeld], rowHeld, v.want[rowHeld])
	}
	for _, id := range slices.Sorted(maps.Keys(v.sessions)) {
		if s := v.sessions[id]; s.held != s.runs {
			v.Reportf("action: session %d counts %d runs, found %d", id, s.held, s.runs)
		}
	}
	return nil
}

// timers checks that every timer is recorded in its row. The converse, that every row with a time
// has a timer, is checked with the rows.
func (v *verifier) timers() error {
	set := make(map[string]int64)
	err := v.Timers(func(due int64, _ uint32, token []byte) error {
		if len(token) != numberAt || token[0] != tokenAction && token[0] != tokenSession {
			v.Reportf("action: timer with unknown token %q", token)
			return nil
		}
		if _, twice := set[string(token)]; twice {
			v.Reportf("action: %q has two timers", token)
		}
		set[string(token)] = due
		return nil
	})
	if err != nil {
		return err
	}
	expect := func(kind byte, id uint64, at int64) {
		token := string(key.AppendUint64([]byte{kind}, id))
		due, ok := set[token]
		if delete(set, token); ok != (at != never) || ok && due != at {
			v.Reportf("action: timer %q fires at %d, its row has %d", token, due, at)
		}
	}
	for id, s := range v.sessions {
		expect(tokenSession, id, s.timer)
	}
	for _, kind := range [...]byte{rowAction, rowGrave} {
		if err := each(v, []byte{kind}, 0, (*record).code, func(_ []byte, r *record) error {
			expect(tokenAction, r.id, r.timer)
			return nil
		}); err != nil {
			return err
		}
	}
	for token, due := range set {
		v.Reportf("action: timer %q at %d belongs to nothing", token, due)
	}
	return nil
}
