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

// slots limits the number of concurrent requests. Some more wait briefly until a slot is free:
// rejecting a request costs a third of serving it, so a handler that rejects as many requests as it
// serves would serve fewer. A request that finds no room to wait is rejected after a short pause.
//
// Requests wait by namespace, and the namespaces take turns. When the queue is full, a namespace
// with more waiting requests makes room for one with fewer: its latest request is rejected.
type slots struct {
	limit   int          // negative: no limit
	pausing atomic.Int64 // requests whose rejection is delayed

	mu      sync.Mutex // guards the fields below
	taken   int
	waiting int
	lines   []*line // namespaces with waiting requests; the first is served next
}

// line is the queue of a namespace's waiting requests, in order.
type line struct {
	namespace string
	requests  []chan error // of capacity 1: receives nil with the slot, or ErrBusy
}

const (
	waitersOf    = 7 // maximum waiting requests per slot
	slotTime     = 100 * time.Millisecond
	pausesOf     = 32 // maximum delayed rejections per slot
	refusalPause = 50 * time.Millisecond
)

func newSlots(limit int) *slots { return &slots{limit: limit} }

// take takes a slot for a request; leave releases it. Errors: ErrBusy; ctx's.
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
	// The decision has just been made.
	if decided := <-mine; decided != nil || ctx.Err() == nil {
		return decided
	}
	s.leave()
	return err
}

// refuse returns the error after a pause, unless too many requests are pausing: a client that
// retries at once would be rejected again, at the expense of others.
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

// enter takes a free slot, or returns the channel that receives one.
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

// giveUp ends the wait of a request. It returns false if the request is no longer waiting.
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

// leave passes a slot to the next request.
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

// namespaceOf returns the namespace of a request, as far as its URL shows before the request is
// parsed. For an invalid request it may be wrong, but the request is then rejected.
func namespaceOf(u *url.URL) string {
	if _, after, ok := strings.Cut(u.Path, "/namespaces/"); ok {
		name, _, _ := strings.Cut(after, "/")
		return name
	}
	return u.Query().Get("namespace")
}
