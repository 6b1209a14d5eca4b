package schedule

import (
	"testing"

	"github.com/floedb/floe/internal/cron"
)

// TestFollows checks that ticks are accepted only if they continue the schedule.
func TestFollows(t *testing.T) {
	for name, test := range map[string]struct {
		d    Due
		want bool
	}{
		"one":              {Due{Revision: 7, After: 1000, Run: []int64{1500}, Last: 1500, Next: 2000}, true},
		"none":             {Due{Revision: 7, After: 1000, Last: 1000, Next: 1001}, true},
		"the last":         {Due{Revision: 7, After: 1000, Run: []int64{1500}, Last: 1500, Next: cron.Never}, true},
		"another revision": {Due{Revision: 6, After: 1000, Run: []int64{1500}, Last: 1500, Next: 2000}, false},
		"from elsewhere":   {Due{Revision: 7, After: 999, Run: []int64{1500}, Last: 1500, Next: 2000}, false},
		"back":             {Due{Revision: 7, After: 1000, Run: []int64{1000}, Last: 1500, Next: 2000}, false},
		"twice":            {Due{Revision: 7, After: 1000, Run: []int64{1500, 1500}, Last: 1500, Next: 2000}, false},
		"again":            {Due{Revision: 7, After: 1000, Run: []int64{1500}, Last: 1499, Next: 2000}, false},
		"next is decided":  {Due{Revision: 7, After: 1000, Run: []int64{1500}, Last: 1500, Next: 1500}, false},
		"fewer than none":  {Due{Revision: 7, After: 1000, Missed: -1, Last: 1500, Next: 2000}, false},
	} {
		if got := test.d.Follows(7, 1000); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
