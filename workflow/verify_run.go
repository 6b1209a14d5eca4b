package workflow

import (
	"encoding/binary"
	"fmt"

	"github.com/floedb/floe/internal/key"
)

// auditedRun is a run while its rows are recounted.
type auditedRun struct {
	*verifier
	run    uint64
	header *header
	who    string

	input, output   bool
	history         history
	pending, pended int64
	running         int64 // branches
	branches, items int64
	times           map[uint32]int64 // due times of branches, as in rows
	next            int64
	undone          map[uint64]int // steps of visits to compensate
}

// allRuns checks the runs one by one. The rows of a run are adjacent.
func (v *verifier) allRuns() error {
	err := v.Scan([]byte{rowRun}, []byte{rowRun + 1}, func(k, value []byte) error {
		if len(k) <= partAt {
			v.Reportf("workflow: row %x is too short", k)
			return nil
		}
		run := binary.BigEndian.Uint64(k[1:])
		if v.run == nil || v.run.run != run {
			if err := v.endRun(); err != nil {
				return err
			}
			v.run = &auditedRun{verifier: v, run: run, times: make(map[uint32]int64), next: never, undone: make(map[uint64]int)}
		}
		if err := v.run.part(k[partAt], k[partAt+1:], value); err != nil {
			v.Reportf("workflow: row %x: %v", k, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return v.endRun()
}

func (v *verifier) endRun() error {
	r := v.run
	v.run = nil
	switch {
	case r == nil:
		return nil
	case r.header == nil:
		v.Reportf("workflow: run %d has rows, but no header", r.run)
		return nil
	}
	return r.check()
}

// part processes a row of the run. The header comes first.
func (r *auditedRun) part(part byte, rest, value []byte) (err error) {
	switch part {
	case partHeader:
		var h header
		h, err = decode(value, (*header).code)
		r.header = &h
	case partInput:
		r.input = true
	case partOutput:
		r.output = true
	case partEvents:
		var row eventRow
		if row, err = decode(value, (*eventRow).code); err == nil {
			err = r.history.fold(&row, r.undoneStep)
		}
	case partSignal:
		var row signalRow
		row, err = decode(value, (*signalRow).code)
		r.pending++
		r.pended += int64(len(row.payload))
	case partStep:
		var row stepRow
		if row, err = decode(value, (*stepRow).layout); err == nil {
			err = r.history.checkStep(string(rest), &row)
		}
	case partUndo:
		var row undoRow
		row, err = decode(value, (*undoRow).code)
		r.undone[^binary.BigEndian.Uint64(rest)] = row.step
	case partBranch:
		var row branchRow
		if row, err = decode(value, (*branchRow).layout); err == nil {
			r.branches++
			if row.state == branchRunning {
				r.running++
				index := binary.BigEndian.Uint32(rest)
				at, found := r.times[index]
				if delete(r.times, index); found != (row.call.due != never) || found && at != row.call.due {
					err = fmt.Errorf("branch %d is due at %d, but scheduled at %d", index, row.call.due, at)
				}
				if row.call.phase == phaseNone {
					err = fmt.Errorf("a running branch waits for nothing")
				}
			}
		}
	case partBranchTime:
		at, index := key.Int64(rest), indexOf(rest)
		r.next, r.times[index] = min(r.next, at), at
	case partItems:
		var row itemsRow
		row, err = decode(value, (*itemsRow).code)
		r.items += int64(len(row.items))
	case partTaken, partEdited, partSent:
	default:
		err = fmt.Errorf("a row of an unknown kind")
	}
	return err
}

// check compares the run with its rows and its index rows.
func (r *auditedRun) check() error {
	h := r.header
	w := r.workflows[h.of]
	if w == nil || w.definitions[h.number] == nil || h.step < 0 || h.step >= len(w.definitions[h.number].Steps) {
		r.Reportf("workflow: run %d is of version %d of workflow %d, at step %d, which does not exist", r.run, h.number, h.of, h.step)
		return nil
	}
	r.who = fmt.Sprintf("run %d of workflow %q", r.run, w.name)
	r.compare("events", h.events, r.history.events)
	r.compare("signals", h.pending, r.pending)
	r.compare("bytes of signals", h.pended, r.pended)
	if !r.input {
		r.Reportf("workflow: %s has no input", r.who)
	}
	for visit, step := range r.undone {
		if visit > r.history.visits || step < 0 || step >= len(w.definitions[h.number].Steps) ||
			w.definitions[h.number].Steps[step].Compensate == nil {
			r.Reportf("workflow: %s: visit %d, to step %d, cannot be compensated", r.who, visit, step)
		}
	}
	r.checkWait()
	if err := r.checkHistory(w.definitions[h.number]); err != nil {
		r.Reportf("workflow: %s is %s, but its history differs: %v", r.who, h.status, err)
	}
	r.checkPlan(w.definitions[h.number])
	if err := r.checkIndexes(w); err != nil || h.timer == never {
		return err
	}
	ok, err := r.HasTimer(h.timer, w.ns, key.AppendUint64([]byte{tokenRun}, r.run))
	if err == nil && !ok {
		r.Reportf("workflow: %s has no timer at %d", r.who, h.timer)
	}
	return err
}

func (r *auditedRun) compare(what string, counted, is int64) {
	if counted != is {
		r.Reportf("workflow: %s counts %d %s, there are %d", r.who, counted, what, is)
	}
}

// checkWait reports a run that waits for an event that cannot occur, or that waits although it has
// ended.
func (r *auditedRun) checkWait() {
	h := r.header
	l := live{header: *h}
	next := l.nextDue()
	switch {
	case h.status.Final():
		if h.wait != waitNothing || h.timer != never || h.call.phase != phaseNone {
			r.Reportf("workflow: %s is %s, but waits for %d until %d", r.who, h.status, h.wait, h.timer)
		}
		return
	case h.timer > next:
		r.Reportf("workflow: %s is due at %d, but its timer at %d", r.who, next, h.timer)
	}
	stuck := false
	switch h.wait {
	case waitNothing:
		stuck = true
	case waitTurn, waitSleep, waitChildren, waitHandler:
		stuck = h.due == never
	case waitCall, waitUndo:
		stuck = h.call.phase == phaseNone || h.call.phase != phaseCalled && h.call.due == never
	case waitParallel:
		r.compare("branches that run", h.fan.running, r.running)
		r.compare("branches", h.fan.started, r.branches)
		stuck = r.running == 0 && h.due == never
		if h.fan.next > r.next {
			r.Reportf("workflow: %s expects branches to be due from %d on, but the first is due at %d", r.who, h.fan.next, r.next)
		}
	}
	if stuck {
		r.Reportf("workflow: %s is %s at step %d, but waits for nothing (%d)", r.who, h.status, h.step, h.wait)
	}
	if len(r.times) > 0 {
		r.Reportf("workflow: %s: branches are due that do not run: %v", r.who, r.times)
	}
	if h.wait != waitParallel && r.branches+r.items > 0 || r.items > 0 && r.items != h.fan.total {
		r.Reportf("workflow: %s has %d branches and %d items, and its step has %d", r.who, r.branches, r.items, h.fan.total)
	}
}

// checkIndexes looks for the index rows that the run must have.
func (r *auditedRun) checkIndexes(w *audited) error {
	h := r.header
	status := Status(0)
	if h.status.Final() {
		status = h.status
		w.kept++
		w.oldest = min(w.oldest, h.endedAt)
	} else {
		w.runs++
		r.active[w.ns]++
	}
	rows := []struct {
		kind byte
		key  []byte
	}{{rowOf, ofKey(nil, h.of, r.run)}, {rowIn, inKey(nil, w.ns, r.run)}, {rowByStatus, statusRunKey(nil, w.ns, status, r.run)}}
	add := func(kind byte, k []byte) {
		rows = append(rows, struct {
			kind byte
			key  []byte
		}{kind, k})
	}
	if status != 0 {
		add(rowEnded, endedKey(nil, h.of, h.endedAt, r.run))
	}
	if h.idempotencyKey != "" {
		k := append(numberKey(nil, rowKey, h.of), h.idempotencyKey...)
		add(rowKey, k)
		if b, ok, err := r.Get(k); err != nil {
			return err
		} else if row, err := decode(b, (*keyRow).code); ok && (err != nil || row.run != r.run) {
			r.Reportf("workflow: %s has an idempotency key, row %x is of run %d: %v", r.who, k, row.run, err)
		}
	}
	if h.id != "" {
		k := namedKey(nil, rowID, w.ns, h.id)
		add(rowID, k)
		if b, ok, err := r.Get(k); err != nil {
			return err
		} else if run, n := binary.Uvarint(b); ok && (n != len(b) || run != r.run) {
			r.Reportf("workflow: %s has the id %q, row %x is not of it: %x", r.who, h.id, k, b)
		}
	}
	for _, a := range h.attributes {
		add(rowAttribute, attributeKey(nil, w.ns, a, r.run))
	}
	for _, row := range rows {
		if err := r.wants(r.who, row.kind, row.key); err != nil {
			return err
		}
	}
	return nil
}
