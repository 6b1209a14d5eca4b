package shard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
)

// watchedFS (always a pointer: Pebble compares file systems) reports the first failed operation to
// the host, before it returns to the caller. After a failed fsync the contents of the disk are
// unknown, so the only safe reaction is to stop.
//
// Pebble never receives the error: it would panic, end the process, or retry a failed flush 24,000
// times a second. So the goroutine is parked permanently, and Pebble is not called again.
//
// A full disk is not a failure, unless a sync reports it. The log receives the error and is written
// again later (see space.retry). Pebble's operations are retried here until there is space. But a
// table that a flush or a compaction is writing is abandoned, because its space is needed in the
// meantime.
type watchedFS struct {
	vfs.FS
	failed  func(error)
	stopped func() bool   // whether the host was notified
	park    bool          // the caller is Pebble
	held    *heldRemovals // nil: none
	space   *space
	slow    *slowness
}

// heldRemovals delays removals until the node is completely open. If Pebble's manifest has lost its
// end, files that it considers obsolete may be the only data left. Removals of files created since
// are not delayed, because the space of an abandoned table is needed.
type heldRemovals struct {
	mu       sync.Mutex // guards all; no I/O under it
	names    []string
	created  map[string]bool
	released bool
}

// create notes a file created before the removals are released.
func (r *heldRemovals) create(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.released {
		return
	}
	if r.created == nil {
		r.created = make(map[string]bool)
	}
	r.created[name] = true
}

func (r *heldRemovals) hold(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.released || r.created[name] {
		return false
	}
	r.names = append(r.names, name)
	return true
}

// release executes the delayed removals.
func (r *heldRemovals) release(fsys vfs.FS) error {
	r.mu.Lock()
	names := r.names
	r.names, r.created, r.released = nil, nil, true
	r.mu.Unlock()
	for _, name := range names {
		if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what is obsolete: %w", err)
		}
	}
	return nil
}

// Unwrap returns the file system below.
func (w *watchedFS) Unwrap() vfs.FS { return w.FS }

func (w *watchedFS) check(op, name string, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return err
	}
	failure := err
	if named := (*fs.PathError)(nil); !errors.As(err, &named) {
		failure = fmt.Errorf("%s %s: %w", op, name, err)
	}
	w.failed(failure)
	if w.park {
		park()
	}
	return err
}

// park never returns.
func park() { select {} }

// do executes an operation that may be retried after finding no space.
func (w *watchedFS) do(op, name string, f func() error) error {
	for {
		err := f()
		if !noSpace(err) {
			return w.check(op, name, err)
		}
		if !w.park {
			w.space.noticed(err)
			return w.giveUp(op, name, false, err)
		}
		if w.space.full(err) || w.yield() {
			continue
		}
		if !w.space.await(w.space.closed) {
			return w.giveUp(op, name, false, err)
		}
	}
}

// yield executes the delayed removals, because on a full disk there may be no other way to open. It
// reports whether there were any.
func (w *watchedFS) yield() bool {
	if w.held == nil {
		return false
	}
	w.held.mu.Lock()
	waiting := len(w.held.names) > 0
	w.held.mu.Unlock()
	return waiting && w.held.release(w.FS) == nil
}

// giveUp makes the caller retry the operation, or skip it when the host closes. It is a failure if
// no waiting is possible: in a simulator, and when Open has waited long enough for Pebble.
func (w *watchedFS) giveUp(op, name string, table bool, err error) error {
	if w.space.closing.Err() == nil && (!table || w.space.database.Load()) && (!w.space.patient || w.park && !w.space.worthWaiting()) {
		return w.check(op, name, err)
	}
	return err
}

func (w *watchedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	// Pebble syncs a new manifest, but not its directory, before it creates the marker that points
	// to it. A file system may keep the marker's name and lose the manifest's.
	if strings.HasPrefix(w.PathBase(name), "marker.") {
		dir, err := w.OpenDir(w.PathDir(name))
		if err != nil {
			return nil, err
		}
		if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
			return nil, err
		}
	}
	table := w.tableOf(c)
	if table != nil && !table.await() {
		return nil, w.giveUp("open", name, true, &fs.PathError{Op: "create", Path: name, Err: syscall.ENOSPC})
	}
	if w.held != nil {
		w.held.create(name)
	}
	return w.open(name, table, func() (vfs.File, error) { return w.FS.Create(name, c) })
}

// tableOf returns the gate of the tables that Pebble writes under a category, nil for other files.
func (w *watchedFS) tableOf(c vfs.DiskWriteCategory) *tableGate {
	switch {
	case !w.park:
	case c == "pebble-memtable-flush":
		return &w.space.flush
	case c == "pebble-compaction":
		return &w.space.compaction
	}
	return nil
}

