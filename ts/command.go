package ts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points"
	"github.com/floedb/floe/internal/rawjson"
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

// The commands of time series. When the disk is full, a node accepts those that free space.
var (
	write = &engine.CommandRow[*session, writeBody, writeResult]{
		Kind: kindWrite, Name: "write", From: engine.FromUsers | engine.FromShards | engine.FromMachines, Route: (*writeBody).route,
		Body: (*writeBody).code, Check: (*writeBody).check, Admit: (*writeBody).checkPoints, Reset: (*writeBody).reset,
		Size:  (*writeBody).size,
		Apply: (*session).write, Result: (*writeResult).code,
	}
	remove = &engine.CommandRow[*session, engine.Nothing, engine.Nothing]{
		Kind: kindDelete, Name: "delete measurement", From: engine.FromUsers, Shrinks: true,
		Run: func(s *session, _ *engine.Nothing) error { return s.deleteMeasurement() },
	}
	deleteSeries = &engine.CommandRow[*session, seriesBody, int64]{
		Kind: kindDeleteSeries, Name: "delete series", From: engine.FromUsers, Shrinks: true,
		Body: (*seriesBody).code, Apply: (*session).deleteSeries, Result: codeSeries,
	}
	setRetention = &engine.CommandRow[*session, policy, engine.Nothing]{
		Kind: kindSetRetention, Name: "set retention", From: engine.FromUsers, Body: (*policy).fields, Check: (*policy).check,
		Run: (*session).setRetention,
	}
	setLimit = &engine.CommandRow[*session, limitRow, engine.Nothing]{
		Kind: kindSetLimit, Name: "set limit", From: engine.FromUsers, Route: (*limitRow).route, Body: (*limitRow).fields,
		Run: (*session).setLimit,
	}
	adoptRetention = &engine.CommandRow[*session, policy, engine.Nothing]{
		Kind: kindAdoptRetention, Name: "adopt retention", From: engine.FromShards, Body: (*policy).fields, Run: (*session).adoptRetention,
	}
	adoptLimit = &engine.CommandRow[*session, limitRow, engine.Nothing]{
		Kind: kindAdoptLimit, Name: "adopt limit", From: engine.FromShards, Route: (*limitRow).route, Body: (*limitRow).fields,
		Run: (*session).adoptLimit,
	}
	seal = &engine.CommandRow[*session, sealBody, engine.Nothing]{
		Kind: kindSeal, Name: "seal", From: engine.FromLeaders, Body: (*sealBody).code, Run: (*session).seal,
	}
	rewrite = &engine.CommandRow[*session, rewriteBody, engine.Nothing]{
		Kind: kindRewrite, Name: "rewrite", From: engine.FromLeaders, Body: (*rewriteBody).code, Run: (*session).rewrite,
	}
	forget = &engine.CommandRow[*session, seriesBody, engine.Nothing]{
		Kind: kindForget, Name: "forget", From: engine.FromLeaders, Shrinks: true, Body: (*seriesBody).code, Run: (*session).forget,
	}
	rollup = &engine.CommandRow[*session, rollupBody, engine.Nothing]{
		Kind: kindRollup, Name: "rollup", From: engine.FromLeaders, Body: (*rollupBody).code, Run: (*session).rollup,
	}
	retire = &engine.CommandRow[*session, seriesBody, engine.Nothing]{
		Kind: kindRetire, Name: "retire", From: engine.FromLeaders, Shrinks: true, Body: (*seriesBody).code, Run: (*session).retire,
	}
	settle = &engine.CommandRow[*session, seriesBody, int64]{
		Kind: kindSettle, Name: "settle", From: engine.FromLeaders, Shrinks: true, Body: (*seriesBody).code, Apply: (*session).settle,
		Result: codeSeries,
	}
	announce = &engine.CommandRow[*session, announcement, engine.Nothing]{
		Kind: kindAnnounce, Name: "announce", From: engine.FromShards, Body: (*announcement).fields, Run: (*session).announced,
	}
	countAgain = &engine.CommandRow[*session, countBody, engine.Nothing]{
		Kind: kindCount, Name: "count", From: engine.FromLeaders, Shrinks: true, Body: (*countBody).code, Run: (*session).count,
	}
	withdraw = &engine.CommandRow[*session, announcement, engine.Nothing]{
		Kind: kindWithdraw, Name: "withdraw", From: engine.FromShards, Shrinks: true, Body: (*announcement).fields,
		Run: (*session).withdrawn,
	}
	deleteRange = &engine.CommandRow[*session, rangeBody, int64]{
		Kind: kindDeleteRange, Name: "delete range", From: engine.FromUsers, Shrinks: true,
		Body: (*rangeBody).code, Check: (*rangeBody).check, Apply: (*session).deleteRange, Result: codeSeries,
	}
)

