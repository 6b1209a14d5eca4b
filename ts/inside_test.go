package ts

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/points"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// recoded encodes a value and returns the decoded result.
func recoded[T any](v T, code func(*T, *codec.Coder)) (T, error) {
	return decode(encode(nil, &v, code), "test", code)
}

// TestRowLimits: a row that exceeds a limit or is out of order does not decode. A row just within
// the limits decodes to what was written.
func TestRowLimits(t *testing.T) {
	type result struct {
		same bool
		err  error
	}
	measured := func(change func(m *measurement)) result {
		m := measurement{ns: 1, name: "m", createdAt: 2, partition: minPartition, fields: []field{{"f", Float}},
			elsewhere: []announcement{{1, 2}}}
		change(&m)
		got, err := recoded(m, (*measurement).code)
		return result{reflect.DeepEqual(got, m), err}
	}
	contained := func(change func(n *content)) result {
		n := newContent()
		n.series, n.nextSeries, n.points, n.sealed, n.last, n.shape, n.rolled, n.expired, n.swept, n.erased, n.deleted, n.retiring,
			n.timer = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
		n.blocks.points, n.blocks.bytes, n.blocks.since, n.blocks.turn = 14, 15, 16, 17
		change(&n)
		got, err := recoded(n, (*content).code)
		return result{reflect.DeepEqual(got, n), err}
	}
	kept := func(change func(p *policy)) result {
		p := policy{version: 1, rawTTL: 2, tiers: []tier{{1, 60_000, 3}, {2, 1, 0}}, next: 3}
		change(&p)
		got, err := recoded(p, (*policy).code)
		return result{reflect.DeepEqual(got, p), err}
	}
	parted := func(change func(p *partitionRow)) result {
		p := partitionRow{generations: []generation{{1, 1, 2}, {3, 4, 5}}, changed: 6, points: 7, newest: 8, state: reduced}
		change(&p)
		got, err := recoded(p, (*partitionRow).code)
		return result{reflect.DeepEqual(got, p), err}
	}
	erased := func(ids, ranges int) result {
		e := erasure{ids: make([]seriesID, ids), ranges: make([]erasedRange, ranges)}
		_, err := recoded(e, (*erasure).code)
		return result{true, err}
	}
	listed := func(l tagList) result {
		got, err := recoded(l, (*tagList).code)
		return result{slices.Equal(got, l), err}
	}
	blocked := func(change func(b *block)) result {
		b := block{ids: []seriesID{0, 3, math.MaxUint32, 1}, fields: []fieldID{0, MaxFields - 1}, span: span{1, -5, -5},
			points: []byte{1, 2}}
		change(&b)
		got, err := decodeBlock(b.encode(nil))
		return result{reflect.DeepEqual(got, b), err}
	}
	paged := func(change func(p *chunkRow)) result {
		p := chunkRow{last: math.MaxUint32, from: -3, to: -3, values: 1, data: []byte{1}}
		change(&p)
		got, err := decodeChunk(p.encode(nil))
		return result{reflect.DeepEqual(got, p), err}
	}
	for name, c := range map[string]struct {
		result
		ok bool
	}{
		"measurement":                    {measured(func(*measurement) {}), true},
		"partition of an hour less 1 ms": {measured(func(m *measurement) { m.partition-- }), false},
		"most fields":                    {measured(func(m *measurement) { m.fields = slices.Repeat(m.fields, MaxFields) }), true},
		"a field too many":               {measured(func(m *measurement) { m.fields = slices.Repeat(m.fields, MaxFields+1) }), false},
		"field of the last type":         {measured(func(m *measurement) { m.fields[0].kind = Boolean }), true},
		"field of no type":               {measured(func(m *measurement) { m.fields[0].kind = Boolean + 1 }), false},
		"content":                        {contained(func(*content) {}), true},
		"most closings": {contained(func(n *content) { n.closed = slices.Repeat([]closing{{1, 2, 3}}, maxAdopted) }),
			true},
		"a closing too many": {contained(func(n *content) { n.closed = slices.Repeat([]closing{{1, 2, 3}}, maxAdopted+1) }),
			false},
		"most losses":                       {contained(func(n *content) { n.lost = slices.Repeat([]lost{{1, 2}}, MaxTiers) }), true},
		"a loss too many":                   {contained(func(n *content) { n.lost = slices.Repeat([]lost{{1, 2}}, MaxTiers+1) }), false},
		"most begins":                       {contained(func(n *content) { n.since = slices.Repeat([]lost{{1, 2}}, MaxTiers) }), true},
		"a begin too many":                  {contained(func(n *content) { n.since = slices.Repeat([]lost{{1, 2}}, MaxTiers+1) }), false},
		"policy":                            {kept(func(*policy) {}), true},
		"policy for ever":                   {kept(func(p *policy) { p.rawTTL = 0 }), true},
		"negative retention":                {kept(func(p *policy) { p.rawTTL = -1 }), false},
		"most tiers":                        {kept(func(p *policy) { p.tiers = slices.Repeat(p.tiers[:1], MaxTiers) }), true},
		"a tier too many":                   {kept(func(p *policy) { p.tiers = slices.Repeat(p.tiers[:1], MaxTiers+1) }), false},
		"tier of points":                    {kept(func(p *policy) { p.tiers[0].id = rawTier }), false},
		"buckets of 0 ms":                   {kept(func(p *policy) { p.tiers[0].every = 0 }), false},
		"negative retention of a tier":      {kept(func(p *policy) { p.tiers[0].ttl = -1 }), false},
		"partition":                         {parted(func(*partitionRow) {}), true},
		"state unknown":                     {parted(func(p *partitionRow) { p.state = reduced + 1 }), false},
		"generation without chunks":         {parted(func(p *partitionRow) { p.generations[0].chunks = 0 }), false},
		"generation twice":                  {parted(func(p *partitionRow) { p.generations[1].number = 1 }), false},
		"no generations":                    {parted(func(p *partitionRow) { p.generations = nil }), true},
		"most of an erasure":                {erased(maxDeletes, MaxTiers+1), true},
		"a series too many of an erasure":   {erased(maxDeletes+1, 1), false},
		"a range too many of an erasure":    {erased(1, MaxTiers+2), false},
		"no tags":                           {listed(nil), true},
		"tags":                              {listed(tagList{{"a", "b"}, {"c", "d"}}), true},
		"tag twice":                         {listed(tagList{{"a", "b"}, {"a", "d"}}), false},
		"tags out of order":                 {listed(tagList{{"c", "b"}, {"a", "d"}}), false},
		"tag without a name":                {listed(tagList{{"", "b"}}), false},
		"tag without a value":               {listed(tagList{{"a", "b"}, {"c", ""}}), false},
		"block":                             {blocked(func(*block) {}), true},
		"block of a field beyond the limit": {blocked(func(b *block) { b.fields[1] = MaxFields }), false},
		"block without points":              {blocked(func(b *block) { b.span.points = 0 }), false},
		"block that ends before it begins":  {blocked(func(b *block) { b.span.oldest++ }), false},
		"chunk":                             {paged(func(*chunkRow) {}), true},
		"chunk without values":              {paged(func(p *chunkRow) { p.values = 0 }), false},
		"long chunk":                        {paged(func(p *chunkRow) { p.to = 1 << 48 }), true},
	} {
		if (c.err == nil) != c.ok || c.ok && !c.same {
			t.Errorf("%s: %v, the same: %v, want accepted: %v", name, c.err, c.same, c.ok)
		}
	}
	if _, err := decodeSeries(encode(nil, &seriesRow{fingerprint: 1}, (*seriesRow).code)); err != nil {
		t.Error(err)
	}
	if _, err := decodeSeries(encode(nil, &seriesRow{}, (*seriesRow).code)); err == nil {
		t.Error("a series without a fingerprint is accepted")
	}
	if _, err := decodeLimit([]byte{rowVersion + 1, 0, 0}); err == nil {
		t.Error("a row of another version is accepted")
	}
	var p [pageSeries]uint64
	if row, some := encodePrints(&p); some || len(row) != 8*pageSeries || decodePrints(row, &p) != nil ||
		decodePrints(row[1:], &p) == nil || decodePrints(append(row, 0), &p) == nil {
		t.Errorf("no fingerprints are %x, %v", row, some)
	}
	p[pageSeries-1] = 5
	var back [pageSeries]uint64
	if row, some := encodePrints(&p); !some || decodePrints(row, &back) != nil || back != p {
		t.Errorf("fingerprints arrive as %v", back)
	}
}

