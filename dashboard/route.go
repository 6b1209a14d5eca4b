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
	return slices.Concat(healthRoutes, openAPIRoutes, authRoutes, clusterRoutes, namespaceRoutes, kvRoutes, kvWorkRoutes, eventRoutes,
		streamRoutes, streamWorkRoutes, groupRoutes, groupWorkRoutes, txnRoutes, queueRoutes, queueWorkRoutes,
		timeseriesRoutes, actionRoutes, actionWorkRoutes, scheduleRoutes, workerWorkRoutes, consoleRoutes,
		withAliases(workflowRoutes), flowStartRoutes, processingRoutes, jobWorkRoutes)
}

// route is a row of the table: an endpoint and everything known about it.
type route struct {
	method   string
	path     string // a segment ":name" is a parameter
	doc      string
	request  reflect.Type
	response reflect.Type
	call     any // the method that serves it
	serve    func(h *handler, in *input) (any, error)
}

// role returns the role that the endpoint requires of a key's holder.
func (rt route) role() floe.Role {
	if rt.method == http.MethodGet || reading[rt.method+" "+rt.path] {
		return floe.RoleRead
	}
	return floe.RoleWrite
}

// parser is implemented by request structs: parse reads the request's fields from the input and
// checks them. The input records the first problem; the endpoint is then not called.
type parser[Q any] interface {
	*Q
	parse(in *input)
}

// endpoint builds the row of an endpoint: its pattern ("GET /health"), the handler method that
// serves it, and a line of documentation.
func endpoint[Q, A any, P parser[Q]](pattern string, call func(*handler, context.Context, Q) (A, error), doc string) route {
	method, path, _ := strings.Cut(pattern, " ")
	return route{
		method:   method,
		path:     path,
		doc:      doc,
		request:  reflect.TypeFor[Q](),
		response: reflect.TypeFor[A](),
		call:     call,
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
