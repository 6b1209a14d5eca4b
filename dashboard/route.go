package dashboard

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/floedb/floe"
)

// allRoutes is the table of all endpoints. Each resource has its rows in its own file.
func allRoutes() []route {
	return slices.Concat(healthRoutes, authRoutes, clusterRoutes, namespaceRoutes, kvRoutes, streamRoutes, groupRoutes, queueRoutes,
		timeseriesRoutes, actionRoutes, consoleRoutes,
		withAliases(workflowRoutes), flowStartRoutes, processingRoutes)
}

// route is a row of the table: an endpoint and everything known about it.
type route struct {
	method   string
	path     string // a segment ":name" is a parameter
	doc      string
	request  reflect.Type
	response reflect.Type
	serve    func(h *handler, in *input) (any, error)
}

// role is what the holder of a key needs for the endpoint.
func (rt route) role() floe.Role {
	if rt.method == http.MethodGet || reading[rt.method+" "+rt.path] {
		return floe.RoleRead
	}
	return floe.RoleWrite
}

// parser is the duty of a request struct: to take from the input what it needs and to check it. A
// problem is told to the input, which keeps the first one; the endpoint is not called then.
type parser[Q any] interface {
	*Q
	parse(in *input)
}

// endpoint makes the row of an endpoint: its pattern ("GET /health"), the method of the handler
// that answers it, and a line that says what it does.
func endpoint[Q, A any, P parser[Q]](pattern string, call func(*handler, context.Context, Q) (A, error), doc string) route {
	method, path, _ := strings.Cut(pattern, " ")
	return route{
		method:   method,
		path:     path,
		doc:      doc,
		request:  reflect.TypeFor[Q](),
		response: reflect.TypeFor[A](),
		serve: func(h *handler, in *input) (any, error) {
			var q Q
			P(&q).parse(in)
			if err := in.finish(); err != nil {
				return nil, err
			}
			return call(h, in.request.Context(), q)
		},
	}
}
