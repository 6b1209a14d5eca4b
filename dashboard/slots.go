package dashboard

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// slots are how many requests are served at once. Some more wait for a moment until one of them has
// ended: to refuse a request costs a third of what it takes to serve it, so a handler that refuses
// as many as it serves would serve fewer. Whoever finds no room to wait is refused, soon.
//
// Those that wait do so by namespace, and the namespaces take turns. When there is no more room,
// one that has more waiting than another makes room for it: its latest request is the one that is
// refused.
type slots struct {
	limit   int          // negative: there is none
	pausing atomic.Int64 // requests that are refused soon

	mu      sync.Mutex // guards what follows
	taken   int
	waiting int
	lines   []*line // namespaces with somebody waiting; the first is served next
}

// line is the requests of a namespace that wait, in order.
type line struct {
	namespace string
	requests  []chan error // of capacity 1: gets nil with the slot, or ErrBusy
}

const (
	waitersOf    = 7 // requests may wait for each that is served
	slotTime     = 100 * time.Millisecond
	pausesOf     = 32 // refusals for each that is served may be put off
	refusalPause = 50 * time.Millisecond
)

func newSlots(limit int) *slots { return &slots{limit: limit} }

// take takes a slot for a request, which leave gives back. Errors: ErrBusy; ctx's.
func (s *slots) take(ctx context.Context, u *url.URL) error {
	if s.limit < 0 {
		return nil
	}
	mine, err := s.enter(u)
	if err != nil {
		return s.refuse(ctx, err)
	}
	if mine == nil {
		return nil
	}
	late := time.NewTimer(slotTime)
	defer late.Stop()
	select {
	case err := <-mine:
		return err
	case <-late.C:
		err = s.busy()
	case <-ctx.Done():
		err = ctx.Err()
	}
	if s.giveUp(mine) {
		return err
	}
	// It has been decided just now.
	if decided := <-mine; decided != nil || ctx.Err() == nil {
		return decided
	}
	s.leave()
	return err
}

// refuse returns the error after a pause, if not too many have one: who comes back at once would be
// refused again, at a cost that others have to bear.
func (s *slots) refuse(ctx context.Context, err error) error {
	if s.pausing.Add(1) <= int64(pausesOf*s.limit) {
		pause := time.NewTimer(refusalPause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	s.pausing.Add(-1)
	return err
}

// enter takes a slot that is free, or returns what tells of one.
func (s *slots) enter(u *url.URL) (mine chan error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken < s.limit {
		s.taken++
		return nil, nil
	}
	namespace := namespaceOf(u)
	own := slices.IndexFunc(s.lines, func(l *line) bool { return l.namespace == namespace })
	if s.waiting >= waitersOf*s.limit {
		longest := slices.MaxFunc(s.lines, func(a, b *line) int { return len(a.requests) - len(b.requests) })
		n := 0
		if own >= 0 {
			n = len(s.lines[own].requests)
		}
		if len(longest.requests) <= n+1 {
			return nil, s.busy()
		}
		last := len(longest.requests) - 1
		longest.requests[last] <- s.busy()
		longest.requests = longest.requests[:last]
		s.waiting--
	}
	if own < 0 {
		own = len(s.lines)
		s.lines = append(s.lines, &line{namespace: namespace})
	}
	mine = make(chan error, 1)
	s.lines[own].requests = append(s.lines[own].requests, mine)
	s.waiting++
	return mine, nil
}

// giveUp ends the waiting of a request. It returns false if it does not wait any more.
func (s *slots) giveUp(mine chan error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range s.lines {
		at := slices.Index(l.requests, mine)
		if at < 0 {
			continue
		}
		s.waiting--
		if l.requests = slices.Delete(l.requests, at, at+1); len(l.requests) == 0 {
			s.lines = slices.Delete(s.lines, i, i+1)
		}
		return true
	}
	return false
}

func (s *slots) busy() error {
	return engine.Errorf(engine.ErrBusy, "%d requests are being served, the limit is %d", s.limit, s.limit)
}

// leave gives a slot to the one who is next.
func (s *slots) leave() {
	if s.limit < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) == 0 {
		s.taken--
		return
	}
	l := s.lines[0]
	s.lines = slices.Delete(s.lines, 0, 1)
	l.requests[0] <- nil
	s.waiting--
	if l.requests = l.requests[1:]; len(l.requests) > 0 {
		s.lines = append(s.lines, l)
	}
}

// namespaceOf returns the namespace that a request is about, as far as its URL tells before it has
// been read: its own, or that of a mistake, which is refused.
func namespaceOf(u *url.URL) string {
	if _, after, ok := strings.Cut(u.Path, "/namespaces/"); ok {
		name, _, _ := strings.Cut(after, "/")
		return name
	}
	return u.Query().Get("namespace")
}
