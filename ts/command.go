package ts

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points"
)

// Kinds of commands; the numbers are part of the log.
const (
	kindWrite uint8 = iota + 1
	kindDelete
	kindDeleteSeries
	kindSetRetention
	kindSetLimit
	kindAdoptRetention
	kindAdoptLimit
	kindSeal
	kindRewrite
	kindForget
	kindRollup
	kindRetire
	kindSettle
	kindAnnounce
	kindCount
	kindWithdraw
	kindDeleteRange
)

// Bounds of what one command holds.
const (
	maxSections   = 1000    // measurements of a write
	maxNewSeries  = 1000    // series that a write defines, of all measurements
	maxBatch      = 1 << 16 // points of a write
	maxBlockBytes = 1 << 20 // of the points of one block
	// maxSpread bounds what one block is sealed into: partitions times fields.
	maxPartitions = 1024
	maxSpread     = 4096
	maxDeletes    = 1000    // series of one command that deletes or retires
	maxSealBytes  = 1 << 20 // of the pages of one command of a duty
)

// section is what a write holds of one measurement:
//
//	name | incarnation uvarint | fields: number uvarint, (name, type u8) ... | known: points | fresh: points
//	known = present u8 | ids, see readIDs | XXH64 of their fingerprints u64 (uvarint) | span | length uvarint, points
//	fresh = number of definitions uvarint | tags ... | span | length uvarint, points
//
// Points are encoded by package points; a series is its place in ids or among the definitions, a field its place in fields.
type section struct {
	name   string
	inc    incarnation // as the sender knows it, 0: not at all
	fields []field
	known  known
	fresh  fresh
}

// known are points of series that the sender knows the numbers of.
type known struct {
	ids    []seriesID
	prints uint64
	span   span
	points []byte
}

// fresh are points of series that the sender defines: those that exist are found by their tags.
type fresh struct {
	tags   []tagList
	span   span
	points []byte
}

// writeCommand is the body of a write:
//
//	flags u8 | number of sections uvarint | sections
type writeCommand struct {
	spread   bool // the points are those that belong into this shard of a spread namespace
	atomic   bool // all is written or nothing: of a transaction
	sections []section
}

const (
	flagSpread = 1 << iota
	flagAtomic
)

func (w *writeCommand) encode(dst []byte) []byte {
	flags := byte(0)
	if w.spread {
		flags |= flagSpread
	}
	if w.atomic {
		flags |= flagAtomic
	}
	dst = codec.AppendUvarint(append(dst, flags), uint64(len(w.sections)))
	for i := range w.sections {
		dst = w.sections[i].encode(dst)
	}
	return dst
}

func (s *section) encode(dst []byte) []byte {
	dst = codec.AppendUvarint(codec.AppendString(dst, s.name), uint64(s.inc))
	dst = codec.AppendUvarint(dst, uint64(len(s.fields)))
	for _, f := range s.fields {
		dst = append(codec.AppendString(dst, f.name), byte(f.kind))
	}
	dst = codec.AppendBool(dst, len(s.known.ids) > 0)
	if k := &s.known; len(k.ids) > 0 {
		dst = appendIDs(dst, k.ids)
		dst = codec.AppendUvarint(dst, k.prints)
		dst = codec.AppendBytes(k.span.encode(dst), k.points)
	}
	f := &s.fresh
	dst = codec.AppendUvarint(dst, uint64(len(f.tags)))
	if len(f.tags) == 0 {
		return dst
	}
	for i := range f.tags {
		dst = encode(dst, &f.tags[i], (*tagList).code)
	}
	return codec.AppendBytes(f.span.encode(dst), f.points)
}

func appendIDs(dst []byte, ids []seriesID) []byte {
	dst = codec.AppendUvarint(dst, uint64(len(ids)))
	last := int64(-1)
	for _, id := range ids {
		dst = codec.AppendVarint(dst, int64(id)-last-1)
		last = int64(id)
	}
	return dst
}

func (s span) encode(dst []byte) []byte {
	return codec.AppendVarint(codec.AppendVarint(codec.AppendVarint(dst, s.points), s.oldest), s.newest)
}