// TestContent checks the values that content rows compute.
func TestContent(t *testing.T) {
	n := newContent()
	n.closed = []closing{{before: 10, upTo: 5, tiers: 2}, {before: 30, upTo: 8, tiers: 3}, {before: 20, upTo: 9, tiers: 1}}
	for lsn, want := range map[uint64]int64{0: 30, 5: 30, 8: 30, 9: 20, 10: minTime} {
		if got := n.goneBefore(lsn); got != want {
			t.Errorf("goneBefore(%d) = %d, want %d", lsn, got, want)
		}
	}
	for _, c := range []struct {
		tier tierID
		lsn  uint64
		want int64
	}{{0, 1, minTime}, {1, 5, 20}, {2, 5, 20}, {3, 5, 30}, {3, 8, 30}, {3, 9, 20}, {3, 10, minTime}, {2, 9, 20}, {2, 6, 20}} {
		if got := n.keptFor(c.tier, c.lsn); got != c.want {
			t.Errorf("keptFor(%d, %d) = %d, want %d", c.tier, c.lsn, got, c.want)
		}
	}
	for _, c := range []struct {
		before, after uint64
		want          bool
	}{{0, 5, false}, {0, 6, true}, {5, 6, true}, {6, 8, false}, {6, 9, true}, {9, 10, true}, {10, 20, false}} {
		if got := n.closesBetween(c.before, c.after); got != c.want {
			t.Errorf("closesBetween(%d, %d) = %v, want %v", c.before, c.after, got, c.want)
		}
	}
	n.lose(&tier{id: 4, every: 10}, 11)
	n.lose(&tier{id: 2, every: 7}, 7)
	n.lose(&tier{id: 4, every: 10}, 5)
	n.lose(&tier{id: 2, every: 7}, 8)
	n.since = raise(nil, &tier{id: 3, every: 10}, -11)
	if want := []lost{{2, 14}, {4, 20}}; !slices.Equal(n.lost, want) || n.lostBefore(2) != 14 || n.lostBefore(3) != minTime ||
		n.wholeFrom(3) != -10 || n.wholeFrom(4) != minTime {
		t.Errorf("lost %v since %v, want %v", n.lost, n.since, want)
	}
	w := newContent().blocks
	w.add(50)
	w.add(40)
	if w.least() != 40 || w.oldest != math.MaxInt64 {
		t.Errorf("two blocks: %+v", w)
	}
	w.turn = 7
	if w.sealed(6, 9); w.later != 40 || w.turn != 7 {
		t.Errorf("sealed before the turn: %+v", w)
	}
	if w.sealed(7, 9); w.oldest != 40 || w.later != math.MaxInt64 || w.turn != 9 {
		t.Errorf("sealed up to the turn: %+v", w)
	}
	w.add(60)
	if w.least() != 40 {
		t.Errorf("a later block: %+v", w)
	}
	if w.sealed(9, 9); w.oldest != math.MaxInt64 || w.least() != math.MaxInt64 || w.turn != 9 {
		t.Errorf("all is sealed: %+v", w)
	}
	for _, c := range []struct{ every, raw, want int64 }{{1000, 1, 1024_000}, {60_000, 86_400_000, 1440 * 60_000},
		{60_000, 86_400_001, 1441 * 60_000}, {60_000, 1024 * 60_000, 1024 * 60_000}} {
		if got := (&tier{every: c.every}).partition(c.raw); got != c.want {
			t.Errorf("partition of buckets of %d ms in %d ms = %d, want %d", c.every, c.raw, got, c.want)
		}
	}
	tags := tagList{{"a", "1"}, {"b", "2"}, {"d", "4"}}
	for name, want := range map[string]string{"a": "1", "b": "2", "c": "", "d": "4", "e": "", "": ""} {
		if got := tags.get(name); got != want {
			t.Errorf("get(%q) = %q, want %q", name, got, want)
		}
	}
	if got := routeOf("m", tags); got != "m,a=1,b=2,d=4" {
		t.Errorf("routeOf = %q", got)
	}
}

