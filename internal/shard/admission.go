package shard

import (
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/budget"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/plant"
)

// maxQueued bounds a shard's proposal queue, beside Config.QueueBytes. A queue is full long before callers would give up waiting.
const maxQueued = 16384

// shareCount is over how many shares namespaces are spread by their names' hashes. Those that meet have one together; a share of its own for each would take
// a lock and a map on the way of every write.
const shareCount = 512

// share is what the namespaces of one hash have of a shard's queue.
type share struct{ proposals, bytes atomic.Int64 }

func (h *share) add(n, bytes int64) (proposals, all int64) {
	return h.proposals.Add(n), h.bytes.Add(bytes)
}

func (s *shard) shareOf(namespace string) *share {
	return &s.shares[xxhash.Sum64String(namespace)%shareCount]
}

// enter counts a proposal, unless the queue is full, or its namespace has its share of it already (see budget.Fair). What belongs to no namespace is of floe's
// own making, and may have what there is. Errors: ErrBusy; ErrClosed.
func (s *shard) enter(p *proposal) error {
	size := int64(len(p.data))
	own, ownBytes := p.share.add(1, size)
	n, bytes := s.queued.Add(1), s.queuedBytes.Add(size)
	limit := s.host.cfg.QueueBytes
	alone := bytes == size // and may be larger than the limit
	full := n > maxQueued || bytes > limit && !alone
	fair := p.namespace == "" || budget.Fair(own-1, 1, n-1, maxQueued) && (alone || budget.Fair(ownBytes-size, size, bytes-size, limit)) || plant.On(plant.FloodFills)
	closing := s.host.closing.Load() // since it was entered; else Close waits for what is queued
	if !full && fair && !closing {
		return nil
	}
	s.leave(p.share, size)
	switch {
	case closing:
		return s.host.stopError()
	case full:
		return engine.Errorf(engine.ErrBusy, "shard %d: %d proposals with %d bytes wait, the limits are %d and %d", s.id, n, bytes, maxQueued, limit)
	}
	return engine.Errorf(engine.ErrBusy, "shard %d: %d of %d proposals that wait, with %d of %d bytes, are of namespace %q: the limits are %d and %d, and a part is for others",
		s.id, own, n, ownBytes, bytes, p.namespace, maxQueued, limit)
}

// leave takes back what enter has counted.
func (s *shard) leave(share *share, size int64) {
	share.add(-1, -size)
	s.queued.Add(-1)
	s.queuedBytes.Add(-size)
}
