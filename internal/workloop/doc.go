// Package workloop is the loop of everybody who works something off: consumers of queues, consumers of streams, workers of actions.
//
//	loop := workloop.New(workloop.Config[message]{Source: source, Handle: handle, Concurrency: 10})
//	err := loop.Run(ctx) // until ctx ends and what was under way is done
//
// # The loop
//
// A loop has Concurrency slots. While some are free one Take is waiting, for as many pieces of work as that; each piece it returns runs through the
// handler in a goroutine of its own, is settled with the outcome by that goroutine, and then frees its slot.
//
//	Take ──► slots: handler ──► Settle      (and meanwhile, for all that is held: Renew)
//	           └ lane: waits for the piece before it
//
// Everything but Take and Settle is optional and an interface of its own, found by type assertion: a source whose pieces are leased is a Renewer, one to
// which they can be given back a Releaser, one that wants some of them one after the other a Laner. A source whose leases are those of a session, which it
// keeps alive by itself, is none of the first kind, and says by Loop.Cancel what has become of a piece.
//
// # What becomes of a piece
//
//   - The handler returns nil or an error: it is settled with that. A panic, and runtime.Goexit, are errors too (PanicError).
//   - Its lease is lost, since the source says so or since it could not be renewed in time: the handler's context is cancelled with a cause that is a
//     LostError, which matches engine.ErrConflict. If the source said so it is not settled, whatever the handler returns. If only time has passed it is tried:
//     the receipt decides, and not the clock of this process.
//   - It is cancelled (Loop.Cancel): likewise, with the cause that was given, and it is settled with the outcome.
//   - The loop ends first: see below.
//
// An error of Settle that may pass (an outage, busy) is tried again, with pauses, for as long as the piece is held. One that is definite ends it.
//
// # Lanes
//
// Pieces of one lane run one after the other, in the order in which they were taken: one begins when the handler of the one before has returned, also if
// that one was lost long ago, so two pieces of a lane never run at once. When one fails or is lost, the source may have taken back those behind it, to
// deliver them in order: each of those that wait is renewed before it runs, and dropped if it is not the loop's any more. Pieces that wait use no slot;
// Hold bounds how many there are.
//
// # The end
//
// When the context of Run ends nothing new is taken, and what waits in lanes is given back. Handlers have the Grace to finish, with their leases renewed; then their
// contexts are cancelled, with the cause of Run's, and they have 5 s more to return (lastWords). What has failed meanwhile is Stopped: its source gives it back
// instead of counting it as a failure. Who has not returned by then is given up: the piece is given back, and Run returns a *BlockedError. A source
// that is no Releaser has handed out its pieces for good: they are run in any case.
//
// # Outages
//
// A Take that fails is tried again after a pause that doubles up to 5 s, with jitter, until the context ends; so is one that returns nothing at once. Errors that can not pass
// (engine.ErrInvalid, ErrUnauthorized, ErrClosed) end the loop.
//
// # Who looks
//
// A loop counts its runs by the name of the process (Config.Process), and tells them with its load to an Observer, which may show it among the workers of
// a namespace.
package workloop
