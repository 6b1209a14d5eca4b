package action

import (
	"bytes"
	"fmt"

	"github.com/floedb/floe/internal/engine"
)

// schedules checks the rows of schedules. A schedule has an action and run settings. It is in the
// index of due schedules if and only if it has a future tick. No future tick is decided, and a
// buffered tick waits for a run that has not ended.
func (v *verifier) schedules() error {
	a := v.Audit
	for _, step := range []func(*engine.Audit) error{verifyScheduleRows, verifyPlans, verifyDue} {
		if err := step(a); err != nil {
			return err
		}
	}
	return nil
}

func verifyScheduleRows(a *engine.Audit) error {
	return a.Scan([]byte{rowSchedule}, []byte{rowSchedule + 1}, func(k, value []byte) error {
		ns, action, name, ok := scheduleAt(k[1:])
		r, err := decode(value, (*scheduleRow).code)
		if !ok || err != nil {
			a.Reportf("action: invalid schedule row %x: %v", k, err)
			return nil
		}
		problem := func(format string, args ...any) {
			a.Reportf("action: namespace %d, schedule %q of %q: %s", ns, name, action, fmt.Sprintf(format, args...))
		}
		if err := checkSchedule(action, name); err != nil {
			problem("%v", err)
		}
		r.check(a.Applied.Stamp, problem)
		return verifyScheduled(a, &r, ns, action, name, problem)
	})
}

// check reports invalid values in a single row.
func (r *scheduleRow) check(now int64, problem func(string, ...any)) {
	if r.next != 0 && r.next <= r.last {
		problem("its next tick at %d is not behind %d, until when they are decided", r.next, r.last)
	}
	if r.last > now || r.createdAt > now || r.updatedAt > now {
		problem("is decided until %d and was changed at %d, it is %d", r.last, r.updatedAt, now)
	}
	if r.paused && r.next != 0 || !r.paused && r.note != "" {
		problem("is paused: %v, with the next tick at %d, note %q", r.paused, r.next, r.note)
	}
	if r.released && r.buffered == 0 {
		problem("a tick that there is not can run")
	}
	if r.buffered != 0 && (r.overlap != OverlapBuffer || !r.begun || r.buffered > r.last) {
		problem("the tick at %d waits for the end of a run", r.buffered)
	}
	if min(r.ran, r.skipped, r.missed, r.refused) < 0 || len(r.ticks) > maxTicks {
		problem("counts %d, %d, %d and %d ticks, and remembers %d", r.ran, r.skipped, r.missed, r.refused, len(r.ticks))
	}
}

// verifyScheduled checks a schedule against other rows.
func verifyScheduled(a *engine.Audit, r *scheduleRow, ns uint32, action, name string, problem func(string, ...any)) error {
	b, ok, err := a.Get(namedKey(nil, rowAction, ns, action))
	if err != nil {
		return err
	}
	if rec, err := decode(b, (*record).code); !ok || err != nil || rec.id != r.id {
		problem("its action %d is not there (%v)", r.id, err)
	}
	if b, ok, err = a.Get(scheduleKey(nil, rowPlan, ns, action, name)); err != nil {
		return err
	}
	if !ok || int64(len(b)) != r.size {
		problem("what it runs has %d bytes, its row says %d", len(b), r.size)
	}
	if due := r.due(); due != never {
		if _, ok, err = a.Get(dueKey(nil, due, ns, action, name)); err != nil {
			return err
		}
		if !ok {
			problem("no timer is due at %d", due)
		}
	}
	if r.buffered == 0 || r.released {
		return nil
	}
	b, ok, err = a.Get(runKey(nil, rowState, r.run.Action, r.run.Run))
	if err != nil {
		return err
	}
	if s, err := decode(b, (*stateRow).layout); ok && (err != nil || s.status.Final()) {
		problem("the tick at %d waits for the end of run %d, which has ended (%v)", r.buffered, r.run.Run, err)
	}
	if _, ok, err = a.Get(runKey(nil, rowRun, r.run.Action, r.run.Run)); err == nil && !ok {
		problem("the tick at %d waits for the end of run %d, which is not there", r.buffered, r.run.Run)
	}
	return err
}

func verifyPlans(a *engine.Audit) error {
	return a.Scan([]byte{rowPlan}, []byte{rowPlan + 1}, func(k, value []byte) error {
		ns, action, name, ok := scheduleAt(k[1:])
		if _, err := decode(value, (*plan).code); !ok || err != nil {
			a.Reportf("action: invalid plan row %x of a schedule: %v", k, err)
			return nil
		}
		_, ok, err := a.Get(scheduleKey(nil, rowSchedule, ns, action, name))
		if err == nil && !ok {
			a.Reportf("action: namespace %d: a plan for schedule %q of %q, which does not exist", ns, name, action)
		}
		return err
	})
}

func verifyDue(a *engine.Audit) error {
	return a.Scan([]byte{rowDue}, []byte{rowDue + 1}, func(k, value []byte) error {
		if len(k) < dueBehind || len(value) > 0 {
			a.Reportf("action: invalid due row %x of a schedule", k)
			return nil
		}
		ns, action, name, ok := scheduleAt(k[dueBehind:])
		b, found, err := a.Get(scheduleKey(nil, rowSchedule, ns, action, name))
		if err != nil {
			return err
		}
		r, err := decode(b, (*scheduleRow).code)
		if !ok || !found || err != nil || !bytes.Equal(k, dueKey(nil, r.due(), ns, action, name)) {
			a.Reportf("action: namespace %d: schedule %q of %q is not due at row %x", ns, name, action, k)
		}
		return nil
	})
}
