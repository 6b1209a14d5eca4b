package raftlog

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// scanBuffer is the memory for reading a segment, regardless of the size of its records.
const scanBuffer = 256 << 10

// scanner reads the records of a segment in order and stops at the first bad one. Records of an
// earlier use of the file are bad, and so are bytes not written yet.
type scanner struct {
	file   vfs.File
	path   string
	number uint32
	mark   uint32 // of the log; 0 while unknown, which accepts any
	limit  int64  // where the records end

	r    *bufio.Reader
	next int64 // offset of the next record

	// The current record.
	offset int64
	header header
	data   []byte // its data if that is short, as it is in every kind but entries

	bad string // why there is no valid record at next
}

// shortData is the most data a scanner returns: more than the largest of the fixed layouts.
const shortData = 64

// blank is the reason for zeros, which were written ahead and are not used yet.
const blank = "no record was written"

func (l *Log) newScanner(file vfs.File, number uint32, limit int64) *scanner {
	s := &scanner{file: file, path: l.path(number), number: number, mark: l.mark, limit: limit, data: make([]byte, 0, shortData)}
	s.r = bufio.NewReaderSize(nil, int(max(headerSize, min(scanBuffer, limit))))
	s.seek(0)
	return s
}

func (s *scanner) seek(off int64) {
	s.next = off
	s.bad = ""
	s.r.Reset(io.NewSectionReader(s.file, off, max(0, s.limit-off)))
}

// scan moves to the next record and reports whether it exists. If it does not, bad is the reason,
// or empty at the limit.
//
// Errors: those of the file, ErrNewer for a valid record of unknown kind.
func (s *scanner) scan() (bool, error) {
	left := s.limit - s.next
	if left == 0 {
		return false, nil
	}
	if left < headerSize {
		s.bad = fmt.Sprintf("%d bytes are too few for a record", left)
		return false, nil
	}
	b, err := s.r.Peek(headerSize)
	if err != nil {
		return false, s.readError(err)
	}
	h, sum := parseHeader(b)
	if h == (header{}) && sum == 0 {
		s.bad = blank
		return false, nil
	}
	if s.mark != 0 && h.mark != s.mark {
		s.bad = "record does not bear the mark of the log"
		return false, nil
	}
	size := recordSize(int(h.length))
	if h.length > maxData || size > left {
		s.bad = fmt.Sprintf("record with %d bytes of data does not fit before the end at %d", h.length, s.limit)
		return false, nil
	}
	crc := crc32.Checksum(b[4:], castagnoli)
	crc, err = s.scanData(h, crc)
	if err != nil {
		return false, err
	}
	if finishChecksum(crc, place(s.number, s.next)) != sum {
		if s.next == 0 && h.kind == kindStart && finishChecksum(crc, 0) == sum {
			// Version 1 had the segment's number instead of the mark, so its checksums covered only
			// the offset.
			return false, fmt.Errorf("ual: %s: format version 1 is no longer read, this version knows %d", s.path, formatVersion)
		}
		s.bad = "checksum does not match"
		return false, nil
	}
	return s.accept(h)
}

// scanData skips a record and returns the checksum crc continued with its data.
func (s *scanner) scanData(h header, crc uint32) (uint32, error) {
	size := recordSize(int(h.length))
	_, err := s.r.Discard(headerSize)
	s.data = s.data[:0]
	for left := int(h.length); left > 0 && err == nil; {
		var b []byte
		b, err = s.r.Peek(min(left, s.r.Size()))
		crc = crc32.Update(crc, castagnoli, b)
		if h.length <= shortData {
			s.data = append(s.data, b...)
		}
		left -= len(b)
		if err == nil {
			_, err = s.r.Discard(len(b))
		}
	}
	if err == nil {
		_, err = s.r.Discard(int(size) - headerSize - int(h.length))
	}
	if err != nil {
		return 0, s.readError(err)
	}
	return crc, nil
}

// accept processes a record whose checksum is right.
func (s *scanner) accept(h header) (bool, error) {
	if h.kind == 0 || h.kind > kindMax {
		return false, fmt.Errorf("ual: %s: offset %d: record of kind %d: %w", s.path, s.next, h.kind, ErrNewer)
	}
	s.header = h
	s.offset = s.next
	s.next += recordSize(int(h.length))
	return true, nil
}

func (s *scanner) readError(err error) error {
	return fmt.Errorf("ual: read %s at offset %d: %w", s.path, s.next, err)
}

// corrupt describes the bad record at which the scanner has stopped.
func (s *scanner) corrupt() error {
	reason := s.bad
	if reason == "" {
		reason = "segment ends too early"
	}
	return &CorruptionError{File: s.path, Offset: s.next, Reason: reason}
}

// trail describes the bytes after a segment's valid records.
type trail struct {
	torn   bool // records of this segment
	proof  bool // one of them proves that the first bad record was durable
	record header
}

// lookAhead searches for a valid record after the bad one at which s has stopped that proves
// corruption. Such a record shows that the bad one was durable before it was written, or that the
// segment has a successor. Without such proof the tail is torn.
//
// It tries every aligned offset, because the length of the bad record cannot be trusted. It reads
// each record that has the mark. Only records of this or an earlier use of the file have it, so no
// byte is read twice.
func (s *scanner) lookAhead() (t trail, err error) {
	bad := s.next
	window := make([]byte, min(scanBuffer, s.limit-bad))
	for base := bad + alignment; base+headerSize <= s.limit; base += scanBuffer - headerSize {
		b := window[:min(scanBuffer, s.limit-base)]
		if _, err := s.file.ReadAt(b, base); err != nil && err != io.EOF {
			return t, fmt.Errorf("ual: read %s at offset %d: %w", s.path, base, err)
		}
		for i := 0; i+headerSize <= len(b); i += alignment {
			mark := le.Uint32(b[i+8:])
			if mark == 0 || s.mark != 0 && mark != s.mark {
				continue
			}
			h, ok, err := s.recordAt(base+int64(i), b[i:])
			if err != nil {
				return t, err
			}
			t.torn = t.torn || ok
			if ok && h.proves(bad) {
				t.proof, t.record = true, h
				return t, nil
			}
		}
	}
	return t, nil
}

// recordAt returns the header of the valid record at off, if any. b is at least the beginning of
// the file's content there.
func (s *scanner) recordAt(off int64, b []byte) (h header, ok bool, err error) {
	h, sum := parseHeader(b)
	if h.length <= maxData && recordSize(int(h.length)) <= int64(len(b)) {
		crc := crc32.Checksum(b[4:headerSize+h.length], castagnoli)
		if finishChecksum(crc, place(s.number, off)) != sum {
			return h, false, nil
		}
	}
	probe := *s
	probe.r = bufio.NewReaderSize(nil, int(min(scanBuffer, max(headerSize, recordSize(int(min(h.length, maxData)))))))
	probe.data = make([]byte, 0, shortData)
	probe.seek(off)
	ok, err = probe.scan()
	return probe.header, ok, err
}

// proves reports whether a record with this header shows that the one at offset bad was once
// durable.
func (h header) proves(bad int64) bool {
	return h.synced > uint64(bad) || h.kind == kindNext
}
