package shard

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// maxRestores is the number of shards restored at once. Restoring is mostly reading, so the number
// does not depend on the processors. Each reads with one iterator at a time, so it takes only a few
// blocks in addition to the memory of its shard.
const maxRestores = 8

// restoreShards creates the shards and reads their state into memory, several at a time. The error
// is that of the first shard, by number, that cannot be restored; the restored shards are returned
// with it.
func (h *Host) restoreShards() (restored []*shard, err error) {
	all, errs := make([]*shard, h.cfg.Shards), make([]error, h.cfg.Shards)
	for id := range all {
		all[id] = h.newShard(engine.ShardID(id))
	}
	workers := min(maxRestores, len(all))
	if h.cfg.manual {
		workers = 1 // a simulator needs the same reads in the same order
	}
	var next atomic.Int64
	var failed atomic.Bool
	// The numbers are taken in order, so all shards before one that fails are restored, or fail,
	// too.
	work := func(restore func(*shard) error) {
		for !failed.Load() {
			id := int(next.Add(1)) - 1
			if id >= len(all) {
				return
			}
			if errs[id] = restore(all[id]); errs[id] != nil {
				failed.Store(true)
			}
		}
	}
	if workers == 1 {
		work((*shard).restore)
	} else {
		var running sync.WaitGroup
		for range workers {
			running.Go(func() { work((*shard).restoreSafely) })
		}
		running.Wait()
	}
	for id, s := range all {
		if errs[id] != nil {
			return restored, errs[id]
		}
		restored = append(restored, s)
	}
	return restored, nil
}

func (h *Host) newShard(id engine.ShardID) *shard {
	s := &shard{
		host: h, id: id, log: h.ual.Shard(uint16(id)),
		clock:   shardClock{clock: h.cfg.Clock, others: h.clocks, slowed: h.cfg.CatchUp.Milliseconds()},
		mail:    mailbox{wake: make(chan struct{}, 1)},
		pending: pending{all: make(map[uint64][]*proposal)},
		role:    role{led: make(chan struct{})},
		exports: exports{ready: make(map[uint64]*export)},
	}
	s.admission.shard, s.loop.shard, s.applier.shard = s, s, s
	s.applier.queue.wake = make(chan struct{}, 1)
	s.applier.comparer = comparer{shard: s, claims: make(map[uint64]map[uint64]uint64)}
	s.sender = sender{shard: s, wake: make(chan struct{}, 1), active: make(map[engine.ShardID]chan struct{})}
	s.dutyRunner = dutyRunner{shard: s, wake: make(chan struct{}, 1)}
	s.exec = engine.NewExecutor(engine.Config{
		Shard: id, Shards: h.cfg.Shards, DB: h.db, Primitives: h.cfg.Primitives, RowCache: h.rows,
		Compared: len(h.cfg.Voters) > 1, Strict: h.cfg.manual || h.cfg.strict ||
			isGuarded(), Forgetful: h.cfg.Forgetful, DutySpeedup: h.cfg.DutySpeedup,
		Watch: h.watch(),
	})
	return s
}

// watch returns the time source that measures commands, or nil.
func (h *Host) watch() func() time.Duration {
	if h.cfg.watch != nil {
		return h.cfg.watch
	}
	return h.cfg.Clock.Source.Mono
}

func (s *shard) restore() error { return s.exec.Restore() }

// restoreSafely is restore for a separate goroutine, where a panic would otherwise end the program.
func (s *shard) restoreSafely() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("shard %d: restore: %v\n%s", s.id, r, debug.Stack())
		}
	}()
	return s.restore()
}
