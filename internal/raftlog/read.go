package raftlog

import (
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

// readChunk is the largest span of records read with one system call, and so the memory of a read.
const readChunk = 512 << 10

// readEntries reads the entries at slots, whose indexes start at lo, into es. It opens files for
// each call, because this path is cold, and so that no open file prevents the removal of a segment.
func (s *Shard) readEntries(lo uint64, slots []slot, es []*raftpb.Entry) error {
	for i := 0; i < len(slots); {
		n := runInSegment(slots[i:])
		if err := s.readSegment(lo+uint64(i), slots[i:i+n], es[i:i+n]); err != nil {
			return err
		}
		i += n
	}
	return nil
}

// runInSegment returns how many of the first slots lie in the same segment.
func runInSegment(slots []slot) int {
	n := slices.IndexFunc(slots, func(sl slot) bool { return sl.segment != slots[0].segment })
	if n < 0 {
		return len(slots)
	}
	return n
}

func (s *Shard) readSegment(lo uint64, slots []slot, es []*raftpb.Entry) error {
	path := s.log.path(slots[0].segment)
	file, err := s.log.fs.Open(path)
	if err != nil {
		return fmt.Errorf("ual: open %s: %w", path, err)
	}
	defer file.Close()
	for i := 0; i < len(slots); {
		n := runInChunk(slots[i:])
		base, end := slots[i].offset, slots[i+n-1].end()
		b := make([]byte, end-base)
		if k, err := file.ReadAt(b, base); k < len(b) {
			return readError(path, base, int64(k), err)
		}
		for k := i; k < i+n; k++ {
			rec := b[slots[k].offset-base : slots[k].end()-base]
			if es[k], err = s.decodeEntry(lo+uint64(k), slots[k], rec); err != nil {
				return err
			}
		}
		i += n
	}
	return nil
}

// readError is the error of a read at offset base that got only n bytes.
func readError(path string, base, n int64, err error) error {
	if err == io.EOF {
		return &CorruptionError{File: path, Offset: base + n, Reason: "file ends in the middle of an entry"}
	}
	return fmt.Errorf("ual: read %s at offset %d: %w", path, base, err)
}

// runInChunk returns how many of the first slots, which are all in one segment, to read together.
func runInChunk(slots []slot) int {
	n := 1
	for n < len(slots) && slots[n].end()-slots[0].offset <= readChunk {
		n++
	}
	return n
}

func (sl slot) end() int64 {
	return sl.offset + recordSize(int(sl.length))
}

// decodeEntry verifies that b is the record of entry i and returns a copy of the entry.
func (s *Shard) decodeEntry(i uint64, sl slot, b []byte) (*raftpb.Entry, error) {
	h, sum := parseHeader(b)
	crc := crc32.Checksum(b[4:headerSize+int(sl.length)], castagnoli)
	got := header{length: h.length, mark: h.mark, shard: h.shard, kind: h.kind, term: h.term, index: h.index}
	want := header{length: sl.length, mark: s.log.mark, shard: s.id, kind: kindEntry, term: sl.term, index: i}
	switch {
	case got != want:
		return nil, s.misread(sl, fmt.Sprintf("record is not entry %d of shard %d", i, s.id))
	case finishChecksum(crc, place(sl.segment, sl.offset)) != sum:
		return nil, s.misread(sl, "checksum does not match")
	}
	e := &raftpb.Entry{Term: new(h.term), Index: new(i), Type: raftpb.EntryType(h.sub).Enum()}
	if sl.length > 0 {
		e.Data = slices.Clone(b[headerSize : headerSize+sl.length])
	}
	return e, nil
}

func (s *Shard) misread(sl slot, reason string) error {
	return &CorruptionError{File: s.log.path(sl.segment), Offset: sl.offset, Reason: reason}
}
