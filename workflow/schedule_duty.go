package workflow

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/cron"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/schedule"
)

// Duties returns the leader's duty: it checks when schedules are due.
func (m *machine) Duties() []engine.Duty {
	return []engine.Duty{{Name: "schedule", Run: schedules.Watch}}
}

var schedules = schedule.Machine[dueTicks]{
	ID: engine.MachineWorkflow, Topic: dueTopic(), Row: rowDue, Kind: kindTick, Code: (*dueTicks).code,
	Most:    32, // the first steps of a run may write much
	Read:    readDue,
	Due:     func(d *dueTicks) *schedule.Due { return &d.Due },
	Problem: func(err error) string { return engine.Cut(err.Error(), maxDetail) },
}

// readDue reads the schedule of a workflow, given the workflow's id from its index key.
func readDue(v *engine.View, rest []byte) (s schedule.State, d dueTicks, err error) {
	if len(rest) != 8 {
		return s, d, fmt.Errorf("workflow: %x is no schedule", rest)
	}
	d.id = lastOf(rest)
	ns, r, err := scheduleOf(v, d.id)
	s = schedule.State{
		Namespace: ns, Spec: r.times.spec(), CatchUp: cron.CatchUp(r.times.catchUp), Limit: int(max(r.times.limit, 1)),
		Revision: r.revision, Last: r.last,
		Input: int64(len(r.input)) + 1,
	}
	return s, d, err
}

// scheduleOf reads the schedule of a workflow, and the number of its namespace.
func scheduleOf(v *engine.View, id uint64) (ns uint32, r scheduleRow, err error) {
	b, ok, err := v.Get(numberKey(nil, rowName, id))
	if err != nil || !ok {
		return 0, r, errors.Join(err, fmt.Errorf("workflow: %d has a schedule and no row", id))
	}
	n, err := decode(b, (*nameRow).code)
	if err != nil {
		return 0, r, err
	}
	b, ok, err = v.Get(numberKey(nil, rowSchedule, id))
	if err != nil || !ok {
		return 0, r, errors.Join(err, fmt.Errorf("workflow %q: its schedule is due and has no row", n.name))
	}
	r, err = decode(b, (*scheduleRow).code)
	return n.ns, r, err
}

// verifySchedules checks that a schedule is in the index of due schedules if and only if it has a
// future tick, and counts its runs.
func (v *verifier) verifySchedules() error {
	want, found := make(map[string]bool), 0
	active := make(map[uint32]int64)
	err := each(v, []byte{rowSchedule}, partAt, (*scheduleRow).code, func(k []byte, r *scheduleRow) error {
		id := lastOf(k)
		w := v.workflows[id]
		if w == nil || w.deleted || w.enabled == r.off {
			v.Reportf("workflow: schedule %+v is of workflow %d: %+v", *r, id, w)
			return nil
		}
		if r.ticks() {
			active[w.ns]++
		}
		if due := r.due(); due != never {
			want[string(dueKey(due, id))] = true
		}
		n, prefix := int64(0), numberKey(nil, rowTicked, id)
		if err := v.Scan(prefix, key.PrefixEnd(prefix), func(k, _ []byte) error { n++; return nil }); err != nil {
			return err
		}
		if n != r.active {
			v.Reportf("workflow %q: its schedule counts %d active runs, there are %d", w.name, r.active, n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = v.Scan([]byte{rowDue}, []byte{rowDue + 1}, func(k, _ []byte) error {
		found++
		if !want[string(k)] {
			v.Reportf("workflow: nothing is due at %x", k)
		}
		return nil
	})
	if err == nil && found != len(want) {
		v.Reportf("workflow: %d schedules have a tick to come, %d are looked for", len(want), found)
	}
	for i := range v.names {
		if n, counted := v.Counted(uint32(i), countSchedules); counted && n != active[uint32(i)] {
			v.Reportf("workflow: namespace %q: its row counts %d schedules, there are %d", v.names[i], n, active[uint32(i)])
		}
	}
	if err != nil {
		return err
	}
	return v.Scan([]byte{rowTicked}, []byte{rowTicked + 1}, func(k, _ []byte) error {
		if len(k) != partAt+8 || v.workflows[binary.BigEndian.Uint64(k[1:])] == nil {
			v.Reportf("workflow: row %x is of no schedule", k)
		}
		return nil
	})
}
