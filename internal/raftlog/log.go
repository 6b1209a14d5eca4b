package raftlog

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	defaultSegmentSize = 64 << 20
	defaultCacheBytes  = 32 << 20
)

// Options configure a Log. FS and Dir are required.
type Options struct {
	// FS is the file system of the log. Its files must allow SyncData concurrently with Write.
	FS vfs.FS

	// Dir is the directory of the segments, created if missing. Only one Log may use it at a time;
	// the caller locks it.
	Dir string

	// SegmentSize is the number of bytes after which a new segment is started; 0 means 64 MiB. A
	// segment holds at least one Write of any size. Negative is an error.
	SegmentSize int64

	// Spares is the number of files of dropped segments kept for reuse; 0 means 3, negative none.
	// With none the log does not write ahead either, which only makes sense for an in-memory file
	// system.
	Spares int

	// CacheBytes is the budget of recent entries kept in memory, over all shards; 0 means 32 MiB,
	// negative none.
	CacheBytes int64

	// Random is the source of a new log's record mark; nil means crypto/rand.
	Random io.Reader

	// Logger logs a line when a torn tail is dropped; nil discards it.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.SegmentSize == 0 {
		o.SegmentSize = defaultSegmentSize
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.Spares == 0 {
		o.Spares = defaultSpares
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var errs []error
	if o.FS == nil {
		errs = append(errs, errors.New("ual: Options.FS is nil"))
	}
	if o.Dir == "" {
		errs = append(errs, errors.New("ual: Options.Dir is empty"))
	}
	if o.SegmentSize < 0 {
		errs = append(errs, fmt.Errorf("ual: Options.SegmentSize is %d, must not be negative", o.SegmentSize))
	}
	return o, errors.Join(errs...)
}

// Log is the append log of a node. See the package comment for its files.
//
// The Log keeps the state of each shard and the place of each entry (24 bytes) in memory. The data
// of recent entries is cached within a budget. Other entries are read back from their segment and
// verified.
//
// Write, Truncate and Close exclude each other. Sync may run during a Write, and Prepare during
// everything but Close. Reads wait for the disk only if they need an entry that is not cached.
type Log struct {
	fs          vfs.FS
	dir         string
	folder      vfs.File // the directory, open to make the names in it durable
	segmentSize int64
	cacheBytes  int64
	maxSpares   int
	random      io.Reader
	logger      *slog.Logger

	// prepareMu is held while writing spare files. It is taken before writeMu.
	prepareMu sync.Mutex

	// writeMu is held while appending and writing files. It is taken before syncMu, and syncMu
	// before mu. Fields of shards that change only under both writeMu and mu may be read under
	// either.
	writeMu sync.Mutex
	buf     []byte   // records of the current Write
	stamp   uint64   // the offset they carry as known durable
	slots   []slot   // places of its entries
	targets []*Shard // the shards of its updates
	epoch   uint64   // its number, see Shard.plan
	mark    uint32   // of all records; 0 until the first segment is begun, then constant

	spares    []spare  // files that may become segments
	lastSpare uint32   // number in the last name given to a spare file
	released  bool     // ReleaseSpare was called after the last Prepare
	garbage   []string // files to remove

	// syncMu is held while calling SyncData and while replacing or closing the tail's file.
	syncMu  sync.Mutex
	syncing []*Shard // shards with records that the SyncData in flight covers

	// mu guards what follows and the state of every Shard. No I/O under it.
	mu       sync.RWMutex
	err      error // why the log is broken for good
	closed   bool
	shards   map[uint16]*Shard
	tail     tail
	oldest   uint32    // oldest live segment
	segments []segment // from oldest on
	dirty    []*Shard  // shards with records not yet covered by a SyncData
	inCache  int64     // bytes of cached entries over all shards
}

// segment is a live segment.
type segment struct {
	size    int64 // of its valid records
	written int64 // largest extent ever written to its file; 0 for the tail and for segments that Open found
}

// tail is the segment to which records are appended.
type tail struct {
	number  uint32
	file    vfs.File // nil until the first Write after Open: number is then a segment that Open found
	head    int64    // end of start record and checkpoint
	end     int64    // of the valid records
	synced  int64    // end of the bytes known durable
	written int64    // largest extent ever written to the file, in this life or before
	sealed  bool     // nothing more may be appended: a write failed, or a successor was begun
}

// Open opens the log in o.Dir, or begins an empty one. It reads all live segments in bounded
// memory, and returns when all of their records are durable. It removes spare files and leftovers
// of dropped segments, and changes no other file.
//
// Errors: ErrCorrupt (a *CorruptionError naming file and offset) if durable data is damaged or
// missing, ErrNewer if a newer version wrote the log. In both cases no file is changed. Otherwise
// an error of FS.
func Open(o Options) (*Log, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{
		fs:          o.FS,
		dir:         o.Dir,
		segmentSize: o.SegmentSize,
		cacheBytes:  o.CacheBytes,
		maxSpares:   max(0, o.Spares),
		random:      o.Random,
		logger:      o.Logger,
		shards:      make(map[uint16]*Shard),
		oldest:      1,
	}
	if err := l.makeDir(); err != nil {
		return nil, err
	}
	if l.folder, err = l.fs.OpenDir(l.dir); err != nil {
		return nil, fmt.Errorf("ual: open %s: %w", l.dir, err)
	}
	if err := l.recover(); err != nil {
		return nil, closeAfter(l.folder, err)
	}
	return l, nil
}

// Shard returns the log of a shard, always the same pointer for the same id. It cannot fail and
// needs no Close: a shard without records is an empty log that starts after Position{0, 0}.
func (l *Log) Shard(id uint16) *Shard {
	l.mu.RLock()
	s := l.shards[id]
	l.mu.RUnlock()
	if s != nil {
		return s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shardLocked(id)
}

func (l *Log) shardLocked(id uint16) *Shard {
	s := l.shards[id]
	if s == nil {
		s = &Shard{log: l, id: id, first: 1}
		l.shards[id] = s
	}
	return s
}

// Shards returns the ids of the shards that have records, ascending.
func (l *Log) Shards() []uint16 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	ids := make([]uint16, 0, len(l.shards))
	for id, s := range l.shards {
		if s.known {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Size returns the number of bytes of valid records in all live segments. Zeros written ahead and
// spare files are not counted.
func (l *Log) Size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var n int64
	for _, s := range l.segments {
		n += s.size
	}
	return n
}

// Sync makes everything written before the call durable. It may run concurrently with Write and
// reads. It does nothing if everything is already durable.
//
// After an error the log is permanently broken. It is unknown what the disk has kept, so every
// later Write and Sync returns that first error. Errors: those of FS, ErrClosed.
func (l *Log) Sync() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	return l.syncTail()
}

// syncTail is Sync for a caller that holds syncMu.
func (l *Log) syncTail() error {
	l.mu.Lock()
	if err := l.usableLocked(); err != nil || l.tail.end == l.tail.synced {
		l.mu.Unlock()
		return err
	}
	number, file, end := l.tail.number, l.tail.file, l.tail.end
	l.syncing, l.dirty = l.dirty, l.syncing[:0]
	for _, s := range l.syncing {
		s.dirty = false
		s.pending = s.lastIndex()
	}
	l.mu.Unlock()

	if err := file.SyncData(); err != nil {
		return l.fail(fmt.Errorf("ual: sync %s: %w", l.path(number), err))
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail.synced = end
	for _, s := range l.syncing {
		s.durable = s.pending
	}
	return nil
}

// fail marks the log as permanently broken and returns the first error that broke it.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	return l.err
}

func (l *Log) usable() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.usableLocked()
}

func (l *Log) usableLocked() error {
	if l.closed {
		return ErrClosed
	}
	return l.err
}

// Close makes everything durable, marks the log as cleanly closed, removes spare files and closes
// it. It waits for a running Prepare. A second Close returns nil. Reads still work after Close.
func (l *Log) Close() error {
	l.prepareMu.Lock()
	defer l.prepareMu.Unlock()
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if l.usable() == ErrClosed {
		return nil
	}
	err := l.writeEnd()
	if err == nil {
		err = l.removeSpares()
	}

	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	l.closed = true
	file := l.tail.file
	l.tail.file = nil
	l.mu.Unlock()
	err = closeAfter(l.folder, err)
	if file == nil {
		return err
	}
	return closeAfter(file, err)
}

// closeAfter closes file and returns err, joined with the error of closing if that also fails.
func closeAfter(file vfs.File, err error) error {
	if closeErr := file.Close(); closeErr != nil {
		return errors.Join(err, closeErr)
	}
	return err
}

// writeEnd appends the end record and makes it durable. The record is written once everything
// before it is durable, and records that. It does not change a log without writes since Open.
func (l *Log) writeEnd() error {
	if err := l.usable(); err != nil || l.tail.file == nil {
		return err
	}
	if err := l.Sync(); err != nil {
		return err
	}
	if l.tail.sealed {
		if err := l.startSegment(); err != nil {
			return err
		}
	}
	l.beginRecords()
	l.addRecord(header{kind: kindEnd}, nil)
	if err := l.flushRecords(); err != nil {
		return err
	}
	l.mu.Lock()
	l.advanceLocked()
	l.mu.Unlock()
	return l.Sync()
}
