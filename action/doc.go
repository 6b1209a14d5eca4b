// Package action provides actions: functions that workers execute, with retries, timeouts,
// priorities, limits and schedules.
//
//	node, _ := floe.Open(floe.Config{DataDir: "data"})
//	actions := node.Action("default")
//	_, err := actions.Register(ctx, "add", action.Timeout(10*time.Second), action.MaxAttempts(6))
//
//	w := actions.Worker(action.WorkerConfig{Concurrency: 20}) // in this process, or in any other one through floe.Dial
//	action.Handle(w, "add", func(ctx context.Context, in Numbers) (int, error) { return in.A + in.B, nil })
//	go w.Run(ctx)
//
//	sum, err := action.Invoke[int](ctx, actions, "add", Numbers{2, 3}) // waits for it
//	i, err := actions.Invoke(ctx, "add", []byte(`{"A":2,"B":3}`), action.Delay(time.Hour), action.IdempotencyKey("k"))
//	run, err := actions.Wait(ctx, i.Run)
//
// # Concepts
//
// An action is a name with the settings for its runs: Timeout, MaxAttempts, Backoff, limits and
// retention. An invocation creates a run. The run waits for a free worker that has a handler for
// the action and the labels the run requires. The run with the most urgent priority goes first.
// Among equals, actions take turns, and so do the ConcurrencyKeys of an action. MaxRunning,
// MaxRunningPerKey and RateLimit bound the runs that start. Runs waiting for a limit do not block
// others.
//
// An attempt begins when a worker takes the run. It ends when the handler returns (see Handler),
// when it exceeds the timeout, which Task.Extend can postpone, or when the worker's process has
// been silent for 30 s. After an unsuccessful attempt another one follows after the back-off, up to
// MaxAttempts in all. The run then becomes Completed, Failed, TimedOut or Cancelled. Snoozed
// attempts, and those that a draining worker releases, do not count.
//
// Workers are listed with their handlers, and so are the consumers of queues and streams: see
// Store.Workers. Workers in other runtimes call RegisterWorker, Await, Complete, Fail, Extend,
// Heartbeat, Drain and Deregister. A schedule invokes an action at set times: see Store.Schedules.
//
// # Guarantees
//
// When Invoke returns nil, the run is committed as floe.Config.Durability specifies. It is executed
// at least once and has one result: the result of an attempt that is over is rejected. Runs,
// attempts and their timers survive crashes and leader changes. A node failure ends no active runs.
// If a worker's process is killed, its runs are retried elsewhere. With an IdempotencyKey an
// invocation can be repeated. Invocations and all other writes can be part of a transaction
// (floe.Node.Txn). So can the end of an attempt, together with the writes of its handler: see
// CompleteOp.
//
// Waiting is free: all workers of a process share one waiting call per shard, and neither idle nor
// busy workers write anything to stay alive.
//
// # Limits
//
// Inputs and outputs have up to floe.Config.MaxValueSize (1 MiB by default). The workers of a
// process hold up to 1,000 runs in a shard at a time. They have up to 100 different sets of labels
// and handlers, with 1,000 names in all. The retained runs of an action require up to 64 different
// sets of labels, including the empty set; in a spread namespace this limit applies to each shard.
package action
