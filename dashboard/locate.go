package dashboard

import (
	"context"
	"errors"
	"reflect"

	"github.com/floedb/floe/internal/engine"
)

// located is the namespace of an object that a request identifies by id. Without a namespace, the
// request means the namespace that has such an id.
type located struct {
	namespace string
	given     bool
}

func (l *located) parse(in *input) {
	l.namespace = in.namespace()
	_, l.given = in.param("namespace")
}

func (located) byID() {}

// toBeFound reports whether the namespace of the request's object is not known yet.
func (in *input) toBeFound(rt route) bool {
	_, given := in.named("namespace")
	return !given && rt.request.Implements(reflect.TypeFor[interface{ byID() }]())
}

// maxLocated is the maximum number of namespaces searched for an id, so that the cost of a request
// does not grow with the number of namespaces.
const maxLocated = 1000

// locate returns the namespace of an id: the one given in the request; else the only one of the
// caller's key, or the default one; else the one that has the id. has returns ErrNotFound for a
// namespace without the id.
func (h *handler) locate(ctx context.Context, l located, what string, has func(ctx context.Context, namespace string) error) (string,
	error) {
	if l.given {
		return l.namespace, nil
	}
	missing := has(ctx, l.namespace)
	if missing == nil {
		return l.namespace, nil
	}
	elsewhere := func(err error) bool {
		return errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrUnauthorized)
	}
	if !elsewhere(missing) {
		return "", missing
	}
	found, asked := "", 0
	for ns, err := range h.backend.Namespaces().All(ctx) {
		if err != nil {
			return "", err
		}
		if ns.Name == l.namespace || engine.IsSystem(ns.Name) {
			continue
		}
		if asked++; asked > maxLocated {
			return "", engine.Errorf(engine.ErrInvalid,
				"there are more than %d namespaces: say with the parameter namespace which one has %s", maxLocated, what)
		}
		switch err := has(ctx, ns.Name); {
		case err == nil && found != "":
			return "", engine.Errorf(engine.ErrInvalid, "%s is in the namespaces %q and %q: say which with the parameter namespace", what,
				found, ns.Name)
		case err == nil:
			found = ns.Name
		case !elsewhere(err):
			return "", err
		}
	}
	if found == "" {
		return "", missing
	}
	return found, nil
}
