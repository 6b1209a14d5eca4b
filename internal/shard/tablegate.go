package shard

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
)

// tableGate lets through the tables that Pebble writes for one purpose, flushes or compactions.
// What has been written so far is given up when there is no space for the rest, because the log
// needs it meanwhile. Pebble tries again at once and without end, so the first table is held back
// until there is more space than the last attempt took; but not for ever, for that attempt may have
// shared the space with one of the other purpose.
type tableGate struct {
	space   *space
	spares  bool         // takes no more than half of what is free: there are more urgent needs
	written atomic.Int64 // by the attempt under way; there is one at a time
	min     atomic.Int64 // free bytes that the next attempt waits for
	pauses  atomic.Int32 // that it waits in any case: the usage of a disk does not show a quota
	longest atomic.Int32 // pauses that it waits at most
	waiting atomic.Int32
}

// errReserved refuses what would take more than half.
var errReserved = fmt.Errorf("reserved for others: %w", syscall.ENOSPC)

// begin notes that an attempt begins.
func (t *tableGate) begin() { t.written.Store(0) }

// end notes that one has ended.
func (t *tableGate) end(err error) {
	if err == nil {
		t.min.Store(0)
	}
}

// await returns when it is worth while to begin a table. It reports false if it is not, and there
// is no use in waiting.
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

// write writes a part of a table with f. It reports no space also where there is some, if that is
// for others.
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

// keep is how many pieces of the ballast are left to others: half of them by a flush, which may
// need more than there is and then has taken it for nothing.
func (t *tableGate) keep() int {
	if t.spares || !t.space.opened.Load() {
		return ballastPieces
	}
	return ballastPieces / 2
}

// How many intervals an attempt waits at most for the space that it will probably need. A flush is
// tried again before those lose patience who wait for it, see reservePatience.
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
