package floql

import (
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Point is a point of a result.
type Point struct {
	Time  time.Time // in whole milliseconds
	Value float64   // NaN for a null, as fill(null) writes into empty buckets; all other values are finite
}

// IsNull reports whether the point has no value.
func (p Point) IsNull() bool { return isNull(p.Value) }

// ResultSeries is a series of a result.
type ResultSeries struct {
	Key    string // the measurement or the alias
	Field  string
	Tags   []Tag   // by key; after an aggregation, those of its group
	Points []Point // by time, at least one
}

// Stats are the costs of a query.
type Stats struct {
	Series  int64 // series read
	Points  int64 // points read
	Elapsed time.Duration
}

// Result is the result of a query. Its JSON is the query response of the HTTP API: {query,
// series[]: {key, field, point_count, tags[]: {key, value}, points[]: {timestamp, value}}} and, if
// there are any, hints[].
type Result struct {
	Query  string         // as given
	Series []ResultSeries // in order of key, field and tags, unless sort() ordered them
	// Hints are possible mistakes in a query without results, at most 10: names that do not exist,
	// with the nearest existing one, and regular expressions where globs are expected.
	Hints []string
	Stats Stats
}

// result makes a result from the last frame.
func (r *run) result(q *Query, f *frame) (*Result, error) {
	total := int64(0)
	for _, fs := range f.series {
		total += int64(len(fs.times))
	}
	if err := r.limits.checkResult(total); err != nil {
		return nil, err
	}
	if !f.sorted {
		sortFrame(f)
	}
	res := &Result{Query: q.text, Stats: Stats{Series: r.series, Points: r.points}}
	for _, fs := range f.series {
		if len(fs.times) == 0 {
			continue
		}
		s := ResultSeries{Key: f.key, Field: fs.Field, Tags: slices.Clone(fs.Tags), Points: make([]Point, len(fs.times))}
		for i, t := range fs.times {
			if s.Points[i] = (Point{time.UnixMilli(t).UTC(), fs.values[i]}); fs.values[i] == 0 {
				s.Points[i].Value = 0 // show -0 as 0
			}
		}
		res.Series = append(res.Series, s)
	}
	if len(res.Series) == 0 {
		res.Hints = r.hints()
	}
	return res, nil
}

// MarshalJSON returns the query response of the HTTP API.
func (r *Result) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// AppendJSON appends the query response of the HTTP API.
func (r *Result) AppendJSON(dst []byte) []byte {
	dst = appendString(append(dst, `{"query":`...), r.Query)
	dst = append(dst, `,"series":[`...)
	for i := range r.Series {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.Series[i].appendJSON(dst)
	}
	dst = append(dst, ']')
	for i, hint := range r.Hints {
		if i == 0 {
			dst = append(dst, `,"hints":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendString(dst, hint)
	}
	if len(r.Hints) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func (s *ResultSeries) appendJSON(dst []byte) []byte {
	dst = appendString(append(dst, `{"key":`...), s.Key)
	dst = appendString(append(dst, `,"field":`...), s.Field)
	dst = strconv.AppendInt(append(dst, `,"point_count":`...), int64(len(s.Points)), 10)
	dst = append(dst, `,"tags":[`...)
	for i, t := range s.Tags {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(append(dst, `{"key":`...), t.Key)
		dst = append(appendString(append(dst, `,"value":`...), t.Value), '}')
	}
	dst = append(dst, `],"points":[`...)
	for i, p := range s.Points {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, `{"timestamp":`...), p.Time.UnixMilli(), 10)
		dst = append(appendNumber(append(dst, `,"value":`...), p.Value), '}')
	}
	return append(dst, "]}"...)
}

// appendNumber appends a number in the format of encoding/json, except that exponents have at least
// two digits; null for NaN.
func appendNumber(dst []byte, v float64) []byte {
	if !isFinite(v) {
		return append(dst, "null"...)
	}
	if m := math.Abs(v); m != 0 && (m < 1e-6 || m >= 1e21) {
		return strconv.AppendFloat(dst, v, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}

// appendString appends a JSON string; bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c < 0x20:
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[c>>4], hex[c&15])
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return append(dst, '"')
}
