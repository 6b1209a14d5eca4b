package raftlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	spareSuffix = ".spare"

	// defaultSpares is the number of segments that one flush of the state frees when the log runs
	// at full speed.
	defaultSpares = 3

	// blockSize is the unit in which the kernel keeps files in memory.
	blockSize = 4096

	// ahead is the number of bytes of zeros that the log writes ahead of its records. Larger steps
	// do not improve the mean duration of a Sync, and make the worst case worse.
	ahead = 256 << 10

	// prepareChunk is the number of bytes of a spare file that are written between two syncs.
	// Smaller chunks are slower, and larger ones delay the log's own syncs.
	prepareChunk = 64 << 10
)

// zeros is written ahead of the records.
var zeros [ahead]byte

func alignBlock(n int64) int64 {
	return (n + blockSize - 1) &^ (blockSize - 1)
}

// spare is a file that may become a segment: a file of zeros, or a segment that is no longer
// needed. It does not outlive the Log, because a file system may keep both names of a renamed file
// after a crash, so it could be a segment too.
type spare struct {
	name string
	size int64
}

// writeAhead writes zeros after the blocks of t, which are all in use, so that the next records go
// into existing blocks. It ignores a failure, such as a full disk.
func (l *Log) writeAhead(t *tail) {
	limit := alignBlock(l.segmentSize)
	if l.lean() || t.written >= limit {
		return
	}
	b := zeros[:min(ahead, limit-t.written)]
	if err := writeAt(t.file, b, t.written); err == nil {
		t.written += int64(len(b))
	}
}

// lean reports whether the log takes only the space that its records need.
func (l *Log) lean() bool {
	return l.maxSpares == 0 || l.released
}

// Prepare writes a spare file for the next segment, unless there is one or the current segment has
// enough space left. It may take as long as writing a segment, and runs concurrently with all other
// calls. The log's owner calls it from time to time, in the background. Without Prepare the log is
// only slower.
//
// After an error, including that of a done ctx, there is no spare file. Errors: those of FS,
// including that of a full disk; the first error of a failed Sync, ErrClosed.
func (l *Log) Prepare(ctx context.Context) error {
	l.prepareMu.Lock()
	defer l.prepareMu.Unlock()
	name, err := l.planSpare()
	if err != nil || name == "" {
		return err
	}
	err = l.writeSpare(ctx, name)
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if err != nil {
		l.garbage = append(l.garbage, name)
		return joined(append(l.sweep(), err))
	}
	l.spares = append(l.spares, spare{name, alignBlock(l.segmentSize)})
	return nil
}

// planSpare returns the name of a spare file to write, or none.
func (l *Log) planSpare() (name string, err error) {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if err := l.usable(); err != nil {
		return "", err
	}
	l.released = false
	if l.maxSpares == 0 || len(l.spares) > 0 || l.tail.file == nil || l.tail.end < l.segmentSize/4 {
		return "", nil
	}
	return l.spareName(), nil
}

// spareName returns an unused name for a spare file.
func (l *Log) spareName() string {
	l.lastSpare++
	return fmt.Sprintf("%08d%s", l.lastSpare, spareSuffix)
}

func (l *Log) writeSpare(ctx context.Context, name string) error {
	path := l.fs.PathJoin(l.dir, name)
	file, err := l.fs.Create(path, writeCategory)
	if err != nil {
		return fmt.Errorf("ual: create %s: %w", path, err)
	}
	if err := closeAfter(file, l.writeZeros(ctx, file)); err != nil {
		return fmt.Errorf("ual: write zeros to %s: %w", path, err)
	}
	return nil
}

// writeZeros fills file and syncs in steps. Otherwise the log's own syncs would wait for all of the
// accumulated writes.
func (l *Log) writeZeros(ctx context.Context, file vfs.File) error {
	size := alignBlock(l.segmentSize)
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := zeros[:min(prepareChunk, size-off)]
		if err := writeAt(file, b, off); err != nil {
			return err
		}
		if err := file.SyncData(); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}

// recycle turns the file of a dropped segment into a spare, or into garbage if there are enough
// spares or its size is unusual. A segment that Open found is also garbage, because the size of its
// file is unknown.
func (l *Log) recycle(name string, s segment) error {
	usual := alignBlock(l.segmentSize)
	if l.lean() || len(l.spares) >= l.maxSpares || s.written < usual || s.written > 2*usual {
		l.garbage = append(l.garbage, name)
		return nil
	}
	sp := spare{l.spareName(), s.written}
	if err := l.fs.Rename(l.fs.PathJoin(l.dir, name), l.fs.PathJoin(l.dir, sp.name)); err != nil {
		l.garbage = append(l.garbage, name, sp.name)
		return fmt.Errorf("ual: rename %s to %s: %w", name, sp.name, err)
	}
	l.spares = append(l.spares, sp)
	return nil
}

// ReleaseSpare removes all spare files to free their space. It waits for a running Prepare. Until
// the next Prepare no file becomes a spare, and the log does not write ahead. Errors: those of FS,
// the first error of a failed Sync, ErrClosed; files that could not be removed are retried later.
func (l *Log) ReleaseSpare() error {
	l.prepareMu.Lock()
	defer l.prepareMu.Unlock()
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	l.released = true
	return l.removeSpares()
}

// removeSpares removes all spare files, unless the log is broken.
func (l *Log) removeSpares() error {
	if err := l.usable(); err != nil {
		return err
	}
	for _, sp := range l.spares {
		l.garbage = append(l.garbage, sp.name)
	}
	l.spares = nil
	return joined(l.sweep())
}

// joined is errors.Join, but returns a single error unchanged.
func joined(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
