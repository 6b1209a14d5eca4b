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

// Defaults and limits of space. What is given in bytes is for large volumes; a small one gives a
// share.
const (
	defaultMinFree      = 256 << 20 // or a fiftieth of the volume
	defaultDiskInterval = time.Second
	pausesPerInterval   = 10              // what found no space is tried again so often
	openPatience        = 5 * time.Second // how long Open waits for space that even the ballast does not give
	reservePatience     = 3               // intervals that Close waits, or a command that shrinks when the reserve is used up
)

// Levels of space.
const (
	plenty    int32 = iota
	low             // read-only: what shrinks goes on
	exhausted       // what little is left is for the node itself
)

// space keeps a node alive on a disk that fills up. A full disk is a watermark here and not an
// error path: below minFree the node is read-only, so that what goes on, flushes, compactions, the
// log of commands that shrink, finds space. Above one and a half times minFree it takes writes
// again.
//
//	free   |-- exhausted --|------- low -------|......... low or plenty .........|--- plenty ---
//	       0          minFree/16           minFree                         1.5 minFree
//
// With ballast in reserve nothing is exhausted. minFree is twice as much as there can be in memory
// and not flushed yet, see Config.fit, so that a flush finds its space.
//
// It looks at the disk every interval, and when as much has been written as would reach the next
// mark. Others write to the disk too, so an operation may still find no space, at any time. Then
// the ballast, files that only take up space, is given up piece by piece; see full. The operation
// is tried again and never refused: nobody could say what an append that raft has handed over, or a
// MANIFEST, means half written.
//
// On a file system that does not tell its usage there is neither watermark nor ballast, and
// read-only is what follows an error.
type space struct {
	fs       vfs.FS // bare: what the ballast does is nobody's business
	dir      string
	log      *slog.Logger
	stopping context.Context // of the host: ends the waiting of the log
	closing  context.Context // later: ends the waiting of flushes and compactions
	close    context.CancelFunc
	closed   context.Context // last: ends the waiting of what else the state database writes
	abandon  context.CancelFunc
	patient  bool          // false: nobody waits here, as in a simulator
	pause    time.Duration // between attempts at what found no space
	asked    int64         // Config.MinFreeBytes

	level    atomic.Int32
	database atomic.Bool  // the state database has been opened, which waits for compactions that it has begun
	opened   atomic.Bool  // before, everything is the host's own and let through
	free     atomic.Int64 // at the last look, less what was written since
	mark     atomic.Int64 // of free: when that falls below, it is time to look
	minFree  atomic.Int64
	errors   atomic.Int64 // operations that found no space
	waiting  atomic.Int32 // appends to the log that wait for space

	flush, compaction tableGate
	unflushed         func() (bytes int64, crowded bool) // of the state; crowded: a further write may have to wait for a flush
	underWay          func() bool                        // commands have been admitted that are not applied yet

	mu      sync.Mutex // guards what follows and the files of the ballast, and is held while those are written
	ballast ballast
	since   time.Time // the first of the errors that Open has met
	failed  bool      // since the last tick there was an error
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

// open takes the first look at the disk, and finds the ballast that is left. It returns the size of
// the volume, 0 if that is not known.
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

// noSpace reports whether an operation has failed because the disk, or the quota, is full, or
// because the process has no file descriptor left: that passes too, when connections are closed.
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

// lookLocked asks how much is free and goes to the level that follows, but never back to plenty:
// that is for tick.
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
	s.mark.Store(math.MinInt64) // below the last one only a tick can tell anything new
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

// wrote counts what goes to the disk.
func (s *space) wrote(n int) {
	if s.free.Add(-int64(n)) >= s.mark.Load() || !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	s.lookLocked()
}

// noticed is called when an operation has found no space. It makes the node read-only.
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

// full is called when an operation has found no space that has to be done. It reports whether that
// may be tried again at once, because a piece of the ballast has been given up for it. The last
// pieces are kept for Open: a node that is killed on a full disk has to come up on it again. For
// want of a file descriptor none is given up.
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

// release gives up a piece of the ballast if more than keep are left, and reports whether it did.
func (s *space) release(keep int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	released := s.ballast.release(keep)
	s.noticedLocked(syscall.ENOSPC)
	return released
}

// retry does what needs space until it succeeds or fails for another reason; f must leave nothing
// behind that keeps it from being done again. While the log waits here, nothing more is admitted.
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

// errStopping is the answer to who waited for space when the host stopped: what he wanted written
// was promised to nobody.
var errStopping = errors.New("the host stops")

// await waits a moment. It reports whether to try again: not when ctx is done, and Open waits only
// so long.
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

// admit refuses a command that there may be no space for. What shrinks is let in while there is a
// little, a flush may need all of it for a moment, and as long as it can be applied: see
// applicable. What is in the log can not be refused any more.
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

// applicable reports whether a command that is admitted now is going to be applied without waiting
// for space: what is in memory can be flushed, or memory has room for it, and nothing else is under
// way that may take that. A command may write more to the state than one knows before; so what can
// not be flushed admits them one at a time.
func (s *space) applicable() bool {
	bytes, crowded := s.unflushed()
	if s.flush.waiting.Load() == 0 && bytes/4*5 <= s.flushable() {
		return true
	}
	return !crowded && !s.underWay()
}

// flushable is how much a flush can write: what is free, and what it may take of the ballast.
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
	return engine.Errorf(engine.ErrReadOnly, "node is read-only: %d bytes are free on its disk, it takes writes again above %d",
		s.freeBytes(), s.leaveAt())
}

func (s *space) leaveAt() int64 { return s.minFree.Load() / 2 * 3 }

// freeBytes returns what is free, for people: 0 if that is not known.
func (s *space) freeBytes() int64 {
	if free := s.free.Load(); free < math.MaxInt64/2 {
		return max(free, 0)
	}
	return 0
}

func (s *space) readOnly() bool { return s.level.Load() != plenty }

// watchSpace looks at the disk every interval until the host stops.
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

// missed returns an error if the data directory has been removed. Its files are open, so the system
// lets the node go on with them, and acknowledge writes that nothing will find again.
func (h *Host) missed() error {
	name := h.fs.PathJoin(h.cfg.Dir, "FORMAT")
	if _, err := h.cfg.FS.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data directory %s was removed while the node was running: %s is gone; put the directory back before the "+
			"node is started again", h.cfg.Dir, name)
	}
	return nil
}

// tick looks at the disk, makes what is missing of the ballast, and ends read-only when there is
// space again. That what is free can be had is proved by the ballast: a quota is not seen in the
// usage of the disk.
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
		s.ballast.makeOne() // one at a time, so that nobody notices
	case s.waiting.Load() == 0 && s.ballast.makeAll():
		if s.lookLocked(); s.free.Load() >= s.leaveAt() {
			s.leaveLocked()
		}
	}
}

func (s *space) leaveLocked() {
	s.level.Store(plenty)
	s.log.Info("disk: space again, writing", "free_bytes", s.freeBytes(), "min_free_bytes", s.minFree.Load())
	s.lookLocked()
}