// TestWriteBodies: a write that exceeds a limit is refused before it reaches the log; one just
// within the limits is accepted.
func TestWriteBodies(t *testing.T) {
	one := span{1, 0, 0}
	tags := func(n int) (all tagList) {
		for i := range n {
			all = append(all, tag{fmt.Sprintf("t%03d", i), "x"})
		}
		return all
	}
	for name, c := range map[string]struct {
		change func(w *writeBody, s *section)
		says   string // "" if it is accepted
	}{
		"as it is":      {func(*writeBody, *section) {}, ""},
		"no section":    {func(w *writeBody, _ *section) { w.sections = nil }, "0 sections are not in 1-1000"},
		"most sections": {func(w *writeBody, s *section) { w.sections = slices.Repeat([]section{*s}, maxSections) }, ""},
		"a section too many": {func(w *writeBody, s *section) { w.sections = slices.Repeat([]section{*s}, maxSections+1) },
			"1001 sections are not in 1-1000"},
		"no name":            {func(_ *writeBody, s *section) { s.name = "" }, "name is empty"},
		"no field":           {func(_ *writeBody, s *section) { s.fields = nil }, "0 fields are not in 1-1024"},
		"a field too many":   {func(_ *writeBody, s *section) { s.fields = make([]field, MaxFields+1) }, "1025 fields"},
		"field without name": {func(_ *writeBody, s *section) { s.fields[0].name = "" }, "name is empty"},
		"field of no type":   {func(_ *writeBody, s *section) { s.fields[0].kind = Boolean + 1 }, `field "f" of unknown type 4`},
		"boolean field":      {func(_ *writeBody, s *section) { s.fields[0].kind = Boolean }, ""},
		"field twice": {func(_ *writeBody, s *section) { s.fields = []field{{"f", Float}, {"g", Float}, {"f", Float}} },
			`duplicate field "f"`},
		"no points": {func(_ *writeBody, s *section) { s.fresh.tags = nil }, "write without points"},
		"known series": {func(_ *writeBody, s *section) {
			s.known, s.fresh = known{[]seriesID{7, 1}, 5, one, []byte{1}}, fresh{}
		}, ""},
		"known points missing": {func(_ *writeBody, s *section) {
			s.known = known{[]seriesID{7}, 5, span{}, nil}
		}, "0 points from 0 to 0"},
		"too many points": {func(_ *writeBody, s *section) { s.fresh.span.points = maxBatch + 1 }, "65537 points"},
		"most points":     {func(_ *writeBody, s *section) { s.fresh.span.points = maxBatch }, ""},
		"backwards":       {func(_ *writeBody, s *section) { s.fresh.span = span{1, 1, 0} }, "1 points from 1 to 0"},
		"oldest":          {func(_ *writeBody, s *section) { s.fresh.span.oldest = points.MinTime }, ""},
		"too old":         {func(_ *writeBody, s *section) { s.fresh.span.oldest = points.MinTime - 1 }, "1 points from"},
		"newest":          {func(_ *writeBody, s *section) { s.fresh.span.newest = points.MaxTime }, ""},
		"too new":         {func(_ *writeBody, s *section) { s.fresh.span.newest = points.MaxTime + 1 }, "1 points from"},
		"most tags":       {func(_ *writeBody, s *section) { s.fresh.tags[0] = tags(MaxTags) }, ""},
		"a tag too many":  {func(_ *writeBody, s *section) { s.fresh.tags[0] = tags(MaxTags + 1) }, "65 tags exceed 64"},
		"tags out of order": {func(_ *writeBody, s *section) { s.fresh.tags[0] = tagList{{"b", "x"}, {"a", "x"}} },
			`tag "a" is out of order`},
		"tag twice": {func(_ *writeBody, s *section) { s.fresh.tags[0] = tagList{{"a", "x"}, {"a", "y"}} },
			`tag "a" is out of order`},
		"tag without value": {func(_ *writeBody, s *section) { s.fresh.tags[0] = tagList{{"a", ""}} }, `tag "a"`},
		"largest block":     {func(_ *writeBody, s *section) { s.fresh.points = make([]byte, maxBlockBytes) }, ""},
		"too large a block": {func(_ *writeBody, s *section) { s.fresh.points = make([]byte, maxBlockBytes+1) },
			"block of 1048577 bytes exceeds 1048576"},
		"most new series": {func(_ *writeBody, s *section) { s.fresh.tags = make([]tagList, maxNewSeries) }, ""},
		"a series too many": {func(_ *writeBody, s *section) { s.fresh.tags = make([]tagList, maxNewSeries+1) },
			"1001 new series are not in 0-1000"},
		"too many series of two": {func(w *writeBody, s *section) {
			s.fresh.tags = make([]tagList, maxNewSeries)
			w.sections = []section{*s, *s}
		}, "2000 new series in one write exceed 1000"},
		"spread, in a transaction": {func(w *writeBody, _ *section) { w.spread, w.atomic = true, true }, ""},
	} {
		s := section{name: "m", inc: 3, fields: []field{{"f", Float}}, fresh: fresh{[]tagList{{{"a", "b"}}}, one, []byte{1}}}
		w := writeBody{}
		c.change(&w, &s)
		if w.sections == nil && name != "no section" {
			w.sections = []section{s}
		}
		body := codec.EncodeFields(nil, &w, (*writeBody).code)
		_, got, err := write.Read(engine.Command{Body: body})
		switch {
		case c.says == "" && (err != nil || !bytes.Equal(codec.EncodeFields(nil, &got, (*writeBody).code), body)):
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want ErrInvalid that says %q", name, err, c.says)
		}
		if _, _, err := write.Read(engine.Command{Body: append(body, 0)}); c.says == "" && !errors.Is(err, engine.ErrMalformed) {
			t.Errorf("%s, with a byte behind it: %v", name, err)
		}
	}
	if _, _, err := write.Read(engine.Command{Body: []byte{flagSpread | flagAtomic + 2, 1}}); err == nil ||
		!strings.Contains(err.Error(), "write with flags") {
		t.Error("a write with unknown flags is accepted")
	}
	all := []sectionResult{
		{inc: 1, known: outcome{code: outOfTime, oldest: -2, newest: 3}, fresh: outcome{code: written, ids: []seriesID{4, 5}}},
		{known: outcome{code: noRoom, limit: LimitError{"n", 1, 2, 3, "t", 4, true}}, fresh: outcome{code: tooManyFields, field: "f"}},
		{known: outcome{code: stale}, fresh: outcome{code: tooMuch}},
	}
	if got, err := write.Decode(codec.EncodeFields(nil, &writeResult{all}, (*writeResult).code)); err != nil ||
		!reflect.DeepEqual(got.sections, all) {
		t.Errorf("results arrive as %+v, %v", got, err)
	}
	wrong := writeResult{[]sectionResult{{known: outcome{code: maxOutcome + 1}}}}
	if _, err := write.Decode(codec.EncodeFields(nil, &wrong, (*writeResult).code)); err == nil {
		t.Error("an unknown outcome is accepted")
	}
}

