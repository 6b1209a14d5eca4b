package machinetest

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
)

// Limit is a documented limit. Numbers from Least to Most are accepted. Numbers just outside return
// ErrInvalid, or Beyond, with a message that names the problem.
type Limit struct {
	Name        string
	Least, Most int64 // math.MinInt64 and math.MaxInt64 for no bound
	Beyond      error // nil: ErrInvalid
	Says        []string
	Try         func(n int64) error
}

// TryLimits tries the numbers at and beside each limit.
func TryLimits(t *testing.T, limits []Limit) {
	for _, l := range limits {
		beyond := l.Beyond
		if beyond == nil {
			beyond = engine.ErrInvalid
		}
		good := func(n int64) {
			if err := l.Try(n); errors.Is(err, beyond) || errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%s %d is refused: %v", l.Name, n, err)
			}
		}
		bad := func(n int64) {
			err := l.Try(n)
			if !errors.Is(err, beyond) {
				t.Errorf("%s %d: %v, want %v", l.Name, n, err, beyond)
				return
			}
			for _, part := range l.Says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s %d: %q does not say %q", l.Name, n, err, part)
				}
			}
		}
		if l.Least > math.MinInt64 {
			bad(l.Least - 1)
			good(l.Least)
			if l.Least < l.Most {
				good(l.Least + 1)
			}
		}
		if l.Most < math.MaxInt64 {
			if l.Least < l.Most {
				good(l.Most - 1)
			}
			good(l.Most)
			bad(l.Most + 1)
		}
	}
}
