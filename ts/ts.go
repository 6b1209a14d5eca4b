package ts

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/floedb/floe/internal/engine"
)

// Limits.
const (
	MaxFields          = 1024    // of a measurement
	MaxTags            = 64      // of a series
	MaxTagBytes        = 255     // of a tag's name
	MaxTagValueBytes   = 1024    // of a tag's value
	MaxTiers           = 8       // rollups of a measurement
	DefaultSeriesLimit = 1000000 // series of a namespace, see Store.SetSeriesLimit
)

// A point may be up to a day in the future, because clocks differ. A time further in the future is
// a mistake, and would keep its partition open.
const maxAhead = 24 * time.Hour

// minPartition is the shortest partition, ms.
const minPartition = int64(time.Hour / time.Millisecond)

// rawPartition is the length of a partition of raw points, ms.
const rawPartition = int64(24 * time.Hour / time.Millisecond)

// The errors of the store; the same values as in package floe.
var (
	ErrNotFound = engine.ErrNotFound // the measurement does not exist
	ErrInvalid  = engine.ErrInvalid  // an argument is malformed or exceeds its limits
	ErrConflict = engine.ErrConflict // the measurement changed during the operation
	ErrBusy     = engine.ErrBusy     // too many points are unsealed
)

// Point is a point to write: values of some fields of a series at a time.
type Point struct {
	Measurement string             // 1-255 bytes of UTF-8 without control characters
	Tags        map[string]string  // with the measurement they identify the series; up to 64
	Fields      map[string]float64 // at least one; all finite
	Time        time.Time          // rounded down to ms; zero means the time of the call
}

// FieldType is the type of a field at its first write. All values are stored as float64.
type FieldType uint8

// The types of fields.
const (
	Float   FieldType = iota + 1
	Integer           // integers beyond 2^53 are rounded
	Boolean           // 1 or 0
)

var fieldTypes = [...]string{Float: "float", Integer: "integer", Boolean: "boolean"}

// String returns float, integer or boolean.
func (t FieldType) String() string {
	if t < Float || t > Boolean {
		return "unknown"
	}
	return fieldTypes[t]
}

// Field is a field of a measurement.
type Field struct {
	Name string
	Type FieldType
}

// Retention sets how long a measurement keeps its points, and its rollups. The zero value keeps
// points forever and has no rollups.
type Retention struct {
	RawTTL     time.Duration // of the raw points; 0: for ever
	Downsample []Downsample  // up to 8, of different lengths
}

// String returns the retention of points, as "7d", "36h" or "∞", followed by each rollup: "7d, 5m
// for 90d, 1h for ∞".
func (r Retention) String() string {
	text := formatTTL(r.RawTTL)
	for _, d := range r.Downsample {
		text += ", " + formatEvery(d.Every) + " for " + formatTTL(d.TTL)
	}
	return text
}

func formatTTL(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "∞"
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	}
	return formatEvery(d)
}

// Downsample is a rollup: count, sum, min, max, first and last of each bucket of time. It is
// readable as "<measurement>:<every>:<aggregate>". Queries over removed points use it
// automatically.
type Downsample struct {
	Every time.Duration // length of a bucket: at least 1 s, in whole ms
	TTL   time.Duration // retention of the buckets; 0: for ever
}

// Is reports whether the rollup's length is every, in the form used in names of rollups, such as
// "5m" in "cpu:5m:max".
func (d Downsample) Is(every string) bool {
	length, err := parseEvery(every)
	return err == nil && length == d.Every
}

// Measurement holds the figures of a measurement.
type Measurement struct {
	Name      string
	CreatedAt time.Time
	Fields    []Field // in order of first write
	Series    int64   // number of series
	Points    int64   // each once, regardless of its fields; duplicates and deleted points are subtracted some minutes later
	// No point is before Oldest or after Newest; both are zero if there are no points. They are
	// exact until points are deleted or expire. After that they may be up to a day off, and for
	// some minutes after a write Newest may be the time of a deleted point.
	Oldest    time.Time
	Newest    time.Time
	Retention Retention
	// Held is the number of points that stay on disk after Retention.RawTTL, which Points does not
	// count. HeldBy is the rollup that must still be computed from them. Both are zero if no rollup
	// needs such points.
	Held   int64
	HeldBy Downsample

	version uint64 // of the retention
}

// Series is a series of a measurement.
type Series struct {
	Measurement string
	Tags        map[string]string
}

// LimitError reports that there is no room for new series. It is ErrBusy. Existing series can still
// be written, and series that are deleted or have no points left make room.
type LimitError struct {
	Namespace string
	Limit     int64 // of the namespace; in a spread namespace, the share of one shard
	Room      int64 // remaining number of series
	Wanted    int64 // number of new series of this call
	Tag       string
	Values    int64 // number of values of the tag that has the most of them
	Spread    bool
}

func (e *LimitError) Error() string {
	share := ""
	if e.Spread {
		share = ", the share of one shard"
	}
	worst := ""
	if e.Tag != "" {
		worst = fmt.Sprintf("; tag %q has %d values", e.Tag, e.Values)
	}
	return fmt.Sprintf("ts: namespace %q: %d new series, there is room for %d of %d%s%s", e.Namespace, e.Wanted, e.Room, e.Limit, share,
		worst)
}

