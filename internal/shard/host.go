package shard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/raftlog"
)

// Host is all shards of a node with their shared parts: the data directory, the log and its writer,
// and the state database. It is the local engine.Door.
type Host struct {
	cfg      Config
	fs       vfs.FS
	stateDir string
	held     heldRemovals
	log      *slog.Logger
	lock     io.Closer
	ual      *raftlog.Log
	db       *pebble.DB
	writer   *logWriter
	launched bool // the goroutines are running
	shards   []*shard
	rows     *engine.RowCache // of all shards
	started  time.Time
	rate     rate                                  // of calls
	earlier  int64                                 // calls before the start
	others   struct{ received, sent atomic.Int64 } // bytes before the start, and over other ports
	tallied  int64                                 // the sum of the counts that were written last; of maintain
	received rate                                  // of bytes, and sent: see Config.Traffic
	sent     rate
	gauges   *gauges
	space    *space
	slow     *slowness
	identity identity
	clocks   *clocks

	ctx      context.Context // done when the host is closed or has failed; all background work ends with it
	cancel   context.CancelFunc
	running  sync.WaitGroup
	flushed  chan struct{} // capacity 1
	claims   chan claimed  // replica comparisons to propose
	complete atomic.Bool   // shards has all shards
	spooled  atomic.Int64  // numbers received snapshots

	// Unused *proposal values. It is a pointer because the runtime keeps a pool, and the object
	// that contains it, for up to two collections after its last use. So a process that reopens
	// hosts would leak them.
	proposals *sync.Pool

	users   atomic.Int64  // calls that may be reading the state
	idle    chan struct{} // capacity 1: users may have reached zero
	closing atomic.Bool

	mu      sync.Mutex // guards failure and broken
	failure error
	broken  bool
	failed  chan struct{} // closed when it is broken

	closeOnce sync.Once
	closeErr  error
}

var (
	_ engine.CachingDoor = (*Host)(nil)
	_ Receiver           = (*Host)(nil)
)

// Open opens or creates a host. With this node as the only voter it returns when every shard can be
// written to.
func Open(c Config) (*Host, error) { return OpenContext(context.Background(), c) }

