package engine

import (
	"errors"
	"fmt"
	"math"
)

// Limits on what one command may write and answer, including everything it triggers in its shard: a
// transaction with its operations, a Fire with its timers, a delivery with its messages. A command
// that exceeds a limit is refused and has no effect. An answer too large to send would be an error
// although the command took effect. Every write counts, even one that overwrites another write of
// the same command, because the limit bounds the work, and must be the same on every replica.
//
// The byte limit is four times the largest value, so that a value can be overwritten, with its
// history, and some room is left. An entry that writes gigabytes would crash the node every time it
// is opened. The maximum number of rows, at a typical size, takes about as much memory.
const (
	MaxCommandBytes = 64 << 20
	MaxCommandRows  = 1 << 18
)

// MaxAnswerBytes bounds the values in the answer to an unpaged query.
const MaxAnswerBytes = 128 << 20

// The writes of one command for due work, after which it is Full. The rest goes into another entry,
// so that other callers do not wait long. One step may exceed the limit.
const (
	fullBytes = 4 << 20
	fullRows  = 1 << 12
)

// The writes of an entry after which no other command of it starts. Together its commands never
// write more than one command may.
const (
	fullEntryBytes = 8 << 20
	fullEntryRows  = 1 << 15
)

// ErrPutOff is the outcome of a command for which its entry had no room left. The command had no
// effect and must be proposed again.
var ErrPutOff = errors.New("put off: its entry has written as much as it may")

// work is an amount of writes; the bytes of answers count too.
type work struct{ rows, bytes int }

// exceeds reports whether w has more rows or more bytes than o.
func (w work) exceeds(o work) bool { return w.rows > o.rows || w.bytes > o.bytes }

func (w work) minus(o work) work { return work{w.rows - o.rows, w.bytes - o.bytes} }

func (w *work) add(o work) { *w = work{w.rows + o.rows, w.bytes + o.bytes} }

// budget counts the writes of an entry. It is a function of the log: it counts every write, even
// those of refused commands, and does not depend on the contents of the batch.
type budget struct {
	spent   work // by the entry so far
	before  work // spent when the current command started
	limit   work // of spent
	first   bool // the current command is the first of its entry
	overrun bool // the current command has reached the limit and is being rolled back
}

// unlimited is for the few rows that summarize an entry.
var unlimited = work{math.MaxInt, math.MaxInt}

func (tx *Tx) startEntry() { tx.budget = budget{} }

// startCommand starts counting a command. It returns false if the entry has no room for the
// command. The first command always has room.
func (tx *Tx) startCommand(first bool) bool {
	b := &tx.budget
	b.limit = work{MaxCommandRows, MaxCommandBytes}
	if !first && (b.overrun || b.spent.exceeds(work{fullEntryRows, fullEntryBytes})) {
		b.overrun = true // the commands behind it are put off too
		return false
	}
	b.before, b.first, b.overrun = b.spent, first, false
	return true
}

// Full reports whether the command has written so much that the remaining due work must wait. A
// machine then stops at a point from which it can continue, and schedules a timer for now. It must
// make at least one step each time its timer fires. Follow-ups that have not run yet count with the
// size of their bodies, because they are part of the command.
func (tx *Tx) Full() bool {
	b := &tx.budget
	done := b.spent.minus(b.before)
	done.add(tx.enlisted)
	return done.exceeds(work{fullRows, fullBytes})
}

// The maximum writes, checked in tests, of a step of a machine whose command is already Full.
const (
	stepBytes = 40 << 20
	stepRows  = 1 << 13
)

// Worked counts work without writes as a number of rows. It is for due work that a machine only
// records in memory.
func (tx *Tx) Worked(rows int) {
	tx.budget.spent.rows += rows
	tx.budget.check()
}

// checkFull panics if a machine has continued in a Fire for longer than it may.
func (tx *Tx) checkFull(m MachineID) {
	w := tx.budget.spent.minus(tx.budget.before)
	if w.exceeds(work{fullRows + stepRows, fullBytes + stepBytes}) {
		panic(fmt.Sprintf("shard %d, index %d: a timer of machine %d continues although the command is full: %d rows with %d bytes",
			tx.x.shard, tx.index, m, w.rows, w.bytes))
	}
}

// overrun is the panic that ends a command that exceeds its write limit. The command cannot
// continue, because it relies on its writes.
type overrun struct{}

// spend counts a row before it is written.
func (tx *Tx) spend(bytes int) {
	b := &tx.budget
	b.spent.rows++
	b.spent.bytes += bytes
	b.check()
}

// answer counts the result of a command or of a part of a command.
func (tx *Tx) answer(result []byte) {
	b := &tx.budget
	b.spent.bytes += len(result)
	b.check()
}

func (b *budget) check() {
	if b.spent.exceeds(b.limit) {
		b.overrun = true
		panic(overrun{})
	}
}

// catch, deferred, turns an overrun into the refusal of the current operation.
func (tx *Tx) catch(err *error) {
	if !tx.budget.overrun {
		return
	}
	switch r := recover().(type) {
	case nil:
		return
	case overrun:
	default:
		panic(r)
	}
	for len(tx.open) > 0 {
		if err := tx.open[len(tx.open)-1].Close(); err != nil {
			panic(storageFailure{err})
		}
	}
	w := tx.budget.spent.minus(tx.budget.before)
	*err = Errorf(ErrInvalid, "a command writes and answers at most %d bytes, in %d rows: this one has been stopped at %d bytes in %d rows",
		MaxCommandBytes, MaxCommandRows, w.bytes, w.rows)
}
