package shard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
)

// Defaults and limits of space. Values in bytes are for large volumes. On a small volume they are a
// share of it.
const (
	defaultMinFree      = 256 << 20 // or a fiftieth of the volume
	defaultDiskInterval = time.Second
	pausesPerInterval   = 10              // retries without space per interval
	openPatience        = 5 * time.Second // how long Open waits for space if even the ballast is not enough
	reservePatience     = 3               // intervals that Close waits, or a command that shrinks when the reserve is used up
)

// Levels of space.
const (
	plenty    int32 = iota
	low             // read-only: only shrinking commands are accepted
	exhausted       // the remaining space is for the node itself
)

// space keeps a node alive on a disk that fills up. A full disk is detected by a watermark rather
// than by errors. Below minFree the node is read-only, so that flushes, compactions and the log of
// shrinking commands still find space. Above 1.5 times minFree it accepts writes again.
//
//	free   |-- exhausted --|------- low -------|......... low or plenty .........|--- plenty ---
//	       0          minFree/16           minFree                         1.5 minFree
//
// While there is ballast, space is not exhausted. minFree is twice the maximum of unflushed data in
// memory, so that a flush finds enough space; see Config.fit.
//
// It checks the disk every interval, and when enough has been written to reach the next mark. Other
// programs write to the disk too, so an operation may still find no space at any time. Then the
// ballast, which is files that only take up space, is released piece by piece; see full. The
// operation is retried and never refused, because a half-written append of raft, or MANIFEST, would
// have no defined meaning.
//
// On a file system that does not report its usage there is neither watermark nor ballast, and an
// error makes the node read-only.
type space struct {
	fs       vfs.FS // bare: the ballast's operations are not watched
	dir      string
	log      *slog.Logger
	stopping context.Context // of the host: ends the waiting of the log
	closing  context.Context // later: ends the waiting of flushes and compactions
	close    context.CancelFunc
	closed   context.Context // last: ends the waiting of other writes of the state database
	abandon  context.CancelFunc
	patient  bool          // false: no waiting, as in a simulator
	pause    time.Duration // between retries of operations that found no space
	asked    int64         // Config.MinFreeBytes

	level    atomic.Int32
	database atomic.Bool  // the state database is open; opening it waits for compactions that it has begun
	opened   atomic.Bool  // before, every operation is the host's own and admitted
	free     atomic.Int64 // at the last check, minus bytes written since
	mark     atomic.Int64 // of free: below it, check the disk
	minFree  atomic.Int64
	errors   atomic.Int64 // operations that found no space
	waiting  atomic.Int32 // appends to the log that wait for space

	flush, compaction tableGate
	unflushed         func() (bytes int64, crowded bool) // of the state; crowded: a further write may have to wait for a flush
	underWay          func() bool                        // whether admitted commands are not applied yet

	mu      sync.Mutex // guards what follows and the files of the ballast, held while those are written
	ballast ballast
	since   time.Time // time of the first error during Open
	failed  bool      // there was an error since the last tick
}

func newSpace(stopping context.Context, c *Config) *space {
	s := &space{
		fs: c.FS, dir: c.Dir, log: c.Logger, stopping: stopping, patient: !c.manual, pause: c.DiskInterval / pausesPerInterval,
		asked:   c.MinFreeBytes,
		ballast: ballast{fs: c.FS, dir: c.Dir},
	}
	s.flush.space, s.compaction.space, s.compaction.spares = s, s, true
	s.closing, s.close = context.WithCancel(context.Background())
	s.closed, s.abandon = context.WithCancel(context.Background())
	return s
}

// open checks the disk for the first time, and finds the existing ballast. It returns the size of
// the volume, or 0 if unknown.
func (s *space) open(ballastBytes int64) (volume int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, known := s.lookLocked()
	if !known {
		return 0
	}
	volume = int64(min(u.TotalBytes, math.MaxInt64))
	if ballastBytes == 0 {
		ballastBytes = min(defaultBallast, volume/64)
	}
	s.ballast.find(ballastBytes)
	return volume
}

