package action

import (
	"fmt"

	"github.com/floedb/floe/internal/cron"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/schedule"
)

// dutySchedule is the name of the duty.
const dutySchedule = "schedule"

// maxDueTicks limits the ticks of a command. Each tick writes about ten rows and its input.
const maxDueTicks = 128

// dueTopic is notified when a schedule must be checked earlier than planned.
func dueTopic() engine.Topic {
	return engine.TopicOf(engine.MachineAction, "", []byte("schedules"))
}

var schedules = schedule.Machine[dueTicks]{
	ID: engine.MachineAction, Topic: dueTopic(), Row: rowDue, Kind: kindTick, Code: (*dueTicks).code, Most: maxDueTicks, Read: readDue,
	Due:     func(d *dueTicks) *schedule.Due { return &d.Due },
	Problem: func(err error) string { return engine.Cut("action: schedule: "+err.Error(), maxScheduleMessage) },
}

// readDue reads a schedule, given the part of its index key after the time.
func readDue(v *engine.View, rest []byte) (s schedule.State, d dueTicks, err error) {
	ns, action, name, ok := scheduleAt(rest)
	if !ok {
		return s, d, fmt.Errorf("action: invalid schedule key %x", rest)
	}
	b, ok, err := v.Get(scheduleKey(nil, rowSchedule, ns, action, name))
	if err != nil {
		return s, d, err
	}
	if !ok {
		return s, d, fmt.Errorf("action: schedule %q of action %q is due and has no row", name, action)
	}
	r, err := decode(b, (*scheduleRow).code)
	s = schedule.State{
		Namespace: ns, Spec: r.times.spec(), CatchUp: cron.CatchUp(r.catchUp), Limit: int(r.limit), Revision: r.revision, Last: r.last,
		Release: r.released, Input: r.size,
	}
	return s, dueTicks{action: action, name: name}, err
}
