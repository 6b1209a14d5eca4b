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
// A step's call has the idempotency key "<run>/<step>#<visit>" in all its attempts: actions are carried out at least once, and have to cope with that.
package workflow