// OpenContext is Open with a context. When ctx is done, it returns ctx's error, between the steps
// of opening or while it waits for the log to be applied.
func OpenContext(ctx context.Context, c Config) (*Host, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if c.Dir, err = absolute(c.FS, c.Dir); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if c.Dir == "" {
		c.Dir = "floe" // in a memory of its own
	}
	h := &Host{
		cfg: c, log: c.Logger, flushed: make(chan struct{}, 1), claims: make(chan claimed, maxClaims), idle: make(chan struct{},
			1), failed: make(chan struct{}),
		proposals: new(sync.Pool), gauges: newGauges(c.Primitives),
	}
	for _, p := range c.Primitives {
		if p.Kept != nil && c.StateBytes > 0 {
			p.Kept.SetLimit(c.StateBytes)
		}
	}
	h.started = h.now()
	if c.asyncUnmet {
		h.log.Warn(asyncUnmet)
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.clocks = newClocks(&h.cfg)
	h.rows = engine.NewRowCache(h.cfg.CacheBytes / rowCachePart)
	h.space, h.slow = newSpace(h.ctx, &h.cfg), newSlowness(&h.cfg, h.fail)
	h.fs = &watchedFS{FS: c.FS, failed: h.fail, stopped: h.isBroken, space: h.space, slow: h.slow}
	if h.lock, err = lockDir(c.FS, c.Dir); err != nil {
		return nil, err
	}
	if err := h.open(ctx); err != nil {
		if cause := h.Err(); cause != nil {
			err = cause
		}
		h.stopOnce()
		return nil, errors.Join(err, h.releaseAfterFailedOpen())
	}
	return h, nil
}

func (h *Host) open(ctx context.Context) error {
	f, err := readFormat(h.cfg.FS, h.cfg.Dir)
	if err != nil {
		return err
	}
	if f != nil {
		if err := f.agree(&h.cfg); err != nil {
			return err
		}
		h.cfg.Shards, h.cfg.Voters = f.Shards, f.Voters
	} else if h.cfg.Shards == 0 {
		h.cfg.Shards = DefaultShards
	}
	h.cfg.fit(h.space.open(h.cfg.BallastBytes), h.space.minFree.Load())
	if err := h.openStores(f != nil); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if h.shards, err = h.restoreShards(); err != nil {
		return err
	}
	if err := errors.Join(ctx.Err(), h.reconcile()); err != nil {
		return err
	}
	for _, s := range h.shards {
		if err := s.open(); err != nil {
			return err
		}
	}
	h.complete.Store(true)
	if why := h.inFuture(); why != "" {
		h.log.Warn("the time of this node is in the future: " + why)
	}
	// Compactions may have ended before the executors existed.
	h.tellExecutors((*engine.Executor).Merged)
	// Leftovers could help to repair missing data, so they are removed only now that no data is
	// missing.
	if err := errors.Join(h.removeSpools(spoolPrefix), h.held.release(h.fs)); err != nil {
		return err
	}
	created := f == nil
	if created {
		f = &format{Version: FormatVersion, Shards: h.cfg.Shards, NodeID: h.cfg.NodeID, Voters: h.cfg.Voters, Created: h.cfg.Build}
	}
	if created || f.Version != FormatVersion || h.cfg.Build != "" && f.Written != h.cfg.Build {
		f.Version, f.Written = FormatVersion, h.cfg.Build
		if err := h.space.retry(func() error { return writeFormat(h.fs, h.cfg.Dir, *f) }); err != nil {
			return err
		}
	}
	h.identity.format = *f
	if !h.cfg.manual {
		h.readTallies()
		h.start()
		if err := h.awaitLeaders(ctx); err != nil {
			return err
		}
	}
	h.space.opened.Store(true)
	return nil
}

// openStores opens the log and the state. The log of a complete directory has an entry for every
// shard.
func (h *Host) openStores(created bool) error {
	fsys, dir := h.fs, h.cfg.Dir
	h.stateDir = fsys.PathJoin(dir, "state")
	var err error
	h.ual, err = raftlog.Open(raftlog.Options{
		FS: fsys, Dir: fsys.PathJoin(dir, "log"), SegmentSize: h.cfg.SegmentBytes, Spares: h.cfg.logSpares,
		Random: h.cfg.Random, Logger: h.log, CacheBytes: h.cfg.LogCacheBytes,
	})
	if err == nil && h.space.readOnly() {
		err = h.ual.ReleaseSpare() // no space is preallocated
	}
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	switch found := len(h.ual.Shards()); {
	case created && found < h.cfg.Shards:
		return fmt.Errorf("data directory %s: the log holds %d of %d shards: part of it has been lost", dir, found, h.cfg.Shards)
	case created && found > h.cfg.Shards:
		return fmt.Errorf("data directory %s: the log holds %d shards, but FORMAT says %d: it is damaged", dir, found, h.cfg.Shards)
	case !created && found > 0 && h.hasEntries():
		return fmt.Errorf("data directory %s holds a log but no FORMAT file: it has been lost", dir)
	case !created:
		if err := h.createLog(); err != nil {
			return fmt.Errorf("create log: %w", err)
		}
	}
	if h.db, err = h.openState(h.stateDir, created); err != nil {
		return err
	}
	h.writer = newLogWriter(h.ual, &h.cfg, h.fail, h.pokeSenders)
	h.writer.next, h.writer.calls, h.writer.retry = h.goOn, h.rate.count.Load, h.space.retry
	return nil
}

func (h *Host) hasEntries() bool {
	for _, id := range h.ual.Shards() {
		if h.ual.Shard(id).LastIndex() > 0 {
			return true
		}
	}
	return false
}

// createLog writes an entry for every shard, so that Open detects a lost log.
func (h *Host) createLog() error {
	updates := make([]raftlog.Update, h.cfg.Shards)
	for i := range updates {
		updates[i] = raftlog.Update{Shard: uint16(i),
			HardState: &raftpb.HardState{Term: new(uint64(bornTerm)), Vote: new(uint64(0)), Commit: new(uint64(0))}}
	}
	return h.writeLog(updates...)
}

// writeLog writes to the log before the logWriter runs.
func (h *Host) writeLog(updates ...raftlog.Update) error {
	if err := h.space.retry(func() error { return h.ual.Write(updates) }); err != nil {
		return err
	}
	return h.ual.Sync()
}

// open starts raft on a log and a state that match.
func (s *shard) open() error {
	h, applied := s.host, s.exec.Applied()
	s.progress.visibleLSN.Store(uint64(applied.LSN))
	s.clock.observe(applied.Stamp)
	sequence, err := randomSequence(h.cfg.Random)
	if err != nil {
		return err
	}
	s.loop.core, err = newCore(coreConfig{
		node: h.cfg.NodeID, shard: s.id, applied: applied.Index, clock: &s.clock, sequence: sequence,
		first:   len(h.cfg.Voters) > 1 && h.preferred(s.id) == h.cfg.NodeID,
		skipTo:  s.lostTail(applied),
		shared:  h.sharedFlight(),
		pull:    s.pullTakes,
		storage: &storage{Shard: s.log, conf: s.confState(), applied: applied.Index, export: s.prepareExport},
		logger:  raftLogger{h.log.With("shard", s.id)},
	})
	return err
}

func (s *shard) confState() *raftpb.ConfState { return &raftpb.ConfState{Voters: s.host.cfg.Voters} }

// lostTail returns the LSN to which to skip, because LSNs up to it may have been assigned in a lost
// tail of the log, or 0. Only a node that ran with Async reserves LSNs. A clean Close loses none,
// but skipping does no harm.
func (s *shard) lostTail(applied engine.Applied) engine.LSN {
	if reserved := engine.LSN(s.log.Reserved()); reserved > applied.LSN {
		return reserved
	}
	return 0
}

func randomSequence(r io.Reader) (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, fmt.Errorf("read random numbers: %w", err)
	}
	return binary.LittleEndian.Uint64(b[:]) >> 1, nil
}