// Open watches Pebble's reads as well. Pebble returns most read errors, but not all: excising the
// rows of a shard mistakes an unreadable block for the end of the table, and drops the rows of all
// later shards.
func (w *watchedFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := w.FS.Open(name, opts...)
	for noDescriptor(err) && w.park {
		if w.space.noticed(err); !w.space.await(w.space.closed) {
			break
		}
		f, err = w.FS.Open(name, opts...)
	}
	if err != nil || !w.park {
		return f, err
	}
	return &watchedReads{f, name, w}, nil
}

type watchedReads struct {
	vfs.File
	name string
	fs   *watchedFS
}

func (f *watchedReads) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	return n, f.check(err)
}

func (f *watchedReads) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	return n, f.check(err)
}

func (f *watchedReads) check(err error) error {
	if err != nil && err != io.EOF {
		f.fs.failed(fmt.Errorf("read %s: %w", f.name, err))
	}
	return err
}

func (w *watchedFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return w.open(name, nil, func() (vfs.File, error) { return w.FS.OpenReadWrite(name, c, opts...) })
}

func (w *watchedFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return w.open(newname, nil, func() (vfs.File, error) { return w.FS.ReuseForWrite(oldname, newname, c) })
}

func (w *watchedFS) OpenDir(name string) (vfs.File, error) {
	return w.open(name, nil, func() (vfs.File, error) { return w.FS.OpenDir(name) })
}

func (w *watchedFS) Rename(oldname, newname string) error {
	return w.do("rename", oldname, func() error { return w.FS.Rename(oldname, newname) })
}

func (w *watchedFS) Link(oldname, newname string) error {
	return w.do("link", oldname, func() error { return w.FS.Link(oldname, newname) })
}

func (w *watchedFS) Remove(name string) error {
	if w.held != nil && w.held.hold(name) {
		return nil
	}
	return w.check("remove", name, w.FS.Remove(name))
}

