package floql

import (
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/pushdown"
)

// maxHints is the maximum number of hints of a result.
const maxHints = 10

// hints returns the possible mistakes in the selections without series. It leaves out what the
// source cannot tell in time: the result is complete without hints.
func (r *run) hints() (all []string) {
	namer, _ := r.src.(pushdown.Namer[Selection])
	for _, sel := range r.unmatched {
		if namer != nil {
			unknown, err := namer.Unknown(r.ctx, sel)
			if err != nil {
				namer = nil
			}
			for _, u := range unknown {
				all = append(all, u.Message+suggest(u.Name, u.Known))
			}
		}
		for i := range sel.Filters {
			if f := &sel.Filters[i]; f.looksRegular() {
				all = append(all,
					fmt.Sprintf("%s selects no series: patterns are globs, not regular expressions, so that . is a dot and * is any characters", f))
			}
		}
	}
	slices.Sort(all) // joined queries may have the same mistake
	all = slices.Compact(all)
	return all[:min(len(all), maxHints)]
}
