package shard

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
)

// tableGate admits the tables that Pebble writes for one purpose, flushes or compactions. A table
// is abandoned if there is no space for the rest of it, because the log needs the space in the
// meantime. Pebble retries at once and forever. So the next attempt waits until there is more space
// than the last attempt took. The wait is limited, because that attempt may have shared the space
// with one for the other purpose.
type tableGate struct {
	space   *space
	spares  bool         // takes at most half of the free space: other needs are more urgent
	written atomic.Int64 // by the current attempt; there is one at a time
	min     atomic.Int64 // free bytes that the next attempt waits for
	pauses  atomic.Int32 // minimum wait of the next attempt: a disk's usage does not show a quota
	longest atomic.Int32 // maximum wait of an attempt, in pauses
	waiting atomic.Int32
}

// errReserved refuses a write that would take more than half of the free space.
var errReserved = fmt.Errorf("reserved for others: %w", syscall.ENOSPC)

// begin notes the start of an attempt.
func (t *tableGate) begin() { t.written.Store(0) }

// end notes the end of an attempt.
func (t *tableGate) end(err error) {
	if err == nil {
		t.min.Store(0)
	}
}

// await returns true when it is worthwhile to begin a table, or false if waiting is useless.
func (t *tableGate) await() bool {
	if !t.held() {
		return true
	}
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	for t.held() {
		if !t.space.database.Load() || !t.space.await(t.space.closing) {
			return false
		}
		t.pauses.Add(-1)
		t.longest.Add(-1)
	}
	return true
}

func (t *tableGate) held() bool {
	return t.pauses.Load() > 0 || t.min.Load() > t.space.free.Load() && t.longest.Load() > 0
}

// write writes a part of a table with f. It also fails for lack of space if the remaining space is
// reserved for others.
func (t *tableGate) write(p []byte, f func([]byte) (int, error)) (n int, err error) {
	if t.spares && t.written.Load()+int64(len(p)) > t.space.free.Load() {
		return 0, errReserved
	}
	for {
		m, err := f(p[n:])
		n += m
		t.written.Add(int64(m))
		t.space.wrote(m)
		runtime.Gosched() // a table takes long: callers and the log come first
		switch {
		case !noSpace(err):
			return n, err
		case !t.space.release(t.keep()):
			return n, err
		}
	}
}

// keep returns the number of ballast pieces left to others. A flush leaves half of them, because
// even all of them may not be enough for it.
func (t *tableGate) keep() int {
	if t.spares || !t.space.opened.Load() {
		return ballastPieces
	}
	return ballastPieces / 2
}

// Maximum wait of an attempt, in intervals, for the space that it will probably need. A flush is
// retried before the operations that wait for it give up; see reservePatience.
const (
	flushPatience      = reservePatience - 1
	compactionPatience = 60
)

// failed ends an attempt that found no space.
func (t *tableGate) failed() {
	least, patience := t.written.Load()/4*5, int32(flushPatience)
	if t.spares {
		least, patience = 2*least, compactionPatience
	}
	t.min.Store(least + 1)
	t.pauses.Store(pausesPerInterval)
	t.longest.Store(patience * pausesPerInterval)
}