func readSpan(r *codec.Reader) span { return span{r.Varint(), r.Varint(), r.Varint()} }

func (s span) check() error {
	if s.points < 1 || s.points > maxBatch || s.oldest > s.newest || s.oldest < points.MinTime || s.newest > points.MaxTime {
		return engine.Errorf(ErrInvalid, "ts: %d points from %d to %d", s.points, s.oldest, s.newest)
	}
	return nil
}

// decodeWrite reads the body of a write, and checks what Apply relies on: sizes, and names. What the points hold is not looked at. Bytes alias body.
func decodeWrite(body []byte) (w writeCommand, err error) {
	r := codec.NewReader(body)
	flags, n := r.Byte(), r.Uvarint()
	if flags > flagSpread|flagAtomic || n > maxSections || n < 1 {
		return w, engine.Errorf(ErrInvalid, "ts: write of %d measurements with flags %d", n, flags)
	}
	w.spread, w.atomic = flags&flagSpread != 0, flags&flagAtomic != 0
	w.sections = make([]section, 0, n)
	defined := 0
	for range n {
		s, err := readSection(&r)
		if err != nil {
			return w, err
		}
		if defined += len(s.fresh.tags); defined > maxNewSeries {
			return w, engine.Errorf(ErrInvalid, "ts: write defines more than %d series", maxNewSeries)
		}
		w.sections = append(w.sections, s)
	}
	if err := r.Done(); err != nil {
		return w, engine.Errorf(engine.ErrMalformed, "ts: write: %v", err)
	}
	return w, nil
}

func readSection(r *codec.Reader) (s section, err error) {
	s.name, s.inc = r.String(), incarnation(r.Uvarint())
	n := r.Uvarint()
	if r.Err() == nil && (n < 1 || n > MaxFields) {
		return s, engine.Errorf(ErrInvalid, "measurement %q: %d fields, the limits are 1-%d", s.name, n, MaxFields)
	}
	for range min(n, uint64(r.Len())) {
		s.fields = append(s.fields, field{r.String(), FieldType(r.Byte())})
	}
	if r.Bool() {
		if s.known.ids, err = readIDs(r); err != nil {
			return s, engine.Errorf(engine.ErrMalformed, "ts: write: %v", err)
		}
		s.known.prints, s.known.span, s.known.points = r.Uvarint(), readSpan(r), r.Bytes()
	}
	if n = r.Uvarint(); n > maxNewSeries {
		return s, engine.Errorf(ErrInvalid, "ts: write defines more than %d series", maxNewSeries)
	}
	for range n {
		s.fresh.tags = append(s.fresh.tags, readTags(r))
	}
	if n > 0 {
		s.fresh.span, s.fresh.points = readSpan(r), r.Bytes()
	}
	if err := r.Err(); err != nil {
		return s, engine.Errorf(engine.ErrMalformed, "ts: write: %v", err)
	}
	return s, s.check()
}

// readTags reads what tagList.code codes; what it must not be is for check.
func readTags(r *codec.Reader) (l tagList) {
	n := r.Uvarint()
	for range min(n, uint64(r.Len())) {
		l = append(l, tag{r.String(), r.String()})
	}
	return l
}

// check looks at everything but the points themselves.
func (s *section) check() error {
	if err := checkMeasurement(s.name); err != nil {
		return err
	}
	for i, f := range s.fields {
		if err := checkField(f.name); err != nil {
			return err
		}
		if f.kind < Float || f.kind > Boolean {
			return engine.Errorf(ErrInvalid, "ts: field %q of unknown type %d", f.name, f.kind)
		}
		for _, other := range s.fields[:i] {
			if len(s.fields) <= 64 && other.name == f.name {
				return engine.Errorf(ErrInvalid, "ts: field %q is there twice", f.name)
			}
		}
	}
	if len(s.known.ids) == 0 && len(s.fresh.tags) == 0 {
		return engine.Errorf(ErrInvalid, "measurement %q: a write without points", s.name)
	}
	if len(s.known.ids) > 0 {
		if err := checkPart(s.known.span, s.known.points); err != nil {
			return err
		}
	}
	if len(s.fresh.tags) == 0 {
		return nil
	}
	for _, l := range s.fresh.tags {
		if err := l.check(); err != nil {
			return err
		}
	}
	return checkPart(s.fresh.span, s.fresh.points)
}

