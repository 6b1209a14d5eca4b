package action

import (
	"math"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/workers"
)

// Kinds of commands; the numbers are part of the log's format.
const (
	kindInvoke         = protocol.KindInvoke
	kindCancel         = protocol.KindCancel
	kindRegister uint8 = iota + 1
	kindAdopt
	kindEnable
	kindDelete
	kindOpen
	kindWork
	kindTouch
	kindClose
	kindExpire
	kindJoin           = workers.KindJoin
	kindLeave          = workers.KindLeave
	kindNote           = workers.KindNote
	kindSchedule uint8 = iota + 1
	kindUnschedule
	kindPause
	kindTrigger
	kindTick
	kindScheduledEnd
	kindSettle
	kindEnd
	kindHeld
	kindRetry
	kindRunNow
)

const fromAll = engine.FromUsers | engine.FromShards | engine.FromMachines

// The commands of actions, schedules, sessions and runs. Commands for sessions and runs have no
// name. When the disk is full, active runs with small outputs can end, and cancelled runs are
// removed. No run is taken, because each attempt writes.
var (
	invokeRun = &engine.CommandRow[*work, protocol.Invoke, Invoked]{
		Kind: kindInvoke, Name: "invoke", From: fromAll, Body: codeInvoke, Limit: limitInvoke,
		Payload: func(v *protocol.Invoke) int { return len(v.Input) },
		Size:    func(v *protocol.Invoke) int { return len(v.Input) + len(v.Labels) + 64 }, Encoded: (*work).invoke,
		Result: (*Invoked).code,
	}
	cancelRun = &engine.CommandRow[*work, protocol.Cancel, engine.Nothing]{
		Kind: kindCancel, Name: "cancel", From: fromAll, Shrinks: true, Unnamed: true, Body: codeCancel, Run: (*work).cancel,
	}
	register = &engine.CommandRow[*work, spec, int]{
		Kind: kindRegister, Name: "register", From: engine.FromUsers, Body: (*spec).fields, Check: (*spec).check, Apply: (*work).register,
		Result: codeVersion,
	}
	adopt = &engine.MachineRow[*work, adoptBody]{
		Kind: kindAdopt, Name: "adopt", From: engine.FromShards, Body: (*adoptBody).code, Apply: (*work).adopt,
	}
	enable = &engine.CommandRow[*work, bool, engine.Nothing]{
		Kind: kindEnable, Name: "enable", From: engine.FromUsers, Shrinks: true, Body: codec.Flag("enabled"), Run: (*work).enable,
	}
	remove = &engine.CommandRow[*work, bool, engine.Nothing]{
		Kind: kindDelete, Name: "delete", From: engine.FromUsers, Shrinks: true, Body: codec.Flag("force"), Run: (*work).delete,
	}
	openSession = &engine.CommandRow[*work, openBody, uint64]{
		Kind: kindOpen, Name: "open session", From: engine.FromUsers, Unnamed: true,
		Body: (*openBody).code, Check: (*openBody).check, Apply: (*work).open,
		Result: func(session *uint64, f *codec.Fields) { f.Uvarint("session", session) },
	}
	takeRuns = &engine.CommandRow[*work, workBody, worked]{
		Kind: kindWork, Name: "work", From: engine.FromUsers, Unnamed: true, Body: (*workBody).code, Check: (*workBody).check,
		Limit:   (*workBody).limit,
		Payload: (*workBody).payload, Size: (*workBody).size, Encoded: (*work).workOn, Result: (*worked).code,
	}
	touchRun = &engine.CommandRow[*work, touchBody, time.Time]{
		Kind: kindTouch, Name: "touch", From: engine.FromUsers, Unnamed: true, Body: (*touchBody).code, Apply: (*work).touch,
		Result: func(t *time.Time, f *codec.Fields) { f.Moment("deadline_ms", t) },
	}
	closeSession = &engine.CommandRow[*work, sessionBody, bool]{
		Kind: kindClose, Name: "close session", From: engine.FromUsers, Shrinks: true, Unnamed: true,
		Body: (*sessionBody).code, Apply: (*work).close, Result: codec.Flag("more"),
	}
	expireSession = &engine.CommandRow[*work, sessionBody, bool]{
		Kind: kindExpire, Name: "expire session", From: engine.FromLeaders, Shrinks: true, Unnamed: true,
		Body: (*sessionBody).code, Apply: (*work).expire, Result: codec.Flag("more"),
	}
	setSchedule = &engine.CommandRow[*work, scheduleBody, engine.Nothing]{
		Kind: kindSchedule, Name: "schedule", From: engine.FromUsers, Body: (*scheduleBody).code, Check: (*scheduleBody).check,
		Limit:   (*scheduleBody).read,
		Payload: func(b *scheduleBody) int { return len(b.plan.input) }, Run: (*work).setSchedule,
	}
	deleteSchedule = &engine.CommandRow[*work, scheduleName, engine.Nothing]{
		Kind: kindUnschedule, Name: "delete schedule", From: engine.FromUsers, Shrinks: true,
		Body: codeScheduleName(""), Check: (*scheduleName).check, Limit: (*scheduleName).limit, Run: (*work).deleteSchedule,
	}
	pauseSchedule = &engine.CommandRow[*work, scheduleName, engine.Nothing]{
		Kind: kindPause, Name: "pause schedule", From: engine.FromUsers, Shrinks: true,
		Body: codeScheduleName("paused"), Check: (*scheduleName).check, Run: (*work).pauseSchedule,
	}
	triggerSchedule = &engine.CommandRow[*work, scheduleName, Invoked]{
		Kind: kindTrigger, Name: "trigger schedule", From: engine.FromUsers,
		Body: codeScheduleName(""), Check: (*scheduleName).check, Limit: (*scheduleName).limit, Encoded: (*work).triggerSchedule,
		Result: (*Invoked).code,
	}
	tickSchedules = &engine.MachineRow[*work, []dueTicks]{
		Kind: kindTick, Name: "tick schedules", From: engine.FromLeaders, Body: schedules.CodeAll, Apply: (*work).tick,
	}
	endScheduled = &engine.MachineRow[*work, protocol.End]{
		Kind: kindScheduledEnd, Name: "end scheduled run", From: engine.FromMachines, Body: (*protocol.End).Encode,
		Apply: (*work).scheduledEnd,
	}
	settleRuns = &engine.CommandRow[*work, workBody, worked]{
		Kind: kindSettle, Name: "settle", From: engine.FromUsers, Shrinks: true, Unnamed: true, Body: (*workBody).code,
		Check: (*workBody).checkSettle,
		Limit: (*workBody).limit, Size: (*workBody).size, Encoded: (*work).workOn, Result: (*worked).code,
	}
	endRun = &engine.CommandRow[*work, workBody, engine.Nothing]{
		Kind: kindEnd, Name: "end", From: engine.FromUsers, Unnamed: true, Body: (*workBody).code, Check: (*workBody).checkEnd,
		Limit:   (*workBody).limit,
		Payload: (*workBody).payload, Size: (*workBody).size, Run: (*work).endHeld,
	}
	checkHeld = &engine.CommandRow[*work, touchBody, engine.Nothing]{
		Kind: kindHeld, Name: "held", From: engine.FromUsers, Unnamed: true, Body: (*touchBody).code, Run: (*work).held,
	}
	retryRun = &engine.CommandRow[*work, protocol.Ref, engine.Nothing]{
		Kind: kindRetry, Name: "retry", From: engine.FromUsers, Unnamed: true, Body: codeRef, Run: (*work).again,
	}
	hurryRun = &engine.CommandRow[*work, protocol.Ref, engine.Nothing]{
		Kind: kindRunNow, Name: "run now", From: engine.FromUsers, Unnamed: true, Body: codeRef, Run: (*work).hurry,
	}
)

