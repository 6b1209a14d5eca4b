package dashboard

import (
	"net/http"
	"slices"

	"github.com/floedb/floe"
)

// wantsStale reports whether a request is a read with stale=true: any available replica answers it,
// see floe.Stale, so it needs no quorum.
func wantsStale(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.RawQuery == "" {
		return false
	}
	values := r.URL.Query()["stale"]
	return len(values) == 1 && slices.Contains([]string{"", "1", "true"}, values[0])
}

// staleBackend is a backend whose stores read from any available replica.
type staleBackend struct{ floe.DB }