func checkPart(s span, encoded []byte) error {
	if len(encoded) > maxBlockBytes {
		return engine.Errorf(ErrInvalid, "ts: block of %d bytes exceeds %d", len(encoded), maxBlockBytes)
	}
	return s.check()
}

// check returns ErrInvalid for tags that no series can have.
func (l tagList) check() error {
	if len(l) > MaxTags {
		return engine.Errorf(ErrInvalid, "ts: %d tags exceed %d", len(l), MaxTags)
	}
	for i, t := range l {
		if err := checkTag(t.name, t.value); err != nil {
			return err
		}
		if i > 0 && l[i-1].name >= t.name {
			return engine.Errorf(ErrInvalid, "ts: tag %q is not in order", t.name)
		}
	}
	return nil
}

// sumPrints is what a write carries of the fingerprints of its series.
func sumPrints(prints []uint64) uint64 {
	b := make([]byte, 0, 8*len(prints))
	for _, p := range prints {
		b = binary.LittleEndian.AppendUint64(b, p)
	}
	return xxhash.Sum64(b)
}

// routeOf returns what a series is routed by in a spread namespace.
func routeOf(measurement string, tags tagList) string {
	b := []byte(measurement)
	for _, t := range tags {
		b = append(append(append(append(b, ','), t.name...), '='), t.value...)
	}
	return string(b)
}

// outcome is what became of one part of a section.
type outcome struct {
	code outcomeCode
	// bounds of times, of outOfTime; room, wanted and the worst tag, of noRoom.
	oldest, newest int64
	limit          LimitError
	field          string // of tooManyFields
	ids            []seriesID
}

// outcomeCode says whether a part was written, and why not.
type outcomeCode byte

const (
	written       outcomeCode = iota
	stale                     // numbers of series are not those that the shard has: send definitions
	outOfTime                 // there are points that are too old, or too far in the future
	noRoom                    // for new series
	tooManyFields             // the measurement would have
	tooMuch                   // is not sealed yet
	maxOutcome    = tooMuch
)

func (o *outcome) code2(c *codec.Coder) {
	c.Byte((*byte)(&o.code))
	switch o.code {
	case outOfTime:
		c.Varint(&o.oldest)
		c.Varint(&o.newest)
	case noRoom:
		codeLimit(c, &o.limit)
	case tooManyFields:
		c.String(&o.field)
	case written:
		codec.List(c, &o.ids, func(c *codec.Coder, id *seriesID) { c.Uint32((*uint32)(id)) })
	}
	if o.code > maxOutcome {
		c.Fail("unknown outcome")
	}
}

// sectionResult is what became of a section.
type sectionResult struct {
	inc          incarnation
	known, fresh outcome // of fresh that was written: the numbers of the series it defines
}

func (s *sectionResult) code(c *codec.Coder) {
	c.Uvarint((*uint64)(&s.inc))
	s.known.code2(c)
	s.fresh.code2(c)
}

func encodeResults(all []sectionResult) []byte {
	c := codec.NewEncoder(nil)
	codec.List(&c, &all, func(c *codec.Coder, s *sectionResult) { s.code(c) })
	return c.Encoded()
}

func decodeResults(b []byte) (all []sectionResult, err error) {
	c := codec.NewDecoder(b)
	codec.List(&c, &all, func(c *codec.Coder, s *sectionResult) { s.code(c) })
	if err := c.Done(); err != nil {
		return nil, fmt.Errorf("ts: result of a write: %w", err)
	}
	return all, nil
}

const errorLimit uint8 = 1

func codeLimit(c *codec.Coder, e *LimitError) {
	c.String(&e.Namespace)
	c.Varint(&e.Limit)
	c.Varint(&e.Room)
	c.Varint(&e.Wanted)
	c.String(&e.Tag)
	c.Varint(&e.Values)
	c.Bool(&e.Spread)
}