// noSpace reports whether an operation has failed because the disk or the quota is full. It is also
// true if the process has no free file descriptor, which is temporary too, until connections are
// closed.
func noSpace(err error) bool {
	return err != nil && (vfs.IsNoSpaceError(err) || errors.Is(err, syscall.EDQUOT) || noDescriptor(err))
}

// noDescriptor reports whether an operation has failed because too many files are open.
func noDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func (s *space) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookLocked()
}

// lookLocked reads the free space and sets the level accordingly, but never back to plenty, which
// tick does.
func (s *space) lookLocked() (u vfs.DiskUsage, known bool) {
	u, err := s.fs.GetDiskUsage(s.dir)
	if err != nil || u.TotalBytes == 0 {
		if s.free.Store(math.MaxInt64); s.failed {
			s.free.Store(0)
		}
		return u, false
	}
	free, minFree := int64(min(u.AvailBytes, math.MaxInt64)), s.asked
	if minFree == 0 {
		minFree = min(defaultMinFree, int64(u.TotalBytes/50))
	}
	s.free.Store(free)
	s.minFree.Store(minFree)
	s.settleLocked(free, minFree)
	s.mark.Store(math.MinInt64) // below the last mark only a tick changes the level
	for _, mark := range []int64{minFree, minFree / 16} {
		if free >= mark {
			s.mark.Store(mark)
			break
		}
	}
	return u, true
}

func (s *space) settleLocked(free, minFree int64) {
	switch level := s.level.Load(); {
	case level == plenty && free >= minFree:
	case level == plenty:
		s.enterLocked("free space is low")
	case s.waiting.Load() > 0 || free < minFree/16 && !s.ballast.more(keptPieces):
		s.level.Store(exhausted)
	default:
		s.level.Store(low)
	}
}

func (s *space) enterLocked(why string) {
	s.level.Store(low)
	s.log.Warn("disk: read-only", "reason", why, "free_bytes", s.freeBytes(), "min_free_bytes", s.minFree.Load())
}

// wrote counts bytes written to the disk.
func (s *space) wrote(n int) {
	if s.free.Add(-int64(n)) >= s.mark.Load() || !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	s.lookLocked()
}

// noticed is called when an operation finds no space. It makes the node read-only.
func (s *space) noticed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noticedLocked(err)
}

func (s *space) noticedLocked(err error) {
	s.errors.Add(1)
	s.failed = true
	if s.level.Load() == plenty {
		why := "no space left"
		if noDescriptor(err) {
			why = "too many open files: raise the limit of open files (ulimit -n), or lower that of connections"
		}
		s.enterLocked(why)
	}
	s.lookLocked()
}

// full is called when a required operation finds no space. It reports whether to retry at once,
// because a piece of the ballast was released for it. The last pieces are kept for Open, because a
// node killed on a full disk must be able to start again. A lack of file descriptors releases no
// ballast.
func (s *space) full(err error) (again bool) {
	switch {
	case noDescriptor(err):
		s.noticed(err)
		return false
	case s.opened.Load():
		return s.release(keptPieces)
	}
	return s.release(0)
}

// release releases a piece of the ballast if more than keep are left, and reports whether it did.
func (s *space) release(keep int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	released := s.ballast.release(keep)
	s.noticedLocked(syscall.ENOSPC)
	return released
}

// retry calls f, which needs space, until it succeeds or fails for another reason. f must leave
// nothing that prevents a retry. While the log waits here, no commands are admitted.
func (s *space) retry(f func() error) error {
	err := f()
	if !noSpace(err) {
		return err
	}
	s.waiting.Add(1)
	defer func() {
		s.waiting.Add(-1)
		s.look()
	}()
	for noSpace(err) && (s.full(err) || s.await(s.stopping)) {
		err = f()
	}
	if noSpace(err) && s.stopping.Err() != nil {
		return errStopping
	}
	return err
}

// errStopping is returned to operations that wait for space when the host stops. Their writes were
// not acknowledged.
var errStopping = errors.New("the host is stopping")

