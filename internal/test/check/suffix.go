package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/floedb/floe/internal/engine"
)

// Suffix records the acknowledged writes of an async node, and what power failures took of them.
// Only the newest writes of a shard may be lost, none older than the sync interval. Writes
// afterwards must have revisions that no client has seen before. It is safe for concurrent use.
//
// Each write should have a key of its own, or be looked up by its revision in the key's history: an
// overwritten value is not lost.
type Suffix struct {
	mu     sync.Mutex // guards shards
	shards map[engine.ShardID]*acked
}

// Write is a write as known to its client.
type Write struct {
	At       int64 // time of the acknowledgement, in a unit of the caller's choice
	Revision uint64
	Key      string
	Value    string
}

type acked struct {
	writes map[uint64]Write // by revision
	lost   map[uint64]Write
	floor  uint64 // highest revision before the last power failure
}

// NewSuffix returns a Suffix without writes.
func NewSuffix() *Suffix { return &Suffix{shards: make(map[engine.ShardID]*acked)} }

func (s *Suffix) shardLocked(id engine.ShardID) *acked {
	a := s.shards[id]
	if a == nil {
		a = &acked{writes: make(map[uint64]Write), lost: make(map[uint64]Write)}
		s.shards[id] = a
	}
	return a
}

// Acked notes an acknowledged write. It returns an error if its revision was assigned before.
func (s *Suffix) Acked(shard engine.ShardID, w Write) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.shardLocked(shard)
	if other, used := a.writes[w.Revision]; used {
		return fmt.Errorf("shard %d: revision %d is that of two writes:\n%+v\n%+v", shard, w.Revision, other, w)
	}
	if other, used := a.lost[w.Revision]; used {
		return fmt.Errorf("shard %d: revision %d of a lost write is used again:\n%+v\n%+v", shard, w.Revision, other, w)
	}
	if w.Revision <= a.floor {
		return fmt.Errorf("shard %d: write after a power failure has a revision not above %d, which was known before:\n%+v", shard, a.floor,
			w)
	}
	a.writes[w.Revision] = w
	return nil
}

// PowerFailed checks what the node has kept, once it is back. at is the time of the power failure,
// and interval the maximum time of writes before it that may be missing. present reports whether a
// write still exists unchanged. PowerFailed returns the number of lost writes, and an error if they
// are not the newest ones or too old.
func (s *Suffix) PowerFailed(at, interval int64, present func(engine.ShardID, Write) (bool, error)) (lost int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.shards)) {
		n, err := s.shards[id].lose(at-interval, func(w Write) (bool, error) { return present(id, w) })
		if err != nil {
			return lost, fmt.Errorf("shard %d: %w", id, err)
		}
		lost += n
	}
	return lost, nil
}

func (a *acked) lose(oldest int64, present func(Write) (bool, error)) (lost int, err error) {
	var first *Write // the first one lost
	byRevision := func(v, w Write) int { return cmp.Compare(v.Revision, w.Revision) }
	for _, w := range slices.SortedFunc(maps.Values(a.writes), byRevision) {
		a.floor = max(a.floor, w.Revision)
		there, err := present(w)
		switch {
		case err != nil:
			return lost, fmt.Errorf("look for %+v: %w", w, err)
		case there && first != nil:
			return lost, fmt.Errorf("a write is lost, and a later one is not:\n%+v\n%+v", *first, w)
		case there:
			continue
		case w.At < oldest:
			return lost, fmt.Errorf("a write that was acknowledged %d before what may be missing is lost:\n%+v", oldest-w.At, w)
		}
		if first == nil {
			first = &w
		}
		delete(a.writes, w.Revision)
		a.lost[w.Revision] = w
		lost++
	}
	return lost, nil
}
