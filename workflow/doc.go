// Package workflow runs workflows. A definition lists steps that call actions or other workflows,
// one or several in parallel, or that wait for a signal or a time. The state of a run lives in its
// shard. One log command contains the result of a step, its consequences and the next invocation.
// So a run continues where it was after any crash, and no step is executed twice.
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
// A step has an outcome: success, failure, or another one named by an action or by the payload of a
// signal. Transitions map outcomes to the next step. An outcome without a transition falls back to
// failure if it is a failure, and fails the run otherwise. Paths such as $.input.amount,
// $.steps.charge.output.id, $.signals.approval.by and $.flo.run_id refer to the data of the run.
//
// When the run fails, is cancelled or times out, compensate undoes its steps in reverse order: the
// successful steps and those whose effect is unknown.
//
// The page docs/reference/workflow.md lists all keys with their types, defaults and limits, and
// describes paths and conditions. Definition is a definition as a Go value.
//
// # Plans
//
// A plan is a choice of executors (actions or workflows) for a step with run: "@plan/payment". They
// are tried one after the other until one succeeds. The order is by priority (static-order), by
// turns (round-robin), random (random), or by priority times the share of recent good attempts
// (health-weighted). Breakers, rates, health and cached outputs belong to the plan of a workflow,
// for all its runs and versions in a shard:
//
//   - A breaker opens after consecutive failures, rejects calls for its cooldown, and then lets a
//     few through. The first success closes it. In a spread namespace the other shards are notified
//     when one opens.
//   - An executor whose rate is used up is skipped. If that applies to all remaining executors, the
//     step reserves the earliest free slot and waits for it, so waiting steps are served in turn.
//     In a spread namespace each shard has its share of a limit.
//   - Only outputs of the outcome success are cached, and only if every path in the key exists. A
//     shard caches at most MaxCached outputs of MaxCachedBytes. A signal of one of the types in
//     invalidate_on, to any run of the workflow, and Store.InvalidatePlan invalidate all of them.
//   - An error in fatal is not retried: the next executor is tried at once. The same applies to an
//     error that is not in retryable, if retryable names any. A fatal error does not count for the
//     breaker and the health of its executor. The outcome is exhausted when no executor is left,
//     unless there is a fallback. The step's own retry calls the plan again, unless the error of
//     the last executor was fatal.
//
// # Compensation
//
// A run that does not complete compensates its visits to steps that have compensate, in reverse
// order. These are the successful visits and those whose effect is unknown: an attempt timed out,
// was lost or was cancelled, its result was too large or could not be encoded as JSON, or a poll
// was due. A parallel step is compensated if any of its branches may have had an effect. The call
// gets {"input", "output"} of the visit: the input as it was sent, and the outputs of branches in
// their order, null for missing ones. In its own input, $.steps.<the step>.output is that of the
// visit. A failed compensation is retried as defined. If it still fails,
// RunInfo.CompensationsFailed counts it, and the next one follows.
//
// A handler may still be running when its call is over, because the call was cancelled or has timed
// out. A visit is therefore compensated when the handlers of its calls have returned, or after at
// most 60 s. That limit does not depend on their timeouts, since a handler may ignore those. If an
// action makes several attempts, the run waits for the handler of the latest one. The run also
// waits, for at most 60 s, for a child that it ended because of its own cancellation or timeout, or
// the timeout of the step. It waits until the child and all its children have compensated and the
// handlers of their calls have returned.
//
// A completed child is compensated. So is a child that the run itself ended because of a
// cancellation or timeout, even if the child was compensating at that time. A child that ended by
// itself, by failing or at another terminal, is responsible for its own effects and is not
// compensated. A child that was ended by another call of Cancel or by its own timeout is
// compensated, as an action is, unless it has undone its own effects: every executed step with a
// call has compensate, and no compensation failed.
//
// # Limits of a run
//
// A run executes at most max_steps steps in total (100,000 by default). At most 10,000 of them
// follow each other without a wait or a call that begins. A run has at most MaxEvents events. In a
// spread namespace the retention limit of ended runs applies to each shard.
//
// # Schedules
//
// The default version of a workflow may have a schedule: cron, in a timezone, or an interval, which
// ticks at whole multiples since 1970. Each tick starts exactly one run, despite crashes. If
// max_concurrent runs of the schedule are active (1 by default, 0 means no limit), the tick is
// skipped and counted. catch_up selects which of the ticks run that came due while no node could
// start runs: the latest (one, the default), none, or all, up to catch_up_limit. Enable and
// Schedule.Resume do not catch up. A new version with an unchanged schedule continues with the next
// tick, with its own input and max_concurrent. A changed schedule starts over, but a paused
// schedule stays paused.
//
// # Triggers
//
// The default version of a workflow may have a trigger: each batch of records of a stream starts
// exactly one run, despite crashes. The records are taken from a consumer group, which has no other
// consumers and which package stream lists with its lag. They are acknowledged in the command that
// starts the run, or that sends the start to the shard of the workflow. A batch has records of one
// partition, in order: at most batch_size of them (1 by default) and 1 MiB in total. A smaller
// batch starts when its first record has waited for batch_timeout_ms (5 s by default). With a
// batch_size of 1 the input of the run is the payload of the record; with more it is an array of
//
//	{"stream": "orders", "partition": 0, "id": "1700000000000-0", "timestamp": 1700000000000, "key": "customer-7", "headers": {"h": "v"}, "payload": {"total": 12}}
//
// A JSON payload is included unchanged, other text as a string, and any other payload in base64,
// followed by "encoding": "base64". The run's idempotency key is that of its first record,
// "<stream>/<partition>/<id>". Records that cannot start a run, because input_schema rejects them,
// go to the stream's dead-letter queue with the reason.
//
// An existing group keeps its position. In a stream created later, a new group begins with the
// first record. In an existing stream it begins after the last record (start: latest, the default)
// or with the oldest (earliest). max_concurrent limits the active runs of the trigger in all shards
// together. Disable pauses the trigger. A new version of the workflow continues with the same
// group, unless it names another one. When a trigger is removed, the group created for it is
// removed too. If the stream does not exist, or is deleted, the trigger waits until it is created.
// Store.Get returns the state of a trigger.
//
// The stream may be in another namespace. The runs then start in the home of the workflow. In a
// spread namespace each shard distributes the records of its own partitions, and a run lives in the
// shard of its records. There, pausing a trigger and changing its version take effect shortly after
// the call has returned.
//
// All attempts of a step's call have the idempotency key "<run>/<step>#<visit>". Actions are
// executed at least once and must tolerate repeats.
package workflow
