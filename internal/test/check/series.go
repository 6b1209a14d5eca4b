package check

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Series records the writes and reads of time series. An acknowledged point has its value until
// another one is written there or its series is deleted, and no point has a value that was never
// written. Each series belongs to one writer, who makes one call at a time. It is safe for
// concurrent use.
type Series struct {
	mu     sync.Mutex // guards what follows
	series map[string]*seriesHistory
}

// seriesHistory is the known state of a series.
type seriesHistory struct {
	points map[int64]*pointHistory
	unsure bool // a deletion may have happened, or may still happen
}

// pointHistory is the known state of a point: the last acknowledged value, and other values that it
// may have.
type pointHistory struct {
	acked float64
	there bool // acked is set
	maybe []float64
	ever  []float64 // all that were written and not refused
}

// NewSeries returns the check of series without points.
func NewSeries() *Series { return &Series{series: make(map[string]*seriesHistory)} }

func (s *Series) history(name string) *seriesHistory {
	h := s.series[name]
	if h == nil {
		h = &seriesHistory{points: make(map[int64]*pointHistory)}
		s.series[name] = h
	}
	return h
}

func (h *seriesHistory) point(at time.Time) *pointHistory {
	p := h.points[at.UnixMilli()]
	if p == nil {
		p = new(pointHistory)
		h.points[at.UnixMilli()] = p
	}
	return p
}

// Writing notes that a value is about to be written, which must be unique among all writes.
func (s *Series) Writing(name string, at time.Time, value float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.history(name).point(at)
	p.maybe, p.ever = append(p.maybe, value), append(p.ever, value)
}

// Written notes that a write was acknowledged.
func (s *Series) Written(name string, at time.Time, value float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.history(name).point(at)
	p.forget(value)
	p.acked, p.there = value, true
}

// Refused notes that a write did not happen.
func (s *Series) Refused(name string, at time.Time, value float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.history(name).point(at)
	p.forget(value)
	p.ever = slices.DeleteFunc(p.ever, func(v float64) bool { return v == value })
}

func (p *pointHistory) forget(value float64) {
	p.maybe = slices.DeleteFunc(p.maybe, func(v float64) bool { return v == value })
}

// Deleting notes that a series is about to be deleted.
func (s *Series) Deleting(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history(name).unsure = true
}

// Deleted notes that the deletion of a series was acknowledged, and that no other one is active.
func (s *Series) Deleted(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.history(name)
	h.unsure = false
	for _, p := range h.points {
		p.there = false
	}
}

// Unsure reports whether a deletion of a series may have happened, or may still happen.
func (s *Series) Unsure(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history(name).unsure
}

// Names returns the series that were written or deleted.
func (s *Series) Names() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.series {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Read compares all points of a series, by times in ms, with the expected ones. Nothing may be
// written to it in the meantime.
func (s *Series) Read(name string, got map[int64]float64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.history(name)
	for at, v := range got {
		p := h.points[at]
		if p == nil || !(p.there && p.acked == v) && !slices.Contains(p.maybe, v) {
			return fmt.Errorf("series %q has %v at %d, which was not written: %+v", name, v, at, p)
		}
	}
	for at, p := range h.points {
		if _, ok := got[at]; p.there && !ok && !h.unsure {
			return fmt.Errorf("series %q has no value at %d, where %v was acknowledged", name, at, p.acked)
		}
	}
	return nil
}

// Strays compares the points of a series with all values ever written to it, for a node that has
// lost its newest writes. The remaining values may be old, and deleted ones may be back, but none
// may appear in another series.
func (s *Series) Strays(name string, got map[int64]float64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.history(name)
	for at, v := range got {
		if p := h.points[at]; p == nil || !slices.Contains(p.ever, v) {
			return fmt.Errorf("series %q has %v at %d, which was never written to it: %+v", name, v, at, p)
		}
	}
	return nil
}
