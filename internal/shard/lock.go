package shard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
)

// held names the lock files on disk that this process has locked. The operating system's locks
// belong to the process, not the caller, so opening and closing a lock file again would release the
// lock of a Host that holds it.
var held = struct {
	mu    sync.Mutex
	files map[string]bool
}{files: make(map[string]bool)}

// heldLock is a lock that is noted in held.
type heldLock struct {
	io.Closer
	file string
}

func (l heldLock) Close() error {
	held.mu.Lock()
	defer held.mu.Unlock()
	delete(held.files, l.file)
	return l.Closer.Close()
}

// lockFile locks a file with fsys, and records that in held.
func lockFile(fsys vfs.FS, file string) (io.Closer, error) {
	if fsys != vfs.Default {
		return fsys.Lock(file)
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	lock, err := fsys.Lock(file)
	if err != nil {
		return nil, err
	}
	held.files[file] = true
	return heldLock{lock, file}, nil
}

// lockToRead excludes hosts from a directory that is only read, without changing it. Other readers
// may hold the lock too.
func lockToRead(fsys vfs.FS, dir string) (io.Closer, error) {
	file := fsys.PathJoin(dir, "LOCK")
	lock, err := lockFileToRead(fsys, file)
	switch pathErr := (*fs.PathError)(nil); {
	case errors.Is(err, fs.ErrNotExist):
		return io.NopCloser(nil), nil // a copy of a directory: a host would have created the file
	case errors.As(err, &pathErr):
		return nil, fmt.Errorf("lock data directory: %w", err)
	case err != nil:
		return nil, inUse(dir, err)
	}
	return lock, nil
}

func lockFileToRead(fsys vfs.FS, file string) (io.Closer, error) {
	if _, err := fsys.Stat(file); err != nil {
		return nil, err
	}
	if fsys != vfs.Default {
		return fsys.Lock(file)
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.files[file] {
		return nil, errors.New("lock held by this process")
	}
	return readLock(file)
}

func inUse(dir string, err error) error {
	return engine.Errorf(engine.ErrInUse, "data directory %s is in use by another node: %v", dir, err)
}
