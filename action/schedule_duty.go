package action

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/cron"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// dutySchedule is the name of the duty.
const dutySchedule = "schedule"

// dueTopic is notified when a schedule is to be looked at earlier than was known.
func dueTopic() engine.Topic {
	return engine.TopicOf(engine.MachineAction, "", []byte("schedules"))
}

// watchSchedules is the duty that says when ticks are due: time zones are none of Apply's business. It proposes ticks with where their schedule stood, so
// that those of a schedule that has been changed, or partly decided by another leader, are left out.
func watchSchedules(ctx context.Context, lead *engine.Lead) error {
	var p planner
	for {
		var cmd engine.Command
		err := lead.View(ctx, func(v *engine.View) (err error) {
			if err := v.WaitOn(dueTopic()); err != nil {
				return err
			}
			found := false
			if cmd, found, err = p.next(v); err == nil && !found {
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

// planner computes ticks.
type planner struct{ cron.Parser }

// What a command of the duty holds at most. A tick writes some ten rows and its input, and what one command writes is bounded.
const (
	maxDueTicks  = 128
	maxDueInputs = 8 << 20
)

// room is what a command has left for ticks.
type room struct {
	ticks  int
	inputs int64
}

// runs returns how many runs of a size there is room for.
func (r *room) runs(size int64) int { return min(r.ticks, int(max(r.inputs, 0)/max(size, 1))) }

func (r *room) take(size int64) { r.ticks, r.inputs = r.ticks-1, r.inputs-size }

// next returns a command for what is due now: schedules of one namespace, as many as a command has room for.
func (p *planner) next(v *engine.View) (cmd engine.Command, found bool, err error) {
	it, err := v.Iter([]byte{rowDue}, []byte{rowDue + 1})
	if err != nil {
		return cmd, false, err
	}
	var c tickBody
	left, of := room{maxDueTicks, maxDueInputs}, uint32(0)
	for ok := it.First(); ok && err == nil && len(c.due) < maxDueTicks && left.ticks > 0 && left.inputs > 0; ok = it.Next() {
		k := it.Key()
		if at := key.Int64(k[1:]); at > v.Now() {
			v.WakeAt(at)
			break
		}
		ns := binary.BigEndian.Uint32(k[dueBehind:])
		if len(c.due) > 0 && ns != of {
			break
		}
		var d dueTicks
		if d, err = p.due(v, k[dueBehind:], &left); err == nil {
			c.due, of = append(c.due, d), ns
		}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if err != nil || len(c.due) == 0 {
		return cmd, false, err
	}
	name, ok := v.NamespaceName(of)
	if !ok {
		return cmd, false, fmt.Errorf("action: schedules of namespace %d, which is not known", of)
	}
	cmd = engine.Command{Machine: engine.MachineAction, Kind: kindTick, Namespace: name, Spread: v.Spread(name), Body: encode(nil, &c, (*tickBody).code)}
	return cmd, true, nil
}

// due returns the ticks of a schedule until now, as many as there is room for.
func (p *planner) due(v *engine.View, at []byte, left *room) (d dueTicks, err error) {
	ns, action, name, ok := scheduleAt(at)
	if !ok {
		return d, fmt.Errorf("action: %x is no schedule", at)
	}
	b, ok, err := v.Get(scheduleKey(nil, rowSchedule, ns, action, name))
	if err != nil {
		return d, err
	}
	if !ok {
		return d, fmt.Errorf("action: schedule %q of action %q is due and has no row", name, action)
	}
	r, err := decode(b, (*scheduleRow).code)
	if err != nil {
		return d, err
	}
	d = dueTicks{action: action, name: name, revision: r.revision, after: r.last, last: r.last, next: never, release: r.released}
	s, err := p.Parse(r.times.spec())
	if err != nil {
		d.problem = engine.Cut("action: schedule: "+err.Error(), maxScheduleMessage)
		return d, nil
	}
	rule := cron.CatchUp(r.catchUp)
	now := v.Now()
	if d.release {
		left.take(r.size)
	}
	due := s.Ticks(r.last, now, rule, int(r.limit), max(left.runs(r.size), 1))
	d.run, d.missed, d.last, d.next = due.Run, due.Missed, due.Last, due.Next
	for range d.run {
		left.take(r.size)
	}
	return d, nil
}
