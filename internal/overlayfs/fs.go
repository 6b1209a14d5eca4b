package overlayfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS shows the files of another file system and keeps all changes to itself, so that a data
// directory can be opened, and its log replayed, without modifying it. Use it as a pointer.
//
// Changes are kept in memory, in pages. A few bytes written to a large file cost a few pages, and
// filling a new file with zeros costs nothing. Once opened, a file keeps its node, even when it is
// renamed. Changes do not outlive the FS, so syncing and locking do nothing.
type FS struct {
	base vfs.FS

	mu    sync.Mutex // guards nodes; I/O under it only looks up names below
	nodes map[string]*node
}

var _ vfs.FS = (*FS)(nil)

// node is a file or directory that is new, changed or opened before. A nil node marks a removed
// name.
type node struct {
	dir       bool
	below     string // name of the file under the pages; "" if none exists
	belowSize int64

	mu       sync.RWMutex // guards what follows
	size     int64
	pages    map[int64]*page
	modified time.Time
}

const pageSize = 32 << 10

type page [pageSize]byte

// New returns an FS over base without changes.
func New(base vfs.FS) *FS {
	return &FS{base: base, nodes: make(map[string]*node)}
}

// Unwrap returns nil, because callers would write to the file system below.
func (o *FS) Unwrap() vfs.FS { return nil }

func notExist(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// findLocked returns the node of a name; if none exists yet, it creates one from the file below.
func (o *FS) findLocked(op, name string) (*node, error) {
	if n, known := o.nodes[name]; known {
		if n == nil {
			return nil, notExist(op, name)
		}
		return n, nil
	}
	info, err := o.base.Stat(name)
	if err != nil {
		return nil, err
	}
	n := &node{dir: info.IsDir(), below: name, belowSize: info.Size(), size: info.Size(), modified: info.ModTime()}
	o.nodes[name] = n
	return n, nil
}

// addLocked assigns a node to a name. Its directory must exist.
func (o *FS) addLocked(op, name string, n *node) error {
	dir, err := o.findLocked(op, o.PathDir(name))
	if err != nil {
		return err
	}
	if old, err := o.findLocked(op, name); !dir.dir || err == nil && old.dir {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	o.nodes[name] = n
	return nil
}

// Create creates an empty file.
func (o *FS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	name = o.clean(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	n := &node{modified: time.Now()}
	if err := o.addLocked("create", name, n); err != nil {
		return nil, err
	}
	return o.open(name, n, true)
}

// clean normalizes the spelling of a name.
func (o *FS) clean(name string) string { return o.PathJoin(name) }

// Link creates another name for a file.
func (o *FS) Link(oldname, newname string) error {
	oldname, newname = o.clean(oldname), o.clean(newname)
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.findLocked("link", oldname)
	if err != nil {
		return err
	}
	if _, err := o.findLocked("link", newname); err == nil {
		return &fs.PathError{Op: "link", Path: newname, Err: fs.ErrExist}
	}
	return o.addLocked("link", newname, n)
}

// Open opens a file or directory for reading.
func (o *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	name = o.clean(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.findLocked("open", name)
	if err != nil {
		return nil, err
	}
	return o.open(name, n, false)
}

// OpenReadWrite opens a file, or creates an empty one.
func (o *FS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	name = o.clean(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.findLocked("open", name)
	if errors.Is(err, fs.ErrNotExist) {
		n = &node{modified: time.Now()}
		err = o.addLocked("open", name, n)
	}
	if err != nil {
		return nil, err
	}
	return o.open(name, n, true)
}

// OpenDir opens a directory for syncing.
func (o *FS) OpenDir(name string) (vfs.File, error) { return o.Open(name) }

func (o *FS) open(name string, n *node, write bool) (vfs.File, error) {
	f := &file{name: name, node: n, write: write && !n.dir}
	if n.below == "" || n.dir {
		return f, nil
	}
	var err error
	if f.below, err = o.base.Open(n.below); err != nil {
		return nil, err
	}
	return f, nil
}

// Remove removes a file or an empty directory.
func (o *FS) Remove(name string) error {
	name = o.clean(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.findLocked("remove", name)
	if err != nil {
		return err
	}
	if n.dir {
		if names, err := o.listLocked(name); err != nil || len(names) > 0 {
			return errors.Join(err, &fs.PathError{Op: "remove", Path: name, Err: errors.New("directory not empty")})
		}
	}
	o.nodes[name] = nil
	return nil
}

// RemoveAll removes a file, or a directory and its contents.
func (o *FS) RemoveAll(name string) error {
	name = o.clean(name)
	if names, err := o.List(name); err == nil {
		for _, child := range names {
			if err := o.RemoveAll(o.PathJoin(name, child)); err != nil {
				return err
			}
		}
	}
	if err := o.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Rename renames a file. Directories cannot be renamed, which floe never does.
func (o *FS) Rename(oldname, newname string) error {
	oldname, newname = o.clean(oldname), o.clean(newname)
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.findLocked("rename", oldname)
	if err != nil {
		return err
	}
	if n.dir {
		return &fs.PathError{Op: "rename", Path: oldname, Err: errors.ErrUnsupported}
	}
	if oldname == newname {
		return nil
	}
	if err := o.addLocked("rename", newname, n); err != nil {
		return err
	}
	o.nodes[oldname] = nil
	return nil
}

// ReuseForWrite renames a file and opens it.
func (o *FS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := o.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return o.OpenReadWrite(newname, c)
}

// MkdirAll creates a directory and its parents.
func (o *FS) MkdirAll(dir string, perm os.FileMode) error {
	dir = o.clean(dir)
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mkdirLocked(dir)
}

func (o *FS) mkdirLocked(dir string) error {
	n, err := o.findLocked("mkdir", dir)
	switch {
	case err == nil && n.dir:
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrExist}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if parent := o.PathDir(dir); parent != dir {
		if err := o.mkdirLocked(parent); err != nil {
			return err
		}
	}
	o.nodes[dir] = &node{dir: true, modified: time.Now()}
	return nil
}

// Lock does nothing, because changes are invisible to other processes.
func (o *FS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// List returns the names in a directory, sorted.
func (o *FS) List(dir string) ([]string, error) {
	dir = o.clean(dir)
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.listLocked(dir)
}

func (o *FS) listLocked(dir string) ([]string, error) {
	n, err := o.findLocked("list", dir)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, &fs.PathError{Op: "list", Path: dir, Err: fs.ErrInvalid}
	}
	var names []string
	if n.below != "" {
		if names, err = o.base.List(n.below); err != nil {
			return nil, err
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		_, known := o.nodes[o.PathJoin(dir, name)]
		return known
	})
	for name, n := range o.nodes {
		if n != nil && name != dir && o.PathDir(name) == dir {
			names = append(names, o.PathBase(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// Stat describes a file or directory.
func (o *FS) Stat(name string) (vfs.FileInfo, error) {
	name = o.clean(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.findLocked("stat", name)
	if err != nil {
		return nil, err
	}
	return n.info(o.PathBase(name)), nil
}

// PathBase, like all methods for names, is that of the file system below.
func (o *FS) PathBase(path string) string { return o.base.PathBase(path) }

// PathJoin joins names.
func (o *FS) PathJoin(elem ...string) string { return o.base.PathJoin(elem...) }

// PathDir returns the directory of a name.
func (o *FS) PathDir(path string) string { return o.base.PathDir(path) }

// GetDiskUsage reports enough space, because no data is written to a disk.
func (o *FS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	const plenty = 1 << 50
	return vfs.DiskUsage{AvailBytes: plenty, TotalBytes: plenty}, nil
}
