package floql

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"
)

// Slice is a Source of points in memory. Build it with Add before querying; it must not change
// while queries read it. The zero value has no series.
type Slice struct {
	measurements map[string]map[string]*points
}

// points are those of one series, in order of time.
type points struct {
	series Series
	times  []int64
	values []float64
}

// Add adds a point, in any order. Its time is rounded down to ms. A later value at the same time
// replaces the earlier one. Tags with an empty value are ignored.
//
// Errors: if the value is not finite.
func (s *Slice) Add(measurement string, tags map[string]string, field string, t time.Time, value float64) error {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return fmt.Errorf("value %v is not finite", value)
	}
	p, millis := s.points(measurement, field, sortTags(tags)), t.UnixMilli()
	i, found := slices.BinarySearch(p.times, millis)
	if found {
		p.values[i] = value
		return nil
	}
	p.times = slices.Insert(p.times, i, millis)
	p.values = slices.Insert(p.values, i, value)
	return nil
}

func (s *Slice) points(measurement, field string, tags []Tag) *points {
	if s.measurements == nil {
		s.measurements = make(map[string]map[string]*points)
	}
	all := s.measurements[measurement]
	if all == nil {
		all = make(map[string]*points)
		s.measurements[measurement] = all
	}
	id := field + "\x00" + tagsID(tags)
	if all[id] == nil {
		all[id] = &points{series: Series{Field: field, Tags: tags}}
	}
	return all[id]
}

func sortTags(tags map[string]string) (sorted []Tag) {
	for k, v := range tags {
		if v != "" {
			sorted = append(sorted, Tag{k, v})
		}
	}
	slices.SortFunc(sorted, func(a, b Tag) int { return cmp.Compare(a.Key, b.Key) })
	return sorted
}

// Read iterates over the points of a selection, see Source.
func (s *Slice) Read(ctx context.Context, sel Selection) iter.Seq2[Column, error] {
	return func(yield func(Column, error) bool) {
		for _, p := range s.measurements[sel.Measurement] {
			if err := ctx.Err(); err != nil {
				yield(Column{}, err)
				return
			}
			from, _ := slices.BinarySearch(p.times, sel.From-sel.LookBack)
			to, _ := slices.BinarySearch(p.times, sel.To)
			if from == to {
				continue
			}
			// A filter may take milliseconds for a long value.
			selected := true
			for i := 0; i < len(sel.Filters) && selected; i++ {
				if err := ctx.Err(); err != nil {
					yield(Column{}, err)
					return
				}
				selected = sel.Filters[i].Matches(p.series.Tag(sel.Filters[i].Tag))
			}
			if selected && sel.selectsField(p.series.Field) && !yield(Column{&p.series, p.times[from:to], p.values[from:to]}, nil) {
				return
			}
		}
	}
}

// Selects reports whether the filters and fields of a selection match a series.
func (s *Selection) Selects(series *Series) bool {
	if !s.selectsField(series.Field) {
		return false
	}
	for i := range s.Filters {
		if !s.Filters[i].Matches(series.Tag(s.Filters[i].Tag)) {
			return false
		}
	}
	return true
}

func (s *Selection) selectsField(field string) bool {
	return len(s.Fields) == 0 || slices.Contains(s.Fields, field)
}

// Tag returns the value of a tag, "" if the series does not have it.
func (s *Series) Tag(key string) string {
	for i := range s.Tags {
		if s.Tags[i].Key == key {
			return s.Tags[i].Value
		}
	}
	return ""
}