// TestPrecisions: precisions use the names of the line protocol.
func TestPrecisions(t *testing.T) {
	for p, name := range []string{"ns", "us", "ms", "s"} {
		if got, err := ParsePrecision(name); err != nil || got != Precision(p) || got.String() != name {
			t.Errorf("precision %s is %v, %v", name, got, err)
		}
	}
	if _, err := ParsePrecision("h"); !errors.Is(err, ErrInvalid) || (Seconds+1).String() != "unknown" {
		t.Errorf("precision h: %v", err)
	}
	s := engine.StoreOf[Store](machinetest.New(t, 1, table()).Router(), "n", 0)
	for name, err := range map[string]error{
		"unknown precision 4": second(s.WriteLine(t.Context(), strings.NewReader(""), Seconds+1)),
		"the reader is nil":   second(s.Import(t.Context(), nil, Seconds)),
	} {
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// sampleQuery reads points as the duties of other machines do.
type sampleQuery struct {
	engine.Query
	protocol.Samples
	since uint64
	found []string
	more  bool
	late  int64
}

func (*sampleQuery) Machine() engine.MachineID { return engine.MachineTS }

func (*sampleQuery) Kind() uint8 { return queryLast + 1 }

func (m *machine) querySample(v *engine.View, s *sampleQuery) error {
	found, more, err := m.ReadSamples(v, &s.Samples)
	for _, p := range found {
		s.found = append(s.found, fmt.Sprintf("%d=%v%s", p.Time-machinetest.Epoch, p.Value, p.Tags))
	}
	slices.Sort(s.found)
	if s.more = more; err != nil {
		return err
	}
	s.late, err = m.CountLate(v, &s.Samples, s.since)
	return err
}

// TestSamplesForOtherMachines: other machines read the same points as Read. Late points are counted
// as long as they are in blocks.
func TestSamplesForOtherMachines(t *testing.T) {
	p := table()
	p.Queries = append(p.Queries, engine.QueryRow(queryLast+1, "sample", (*machine).querySample))
	r := machinetest.New(t, 1, p)
	s := engine.StoreOf[Store](r.Router(), "n", 0)
	put := func(host string, at int64, value float64) {
		t.Helper()
		_, err := s.Write(t.Context(), Point{Measurement: "cpu", Tags: map[string]string{"host": host, "dc": "x"},
			Fields: map[string]float64{"v": value, "w": -value}, Time: time.UnixMilli(machinetest.Epoch + at)})
		if err != nil {
			t.Fatal(err)
		}
	}
	lsn := func() uint64 { return uint64(r.Executor(0).Applied().LSN) }
	ask := func(q *sampleQuery, want string, late int64) {
		t.Helper()
		q.Namespace = "n"
		q.From, q.To = q.From+machinetest.Epoch, q.To+machinetest.Epoch
		if err := r.Query(t.Context(), 0, q); err != nil || strings.Join(q.found, " ") != want || q.late != late || q.more {
			t.Errorf("%+v since %d: %q, more %v, late %d, %v, want %q, late %d", q.Samples, q.since, q.found, q.more, q.late, err, want,
				late)
		}
	}
	samplesOf := func(measurement, field, host string, from, to int64) protocol.Samples {
		tags := map[string]string{}
		if host != "" {
			tags["host"] = host
		}
		return protocol.Samples{Measurement: measurement, Field: field, Tags: tags, From: from, To: to}
	}
	put("a", 0, 1)
	put("a", 10, 2)
	before := lsn()
	put("b", 5, 3)
	put("a", 20, 4)
	ask(&sampleQuery{Samples: samplesOf("cpu", "v", "", 0, 20)}, "0=1[[dc x] [host a]] 10=2[[dc x] [host a]] 5=3[[dc x] [host b]]", 0)
	ask(&sampleQuery{Samples: samplesOf("cpu", "w", "a", 5, 21)}, "10=-2[[dc x] [host a]] 20=-4[[dc x] [host a]]", 1)
	ask(&sampleQuery{Samples: samplesOf("cpu", "v", "", 20, 21)}, "20=4[[dc x] [host a]]", 3)
	ask(&sampleQuery{Samples: samplesOf("cpu", "v", "", 20, 21), since: before}, "20=4[[dc x] [host a]]", 1)
	ask(&sampleQuery{Samples: samplesOf("cpu", "v", "a", 21, 22), since: before}, "", 1)
	ask(&sampleQuery{Samples: samplesOf("cpu", "v", "a", 21, 22), since: lsn()}, "", 0)
	ask(&sampleQuery{Samples: samplesOf("cpu", "none", "", 0, 100)}, "", 0)
	ask(&sampleQuery{Samples: samplesOf("none", "v", "", 0, 100)}, "", 0)
	r.Advance(6 * 60_000) // everything is sealed
	ask(&sampleQuery{Samples: samplesOf("cpu", "v", "", 20, 21)}, "20=4[[dc x] [host a]]", 0)
	put("b", 15, 6)
	ask(&sampleQuery{Samples: samplesOf("cpu", "v", "b", 20, 21)}, "", 1)
	r.EachRead(map[string]func() (any, error){"samples": func() (any, error) {
		q := sampleQuery{Samples: samplesOf("cpu", "v", "b", machinetest.Epoch, machinetest.Epoch+20)}
		q.Namespace = "n"
		err := r.Query(t.Context(), 0, &q)
		return q.found, err
	}})
	q := sampleQuery{Samples: samplesOf("a\n", "v", "", 0, 1)}
	if err := r.Query(t.Context(), 0, &q); err == nil {
		t.Error("points of a measurement with a bad name are read")
	}
}

// TestNamespaceGoes: deleting a namespace also deletes its retention and its limit, which exist
// even without points.
func TestNamespaceGoes(t *testing.T) {
	r := machinetest.New(t, 1, table())
	s := engine.StoreOf[Store](r.Router(), "n", 0)
	rows := func() (n int) {
		for _, row := range r.Rows(0) {
			if row.Machine == engine.MachineTS {
				n++
			}
		}
		return n
	}
	if err := errors.Join(s.SetRetention(t.Context(), "cpu", Retention{RawTTL: time.Hour}), s.SetSeriesLimit(t.Context(), 10)); err != nil {
		t.Fatal(err)
	}
	if n := rows(); n != 2 {
		t.Fatalf("there are %d rows, want the policy and the limit", n)
	}
	if err := engine.NewNamespaces(r.Router()).Delete(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	if n := rows(); n != 0 {
		t.Errorf("%d rows are left of a namespace that was deleted", n)
	}
}

// TestRetentionTimer: a measurement has a timer as long as it has a retention.
func TestRetentionTimer(t *testing.T) {
	r := machinetest.New(t, 1, table())
	s := engine.StoreOf[Store](r.Router(), "n", 0)
	if _, err := s.Write(t.Context(), Point{Measurement: "cpu", Fields: map[string]float64{"v": 1},
		Time: time.UnixMilli(machinetest.Epoch)}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		retention Retention
		timers    int
	}{
		{Retention{}, 0}, {Retention{RawTTL: time.Hour}, 1}, {Retention{RawTTL: 90 * time.Minute}, 1}, {Retention{}, 0},
		{Retention{Downsample: []Downsample{{Every: time.Minute, TTL: time.Hour}}},
			1}, {Retention{Downsample: []Downsample{{Every: time.Minute}}}, 0},
	} {
		if err := s.SetRetention(t.Context(), "cpu", c.retention); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, row := range r.Rows(0) {
			if row.Machine == 0 && row.Key[0] == 't' && engine.MachineID(row.Key[9]) == engine.MachineTS {
				n++
			}
		}
		if n != c.timers {
			t.Errorf("step %d: %+v has %d timers, want %d", i, c.retention, n, c.timers)
		}
	}
}

// TestOtherIncarnation: commands that name an incarnation are refused once the measurement was
// deleted or recreated.
func TestOtherIncarnation(t *testing.T) {
	r := machinetest.New(t, 1, table())
	s := engine.StoreOf[Store](r.Router(), "n", 0)
	const inc = 1 << 40
	one := []printed{{0, 1}}
	listed := rangeBody{of: "cpu", from: 0, to: 1, seriesBody: seriesBody{inc: inc, series: one}}
	do := func(op engine.Op, leader bool) error {
		t.Helper()
		if op.Err != nil {
			t.Fatal(op.Err)
		}
		op.Command.Namespace = "n"
		if leader {
			op.Command = engine.Fenced(1, op.Command)
		}
		return r.Entry(0, op.Command)[0].Err
	}
	for _, there := range []bool{false, true} {
		if there {
			if _, err := s.Write(t.Context(), Point{Measurement: "cpu", Tags: map[string]string{"host": "a"},
				Fields: map[string]float64{"v": 1}, Time: time.UnixMilli(machinetest.Epoch)}); err != nil {
				t.Fatal(err)
			}
		}
		for what, err := range map[string]error{
			"seal":    do(seal.Op("cpu", sealBody{inc: inc, upTo: 1}, nil), true),
			"rewrite": do(rewrite.Op("cpu", rewriteBody{inc: inc}, nil), true),
			"rollup":  do(rollup.Op("cpu", rollupBody{inc: inc, tier: 1}, nil), true),
			"count":   do(countAgain.Op("cpu", countBody{inc: inc}, nil), true),
			"forget":  do(forget.Op("cpu", seriesBody{inc: inc, series: one}, nil), true),
			"retire":  do(retire.Op("cpu", seriesBody{inc: inc, series: one}, nil), true),
			"settle":  do(settle.Op("cpu", seriesBody{inc: inc, series: one}, nil), true),
			"delete":  do(deleteSeries.Op("cpu", seriesBody{inc: inc, series: one}, nil), false),
			"range":   do(deleteRange.Op("cpu", listed, nil), false),
		} {
			if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), `measurement "cpu" has changed meanwhile`) {
				t.Errorf("there: %t: %s: %v, want ErrConflict", there, what, err)
			}
		}
		for _, row := range r.Rows(0) { // of this incarnation, but of a series that does not exist
			if row.Machine == engine.MachineTS && row.Key[0] == rowMeasurement {
				none := seriesBody{inc: incarnationOf(row.Key), series: []printed{{99, 0}}}
				if err := do(deleteSeries.Op("cpu", none, nil), false); err != nil {
					t.Error(err)
				}
			}
		}
		all := rangeBody{all: true, from: 0, to: 1, seriesBody: seriesBody{inc: inc}} // the incarnation is ignored
		if err := do(deleteRange.Op("cpu", all, nil), false); there && err != nil || !there && !errors.Is(err, ErrNotFound) {
			t.Errorf("there: %t: range of all series: %v", there, err)
		}
	}
	machinetest.TryLimits(t, []machinetest.Limit{{Name: "series of a command", Least: math.MinInt64, Most: maxDeletes,
		Says: []string{"exceed 1000"}, Try: func(n int64) error {
			b := seriesBody{series: slices.Repeat(one, int(n/2)), kept: slices.Repeat(one, int(n-n/2))}
			return codec.CheckFields(&b, true, (*seriesBody).code)
		}}})
}

// TestWithdrawn: the home of a measurement forgets the part of a shard that was deleted there, and
// only that.
func TestWithdrawn(t *testing.T) {
	r := machinetest.New(t, 3, table())
	s, ctx := engine.StoreOf[Store](r.Router(), "n", 0), t.Context()
	if err := engine.NewNamespaces(r.Router()).Create(ctx, "n", true); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := s.Write(ctx, Point{Measurement: "cpu", Tags: map[string]string{"host": fmt.Sprint(i)},
			Fields: map[string]float64{"v": 1}, Time: time.UnixMilli(machinetest.Epoch)}); err != nil {
			t.Fatal(err)
		}
	}
	home := engine.NameShard("n", "cpu", 3)
	elsewhere := func() (shards []engine.ShardID) {
		for _, row := range r.Rows(home) {
			if row.Machine == engine.MachineTS && row.Key[0] == rowMeasurement {
				for _, a := range must(decodeMeasurement(row.Value)).elsewhere {
					shards = append(shards, a.shard)
				}
			}
		}
		slices.Sort(shards)
		return shards
	}
	gone, left := (home+1)%3, (home+2)%3
	if got := elsewhere(); len(got) != 2 {
		t.Fatalf("parts elsewhere: %v, want 2", got)
	}
	op := routed(remove.Op("cpu", engine.Nothing{}, nil), engine.RouteTo("n", gone, 3))
	if _, err := engine.Propose(ctx, &s.scope, op, remove.Decode); err != nil {
		t.Fatal(err)
	}
	if got := elsewhere(); !slices.Equal(got, []engine.ShardID{left}) {
		t.Errorf("parts elsewhere: %v, want %d", got, left)
	}
	if err := s.Delete(ctx, "cpu"); err != nil {
		t.Fatal(err)
	}
	if got := elsewhere(); got != nil {
		t.Errorf("parts elsewhere: %v, want none", got)
	}
}