var commands = engine.Declare(engine.MachineTS, "ts", checkMeasurement,
	write, remove, deleteSeries, setRetention, setLimit, adoptRetention, adoptLimit, seal, rewrite, forget, rollup, retire, settle,
	announce, countAgain, withdraw, deleteRange)

// codeSeries codes the number of series that a command deleted.
func codeSeries(n *int64, f *codec.Fields) { f.Count("series", n) }

// Limits of one command.
const (
	maxSections   = 1000    // measurements per write
	maxNewSeries  = 1000    // series defined by a write, over all measurements
	maxBatch      = 1 << 16 // points per write
	maxBlockBytes = 1 << 20 // points of one block
	// maxPartitions and maxSpread bound the result of sealing one block: its partitions, and its
	// partitions times fields.
	maxPartitions = 1024
	maxSpread     = 4096
	maxDeletes    = 1000    // series per command that deletes or retires
	maxSealBytes  = 1 << 20 // chunks per command of a duty
)

// section is the part of a write for one measurement:
//
//	name | incarnation uvarint | fields: number uvarint, (name, type u8) ... | known: points | fresh: points
//	known = present u8 | ids, see codeIDs | XXH64 of their fingerprints u64 (uvarint) | span | length uvarint, points
//	fresh = number of definitions uvarint | tags ... | span | length uvarint, points
//
// Points are encoded by package points. A series is identified by its index in ids or among the
// definitions, and a field by its index in fields.
type section struct {
	name   string
	inc    incarnation // as known by the sender, 0: unknown
	fields []field
	known  known
	fresh  fresh
}

// known are points of series whose numbers the sender has cached.
type known struct {
	ids    []seriesID
	prints uint64
	span   span
	points []byte
}

// fresh are points of series that the sender defines. The shard finds existing series by their
// tags.
type fresh struct {
	tags   []tagList
	span   span
	points []byte
}

// writeBody is a batch of points:
//
//	flags u8 | number of sections uvarint | sections
type writeBody struct {
	spread   bool // the points belong to this shard of a spread namespace
	atomic   bool // all or nothing: in a transaction
	sections []section
}

const (
	flagSpread = 1 << iota
	flagAtomic
)

func (w *writeBody) code(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		w.codeFlags(c)
	} else {
		f.Bool("spread", &w.spread)
		f.Bool("atomic", &w.atomic)
	}
	codec.ListOf(f, "sections", &w.sections, (*section).code, codec.Range{Min: 1, Max: maxSections})
}

func (w *writeBody) codeFlags(c *codec.Coder) {
	flags := byte(0)
	if w.spread {
		flags |= flagSpread
	}
	if w.atomic {
		flags |= flagAtomic
	}
	if c.Byte(&flags); c.Reading() {
		w.spread, w.atomic = flags&flagSpread != 0, flags&flagAtomic != 0
	}
	if flags > flagSpread|flagAtomic {
		c.Fail(fmt.Sprintf("write with flags %#x", flags))
	}
}

func (w *writeBody) reset() {
	clear(w.sections) // so that the pool does not retain points
	*w = writeBody{sections: w.sections[:0]}
}

func (w *writeBody) size() int {
	n := 8
	for i := range w.sections {
		s := &w.sections[i]
		n += 128 + len(s.name) + 32*len(s.fields) + 2*len(s.known.ids) + len(s.known.points) + len(s.fresh.points)
		for _, l := range s.fresh.tags {
			n += 1 + 32*len(l)
		}
	}
	return n
}

