package quota

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// suite stands in for the test of a suite.
type suite struct {
	testing.TB
	failed  bool
	cleanup []func()
}

func (s *suite) Failed() bool          { return s.failed }
func (s *suite) Errorf(string, ...any) { s.failed = true }
func (s *suite) Logf(string, ...any)   {}
func (s *suite) Helper()               {}
func (s *suite) Cleanup(f func())      { s.cleanup = append(s.cleanup, f) }

func TestQuota(t *testing.T) {
	for _, c := range []struct {
		rounds, least, failAt int
		last                  time.Duration
		want                  int
		fails                 bool
	}{
		{rounds: 7, want: 7},
		{rounds: 0, want: 0},
		{rounds: 7, least: 100, want: 7}, // no time given
		{rounds: 7, last: 5 * time.Second, want: 5},
		{rounds: 7, last: 5 * time.Second, least: 5, want: 5},
		{rounds: 7, last: 5 * time.Second, least: 20, want: 20},
		{rounds: 7, last: 5 * time.Second, least: 40, want: 40},
		{rounds: 7, failAt: 3, want: 3, fails: true},
		{rounds: 7, last: time.Hour, failAt: 3, least: 3, want: 3, fails: true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(suite)
				q := New(s, c.rounds)
				q.last, q.least = c.last, c.least
				for q.More() {
					<-time.After(time.Second)
					s.failed = q.Rounds() == c.failAt
				}
				for _, f := range s.cleanup {
					f()
				}
				if q.Rounds() != c.want || s.failed != c.fails {
					t.Errorf("%d rounds, failed %v; want %d, %v", q.Rounds(), s.failed, c.want, c.fails)
				}
			})
		})
	}
}
