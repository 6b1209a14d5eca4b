package pipeline

import (
	"math"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/agg"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/expression"
	"github.com/floedb/floe/internal/rawjson"
)

// function is an aggregate function.
type function uint8

const (
	fnSum function = iota + 1
	fnCount
	fnAvg
	fnMin
	fnMax
	fnFirst
	fnLast
	fnDistinct
	fnPercentile
	fnEach // several measures
)

// measure is a function of a field, or several named measures.
type measure struct {
	name     string
	fn       function
	field    *expression.Path
	quantile float64
	each     []measure
}

// sample is a record's value for a measure.
type sample struct {
	number float64
	raw    string
	at     int64
	lacks  bool // the field is missing: the measure skips the record
	each   []sample
}

// accumulator is the state of an aggregate. Each function uses some of its fields. Sums are exact,
// so the order of records makes no difference.
type accumulator struct {
	count    uint64
	from, to int64 // minimum and maximum event time
	sum      agg.Sum
	number   float64 // min, max
	raw      string  // first, last: JSON
	distinct distinct
	sketch   sketch
	each     []accumulator // for several measures: one each, of the records that have its field
}

// add adds a sample.
func (a *accumulator) add(m *measure, s *sample) {
	switch first := a.count == 0; m.fn {
	case fnSum, fnAvg:
		a.sum.Add(s.number)
	case fnMin:
		if first || s.number < a.number {
			a.number = s.number
		}
	case fnMax:
		if first || s.number > a.number {
			a.number = s.number
		}
	case fnFirst:
		if first || s.at < a.from {
			a.raw = s.raw
		}
	case fnLast:
		if first || s.at >= a.to {
			a.raw = s.raw
		}
	case fnDistinct:
		a.distinct.add(hash(s.raw))
	case fnPercentile:
		a.sketch.add(s.number)
	case fnEach:
		if a.each == nil {
			a.each = make([]accumulator, len(m.each))
		}
		for i := range a.each {
			if !s.each[i].lacks {
				a.each[i].add(&m.each[i], &s.each[i])
			}
		}
	}
	if a.count == 0 || s.at < a.from {
		a.from = s.at
	}
	if a.count == 0 || s.at > a.to {
		a.to = s.at
	}
	a.count++
}

// merge adds b, whose records came later or have other event times.
func (a *accumulator) merge(m *measure, b *accumulator) {
	if b.count == 0 {
		return
	}
	if a.count == 0 {
		*a = *b
		return
	}
	switch m.fn {
	case fnSum, fnAvg:
		a.sum.Merge(&b.sum)
	case fnMin:
		a.number = min(a.number, b.number)
	case fnMax:
		a.number = max(a.number, b.number)
	case fnFirst:
		if b.from < a.from {
			a.raw = b.raw
		}
	case fnLast:
		if b.to >= a.to {
			a.raw = b.raw
		}
	case fnDistinct:
		a.distinct.merge(&b.distinct)
	case fnPercentile:
		a.sketch.merge(&b.sketch)
	case fnEach:
		for i := range a.each {
			a.each[i].merge(&m.each[i], &b.each[i])
		}
	}
	a.count += b.count
	a.from, a.to = min(a.from, b.from), max(a.to, b.to)
}

// code codes an accumulator:
//
//	count, from, to - from (varints) | what the function needs: the sum, 8 bytes, JSON, hashes or registers, or buckets
//
// For several measures there is a boolean each. If it is true, a record has had the field, and the
// accumulator of the measure follows.
func (a *accumulator) code(c *codec.Coder, m *measure) {
	c.Uvarint(&a.count)
	c.Varint(&a.from)
	length := uint64(a.to) - uint64(a.from)
	c.Uvarint(&length)
	if c.Reading() {
		a.to = int64(uint64(a.from) + length)
		if a.count == 0 || a.to < a.from {
			c.Fail("accumulator of nothing")
		}
	}
	switch m.fn {
	case fnSum, fnAvg:
		a.sum.Code(c)
	case fnMin, fnMax:
		c.Float64(&a.number)
	case fnFirst, fnLast:
		c.String(&a.raw)
	case fnDistinct:
		a.distinct.code(c)
	case fnPercentile:
		a.sketch.code(c)
	case fnEach:
		if c.Reading() {
			a.each = make([]accumulator, len(m.each))
		}
		for i := range a.each {
			one := &a.each[i]
			there := one.count > 0
			if c.Bool(&there); there {
				one.code(c, &m.each[i])
			}
		}
	}
}

