package transport

import (
	"container/list"
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/budget"
	"github.com/floedb/floe/internal/engine"
)

// Limits of the calls of clients and other nodes. Calls that wait for an event are counted
// separately (engine.Lasting). Each holds a goroutine and little else, and they never take the
// places of other calls.
const (
	maxInFlight = 4096   // non-waiting calls of a stream
	maxWaits    = 16_384 // waiting calls of a stream
	maxAllWaits = engine.MaxWaiters
	maxTaken    = 256 << 20 // bytes of the requests of a stream

	// Messages beyond smallFrame take their memory from one pool for all streams. Each address has
	// a share of it, in which the largest message fits twice.
	smallFrame = 32 << 10
	shareOf    = 4 // of the pool

	maxGreeted   = 1024 // upper bound of concurrent handshakes
	placesOfNode = 8    // connections reserved for each other node of the cluster
)

// room is a number of bytes shared by all streams. Requests beyond it are refused.
type room struct {
	limit int64
	used  atomic.Int64
}

func (r *room) full() bool { return r.used.Load() > r.limit }

// shares limits the bytes of each of many holders.
type shares struct {
	limit int64

	mu sync.Mutex // guards by
	by map[string]int64
}

// add takes n bytes for a holder. Errors: ErrBusy, but never for a holder without bytes.
func (s *shares) add(whose string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if has := s.by[whose]; has > 0 && has+n > s.limit {
		return engine.Errorf(engine.ErrBusy, "the large calls of %s take %d bytes, its share is %d", whose, has+n, s.limit)
	}
	if s.by == nil {
		s.by = make(map[string]int64)
	}
	s.by[whose] += n
	return nil
}

func (s *shares) remove(whose string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[whose] -= n; s.by[whose] == 0 {
		delete(s.by, whose)
	}
}

// latecomers returns how many connections beyond the limit are accepted only to receive the reason
// for their refusal. Others are closed without an answer.
func latecomers(limit int) int { return max(limit/10, 16) }

// tellShare logs, at most once a minute, that an address has used up its share of the connections.
func (p *Peer) tellShare(addr netip.Addr) {
	now := time.Now().UnixNano()
	if last := p.shareTold.Load(); now-last < int64(time.Minute) || !p.shareTold.CompareAndSwap(last, now) {
		return
	}
	p.log.Warn("closed a connection: its address has its share of them", "from", addr, "share", p.accepted.share, "limit",
		p.limits.Connections)
}

// tally counts calls in flight. The calls of one namespace must leave at least a quarter of the
// places to others; see budget.Fair.
type tally struct {
	of           string // its subject, for messages
	calls, waits int    // limits
	alone        bool   // it belongs to one client, so fairness does not apply

	mu              sync.Mutex     // guards what follows
	underWay, lasts int            // non-waiting and waiting calls
	callsBy         map[uint64]int // by the hash of their namespace
	waitsBy         map[uint64]int
	lines           list.List // *line: namespaces with calls waiting for a place; the first is served next
	inLines         int       // total calls in lines
}

// line holds the calls of a namespace that wait for a place, in order.
type line struct {
	namespace uint64
	calls     list.List // *place
}

// waitingCall is a call that waits in a line.
type waitingCall struct {
	line  *line
	taken chan struct{} // closed when the call has its place
}

// If there is no place, some calls wait a moment for one. Refusing a call costs about as much as
// serving it, so a port that refuses as many as it serves would serve fewer.
const (
	waitersOf = 7 // waiting calls per call in flight
	placeTime = 100 * time.Millisecond
)

func newTally(of string, calls, waits int) *tally {
	return &tally{of: of, calls: calls, waits: waits, callsBy: make(map[uint64]int), waitsBy: make(map[uint64]int)}
}

// count returns the counters of a kind of call.
func (t *tally) count(lasting bool) (n *int, by map[uint64]int, limit int, what string) {
	if lasting {
		return &t.lasts, t.waitsBy, t.waits, "wait"
	}
	return &t.underWay, t.callsBy, t.calls, "are under way"
}

// add counts a call of a namespace. Errors: ErrBusy.
func (t *tally) add(lasting bool, namespace uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addLocked(lasting, namespace)
}

// take is add for a call that may wait a moment for a place. Errors: ErrBusy; ctx's.
func (t *tally) take(ctx context.Context, lasting bool, namespace uint64) error {
	t.mu.Lock()
	busy := t.addLocked(lasting, namespace)
	if busy == nil || lasting || t.inLines >= waitersOf*t.calls {
		t.mu.Unlock()
		return busy
	}
	mine := t.waitLocked(namespace)
	t.mu.Unlock()
	late := time.NewTimer(placeTime)
	defer late.Stop()
	select {
	case <-mine.Value.(*waitingCall).taken:
		return nil
	case <-late.C:
	case <-ctx.Done():
		busy = ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-mine.Value.(*waitingCall).taken: // just now
		return nil
	default:
	}
	t.leaveLocked(mine)
	return busy
}

