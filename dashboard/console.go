package dashboard

import (
	"context"
	"net/http"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/stream/processing"
)

// consoleRoutes are the console's endpoints beyond the API; those of a resource are in its file.
var consoleRoutes = []route{
	endpoint("GET /api/v1/console/me", (*handler).me, "Get the permissions of the caller."),
	endpoint("GET /api/v1/console/rates", (*handler).consoleRates, "Get the activity of the node per second, for the last five minutes."),
	endpoint("GET /api/v1/console/shards", (*handler).shards, "List the shards with their leaders."),
	endpoint("GET /api/v1/console/problems", (*handler).problems, "List the problems of a namespace that need attention."),
	endpoint("GET "+keysPath, (*handler).keyList, "List the API keys, without their secrets. It requires the role admin."),
	endpoint("GET /api/v1/console/queues/:name", (*handler).queueState,
		"Get whether a queue is paused, its settings, and the reasons of its dead letters."),
	endpoint("GET /api/v1/console/streams/:name", (*handler).streamState, "Get the retention of a stream."),
	endpoint("GET /api/v1/console/processing/jobs/:id", (*handler).jobWork,
		"Get the counters of a job's operators, and why it waits or has failed."),
	endpoint("POST "+validatePath, (*handler).validate, "Validate a definition, which is the body, and return its problems and graph."),
}

const (
	validatePath = "/api/v1/console/validate"
	keysPath     = "/api/v1/console/keys"
)

// caller describes the permissions of a request's caller.
type caller struct {
	Role       string    `json:"role"`        // admin, write or read
	Namespaces *[]string `json:"namespaces"`  // null: all
	ExpiresAt  *int64    `json:"expires_at"`  // of the session, ms; null: never
	ReadOnly   bool      `json:"read_only"`   // the dashboard rejects all changes
	ClientAddr string    `json:"client_addr"` // on which the node listens for clients; "": unknown
}

func (h *handler) me(ctx context.Context, q tokenRequest) (caller, error) {
	who, err := h.backend.Keys().Authenticate(ctx, q.token)
	if err != nil {
		return caller{}, err
	}
	key := who.Key()
	c := caller{Role: string(key.Role), Namespaces: onlyIn(key.Namespaces), ReadOnly: h.readOnly, ClientAddr: h.clientAddr}
	if ends := who.Ends(); !ends.IsZero() {
		c.ExpiresAt = new(ends.UnixMilli())
	}
	return c, nil
}

// onlyIn returns the namespaces of a key, nil if it is for all.
func onlyIn(namespaces []string) *[]string {
	if namespaces == nil {
		return nil
	}
	return &namespaces
}

// keyRecord is an item of /console/keys: an API key without its secret.
type keyRecord struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Role       string    `json:"role"`
	Namespaces *[]string `json:"namespaces"` // null: all
	CreatedAt  int64     `json:"created_at"`
	ExpiresAt  *int64    `json:"expires_at"`   // null: never
	LastUsedAt *int64    `json:"last_used_at"` // accurate to about five minutes; null: never
}

func (h *handler) keyList(ctx context.Context, q namespacesRequest) (listing[keyRecord], error) {
	if enabled, err := h.backend.Keys().Enabled(ctx); err != nil || !enabled {
		return listing[keyRecord]{items: []keyRecord{}}, err
	}
	page := func(after string, n int) ([]floe.Key, string, error) {
		p, err := h.backend.Keys().Page(ctx, floe.Cursor(after), floe.Limit(n))
		return p.Items, p.Cursor, err
	}
	convert := func(k floe.Key) keyRecord {
		return keyRecord{k.ID, k.Name, string(k.Role), onlyIn(k.Namespaces), k.CreatedAt.UnixMilli(), givenMillis(k.ExpiresAt),
			givenMillis(k.LastUsedAt)}
	}
	return collect(q.after, q.limit, page, convert, nil)
}

// reading are the endpoints that change nothing although their method is not GET.
var reading = map[string]bool{
	http.MethodPost + " " + floqlPath:     true,
	http.MethodPost + " " + validatePath:  true,
	http.MethodPost + " " + getsPath:      true,
	http.MethodPost + " " + planPath:      true,
	http.MethodPost + " " + sessionPath:   true,
	http.MethodDelete + " " + sessionPath: true,
}

// checkReadOnly rejects an endpoint that changes something if the dashboard is read-only.
func (h *handler) checkReadOnly(rt *route) error {
	if h.readOnly && rt.role() != floe.RoleRead {
		return engine.Errorf(errForbidden, "this dashboard is for reading only")
	}
	return nil
}

// validateRequest is a definition: the body.
type validateRequest struct {
	kind       string
	definition []byte
}

func (q *validateRequest) parse(in *input) {
	in.required("kind", "workflow or processing")
	q.kind = in.oneOf("kind", "workflow", "processing")
	in.reads(yamlMedia)
	if in.err != nil {
		return
	}
	in.maxBody = min(in.maxBody, flow.MaxSource)
	var err error
	q.definition, err = in.readBody()
	in.check(err)
}

// validation is the result of validating a definition.
type validation struct {
	Problems []problem `json:"problems"`
	Graph    graph     `json:"graph"` // empty if it cannot be parsed
}

// problem is a mistake in a definition.
type problem struct {
	Line     int    `json:"line"`     // from 1
	Column   int    `json:"column"`   // from 1; 0: the whole line
	Severity string `json:"severity"` // error or warning
	Message  string `json:"message"`
}

// graph is a definition as a graph for display.
type graph struct {
	Nodes []graphNode `json:"nodes"` // in reading order
	Edges []graphEdge `json:"edges"`
}

type graphNode struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Label string `json:"label"`
	Line  int    `json:"line"` // line of its definition; 0: none
}

type graphEdge struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Label string `json:"label"`
}

func (h *handler) validate(_ context.Context, q validateRequest) (validation, error) {
	v := validation{Problems: []problem{}, Graph: graph{Nodes: []graphNode{}, Edges: []graphEdge{}}}
	if q.kind == "processing" {
		for _, p := range processing.Validate(q.definition) {
			severity := "error"
			if p.Warning {
				severity = "warning"
			}
			v.Problems = append(v.Problems, problem{Line: p.Line, Severity: severity, Message: p.Message})
		}
		v.Graph = jobGraph(q.definition)
		return v, nil
	}
	definition, problems := flow.Parse(q.definition)
	for _, p := range problems {
		v.Problems = append(v.Problems, problem{Line: p.Line, Severity: p.Severity.String(), Message: p.Message})
	}
	if definition != nil {
		v.Graph = flowGraph(definition, q.definition)
	}
	return v, nil
}
