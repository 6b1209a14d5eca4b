package check

import (
	"fmt"
	"sync"

	"github.com/floedb/floe/stream"
)

// Stream records the appends of writers to a stream, and what readers may see of it. They must see
// every acknowledged record, at the ID, offset and LSN reported to its writer, and nothing that was
// never written. In each partition the records are in order of ID, and all readers see the same.
// It is safe for concurrent use.
//
// Payloads must be unique, so that a record of unknown outcome can be recognised.
type Stream struct {
	mu      sync.Mutex // guards what follows
	written map[string]bool
	acked   map[string]stream.Appended // by payload
	seen    map[recordPosition]string  // payload of each record that a reader has seen
	seenAt  map[string]recordPosition
	removed map[int]uint64 // offset in each partition before which records may have been removed
}

type recordPosition struct {
	partition int
	offset    uint64
}

// NewStream returns a Stream without appends.
func NewStream() *Stream {
	return &Stream{
		written: make(map[string]bool), acked: make(map[string]stream.Appended), seen: make(map[recordPosition]string),
		seenAt:  make(map[string]recordPosition),
		removed: make(map[int]uint64),
	}
}

// Possible notes a message that is about to be appended: readers may see it, once.
func (s *Stream) Possible(msg stream.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[string(msg.Payload)] = true
}

// Appended notes the result of a message's append.
func (s *Stream) Appended(msg stream.Message, a stream.Appended) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[string(msg.Payload)] = true
	s.acked[string(msg.Payload)] = a
}

// Removed notes that records of a partition before an offset may have been removed, by a trim or by
// retention.
func (s *Stream) Removed(partition int, before uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed[partition] = max(s.removed[partition], before)
}

// Acked returns the number of acknowledged messages.
func (s *Stream) Acked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acked)
}

// Check returns an error if the records seen by one reader, from the beginning of all partitions,
// are impossible. complete means that the reader started after all acknowledgements, so that it
// must have seen all those records.
func (s *Stream) Check(recs []stream.Record, complete bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := make(map[int]*stream.Record)
	for i := range recs {
		rec := &recs[i]
		if err := s.followsLocked(before[rec.Partition], rec); err != nil {
			return err
		}
		if err := s.knownLocked(rec); err != nil {
			return err
		}
		before[rec.Partition] = rec
	}
	if !complete {
		return nil
	}
	for payload, a := range s.acked {
		last := before[a.Partition]
		if a.Offset >= s.removed[a.Partition] && (last == nil || last.Offset < a.Offset) {
			return fmt.Errorf("%q was appended as %+v, and the reader has come no further than %s", payload, a, describeRecord(last))
		}
	}
	return nil
}

// followsLocked checks a record against the previous one of its partition that the reader has seen.
func (s *Stream) followsLocked(before, rec *stream.Record) error {
	next := uint64(1)
	if before != nil {
		next = before.Offset + 1
	}
	switch {
	case before != nil && rec.ID.Compare(before.ID) <= 0:
		return fmt.Errorf("read %s behind %s", describeRecord(rec), describeRecord(before))
	case before != nil && rec.LSN < before.LSN:
		return fmt.Errorf("read %s of LSN %d behind %s of LSN %d", describeRecord(rec), rec.LSN, describeRecord(before), before.LSN)
	case rec.Offset < next || rec.Offset > next && rec.Offset > s.removed[rec.Partition]:
		return fmt.Errorf("read %s behind %s, and what is between is missing", describeRecord(rec), describeRecord(before))
	}
	return nil
}

// knownLocked checks a record against the result of its append, and against other readers.
func (s *Stream) knownLocked(rec *stream.Record) error {
	payload, at := string(rec.Payload), recordPosition{rec.Partition, rec.Offset}
	if !s.written[payload] {
		return fmt.Errorf("read %s, which nobody wrote", describeRecord(rec))
	}
	if a, ok := s.acked[payload]; ok && (a.ID != rec.ID || a.Partition != rec.Partition || a.Offset != rec.Offset || a.LSN != rec.LSN) {
		return fmt.Errorf("read %s of LSN %d, which was appended as %+v", describeRecord(rec), rec.LSN, a)
	}
	if other, ok := s.seen[at]; ok && other != payload {
		return fmt.Errorf("read %s, where another reader has seen %q", describeRecord(rec), other)
	}
	if other, ok := s.seenAt[payload]; ok && other != at {
		return fmt.Errorf("read %s, which was at offset %d of partition %d before", describeRecord(rec), other.offset, other.partition)
	}
	s.seen[at], s.seenAt[payload] = payload, at
	return nil
}

func describeRecord(rec *stream.Record) string {
	if rec == nil {
		return "nothing"
	}
	return fmt.Sprintf("%q at offset %d of partition %d with id %v", rec.Payload, rec.Offset, rec.Partition, rec.ID)
}