func (h *Host) start() {
	h.launched = true
	go h.writer.run()
	for _, s := range h.shards {
		h.running.Add(3)
		go s.loop.run()
		go s.applier.run()
		go s.sender.run()
		if s.exec.Dutiful() {
			h.running.Add(1)
			go s.dutyRunner.run()
		}
	}
	h.running.Add(2)
	go h.maintain()
	go h.watchSpace()
	if len(h.cfg.Voters) > 1 {
		h.running.Add(2)
		go h.lead()
		go h.compare()
	}
}

// goOn resumes all shards after a log write.
func (h *Host) goOn() {
	for _, s := range h.shards {
		s.loop.goOn()
	}
}

func (h *Host) pokeSenders() {
	for _, s := range h.shards {
		s.sender.poke()
	}
}

// awaitLeaders makes a single node lead its shards and waits until they have applied the log.
func (h *Host) awaitLeaders(ctx context.Context) error {
	if len(h.cfg.Voters) > 1 {
		return nil
	}
	for _, s := range h.shards {
		s.mail.put(func(in *input) { in.campaign = true })
	}
	for _, s := range h.shards {
		select {
		case <-s.role.led:
		case <-h.ctx.Done():
			return h.stopError()
		case <-ctx.Done():
			return ctx.Err()
		}
		// The outcome of a new command arrives after the complete log has been applied.
		if _, err := s.propose(ctx, engine.Skip(0)); err != nil {
			return err
		}
	}
	return h.createDefault(ctx)
}

// errNotLed is returned by a node that does not lead the shard.
var errNotLed = errors.New("this node does not lead the shard")

// createDefault creates the default namespace if this node leads its shard. It returns errNotLed if
// another node leads the shard and has not created the namespace yet.
func (h *Host) createDefault(ctx context.Context) error {
	home := engine.HomeShard(engine.DefaultNamespace, h.Shards())
	q := engine.NamespaceQuery{Name: engine.DefaultNamespace}
	if err := h.door().Query(ctx, home, &q); err != nil || q.Found {
		return err
	}
	if !h.Leads(home) {
		return errNotLed
	}
	_, err := h.door().Propose(ctx, home, engine.CreateNamespace(engine.DefaultNamespace, false))
	if errors.Is(err, engine.ErrExists) {
		return nil
	}
	return err
}

// Shards returns the number of shards.
func (h *Host) Shards() int { return h.cfg.Shards }

// MaxValue returns the limit for values and payloads.
func (h *Host) MaxValue() int { return h.cfg.MaxValue }

// Leader returns the shard's leader according to this node, or 0 if it is unknown.
func (h *Host) Leader(id engine.ShardID) uint64 { return h.shards[id].role.leader.Load() }

