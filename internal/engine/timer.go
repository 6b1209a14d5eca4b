package engine

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/plant"
)

// NoTimer is the due time of a shard without timers.
const NoTimer = math.MaxInt64

// maxFire bounds what one Fire command does, so that a million timers due at once do not stop everything else.
const maxFire = 256

// timerIndex knows where the timers of a shard begin. No timer is due before next: iterating from there never walks over
// the remains of timers that have fired.
//
// Rows: 't' | due (i64) | machine (u8) | namespace number (u32) | token
type timerIndex struct{ next int64 }

func (x *Executor) restoreTimers() error {
	x.timers.next = NoTimer
	it, err := newIter(x.db, x.rowKey(nil, machineEngine), []byte{'t'}, []byte{'t' + 1}, nil)
	if err != nil {
		return err
	}
	if it.First() && !plant.On(plant.LoseTimers) {
		t, err := parseTimer(it.Key())
		if err != nil {
			it.Close()
			return err
		}
		x.timers.next = t.due
	}
	return it.Close()
}

// NextDue returns when the earliest timer is due, in ms since the epoch, or NoTimer. It may be too early, never too late.
func (x *Executor) NextDue() int64 { return x.nextDue.Load() }

// Schedule stores a durable timer: at due (ms) or soon after, the machine's OnTimer gets the token, in the command's
// namespace. The same due and token scheduled twice is one timer.
func (tx *Tx) Schedule(due int64, token []byte) {
	tx.setRow(tx.timerRow(due, token), nil)
	tx.x.timers.next = min(tx.x.timers.next, due)
}

// ScheduleNew is Schedule for a timer that is not set (see Insert).
func (tx *Tx) ScheduleNew(due int64, token []byte) {
	tx.insertRow(tx.timerRow(due, token), nil)
	tx.x.timers.next = min(tx.x.timers.next, due)
}

// Unschedule removes a timer; it need not exist.
func (tx *Tx) Unschedule(due int64, token []byte) { tx.deleteRow(tx.timerRow(due, token)) }

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

// Fire is the command that hands out timers that are due at the entry's time stamp, until it is Full. Its result is the number handed out.
func Fire() Command { return Command{Machine: machineEngine, Kind: kindFire} }

func (tx *Tx) applyFire() ([]byte, error) {
	due, next := tx.dueTimers()
	for i, t := range due {
		if i > 0 && tx.Full() && !plant.On(plant.EndlessFire) {
			due, next = due[:i], t.due
			break
		}
		s := tx.nestedMark()
		if err := tx.fireTimer(t); err != nil {
			if i == 0 {
				panic(fmt.Sprintf("shard %d, index %d: a timer of machine %d: %v", tx.x.shard, tx.index, t.machine, err))
			}
			tx.rollback(s)
			tx.budget.overrun = false
			due, next = due[:i], t.due // it comes first the next time
			break
		}
	}
	// Timers that OnTimer scheduled itself are part of the minimum already.
	tx.x.timers.next = min(next, tx.x.timers.next)
	return codec.AppendUvarint(nil, uint64(len(due))), nil
}

// fireTimer hands out a timer. It can not be refused: an error says that there was no room for it.
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
	tx.x.reads.Reset()
	tx.followed = 0
	m.OnTimer(tx, t.token)
	tx.settled("a timer")
	if tx.x.strict {
		tx.checkFull(t.machine)
	}
	return nil
}

// dueTimers returns up to maxFire timers due now, and the due time of the first one left. It moves timers.next out of the way.
func (tx *Tx) dueTimers() (due []timer, next int64) {
	x := tx.x
	next = NoTimer
	lower := key.AppendInt64([]byte{'t'}, x.timers.next)
	x.timers.next = NoTimer
	it := tx.Iter(lower, []byte{'t' + 1})
	for ok := it.First(); ok; ok = it.Next() {
		t, err := parseTimer(append([]byte(nil), it.Key()...))
		if err != nil {
			panic(fmt.Sprintf("shard %d: %v", x.shard, err))
		}
		if t.due > tx.now || len(due) == maxFire {
			next = t.due
			break
		}
		due = append(due, t)
	}
	if err := it.Close(); err != nil {
		panic(storageFailure{err})
	}
	return due, next
}
