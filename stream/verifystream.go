package stream

import (
	"encoding/binary"
	"fmt"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// streamAudit is the state collected about a stream.
type streamAudit struct {
	*verifier
	header
	ns    uint32
	name  string
	parts []partition
	known []bool // partitions that have a row
}

func (s *streamAudit) problem(format string, args ...any) {
	s.Reportf("stream: namespace %s, stream %q: %s", s.verifier.name(s.ns), s.name, fmt.Sprintf(format, args...))
}

// row checks the stream's own row.
func (s *streamAudit) row() {
	namespace := ""
	if int(s.ns) < len(s.names) {
		namespace = s.names[s.ns]
	} else {
		s.problem("the shard has %d namespaces", len(s.names))
	}
	if err := engine.CheckName("stream", s.name); err != nil {
		s.problem("%v", err)
	}
	home := s.Here(namespace, s.name)
	if home && int(s.ns) < len(s.counted) {
		s.counted[s.ns]++
	}
	last := s.Applied
	switch {
	case s.id == 0:
		s.problem("has no id")
	case s.deleted() && (home || s.gen == 0 || s.header != header{spec: spec{id: s.id}, gen: s.gen, timer: s.header.timer}):
		s.problem("has an invalid row of a deleted stream: %+v", s.header)
	case s.deleted():
	case s.gen == 0 || s.gen > uint64(last.LSN):
		s.problem("was created at LSN %d, but the shard's last one is %d", s.gen, last.LSN)
	case home && s.dropped > 0:
		s.problem("has groups dropped at LSN %d, but is in its home shard", s.dropped)
	case home && s.id != s.gen:
		s.problem("was created at LSN %d but has id %d", s.gen, s.id)
	case s.createdAt > last.Stamp:
		s.problem("was created at %d, but the shard's stamp is %d", s.createdAt, last.Stamp)
	}
}

// readPartitions reads and checks the rows of the partitions.
func (s *streamAudit) readPartitions() error {
	s.parts, s.known = make([]partition, s.partitions), make([]bool, s.partitions)
	for p := range s.parts {
		s.parts[p] = noPartition
	}
	return s.each(genKey(nil, rowPart, s.gen), func(k, value []byte) {
		if len(k) != partAt+2 || int(binary.BigEndian.Uint16(k[partAt:])) >= s.partitions {
			s.problem("row %x belongs to none of its %d partitions", k, s.partitions)
			return
		}
		p := int(binary.BigEndian.Uint16(k[partAt:]))
		part, err := decodePartition(value)
		if err != nil {
			s.problem("partition %d: %v", p, err)
			return
		}
		s.parts[p], s.known[p] = part, true
		switch {
		case part.last == 0 || part.lastID.IsZero() || part.bytes == 0:
			s.problem("partition %d has a row but had no record: %+v", p, part)
		case part.edge.Compare(part.lastID) > 0 || part.edge.IsZero() != (part.kept == 1):
			s.problem("partition %d: the rows before offset %d end with id %v", p, part.kept, part.edge)
		case s.policy.maxLen > 0 && part.records() > s.policy.maxLen:
			s.problem("partition %d holds %d records, more than %d", p, part.records(), s.policy.maxLen)
		}
	})
}

// partAt is the position of the partition number in the keys of its rows.
const partAt = 9

// records checks that each partition has the records that its row states, in order.
func (s *streamAudit) records() error {
	at := &recordAudit{streamAudit: s, partition: -1}
	err := s.each(genKey(nil, rowRecord, s.gen), func(k, value []byte) {
		if len(k) != recordOffsetAt+8 {
			s.problem("row %x is not a record", k)
			return
		}
		at.row(int(binary.BigEndian.Uint16(k[partAt:])), offsetIn(k), value)
	})
	at.to(s.partitions)
	return err
}

// recordAudit is the position of a scan of a stream's records.
type recordAudit struct {
	*streamAudit
	partition int
	next      uint64 // offset
	id        ID     // of the record before
	lsn       uint64 // of the record before
	bytes     uint64 // of all records up to it; known unless it is the first
	counted   bool   // bytes is known
	broken    bool   // a problem of the partition has been reported: consequences are not
}

// to ends the current partition and moves to another one, at its first row that has not been
// deleted.
func (r *recordAudit) to(partition int) {
	for ; r.partition < partition; r.begin(r.partition + 1) {
		if r.partition < 0 || r.broken {
			continue
		}
		part := &r.parts[r.partition]
		switch {
		case r.next <= part.last:
			r.problem("partition %d ends at offset %d, its row says %d", r.partition, r.next-1, part.last)
		case r.id != part.lastID:
			r.problem("partition %d ends with id %v, its row says %v", r.partition, r.id, part.lastID)
		case r.counted && r.bytes != part.bytes:
			r.problem("partition %d ends after %d bytes, its row says %d", r.partition, r.bytes, part.bytes)
		}
	}
}

func (r *recordAudit) begin(partition int) {
	*r = recordAudit{streamAudit: r.streamAudit, partition: partition}
	if partition < r.partitions {
		part := &r.parts[partition]
		r.next, r.id, r.counted = part.kept, part.edge, part.kept == 1
	}
}

func (r *recordAudit) row(partition int, offset uint64, value []byte) {
	if partition >= r.partitions || !r.known[partition] {
		r.problem("has a record at offset %d of partition %d, which has no row", offset, partition)
		return
	}
	r.to(partition)
	if r.broken {
		return
	}
	part := &r.parts[partition]
	rec, err := decodeStored(value)
	if err == nil {
		_, err = rec.record(partition, offset)
	}
	r.broken = true
	switch last := r.Applied; {
	case err != nil:
		r.problem("offset %d of partition %d: %v", offset, partition, err)
	case offset < part.kept || offset > part.last:
		r.problem("has a record at offset %d of partition %d, which holds %d to %d", offset, partition, part.kept, part.last)
	case offset != r.next:
		r.problem("the record at offset %d of partition %d is missing", r.next, partition)
	case rec.id.Compare(r.id) <= 0 || rec.id.Seq%uint64(r.partitions) != uint64(partition):
		r.problem("offset %d of partition %d has id %v after id %v", offset, partition, rec.id, r.id)
	case rec.id.Millis > last.Stamp:
		r.problem("offset %d of partition %d has id %v, but the shard's stamp is %d", offset, partition, rec.id, last.Stamp)
	case offset == part.first && offset < part.last && r.policy.maxBytes > 0 && part.bytes-rec.before > r.policy.maxBytes:
		r.problem("partition %d holds %d bytes, more than %d", partition, part.bytes-rec.before, r.policy.maxBytes)
	case rec.lsn == 0 || rec.lsn < r.lsn || rec.lsn > uint64(last.LSN):
		r.problem("offset %d of partition %d has LSN %d after LSN %d; the shard's last one is %d", offset, partition, rec.lsn, r.lsn,
			last.LSN)
	case r.counted && rec.before != r.bytes:
		r.problem("offset %d of partition %d follows %d bytes, but its row says %d", offset, partition, r.bytes, rec.before)
	default:
		r.broken = false
	}
	r.next, r.id, r.lsn = offset+1, rec.id, rec.lsn
	r.bytes, r.counted = rec.before+uint64(len(rec.message)), true
}

// producers checks the rows of producers.
func (s *streamAudit) producers() error {
	prefix := genKey(nil, rowProducer, s.gen)
	return s.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		producer := string(k[len(prefix):])
		row, err := decodeProducer(value)
		if err == nil {
			err = engine.CheckName("producer", producer)
		}
		if err != nil {
			s.problem("producer %q: %v", producer, err)
			return nil
		}
		if row.used > s.Applied.Stamp {
			s.problem("producer %q appended at %d, but the shard's stamp is %d", producer, row.used, s.Applied.Stamp)
		}
		for i, a := range row.appends {
			if i > 0 && a.sequence >= row.appends[i-1].sequence {
				s.problem("producer %q: sequence number %d comes before %d", producer, a.sequence, row.appends[i-1].sequence)
			}
			s.appended(producer, a)
		}
		set, err := s.HasTimer(row.due, s.ns, producerToken(s.gen, producer))
		if err == nil && !set {
			s.problem("producer %q has no timer at %d", producer, row.due)
		}
		return err
	})
}

