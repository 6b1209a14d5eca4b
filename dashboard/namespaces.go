package dashboard

import (
	"context"
	"math"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

var namespaceRoutes = []route{
	endpoint("GET /api/v1/namespaces", (*handler).namespaces, "All namespaces, by name."),
	endpoint("POST /api/v1/namespaces", (*handler).createNamespace, "Create a namespace."),
	endpoint("GET /api/v1/namespaces/:namespace", (*handler).namespace, "One namespace."),
	endpoint("GET /api/v1/namespaces/:namespace/streams", (*handler).streams, "The streams of a namespace."),
	endpoint("GET /api/v1/namespaces/:namespace/queues", (*handler).queues, "The queues of a namespace."),
	endpoint("GET /api/v1/namespaces/:namespace/kv", (*handler).namespaceKeys, "The keys of a namespace."),
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

func summarizeNamespace(info floe.NamespaceInfo) namespaceSummary {
	return namespaceSummary{
		Name:            info.Name,
		StreamCount:     info.Counts.Streams,
		QueueCount:      info.Counts.Queues,
		KVCount:         info.Counts.Keys,
		WorkflowCount:   info.Counts.Workflows,
		ProcessingCount: info.Counts.Jobs,
		ActionCount:     info.Counts.Actions,
		IsSystem:        engine.IsSystem(info.Name),
	}
}

// namespacesRequest asks for namespaces: all of them, or limit of those whose names come after one.
type namespacesRequest struct {
	after string
	limit int
}

func (q *namespacesRequest) parse(in *input) {
	q.after = in.text("after")
	q.limit = int(in.integer("limit", span{absent: math.MaxInt, min: 1, max: pageLimit.max}))
}

func (h *handler) namespaces(ctx context.Context, q namespacesRequest) ([]namespaceSummary, error) {
	return listNamespaces(ctx, h, q, summarizeNamespace)
}

// listNamespaces converts the namespaces that were asked for. The list is never nil.
func listNamespaces[T any](ctx context.Context, h *handler, q namespacesRequest, convert func(floe.NamespaceInfo) T) ([]T, error) {
	list := []T{}
	for info, err := range h.backend.Namespaces().All(ctx) {
		if err != nil {
			return nil, err
		}
		if len(list) == q.limit {
			break
		}
		if info.Name > q.after {
			list = append(list, convert(info))
		}
	}
	return list, nil
}

// createNamespaceRequest is the body {"name": "..."}.
type createNamespaceRequest struct{ name string }

func (q *createNamespaceRequest) parse(in *input) { q.name = in.body().text("name") }

type namespaceCreated struct {
	OK   bool   `json:"ok"`
	Name string `json:"name"`
}

func (h *handler) createNamespace(ctx context.Context, q createNamespaceRequest) (namespaceCreated, error) {
	if err := h.backend.Namespaces().Create(ctx, q.name); err != nil {
		return namespaceCreated{}, err
	}
	return namespaceCreated{OK: true, Name: q.name}, nil
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
	info, err := h.backend.Namespaces().Get(ctx, q.namespace)
	if err != nil {
		return namespaceDetail{}, err
	}
	return namespaceDetail{summarizeNamespace(info), info.CreatedAt.UnixMilli()}, nil
}

// listRequest asks for limit items of a namespace whose names come after one.
type listRequest struct {
	namespace string
	after     string
	limit     int
}

func (q *listRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.after = in.text("after")
	q.limit = int(in.integer("limit", pageLimit))
}

// namespaceKeysRequest asks for limit keys that come after one. after is written as the listing writes keys.
type namespaceKeysRequest struct {
	namespace string
	after     string
	limit     int
	encoding  encoding
}

func (q *namespaceKeysRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.limit = int(in.integer("limit", pageLimit))
	q.encoding = in.encoding()
	var err error
	q.after, err = q.encoding.decoded("parameter after", in.text("after"))
	in.check(err)
}

func (h *handler) namespaceKeys(ctx context.Context, q namespaceKeysRequest) ([]scanItem, error) {
	page, err := h.backend.KV(q.namespace).Page(ctx, "", kv.KeysOnly(), kv.Limit(q.limit), kv.After(q.after))
	if err != nil {
		return nil, err
	}
	items := make([]scanItem, 0, len(page.Items))
	for _, item := range page.Items {
		items = append(items, q.encoding.item(item))
	}
	return items, nil
}
