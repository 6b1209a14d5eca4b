package dashboard

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// slots are how many requests are served at once. Some more wait for a moment until one of them has ended: to refuse a request costs a third of what it takes to
// serve it, so a handler that refuses as many as it serves would serve fewer. Whoever finds no room to wait is refused at once.
type slots struct {
	free    chan struct{} // holds as many as are taken; nil: there is no limit
	waiting atomic.Int64
}

const (
	waitersOf = 7 // requests may wait for each that is served
	slotTime  = 100 * time.Millisecond
)

func newSlots(limit int) *slots {
	if limit < 0 {
		return new(slots)
	}
	return &slots{free: make(chan struct{}, limit)}
}

// take takes a slot, which leave gives back. Errors: ErrBusy; ctx's.
func (s *slots) take(ctx context.Context) error {
	if s.free == nil {
		return nil
	}
	select {
	case s.free <- struct{}{}:
		return nil
	default:
	}
	if s.waiting.Add(1) > int64(waitersOf*cap(s.free)) {
		s.waiting.Add(-1)
		return s.busy()
	}
	defer s.waiting.Add(-1)
	late := time.NewTimer(slotTime)
	defer late.Stop()
	select {
	case s.free <- struct{}{}:
		return nil
	case <-late.C:
		return s.busy()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slots) busy() error {
	return engine.Errorf(engine.ErrBusy, "%d requests are being served, the limit is %d", len(s.free), cap(s.free))
}

func (s *slots) leave() {
	if s.free != nil {
		<-s.free
	}
}
