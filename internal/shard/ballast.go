package shard

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The ballast consists of pieces, so that no more is released than needed, because other programs
// may take the freed space.
const (
	defaultBallast = 96 << 20 // or a 64th of the volume; a flush may take half of it, see tableGate.keep
	ballastPieces  = 8
	keptPieces     = 2 // only Open may take the last ones
	ballastBlock   = 4096
)

// ballast is a set of files whose space can be freed at once when the disk is full. The names are
// BALLAST.0 and so on.
type ballast struct {
	fs    vfs.FS
	dir   string
	piece int64               // size of a piece, 0: no ballast
	have  [ballastPieces]bool // the pieces that exist
}

// find finds the existing pieces. It removes pieces of another size and incomplete ones, to be
// replaced.
func (b *ballast) find(size int64) {
	b.piece = max(size, 0) / ballastPieces / ballastBlock * ballastBlock
	for i := range b.have {
		info, err := b.fs.Stat(b.name(i))
		if b.have[i] = err == nil && b.piece > 0 && info.Size() == b.piece; !b.have[i] && err == nil {
			_ = b.fs.Remove(b.name(i)) // on failure it is overwritten
		}
	}
}

func (b *ballast) name(i int) string { return b.fs.PathJoin(b.dir, fmt.Sprintf("BALLAST.%d", i)) }

// release removes a piece, except the first keep ones, and reports whether there was one.
func (b *ballast) release(keep int) bool {
	for i := ballastPieces - 1; i >= keep; i-- {
		if b.have[i] {
			b.have[i] = false
			return b.fs.Remove(b.name(i)) == nil
		}
	}
	return false
}

// more reports whether there are pieces besides the first keep ones.
func (b *ballast) more(keep int) bool { return slices.Contains(b.have[keep:], true) }

// spare returns the bytes of the pieces besides the first keep ones.
func (b *ballast) spare(keep int) (n int64) {
	for _, have := range b.have[keep:] {
		if have {
			n += b.piece
		}
	}
	return n
}

// missing returns the bytes of the missing pieces.
func (b *ballast) missing() (n int64) {
	for _, have := range b.have {
		if !have {
			n += b.piece
		}
	}
	return n
}

// makeOne creates one of the missing pieces.
func (b *ballast) makeOne() {
	for i, have := range b.have {
		if !have && b.piece > 0 {
			b.have[i] = b.make(b.name(i))
			return
		}
	}
}

// makeAll creates all missing pieces and reports whether all exist.
func (b *ballast) makeAll() bool {
	for i, have := range b.have {
		if !have && b.piece > 0 {
			if b.have[i] = b.make(b.name(i)); !b.have[i] {
				return false
			}
		}
	}
	return true
}

// make creates a piece durably, or leaves no file.
func (b *ballast) make(name string) bool {
	f, err := b.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return false
	}
	err = b.allocate(f)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = b.fs.Remove(name)
	}
	return err == nil
}

// allocate makes the file occupy its space. It uses the file system's preallocation where
// available, but does not rely on it: some file systems report success without allocating.
func (b *ballast) allocate(f vfs.File) error {
	before, _ := b.fs.GetDiskUsage(b.dir)
	if err := f.Preallocate(0, b.piece); err == nil {
		after, err := b.fs.GetDiskUsage(b.dir)
		if err == nil && before.AvailBytes >= after.AvailBytes+uint64(b.piece/2) {
			// The size shows that the piece is complete.
			_, err = f.WriteAt(make([]byte, ballastBlock), b.piece-ballastBlock)
			return err
		}
	}
	block := make([]byte, 16*ballastBlock)
	for left := b.piece; left > 0; left -= int64(len(block)) {
		block = block[:min(int64(len(block)), left)]
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return nil
}