// route returns the routing key of the write, its first series, if the write defines that series.
func (w *writeBody) route() string {
	if s := &w.sections[0]; len(s.fresh.tags) > 0 {
		return routeOf(s.name, s.fresh.tags[0])
	}
	return ""
}

func (w *writeBody) check() error {
	defined := 0
	for i := range w.sections {
		defined += len(w.sections[i].fresh.tags)
	}
	if defined > maxNewSeries {
		return engine.Errorf(ErrInvalid, "ts: %d new series in one write exceed %d", defined, maxNewSeries)
	}
	return nil
}

func (s *section) code(f *codec.Fields) {
	if f.Checking() {
		f.Refuse(s.check())
		return
	}
	f.Text("measurement", &s.name)
	f.Uvarint("incarnation", (*uint64)(&s.inc))
	codec.ListOf(f, "fields", &s.fields, codeField, codec.Range{Min: 1, Max: MaxFields})
	knows := len(s.known.ids) > 0
	if c := f.Binary(); c != nil {
		c.Bool(&knows)
	} else {
		knows = f.Given("known_series", knows)
	}
	if knows {
		s.known.code(f)
	}
	codec.ListOf(f, "new_series", &s.fresh.tags, (*tagList).fields, codec.Range{Max: maxNewSeries})
	if len(s.fresh.tags) > 0 {
		s.fresh.span.code(f, "new_count", "new_from_ms", "new_to_ms")
		f.Bytes("new_points", &s.fresh.points)
	}
}

func (k *known) code(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		if codeIDs(c, &k.ids); len(k.ids) == 0 {
			c.Fail("no known series")
		}
	} else {
		codec.ListOf(f, "known_series", &k.ids, func(id *seriesID, f *codec.Fields) { codec.Narrow(f, "", id) })
	}
	f.Uvarint("known_fingerprints", &k.prints)
	k.span.code(f, "known_count", "known_from_ms", "known_to_ms")
	f.Bytes("known_points", &k.points)
}

// code codes a span under the given names.
func (s *span) code(f *codec.Fields, points, oldest, newest string) {
	f.Varint(points, &s.points)
	f.Varint(oldest, &s.oldest)
	f.Varint(newest, &s.newest)
}

// codeField codes a field of a write.
func codeField(d *field, f *codec.Fields) {
	f.Text("name", &d.name)
	codec.Enum(f, "type", &d.kind, fieldTypes[:])
}

// fields codes the tags of a series in a write. The check of the command verifies their order.
func (l *tagList) fields(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		l.list(c)
		return
	}
	l.codeJSON(f, "")
}

// codeJSON codes tags as an object.
func (l *tagList) codeJSON(f *codec.Fields, name string) {
	if f.Checking() {
		return
	}
	codec.OnCopy(f, l, func(l *tagList) {
		f.Custom(name, codec.Custom{
			Type: codec.ObjectType,
			Show: func(dst []byte) []byte {
				dst = append(dst, '{')
				for i, t := range *l {
					if i > 0 {
						dst = append(dst, ',')
					}
					dst = rawjson.AppendText(append(rawjson.AppendText(dst, t.name), ':'), t.value)
				}
				return append(dst, '}')
			},
			Parse: func(value []byte) (err error) {
				*l = nil
				object := rawjson.EachMember(value, func(key, value []byte) bool {
					name, _ := rawjson.Text(key)
					text, ok := rawjson.Text(value)
					if *l = append(*l, tag{name, text}); !ok {
						err = fmt.Errorf("tag %.40q is not a string", name)
					}
					return ok
				})
				if !object {
					return errors.New("expected an object of strings")
				}
				slices.SortStableFunc(*l, func(a, b tag) int { return cmpString(a.name, b.name) })
				return err
			},
		})
	})
}

// codeAs codes tags in order under a name.
func (l *tagList) codeAs(f *codec.Fields, name string) {
	if c := f.Binary(); c != nil {
		l.code(c)
		return
	}
	l.codeJSON(f, name)
}

