package stream

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Retention limits the records that a stream keeps. 0 means no limit.
type Retention struct {
	MaxAge time.Duration // maximum age of a record, enforced within max(1 s, 1 % of MaxAge)
	MaxLen int64         // maximum number of records per partition
	// MaxBytes is the maximum size of a partition, as PartitionStats.Bytes counts it. The oldest
	// records are removed first. The newest record is always kept.
	MaxBytes int64
}

// String returns the policy in words, such as "7d, 10000 records", or "∞" without limits.
func (r Retention) String() string {
	var bounds []string
	if r.MaxAge > 0 {
		bounds = append(bounds, shortDuration(r.MaxAge))
	}
	if r.MaxLen > 0 {
		bounds = append(bounds, fmt.Sprintf("%d records", r.MaxLen))
	}
	if r.MaxBytes > 0 {
		bounds = append(bounds, fmt.Sprintf("%d bytes", r.MaxBytes))
	}
	if len(bounds) == 0 {
		return "∞"
	}
	return strings.Join(bounds, ", ")
}

// shortDuration formats whole days, hours, minutes or seconds with one unit: 7d, 36h.
func shortDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return d.String()
}

// Removing records moves the partition's first offset, so they disappear at once. Their rows are
// deleted later, as a range, once there are enough of them. The cost of a range does not depend on
// its size, and it slows down every read that crosses it.
const (
	sweepRecords = 1024
	sweepBytes   = 1 << 20
)

// minAgeStep is the minimum interval between two searches for records that are too old, ms.
const minAgeStep = 1000

// shorten removes the records beyond the stream's maximum length and bytes.
func (m *machine) shorten(tx *engine.Tx, st *stream, p int) {
	if first := m.bound(tx, st, p); first > st.parts[p].first {
		m.advance(tx, st, p, first)
	}
}

// bound returns the first offset that a partition may keep by its length and bytes.
func (m *machine) bound(tx *engine.Tx, st *stream, p int) uint64 {
	part, keep := &st.parts[p], &st.policy
	first := part.first
	if keep.maxLen > 0 && part.records() > keep.maxLen {
		first = part.last + 1 - keep.maxLen
	}
	if keep.maxBytes > 0 && part.records() > 0 {
		first = min(m.lightest(tx, st, p, first, keep.maxBytes), part.last)
	}
	return first
}

