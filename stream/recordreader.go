package stream

import (
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// OpenStream implements protocol.StreamOpener.
func (m *machine) OpenStream(v *engine.View, namespace, name string) (*protocol.Stream, protocol.RecordReader, error) {
	w, err := viewOf(v, namespace, name)
	if err != nil || w == nil {
		return nil, nil, err
	}
	parts, err := w.all()
	if err != nil {
		return nil, nil, err
	}
	s := &protocol.Stream{ID: w.id, Partitions: make([]protocol.Partition, len(parts))}
	for i := range parts {
		p := &parts[i]
		s.Partitions[i] = protocol.Partition{Here: w.here(i), First: p.first, Last: p.last, LastID: protocol.RecordID(p.lastID)}
	}
	return s, &recordReader{m, w, parts}, nil
}

// recordReader is a protocol.RecordReader.
type recordReader struct {
	m     *machine
	w     *view
	parts []partition
}

// Read implements protocol.RecordReader.
func (r *recordReader) Read(partition int, from uint64, f func(*protocol.Record) bool) (err error) {
	p := &r.parts[partition]
	if from = max(from, p.first); from > p.last {
		return nil
	}
	it, err := r.w.v.Iter(recordKey(nil, r.w.gen, partition, from), recordKey(nil, r.w.gen, partition, p.last+1))
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := it.Close(); err == nil {
			err = closeErr
		}
	}()
	read := 0
	var copies chunks
	var out protocol.Record
	for ok := it.First(); ok; ok = it.Next() {
		s, err := decodeStored(it.Value())
		if err != nil {
			return err
		}
		s.message = copies.copy(s.message)
		rec, err := s.aliased(partition, offsetIn(it.Key()))
		if err != nil {
			return err
		}
		read++
		out = protocol.Record{ID: protocol.RecordID(rec.ID), Offset: rec.Offset, LSN: rec.LSN, Key: rec.Key, Headers: rec.Headers,
			Payload: rec.Payload}
		if !f(&out) {
			break
		}
	}
	r.m.countReads(r.w.gen, read)
	return nil
}

// chunks copies bytes into memory allocated in parts of growing size. A reader of one record
// allocates what it needs; a reader of thousands does not allocate for each.
type chunks struct {
	rest []byte
	size int
}

// The sizes of parts.
const (
	minChunk = 1 << 10
	maxChunk = 64 << 10
)

func (c *chunks) copy(b []byte) []byte {
	if cap(c.rest)-len(c.rest) < len(b) {
		c.size = min(max(2*c.size, minChunk), maxChunk)
		c.rest = make([]byte, 0, max(c.size, len(b)))
	}
	at := len(c.rest)
	c.rest = append(c.rest, b...)
	return c.rest[at:len(c.rest):len(c.rest)]
}

// Find implements protocol.RecordReader.
func (r *recordReader) Find(partition int, behind func(*protocol.Record) bool) (uint64, error) {
	p := &r.parts[partition]
	lo, hi := p.first, p.last+1
	for lo < hi {
		mid := lo + (hi-lo)/2
		s, err := storedAt(r.w.v.Get, r.w.gen, partition, mid)
		if err != nil {
			return 0, err
		}
		if behind(&protocol.Record{ID: protocol.RecordID(s.id), Offset: mid, LSN: s.lsn}) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo, nil
}
