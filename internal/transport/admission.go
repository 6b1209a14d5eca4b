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

// What calls of others may take here, at most. Those that go on until something happens are counted
// apart (engine.Lasting): each holds a goroutine and little else, and however many there are, they
// take no place of the others.
const (
	maxInFlight = 4096   // calls of a stream that do not wait
	maxWaits    = 16_384 // calls of a stream that do
	maxAllWaits = engine.MaxWaiters
	maxTaken    = 256 << 20 // bytes of the requests of a stream

	// Messages beyond smallFrame take their memory from one pool for all streams, where one address
	// has a share: the largest message fits in it twice.
	smallFrame = 32 << 10
	shareOf    = 4 // of the pool

	maxGreeted   = 1024 // streams that are greeted at a time, or fewer
	placesOfNode = 8    // connections that are kept for each other node of the cluster
)

// room is bytes that all streams share. Who finds none is refused.
type room struct {
	limit int64
	used  atomic.Int64
}

func (r *room) full() bool { return r.used.Load() > r.limit }

// shares are bytes that each of many may have so many of.
type shares struct {
	limit int64

	mu sync.Mutex // guards by
	by map[string]int64
}

// add takes n bytes for one of them. Errors: ErrBusy, unless it has none yet.
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

// Of connections beyond the limit so many more are let in as far as to hear why they can not stay.
// Others are closed without a word.
func latecomers(limit int) int { return max(limit/10, 16) }

// tellShare logs, once a minute, that an address has its share of the connections.
func (p *Peer) tellShare(addr netip.Addr) {
	now := time.Now().UnixNano()
	if last := p.shareTold.Load(); now-last < int64(time.Minute) || !p.shareTold.CompareAndSwap(last, now) {
		return
	}
	p.log.Warn("closed a connection: its address has its share of them", "from", addr, "share", p.accepted.share, "limit",
		p.limits.Connections)
}

// tally counts calls that are under way. Those of one namespace may leave no less than a fourth of
// what there is to others, see budget.Fair.
type tally struct {
	of           string // what it is for
	calls, waits int    // limits
	alone        bool   // it is of one client, who may do with it as he likes

	mu              sync.Mutex     // guards what follows
	underWay, lasts int            // calls that do not wait, and those that do
	callsBy         map[uint64]int // by the hash of their namespace
	waitsBy         map[uint64]int
	lines           list.List // *line: namespaces with calls that wait for a place; the first is served next
	inLines         int       // calls in all of them
}

// line is the calls of a namespace that wait for a place, in order.
type line struct {
	namespace uint64
	calls     list.List // *place
}

// waitingCall is a call that waits in a line.
type waitingCall struct {
	line  *line
	taken chan struct{} // closed when the call has it
}

// When there is no place some calls wait for a moment until one is free: to refuse a call costs
// about as much as to carry it out, so a port that refuses as many as it serves would serve fewer.
const (
	waitersOf = 7 // calls may wait for each that is under way
	placeTime = 100 * time.Millisecond
)

func newTally(of string, calls, waits int) *tally {
	return &tally{of: of, calls: calls, waits: waits, callsBy: make(map[uint64]int), waitsBy: make(map[uint64]int)}
}

// count returns what is counted for a kind of calls.
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

// take is add for a call that may wait a moment for its place. Errors: ErrBusy; ctx's.
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

// waitLocked puts a call into the line of its namespace.
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

// leaveLocked takes a call out of its line.
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

// serveLocked gives a place that is free to a call of the first namespace that may have it. That
// one is last then.
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
		return engine.Errorf(engine.ErrBusy, "%d of %d calls that %s on %s are of one namespace: the limit is %d, and a part is for others",
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

// used returns how many calls there are, those that wait apart.
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

// memory is a number of bytes that many share. Who wants more than is left waits, and with him the
// stream that he reads.
type memory struct {
	limit, share int64 // of all, and of an address

	mu    sync.Mutex // guards what follows
	used  int64
	by    map[string]int64 // address
	freed chan struct{}    // closed, and made anew, when some is given back
}

func newMemory(limit, share int64) *memory {
	return &memory{limit: limit, share: share, by: make(map[string]int64), freed: make(chan struct{})}
}

// take waits until there are n bytes for an address. Errors: ctx's.
func (m *memory) take(ctx context.Context, addr string, n int64) error {
	for {
		m.mu.Lock()
		// One alone fits however large it is.
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
