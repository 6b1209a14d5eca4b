package faults

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// pointOp is a file operation about to happen.
type pointOp struct {
	kind string // create, write, sync, ...
	name string
	read bool // it changes nothing
}

func (op pointOp) String() string { return op.kind + " " + op.name }

// pointFault is the outcome of an operation instead of success.
type pointFault struct {
	err   error
	short bool // for a write: half of it reaches the file
}

// pointFS counts the file operations of a node and calls before for the outcome of each one. Pebble
// has goroutines of its own, but operations are counted, and before is called, one at a time.
type pointFS struct {
	vfs.FS
	before func(op pointOp) *pointFault // nil: no faults

	mu      sync.Mutex // guards what follows; held while before runs
	usage   vfs.DiskUsage
	locks   []pointLock
	failed  bool
	logName string  // the newest segment written to ...
	logEnd  int64   // ... and its end
	first   pointOp // the first one that failed
	parked  bool    // an operation of Pebble is parked

	struck chan struct{} // closed at the first failure
}

func newPointFS(fsys vfs.FS) *pointFS {
	usage := vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 41, UsedBytes: 1 << 40}
	return &pointFS{FS: fsys, usage: usage, struck: make(chan struct{})}
}

// parks reports whether a failure may have parked a goroutine of Pebble.
func (p *pointFS) parks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.parked
}

// Unwrap returns the file system below.
func (p *pointFS) Unwrap() vfs.FS { return p.FS }

// GetDiskUsage returns the usage set by the test.
func (p *pointFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.usage, nil
}

// at counts an operation.
func (p *pointFS) at(read bool, kind, name string) *pointFault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.before == nil {
		return nil
	}
	op := pointOp{kind, name, read}
	f := p.before(op)
	if f == nil {
		return nil
	}
	p.parked = p.parked || !read && strings.HasPrefix(name, rigDir+"/state/")
	if !p.failed {
		p.failed, p.first = true, op
		close(p.struck)
	}
	f.err = &os.PathError{Op: kind, Path: name, Err: f.err}
	return f
}

// fails is at for atomic operations.
func (p *pointFS) fails(kind, name string) error {
	if f := p.at(false, kind, name); f != nil {
		return f.err
	}
	return nil
}

func (p *pointFS) readFails(kind, name string) error {
	if f := p.at(true, kind, name); f != nil {
		return f.err
	}
	return nil
}

