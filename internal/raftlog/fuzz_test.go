package raftlog

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FuzzSegment opens arbitrary bytes as the first two segments. Nothing may panic, and a log that
// opens must work. With mend set the records get good checksums, which takes the fuzzer past them
// to what the records say.
func FuzzSegment(f *testing.F) {
	fs, _ := closedLog(f)
	files := segmentFiles(f, fs)
	first, second := fileBytes(f, fs, files[0]), fileBytes(f, fs, files[1])
	f.Add(first, second, false)
	f.Add(first, second, true)
	f.Add(first[:100], []byte(nil), false)
	f.Add(second, first, true)
	f.Add(make([]byte, 200), []byte{1}, true)
	f.Fuzz(func(t *testing.T, first, second []byte, mend bool) {
		if mend {
			first, second = mendChecksums(first, 1), mendChecksums(second, 2)
		}
		fs := vfs.NewMem()
		putFile(t, fs, fileName(1), first)
		if len(second) > 0 {
			putFile(t, fs, fileName(2), second)
		}
		l, err := Open(small(fs))
		if err != nil {
			return
		}
		got, err := read(l)
		must(t, "read", err)
		us := []Update{{Shard: 1, HardState: hard(1, 1, 1), Entries: entries(l.Shard(1).LastIndex()+1, l.Shard(1).LastIndex()+2, 1)}}
		if l.Shard(1).LastIndex() >= maxIndex-2 {
			us[0].Entries = nil
		}
		must(t, "Write", l.Write(us))
		must(t, "Close", l.Close())
		l = mustOpen(t, small(fs))
		checkState(t, "after Write and reopen", l, got.apply(effectsOf(us)...).settled())
	})
}

// mendChecksums returns b with each record it can be read as bearing the mark and given the right
// checksum for segment.
func mendChecksums(b []byte, segment uint32) []byte {
	b = append([]byte(nil), b...)
	for off := 0; off+headerSize <= len(b); {
		h, _ := parseHeader(b[off:])
		end := off + headerSize + int(h.length)
		if end > len(b) {
			break
		}
		le.PutUint32(b[off+8:], testMark)
		next := sealRecord(append([]byte(nil), b[off:end]...), 0, place(segment, int64(off)))
		copy(b[off:], next)
		off += len(next)
	}
	return b
}