func (s *span) check() error {
	if s.points < 1 || s.points > maxBatch || s.oldest > s.newest || s.oldest < points.MinTime || s.newest > points.MaxTime {
		return engine.Errorf(ErrInvalid, "ts: invalid span of %d points from %d to %d", s.points, s.oldest, s.newest)
	}
	return nil
}

// check checks everything except the points themselves.
func (s *section) check() error {
	if err := checkMeasurement(s.name); err != nil {
		return err
	}
	if n := len(s.fields); n < 1 || n > MaxFields {
		return engine.Errorf(ErrInvalid, "measurement %q: %d fields are not in 1-%d", s.name, n, MaxFields)
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
				return engine.Errorf(ErrInvalid, "ts: duplicate field %q", f.name)
			}
		}
	}
	if len(s.known.ids) == 0 && len(s.fresh.tags) == 0 {
		return engine.Errorf(ErrInvalid, "measurement %q: write without points", s.name)
	}
	if len(s.known.ids) > 0 {
		if err := checkPart(&s.known.span, s.known.points); err != nil {
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
	return checkPart(&s.fresh.span, s.fresh.points)
}

func checkPart(s *span, encoded []byte) error {
	if len(encoded) > maxBlockBytes {
		return engine.Errorf(ErrInvalid, "ts: block of %d bytes exceeds %d", len(encoded), maxBlockBytes)
	}
	return s.check()
}

// check returns ErrInvalid for invalid tags.
func (l tagList) check() error {
	if len(l) > MaxTags {
		return engine.Errorf(ErrInvalid, "ts: %d tags exceed %d", len(l), MaxTags)
	}
	for i, t := range l {
		if err := checkTag(t.name, t.value); err != nil {
			return err
		}
		if i > 0 && l[i-1].name >= t.name {
			return engine.Errorf(ErrInvalid, "ts: tag %q is out of order", t.name)
		}
	}
	return nil
}

// sumPrints returns the checksum of fingerprints that a write carries.
func sumPrints(prints []uint64) uint64 {
	b := make([]byte, 0, 8*len(prints))
	for _, p := range prints {
		b = binary.LittleEndian.AppendUint64(b, p)
	}
	return xxhash.Sum64(b)
}

// routeOf returns the routing key of a series in a spread namespace.
func routeOf(measurement string, tags tagList) string {
	b := []byte(measurement)
	for _, t := range tags {
		b = append(append(append(append(b, ','), t.name...), '='), t.value...)
	}
	return string(b)
}

// outcome is the result of one part of a section.
type outcome struct {
	code outcomeCode
	// oldest and newest are the bounds for outOfTime; room, wanted and the worst tag belong to
	// noRoom.
	oldest, newest int64
	limit          LimitError
	field          string // for tooManyFields
	ids            []seriesID
}

// outcomeCode is whether a part was written, and the reason if not.
type outcomeCode byte

const (
	written       outcomeCode = iota
	stale                     // series numbers do not match the shard's: send definitions
	outOfTime                 // points are too old, or too far in the future
	noRoom                    // for new series
	tooManyFields             // of the measurement
	tooMuch                   // unsealed points
	maxOutcome    = tooMuch
)

func (o *outcome) record(c *codec.Coder) {
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

// sectionResult is the result of a section.
type sectionResult struct {
	inc          incarnation
	known, fresh outcome // if fresh was written, with the numbers of the series it defines
}

// writeResult is the result of the sections of a write.
type writeResult struct{ sections []sectionResult }

func (w *writeResult) code(f *codec.Fields) {
	codec.ListOf(f, "sections", &w.sections, func(s *sectionResult, f *codec.Fields) {
		f.Uvarint("incarnation", (*uint64)(&s.inc))
		if c := f.Binary(); c != nil {
			s.known.record(c)
			s.fresh.record(c)
			return
		}
		f.Byte("known", (*byte)(&s.known.code))
		f.Byte("new", (*byte)(&s.fresh.code))
	})
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