// lightest returns the first offset, starting at from, at which the rest of a partition has at most
// maxBytes bytes. If no offset qualifies, it returns the one after the last record. An append
// removes about as much as it adds, so the offset is close to from. The search uses steps that
// double.
func (m *machine) lightest(tx *engine.Tx, st *stream, p int, from, maxBytes uint64) uint64 {
	part, get := &st.parts[p], getterOf(tx)
	if part.bytes <= maxBytes {
		return from
	}
	fits := func(offset uint64) bool {
		return offset > part.last || part.bytes-must(storedAt(get, st.gen, p, offset)).before <= maxBytes
	}
	if fits(from) {
		return from
	}
	lo, hi := from, from+1 // lo does not fit
	for step := uint64(1); !fits(hi); step *= 2 {
		lo, hi = hi, min(hi+2*step, part.last+1)
	}
	for lo+1 < hi {
		if mid := lo + (hi-lo)/2; fits(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// advance moves the first offset of a partition and deletes rows when there are enough.
func (m *machine) advance(tx *engine.Tx, st *stream, p int, first uint64) {
	part := &st.parts[p]
	part.first = max(part.first, first)
	gone := part.first - part.kept
	if gone >= sweepRecords || gone > 0 && gone*(part.bytes/part.last) >= sweepBytes {
		m.sweep(tx, st, p)
	}
}

// sweep deletes the rows of the removed records.
func (m *machine) sweep(tx *engine.Tx, st *stream, p int) {
	part := &st.parts[p]
	if part.kept == part.first {
		return
	}
	part.edge = must(idAt(getterOf(tx), st.gen, p, part.first-1))
	tx.DeleteRange(recordKey(nil, st.gen, p, part.kept), recordKey(nil, st.gen, p, part.first))
	part.kept = part.first
}

// cut removes the records before an offset, and their rows, and saves the partition.
func (m *machine) cut(tx *engine.Tx, st *stream, p int, first uint64) {
	if first <= st.parts[p].first {
		return
	}
	st.parts[p].first = first
	m.sweep(tx, st, p)
	m.savePartition(tx, st, p)
}

// enforce applies a new policy.
func (m *machine) enforce(tx *engine.Tx, st *stream) {
	for p := range st.parts {
		m.cut(tx, st, p, m.bound(tx, st, p))
	}
	m.setTimer(tx, st, m.expireOld(tx, st))
}

// expireOld removes records that are too old and returns when to check again, 0 if never.
func (m *machine) expireOld(tx *engine.Tx, st *stream) (next int64) {
	age := st.policy.maxAge
	if age == 0 {
		return 0
	}
	get := getterOf(tx)
	for p := range st.parts {
		part := &st.parts[p]
		if part.records() == 0 {
			continue
		}
		if tx.Full() {
			return tx.Now()
		}
		oldest := must(idAt(get, st.gen, p, part.first)).Millis
		if oldest+age <= tx.Now() {
			m.cut(tx, st, p, must(offsetOf(get, st.gen, p, part.first, part.last, ID{Millis: tx.Now() - age + 1})))
			if part.records() == 0 {
				continue
			}
			oldest = must(idAt(get, st.gen, p, part.first)).Millis
		}
		if due := oldest + age; next == 0 || due < next {
			next = due
		}
	}
	if next == 0 {
		return 0
	}
	return max(next, tx.Now()+max(age/100, min(minAgeStep, age)))
}

// setTimer sets the due time of the retention timer, 0 for never. The caller saves the stream.
func (m *machine) setTimer(tx *engine.Tx, st *stream, due int64) {
	if due == st.timer {
		return
	}
	token := retentionToken(st.gen, st.name)
	if st.timer != 0 {
		tx.Unschedule(st.timer, token)
	}
	if st.timer = due; due != 0 {
		tx.Schedule(due, token)
	}
}

func retentionToken(gen uint64, name string) []byte {
	return append(key.AppendUint64([]byte{tokenRetention}, gen), name...)
}

func (m *machine) onRetention(tx *engine.Tx, token []byte) {
	gen, name := binary.BigEndian.Uint64(token), string(token[8:])
	st := m.load(tx, name)
	if st == nil || st.gen != gen || st.timer == 0 {
		return
	}
	if st.deleted() {
		tx.Delete(streamKey(nil, st.ns, st.name))
		m.streams.Remove(tx, st.streamName)
		return
	}
	m.touch(tx, st)
	st.timer = 0
	m.setTimer(tx, st, m.expireOld(tx, st))
	m.save(tx, st)
}

// trim applies a trim command. It returns the number of records removed.
func (s *session) trim(b *trimBody) (removed int64, err error) {
	if err := s.find(&b.target); err != nil {
		return 0, err
	}
	m, tx, st := s.m, s.tx, s.st
	m.touch(tx, st)
	for p := range st.parts {
		first := m.trimPoint(tx, st, p, b)
		if first <= st.parts[p].first {
			continue
		}
		removed += int64(first - st.parts[p].first)
		if !b.dryRun {
			m.cut(tx, st, p, first)
		}
	}
	return removed, nil
}

// trimPoint returns the first offset that a trim keeps.
func (m *machine) trimPoint(tx *engine.Tx, st *stream, p int, t *trimBody) uint64 {
	part, n := &st.parts[p], uint64(t.n)
	if part.records() == 0 {
		return part.first
	}
	switch t.bound {
	case trimToLen:
		if n < part.records() {
			return part.last + 1 - n
		}
		return part.first
	case trimToBytes:
		first := m.lightest(tx, st, p, part.first, n)
		if n > 0 {
			first = min(first, part.last) // the newest record is kept, however large it is
		}
		return first
	case trimToAge:
		oldest := ID{Millis: max(tx.Now()-t.n, 0)}
		return must(offsetOf(getterOf(tx), st.gen, p, part.first, part.last, oldest))
	}
	return must(offsetOf(getterOf(tx), st.gen, p, part.first, part.last, t.before))
}
