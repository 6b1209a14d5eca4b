package shard

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// maintain truncates the log after flushes of the state, forces a flush when the log grows without
// one, prepares files for the log, and samples rates.
func (h *Host) maintain() {
	defer h.running.Done()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	rarely := time.NewTicker(tallyInterval)
	defer rarely.Stop()
	for {
		select {
		case <-h.flushed:
			if err := h.truncateFull(); err != nil {
				h.fail(err)
				return
			}
		case <-second.C:
			h.sampleRates()
			if err := h.releaseOld(); err != nil {
				h.fail(err)
				return
			}
			if h.space.readOnly() {
				h.signalFlushed() // there may have been no space to truncate the log
				if err := h.ual.ReleaseSpare(); err != nil {
					h.fail(err)
					return
				}
			}
			if h.logIsLong() {
				if _, err := h.db.AsyncFlush(); err != nil {
					h.fail(fmt.Errorf("flush state: %w", err))
					return
				}
			}
			if err := h.prepareLog(h.ctx); err != nil {
				h.fail(err)
				return
			}
		case <-rarely.C:
			h.keepTallies()
		case <-h.ctx.Done():
			return
		}
	}
}

// logIsLong reports whether to flush the state to shorten the log. While the disk is full the log
// should be short, if there is space to flush the data in memory.
func (h *Host) logIsLong() bool {
	size := h.ual.Size()
	if h.space.readOnly() && size > 2*h.cfg.SegmentBytes && size < h.space.free.Load()/2 {
		return true
	}
	return size > h.cfg.MaxLogBytes && h.space.flush.waiting.Load() == 0
}

// releaseOld releases old tables of the state that shards still use for lookups. release releases
// all tables.
func (h *Host) releaseOld() error { return h.eachExecutor((*engine.Executor).ReleaseOld) }

func (h *Host) release() error { return h.eachExecutor((*engine.Executor).Release) }

func (h *Host) eachExecutor(f func(*engine.Executor) error) error {
	for _, s := range h.shards {
		s.applier.mu.Lock()
		err := f(s.exec)
		s.applier.mu.Unlock()
		if err != nil {
			return fmt.Errorf("shard %d: read state: %w", s.id, err)
		}
	}
	return nil
}

// signalFlushed is called by Pebble. It must not call Pebble.
func (h *Host) signalFlushed() {
	h.tellExecutors((*engine.Executor).Flushed)
	select {
	case h.flushed <- struct{}{}:
	default:
	}
}

// tellExecutors notifies the executors of an event of Pebble, which may also occur while the host
// is being opened.
func (h *Host) tellExecutors(f func(*engine.Executor)) {
	if !h.complete.Load() {
		return
	}
	for _, s := range h.shards {
		f(s.exec)
	}
}

// prepareLog writes a spare file for the log. Without one, as on a nearly full disk, the log is
// only slower.
func (h *Host) prepareLog(ctx context.Context) error {
	if h.space.readOnly() || h.space.free.Load()-h.cfg.SegmentBytes < h.space.leaveAt() {
		return nil
	}
	err := h.ual.Prepare(ctx)
	if err != nil && ctx.Err() == nil && !noSpace(err) {
		return fmt.Errorf("prepare log: %w", err)
	}
	return nil
}

// truncateFull is truncate on a disk that may be full. It frees space, but writes a record first.
func (h *Host) truncateFull() error {
	err := h.truncate()
	if noSpace(err) && h.space.full(err) {
		err = h.truncate()
	}
	if noSpace(err) {
		return nil // retried every second
	}
	return err
}

// truncate drops the part of the log that is no longer needed: the entries in the durable state,
// except those that followers may need.
func (h *Host) truncate() error {
	// Beyond its bound the log keeps no entries for lagging followers, which get a snapshot
	// instead. Also, one shard's few entries must not retain the segments of all others.
	keep := h.cfg.KeepEntries
	if h.ual.Size() > h.cfg.MaxLogBytes || h.space.readOnly() {
		keep = 0
	}
	upTo := make(map[uint16]uint64)
	for _, s := range h.shards {
		durable, err := engine.DurableApplied(h.db, s.id)
		if err != nil {
			return err
		}
		index := min(durable.Index, s.progress.acknowledged.Load())
		if index > keep && index-keep >= s.log.FirstIndex() {
			upTo[uint16(s.id)] = index - keep
		}
	}
	if len(upTo) == 0 {
		return nil
	}
	if err := h.ual.Truncate(upTo); err != nil {
		return fmt.Errorf("truncate log: %w", err)
	}
	return nil
}

// rateWindow is the number of seconds over which the rate of calls is averaged.
const rateWindow = 10

// RateHistory is the number of seconds that Rates covers.
const RateHistory = 300

// rate keeps the count of calls at each of the last seconds.
type rate struct {
	count   atomic.Int64
	past    [RateHistory + 2]atomic.Int64 // one more than the differences of the history, and one that may be being written
	samples atomic.Int64
}

// sample is called once a second by one goroutine, with the number of calls so far.
func (r *rate) sample(calls int64) {
	n := r.samples.Load()
	r.past[n%int64(len(r.past))].Store(calls)
	r.samples.Store(n + 1)
}

