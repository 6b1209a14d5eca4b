package overlayfs

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// file is an open file of an FS.
type file struct {
	name  string
	node  *node
	below vfs.File // nil if there is no file below
	write bool
	at    int64 // offset of Read and Write
}

func (f *file) Close() error {
	if f.below == nil {
		return nil
	}
	return f.below.Close()
}

func (f *file) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.at)
	f.at += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	f.node.mu.RLock()
	defer f.node.mu.RUnlock()
	if off < 0 || f.node.dir {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: fs.ErrInvalid}
	}
	left := f.node.size - off
	if short := left < int64(len(p)); short {
		p, err = p[:max(left, 0)], io.EOF
	}
	for n < len(p) {
		at := off + int64(n)
		part := p[n:min(len(p), n+int(pageSize-at%pageSize))]
		if page := f.node.pages[at/pageSize]; page != nil {
			copy(part, page[at%pageSize:])
		} else if readErr := f.readBelow(part, at); readErr != nil {
			return n, readErr
		}
		n += len(part)
	}
	return n, err
}

// readBelow fills p from the file below, and with zeros beyond its end.
func (f *file) readBelow(p []byte, off int64) error {
	n := 0
	if f.below != nil {
		var err error
		if n, err = f.below.ReadAt(p, off); err != nil && err != io.EOF {
			return err
		}
	}
	clear(p[n:])
	return nil
}

func (f *file) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.at)
	f.at += int64(n)
	return n, err
}

func (f *file) WriteAt(p []byte, off int64) (n int, err error) {
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	if off < 0 || !f.write {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: fs.ErrPermission}
	}
	for n < len(p) {
		at := off + int64(n)
		part := p[n:min(len(p), n+int(pageSize-at%pageSize))]
		if !f.zerosAlready(part, at) {
			page, err := f.pageToWrite(at / pageSize)
			if err != nil {
				return n, err
			}
			copy(page[at%pageSize:], part)
		}
		n += len(part)
		f.node.size = max(f.node.size, off+int64(n))
	}
	f.node.modified = time.Now()
	return n, nil
}

// zerosAlready reports whether part is zeros, about to be written where nothing was ever written.
func (f *file) zerosAlready(part []byte, at int64) bool {
	return f.node.pages[at/pageSize] == nil && at >= f.node.belowSize && bytes.Count(part, []byte{0}) == len(part)
}

func (f *file) pageToWrite(number int64) (*page, error) {
	if p := f.node.pages[number]; p != nil {
		return p, nil
	}
	p := new(page)
	if err := f.readBelow(p[:], number*pageSize); err != nil {
		return nil, err
	}
	if f.node.pages == nil {
		f.node.pages = make(map[int64]*page)
	}
	f.node.pages[number] = p
	return p, nil
}

func (f *file) Stat() (vfs.FileInfo, error) { return f.node.info(f.name), nil }

func (f *file) Sync() error                    { return nil }
func (f *file) SyncData() error                { return nil }
func (f *file) SyncTo(int64) (bool, error)     { return false, nil }
func (f *file) Preallocate(int64, int64) error { return nil }
func (f *file) Prefetch(int64, int64) error    { return nil }
func (f *file) Fd() uintptr                    { return vfs.InvalidFd }

// fileInfo describes a node at the time of the call.
type fileInfo struct {
	name     string
	dir      bool
	size     int64
	modified time.Time
}

func (n *node) info(name string) vfs.FileInfo {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return fileInfo{name, n.dir, n.size, n.modified}
}

func (i fileInfo) Name() string           { return i.name }
func (i fileInfo) Size() int64            { return i.size }
func (i fileInfo) ModTime() time.Time     { return i.modified }
func (i fileInfo) IsDir() bool            { return i.dir }
func (i fileInfo) Sys() any               { return nil }
func (i fileInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

func (i fileInfo) Mode() fs.FileMode {
	if i.dir {
		return os.ModeDir | 0o700
	}
	return 0o600
}
