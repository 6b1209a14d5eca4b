package raftlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	fileSuffix = ".ual"

	// writeCategory is the category of the log's writes, for file systems that count disk writes.
	writeCategory = vfs.DiskWriteCategory("floe-ual")
)

func fileName(number uint32) string {
	return fmt.Sprintf("%08d%s", number, fileSuffix)
}

func (l *Log) path(number uint32) string {
	return l.fs.PathJoin(l.dir, fileName(number))
}

// listFiles returns the numbers of the segment files in the directory, ascending, and the names of
// the spare files. Other files are ignored.
func (l *Log) listFiles() (numbers []uint32, spares []string, err error) {
	names, err := l.fs.List(l.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("ual: list %s: %w", l.dir, err)
	}
	for _, name := range names {
		if n, ok := parseFileName(name); ok {
			numbers = append(numbers, n)
		} else if strings.HasSuffix(name, spareSuffix) {
			spares = append(spares, name)
		}
	}
	slices.Sort(numbers)
	slices.Sort(spares)
	return numbers, spares, nil
}

func parseFileName(name string) (number uint32, ok bool) {
	digits, ok := strings.CutSuffix(name, fileSuffix)
	if !ok {
		return 0, false
	}
	if _, err := fmt.Sscanf(digits, "%d", &number); err != nil {
		return 0, false
	}
	return number, number > 0 && fileName(number) == name
}

// makeDir creates the directory, durably.
func (l *Log) makeDir() error {
	var parents []string
	for dir := l.dir; ; dir = l.fs.PathDir(dir) {
		parent := l.fs.PathDir(dir)
		parents = append(parents, parent)
		if _, err := l.fs.Stat(parent); err == nil || parent == dir {
			break
		}
	}
	if err := l.fs.MkdirAll(l.dir, 0o700); err != nil {
		return fmt.Errorf("ual: create %s: %w", l.dir, err)
	}
	for _, dir := range parents {
		if err := l.syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) syncDir(name string) error {
	dir, err := l.fs.OpenDir(name)
	if err != nil {
		return fmt.Errorf("ual: open %s: %w", name, err)
	}
	if err := closeAfter(dir, dir.Sync()); err != nil {
		return fmt.Errorf("ual: sync %s: %w", name, err)
	}
	return nil
}

// syncNames makes the names of the files durable. The directory stays open, because a process
// without free file descriptors could not open it.
func (l *Log) syncNames() error {
	if err := l.folder.Sync(); err != nil {
		return fmt.Errorf("ual: sync %s: %w", l.dir, err)
	}
	return nil
}

// makeRoom prepares the tail for n more bytes, in a new segment if they do not fit. Called with
// writeMu held.
func (l *Log) makeRoom(n int64) error {
	t := &l.tail
	if t.file != nil && !t.sealed && (t.end+n <= l.segmentSize || t.end == t.head) {
		return nil
	}
	return l.startSegment()
}

// startSegment makes a new segment the tail. If it fails, the old tail stays sealed: the file of
// the new segment may already contain a start record that has the old tail's end, so no more
// records can be appended. The next attempt recreates the new segment.
func (l *Log) startSegment() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	old := l.tail
	if old.file != nil {
		l.tail.sealed = true
		if err := l.syncTail(); err != nil {
			return err
		}
	}
	t := tail{number: old.number + 1}
	if err := l.encodeHead(t.number); err != nil {
		return err
	}
	if err := l.createSegment(&t); err != nil {
		return err
	}
	l.setTail(t)
	if old.number == 0 {
		return nil
	}
	return l.retire(old)
}

// encodeHead fills l.buf with the start record and the checkpoint of a segment.
func (l *Log) encodeHead(number uint32) error {
	if err := l.drawMark(); err != nil {
		return err
	}
	l.beginRecords()
	states := l.knownShards()
	info := startInfo{
		version: formatVersion,
		oldest:  l.oldest,
		prevEnd: l.tail.end,
		head:    recordSize(startSize) + int64(len(states))*recordSize(checkpointSize),
	}
	l.buf = appendHeader(l.buf, header{mark: l.mark, kind: kindStart})
	l.buf = appendStart(l.buf, info)
	l.buf = sealRecord(l.buf, 0, place(number, 0))
	for _, s := range states {
		begin := len(l.buf)
		h := header{mark: l.mark, shard: s.id, kind: kindState, term: s.compacted.Term, index: s.compacted.Index}
		l.buf = appendHeader(l.buf, h)
		l.buf = appendCheckpoint(l.buf, checkpoint{hard: s.hard, reserved: s.reserved, last: s.lastIndex()})
		l.buf = sealRecord(l.buf, begin, place(number, int64(begin)))
	}
	return nil
}