// appendResult appends the result of the measure. It fails if JSON cannot represent the number.
func (a *accumulator) appendResult(dst []byte, m *measure) ([]byte, error) {
	switch m.fn {
	case fnSum:
		return expression.AppendFloat(dst, a.sum.Float())
	case fnAvg:
		return expression.AppendFloat(dst, a.sum.Mean(a.count))
	case fnMin, fnMax:
		return expression.AppendFloat(dst, a.number)
	case fnFirst, fnLast:
		return append(dst, a.raw...), nil
	case fnDistinct:
		return strconv.AppendUint(dst, a.distinct.size(), 10), nil
	case fnPercentile:
		return expression.AppendFloat(dst, a.sketch.quantile(m.quantile))
	case fnEach:
		return a.appendEach(dst, m)
	}
	return strconv.AppendUint(dst, a.count, 10), nil
}

// appendEach appends an object with the results of several measures. A measure without samples is
// null, or 0 for counts.
func (a *accumulator) appendEach(dst []byte, m *measure) (_ []byte, err error) {
	for i := range m.each {
		one, of := &a.each[i], &m.each[i]
		if i == 0 {
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
		if dst = append(rawjson.AppendText(dst, of.name), ':'); one.count == 0 && of.fn != fnCount && of.fn != fnDistinct {
			dst = append(dst, "null"...)
			continue
		}
		if dst, err = one.appendResult(dst, of); err != nil {
			return dst, &fieldError{of.name, err}
		}
	}
	return append(dst, '}'), nil
}

// sample returns a record's sample for a measure; timed means that the record's time matters. ok is
// false for a dropped record, and for a failed record, which is counted and recorded.
func (t *Tick) sample(s *instance, m *measure, it *item, timed bool) (one sample, ok bool) {
	one, err := t.sampleOf(m, it)
	switch {
	case err != nil:
	case len(it.Key) > maxKey:
		err = errKey
	case timed && (it.EventTime <= -beyond || it.EventTime >= beyond):
		err = errBeyond
	}
	if err != nil {
		t.fail(s, err, it)
		return one, false
	}
	if one.lacks {
		t.counts[s.index].Dropped++
	}
	return one, !one.lacks
}

// sampleOf returns a record's sample for a measure. It lacks a field that is null. With several
// measures it lacks all of them if it lacks every field.
func (t *Tick) sampleOf(m *measure, it *item) (s sample, err error) {
	if m.fn != fnEach {
		return partOf(m, it)
	}
	t.samples = t.samples[:0] // samples of the previous record are not kept
	s.at, s.lacks = it.EventTime, true
	for i := range m.each {
		one, err := partOf(&m.each[i], it)
		if err != nil {
			return s, err
		}
		s.lacks = s.lacks && one.lacks
		t.samples = append(t.samples, one)
	}
	s.each = t.samples
	return s, nil
}

func partOf(m *measure, it *item) (s sample, err error) {
	s.at = it.EventTime
	if m.field == nil {
		return s, nil
	}
	json, err := it.JSON()
	if err != nil {
		return s, err
	}
	r := m.field.Of(json)
	if r.Type == gjson.Null {
		s.lacks = true
		return s, nil
	}
	switch m.fn {
	case fnCount:
	case fnFirst, fnLast, fnDistinct:
		if s.raw = r.Raw; m.fn == fnDistinct {
			s.raw = canonical(r)
		}
	default:
		if s.number, err = numberOf(r); err != nil {
			return s, &fieldError{m.field.String(), err}
		}
	}
	return s, nil
}

// canonical returns a unique representation of a value, so that different spellings of a number are
// equal.
func canonical(r gjson.Result) string {
	switch r.Type {
	case gjson.String:
		return "\"" + r.Str
	case gjson.Number:
		if !math.IsInf(r.Num, 0) && len(r.Raw) < 16 {
			return strconv.FormatFloat(r.Num+0, 'g', -1, 64) // -0 is 0
		}
	}
	return r.Raw
}

// appendAggregate appends the record that an aggregate emits.
func (a *accumulator) appendAggregate(dst []byte, key []byte, m *measure) ([]byte, error) {
	dst = append(rawjson.AppendText(append(dst, `{"key":`...), stringOf(key)), `,"value":`...)
	dst, err := a.appendResult(dst, m)
	return strconv.AppendUint(append(dst, `,"count":`...), a.count, 10), err
}
