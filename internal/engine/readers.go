package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Readers limits how many calls hold a large amount of data that they have read. A page of large
// values is copied when it is read, encoded and sent, and hundreds of them at a time would exceed
// the node's memory. A call that has read little passes. Any other call needs a slot until its
// answer has been passed on. A bounded number of calls wait for a slot, and further ones are
// refused.
type Readers struct {
	slots   chan struct{} // one value for each slot in use
	waiting atomic.Int64
}

const (
	// smallRead is the number of bytes that a call may hold without a slot.
	smallRead = 16 << 10
	// LargeRead is the size that is counted for a slot, that of a large page.
	LargeRead = 4 << 20

	readersWait = 7                // calls that may wait for each slot: what they have read so far is in memory too
	readerTime  = 30 * time.Second // how long a call waits for a slot, unless its ctx ends first: as long as a FloQL query may take
)

// NewReaders returns Readers for calls that hold about this many bytes in total.
func NewReaders(bytes int64) *Readers {
	return &Readers{slots: make(chan struct{}, max(bytes/LargeRead, 2))}
}

// Begin returns the context for the queries of a call, and a function to call when its answer has
// been passed on.
func (r *Readers) Begin(ctx context.Context) (reading context.Context, end func()) {
	one := &reader{of: r}
	return context.WithValue(ctx, readerKey{}, one), one.end
}

type readerKey struct{}

// reader is a call.
type reader struct {
	of *Readers

	mu    sync.Mutex // guards taken; held while waiting for a slot, because the queries of a call share one
	taken bool
}

// take takes a slot, if the call has none. Errors: ErrBusy; ErrClosed when stop is closed; ctx's
// error.
func (r *reader) take(ctx context.Context, stop <-chan struct{}) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken {
		return nil
	}
	select {
	case r.of.slots <- struct{}{}:
		r.taken = true
		return nil
	default:
	}
	defer r.of.waiting.Add(-1)
	if r.of.waiting.Add(1) > int64(readersWait*cap(r.of.slots)) {
		return r.of.busy()
	}
	late := time.NewTimer(readerTime)
	defer late.Stop()
	select {
	case r.of.slots <- struct{}{}:
		r.taken = true
		return nil
	case <-late.C:
		return r.of.busy()
	case <-stop:
		return Errorf(ErrClosed, "closed while a query waited")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Readers) busy() error {
	return Errorf(ErrBusy, "%d calls hold more than %d bytes of results, the limit is %d", len(r.slots), smallRead, cap(r.slots))
}

func (r *reader) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken {
		r.taken = false
		<-r.of.slots
	}
}

// Skims declares that the query keeps little of the rows it reads. It reports the amount with
// Holds.
func (v *View) Skims() { v.scan.skims = true }

// holds counts bytes that a query has read.
func (v *View) holds(n int) {
	if v.scan.bytes += n; !v.scan.skims {
		v.Holds(n)
	}
}

// Holds counts bytes that a query keeps until its answer has been passed on. A query that keeps
// many bytes takes a slot.
func (v *View) Holds(n int) {
	s := &v.scan
	if s.held += n; s.held <= smallRead || s.large || s.ctx == nil {
		return
	}
	s.large = true
	if r, ok := s.ctx.Value(readerKey{}).(*reader); ok {
		if err := r.take(s.ctx, s.stop); err != nil && s.err == nil {
			s.err = err
		}
	}
}

// letGo releases the slot before a query waits for a notification, because the data it has read is
// no longer needed.
func (v *View) letGo() {
	s := &v.scan
	if !s.large {
		return
	}
	s.large = false
	if r, ok := s.ctx.Value(readerKey{}).(*reader); ok {
		r.end()
	}
}
