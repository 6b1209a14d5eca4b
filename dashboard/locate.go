package dashboard

import (
	"context"
	"errors"
	"reflect"

	"github.com/floedb/floe/internal/engine"
)

// located is the namespace of something that a request names by an id. A request that does not give
// it means the one in which there is such an id.
type located struct {
	namespace string
	given     bool
}

func (l *located) parse(in *input) {
	l.namespace = in.namespace()
	_, l.given = in.param("namespace")
}

func (located) byID() {}

// toBeFound reports whether the namespace of what a request is about is not known yet.
func (in *input) toBeFound(rt route) bool {
	_, given := in.named("namespace")
	return !given && rt.request.Implements(reflect.TypeFor[interface{ byID() }]())
}

// maxLocated is how many namespaces are asked for an id. The next ones are not: a request must not
// cost more the more namespaces there are.
const maxLocated = 1000

// locate returns the namespace in which there is an id: the one that the request gives; else the
// only one of its key, or the default one; else whichever has it. has returns ErrNotFound for a
// namespace that has not.
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
