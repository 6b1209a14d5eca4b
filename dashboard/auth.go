package dashboard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
)

// Paths that need a key or token, and paths that do not.
const (
	apiPath  = "/api/"
	authPath = "/api/v1/auth/"

	sessionPath = authPath + "session"

	namespacesPath = "/api/v1/namespaces" // the namespace is in its body
)

var authRoutes = []route{
	endpoint("POST "+sessionPath, (*handler).openSession, "Open a session with an API key."),
	endpoint("DELETE "+sessionPath, (*handler).closeSession, "Close the session of the token."),
	endpoint("GET "+authPath+"status", (*handler).authStatus, "Get whether keys are required, and whether the session is valid."),
}

// authenticate returns the holder of the request's token, nil if none is needed.
func (h *handler) authenticate(r *http.Request, path string) (*floe.Holder, error) {
	if !strings.HasPrefix(path, apiPath) || strings.HasPrefix(path, authPath) {
		return nil, nil
	}
	if wantsStale(r) && h.backend.Keys().MayLook() {
		return nil, nil
	}
	return h.backend.Keys().Authenticate(r.Context(), bearer(r))
}

// bearer returns the token of a request, "" if none exists.
func bearer(r *http.Request) string {
	const scheme = "Bearer "
	given := r.Header.Get("Authorization")
	if len(given) < len(scheme) || !strings.EqualFold(given[:len(scheme)], scheme) {
		return ""
	}
	return strings.TrimSpace(given[len(scheme):])
}

// locked reports whether a token is needed; if so, the host name of a request does not matter.
func (h *handler) locked(r *http.Request) bool {
	enabled, err := h.backend.Keys().Enabled(r.Context())
	return err == nil && enabled
}

// bound returns the context of the request, which ends when the key is revoked.
func (out *reply) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if out.who == nil {
		return context.WithCancel(ctx)
	}
	return out.who.While(ctx)
}

// carryOut calls the endpoint if the holder of the key is permitted to.
func (h *handler) carryOut(rt route, who *floe.Holder, in *input) (answer any, err error) {
	if err := h.checkReadOnly(&rt); err != nil {
		return nil, err
	}
	stale := rt.method == http.MethodGet && in.boolean("stale")
	if who == nil || who.Key().ID == "" {
		return rt.serve(h.reading(stale), in)
	}
	if only := who.Key().Namespaces; len(only) == 1 {
		in.home = only[0]
	}
	if err = who.Require(rt.role()); err == nil && rt.role() != floe.RoleRead && rt.path != namespacesPath && !in.toBeFound(rt) {
		err = who.RequireNamespace(in.namespace()) // nothing else has to be parsed
	}
	if err == nil {
		answer, err = rt.serve(h.as(who).reading(stale), in)
	}
	if rt.role() != floe.RoleRead {
		who.Audit(in.request.Context(), in.audited(), err)
	}
	if errors.Is(err, engine.ErrUnauthorized) && who.Err() == nil {
		err = engine.Errorf(errForbidden, "%v", err)
	}
	return answer, err
}

// audited returns the audit entry of the request, without its body.
func (in *input) audited() floe.AuditEntry {
	const longest = 1024
	action := in.request.Method + " " + in.request.URL.Path
	if in.request.URL.RawQuery != "" {
		action += "?" + in.request.URL.RawQuery
	}
	return floe.AuditEntry{From: in.from(), Action: action[:min(len(action), longest)], Namespace: in.about}
}

// from returns the address of the caller, without port.
func (in *input) from() string { return in.handler.clientOf(in.request) }

// as returns a handler that serves the holder of a key: its backend rejects everything the holder
// is not permitted to do.
func (h *handler) as(who *floe.Holder) *handler {
	granted := *h
	granted.backend = who.DB()
	return &granted
}

// reading returns a handler for reads; stale reads use any available replica.
func (h *handler) reading(stale bool) *handler {
	if !stale {
		return h
	}
	granted := *h
	granted.backend = staleBackend{h.backend}
	return &granted
}

// allowOrigin lets pages of the configured origins read the response. It reports whether the
// request was only a preflight request.
func (h *handler) allowOrigin(out *reply, r *http.Request) (done bool) {
	if len(h.cors) == 0 {
		return false
	}
	header := out.Header()
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !slices.Contains(h.cors, origin) {
		return false
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", "Link, Retry-After, X-Floe-Lossy, X-Floe-Trimmed")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	header.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key")
	header.Set("Access-Control-Max-Age", "600")
	out.WriteHeader(http.StatusNoContent)
	return true
}

// sessionRequest is the body {"api_key": "..."}.
type sessionRequest struct{ key, from string }

// maxSessionBody fits a key in its longest spelling, with some space. The client is not
// authenticated yet, so its body does not count against the memory for bodies.
const maxSessionBody = 4 << 10

// sessionBodyTime is the timeout for reading the body of a session request.
const sessionBodyTime = 5 * time.Second

// readEarly reads the body of a session request before it takes a slot, because a slow client
// without a key could hold the slot. The deadline remains unless the body has ended: net/http reads
// the rest of the body before it responds, and would wait forever.
func readEarly(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(sessionBodyTime)) // an error means that the server supports no deadlines
	b, err := io.ReadAll(io.LimitReader(r.Body, maxSessionBody+1))
	if err == nil && len(b) <= maxSessionBody {
		_ = rc.SetReadDeadline(time.Time{})
	}
	rest := io.Reader(r.Body)
	if err != nil {
		rest = failed{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(b), rest), r.Body}
}

// failed is a reader that has failed.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

func (q *sessionRequest) parse(in *input) {
	in.maxBody = min(in.maxBody, maxSessionBody)
	q.key = in.body().text("api_key")
	q.from = in.from()
}

type sessionAnswer struct {
	Token string `json:"token"`
}

func (h *handler) openSession(ctx context.Context, q sessionRequest) (sessionAnswer, error) {
	token, _, err := h.backend.Keys().OpenSession(ctx, q.key, q.from)
	return sessionAnswer{token}, err
}

// tokenRequest has only the token in its header.
type tokenRequest struct{ token string }

func (q *tokenRequest) parse(in *input) { q.token = bearer(in.request) }

// sessionClosed is the response to a DELETE.
type sessionClosed struct {
	OK bool `json:"ok"`
}

func (h *handler) closeSession(ctx context.Context, q tokenRequest) (sessionClosed, error) {
	err := h.backend.Keys().CloseSession(ctx, q.token)
	return sessionClosed{err == nil}, err
}

// authState is the body of /auth/status.
type authState struct {
	AuthEnabled   bool `json:"auth_enabled"`
	Authenticated bool `json:"authenticated"`
}

func (h *handler) authStatus(ctx context.Context, q tokenRequest) (authState, error) {
	enabled, err := h.backend.Keys().Enabled(ctx)
	if err != nil {
		return authState{}, err
	}
	_, err = h.backend.Keys().Authenticate(ctx, q.token)
	if err != nil && !errors.Is(err, engine.ErrUnauthorized) {
		return authState{}, err
	}
	return authState{AuthEnabled: enabled, Authenticated: err == nil}, nil
}
