// Package workflow runs workflows: steps that invoke actions, other workflows, wait for signals and
// times, or do several of these at once, one after the other as a definition says. Where a run
// stands is state in its shard: the result of a step, what follows from it and the next invocation
// are one command of the log, so that a run goes on after any crash where it stood, and no step is
// taken twice.
//
//	flows := node.Workflow("default")
//	_, err := flows.Create(ctx, definition) // YAML or JSON, or Definition.YAML
//	started, err := flows.Start(ctx, "order", []byte(`{"amount":12}`))
//	run, err := flows.Wait(ctx, started.Run)
//
// # Definitions
//
//	name: order
//	version: "1"
//	start: { run: "@actions/validate", transitions: { success: charge, failure: rejected } }
//	steps:
//	  charge:
//	    run: "@actions/charge"
//	    input: { amount: "$.input.amount" }
//	    retry: { max_attempts: 3, backoff: exponential, initial_delay_ms: 1000 }
//	    compensate: "@actions/refund"
//	    transitions: { success: approve, failure: flo.Failed }
//	  approve:
//	    waitForSignal: { type: approval, timeoutMs: 3600000, onTimeout: rejected }
//	    transitions: { success: flo.Completed, rejected: rejected }
//	terminals: { rejected: { status: failed } }
//
// A step has an outcome, success or failure or another one that an action, or the payload of a
// signal, has named; transitions say where each leads. An outcome for which there is no transition
// falls back to failure if it is one, and fails the run otherwise. Paths such as $.input.amount,
// $.steps.charge.output.id, $.signals.approval.by and $.flo.run_id lead into what the run knows.
//
// What a step has done is undone by its compensate, the last one first, when the run fails, is
// cancelled or times out: of steps that were successful, and of those that nobody knows of.
//
// REFERENCE.md, beside this package, lists all keys with their types, defaults and limits, and
// describes paths and conditions. Definition is a definition as a Go value.
//
// # Plans
//
// A plan is a choice of executors, actions or workflows, for a step with run: "@plan/payment". They
// are tried one after the other, in the order of their priority (static-order), in turn
// (round-robin), in one of chance (random), or by priority times the part of late attempts that was
// good (health-weighted), until one succeeds. Breakers, rates, health and what is cached are of the
// plan of a workflow, for all its runs and versions in a shard:
//
//   - A breaker opens after failures in a row, keeps calls off for its cooldown, and then lets a
//     few through: the first success closes it. In a spread namespace the other shards hear of one
//     that opens.
//   - An executor whose rate is used up is passed over. If that is so of all that are left, the
//     step waits for the earliest leave, which is then its own: who waits gets it in turn. In a
//     spread namespace each shard has its share of a limit.
//   - Only outputs of the outcome success are cached, and none whose key has a path that leads
//     nowhere, to at most MaxCached outputs of MaxCachedBytes in a shard. A signal of one of the
//     types in invalidate_on, to any run of the workflow, and Store.InvalidatePlan make all of them
//     invalid.
//   - An error in fatal is not retried: the next executor is tried at once. So is one that is not
//     in retryable, if that names any. A fatal error does not count for the breaker and the health
//     of its executor. The outcome is exhausted when no executor is left, unless there is a
//     fallback. The step's own retry calls the plan again, unless the error of the last executor
//     was fatal.
//
// # Compensation
//
// A run that does not complete compensates its visits to steps with compensate, the last one first:
// those that went well, and those of which nobody knows what they have done, because an attempt
// timed out, was lost or was cancelled, its result was too large or could not be encoded as JSON,
// or a poll was due. A parallel step is compensated if a branch of it may have done something. The
// call gets {"input", "output"} of the visit, the input as it was sent and the outputs of branches
// in their order, null where there is none; in its own input, $.steps.<the step>.output is that of
// the visit. A compensation that fails is retried as it says, counted in
// RunInfo.CompensationsFailed, and the next one follows.
//
// What was called may be at work when its call is over, because that was cancelled or has timed
// out: a visit is compensated when the handlers of its calls have returned, but after 60 s at most,
// however short their timeouts are, since a handler may ignore those. Of the attempts that an
// action makes by itself, the last one to begin is waited for. In the same way the run waits, for
// 60 s at most, for a child that it has ended by its cancel, its timeout or that of the step, until
// the child and all its children have compensated what they have done and the handlers of their
// calls have returned.
//
// A child that has completed is compensated, and so is one that the run itself has ended, by its
// cancel or a timeout, also if the child was just then compensating what it had done. One that came
// to its end by itself, failed or at another terminal, answers for what it has done, and is not.
// One that was cancelled by another call of Cancel, or whose own timeout has ended it, is
// compensated, as an action is, unless it has undone itself: each step that it has taken, and that
// calls something, has compensate, and no compensation has failed.
//
// # Limits of a run
//
// A run takes max_steps steps in all (100,000 unless the definition says otherwise), at most 10,000
// of them in a row without a wait or a call that begins, and has MaxEvents events. In a spread
// namespace each shard keeps as many ended runs as retention says.
//
// # Schedules
//
// The default version of a workflow may have a schedule: cron, in a timezone, or an interval, which
// ticks at whole multiples since 1970. Each tick starts one run, whatever crashes meanwhile, unless
// max_concurrent of its runs are active (1 by default, 0 is no limit): then it is skipped and
// counted. Of the ticks that came due while no node could start runs the latest one does (catch_up:
// one, the default), none does, or all do, up to catch_up_limit. Enable and Schedule.Resume catch
// nothing up. A new version whose schedule says the same goes on with the next tick, in its own
// input and max_concurrent; one with another schedule starts afresh, but a schedule that was paused
// stays paused.
//
// # Triggers
//
// The default version of a workflow may have a trigger: each batch of records of a stream starts
// one run, whatever crashes meanwhile. The records are taken from a consumer group, which package
// stream lists with its lag, and which has no other consumers; they are acknowledged in the command
// that starts the run, or sends the start to the shard of the workflow. A batch has records of one
// partition, in their order: batch_size of them at most (1 by default), of 1 MiB together at most,
// or as many as there are when the first has waited for batch_timeout_ms (5 s by default). With a
// batch_size of 1 the input of the run is the payload of the record; with more it is an array of
//
//	{"stream": "orders", "partition": 0, "id": "1700000000000-0", "timestamp": 1700000000000, "key": "customer-7", "headers": {"h": "v"}, "payload": {"total": 12}}
//
// in which a payload that is JSON stands as it is, other text as a string, and anything else in
// base64, with "encoding": "base64" beside it. The run's idempotency key is that of its first
// record, "<stream>/<partition>/<id>". Records with which no run can be started, because
// input_schema refuses them, go to the stream's dead letters with the reason.
//
// A group that is there goes on where it is. One that is made for the trigger begins with the first
// record of a stream that is made later, and of a stream that is there behind the last one (start:
// latest, the default) or with the oldest (earliest). With max_concurrent so many of its runs are
// active at most, in all shards together. Disable pauses the trigger; a new version of the workflow
// goes on with the same group, unless it names another one; a trigger that goes takes the group
// with it that was made for it. A stream that does not exist is waited for, also when it is deleted
// and made again. Store.Get says how a trigger stands.
//
// The stream may be in another namespace, whose runs then start in the home of the workflow. In a
// spread namespace each shard hands out the records of its own partitions, and a run is where they
// are; there a trigger is paused, and another version used, a moment after the call has returned.
//
// A step's call has the idempotency key "<run>/<step>#<visit>" in all its attempts: actions are
// carried out at least once, and have to cope with that.
package workflow
