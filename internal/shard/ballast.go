package shard

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The ballast is in pieces, so that no more of it goes than is needed: what is freed may be taken
// by somebody else.
const (
	defaultBallast = 96 << 20 // or a 64th of the volume; a flush may take half of it, see tableGate.keep
	ballastPieces  = 8
	keptPieces     = 2 // only Open may take the last ones
	ballastBlock   = 4096
)

// ballast are files that take up space which can be freed at once when there is no other. The names
// are BALLAST.0 and so on.
type ballast struct {
	fs    vfs.FS
	dir   string
	piece int64               // size of a piece, 0: no ballast
	have  [ballastPieces]bool // the pieces that exist
}

// find looks for the pieces that are there. Those of another size, or half made, make room for new
// ones.
func (b *ballast) find(size int64) {
	b.piece = max(size, 0) / ballastPieces / ballastBlock * ballastBlock
	for i := range b.have {
		info, err := b.fs.Stat(b.name(i))
		if b.have[i] = err == nil && b.piece > 0 && info.Size() == b.piece; !b.have[i] && err == nil {
			_ = b.fs.Remove(b.name(i)) // else it is overwritten
		}
	}
}

func (b *ballast) name(i int) string { return b.fs.PathJoin(b.dir, fmt.Sprintf("BALLAST.%d", i)) }

// release removes a piece and reports whether there was one, beside those to be kept, which are the
// first.
func (b *ballast) release(keep int) bool {
	for i := ballastPieces - 1; i >= keep; i-- {
		if b.have[i] {
			b.have[i] = false
			return b.fs.Remove(b.name(i)) == nil
		}
	}
	return false
}

// more reports whether there are pieces beside those to be kept.
func (b *ballast) more(keep int) bool { return slices.Contains(b.have[keep:], true) }

// spare returns how many bytes the pieces take beside those to be kept.
func (b *ballast) spare(keep int) (n int64) {
	for _, have := range b.have[keep:] {
		if have {
			n += b.piece
		}
	}
	return n
}

// missing returns how many bytes the pieces take that have to be made.
func (b *ballast) missing() (n int64) {
	for _, have := range b.have {
		if !have {
			n += b.piece
		}
	}
	return n
}

// makeOne makes one of the missing pieces.
func (b *ballast) makeOne() {
	for i, have := range b.have {
		if !have && b.piece > 0 {
			b.have[i] = b.make(b.name(i))
			return
		}
	}
}

// makeAll makes all missing pieces and reports whether all are there.
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

// make makes a piece, durably, or leaves nothing.
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

// allocate makes the file take up its space. Where the file system can give that without a write,
// it is used, but not believed: some say that they have done it and have not.
func (b *ballast) allocate(f vfs.File) error {
	before, _ := b.fs.GetDiskUsage(b.dir)
	if err := f.Preallocate(0, b.piece); err == nil {
		after, err := b.fs.GetDiskUsage(b.dir)
		if err == nil && before.AvailBytes >= after.AvailBytes+uint64(b.piece/2) {
			// The size says that the piece is whole.
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
