// Package workflow runs workflows: steps that invoke actions, other workflows, wait for signals and times, or do several of these at once, one after the other as
// a definition says. Where a run stands is state in its shard: the result of a step, what follows from it and the next invocation are one command of the log,
// so that a run goes on after any crash where it stood, and no step is taken twice.
//
//	flows := node.Workflow("default")
//	_, err := flows.Create(ctx, definition) // YAML or JSON, or made with New
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
// A step has an outcome, success or failure or another one that an action, or the payload of a signal, has named; transitions say where each leads. An outcome
// for which there is no transition falls back to failure if it is one, and fails the run otherwise. Paths such as $.input.amount, $.steps.charge.output.id,
// $.signals.approval.by and $.flo.run_id lead into what the run knows.
//
// What a step has done is undone by its compensate, the last one first, when the run fails, is cancelled or times out: of steps that were successful, and of those
// of which nobody knows.
//
// # Plans
//
// A plan is a choice of executors, actions or workflows, for a step with run: "@plan/payment". They are tried one after the other, in the order of their priority
// (static-order), in turn (round-robin), in one of chance (random), or by priority times the part of late attempts that was good (health-weighted), until
// one succeeds. Breakers, rates, health and what is cached are of the plan of a workflow, for all its runs and versions in a shard:
//
//   - A breaker opens after failures in a row, keeps calls off for its cooldown, and then lets a few through: the first success closes it. In a spread namespace
//     the other shards hear of one that opens.
//   - An executor whose rate is used up is passed over. If that is so of all that are left, the step waits for the earliest leave, which is then its own: who
//     waits gets it in turn. In a spread namespace each shard has its share of a limit.
//   - Only outputs of the outcome success are cached, and none whose key has a path that leads nowhere, to at most MaxCached outputs of MaxCachedBytes in a shard. A
//     signal of one of the types in invalidate_on, to any run, and Store.InvalidatePlan make all of them invalid.
//   - An error in fatal, or one that is not in retryable if that names any, ends the plan. Otherwise the outcome is exhausted when no executor is left, unless
//     there is a fallback.
//
// # Schedules
//
// The default version of a workflow may have a schedule: cron, in a timezone, or an interval, which ticks at whole multiples since 1970. Each tick starts
// one run, whatever crashes meanwhile, unless max_concurrent of its runs are active (1 by default, 0 is no limit): then it is skipped and counted. Of
// the ticks that came due while no node could start runs the latest one does (catch_up: one, the default), none does, or all do, up to catch_up_limit. Enable and
// ResumeSchedule catch nothing up. A new version whose schedule says the same goes on with the next tick, in its own input and max_concurrent.
//
// The trigger of a definition is read and checked; it starts no runs yet.
//
// A step's call has the idempotency key "<run>/<step>#<visit>" in all its attempts: actions are carried out at least once, and have to cope with that.
package workflow
