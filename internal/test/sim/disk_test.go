package sim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk stores the files of a node's successive processes. It can lose unsynced data, and stop in
// the middle of a step.
type disk struct {
	mem *vfs.MemFS

	// stopAt counts down the operations that change files. At zero, the disk saves what a power
	// failure would leave at that point, and the rest of the step has no effect.
	stopAt  int
	synced  *vfs.MemFS // set once the disk has stopped, like written
	written *vfs.MemFS

	mu      sync.Mutex // guards removed; no I/O under it
	removed []string   // state files that will be removed for good at the end of the step
}

func newDisk(mem *vfs.MemFS) *disk { return &disk{mem: mem} }

// stopped reports whether the disk has stopped, so that nothing that follows matters.
func (d *disk) stopped() bool { return d.synced != nil }

// operation is called before every operation that changes files.
func (d *disk) operation() {
	if d.stopAt == 0 {
		return
	}
	if d.stopAt--; d.stopAt == 0 {
		d.stop()
	}
}

func (d *disk) stop() {
	if !d.stopped() {
		d.synced = d.mem.CrashClone(vfs.CrashCloneCfg{})
		d.written = d.mem.CrashClone(everything)
	}
}

var everything = vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))}

// sweep ends a step. Pebble removes files in the background, before or after its directory happens
// to be synced; here it is always after.
func (d *disk) sweep() error {
	d.mu.Lock()
	removed := d.removed
	d.removed = nil
	d.mu.Unlock()
	slices.Sort(removed)
	var errs []error
	for _, name := range removed {
		errs = append(errs, d.mem.Remove(name))
	}
	return errors.Join(errs...)
}

// afterPowerLoss returns the disk after a power failure: what was synced, and each 4 KiB block and
// name of the rest with a probability. Pebble's CrashClone does the same, but in map order.
func (d *disk) afterPowerLoss(rng *rand.Rand, percent int) (*disk, error) {
	d.stop()
	left := vfs.NewCrashableMem()
	m := mixer{synced: d.synced, written: d.written, left: left, seed: rng.Uint64(), percent: percent}
	if err := m.dir("/"); err != nil {
		return nil, fmt.Errorf("crash: %w", err)
	}
	return newDisk(left), nil
}

type mixer struct {
	synced, written, left *vfs.MemFS
	seed                  uint64
	percent               int
}

// luck returns the random decisions for a file. They depend only on its name: Pebble removes unused
// files at an arbitrary time, and the fate of the others must not depend on that.
func (m *mixer) luck(path string) func() bool {
	rng := rand.New(rand.NewPCG(m.seed, xxhash.Sum64String(path)))
	return func() bool { return rng.IntN(100) < m.percent }
}

func (m *mixer) dir(path string) error {
	durable, err := list(m.synced, path)
	if err != nil {
		return err
	}
	visible, err := list(m.written, path)
	if err != nil {
		return err
	}
	names := slices.Concat(durable, visible)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		kept := slices.Contains(durable, name)
		if there := slices.Contains(visible, name); kept != there && m.luck(m.left.PathJoin(path, name))() {
			kept = there // the change of the directory was persisted
		}
		if !kept {
			continue
		}
		if err := m.entry(m.left.PathJoin(path, name)); err != nil {
			return err
		}
	}
	return syncDir(m.left, path)
}

func (m *mixer) entry(path string) error {
	info, err := m.written.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = m.synced.Stat(path)
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err := m.left.MkdirAll(path, 0o700); err != nil {
			return err
		}
		return m.dir(path)
	}
	return m.file(path)
}

func (m *mixer) file(path string) error {
	content, err := read(m.synced, path)
	if err != nil {
		return err
	}
	written, err := read(m.written, path)
	if err != nil {
		return err
	}
	const block = 4096
	survives := m.luck(path + " content")
	for i := 0; i < len(written); i += block {
		if !survives() {
			continue
		}
		end := min(i+block, len(written))
		if end > len(content) {
			content = append(content, make([]byte, end-len(content))...) // missing blocks before it are zero
		}
		copy(content[i:end], written[i:end])
	}
	f, err := m.left.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// list returns the names in a directory, none if it does not exist.
func list(fsys vfs.FS, dir string) ([]string, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// read returns the contents of a file, nothing if it does not exist.
func read(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

func syncDir(fsys vfs.FS, path string) error {
	d, err := fsys.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// FS returns the file system for a node.
func (d *disk) FS() vfs.FS { return &diskFS{d.mem, d} }

// diskFS counts the operations that change files.
type diskFS struct {
	vfs.FS
	disk *disk
}

// Unwrap returns the file system below.
func (f *diskFS) Unwrap() vfs.FS { return f.FS }

func (f *diskFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f.disk.operation()
	return f.file(f.FS.Create(name, c))
}

func (f *diskFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.file(f.FS.OpenReadWrite(name, c, opts...))
}

func (f *diskFS) OpenDir(name string) (vfs.File, error) { return f.file(f.FS.OpenDir(name)) }

func (f *diskFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f.disk.operation()
	return f.file(f.FS.ReuseForWrite(oldname, newname, c))
}

func (f *diskFS) Link(oldname, newname string) error {
	f.disk.operation()
	return f.FS.Link(oldname, newname)
}

func (f *diskFS) Rename(oldname, newname string) error {
	f.disk.operation()
	return f.FS.Rename(oldname, newname)
}

func (f *diskFS) Remove(name string) error {
	if !strings.Contains(name, "/state/") {
		f.disk.operation()
		return f.FS.Remove(name)
	}
	if _, err := f.FS.Stat(name); err != nil {
		return err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if slices.Contains(f.disk.removed, name) {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	f.disk.removed = append(f.disk.removed, name)
	return nil
}

func (f *diskFS) file(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &diskFile{file, f.disk}, nil
}

type diskFile struct {
	vfs.File
	disk *disk
}

func (f *diskFile) Write(p []byte) (int, error) {
	f.disk.operation()
	return f.File.Write(p)
}

func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	f.disk.operation()
	return f.File.WriteAt(p, off)
}

func (f *diskFile) Sync() error {
	f.disk.operation()
	return f.File.Sync()
}

func (f *diskFile) SyncData() error {
	f.disk.operation()
	return f.File.SyncData()
}

func (f *diskFile) SyncTo(length int64) (bool, error) {
	f.disk.operation()
	return f.File.SyncTo(length)
}
