package engine

import "github.com/floedb/floe/internal/wait"

// batch is what commands have done since the last Commit, and what Commit makes of it. It belongs
// to the goroutine that applies. The next batch uses its slices and buffers again.
type batch struct {
	over     *overlay        // rows
	answered int             // bytes of results
	wakes    []wait.Wakeup   // see Tx.Notify
	hooks    []func()        // see Tx.OnCommit
	changes  []pendingChange // see Tx.Changed; those of one machine are handed over together
	observed []Change        // of one machine: buffer of Executor.observe
	row      []byte          // buffer for rows of the engine's own

	// Commit and Executor.Settle fill these, Executor.Ready empties them.
	due   []wait.Wakeup // for parked takes, which are to be looked at
	ready []ReadyTake   // takes that found nothing in the batch and have been looked at again
}

// size returns the size of the writes and answers.
func (b *batch) size() int { return b.over.bytes + b.answered }

// drop forgets what has not been committed.
func (b *batch) drop() {
	b.over.reset()
	b.answered = 0
	b.wakes, b.hooks, b.changes = nil, nil, nil
}
