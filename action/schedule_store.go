package action

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// Schedules gives access to the schedules of an action, see Store.Schedules.
//
// A schedule belongs to its action: it lives in the same shard and is deleted with it. Set creates
// a schedule from a ScheduleSpec: a cron expression or an interval, a time zone, an overlap policy
// and a catch-up rule. The leader of the shard decides each tick once: the tick runs or is counted
// as not run. A crash or leader change neither repeats nor loses a tick.
type Schedules struct {
	store  *Store
	action string
}

// Schedules returns the schedules of an action. With an empty name it lists those of all actions,
// and supports no other operation.
func (s *Store) Schedules(action string) Schedules { return Schedules{s, action} }

// Set creates or changes a schedule. An unchanged spec has no effect, so a program may call Set at
// every start. If the times change, ticks count from now; otherwise the schedule keeps its
// position.
//
// Options: Priority, Labels, ConcurrencyKey. Errors: ErrNotFound if the action is not registered;
// ErrInvalid for times that cannot be parsed or never occur, such as February 30, a name of more
// than 200 bytes, an input that is not JSON, and more than MaxSchedules of an action.
func (s Schedules) Set(ctx context.Context, name string, spec ScheduleSpec, opts ...ScheduleOption) error {
	_, err := engine.Propose(ctx, &s.store.scope, setScheduleOp(s.action, name, spec, opts), setSchedule.Decode)
	return err
}

// Pause stops a schedule: it has no ticks until Resume, and a tick waiting for a run to end is
// dropped. Its runs continue. Errors: ErrNotFound.
func (s Schedules) Pause(ctx context.Context, name string) error {
	_, err := pauseSchedule.Do(ctx, &s.store.scope, s.action, scheduleName{name, true}, nil)
	return err
}

// Resume continues a paused schedule with its next tick: ticks during the pause are not caught up.
// Errors: ErrNotFound.
func (s Schedules) Resume(ctx context.Context, name string) error {
	_, err := pauseSchedule.Do(ctx, &s.store.scope, s.action, scheduleName{name, false}, nil)
	return err
}

// Delete removes a schedule; its runs continue. Errors: ErrNotFound.
func (s Schedules) Delete(ctx context.Context, name string) error {
	_, err := deleteSchedule.Do(ctx, &s.store.scope, s.action, scheduleName{name: name}, nil)
	return err
}

// Trigger starts a run of a schedule now, even if it is paused; its ticks do not change.
//
// Errors: ErrNotFound; ErrConflict if the previous run is active and the schedule's Overlap is
// OverlapSkip or OverlapBuffer; those of Invoke.
func (s Schedules) Trigger(ctx context.Context, name string) (Invoked, error) {
	return triggerSchedule.Do(ctx, &s.store.scope, s.action, scheduleName{name: name}, nil)
}

// Get returns a schedule. Errors: ErrNotFound.
func (s Schedules) Get(ctx context.Context, name string) (Schedule, error) {
	if err := checkSchedule(s.action, name); err != nil {
		return Schedule{}, err
	}
	q := scheduleQuery{namespace: s.store.scope.Namespace(), action: s.action, name: name}
	if err := s.store.scope.Query(ctx, s.action, &q); err != nil {
		return Schedule{}, err
	}
	if !q.found {
		return Schedule{}, noSchedule(s.action, name)
	}
	return q.schedule, nil
}

func setScheduleOp(action, name string, spec ScheduleSpec, opts []ScheduleOption) engine.Op {
	o := invokeOptions{Invoke: protocol.Invoke{Priority: DefaultPriority}}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applySchedule(&o)
	}
	c := scheduleBody{name: name, paused: spec.Paused, plan: plan{o.Priority, o.Labels, o.ConcurrencyKey, spec.Input}}
	c.times = times{
		cron: strings.TrimSpace(spec.Cron), zone: spec.Zone, every: spec.Every.Milliseconds(), overlap: spec.Overlap, catchUp: spec.CatchUp,
		limit: int64(cmp.Or(spec.CatchUpLimit, DefaultCatchUp)),
	}
	if !spec.Anchor.IsZero() {
		c.times.anchor = spec.Anchor.UnixMilli()
	}
	if o.err == nil && spec.Every%time.Millisecond != 0 {
		o.err = engine.Errorf(ErrInvalid, "action: schedule: an interval of %v is not whole milliseconds", spec.Every)
	}
	return setSchedule.Op(action, c, o.err)
}