func (w *watchedFS) open(name string, table *tableGate, f func() (vfs.File, error)) (file vfs.File, err error) {
	err = w.do("open", name, func() error {
		file, err = f()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &watchedFile{File: file, name: name, table: table, fs: w}, nil
}

type watchedFile struct {
	vfs.File
	name  string
	table *tableGate // that it is part of, or nil
	fs    *watchedFS
}

func (f *watchedFile) Write(p []byte) (n int, err error) {
	// Pebble's reaction to an error may be wrong, so none of its later decisions may reach its
	// state.
	if f.fs.park && f.fs.stopped() && strings.HasPrefix(f.fs.PathBase(f.name), "MANIFEST") {
		park()
	}
	if f.table != nil {
		return f.writeTable(p)
	}
	return f.writeAll(p, func(p []byte, _ int) (int, error) { return f.File.Write(p) })
}

func (f *watchedFile) WriteAt(p []byte, off int64) (n int, err error) {
	return f.writeAll(p, func(p []byte, n int) (int, error) { return f.File.WriteAt(p, off+int64(n)) })
}

// writeAll continues after the n bytes written before space ran out.
func (f *watchedFile) writeAll(p []byte, write func(p []byte, n int) (int, error)) (n int, err error) {
	err = f.fs.do("write", f.name, func() error {
		defer f.fs.slow.begin("write", f.name).end()
		m, err := write(p[n:], n)
		n += m
		return err
	})
	f.fs.space.wrote(n)
	return n, err
}

func (f *watchedFile) writeTable(p []byte) (int, error) {
	n, err := f.table.write(p, f.File.Write)
	if noSpace(err) {
		f.table.failed()
		return n, f.fs.giveUp("write", f.name, true, err)
	}
	return n, f.fs.check("write", f.name, err)
}

func (f *watchedFile) Sync() error {
	defer f.fs.slow.begin("sync", f.name).end()
	return f.fs.check("sync", f.name, f.File.Sync())
}

func (f *watchedFile) SyncData() error {
	defer f.fs.slow.begin("sync", f.name).end()
	return f.fs.check("sync", f.name, f.File.SyncData())
}

func (f *watchedFile) SyncTo(length int64) (bool, error) {
	defer f.fs.slow.begin("sync", f.name).end()
	full, err := f.File.SyncTo(length)
	return full, f.fs.check("sync", f.name, err)
}

// pebbleLogger passes on Pebble's messages. Pebble calls Fatalf when it cannot continue, and
// expects it not to return. So the host fails and the goroutine is parked. Ending the process is
// not an option, because it belongs to the host program.
type pebbleLogger struct {
	log    *slog.Logger
	failed func(error)
}

func (l pebbleLogger) Infof(format string, args ...any) {}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Warn("state database", "message", fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.failed(fmt.Errorf("state database: "+format, args...))
	park()
}

// raftLogger passes on raft's messages. Its info messages are about elections and are only useful
// for debugging.
type raftLogger struct{ log *slog.Logger }

func (l raftLogger) Debug(...any)          {}
func (l raftLogger) Debugf(string, ...any) {}
func (l raftLogger) Info(v ...any)         { l.log.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Infof(format string, v ...any) {
	l.log.Debug(fmt.Sprintf(format, v...))
}
func (l raftLogger) Warning(v ...any)                 { l.log.Warn(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(format string, v ...any) { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l raftLogger) Error(v ...any)                   { l.log.Error(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(format string, v ...any)   { l.log.Error(fmt.Sprintf(format, v...)) }
func (l raftLogger) Fatal(v ...any)                   { panic(fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(format string, v ...any)   { panic(fmt.Sprintf(format, v...)) }
func (l raftLogger) Panic(v ...any)                   { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(format string, v ...any)   { panic(fmt.Sprintf(format, v...)) }

// lbaseTable is the size of tables of the first sorted level; it doubles with each level.
const lbaseTable = 4 << 20

// StateOptions returns the options of the state database, so that a bare database with the same
// options can be benchmarked. There is no WAL, because the log of the shards serves as one.
func (c Config) StateOptions() *pebble.Options {
	orDefault(&c.CacheBytes, defaultCache)
	orDefault(&c.MemTableBytes, defaultMemTable)
	orDefault(&c.L0Tables, defaultL0Tables)
	opts := &pebble.Options{
		CacheSize:                   c.CacheBytes - c.CacheBytes/rowCachePart,
		MaxOpenFiles:                c.TableFiles,
		DisableWAL:                  true,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                c.MemTableBytes,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       c.L0Tables,
		L0StopWritesThreshold:       1000,
		DisableAutomaticCompactions: c.manual,
	}
	// A flush writes one table. It holds rows of all shards, so it would be merged with all others
	// anyway, and lookups open fewer tables.
	opts.TargetFileSizes[0] = int64(c.MemTableBytes)
	opts.TargetFileSizes[1] = lbaseTable
	opts.FlushSplitBytes = 4 * opts.TargetFileSizes[0]
	// Most writes first look up an earlier version of their key, and most of these lookups find
	// none.
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	opts.Experimental.DisableIngestAsFlushable = func() bool { return true }
	return opts
}

// openState opens the state database.
func (h *Host) openState(dir string, created bool) (*pebble.DB, error) {
	opts := h.cfg.StateOptions()
	opts.FS = &watchedFS{
		FS: h.cfg.FS, failed: h.fail, stopped: h.isBroken, park: true, held: &h.held, space: h.space, slow: h.slow,
	}
	opts.ErrorIfNotExists = created
	opts.Logger = pebbleLogger{h.log, h.fail}
	if h.space.readOnly() {
		// The replayed writes must fit in memory, because nothing can be flushed. A command may
		// write more to the state than to the log.
		opts.MemTableStopWritesThreshold += 2 * int(h.ual.Size()/int64(h.cfg.MemTableBytes)+1)
	}
	opts.EventListener = &pebble.EventListener{
		FlushBegin: func(pebble.FlushInfo) { h.space.flush.begin() },
		FlushEnd: func(i pebble.FlushInfo) {
			h.space.flush.end(i.Err)
			h.signalFlushed()
		},
		CompactionBegin: func(pebble.CompactionInfo) { h.space.compaction.begin() },
		CompactionEnd: func(i pebble.CompactionInfo) {
			h.space.compaction.end(i.Err)
			h.tellExecutors((*engine.Executor).Merged)
		},
		DataCorruption: func(i pebble.DataCorruptionInfo) { h.fail(fmt.Errorf("state database: %s: %w", i.Path, i.Details)) },
	}
	// Pebble would create the directory readable by all users.
	if err := makeDir(h.fs, dir); err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	opened := make(chan *pebble.DB, 1)
	err := h.unlessFailed(func() error {
		db, err := pebble.Open(dir, opts)
		opened <- db
		return err
	})
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		err = fmt.Errorf("part of the state has been lost: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open state in %s: %w", dir, err)
	}
	db := <-opened
	h.space.unflushed = func() (bytes int64, crowded bool) {
		m := db.Metrics().MemTable
		return int64(m.Size), m.Count >= int64(opts.MemTableStopWritesThreshold)-1
	}
	h.space.underWay = h.inFlight
	h.space.database.Store(true)
	return db, nil
}
