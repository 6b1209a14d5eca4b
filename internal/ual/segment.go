package ual

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	fileSuffix = ".ual"

	// writeCategory is the label under which the disk writes are counted by file systems that do so.
	writeCategory = vfs.DiskWriteCategory("floe-ual")
)

func fileName(number uint32) string {
	return fmt.Sprintf("%08d%s", number, fileSuffix)
}

func (l *Log) path(number uint32) string {
	return l.fs.PathJoin(l.dir, fileName(number))
}

// listSegments returns the numbers of the segment files in the directory, ascending. Other files are not ours.
func (l *Log) listSegments() ([]uint32, error) {
	names, err := l.fs.List(l.dir)
	if err != nil {
		return nil, fmt.Errorf("ual: list %s: %w", l.dir, err)
	}
	var numbers []uint32
	for _, name := range names {
		if n, ok := parseFileName(name); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
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

// makeRoom prepares the tail for n more bytes, in a new segment if they do not fit. Called with writeMu held.
func (l *Log) makeRoom(n int64) error {
	t := &l.tail
	if t.file != nil && !t.sealed && (t.end+n <= l.segmentSize || t.end == t.head) {
		return nil
	}
	return l.startSegment()
}

// startSegment makes a new segment the tail. When it fails the old one stays sealed: a start record that names its end may
// already be in the file of the new one, so nothing can be added there any more. The next attempt begins the new one afresh.
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
	l.encodeHead(old.number + 1)
	file, err := l.createSegment(old.number + 1)
	if err != nil {
		return err
	}
	l.setTail(tail{number: old.number + 1, file: file, head: int64(len(l.buf))})
	if old.number == 0 {
		return nil
	}
	return l.retire(old)
}

// encodeHead fills l.buf with the start record and the checkpoint of a segment.
func (l *Log) encodeHead(number uint32) {
	l.beginRecords()
	states := l.knownShards()
	info := startInfo{
		version: formatVersion,
		oldest:  l.oldest,
		prevEnd: l.tail.end,
		head:    recordSize(startSize) + int64(len(states))*recordSize(checkpointSize),
	}
	l.buf = appendHeader(l.buf, header{segment: number, kind: kindStart})
	l.buf = appendStart(l.buf, info)
	l.buf = sealRecord(l.buf, 0, 0)
	for _, s := range states {
		begin := len(l.buf)
		h := header{segment: number, shard: s.id, kind: kindState, term: s.compacted.Term, index: s.compacted.Index}
		l.buf = appendHeader(l.buf, h)
		l.buf = appendCheckpoint(l.buf, checkpoint{hard: s.hard, reserved: s.reserved, last: s.lastIndex()})
		l.buf = sealRecord(l.buf, begin, int64(begin))
	}
}

// knownShards returns the shards that have any record, ordered by id.
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

// createSegment writes a new segment that holds l.buf, and makes it and its name durable.
func (l *Log) createSegment(number uint32) (vfs.File, error) {
	path := l.path(number)
	file, err := l.fs.Create(path, writeCategory)
	if err != nil {
		return nil, fmt.Errorf("ual: create %s: %w", path, err)
	}
	if err := writeAll(file, l.buf); err != nil {
		return nil, closeAfter(file, fmt.Errorf("ual: write start of %s: %w", path, err))
	}
	if err := file.SyncData(); err != nil {
		return nil, closeAfter(file, l.fail(fmt.Errorf("ual: sync %s: %w", path, err)))
	}
	if err := l.syncDir(l.dir); err != nil {
		return nil, closeAfter(file, l.fail(err))
	}
	return file, nil
}

// setTail makes t, a durable head, the tail.
func (l *Log) setTail(t tail) {
	t.end, t.synced = t.head, t.head
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = t
	l.sizes = append(l.sizes, t.head)
}

// retire closes the segment before the tail and adds the next record to it, which makes the loss of the tail's file
// visible. The record lies beyond the end that the tail's start record gives, so it changes nothing else, and a log without it
// is complete: it is not synced, and failing to write it is no error.
func (l *Log) retire(old tail) error {
	if old.file != nil {
		if err := old.file.Close(); err != nil {
			return fmt.Errorf("ual: close %s: %w", l.path(old.number), err)
		}
	}
	file, err := l.fs.OpenReadWrite(l.path(old.number), writeCategory)
	if err != nil {
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil
	}
	off := align(info.Size())
	b := appendHeader(nil, header{segment: old.number, kind: kindNext, index: uint64(old.number + 1), synced: uint64(old.end)})
	_, _ = file.WriteAt(sealRecord(b, 0, off), off)
	return nil
}

// removeSegments drops the segments below oldest, which is durably recorded, from memory and disk. Files that can not be
// removed are tried again the next time.
func (l *Log) removeSegments(oldest uint32) error {
	l.mu.Lock()
	for l.oldest < oldest {
		l.garbage = append(l.garbage, l.oldest)
		l.sizes = l.sizes[1:]
		l.oldest++
	}
	l.mu.Unlock()
	if len(l.garbage) == 0 {
		return nil
	}
	var errs []error
	l.garbage = slices.DeleteFunc(l.garbage, func(n uint32) bool {
		err := l.fs.Remove(l.path(n))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return true
		}
		errs = append(errs, fmt.Errorf("ual: remove %s: %w", l.path(n), err))
		return false
	})
	if err := l.syncDir(l.dir); err != nil {
		errs = append(errs, l.fail(err))
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
