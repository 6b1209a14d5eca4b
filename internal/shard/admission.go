package shard

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/budget"
	"github.com/floedb/floe/internal/engine"
)

// admission counts the accepted proposals of a shard without an outcome, and refuses proposals
// beyond its limits.
type admission struct {
	shard  *shard
	queued atomic.Int64 // proposals
	bytes  atomic.Int64
	calls  atomic.Int64 // total proposals and takes of users

	shares [shareCount]share // the namespaces' shares of queued and bytes
	line   line
}

// maxQueued bounds a shard's proposal queue, in addition to Config.QueueBytes. The queue is full
// long before callers would time out.
const maxQueued = 16384

// shareCount is the number of shares, to which namespaces are assigned by the hashes of their
// names. Namespaces with the same hash have a common share. One share per namespace would add a
// lock and a map to every write.
const shareCount = 512

// share is the part of a shard's queue used by the namespaces of one hash.
type share struct{ proposals, bytes atomic.Int64 }

func (h *share) add(n, bytes int64) (proposals, all int64) {
	return h.proposals.Add(n), h.bytes.Add(bytes)
}

func (a *admission) shareOf(namespace string) *share {
	return &a.shares[xxhash.Sum64String(namespace)%shareCount]
}

// largeBytes is the minimum size of a proposal that waits for room. Smaller ones fill the queue by
// their number long before callers would time out.
const largeBytes = 64 << 10

const (
	maxInLine = 1024            // proposals that wait for room in a shard
	lineTime  = 5 * time.Second // maximum wait of each
)

// line holds the proposals that wait for room in a shard's queue, oldest first.
type line struct {
	n   atomic.Int32 // lets leave skip the lock when the line is empty
	mu  sync.Mutex   // guards all; nothing is called under it but enter
	all []*inLine
}

type inLine struct {
	p     *proposal
	ready chan struct{} // closed when it has been counted
}

// enterInTurn counts a proposal. A large one waits its turn if there is no room for its bytes,
// because refused callers would retry, each with another copy of the proposal. A small one waits
// only while large ones are waiting, because they will take the room. Errors: ErrBusy; ErrClosed;
// that of p.ctx.
func (a *admission) enterInTurn(p *proposal) error {
	if p.size < largeBytes || a.line.n.Load() == 0 {
		err := a.enter(p)
		if !errors.Is(err, engine.ErrBusy) {
			return err
		}
		if p.size < largeBytes && a.line.n.Load() == 0 {
			return err
		}
	}
	me := &inLine{p, make(chan struct{})}
	a.line.mu.Lock()
	if len(a.line.all) >= maxInLine {
		a.line.mu.Unlock()
		return a.enter(p)
	}
	a.line.all = append(a.line.all, me)
	a.line.n.Add(1)
	a.line.mu.Unlock()
	a.serve() // a proposal that has just left did not see it
	late := time.NewTimer(lineTime)
	defer late.Stop()
	var err error
	select {
	case <-me.ready:
		return nil
	case <-late.C:
	case <-p.ctx.Done():
		err = p.ctx.Err()
	case <-a.shard.host.ctx.Done():
		err = a.shard.host.stopError()
	}
	a.line.mu.Lock()
	i := slices.Index(a.line.all, me)
	if i < 0 {
		a.line.mu.Unlock()
		return nil // just now
	}
	a.line.all = slices.Delete(a.line.all, i, i+1)
	a.line.n.Add(-1)
	a.line.mu.Unlock()
	return cmp.Or(err, a.enter(p))
}

// serve admits proposals in the line for which there is room, in order. Proposals of namespaces
// with the same share do not overtake each other.
func (a *admission) serve() {
	a.line.mu.Lock()
	defer a.line.mu.Unlock()
	var stuck []*share
	a.line.all = slices.DeleteFunc(a.line.all, func(w *inLine) bool {
		if slices.Contains(stuck, w.p.share) {
			return false
		}
		if a.enter(w.p) != nil {
			stuck = append(stuck, w.p.share)
			return false
		}
		close(w.ready)
		a.line.n.Add(-1)
		return true
	})
}

// enter counts a proposal, unless the queue is full or its namespace has used up its share (see
// budget.Fair). Proposals without a namespace are internal and not limited to a share. Errors:
// ErrBusy; ErrClosed.
func (a *admission) enter(p *proposal) error {
	host, size := a.shard.host, p.size
	own, ownBytes := p.share.add(1, size)
	n, bytes := a.queued.Add(1), a.bytes.Add(size)
	limit := host.cfg.QueueBytes
	alone := bytes == size // and may be larger than the limit
	full := n > maxQueued || bytes > limit && !alone
	fair := p.namespace == "" || budget.Fair(own-1, 1, n-1, maxQueued) && (alone || budget.Fair(ownBytes-size, size, bytes-size, limit))
	closing := host.closing.Load() // since the call entered; else Close waits for the queue
	if !full && fair && !closing {
		return nil
	}
	a.uncount(p.share, size)
	switch {
	case closing:
		return host.stopError()
	case full:
		return engine.Errorf(engine.ErrBusy, "shard %d: %d proposals with %d bytes are waiting, the limits are %d and %d", a.shard.id, n,
			bytes, maxQueued, limit)
	}
	return engine.Errorf(engine.ErrBusy,
		"shard %d: %d of %d waiting proposals, with %d of %d bytes, belong to namespace %q: the limits are %d and %d, "+
			"and part of them is reserved for other namespaces",
		a.shard.id, own, n, ownBytes, bytes, p.namespace, maxQueued, limit)
}

// leave undoes enter, and admits others.
func (a *admission) leave(share *share, size int64) {
	if a.uncount(share, size); a.line.n.Load() > 0 {
		a.serve()
	}
}

// count counts a proposal without checking the limits, because a parked take may always be
// proposed.
func (a *admission) count(share *share, size int64) {
	share.add(1, size)
	a.queued.Add(1)
	a.bytes.Add(size)
}

func (a *admission) uncount(share *share, size int64) {
	share.add(-1, -size)
	a.queued.Add(-1)
	a.bytes.Add(-size)
}
