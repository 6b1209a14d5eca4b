// Package action is floe's actions: functions that workers carry out, with retries, time limits,
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
// An action is a name with what holds for its runs: Timeout, MaxAttempts, Backoff, limits, and for
// how long they are kept. An invocation makes a run, which waits until a worker with a handler for
// the action is free, and the labels that the run asks for. Among runs the most urgent priority
// goes first, among equals each action, and each ConcurrencyKey of one, in turn. MaxRunning,
// MaxRunningPerKey and RateLimit bound what is begun; what waits for a limit is in nobody's way.
//
// An attempt begins when a worker takes the run. It ends with what the handler returns, see
// Handler; when it has lasted longer than the timeout, unless Task.Extend has put that off; or when
// the worker's process was not heard of for 30 s. Unless it was successful, another one follows
// after the back-off, up to MaxAttempts in all. The run is Completed, Failed, TimedOut or Cancelled
// then. Attempts of workers that drain, or snooze, do not count.
//
// A worker is listed with what it does, as are the consumers of queues and streams: see
// Store.Workers. Workers in other runtimes call RegisterWorker, Await, Complete, Fail, Extend,
// Heartbeat, Drain and Deregister. A schedule invokes an action by the clock: see Store.Schedules.
//
// # Guarantees
//
// When Invoke returns nil, the run is committed as floe.Config.Durability says. It is carried out
// at least once, and has one result: what an attempt says that is over is refused. Runs, attempts
// and the times for which they wait survive crashes and changes of leaders; a node that fails while
// runs are active ends none of them, and a worker's process that is killed has its runs retried
// elsewhere. With an IdempotencyKey an invocation can be repeated. Invocations and all else that
// writes can be part of a transaction (floe.Node.Txn), and so can the end of an attempt, with what
// its handler writes: see CompleteOp.
//
// Waiting costs nothing: all workers of a process share one waiting call per shard, and neither
// idle nor busy ones write anything for being alive.
//
// # Limits
//
// Inputs and outputs have up to floe.Config.MaxValueSize (1 MiB by default). The workers of a
// process have up to 1,000 runs in a shard at a time, and up to 100 different sets of labels and
// handlers with 1,000 names. The runs that are kept of one action ask for up to 64 different sets
// of labels, none at all included; in a spread namespace that holds for each shard.
package action
