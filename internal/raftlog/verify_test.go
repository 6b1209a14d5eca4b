package raftlog

import (
	"path"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// verified returns the files that Verify reports as damaged, in order, and its summary.
func verified(t *testing.T, fs vfs.FS) (files []string, s Summary) {
	t.Helper()
	s, err := Verify(small(fs), func(e *CorruptionError) { files = append(files, path.Base(e.File)) })
	must(t, "Verify", err)
	return files, s
}

func TestVerifyReportsEverySegment(t *testing.T) {
	fs, _ := closedLog(t)
	segments := segmentFiles(t, fs)
	files, s := verified(t, fs)
	if len(files) > 0 || s.Segments != len(segments) || s.Bytes == 0 {
		t.Fatalf("a good log: damage in %v, %+v", files, s)
	}
	inRecord := recordSize(startSize) + headerSize + 1
	for _, name := range segments {
		damaged := copyFS(t, fs)
		fileBytes(t, damaged, name)[inRecord] ^= 4
		if files, _ := verified(t, damaged); !slices.Equal(files, []string{name}) {
			t.Errorf("damage in %s: reported %v", name, files)
		}
	}
	all := copyFS(t, fs)
	for _, name := range segments {
		fileBytes(t, all, name)[inRecord] ^= 4
	}
	files, _ = verified(t, all)
	slices.Sort(files)
	if !slices.Equal(files, segments) {
		t.Errorf("damage in every segment: reported %v, want %v", files, segments)
	}
}

func TestVerifyReportsMissingSegments(t *testing.T) {
	fs, _ := closedLog(t)
	segments := segmentFiles(t, fs)
	for _, name := range segments[1:] {
		damaged := copyFS(t, fs)
		must(t, "Remove", damaged.Remove(damaged.PathJoin(testDir, name)))
		if files, _ := verified(t, damaged); len(files) != 1 || files[0] != name {
			t.Errorf("without %s: reported %v", name, files)
		}
	}
}

// TestVerifyFindsWhatOpenFinds flips every bit: what Open refuses must be reported.
func TestVerifyFindsWhatOpenFinds(t *testing.T) {
	fs, _ := closedLog(t)
	refused := 0
	for _, name := range segmentFiles(t, fs) {
		for i := 0; i < len(usedBytes(t, fs, name)); i += 3 {
			damaged := copyFS(t, fs)
			fileBytes(t, damaged, name)[i] ^= 1 << (i % 8)
			files, _ := verified(t, damaged)
			l, err := Open(small(damaged))
			if err == nil {
				must(t, "Close", l.Close())
				continue
			}
			if refused++; len(files) == 0 {
				t.Errorf("byte %d of %s: Open says %v, Verify reports nothing", i, name, err)
			}
		}
	}
	if refused < 100 {
		t.Errorf("%d flips were refused, want more", refused)
	}
}
