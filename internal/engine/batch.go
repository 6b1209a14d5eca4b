package engine

import "github.com/floedb/floe/internal/wait"

// batch holds the effects of the commands since the last Commit, and the data that Commit derives
// from them. It belongs to the goroutine that applies. The next batch reuses its slices and
// buffers.
type batch struct {
	over     *overlay        // rows
	answered int             // bytes of results
	wakes    []wait.Wakeup   // see Tx.Notify
	hooks    []func()        // see Tx.OnCommit
	changes  []pendingChange // see Tx.Changed; those of one machine are handed over together
	observed []Change        // of one machine: buffer of Executor.observe
	row      []byte          // buffer for rows of the engine's own

	// Commit and Executor.Settle fill these, Executor.Ready empties them.
	due   []wait.Wakeup // for parked takes, which have to be checked again
	ready []ReadyTake   // takes that found nothing in the batch and have been checked again
}

// size returns the size of the writes and answers.
func (b *batch) size() int { return b.over.bytes + b.answered }

// drop discards uncommitted effects.
func (b *batch) drop() {
	b.over.reset()
	b.answered = 0
	b.wakes, b.hooks, b.changes = nil, nil, nil
}
