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
			if !b.makeAll() || b.missing() != 0 || b.spare(0) != ballastPieces*b.piece || b.spare(keptPieces) != (ballastPieces-keptPieces)*b.piece {
				t.Errorf("of %d bytes %d are missing, %d and %d can be released", c.size, b.missing(), b.spare(0), b.spare(keptPieces))
			}
		} else if b.makeOne(); b.makeAll() && b.spare(0) != 0 {
			t.Errorf("without a size there are pieces of %d bytes", b.spare(0))
		}
	}
}
