package dashboard

import (
	"context"
	"net/http"
	"slices"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

// wantsStale reports whether a request is a read with stale=true: it is answered from whichever replica is at hand, see floe.Stale, and so without a quorum too.
func wantsStale(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.RawQuery == "" {
		return false
	}
	values := r.URL.Query()["stale"]
	return len(values) == 1 && slices.Contains([]string{"", "1", "true"}, values[0])
}

// staleBackend is a backend whose stores read from whichever replica is at hand.
type staleBackend struct{ Backend }

func (b staleBackend) KV(ns string, _ ...floe.AccessOption) *kv.Store {
	return b.Backend.KV(ns, floe.Stale())
}

func (b staleBackend) Stream(ns string, _ ...floe.AccessOption) *stream.Store {
	return b.Backend.Stream(ns, floe.Stale())
}

func (b staleBackend) Queue(ns string, _ ...floe.AccessOption) *queue.Store {
	return b.Backend.Queue(ns, floe.Stale())
}

func (b staleBackend) TS(ns string, _ ...floe.AccessOption) *ts.Store {
	return b.Backend.TS(ns, floe.Stale())
}

func (b staleBackend) Action(ns string, _ ...floe.AccessOption) *action.Store {
	return b.Backend.Action(ns, floe.Stale())
}

func (b staleBackend) Workflow(ns string, _ ...floe.AccessOption) *workflow.Store {
	return b.Backend.Workflow(ns, floe.Stale())
}

func (b staleBackend) Processing(ns string, _ ...floe.AccessOption) *processing.Store {
	return b.Backend.Processing(ns, floe.Stale())
}

func (b staleBackend) Namespaces(...floe.AccessOption) *floe.Namespaces {
	return b.Backend.Namespaces(floe.Stale())
}

func (b staleBackend) FloQL(ctx context.Context, ns, query string, opts ...floql.Options) (*floql.Result, error) {
	return b.TS(ns).Query(ctx, query, opts...)
}
