package pipeline

import (
	"math"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/agg"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/formula"
	"github.com/floedb/floe/internal/plant"
	"github.com/floedb/floe/internal/rawjson"
)

// function is what an aggregate computes.
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
)

// sample is what a record has for an aggregate.
type sample struct {
	number float64
	raw    string
	at     int64
}

// accumulator is what an aggregate knows of records: for each function a part of it is used. Sums are exact, so that the order of records makes no difference.
type accumulator struct {
	count    uint64
	from, to int64 // the least and greatest event time
	sum      agg.Sum
	number   float64 // min, max
	raw      string  // first, last: JSON
	distinct distinct
	sketch   sketch
}

// add adds a record.
func (a *accumulator) add(fn function, s *sample) {
	switch first := a.count == 0; fn {
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
	}
	if a.count == 0 || s.at < a.from {
		a.from = s.at
	}
	if a.count == 0 || s.at > a.to {
		a.to = s.at
	}
	a.count++
}

// merge adds what another knows, of records that came later or have other event times.
func (a *accumulator) merge(fn function, b *accumulator) {
	if b.count == 0 {
		return
	}
	if a.count == 0 {
		*a = *b
		return
	}
	switch fn {
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
	}
	if !plant.On(plant.MergeUncounted) {
		a.count += b.count
	}
	a.from, a.to = min(a.from, b.from), max(a.to, b.to)
}

// code codes an accumulator:
//
//	count, from, to - from (varints) | what the function needs: the sum, 8 bytes, JSON, hashes or registers, or buckets
func (a *accumulator) code(c *codec.Coder, fn function) {
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
	switch fn {
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
	}
}

// appendResult appends what the aggregate comes to. Errors: it is beyond the numbers of JSON.
func (a *accumulator) appendResult(dst []byte, fn function, quantile float64) ([]byte, error) {
	switch fn {
	case fnSum:
		return formula.AppendFloat(dst, a.sum.Float())
	case fnAvg:
		return formula.AppendFloat(dst, a.sum.Mean(a.count))
	case fnMin, fnMax:
		return formula.AppendFloat(dst, a.number)
	case fnFirst, fnLast:
		return append(dst, a.raw...), nil
	case fnDistinct:
		return strconv.AppendUint(dst, a.distinct.size(), 10), nil
	case fnPercentile:
		return formula.AppendFloat(dst, a.sketch.quantile(quantile))
	}
	return strconv.AppendUint(dst, a.count, 10), nil
}

// sample returns what a record has for a function, timed if it goes by the time of the record. ok is false for one that is dropped, or that can not be worked with:
// it is counted, and noted.
func (t *Tick) sample(s *stage, fn function, field *formula.Path, it *item, timed bool) (one sample, ok bool) {
	one, ok, err := sampleOf(fn, field, it)
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
	if !ok {
		t.counts[s.index].Dropped++
	}
	return one, ok
}

// sampleOf returns what a record has for a function; ok is false if it lacks the field, or has null there.
func sampleOf(fn function, field *formula.Path, it *item) (s sample, ok bool, err error) {
	s.at = it.EventTime
	if field == nil {
		return s, true, nil
	}
	json, err := it.JSON()
	if err != nil {
		return s, false, err
	}
	r := field.Of(json)
	if r.Type == gjson.Null {
		return s, false, nil
	}
	switch fn {
	case fnCount:
	case fnFirst, fnLast, fnDistinct:
		if s.raw = r.Raw; fn == fnDistinct {
			s.raw = canonical(r)
		}
	default:
		if s.number, err = numberOf(r); err != nil {
			return s, false, &fieldError{field.String(), err}
		}
	}
	return s, true, nil
}

// canonical returns what tells a value from others: a number that is written in two ways is one.
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
func (a *accumulator) appendAggregate(dst []byte, key []byte, fn function, quantile float64) ([]byte, error) {
	dst = append(rawjson.AppendText(append(dst, `{"key":`...), stringOf(key)), `,"value":`...)
	dst, err := a.appendResult(dst, fn, quantile)
	return strconv.AppendUint(append(dst, `,"count":`...), a.count, 10), err
}
