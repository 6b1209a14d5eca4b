package workflow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/cron"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Duties returns what the leader does: it looks when schedules are due.
func (m *machine) Duties() []engine.Duty {
	return []engine.Duty{{Name: "schedule", Run: watchSchedules}}
}

// What a command of the duty starts at most. A run's first steps may write much, and what one command writes is bounded.
const (
	maxDueRuns   = 32
	maxDueInputs = 8 << 20
)

// watchSchedules is the duty that says when ticks are due.
func watchSchedules(ctx context.Context, lead *engine.Lead) error {
	var p cron.Parser
	for {
		var cmd engine.Command
		err := lead.View(ctx, func(v *engine.View) error {
			if err := v.WaitOn(dueTopic()); err != nil {
				return err
			}
			found, err := nextTicks(v, &p, &cmd)
			if err == nil && !found {
				err = engine.ErrWait
			}
			return err
		})
		if err != nil {
			return err
		}
		if _, err := lead.Propose(ctx, cmd); err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// nextTicks makes a command for what is due now: schedules of one namespace, as many as a command has room for.
func nextTicks(v *engine.View, p *cron.Parser, cmd *engine.Command) (found bool, err error) {
	it, err := v.Iter([]byte{rowDue}, []byte{rowDue + 1})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var c tickCommand
	runs, inputs, of := maxDueRuns, int64(maxDueInputs), uint32(0)
	for ok := it.First(); ok && len(c.due) < maxDueRuns && runs > 0 && inputs > 0; ok = it.Next() {
		if at := key.Int64(it.Key()[1:]); at > v.Now() {
			v.WakeAt(at)
			break
		}
		id := lastOf(it.Key())
		ns, r, err := scheduleOf(v, id)
		if err != nil {
			return false, err
		}
		if len(c.due) > 0 && ns != of {
			break
		}
		d := r.ticksOf(id, v.Now(), p, min(runs, int(inputs/int64(len(r.input)+1))+1))
		runs -= len(d.run)
		inputs -= int64(len(d.run) * len(r.input))
		c.due, of = append(c.due, d), ns
	}
	if len(c.due) == 0 {
		return false, nil
	}
	name, ok := v.NamespaceName(of)
	if !ok {
		return false, fmt.Errorf("workflow: schedules of namespace %d, which is not known", of)
	}
	*cmd = engine.Command{Machine: engine.MachineWorkflow, Kind: kindTick, Namespace: name, Spread: v.Spread(name), Body: encode(nil, &c, (*tickCommand).code)}
	return true, nil
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

// ticksOf returns the ticks of a schedule until now, as many as there is room for.
func (r *scheduleRow) ticksOf(id uint64, now int64, p *cron.Parser, room int) dueTicks {
	d := dueTicks{id: id, revision: r.revision, after: r.last, last: r.last, next: never}
	s, err := p.Parse(r.times.spec())
	if err != nil {
		d.problem = engine.Cut(err.Error(), maxDetail)
		return d
	}
	t := s.Ticks(r.last, now, cron.CatchUp(r.times.catchUp), int(max(r.times.limit, 1)), room)
	d.run, d.missed, d.last, d.next = t.Run, t.Missed, t.Last, t.Next
	return d
}

// verifySchedules checks that a schedule has a place in the index of what is due exactly if it has a tick to come, and counts its runs.
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