// appended checks the result that a producer's repeat would return.
func (s *streamAudit) appended(producer string, a producerAppend) {
	all, err := appendMessages.Decode(a.result)
	if err != nil {
		s.problem("producer %q, sequence number %d: %v", producer, a.sequence, err)
		return
	}
	for _, r := range all {
		if r.Partition >= s.partitions || r.Offset == 0 || r.Offset > s.parts[r.Partition].last || !r.Duplicate ||
			r.ID.Compare(s.parts[r.Partition].lastID) > 0 {
			s.problem("producer %q, sequence number %d: impossible record %+v", producer, a.sequence, r)
			return
		}
	}
}

// leftover checks that the row of a deleted stream is removed in time.
func (s *streamAudit) leftover() error {
	set, err := s.HasTimer(s.header.timer, s.ns, retentionToken(s.gen, s.name))
	if err == nil && (!set || s.header.timer > s.Applied.Stamp+rememberMillis) {
		s.problem("was deleted, but has no timer at %d for its remaining rows", s.header.timer)
	}
	return err
}

// timer checks that the retention timer is set if it is needed.
func (s *streamAudit) timer() error {
	records := uint64(0)
	for p := range s.parts {
		records += s.parts[p].records()
	}
	age := s.policy.maxAge
	if s.header.timer == 0 {
		if age > 0 && records > 0 {
			s.problem("holds %d records for %d ms, but has no timer", records, age)
		}
		return nil
	}
	if age == 0 {
		s.problem("has a timer at %d but keeps all records", s.header.timer)
	}
	set, err := s.HasTimer(s.header.timer, s.ns, retentionToken(s.gen, s.name))
	if err == nil && !set {
		s.problem("has no timer at %d", s.header.timer)
	}
	return err
}
