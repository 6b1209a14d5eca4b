// Package workloop is the consumer loop shared by queue consumers, stream consumers and action
// workers.
//
//	loop := workloop.New(workloop.Config[message]{Source: source, Handle: handle, Concurrency: 10})
//	err := loop.Run(ctx) // until ctx ends and the handlers have finished
//
// # Terms
//
// A source is where the loop gets its work: a queue, a consumer group or the actions of a worker. A
// piece is one unit of work: a message, a record or an attempt of a run. A lane is a sequence of
// pieces that must run one after the other, such as the records with one key.
//
// # The loop
//
// A loop has Concurrency slots. While some are free, one Take is pending, for as many pieces as
// there are free slots. The handler of each piece runs in a separate goroutine. That goroutine
// settles the piece with the outcome and frees the slot.
//
//	Take ──► slots: handler ──► Settle      (meanwhile Renew, for all held pieces)
//	           └ lane: waits for the piece before it
//
// A source implements Take and Settle. Everything else is an optional interface, found by a type
// assertion: a Renewer has leases, a Releaser takes pieces back, and a Laner has lanes. A source
// whose leases belong to a session, which it keeps alive itself, is not a Renewer. It reports the
// loss of a piece with Loop.Cancel.
//
// # Outcomes
//
//   - The handler returns: the piece is settled with nil or the error. A panic or runtime.Goexit is
//     also an error (PanicError).
//   - The lease is lost: the handler's context is cancelled. Its cause is a LostError, which
//     matches engine.ErrConflict. If the source reported the loss, the piece is not settled. If the
//     lease only expired by this process's clock, the loop tries to settle it, and the receipt
//     decides.
//   - The piece is cancelled (Loop.Cancel): the handler's context is cancelled with the given
//     cause, and the piece is settled with the outcome.
//   - The loop ends first: see Shutdown.
//
// Settle is retried with back-off after a transient error (an outage, ErrBusy), while the piece is
// held. Any other error ends the piece.
//
// # Lanes
//
// The pieces of a lane run in the order in which they were taken. A piece starts when the handler
// of the one before it has returned, even if that one was lost long ago, so two pieces of a lane
// never run at once. If a piece fails or is lost, the source may have taken back the pieces behind
// it, to deliver them in order. The loop renews each of those before it runs, and drops it if the
// lease is lost. Waiting pieces use no slots; Hold bounds their number.
//
// # Shutdown
//
// When the context of Run ends, the loop takes no more pieces and releases those waiting in lanes.
// Handlers have the Grace to finish; their leases are still renewed. Then their contexts are
// cancelled with the cause of Run's context, and they have 5 s (lastWords) to return. A piece that
// fails in that time is Stopped: its source releases it instead of counting a failure. A handler
// that has not returned by then is abandoned: its piece is released, and Run returns a
// *BlockedError. If the source is not a Releaser, all taken pieces run.
//
// # Outages
//
// A Take that fails, or that returns nothing at once, is repeated after a pause. The pause doubles
// up to 5 s, with jitter. Permanent errors (engine.ErrInvalid, ErrUnauthorized, ErrClosed) end the
// loop.
//
// # Status
//
// A loop counts its runs by process name (Config.Process). It reports the counts and its load to an
// Observer, which may list the loop among the workers of a namespace.
package workloop