var commands = engine.Declare(engine.MachineAction, "action", checkAction,
	invokeRun, cancelRun, register, adopt, enable, remove, openSession, takeRuns, touchRun, closeSession, expireSession,
	engine.RawRow[*work]{Kind: kindJoin}, engine.RawRow[*work]{Kind: kindLeave}, engine.RawRow[*work]{Kind: kindNote},
	setSchedule, deleteSchedule, pauseSchedule, triggerSchedule, tickSchedules, endScheduled, settleRuns, endRun, checkHeld, retryRun,
	hurryRun)

// commandTypes returns all commands, including those of the worker registry.
func commandTypes() []engine.CommandType {
	types := commands.Types()
	for _, t := range workers.Commands() {
		types[t.Kind-1] = t
	}
	return types
}

// Limits of commands and sessions.
const (
	maxEnds       = 64  // attempts that a command ends; each end may have follow-ups
	maxTaken      = 100 // runs that a command takes
	maxTakenBytes = 4 << 20
	maxGroups     = 100                          // per session
	maxNames      = 1000                         // per session, in all its groups
	maxHeld       = 1000                         // runs that a session holds at a time
	maxMillis     = math.MaxInt64/int64(1e6) + 1 // the longest time.Duration, rounded up; see duration
)

// at routes an operation to a shard.
func at(shard engine.ShardID, op engine.Op) engine.Op {
	op.RouteTo = routeTo(shard)
	return op
}

func checkAction(name string) error { return engine.CheckName("action", name) }

func notFound(name string) error { return engine.Errorf(ErrNotFound, "action %q not found", name) }

func noRun(ref protocol.Ref, shard engine.ShardID) error {
	return engine.Errorf(ErrNotFound, "run %s not found", runLocation{shard, ref}.id())
}
