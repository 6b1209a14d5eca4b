package shard

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// overlayFile is an open file of an overlayFS.
type overlayFile struct {
	name  string
	node  *overlayNode
	below vfs.File // nil: nothing lies below
	write bool
	at    int64 // of Read and Write
}

func (f *overlayFile) Close() error {
	if f.below == nil {
		return nil
	}
	return f.below.Close()
}

func (f *overlayFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.at)
	f.at += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (f *overlayFile) ReadAt(p []byte, off int64) (n int, err error) {
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
		part := p[n:min(len(p), n+int(overlayPageSize-at%overlayPageSize))]
		if page := f.node.pages[at/overlayPageSize]; page != nil {
			copy(part, page[at%overlayPageSize:])
		} else if readErr := f.readBelow(part, at); readErr != nil {
			return n, readErr
		}
		n += len(part)
	}
	return n, err
}

// readBelow fills p from the file below; behind its end there are zeros.
func (f *overlayFile) readBelow(p []byte, off int64) error {
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

func (f *overlayFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.at)
	f.at += int64(n)
	return n, err
}

func (f *overlayFile) WriteAt(p []byte, off int64) (n int, err error) {
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	if off < 0 || !f.write {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: fs.ErrPermission}
	}
	for n < len(p) {
		at := off + int64(n)
		part := p[n:min(len(p), n+int(overlayPageSize-at%overlayPageSize))]
		if !f.zerosAlready(part, at) {
			page, err := f.pageToWrite(at / overlayPageSize)
			if err != nil {
				return n, err
			}
			copy(page[at%overlayPageSize:], part)
		}
		n += len(part)
		f.node.size = max(f.node.size, off+int64(n))
	}
	f.node.modified = time.Now()
	return n, nil
}

// zerosAlready reports whether part is zeros, to be written where nothing else was ever.
func (f *overlayFile) zerosAlready(part []byte, at int64) bool {
	return f.node.pages[at/overlayPageSize] == nil && at >= f.node.belowSize && bytes.Count(part, []byte{0}) == len(part)
}

func (f *overlayFile) pageToWrite(number int64) (*overlayPage, error) {
	if page := f.node.pages[number]; page != nil {
		return page, nil
	}
	page := new(overlayPage)
	if err := f.readBelow(page[:], number*overlayPageSize); err != nil {
		return nil, err
	}
	if f.node.pages == nil {
		f.node.pages = make(map[int64]*overlayPage)
	}
	f.node.pages[number] = page
	return page, nil
}

func (f *overlayFile) Stat() (vfs.FileInfo, error) { return f.node.info(f.name), nil }

func (f *overlayFile) Sync() error                    { return nil }
func (f *overlayFile) SyncData() error                { return nil }
func (f *overlayFile) SyncTo(int64) (bool, error)     { return false, nil }
func (f *overlayFile) Preallocate(int64, int64) error { return nil }
func (f *overlayFile) Prefetch(int64, int64) error    { return nil }
func (f *overlayFile) Fd() uintptr                    { return vfs.InvalidFd }

// overlayInfo describes a node as it was when it was asked.
type overlayInfo struct {
	name     string
	dir      bool
	size     int64
	modified time.Time
}

func (n *overlayNode) info(name string) vfs.FileInfo {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return overlayInfo{name, n.dir, n.size, n.modified}
}

func (i overlayInfo) Name() string           { return i.name }
func (i overlayInfo) Size() int64            { return i.size }
func (i overlayInfo) ModTime() time.Time     { return i.modified }
func (i overlayInfo) IsDir() bool            { return i.dir }
func (i overlayInfo) Sys() any               { return nil }
func (i overlayInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

func (i overlayInfo) Mode() fs.FileMode {
	if i.dir {
		return os.ModeDir | 0o700
	}
	return 0o600
}
