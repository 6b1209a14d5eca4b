package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/key"
)

// NoTimer is the due time of a shard without timers.
const NoTimer = math.MaxInt64

// maxFire bounds the work of one Fire command, so that a million timers due at once do not block
// everything else.
const maxFire = 256

// timerIndex holds the position of a shard's first timer. No timer is before first, and none is due
// before next. An iterator that starts there skips the tombstones of fired timers. A million of
// them may have the same due time.
//
// Rows: 't' | due (i64) | machine (u8) | namespace number (u32) | token
type timerIndex struct {
	next  int64  // when first is due, or NoTimer
	first []byte // key of a row
}

// from records an existing or future timer, which may be the first.
func (t *timerIndex) from(due int64, row []byte) {
	if due < t.next || due == t.next && bytes.Compare(row, t.first) < 0 {
		t.next, t.first = due, append(t.first[:0], row...)
	}
}

func (x *Executor) restoreTimers() error {
	x.timers.next = NoTimer
	it, err := newIter(x.committed.db, x.rowKey(nil, machineEngine), []byte{'t'}, []byte{'t' + 1}, nil)
	if err != nil {
		return err
	}
	if it.First() {
		t, err := parseTimer(it.Key())
		if err != nil {
			it.Close()
			return err
		}
		x.timers.from(t.due, it.Key())
	}
	return it.Close()
}

// Schedule stores a durable timer. At due (ms) or soon after, the machine's OnTimer receives the
// token, in the command's namespace. Scheduling the same due time and token twice makes one timer.
func (tx *Tx) Schedule(due int64, token []byte) {
	row := tx.timerRow(due, token)
	tx.x.timers.from(due, row[rowPrefix:])
	tx.setRow(row, nil)
}

// ScheduleNew is Schedule for a timer that is not set yet (see Insert).
func (tx *Tx) ScheduleNew(due int64, token []byte) {
	row := tx.timerRow(due, token)
	tx.x.timers.from(due, row[rowPrefix:])
	tx.insertRow(row, nil)
}

// Unschedule removes a timer, which need not exist.
func (tx *Tx) Unschedule(due int64, token []byte) { tx.deleteRow(tx.timerRow(due, token)) }

// Advance makes the only timer of an object fire no later than at. due is the field of the object's
// row with that timer's due time, or NoTimer if it has none. The token is a kind and the object's
// number. Advance reports whether due has changed. A timer that fires earlier stays, since most
// deadlines are never reached.
func (tx *Tx) Advance(due *int64, at int64, kind byte, number uint64) bool {
	if at >= *due {
		return false
	}
	tx.Halt(due, kind, number)
	tx.ScheduleNew(at, NumberToken(kind, number))
	*due = at
	return true
}

// Halt removes the timer of Advance if there is one.
func (tx *Tx) Halt(due *int64, kind byte, number uint64) {
	if *due != NoTimer {
		tx.Unschedule(*due, NumberToken(kind, number))
		*due = NoTimer
	}
}

// NumberToken returns the token of the timer of Advance.
func NumberToken(kind byte, number uint64) []byte { return key.AppendUint64([]byte{kind}, number) }

func (tx *Tx) timerRow(due int64, token []byte) []byte {
	return timerRow(tx.rowKey(machineEngine), timer{due, tx.machine, tx.ns.id, token})
}

func timerRow(dst []byte, t timer) []byte {
	dst = key.AppendInt64(append(dst, 't'), t.due)
	dst = key.AppendUint32(append(dst, byte(t.machine)), t.ns)
	return append(dst, t.token...)
}

type timer struct {
	due     int64
	machine MachineID
	ns      uint32
	token   []byte
}

func parseTimer(k []byte) (timer, error) {
	if len(k) < 14 {
		return timer{}, fmt.Errorf("timer row %x is too short", k)
	}
	return timer{key.Int64(k[1:]), MachineID(k[9]), binary.BigEndian.Uint32(k[10:]), k[14:]}, nil
}

// Fire is the command that fires the timers due at the entry's timestamp, until it is Full. Its
// result is the number of fired timers.
func Fire() Command { return Command{Machine: machineEngine, Kind: kindFire} }

func (tx *Tx) applyFire() ([]byte, error) {
	it := tx.timersFromFirst()
	defer func() {
		if err := it.Close(); err != nil {
			panic(storageFailure{err})
		}
	}()
	fired := 0
	for ok := it.First(); ok; ok = it.Next() {
		t, err := parseTimer(bytes.Clone(it.Key()))
		if err != nil {
			panic(fmt.Sprintf("shard %d: %v", tx.x.shard, err))
		}
		if t.due > tx.now || fired == maxFire || fired > 0 && tx.Full() || !tx.tryTimer(t, fired == 0) {
			tx.x.timers.from(t.due, it.Key()) // it is the first next time
			break
		}
		fired++
	}
	return codec.AppendUvarint(nil, uint64(fired)), nil
}

// timersFromFirst iterates over all timers as they are now. The first timer must then be recorded
// again, from those set from now on and from the first one left.
func (tx *Tx) timersFromFirst() *Iter {
	lower := []byte{'t'}
	if tx.x.timers.next != NoTimer {
		lower = bytes.Clone(tx.x.timers.first)
	}
	tx.x.timers.next = NoTimer
	it := tx.Iter(lower, []byte{'t' + 1})
	tx.closed(it) // a timer without room closes its own iterators, not this one
	return it
}

// tryTimer fires a timer. It returns false, without effects, if there is no room for it after
// others.
func (tx *Tx) tryTimer(t timer, first bool) bool {
	s := tx.nestedMark()
	err := tx.fireTimer(t)
	if err == nil {
		return true
	}
	if first {
		panic(fmt.Sprintf("shard %d, index %d: a timer of machine %d: %v", tx.x.shard, tx.index, t.machine, err))
	}
	tx.rollback(s)
	tx.budget.overrun = false
	return false
}

// fireTimer fires a timer. It cannot be refused; an error means that there was no room for it.
func (tx *Tx) fireTimer(t timer) (err error) {
	defer tx.catch(&err)
	tx.ns = tx.x.dir.get(t.ns)
	m := tx.x.machine(t.machine)
	if tx.ns == nil || m == nil {
		panic(fmt.Sprintf("shard %d: timer of unknown machine %d or namespace %d", tx.x.shard, t.machine, t.ns))
	}
	tx.machine = t.machine
	tx.deleteRow(tx.timerRow(t.due, t.token))
	tx.Step()
	tx.enter(t.machine)
	tx.followed = 0
	m.OnTimer(tx, t.token)
	tx.settled("a timer")
	if tx.x.checks.strict {
		tx.checkFull(t.machine)
	}
	return nil
}