// drawMark draws the mark of a new log.
func (l *Log) drawMark() error {
	for l.mark == 0 {
		var b [4]byte
		if _, err := io.ReadFull(l.random, b[:]); err != nil {
			return fmt.Errorf("ual: draw the mark of the log: %w", err)
		}
		l.mark = le.Uint32(b[:])
	}
	return nil
}

// knownShards returns the shards that have records, ordered by id.
func (l *Log) knownShards() []*Shard {
	ids := l.Shards()
	l.mu.RLock()
	defer l.mu.RUnlock()
	states := make([]*Shard, len(ids))
	for i, id := range ids {
		states[i] = l.shards[id]
	}
	return states
}

// createSegment makes t a new segment that holds l.buf, and makes it and its name durable.
func (l *Log) createSegment(t *tail) error {
	path := l.path(t.number)
	if err := l.openNew(t); err != nil {
		return err
	}
	if err := l.writeBlocks(t); err != nil {
		return closeAfter(t.file, fmt.Errorf("ual: write start of %s: %w", path, err))
	}
	t.head = int64(len(l.buf))
	if err := t.file.SyncData(); err != nil {
		return closeAfter(t.file, l.fail(fmt.Errorf("ual: sync %s: %w", path, err)))
	}
	if err := l.syncNames(); err != nil {
		return closeAfter(t.file, l.fail(err))
	}
	return nil
}

// openNew opens a file for segment t, a spare one if there is any. It replaces the file left by a
// failed attempt at the same segment, whose records would otherwise be valid.
func (l *Log) openNew(t *tail) (err error) {
	path := l.path(t.number)
	if n := len(l.spares); n > 0 {
		sp := l.spares[n-1]
		l.spares = l.spares[:n-1]
		t.written = sp.size
		if t.file, err = l.fs.ReuseForWrite(l.fs.PathJoin(l.dir, sp.name), path, writeCategory); err != nil {
			l.garbage = append(l.garbage, sp.name)
			return fmt.Errorf("ual: rename %s to %s: %w", sp.name, path, err)
		}
		return nil
	}
	if t.file, err = l.fs.Create(path, writeCategory); err != nil {
		return fmt.Errorf("ual: create %s: %w", path, err)
	}
	return nil
}

// setTail makes t, a durable head, the tail.
func (l *Log) setTail(t tail) {
	t.end, t.synced = t.head, t.head
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.segments); n > 0 {
		l.segments[n-1].written = l.tail.written
	}
	l.tail = t
	l.segments = append(l.segments, segment{size: t.head})
}

// retire closes the segment before the tail and adds the next record to it, which reveals the loss
// of the tail's file. The record is at the end that the tail's start record gives, so it does not
// affect the log, which is complete without it. So it is not synced, and a failure to write it is
// not an error.
func (l *Log) retire(old tail) error {
	file := old.file
	if file == nil {
		var err error
		if file, err = l.fs.OpenReadWrite(l.path(old.number), writeCategory); err != nil {
			return nil
		}
	}
	b := appendHeader(nil, header{mark: l.mark, kind: kindNext, index: uint64(old.number + 1), synced: uint64(old.end)})
	_, _ = file.WriteAt(sealRecord(b, 0, place(old.number, old.end)), old.end)
	if err := file.Close(); err != nil {
		return fmt.Errorf("ual: close %s: %w", l.path(old.number), err)
	}
	return nil
}

// removeSegments drops the segments below oldest, which is durably recorded, from memory. It
// removes their files or keeps them as spares. It retries files that cannot be removed the next
// time.
func (l *Log) removeSegments(oldest uint32) error {
	var errs []error
	dropped := l.dropSegments(oldest)
	for i, s := range dropped {
		name := fileName(oldest - uint32(len(dropped)-i))
		if err := l.recycle(name, s); err != nil {
			errs = append(errs, err)
		}
	}
	if len(dropped)+len(l.garbage) == 0 {
		return nil
	}
	errs = append(errs, l.sweep()...)
	if err := l.syncNames(); err != nil {
		errs = append(errs, l.fail(err))
	}
	return joined(errs)
}

// dropSegments removes the segments below oldest from memory and returns them.
func (l *Log) dropSegments(oldest uint32) []segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := oldest - l.oldest
	dropped := l.segments[:n]
	l.segments, l.oldest = l.segments[n:], oldest
	return dropped
}

// sweep removes files that are no longer needed.
func (l *Log) sweep() (errs []error) {
	l.garbage = slices.DeleteFunc(l.garbage, func(name string) bool {
		path := l.fs.PathJoin(l.dir, name)
		err := l.fs.Remove(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return true
		}
		errs = append(errs, fmt.Errorf("ual: remove %s: %w", path, err))
		return false
	})
	return errs
}
