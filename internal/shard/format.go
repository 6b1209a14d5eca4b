package shard

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
)

// FormatVersion is the layout of a data directory: FORMAT, LOCK, COUNTS, log/ (internal/raftlog)
// and state/ (Pebble), and of the commands and rows in them. It must be raised with every change of
// a layout that an earlier build could have written. internal/test/golden has data of each version,
// and fails if that is forgotten.
//
// Directories back to oldestFormat can be opened. Opening converts them to the current format, so
// that no older build opens them again. Records gain fields only after codec.Coder.More.
const FormatVersion = 3

const oldestFormat = 2

// format is the content of the file FORMAT, written last when a directory is created: the settings
// that cannot change afterwards, and the node's identity, see identity.
type format struct {
	Version int                `json:"floe_format"`
	Shards  int                `json:"shards"`
	NodeID  uint64             `json:"node_id"`
	Voters  []uint64           `json:"voters"`
	Created string             `json:"created_by,omitempty"` // build that created the directory
	Written string             `json:"written_by,omitempty"` // build that opened it last
	Self    Identity           `json:"self,omitzero"`
	Past    []string           `json:"past,omitempty"` // runs before that of Self, in directories that have no Shown yet
	Shown   []Shown            `json:"shown,omitempty"`
	Met     map[uint64]Meeting `json:"met,omitempty"`
	Sum     string             `json:"crc32c"` // of the rest, see sum
}

// sum returns the checksum of the other fields, in hexadecimal. Without it, a changed digit could
// mean another node or another cluster.
func (f format) sum() string {
	f.Sum = ""
	b, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli))
}

// lockDir ensures that no other Host, of this or another process, uses dir.
func lockDir(fsys vfs.FS, dir string) (io.Closer, error) {
	if err := makeDir(fsys, dir); errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EINVAL) ||
		errors.Is(err, syscall.ENAMETOOLONG) {
		return nil, engine.Errorf(engine.ErrInvalid, "create data directory: %v", err)
	} else if err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	lock, err := lockFile(fsys, fsys.PathJoin(dir, "LOCK"))
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err != nil {
		return nil, inUse(dir, err)
	}
	return lock, nil
}

// makeDir creates dir and missing parents durably, which includes syncing their parents.
func makeDir(fsys vfs.FS, dir string) error {
	info, err := fsys.Stat(dir)
	if err == nil && !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := fsys.PathDir(dir)
	if parent != dir && parent != "." {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDir(fsys, parent)
}

// absolute ensures that a directory has the same lock under all of its names.
func absolute(fsys vfs.FS, dir string) (string, error) {
	if fsys != vfs.Default {
		return dir, nil
	}
	return filepath.Abs(dir)
}

// readFormat returns the directory's format, or nil if it has not been created yet. With an error
// it returns the readable part of a format of another version, or nil.
func readFormat(fsys vfs.FS, dir string) (*format, error) {
	name := fsys.PathJoin(dir, "FORMAT")
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read format: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("read format: %w", err)
	}
	got := new(format)
	if err := json.Unmarshal(b, got); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	if got.Version > FormatVersion {
		return got, engine.Errorf(engine.ErrInvalid,
			"%s: data directory has format %d, last written by %s, this program supports up to %d: use a newer floe",
			name, got.Version, cmp.Or(got.Written, unknownBuild), FormatVersion)
	}
	if got.Version >= 1 && got.Version < oldestFormat {
		return got, engine.Errorf(engine.ErrInvalid,
			"%s: data directory has format %d, a layout before the first release, written by %s; this program reads formats %d to %d: "+
				"open it with the build that wrote it, or start with an empty directory", name, got.Version, cmp.Or(got.Written,
				unknownBuild), oldestFormat, FormatVersion)
	}
	if got.Version < 1 || got.Shards < 1 || got.Shards > MaxShards || len(got.Voters) == 0 {
		return nil, fmt.Errorf("%s is damaged: format %d, %d shards, %d voters", name, got.Version, got.Shards, len(got.Voters))
	}
	if got.Sum != got.sum() {
		return nil, fmt.Errorf("%s is damaged: its checksum is %q, want %q", name, got.Sum, got.sum())
	}
	return got, nil
}

// unknownBuild stands for the build of a directory that does not record it.
const unknownBuild = "an unnamed build"

// agree checks the configuration against the settings of the directory.
func (f *format) agree(c *Config) error {
	var bad []string
	if c.Shards != 0 && c.Shards != f.Shards {
		bad = append(bad, fmt.Sprintf("was created with %d shards, not %d: the number cannot be changed", f.Shards, c.Shards))
	}
	if c.NodeID != f.NodeID {
		bad = append(bad, fmt.Sprintf("belongs to node %d, not %d", f.NodeID, c.NodeID))
	}
	have, want := slices.Sorted(slices.Values(f.Voters)), slices.Sorted(slices.Values(c.Voters))
	if !slices.Equal(have, want) {
		bad = append(bad, fmt.Sprintf("belongs to a cluster of the nodes %v, not %v: members cannot be changed", have, want))
	}
	if len(bad) > 0 {
		return engine.Errorf(engine.ErrInvalid, "data directory %s %s", c.Dir, strings.Join(bad, "; "))
	}
	return nil
}

// writeFormat creates FORMAT durably and atomically.
func writeFormat(fsys vfs.FS, dir string, want format) error {
	b, err := want.encode()
	if err != nil {
		return err
	}
	if err := replaceFile(fsys, dir, "FORMAT", b); err != nil {
		return fmt.Errorf("write format: %w", err)
	}
	return nil
}

// replaceFile writes a file durably and atomically.
func replaceFile(fsys vfs.FS, dir, name string, b []byte) error {
	path := fsys.PathJoin(dir, name)
	if err := writeFile(fsys, path+".tmp", b); err != nil {
		return err
	}
	if err := fsys.Rename(path+".tmp", path); err != nil {
		return err
	}
	return syncDir(fsys, dir)
}

func writeFile(fsys vfs.FS, name string, b []byte) error {
	f, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
