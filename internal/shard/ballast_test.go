package shard

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestBallastFind: pieces of another size are removed, and those of the right size are kept.
func TestBallastFind(t *testing.T) {
	const piece = 3 * ballastBlock
	for _, c := range []struct {
		size int64
		keep bool
	}{
		{ballastPieces * piece, true}, {ballastPieces*(piece+ballastBlock) - 1, true}, {ballastPieces*piece - 1, false},
		{ballastPieces * (piece + ballastBlock), false}, {ballastPieces*ballastBlock - 1, false}, {0, false}, {-1, false},
	} {
		b := ballast{fs: vfs.NewMem(), dir: "d"}
		must(t, b.fs.MkdirAll("d", 0o700))
		sizes := []int{piece, piece + 1, piece - 1, 0}
		for i, size := range sizes {
			must(t, writeFile(b.fs, b.name(i), make([]byte, size)))
		}
		b.find(c.size)
		want := [ballastPieces]bool{c.keep}
		if b.have != want {
			t.Errorf("of %d bytes the pieces %v are kept, want %v", c.size, b.have, want)
		}
		if left := fmt.Sprint(list(t, b.fs, "d")); c.keep != (left == "[BALLAST.0]") || !c.keep && left != "[]" {
			t.Errorf("of %d bytes the files %s are left", c.size, left)
		}
		if b.piece > 0 {
			have := int64(0)
			if c.keep {
				have = 1
			}
			if b.missing() != (ballastPieces-have)*b.piece || b.spare(0) != have*b.piece || b.more(0) != c.keep || b.more(1) {
				t.Errorf("of %d bytes %d are missing, %d can be released", c.size, b.missing(), b.spare(0))
			}
			if !b.makeAll() || b.missing() != 0 || b.spare(0) != ballastPieces*b.piece ||
				b.spare(keptPieces) != (ballastPieces-keptPieces)*b.piece {
				t.Errorf("of %d bytes %d are missing, %d and %d can be released", c.size, b.missing(), b.spare(0), b.spare(keptPieces))
			}
		} else if b.makeOne(); b.makeAll() && b.spare(0) != 0 {
			t.Errorf("without a size there are pieces of %d bytes", b.spare(0))
		}
	}
}

// allocating is a file system that preallocates, and reports its free space.
type allocating struct {
	vfs.FS
	takes   int64 // by a preallocation
	free    int64
	silent  bool // does not report
	refuses bool // does not preallocate
	written int64
}

func (f *allocating) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if f.silent {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	return vfs.DiskUsage{AvailBytes: uint64(f.free), TotalBytes: 1 << 40}, nil
}

func (f *allocating) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return &allocated{file, f}, err
}

type allocated struct {
	vfs.File
	fs *allocating
}

func (f *allocated) Preallocate(int64, int64) error {
	if f.fs.refuses {
		return vfs.ErrUnsupported
	}
	f.fs.free -= f.fs.takes
	return nil
}

func (f *allocated) Write(p []byte) (int, error) {
	f.fs.written += int64(len(p))
	return f.File.Write(p)
}

// TestBallastIsAllocated: a piece is written, unless its preallocation has taken the space. It has
// its size in either case.
func TestBallastIsAllocated(t *testing.T) {
	const piece = 40 * ballastBlock
	for name, c := range map[string]struct {
		fs      allocating
		written int64
	}{
		"all is taken":     {allocating{takes: piece}, 0},
		"half is taken":    {allocating{takes: piece / 2}, 0},
		"less is taken":    {allocating{takes: piece/2 - 1}, piece},
		"none is taken":    {allocating{}, piece},
		"space is freed":   {allocating{takes: -piece}, piece},
		"no preallocation": {allocating{takes: piece, refuses: true}, piece},
		"usage unknown":    {allocating{takes: piece, silent: true}, piece},
	} {
		c.fs.FS, c.fs.free = vfs.NewMem(), 10*piece
		b := ballast{fs: &c.fs, piece: piece}
		if !b.make("piece") || c.fs.written != c.written {
			t.Errorf("%s: %d bytes are written, want %d", name, c.fs.written, c.written)
		}
		if info, err := c.fs.Stat("piece"); err != nil || info.Size() != piece {
			t.Errorf("%s: the piece is %v, %v", name, info, err)
		}
	}
}
