package engine

import (
	"errors"
	"fmt"
	"math"
)

// What a command may write and answer, with all that it sets going in its shard: a transaction with
// its operations, a Fire with its timers, a delivery with its messages. A command that would write
// or answer more is refused, and nothing of it remains: an answer that is too large to be sent
// would be an error although the command has happened. Every write counts, also one that replaces
// another of the same command: it is the work that is bounded, on every replica alike.
//
// The bytes are four times the largest value, so that one can be overwritten, with its history, and
// then some; an entry that wrote gigabytes would end the node, and do so again whenever it is
// opened. So many rows, of the size that most have, come to about as much in memory.
const (
	MaxCommandBytes = 64 << 20
	MaxCommandRows  = 1 << 18
)

// MaxAnswerBytes bounds the values in the answer to a query that has no pages.
const MaxAnswerBytes = 128 << 20

// What one command may write for what is merely due, until it is Full: the rest is for another
// entry, so that nobody waits for long. One more step comes on top.
const (
	fullBytes = 4 << 20
	fullRows  = 1 << 12
)

// What the commands of an entry may have written for another one of it to be begun. Together they
// never write more than one command may.
const (
	fullEntryBytes = 8 << 20
	fullEntryRows  = 1 << 15
)

// ErrPutOff is the outcome of a command for which its entry had no room left: nothing was done, and
// it has to be proposed again.
var ErrPutOff = errors.New("put off: its entry has written as much as it may")

// work is what has been written; the bytes of answers count too.
type work struct{ rows, bytes int }

// exceeds reports whether there is more of something than in o.
func (w work) exceeds(o work) bool { return w.rows > o.rows || w.bytes > o.bytes }

func (w work) minus(o work) work { return work{w.rows - o.rows, w.bytes - o.bytes} }

func (w *work) add(o work) { *w = work{w.rows + o.rows, w.bytes + o.bytes} }

// budget counts what an entry writes. It is a function of the log: of every call that writes,
// refused commands included, and not of what the batch being applied happens to hold.
type budget struct {
	spent   work // by the entry so far
	before  work // spent when the present command began
	limit   work // of spent
	first   bool // the present command is the first of its entry
	overrun bool // the present command has come to the limit, and is being taken back
}

// unlimited is for the few rows that sum up an entry.
var unlimited = work{math.MaxInt, math.MaxInt}

func (tx *Tx) startEntry() { tx.budget = budget{} }

// startCommand begins the count of a command. It returns false if the entry has no room for it: the
// first always has.
func (tx *Tx) startCommand(first bool) bool {
	b := &tx.budget
	b.limit = work{MaxCommandRows, MaxCommandBytes}
	if !first && (b.overrun || b.spent.exceeds(work{fullEntryRows, fullEntryBytes})) {
		b.overrun = true // those behind it are put off too
		return false
	}
	b.before, b.first, b.overrun = b.spent, first, false
	return true
}

// Full reports whether the command has written so much that what else is due has to wait: a machine
// then stops, at a place from which it can go on, and schedules a timer for now. It has to get on
// by one step at least each time its timer fires. Follow-ups that have not run yet count with what
// they carry, since they are a part of the command.
func (tx *Tx) Full() bool {
	b := &tx.budget
	done := b.spent.minus(b.before)
	done.add(tx.enlisted)
	return done.exceeds(work{fullRows, fullBytes})
}

// A step of a machine: what it may write at most, in tests, when its command is Full already.
const (
	stepBytes = 40 << 20
	stepRows  = 1 << 13
)

// Worked counts work that writes nothing, as so many rows: what a machine finds due, and has to
// note in memory alone.
func (tx *Tx) Worked(rows int) {
	tx.budget.spent.rows += rows
	tx.budget.check()
}

// checkFull panics if a machine has gone on for longer than it may in a Fire.
func (tx *Tx) checkFull(m MachineID) {
	w := tx.budget.spent.minus(tx.budget.before)
	if w.exceeds(work{fullRows + stepRows, fullBytes + stepBytes}) {
		panic(fmt.Sprintf("shard %d, index %d: a timer of machine %d goes on although the command is full: %d rows with %d bytes",
			tx.x.shard, tx.index, m, w.rows, w.bytes))
	}
}

// overrun is the panic that ends a command which writes more than it may. There is no way to go on:
// what it has read was to be written.
type overrun struct{}

// spend counts a row that is about to be written.
func (tx *Tx) spend(bytes int) {
	b := &tx.budget
	b.spent.rows++
	b.spent.bytes += bytes
	b.check()
}

// answer counts the result of a command or of a part of one.
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

// catch, deferred, turns an overrun into the refusal of what was being done.
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