// Unwrap returns ErrBusy.
func (e *LimitError) Unwrap() error { return ErrBusy }

// Lasts returns true, so messages from other shards, such as the records of a job, do not wait for
// room.
func (e *LimitError) Lasts() bool { return true }

func notFound(name string) error { return engine.Errorf(ErrNotFound, "measurement %q not found", name) }

// reservedName is the path of queries in the HTTP API.
const reservedName = "floql"

// aggregates are the aggregate names of rollups, after the last colon of their names.
var aggregates = []string{"count", "sum", "min", "max", "first", "last"}

// checkMeasurement returns ErrInvalid for an invalid measurement name.
func checkMeasurement(name string) error {
	if err := engine.CheckName("measurement", name); err != nil {
		return err
	}
	if name == reservedName {
		return engine.Errorf(ErrInvalid, "measurement name %q is reserved", name)
	}
	if _, _, _, ok := splitRollup(name); ok {
		return engine.Errorf(ErrInvalid, "measurement name %q is that of a rollup, which is read-only", name)
	}
	return nil
}

// splitRollup splits the name of a rollup, such as "cpu:5m:max".
func splitRollup(name string) (of string, every time.Duration, aggregate string, ok bool) {
	rest, aggregate, _ := cutLast(name)
	of, length, found := cutLast(rest)
	if !found || of == "" {
		return "", 0, "", false
	}
	every, err := parseEvery(length)
	for _, a := range aggregates {
		if a == aggregate && err == nil {
			return of, every, aggregate, true
		}
	}
	return "", 0, "", false
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}

// everyUnits are the units of lengths in names of rollups.
var everyUnits = []struct {
	name string
	unit time.Duration
}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// formatEvery formats a length for names of rollups: a number of the largest unit that divides it.
func formatEvery(d time.Duration) string {
	for _, u := range everyUnits {
		if d%u.unit == 0 {
			return fmt.Sprintf("%d%s", d/u.unit, u.name)
		}
	}
	return d.String()
}

// parseEvery parses the output of formatEvery, and other numbers of one unit.
func parseEvery(s string) (time.Duration, error) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	for _, u := range everyUnits {
		if s[digits:] != u.name || digits == 0 || digits > 12 {
			continue
		}
		var n int64
		for _, c := range s[:digits] {
			n = 10*n + int64(c-'0')
		}
		if n > 0 && n <= int64(maxEvery/u.unit) {
			return time.Duration(n) * u.unit, nil
		}
	}
	return 0, engine.Errorf(ErrInvalid, "ts: invalid rollup length %q, expected one like 5m", s)
}

// Limits of rollup buckets.
const (
	minEvery = time.Second
	maxEvery = 366 * 24 * time.Hour
)

// check returns ErrInvalid for a retention out of range.
func (r Retention) check() error {
	if r.RawTTL < 0 || r.RawTTL != 0 && r.RawTTL < time.Second {
		return engine.Errorf(ErrInvalid, "ts: RawTTL %v is less than 1s", r.RawTTL)
	}
	if len(r.Downsample) > MaxTiers {
		return engine.Errorf(ErrInvalid, "ts: %d rollups exceed %d", len(r.Downsample), MaxTiers)
	}
	for i, d := range r.Downsample {
		switch {
		case d.Every < minEvery || d.Every > maxEvery || d.Every%time.Millisecond != 0:
			return engine.Errorf(ErrInvalid, "ts: rollup length %v is not in %v-%v, in whole ms", d.Every, minEvery, maxEvery)
		case d.TTL < 0 || d.TTL != 0 && d.TTL < d.Every:
			return engine.Errorf(ErrInvalid, "ts: rollup every %v: TTL %v is less than a bucket", d.Every, d.TTL)
		}
		for _, other := range r.Downsample[:i] {
			if other.Every == d.Every {
				return engine.Errorf(ErrInvalid, "ts: two rollups every %v", d.Every)
			}
		}
	}
	return nil
}

// checkTag returns ErrInvalid for an invalid tag.
func checkTag(name, value string) error {
	switch {
	case name == "" || value == "":
		return engine.Errorf(ErrInvalid, "ts: tag %q=%q has no name or no value", name, value)
	case len(name) > MaxTagBytes:
		return engine.Errorf(ErrInvalid, "ts: tag name of %d bytes exceeds %d", len(name), MaxTagBytes)
	case len(value) > MaxTagValueBytes:
		return engine.Errorf(ErrInvalid, "ts: tag %q: value of %d bytes exceeds %d", name, len(value), MaxTagValueBytes)
	case !utf8.ValidString(name) || !utf8.ValidString(value):
		return engine.Errorf(ErrInvalid, "ts: tag %q=%q is not valid UTF-8", name, value)
	}
	return nil
}

// checkField returns ErrInvalid for an invalid field name.
func checkField(name string) error { return engine.CheckName("field", name) }
