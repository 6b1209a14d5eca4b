package check

import (
	"testing"
	"time"
)

func TestSeries(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	for name, c := range map[string]struct {
		do  func(s *Series)
		got map[int64]float64
		ok  bool
	}{
		"acknowledged":          {func(s *Series) { s.Writing("a", at(1), 5); s.Written("a", at(1), 5) }, map[int64]float64{1: 5}, true},
		"acknowledged and lost": {func(s *Series) { s.Writing("a", at(1), 5); s.Written("a", at(1), 5) }, nil, false},
		"of nobody":             {func(*Series) {}, map[int64]float64{1: 5}, false},
		"another value":         {func(s *Series) { s.Writing("a", at(1), 5); s.Written("a", at(1), 5) }, map[int64]float64{1: 6}, false},
		"unknown, there":        {func(s *Series) { s.Writing("a", at(1), 5) }, map[int64]float64{1: 5}, true},
		"unknown, not there":    {func(s *Series) { s.Writing("a", at(1), 5) }, nil, true},
		"refused":               {func(s *Series) { s.Writing("a", at(1), 5); s.Refused("a", at(1), 5) }, map[int64]float64{1: 5}, false},
		"replaced": {func(s *Series) {
			s.Writing("a", at(1), 5)
			s.Written("a", at(1), 5)
			s.Writing("a", at(1), 6)
			s.Written("a", at(1), 6)
		}, map[int64]float64{1: 5}, false},
		"deleted": {func(s *Series) { s.Writing("a", at(1), 5); s.Written("a", at(1), 5); s.Deleting("a"); s.Deleted("a") },
			map[int64]float64{1: 5}, false},
		"perhaps deleted":   {func(s *Series) { s.Writing("a", at(1), 5); s.Written("a", at(1), 5); s.Deleting("a") }, nil, true},
		"deleted, is there": {func(s *Series) { s.Deleting("a"); s.Deleted("a") }, nil, true},
	} {
		s := NewSeries()
		c.do(s)
		if err := s.Read("a", c.got); (err == nil) != c.ok {
			t.Errorf("%s: %v, want it fine: %v", name, err, c.ok)
		}
	}
}

func TestStrays(t *testing.T) {
	s := NewSeries()
	at := time.UnixMilli(1)
	s.Writing("a", at, 5)
	s.Written("a", at, 5)
	s.Writing("a", at, 6)
	s.Written("a", at, 6)
	s.Writing("a", at, 7)
	s.Refused("a", at, 7)
	for v, fine := range map[float64]bool{5: true, 6: true, 7: false, 8: false} {
		if err := s.Strays("a", map[int64]float64{1: v}); (err == nil) != fine {
			t.Errorf("Strays with %v = %v, want it fine: %v", v, err, fine)
		}
		if s.Strays("b", map[int64]float64{1: v}) == nil {
			t.Errorf("%v may be in another series", v)
		}
	}
	if err := s.Strays("a", nil); err != nil {
		t.Error(err)
	}
}