// TestForms: results and rows that no node writes are refused, and results have a JSON form.
func TestForms(t *testing.T) {
	all := writeResult{[]sectionResult{{inc: 3, known: outcome{code: stale}, fresh: outcome{code: noRoom}}}}
	got, _ := codec.AppendJSON(nil, true, func(f *codec.Fields) { all.code(f) })
	if want := fmt.Sprintf(`{"sections":[{"incarnation":3,"known":%d,"new":%d}]}`, stale, noRoom); string(got) != want {
		t.Errorf("%+v is shown as %s, want %s", all, got, want)
	}
	q := readQuery{series: []readSeries{{}}, runs: []readRun{{1, []int64{1}, []float64{1}}}}
	if err := engine.DecodeResults(&readQuery{}, engine.AppendResults(nil, &q)); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a run of series 1 of 1: %v", err)
	}
	for text, want := range map[string]bool{
		`{"series":0,"times_ns":[1000000],"values":[1]}`:   true,
		`{"series":0,"times_ns":[1000000],"values":[1,2]}`: false,
		`{"series":0,"times_ns":[1000000],"values":[]}`:    false,
	} {
		if err := codec.ReadJSON([]byte(text), true, new(readRun).codeJSON); (err == nil) != want {
			t.Errorf("%s: %v, want it read: %t", text, err, want)
		}
	}
	machinetest.TryLimits(t, []machinetest.Limit{
		{Name: "fields of a block", Least: 0, Most: MaxFields, Beyond: codec.ErrCorrupt, Try: func(n int64) error {
			b := block{ids: []seriesID{1}, fields: make([]fieldID, max(n, 0)), span: span{1, 0, 0}, points: make([]byte, 2*MaxFields)}
			if n < 0 {
				return codec.ErrCorrupt
			}
			_, err := decodeBlock(b.encode(nil))
			return err
		}},
		{Name: "values of a block", Least: 1, Most: maxBatch, Try: func(n int64) error {
			var e points.Encoder
			for i := range n {
				e.Float(0, 0, i, 1)
			}
			if n == 0 {
				return ErrInvalid
			}
			return checkEncoded(new(points.Reader), e.Append(nil), span{n, 0, n}, 1, 1)
		}},
	})
}

