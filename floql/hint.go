package floql

import (
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/pushdown"
)

// maxHints is the maximum number of hints of a result.
const maxHints = 10

// hints returns the possible mistakes in the selections without series. It omits those that the
// source cannot find in time, because the result is complete without hints.
func (r *run) hints() (all []string) {
	add := func(hint string) {
		if len(all) < maxHints && !slices.Contains(all, hint) { // joined queries may have the same mistake
			all = append(all, hint)
		}
	}
	namer, _ := r.src.(pushdown.Namer[Selection])
	for _, sel := range r.unmatched {
		if namer != nil {
			unknown, err := namer.Unknown(r.ctx, sel)
			if err != nil {
				namer = nil
			}
			for _, u := range unknown[:min(len(unknown), maxHints-len(all))] { // a suggestion takes up to some ms
				add(u.Message + suggest(u.Name, u.Known))
			}
		}
		for i := range sel.Filters {
			if f := &sel.Filters[i]; f.looksRegular() {
				add(fmt.Sprintf("%s selects no series: patterns are globs, not regular expressions, so that . is a dot and * is any characters", f))
			}
		}
	}
	return all
}
