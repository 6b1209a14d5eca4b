package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Readers bounds how many calls hold much that they have read: a page of large values is copied
// when it is read, when it is encoded, and when it is sent, and hundreds of them at a time would
// take more memory than a node has. A call that has read little passes. Any other needs a slot,
// from there until its answer has been handed on; some wait for one, more are refused.
type Readers struct {
	slots   chan struct{} // holds as many as are taken
	waiting atomic.Int64
}

const (
	// smallRead is what a call may hold without a slot, which is counted for it anyway.
	smallRead = 16 << 10
	// LargeRead is what is counted for a slot: a page, as large as they are.
	LargeRead = 4 << 20

	readersWait = 7                // calls may wait for each slot: what they have read so far is in memory too
	readerTime  = 30 * time.Second // a call waits for a slot, unless its ctx ends first: as long as a FloQL query may take
)

// NewReaders returns Readers that hold about so many bytes at a time.
func NewReaders(bytes int64) *Readers {
	return &Readers{slots: make(chan struct{}, max(bytes/LargeRead, 2))}
}

// Begin returns the context of the queries of a call, and a function to be called when its answer
// has been handed on.
func (r *Readers) Begin(ctx context.Context) (reading context.Context, end func()) {
	one := &reader{of: r}
	return context.WithValue(ctx, readerKey{}, one), one.end
}

type readerKey struct{}

// reader is a call.
type reader struct {
	of *Readers

	mu    sync.Mutex // guards taken; what has to wait for a slot does so under it, as the queries of a call need one together
	taken bool
}

// take takes a slot, if the call has none. Errors: ErrBusy, ErrClosed when stop is closed; ctx's.
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
	return Errorf(ErrBusy, "%d calls hold more than %d bytes that they have read, the limit is %d", len(r.slots), smallRead, cap(r.slots))
}

func (r *reader) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken {
		r.taken = false
		<-r.of.slots
	}
}

// Skims says that the query keeps little of the rows that it looks at. How much that is it tells by
// Holds.
func (v *View) Skims() { v.scan.skims = true }

// holds counts bytes that a query has read.
func (v *View) holds(n int) {
	if v.scan.bytes += n; !v.scan.skims {
		v.Holds(n)
	}
}

// Holds counts bytes that a query keeps until its answer has been handed on. One that keeps much
// takes a slot.
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

// letGo gives the slot back before a query waits for something to happen: what it has read is of no
// use any more.
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