// Leads reports whether this node leads the shard.
func (h *Host) Leads(id engine.ShardID) bool { return h.shards[id].role.leading.Load() }

// Applied returns the applied raft index of this node's replica of a shard.
func (h *Host) Applied(id engine.ShardID) uint64 { return h.shards[id].exec.Visible() }

// Propose proposes a command to the shard; see engine.Door.
func (h *Host) Propose(ctx context.Context, id engine.ShardID, cmd engine.Command) ([]byte, error) {
	if err := h.enter(); err != nil {
		return nil, err
	}
	defer h.leave()
	if int(id) >= len(h.shards) {
		return nil, engine.Errorf(engine.ErrInvalid, "no shard %d: the node has %d", id, len(h.shards))
	}
	h.rate.count.Add(1)
	h.shards[id].admission.calls.Add(1)
	start := time.Now()
	result, err := h.shards[id].propose(ctx, cmd)
	h.gauges.wrote(ctx, &cmd, start, err)
	return result, err
}

// Take proposes a take when items are available; see engine.Door.
func (h *Host) Take(ctx context.Context, id engine.ShardID, t engine.Take) ([]byte, error) {
	if err := h.enter(); err != nil {
		return nil, err
	}
	defer h.leave()
	if int(id) >= len(h.shards) {
		return nil, engine.Errorf(engine.ErrInvalid, "no shard %d: the node has %d", id, len(h.shards))
	}
	h.rate.count.Add(1)
	h.shards[id].admission.calls.Add(1)
	start := time.Now()
	result, err := h.shards[id].take(ctx, t)
	h.gauges.wrote(ctx, &t.Command, start, err)
	return result, err
}

// Query reads the shard's state; see engine.Door.
func (h *Host) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	return h.answer(ctx, id, q, (*shard).query)
}

// QueryStale reads this node's replica of the shard, even if it does not lead or lags far behind.
func (h *Host) QueryStale(ctx context.Context, id engine.ShardID, q engine.Query) error {
	return h.answer(ctx, id, q, (*shard).queryStale)
}

func (h *Host) answer(ctx context.Context, id engine.ShardID, q engine.Query,
	query func(*shard, context.Context, engine.Query) error) error {
	if err := h.enter(); err != nil {
		return err
	}
	defer h.leave()
	if int(id) >= len(h.shards) {
		return engine.Errorf(engine.ErrInvalid, "no shard %d: the node has %d", id, len(h.shards))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	h.rate.count.Add(1)
	start := time.Now()
	err := query(h.shards[id], ctx, q)
	h.gauges.read(ctx, q, start, err)
	return err
}

// Cached answers some reads from memory; see engine.CachingDoor. With several voters a read must
// confirm the leadership.
func (h *Host) Cached(id engine.ShardID, p *engine.Place, m engine.MachineID, kind byte, name string, hash uint64) (row []byte, ok bool) {
	if h.closing.Load() || len(h.cfg.Voters) > 1 {
		return nil, false
	}
	s := h.shards[id]
	if !s.role.leading.Load() {
		return nil, false
	}
	return s.exec.Cached(p, m, kind, name, hash)
}

// Receive processes raft messages from other nodes.
func (h *Host) Receive(id uint16, msgs []*raftpb.Message) {
	if int(id) >= len(h.shards) || h.closing.Load() {
		return
	}
	h.shards[id].mail.put(func(in *input) {
		for _, m := range msgs {
			if m.GetType() != raftpb.MsgSnap { // ReceiveSnapshot receives snapshots with their rows
				in.messages = append(in.messages, m)
			}
		}
	})
}

// enter admits a call that may read the state. The state stays open until the call leaves.
func (h *Host) enter() error {
	h.users.Add(1)
	if !h.closing.Load() {
		return nil
	}
	h.leave()
	return h.stopError()
}

func (h *Host) leave() {
	if h.users.Add(-1) == 0 && h.closing.Load() {
		select {
		case h.idle <- struct{}{}:
		default:
		}
	}
}

// Fail stops the node permanently because of an error of its owner. Its files are intact.
func (h *Host) Fail(err error) { h.stopBecause(err, false) }

// fail stops the node permanently. After that it acknowledges and writes nothing. fail may be
// called from anywhere, even within a file operation.
func (h *Host) fail(err error) {
	if !errors.Is(err, errStopping) {
		h.stopBecause(err, true)
	}
}

func (h *Host) stopBecause(err error, broken bool) {
	h.mu.Lock()
	first := h.failure == nil
	if first {
		h.failure = err
		h.closing.Store(true) // reject new calls before reporting the failure
	}
	if broken && !h.broken {
		h.broken = true
		close(h.failed)
	}
	h.mu.Unlock()
	if first {
		h.log.Error("node failed", "error", err)
		h.stopOnce()
	}
}

// Err returns the error that made the host fail, or nil.
func (h *Host) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failure
}