// TestCacheKeepsUsed: series that are used stay in the cache when others fill it; unused ones do
// not.
func TestCacheKeepsUsed(t *testing.T) {
	c := newCache()
	c.put([]*member{{key: "used"}, {key: "unused"}})
	pad := strings.Repeat("x", maxCacheBytes/16)
	for i := range 40 {
		c.put([]*member{{key: pad + fmt.Sprint(i)}})
		if m := c.get([]byte("used")); m == nil || m.key != "used" {
			t.Fatalf("after %d others the series is %+v", i+1, m)
		}
	}
	if m := c.get([]byte("unused")); m != nil {
		t.Error("an unused series is still there")
	}
}

// TestVerifyContents damages single fields of rows; Verify must report each.
func TestVerifyContents(t *testing.T) {
	const hour, day = 3600 * 1000, 24 * 3600 * 1000
	start := int64(machinetest.Epoch - machinetest.Epoch%day - day)
	chunk := func(f func(row *chunkRow)) func(k, v []byte) ([]byte, []byte) {
		return func(k, v []byte) ([]byte, []byte) {
			row := must(decodeChunk(v))
			f(&row)
			return k, row.encode(nil)
		}
	}
	inContent := func(f func(c *content)) func(k, v []byte) ([]byte, []byte) {
		return func(k, v []byte) ([]byte, []byte) {
			c := must(decodeContent(v))
			f(&c)
			return k, c.encode(nil)
		}
	}
	spread := func(from, to int64) func(row *chunkRow) { // points in two partitions
		return func(row *chunkRow) {
			var e points.Encoder
			e.Run(0, 0, []int64{from, to}, []float64{1, 2})
			*row = chunkRow{0, from, to, 2, e.Append(nil)}
		}
	}
	for name, c := range map[string]struct {
		kind   byte
		change func(k, v []byte) ([]byte, []byte)
		want   string
	}{
		"points of a partition": {rowPartition, func(k, v []byte) ([]byte, []byte) {
			p := must(decodePartition(v))
			p.points++
			return k, encode(nil, &p, (*partitionRow).code)
		}, "2 points, its row counts 3"},
		"malformed chunk":         {rowChunk, func(k, v []byte) ([]byte, []byte) { return k, v[:1] }, "ts chunk row"},
		"malformed points":        {rowChunk, chunk(func(row *chunkRow) { row.data = row.data[:len(row.data)-1] }), "malformed points"},
		"earlier chunk":           {rowChunk, chunk(func(row *chunkRow) { row.from-- }), "its row says"},
		"later chunk":             {rowChunk, chunk(func(row *chunkRow) { row.to++ }), "its row says"},
		"another last series":     {rowChunk, chunk(func(row *chunkRow) { row.last++ }), "its row says"},
		"more values":             {rowChunk, chunk(func(row *chunkRow) { row.values++ }), "its row says"},
		"begins before":           {rowChunk, chunk(spread(start-1, start+hour)), "belong to another partition"},
		"ends behind":             {rowChunk, chunk(spread(start+hour, start+day)), "belong to another partition"},
		"memory":                  {rowContent, inContent(func(c *content) { c.newest++ }), "memory differs from the rows"},
		"bucket of no tier":       {rowContent, inContent(func(c *content) { c.lost = []lost{{9, 0}} }), "at 0 of tier 9 is limited"},
		"no bucket":               {rowContent, inContent(func(c *content) { c.since = []lost{{1, 1}} }), "at 1 of tier 1 is limited"},
		"malformed block":         {rowBlock, func(k, v []byte) ([]byte, []byte) { return k, v[:2] }, "ts block row"},
		"point before all others": {rowContent, inContent(func(c *content) { c.blocks.later += hour }), "says that none is before"},
		"field of a block": {rowBlock, func(k, v []byte) ([]byte, []byte) {
			b := must(decodeBlock(v))
			b.fields[0] = 7
			return k, b.encode(nil)
		}, "field 7 of 1"},
		"overlapping buckets": {rowDirty, func(k, v []byte) ([]byte, []byte) {
			later := bytes.Clone(k)
			copy(later[len(k)-8:], key.AppendInt64(nil, partitionOf(k)+60_000))
			return later, v
		}, "overlap the range before"},
	} {
		t.Run(name, func(t *testing.T) {
			r := machinetest.New(t, 1, table())
			s := engine.StoreOf[Store](r.Router(), "n", 0)
			put := func(at int64) {
				t.Helper()
				if _, err := s.Write(t.Context(), Point{Measurement: "m", Tags: map[string]string{"host": "a"},
					Fields: map[string]float64{"v": 1}, Time: time.UnixMilli(at)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.SetRetention(t.Context(), "m", Retention{Downsample: []Downsample{{Every: time.Minute}}}); err != nil {
				t.Fatal(err)
			}
			put(start + hour)
			put(start + hour + 1)
			r.Advance(sealAge)
			put(machinetest.Epoch + sealAge - 1000)
			r.Advance(sealAge) // its bucket is computed later
			put(machinetest.Epoch)
			r.Verify()
			for _, row := range r.Rows(0) {
				if row.Machine == engine.MachineTS && row.Key[0] == c.kind {
					k, v := c.change(bytes.Clone(row.Key), bytes.Clone(row.Value))
					r.Tamper(0, machinetest.Row{Machine: row.Machine, Key: k, Value: v})
					break
				}
			}
			if said := strings.Join(r.Problems(0), "\n"); !strings.Contains(said, c.want) {
				t.Errorf("Verify reports\n%s\nwant %q", said, c.want)
			}
		})
	}
}
