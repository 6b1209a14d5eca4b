package dashboard

import (
	"context"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
)

var namespaceRoutes = []route{
	endpoint("GET /api/v1/namespaces", (*handler).namespaces, "List all namespaces, by name."),
	endpoint("POST /api/v1/namespaces", (*handler).createNamespace, "Create a namespace; with spread, over all shards."),
	endpoint("DELETE /api/v1/namespaces/:namespace", (*handler).deleteNamespace, "Delete an empty namespace."),
	endpoint("GET /api/v1/namespaces/:namespace", (*handler).namespace, "Get a namespace."),
	endpoint("GET /api/v1/namespaces/:namespace/streams", (*handler).streams, "List the streams of a namespace."),
	endpoint("GET /api/v1/namespaces/:namespace/queues", (*handler).queues, "List the queues of a namespace."),
	endpoint("GET /api/v1/namespaces/:namespace/kv", (*handler).namespaceKeys, "List the keys of a namespace."),
}

// namespaceSummary is an item of /namespaces.
type namespaceSummary struct {
	Name            string `json:"name"`
	StreamCount     int64  `json:"stream_count"`
	QueueCount      int64  `json:"queue_count"`
	KVCount         int64  `json:"kv_count"`
	WorkflowCount   int64  `json:"workflow_count"`
	ProcessingCount int64  `json:"processing_count"`
	ActionCount     int64  `json:"action_count"`
	IsSystem        bool   `json:"is_system"`
}

func summarizeNamespace(s floe.NamespaceStats) namespaceSummary {
	return namespaceSummary{
		Name:            s.Name,
		StreamCount:     s.Counts.Streams,
		QueueCount:      s.Counts.Queues,
		KVCount:         s.Counts.Keys,
		WorkflowCount:   s.Counts.Workflows,
		ProcessingCount: s.Counts.Jobs,
		ActionCount:     s.Counts.Actions,
		IsSystem:        engine.IsSystem(s.Name),
	}
}

// namespacesRequest asks for limit namespaces with names after a given one.
type namespacesRequest struct {
	after string
	limit int
}

func (q *namespacesRequest) parse(in *input) {
	q.after = in.lastName()
	q.limit = in.listLimit()
}

func (h *handler) namespaces(ctx context.Context, q namespacesRequest) (listing[namespaceSummary], error) {
	return listNamespaces(ctx, h, q, summarizeNamespace)
}

// listNamespaces lists the requested namespaces.
func listNamespaces[T any](ctx context.Context, h *handler, q namespacesRequest, convert func(floe.NamespaceStats) T) (listing[T], error) {
	page := func(after string, n int) ([]floe.NamespaceStats, string, error) {
		p, err := h.backend.Namespaces().Page(ctx, floe.Cursor(after), floe.Limit(n))
		return p.Items, p.Cursor, err
	}
	return collect(q.after, q.limit, page, convert, nil)
}

// createNamespaceRequest is the body {"name": "...", "spread": true}.
type createNamespaceRequest struct {
	name   string
	spread bool
}

func (q *createNamespaceRequest) parse(in *input) {
	o := in.body()
	q.name, q.spread = o.text("name"), o.boolean("spread")
}

// namespaceDone is the response to a change of the namespaces.
type namespaceDone struct {
	OK   bool   `json:"ok"`
	Name string `json:"name"`
}

func (h *handler) createNamespace(ctx context.Context, q createNamespaceRequest) (namespaceDone, error) {
	var opts []floe.NamespaceOption
	if q.spread {
		opts = append(opts, floe.Spread())
	}
	return namespaceDone{OK: true, Name: q.name}, h.backend.Namespaces().Create(ctx, q.name, opts...)
}

func (h *handler) deleteNamespace(ctx context.Context, q namespaceRequest) (namespaceDone, error) {
	return namespaceDone{OK: true, Name: q.namespace}, h.backend.Namespaces().Delete(ctx, q.namespace)
}

// namespaceRequest names a namespace.
type namespaceRequest struct{ namespace string }

func (q *namespaceRequest) parse(in *input) { q.namespace = in.namespace() }

// namespaceDetail is the body of /namespaces/:namespace.
type namespaceDetail struct {
	namespaceSummary
	CreatedAt int64 `json:"created_at"`
}

func (h *handler) namespace(ctx context.Context, q namespaceRequest) (namespaceDetail, error) {
	stats, err := h.backend.Namespaces().Get(ctx, q.namespace)
	if err != nil {
		return namespaceDetail{}, err
	}
	return namespaceDetail{summarizeNamespace(stats), stats.CreatedAt.UnixMilli()}, nil
}

// listRequest asks for limit items of a namespace with names after a given one.
type listRequest struct {
	namespace string
	below     bool // the path names the namespace
	after     string
	limit     int
}

func (q *listRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.below = in.path.ByName("namespace") != ""
	q.after = in.lastName()
	q.limit = in.listLimit()
}

// exists returns ErrNotFound if the request's path is below a namespace that does not exist.
func (q *listRequest) exists(ctx context.Context, h *handler) error {
	if !q.below {
		return nil
	}
	_, err := h.backend.Namespaces().Get(ctx, q.namespace)
	return err
}

func (b staleBackend) Namespaces(...floe.AccessOption) *floe.Namespaces {
	return b.DB.Namespaces(floe.Stale())
}