// waitLocked adds a call to the line of its namespace.
func (t *tally) waitLocked(namespace uint64) *list.Element {
	var own *line
	for e := t.lines.Front(); e != nil && own == nil; e = e.Next() {
		if l := e.Value.(*line); l.namespace == namespace {
			own = l
		}
	}
	if own == nil {
		own = &line{namespace: namespace}
		t.lines.PushBack(own)
	}
	t.inLines++
	return own.calls.PushBack(&waitingCall{own, make(chan struct{})})
}

// leaveLocked removes a call from its line.
func (t *tally) leaveLocked(mine *list.Element) {
	l := mine.Value.(*waitingCall).line
	t.inLines--
	if l.calls.Remove(mine); l.calls.Len() > 0 {
		return
	}
	for e := t.lines.Front(); e != nil; e = e.Next() {
		if e.Value.(*line) == l {
			t.lines.Remove(e)
			return
		}
	}
}

// serveLocked gives a free place to a call of the first namespace that may have it, and moves that
// namespace to the end.
func (t *tally) serveLocked() {
	for e := t.lines.Front(); e != nil; e = e.Next() {
		l := e.Value.(*line)
		if t.addLocked(false, l.namespace) != nil {
			continue
		}
		mine := l.calls.Front()
		t.lines.MoveToBack(e)
		t.leaveLocked(mine)
		close(mine.Value.(*waitingCall).taken)
		return
	}
}

func (t *tally) addLocked(lasting bool, namespace uint64) error {
	n, by, limit, what := t.count(lasting)
	own := by[namespace]
	switch {
	case *n >= limit:
		return engine.Errorf(engine.ErrBusy, "%d calls %s on %s, the limit is %d", *n, what, t.of, limit)
	case !t.alone && !budget.Fair(int64(own), 1, int64(*n), int64(limit)):
		return engine.Errorf(engine.ErrBusy,
			"%d of %d calls that %s on %s belong to one namespace: the limit is %d, and part of it is reserved for others",
			own, *n, what, t.of, limit)
	}
	*n++
	by[namespace] = own + 1
	return nil
}

func (t *tally) remove(lasting bool, namespace uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, by, _, _ := t.count(lasting)
	*n--
	if by[namespace]--; by[namespace] == 0 {
		delete(by, namespace)
	}
	if !lasting && t.inLines > 0 {
		t.serveLocked()
	}
}

// used returns the numbers of non-waiting and waiting calls.
func (t *tally) used() (calls, waits int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.underWay, t.lasts
}

// Limit is a limit of the port and its current use.
type Limit struct {
	Name        string
	Used, Limit int64
}

// Limits returns the total limits for clients and other nodes.
func (p *Peer) Limits() []Limit {
	calls, waits := p.tally.used()
	return []Limit{
		{"connections", int64(p.accepted.traffic().Connections), int64(p.limits.Connections)},
		{"calls", int64(calls), int64(p.tally.calls)},
		{"waits", int64(waits), int64(p.tally.waits)},
		{"request_bytes", p.requests.used.Load(), p.requests.limit},
		{"answer_bytes", p.answers.used.Load(), p.answers.limit},
	}
}

// memory is a number of shared bytes. A reader that needs more than are free waits, and so does its
// stream.
type memory struct {
	limit, share int64 // of all, and of an address

	mu    sync.Mutex // guards what follows
	used  int64
	by    map[string]int64 // address
	freed chan struct{}    // closed and replaced when bytes are given back
}

func newMemory(limit, share int64) *memory {
	return &memory{limit: limit, share: share, by: make(map[string]int64), freed: make(chan struct{})}
}

// take waits until n bytes are free for an address. Errors: ctx's error.
func (m *memory) take(ctx context.Context, addr string, n int64) error {
	for {
		m.mu.Lock()
		// A single message fits regardless of its size.
		fits, freed := (m.used+n <= m.limit || m.used == 0) && (m.by[addr]+n <= m.share || m.by[addr] == 0), m.freed
		if fits {
			m.used += n
			m.by[addr] += n
		}
		m.mu.Unlock()
		if fits {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *memory) giveBack(addr string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
	if m.by[addr] -= n; m.by[addr] == 0 {
		delete(m.by, addr)
	}
	close(m.freed)
	m.freed = make(chan struct{})
}
