package shard

import (
	"io/fs"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// nodeBytes is the space that a file of a smallFS takes besides its content.
const nodeBytes = 512

// smallFS is an in-memory file system that is full when its files and those of others take all of
// its capacity. A write that does not fit is cut short.
type smallFS struct {
	vfs.FS
	mem *vfs.MemFS

	mu       sync.Mutex // guards the fields below; no call is made under it
	capacity int64
	used     int64
	others   int64
	ceiling  int64 // maximum free space: the rest goes to others; 0: none
	silent   bool  // does not report its usage
	quota    bool  // reports the usage as if nothing were used
	files    map[string]*smallNode
	ops      int // number of operations that may find no space
	denyFrom int // the first of them that finds none, whatever is free; 0: none
	denyTo   int
}

type smallNode struct {
	size  int64
	names int
}

func newSmallFS(mem *vfs.MemFS, capacity int64) *smallFS {
	f := &smallFS{FS: mem, mem: mem, capacity: capacity, files: make(map[string]*smallNode)}
	f.find("/")
	return f
}

// find counts the existing files.
func (f *smallFS) find(dir string) {
	names, err := f.FS.List(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		path := f.FS.PathJoin(dir, name)
		info, err := f.FS.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			f.find(path)
		default:
			f.files[path] = &smallNode{info.Size(), 1}
			f.used += nodeBytes + info.Size()
		}
	}
}

// path maps the possible names of a file to one.
func path(name string) string {
	if name[0] != '/' {
		return "/" + name
	}
	return name
}

func (f *smallFS) free() int64 {
	free := max(f.capacity-f.used-f.others, 0)
	if f.ceiling > 0 && free > f.ceiling {
		f.others += free - f.ceiling
		return f.ceiling
	}
	return free
}

// takenByOthers sets the part of the capacity that others use.
func (f *smallFS) takenByOthers(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.others = n
}

// eat lets others take all free space except leave bytes.
func (f *smallFS) eat(leave int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.others += max(f.free()-leave, 0)
}

func (f *smallFS) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// take takes up to n bytes and returns how many it got.
func (f *smallFS) take(n int64) (got int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.takeLocked(n)
}

func (f *smallFS) takeLocked(n int64) (got int64, err error) {
	f.ops++
	if f.denyFrom > 0 && f.ops >= f.denyFrom && f.ops < f.denyTo {
		return 0, syscall.ENOSPC
	}
	if got = min(n, f.free()); got < n {
		err = syscall.ENOSPC
	}
	f.used += got
	return got, err
}

func (f *smallFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	free := f.free()
	if f.quota {
		free = f.capacity
	}
	return vfs.DiskUsage{AvailBytes: uint64(free), TotalBytes: uint64(f.capacity), UsedBytes: uint64(f.capacity - free)}, nil
}

func (f *smallFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	node, err := f.create(path(name))
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	file, err := f.FS.Create(name, c)
	return &smallFile{File: file, fs: f, node: node}, err
}

func (f *smallFS) create(name string) (*smallNode, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if got, err := f.takeLocked(nodeBytes); err != nil {
		f.used -= got
		return nil, err
	}
	f.dropLocked(name)
	node := &smallNode{names: 1}
	f.files[name] = node
	return node, nil
}

func (f *smallFS) dropLocked(name string) {
	node := f.files[name]
	delete(f.files, name)
	if node == nil {
		return
	}
	if node.names--; node.names == 0 {
		f.used -= nodeBytes + node.size
	}
}

func (f *smallFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name, c, opts...)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &smallFile{File: file, fs: f, node: f.files[path(name)]}, nil
}

func (f *smallFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return f.OpenReadWrite(newname, c)
}

func (f *smallFS) Remove(name string) error {
	err := f.FS.Remove(name)
	if err == nil {
		f.set(func() { f.dropLocked(path(name)) })
	}
	return err
}

func (f *smallFS) Rename(oldname, newname string) error {
	if _, err := f.take(0); err != nil {
		return &fs.PathError{Op: "rename", Path: oldname, Err: err}
	}
	if err := f.FS.Rename(oldname, newname); err != nil {
		return err
	}
	f.set(func() {
		node := f.files[path(oldname)]
		delete(f.files, path(oldname))
		f.dropLocked(path(newname))
		f.files[path(newname)] = node
	})
	return nil
}

func (f *smallFS) Link(oldname, newname string) error {
	if _, err := f.take(0); err != nil {
		return &fs.PathError{Op: "link", Path: oldname, Err: err}
	}
	if err := f.FS.Link(oldname, newname); err != nil {
		return err
	}
	f.set(func() {
		node := f.files[path(oldname)]
		node.names++
		f.files[path(newname)] = node
	})
	return nil
}

type smallFile struct {
	vfs.File
	fs   *smallFS
	node *smallNode
	pos  int64
}

func (f *smallFile) Write(p []byte) (int, error) {
	n, err := f.grow(p, f.pos)
	m, writeErr := f.File.Write(p[:n])
	f.pos += int64(m)
	if writeErr != nil {
		err = writeErr
	}
	return m, err
}

func (f *smallFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.grow(p, off)
	m, writeErr := f.File.WriteAt(p[:n], off)
	if writeErr != nil {
		err = writeErr
	}
	return m, err
}

// grow takes the space for p at an offset and returns how much of p has it.
func (f *smallFile) grow(p []byte, off int64) (n int, err error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	end := off + int64(len(p))
	more := max(end-f.node.size, 0)
	got, err := f.fs.takeLocked(more)
	f.node.size += got
	if err == nil {
		return len(p), nil
	}
	return int(max(min(f.node.size, end)-off, 0)), &fs.PathError{Op: "write", Path: "small", Err: err}
}
