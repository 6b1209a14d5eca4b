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
		"deleted":           {func(s *Series) { s.Writing("a", at(1), 5); s.Written("a", at(1), 5); s.Deleting("a"); s.Deleted("a") }, map[int64]float64{1: 5}, false},
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