// open returns a file that counts operations, or the given fault.
func (p *pointFS) open(name string, fault error, open func() (vfs.File, error)) (vfs.File, error) {
	if fault != nil {
		return nil, fault
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	return &pointFile{File: f, fs: p, name: name}, nil
}

// Create counts as create.
func (p *pointFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return p.open(name, p.fails("create", name), func() (vfs.File, error) { return p.FS.Create(name, c) })
}

// Open counts as open, which changes nothing.
func (p *pointFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return p.open(name, p.readFails("open", name), func() (vfs.File, error) { return p.FS.Open(name, opts...) })
}

// OpenReadWrite counts as open for writing, which may create the file.
func (p *pointFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return p.open(name, p.fails("open-write", name), func() (vfs.File, error) { return p.FS.OpenReadWrite(name, c, opts...) })
}

// OpenDir counts as open, which changes nothing.
func (p *pointFS) OpenDir(name string) (vfs.File, error) {
	return p.open(name, p.readFails("open-dir", name), func() (vfs.File, error) { return p.FS.OpenDir(name) })
}

// ReuseForWrite counts as one operation.
func (p *pointFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return p.open(newname, p.fails("reuse", oldname), func() (vfs.File, error) { return p.FS.ReuseForWrite(oldname, newname, c) })
}

// Link counts as link.
func (p *pointFS) Link(oldname, newname string) error {
	if err := p.fails("link", oldname); err != nil {
		return err
	}
	return p.FS.Link(oldname, newname)
}

// Remove counts as remove.
func (p *pointFS) Remove(name string) error {
	if err := p.fails("remove", name); err != nil {
		return err
	}
	return p.FS.Remove(name)
}

// RemoveAll counts as remove.
func (p *pointFS) RemoveAll(name string) error {
	if err := p.fails("remove-all", name); err != nil {
		return err
	}
	return p.FS.RemoveAll(name)
}

// Rename counts as rename.
func (p *pointFS) Rename(oldname, newname string) error {
	if err := p.fails("rename", oldname); err != nil {
		return err
	}
	return p.FS.Rename(oldname, newname)
}

// MkdirAll counts as mkdir.
func (p *pointFS) MkdirAll(dir string, perm os.FileMode) error {
	if err := p.fails("mkdir", dir); err != nil {
		return err
	}
	return p.FS.MkdirAll(dir, perm)
}

// Lock counts as lock.
func (p *pointFS) Lock(name string) (io.Closer, error) {
	if err := p.fails("lock", name); err != nil {
		return nil, err
	}
	lock, err := p.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	once := pointLock(sync.OnceValue(lock.Close))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.locks = append(p.locks, once)
	return once, nil
}

// pointLock closes a lock once. An abandoned node may still close it, concurrently with unlock.
type pointLock func() error

// Close closes the lock, unless that has been done.
func (l pointLock) Close() error { return l() }

// List counts as list, which changes nothing.
func (p *pointFS) List(dir string) ([]string, error) {
	if err := p.readFails("list", dir); err != nil {
		return nil, err
	}
	return p.FS.List(dir)
}

// Stat counts as stat, which changes nothing.
func (p *pointFS) Stat(name string) (vfs.FileInfo, error) {
	if err := p.readFails("stat", name); err != nil {
		return nil, err
	}
	return p.FS.Stat(name)
}

type pointFile struct {
	vfs.File
	fs   *pointFS
	name string
	end  int64 // of the written data; only for the log
}

func (f *pointFile) Write(b []byte) (int, error) {
	fault := f.fs.at(false, "write", f.name)
	if fault == nil {
		n, err := f.File.Write(b)
		f.wrote(n, f.end)
		return n, err
	}
	if !fault.short {
		return 0, fault.err
	}
	n, err := f.File.Write(b[:len(b)/2])
	return n, orFault(err, fault)
}

// wrote records the end of the log.
func (f *pointFile) wrote(n int, at int64) {
	if !strings.HasPrefix(f.name, rigDir+"/log/") {
		return
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.end = max(f.end, at+int64(n)); f.name >= f.fs.logName {
		f.fs.logName, f.fs.logEnd = f.name, f.end
	}
}

func (f *pointFile) WriteAt(b []byte, off int64) (int, error) {
	fault := f.fs.at(false, "write", f.name)
	if fault == nil {
		n, err := f.File.WriteAt(b, off)
		f.wrote(n, off)
		return n, err
	}
	if !fault.short {
		return 0, fault.err
	}
	n, err := f.File.WriteAt(b[:len(b)/2], off)
	return n, orFault(err, fault)
}

func orFault(err error, fault *pointFault) error {
	if err != nil {
		return fmt.Errorf("write of a half: %w", err)
	}
	return fault.err
}

func (f *pointFile) Preallocate(off, length int64) error {
	if err := f.fs.fails("preallocate", f.name); err != nil {
		return err
	}
	return f.File.Preallocate(off, length)
}

func (f *pointFile) Sync() error {
	if err := f.fs.fails("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *pointFile) SyncData() error {
	if err := f.fs.fails("sync", f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *pointFile) SyncTo(length int64) (bool, error) {
	if err := f.fs.fails("sync", f.name); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}

func (f *pointFile) Read(b []byte) (int, error) {
	if err := f.fs.readFails("read", f.name); err != nil {
		return 0, err
	}
	return f.File.Read(b)
}

func (f *pointFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.fs.readFails("read", f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

// take returns the points gathered by before, and clears them.
func (p *pointFS) take(points *[]*crashPoint) []*crashPoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := *points
	*points = nil
	return taken
}

// unlock releases the locks of a killed process.
func (p *pointFS) unlock() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for _, lock := range p.locks {
		err = errors.Join(err, lock.Close())
	}
	p.locks = nil
	return err
}

// calm ends all faults.
func (p *pointFS) calm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = nil
	p.usage.AvailBytes = 1 << 40
}

func (p *pointFS) hasFailed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// watch sets the function before.
func (p *pointFS) watch(before func(op pointOp) *pointFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = before
}

func (p *pointFS) lastLogWrite() (name string, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logName, p.logEnd
}

// suspect marks the data on the disk as possibly damaged: calls may not return.
func (p *pointFS) suspect() { close(p.struck) }

// freeze blocks all further file operations. Pebble retries some failed operations forever without
// a pause, and a database whose opening failed cannot be closed.
func (p *pointFS) freeze() { p.watch(func(pointOp) *pointFault { select {} }) }
