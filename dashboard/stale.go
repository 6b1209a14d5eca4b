package dashboard

import (
	"net/http"
	"slices"
)

// wantsStale reports whether a request is a read with stale=true: it is answered from whichever
// replica is at hand, see floe.Stale, and so without a quorum too.
func wantsStale(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.RawQuery == "" {
		return false
	}
	values := r.URL.Query()["stale"]
	return len(values) == 1 && slices.Contains([]string{"", "1", "true"}, values[0])
}

// staleBackend is a backend whose stores read from whichever replica is at hand.
type staleBackend struct{ Backend }
