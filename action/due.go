package action

import (
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
)

// maxDue limits the due work done at once, in addition to engine.Tx.Full.
const maxDue = 1000

// catchUp does the due work of an action and sets its timer for the next.
func (a *act) catchUp() {
	a.changed = true
	a.unschedule()
	if a.deleted {
		if a.cancelAll() {
			a.schedule(a.tx.Now())
		}
		return
	}
	left := a.endDelays(maxDue)
	left = a.expireRuns(left)
	left = a.forgetEnded(left)
	if a.forgetKeys(left); a.sweep {
		a.sweepLanes()
	}
	a.schedule(a.nextDue())
}

// nextDue returns the time of the next due work.
func (r *record) nextDue() int64 {
	next := min(r.nextDelayed, r.nextKey, r.nextExpiry)
	if r.nextEnded != never {
		ends := r.nextEnded + r.retainFor
		if r.kept > r.retainRuns+r.slack()+2 || r.handover > 0 && r.kept > r.retainRuns {
			ends = 0 // the number was lowered, or some runs are kept until their waiters have read them
		}
		next = min(next, max(ends, r.handover))
	}
	if r.sweep {
		next = 0
	}
	return next
}

// endDelays makes runs ready whose delay is over, in the order of their due times.
func (a *act) endDelays(left int) int {
	if a.nextDelayed > a.tx.Now() {
		return left
	}
	a.nextDelayed, left = a.scan(rowDelayed, a.nextDelayed, a.tx.Now(), left, func(k, _ []byte) {
		ref := protocol.Ref{Action: a.id, Run: lastOf(k)}
		a.tx.Delete(k)
		a.delayed--
		st := a.stateOf(ref)
		st.seq = uint64(a.tx.Step())
		a.enqueue(ref, st, false)
	})
	return left
}

// expireRuns fails runs that no worker has started in time.
func (a *act) expireRuns(left int) int {
	if a.nextExpiry > a.tx.Now() {
		return left
	}
	a.nextExpiry, left = a.scan(rowExpiry, a.nextExpiry, a.tx.Now(), left, func(k, _ []byte) {
		ref := protocol.Ref{Action: a.id, Run: lastOf(k)}
		st := a.stateOf(ref)
		a.withdraw(ref, st)
		a.failed++
		st.outcome, st.code, st.message = OutcomeFailure, CodeExpired, "no worker has begun the run in its time"
		a.finish(ref, st, Failed)
	})
	return left
}

// slack is the number of ended runs that may be kept beyond the limit: 1 % of it. Runs are removed
// in batches, since searching for the oldest costs more than removing it.
func (s *spec) slack() int64 { return min(s.retainRuns/100, maxSlack) }

const maxSlack = 64

// forgetEnded removes runs whose retention is over, and the oldest beyond the limit.
func (a *act) forgetEnded(left int) int {
	if a.nextEnded == never {
		return left
	}
	old, seen := a.tx.Now()-a.retainFor, a.tx.Now()-handoverMillis
	a.handover = 0
	goes := func(at int64, value []byte) bool {
		if at > old && a.kept <= a.retainRuns {
			return false
		}
		if at > seen && must(decode(value, (*endedRow).code)).awaited {
			a.handover = at + handoverMillis
			return false
		}
		return true
	}
	a.nextEnded, left = a.scanWhile(rowEnded, a.nextEnded, a.tx.Now(), left, goes, func(k, value []byte) {
		run := lastOf(k)
		a.tx.Delete(k)
		a.kept--
		a.tx.Delete(runKey(nil, rowRun, a.id, run))
		if row := must(decode(value, (*endedRow).code)); row.status != Cancelled || !a.unconfirmedRun(run) {
			a.tx.Delete(runKey(nil, rowState, a.id, run))
			a.leaveSet(row.set)
		}
	})
	return left
}

// unconfirmedRun reports whether a run was cancelled and its worker has not confirmed that.
func (a *act) unconfirmedRun(run uint64) bool {
	b, ok := a.tx.Get(runKey(nil, rowState, a.id, run))
	return ok && must(decode(b, (*stateRow).layout)).flags&flagHeld != 0
}

// forgetKeys removes expired idempotency keys. Keys of runs that have not ended are kept longer.
func (a *act) forgetKeys(left int) {
	if a.nextKey > a.tx.Now() {
		return
	}
	again := make(map[string]keyRow)
	var order []string
	a.nextKey, _ = a.scan(rowKeyEnd, a.nextKey, a.tx.Now(), left, func(k, _ []byte) {
		a.tx.Delete(k)
		name := string(k[behindTimeAt:])
		b, ok := a.tx.Get(append(numberKey(nil, rowKey, a.id), name...))
		if !ok {
			panic("action: an expiry row without its idempotency key")
		}
		row := must(decode(b, (*keyRow).code))
		if a.active(row.ref) {
			row.until, row.over = a.tx.Now()+idempotencyMillis, true
			again[name] = row
			order = append(order, name)
			return
		}
		a.tx.Delete(append(numberKey(nil, rowKey, a.id), name...))
	})
	for _, name := range order {
		a.setKey(name, again[name])
	}
}

// sweepLanes updates lanes whose limit has changed, until the command is full.
func (a *act) sweepLanes() {
	prefix := numberKey(nil, rowLane, a.id)
	from := append(numberKey(nil, rowLane, a.id), a.sweepKey...)
	more := a.each(from, prefix, func(k, value []byte) {
		a.sweepKey = string(k[numberAt:]) + "\x00"
		l := &lane{laneRow: must(decode(value, (*laneRow).code)), set: k[numberAt], key: string(k[numberAt+1:])}
		was := l.eligible
		if a.settleLane(l); l.eligible && !was {
			a.wake(l.set, 1)
		}
	})
	if !more {
		a.sweep, a.sweepKey = false, ""
	}
}

// scan calls f for up to left rows of an index by time within a range of times. It returns the time
// of the first row not processed, and the rest of left.
func (a *act) scan(kind byte, from, to int64, left int, f func(k, value []byte)) (next int64, more int) {
	return a.scanWhile(kind, from, to, left, func(int64, []byte) bool { return true }, f)
}

func (a *act) scanWhile(kind byte, from, to int64, left int, while func(at int64, value []byte) bool, f func(k, value []byte)) (next int64,
	more int) {
	it := a.tx.Iter(timeKey(nil, kind, a.id, from), key.PrefixEnd(numberKey(nil, kind, a.id)))
	defer mustClose(it)
	var k []byte
	for ok := it.First(); ok; ok = it.Next() {
		k = append(k[:0], it.Key()...)
		at := key.Int64(k[numberAt:])
		if at > to || left <= 0 || a.crowded() || !while(at, it.Value()) {
			return at, left
		}
		f(k, it.Value())
		left--
	}
	return never, left
}
