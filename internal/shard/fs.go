package shard

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// watchedFS (always a pointer: Pebble compares file systems) tells the host of the first operation that fails, before the
// caller hears of it: after a failed fsync nobody knows what the disk holds, so the only safe answer is to stop.
//
// Pebble does not hear of it at all: it would panic, end the process, or try a failed flush again 24,000 times a second. So
// the goroutine is parked, for good; nothing else of Pebble is called afterwards.
type watchedFS struct {
	vfs.FS
	failed func(error)
	park   bool
}

// Unwrap returns the file system below.
func (w *watchedFS) Unwrap() vfs.FS { return w.FS }

func (w *watchedFS) check(op, name string, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return err
	}
	w.failed(fmt.Errorf("%s %s: %w", op, name, err))
	if w.park {
		park()
	}
	return err
}

// park never returns.
func park() { select {} }

func (w *watchedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return w.file(name)(w.FS.Create(name, c))
}

func (w *watchedFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return w.file(name)(w.FS.OpenReadWrite(name, c, opts...))
}

func (w *watchedFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return w.file(newname)(w.FS.ReuseForWrite(oldname, newname, c))
}

func (w *watchedFS) OpenDir(name string) (vfs.File, error) {
	return w.file(name)(w.FS.OpenDir(name))
}

func (w *watchedFS) Rename(oldname, newname string) error {
	return w.check("rename", oldname, w.FS.Rename(oldname, newname))
}

func (w *watchedFS) Link(oldname, newname string) error {
	return w.check("link", oldname, w.FS.Link(oldname, newname))
}

func (w *watchedFS) Remove(name string) error {
	return w.check("remove", name, w.FS.Remove(name))
}

func (w *watchedFS) file(name string) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err != nil {
			return nil, w.check("open", name, err)
		}
		return &watchedFile{File: f, name: name, fs: w}, nil
	}
}

type watchedFile struct {
	vfs.File
	name string
	fs   *watchedFS
}

func (f *watchedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.fs.check("write", f.name, err)
}

func (f *watchedFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, f.fs.check("write", f.name, err)
}

func (f *watchedFile) Sync() error     { return f.fs.check("sync", f.name, f.File.Sync()) }
func (f *watchedFile) SyncData() error { return f.fs.check("sync", f.name, f.File.SyncData()) }
func (f *watchedFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.fs.check("sync", f.name, err)
}

// pebbleLogger passes Pebble's messages on. Pebble calls Fatalf when it can not go on and expects not to return: the host
// fails and the goroutine stays where it is, instead of ending a process that is not ours.
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

// raftLogger passes raft's messages on: what it calls info are elections, of interest only when looking for a fault.
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

// StateOptions returns the options that make the state database what it is, so that a bare one of the same kind can be measured
// beside it. There is no WAL, because the log of the shards is one.
func (c Config) StateOptions() *pebble.Options {
	orDefault(&c.CacheBytes, defaultCache)
	orDefault(&c.MemTableBytes, defaultMemTable)
	opts := &pebble.Options{
		CacheSize:                   c.CacheBytes - c.CacheBytes/rowCachePart,
		DisableWAL:                  true,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                c.MemTableBytes,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       1000,
		DisableAutomaticCompactions: c.manual,
	}
	// Most writes look for an earlier version of their key first, and most of them find none.
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	opts.Experimental.DisableIngestAsFlushable = func() bool { return true }
	return opts
}

// openState opens the state database.
func (h *Host) openState(dir string) (*pebble.DB, error) {
	opts := h.cfg.StateOptions()
	opts.FS = &watchedFS{h.cfg.FS, h.fail, true}
	opts.Logger = pebbleLogger{h.log, h.fail}
	opts.EventListener = &pebble.EventListener{
		FlushEnd:       func(pebble.FlushInfo) { h.signalFlushed() },
		DataCorruption: func(i pebble.DataCorruptionInfo) { h.fail(fmt.Errorf("state database: %s: %w", i.Path, i.Details)) },
	}
	// Pebble would create the directory for everybody to read.
	if err := makeDir(h.fs, dir); err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	opened := make(chan *pebble.DB, 1)
	err := h.unlessFailed(func() error {
		db, err := pebble.Open(dir, opts)
		opened <- db
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	return <-opened, nil
}