// await waits a moment. It reports whether to retry, which is false when ctx is done, or when Open
// has waited for openPatience.
func (s *space) await(ctx context.Context) bool {
	if !s.patient || !s.worthWaiting() {
		return false
	}
	t := time.NewTimer(s.pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *space) worthWaiting() bool {
	if s.opened.Load() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		s.since = time.Now()
	}
	return time.Since(s.since) < openPatience
}

// admit refuses a command for which there may be no space. Shrinking commands are admitted while
// some space is left and they can be applied; see applicable. A flush may need all of that space
// for a moment. Commands in the log can no longer be refused.
func (s *space) admit(ctx context.Context, x *engine.Executor, cmd engine.Command) error {
	if s.level.Load() == plenty || !s.opened.Load() {
		return nil
	}
	if x.Shrinks(cmd) {
		for range reservePatience * pausesPerInterval {
			if s.level.Load() != exhausted && s.applicable() {
				return nil
			}
			if ctx.Err() != nil || !s.await(s.stopping) {
				break
			}
		}
	}
	return s.refusal()
}

// applicable reports whether a command admitted now will be applied without waiting for space. That
// is so if the data in memory can be flushed, or if memory has room for the command and no other
// command in flight may take it. The size of a command's writes to the state is not known in
// advance. So if no flush is possible, commands are admitted one at a time.
func (s *space) applicable() bool {
	bytes, crowded := s.unflushed()
	if s.flush.waiting.Load() == 0 && bytes/4*5 <= s.flushable() {
		return true
	}
	return !crowded && !s.underWay()
}

// flushable returns the number of bytes that a flush can write: the free space, and its part of the
// ballast.
func (s *space) flushable() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := max(s.free.Load(), 0)
	if free == math.MaxInt64 {
		return free
	}
	return free + s.ballast.spare(s.flush.keep())
}

func (s *space) refusal() error {
	return engine.Errorf(engine.ErrReadOnly, "node is read-only: %d bytes are free on its disk, it accepts writes again above %d",
		s.freeBytes(), s.leaveAt())
}

func (s *space) leaveAt() int64 { return s.minFree.Load() / 2 * 3 }

// freeBytes returns the free space to display, or 0 if unknown.
func (s *space) freeBytes() int64 {
	if free := s.free.Load(); free < math.MaxInt64/2 {
		return max(free, 0)
	}
	return 0
}

func (s *space) readOnly() bool { return s.level.Load() != plenty }

// watchSpace checks the disk every interval until the host stops.
func (h *Host) watchSpace() {
	defer h.running.Done()
	t := time.NewTicker(h.cfg.DiskInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			h.space.tick()
			h.clocks.look()
			if err := h.missed(); err != nil {
				h.fail(err)
				return
			}
		case <-h.ctx.Done():
			return
		}
	}
}

// missed returns an error if the data directory has been removed. Its files are still open, so the
// node would continue to acknowledge writes, which would be lost on exit.
func (h *Host) missed() error {
	name := h.fs.PathJoin(h.cfg.Dir, "FORMAT")
	if _, err := h.cfg.FS.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data directory %s was removed while the node was running: %w; restore the directory before the node is "+
			"started again", h.cfg.Dir, err)
	}
	return nil
}

// tick checks the disk, creates missing pieces of the ballast, and ends read-only mode when there
// is space again. The ballast proves that the free space is usable, because a disk's usage does not
// show a quota.
func (s *space) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := s.failed
	s.failed = false
	_, known := s.lookLocked()
	if !known {
		if !failed && s.waiting.Load() == 0 && s.readOnly() {
			s.leaveLocked()
		}
		return
	}
	enough := s.free.Load()-s.ballast.missing() >= s.leaveAt()
	switch {
	case !enough:
	case !s.readOnly():
		s.ballast.makeOne() // one at a time, to limit the load
	case s.waiting.Load() == 0 && s.ballast.makeAll():
		if s.lookLocked(); s.free.Load() >= s.leaveAt() {
			s.leaveLocked()
		}
	}
}

func (s *space) leaveLocked() {
	s.level.Store(plenty)
	s.log.Info("disk: space is available again, accepting writes", "free_bytes", s.freeBytes(), "min_free_bytes", s.minFree.Load())
	s.lookLocked()
}