// perSecond returns the average rate since the oldest sample, with the number of calls so far.
func (r *rate) perSecond(calls int64) int64 {
	n := r.samples.Load()
	if n == 0 {
		return 0
	}
	seconds := min(n, rateWindow)
	return (calls - r.past[(n-seconds)%int64(len(r.past))].Load()) / seconds
}

// history returns the number of calls in each second between samples, oldest first.
func (r *rate) history() []int64 {
	n := r.samples.Load()
	each := make([]int64, 0, RateHistory)
	for i := max(1, n-RateHistory); i < n; i++ {
		size := int64(len(r.past))
		each = append(each, r.past[i%size].Load()-r.past[(i-1)%size].Load())
	}
	return each
}

// Rates returns the calls and the bytes of Config.Traffic in each of the last seconds, up to
// RateHistory, oldest first. The slices have equal length.
func (h *Host) Rates() (calls, received, sent []int64) {
	calls, received, sent = h.rate.history(), h.received.history(), h.sent.history()
	n := min(len(calls), len(received), len(sent)) // a sample may be added meanwhile
	return calls[len(calls)-n:], received[len(received)-n:], sent[len(sent)-n:]
}

// sampleRates is called once a second.
func (h *Host) sampleRates() {
	t := h.portAlone()
	h.rate.sample(h.calls())
	h.received.sample(t.BytesReceived)
	h.sent.sample(t.BytesSent)
}

// Stats returns statistics of the host, or ErrClosed once it is being closed.
func (h *Host) Stats() (Stats, error) {
	if h.closing.Load() && h.Err() == nil {
		return Stats{}, h.stopError()
	}
	calls := h.calls()
	st := Stats{Node: h.cfg.NodeID, Now: h.now(), Started: h.started, State: h.state(), Durability: h.cfg.Durability.String(),
		Commands: h.earlier + calls, Rate: h.rate.perSecond(calls), Port: h.port()}
	for _, s := range h.shards {
		sh := ShardStats{
			ID: int(s.id), Leader: s.role.leader.Load(), Term: s.role.term.Load(), Applied: s.exec.Visible(),
			LSN: s.progress.visibleLSN.Load(), Queued: int(s.admission.queued.Load()), Waiting: s.exec.Waiting(),
		}
		if why := s.role.halted.Load(); why != nil {
			sh.Problem = why.why
		}
		sh.Commit = max(s.progress.committed.Load(), sh.Applied) // entries applied before the start are committed
		st.Waiting += sh.Waiting
		st.Shards = append(st.Shards, sh)
	}
	st.Disk = DiskStats{
		ReadOnly: h.space.readOnly(), FreeBytes: h.space.freeBytes(), MinFreeBytes: h.space.minFree.Load(),
		Full: h.space.errors.Load(), Slow: h.slow.count.Load(),
	}
	status := "healthy"
	switch {
	case st.State != "ok":
		status = "unhealthy"
	case st.Disk.ReadOnly:
		status = "read-only"
	}
	for _, id := range h.Voters() {
		n := NodeStats{ID: strconv.FormatUint(id, 10), Status: status, Role: "active"}
		switch {
		case id != h.cfg.NodeID:
			n.Status = "healthy"
			if n.Problem = h.problem(id); n.Problem != "" || !h.isAlive(id) {
				n.Status = "unhealthy"
			}
		case st.State == "failed":
			n.Problem = h.Err().Error()
		case st.State == differ:
			n.Problem = h.haltedShard().Error()
		case h.cfg.asyncUnmet:
			n.Problem = asyncUnmet
		}
		if n.Problem == "" {
			n.Problem = h.clocks.problem(id)
		}
		if n.Problem == "" && id == h.cfg.NodeID {
			n.Problem = h.inFuture()
		}
		st.Nodes = append(st.Nodes, n)
	}
	return st, nil
}

func (h *Host) now() time.Time { return time.UnixMilli(h.cfg.Clock.Source.Wall()) }

// calls returns the number of commands and queries so far.
func (h *Host) calls() int64 {
	return h.rate.count.Load() + h.rows.Hits()
}

func (h *Host) state() string {
	if h.Err() != nil {
		return "failed"
	}
	if h.haltedShard() != nil {
		return differ
	}
	for _, s := range h.shards {
		// Receiving from a leader is not enough, because this node must also reach it.
		if leader := s.role.leader.Load(); leader == 0 || leader != h.cfg.NodeID && h.problem(leader) != "" {
			return "no quorum"
		}
	}
	return "ok"
}

// differ is the state of a node on which a shard has stopped.
const differ = "replicas differ"

// haltedShard returns the reason of the first stopped shard, or nil.
func (h *Host) haltedShard() *haltedError {
	for _, s := range h.shards {
		if why := s.role.halted.Load(); why != nil {
			return why
		}
	}
	return nil
}

// problem returns why this node and another one cannot reach each other, or "".
func (h *Host) problem(node uint64) string {
	if h.cfg.Problem == nil {
		return ""
	}
	return h.cfg.Problem(node)
}

// asyncUnmet is reported for a cluster node configured to be async.
const asyncUnmet = "its durability is set to async, which applies only to single nodes: in a cluster it is sync"