// isBroken reports whether the host must no longer access its files.
func (h *Host) isBroken() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.broken
}

func (h *Host) stopOnce() {
	h.closing.Store(true)
	h.cancel()
}

// stopError is the error of calls after the host began to close or failed.
func (h *Host) stopError() error {
	if err := h.Err(); err != nil {
		return engine.Errorf(engine.ErrUnavailable, "node has failed: %v", err)
	}
	return engine.Errorf(engine.ErrClosed, "node is closed")
}

// drainTime bounds Close's wait for proposals in flight, which may never complete without a quorum.
const drainTime = 5 * time.Second

// Close closes the host. Waiting calls return ErrClosed. Close flushes acknowledged writes, so that
// the next Open replays nothing.
func (h *Host) Close() error { return h.CloseWithin(drainTime) }

// CloseWithin is Close with a timeout for proposals in flight.
func (h *Host) CloseWithin(drain time.Duration) error {
	h.closeOnce.Do(func() { h.closeErr = h.close(drain) })
	return h.closeErr
}

func (h *Host) close(drain time.Duration) error {
	h.closing.Store(true)
	h.drain(drain)
	h.stopOnce()
	defer h.boundClose().Stop()
	if err := h.awaitGoroutines(); err != nil {
		return err
	}
	h.noteEfforts()
	for _, s := range h.shards {
		s.exports.close()
	}
	if !h.cfg.manual {
		h.keepTallies()
	}
	if err := h.unlessFailed(func() error { return errors.Join(h.release(), h.flushState(), h.closeState()) }); err != nil {
		return fmt.Errorf("close state: %w", err)
	}
	return errors.Join(h.hadFailed(), h.closeLog(), h.lock.Close())
}

// awaitGoroutines waits until all goroutines and calls have ended. It returns an error if the node
// failed. Pebble and the applier may then be stuck in the failed operation, so the wait is bounded.
// The directory stays locked until the process exits.
func (h *Host) awaitGoroutines() error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.running.Wait()
		h.awaitUsers()
		if h.launched {
			h.writer.close()
		}
	}()
	select {
	case <-done:
	case <-h.failed:
		t := time.NewTimer(drainTime)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
		}
	}
	if h.isBroken() {
		return h.hadFailed()
	}
	return nil
}

func (h *Host) hadFailed() error {
	if err := h.Err(); err != nil {
		return fmt.Errorf("node had failed: %w", err)
	}
	return nil
}

// inFlight reports whether an accepted command has no outcome yet.
func (h *Host) inFlight() bool {
	return slices.ContainsFunc(h.shards, func(s *shard) bool { return s.admission.queued.Load() > 0 })
}

// drain waits for the outcome of proposals in flight, or until the timeout.
func (h *Host) drain(within time.Duration) {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		if !h.inFlight() {
			return
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			return
		case <-h.ctx.Done():
			return
		}
	}
}

func (h *Host) awaitUsers() {
	for h.users.Load() > 0 {
		<-h.idle
	}
}

// unlessFailed runs f, or returns an error once the host fails. If the disk fails, Pebble's
// goroutines are parked and f may never return.
func (h *Host) unlessFailed(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-h.failed:
		return h.stopError()
	}
}

func (h *Host) releaseAfterFailedOpen() error {
	if h.awaitGoroutines() != nil {
		return nil // the reason is known
	}
	var errs []error
	if h.db != nil {
		errs = append(errs, h.unlessFailed(func() error { return errors.Join(h.release(), h.closeState()) }))
	}
	// The log's Close would mark the directory as clean.
	return errors.Join(append(errs, h.lock.Close())...)
}
