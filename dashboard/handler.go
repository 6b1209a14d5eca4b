package dashboard

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/julienschmidt/httprouter"

	"github.com/floedb/floe/internal/engine"
)

const (
	defaultConcurrent = 1024
	// longestSpelling is how many bytes of JSON one byte of a value can take: \u0000.
	longestSpelling = 6
	bodyOverhead    = 64 << 10
	// maxHeldBytes bounds the bodies that are in memory at the same time, so that many large ones cannot exhaust it. Decoding
	// takes up to four times as much again.
	maxHeldBytes = 64 << 20
)

type handler struct {
	backend       Backend
	maxBody       int64
	maxHeld       int64
	maxConcurrent int64
	maxListed     int
	log           *slog.Logger
	hosts         map[string]bool // nil: any
	crossOrigin   *http.CrossOriginProtection
	router        *httprouter.Router
	exact         map[string]route // by method and path: those that share their place with a parameter of another route
	now           func() time.Time
	traffic       traffic
}

// traffic counts what passes through the handler.
type traffic struct {
	inFlight atomic.Int64 // requests
	received atomic.Int64 // bytes of request bodies
	sent     atomic.Int64 // bytes of response bodies
	held     atomic.Int64 // bytes of the bodies of requests in flight
}

func newHandler(backend Backend, o Options) *handler {
	h := &handler{
		backend:       backend,
		maxBody:       o.MaxBodyBytes,
		maxConcurrent: int64(cmp.Or(o.MaxConcurrent, defaultConcurrent)),
		maxListed:     maxListed,
		log:           cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		crossOrigin:   http.NewCrossOriginProtection(),
		now:           time.Now,
	}
	if h.maxBody <= 0 {
		h.maxBody = longestSpelling*int64(backend.MaxValueSize()) + bodyOverhead
	}
	h.maxHeld = max(maxHeldBytes, h.maxBody)
	if o.LoopbackOnly {
		h.hosts = hostSet(o.Hosts)
	}
	h.router, h.exact = newRouter(h, allRoutes())
	return h
}

// ServeHTTP answers one request. The router sees the path as it was escaped, so that %2F in a key is not a slash.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	inFlight := h.traffic.inFlight.Add(1)
	defer h.traffic.inFlight.Add(-1)
	out := &reply{ResponseWriter: w, request: r, traffic: &h.traffic}
	defer h.recoverPanic(out)

	path := escapedPath(r.URL)
	if err := h.admit(r, path, inFlight); err != nil {
		h.fail(out, err)
		return
	}
	routed := r.WithContext(r.Context())
	routed.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	if r.Method == http.MethodHead {
		routed.Method = http.MethodGet
	}
	if rt, ok := h.exact[routed.Method+" "+path]; ok {
		h.serve(rt, out, newInput(h, routed, nil))
		return
	}
	h.router.ServeHTTP(out, routed)
}

// admit refuses what no endpoint should see.
func (h *handler) admit(r *http.Request, path string, inFlight int64) error {
	if path != healthPath { // which says nothing that a foreign site may not know, and is asked by whatever name
		if err := checkHost(h.hosts, r.Host); err != nil {
			return err
		}
	}
	if err := h.crossOrigin.Check(r); err != nil {
		return engine.Errorf(errForbidden, "%v", err)
	}
	if h.maxConcurrent > 0 && inFlight > h.maxConcurrent && path != healthPath {
		return engine.Errorf(engine.ErrBusy, "%d requests are being served, the limit is %d", inFlight-1, h.maxConcurrent)
	}
	// The router would take the nothing between two slashes for the value of a segment.
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "//") {
		return noSuchPath(path)
	}
	return nil
}

// escapedPath returns the path as the client wrote it. URL.EscapedPath does not if it holds a character that should have been
// escaped, such as a plain "é": it then escapes the unescaped path, and a %2F beside it becomes a slash. A RawPath that is not
// the escaped form of Path was left behind by somebody who changed Path.
func escapedPath(u *url.URL) string {
	if path, err := url.PathUnescape(u.RawPath); err == nil && path == u.Path && u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// newRouter returns what finds the routes, and those that it can not have beside the others.
func newRouter(h *handler, routes []route) (*httprouter.Router, map[string]route) {
	router, exact := httprouter.New(), make(map[string]route)
	router.RedirectTrailingSlash = false
	router.RedirectFixedPath = false
	router.HandleMethodNotAllowed = true
	router.NotFound = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.fail(w.(*reply), noSuchPath(r.URL.Path))
	})
	router.MethodNotAllowed = http.HandlerFunc(h.methodNotAllowed)
	router.GlobalOPTIONS = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		allowHead(w.Header())
		w.WriteHeader(http.StatusNoContent)
	})
	router.Handler(http.MethodGet, "/", newPage(routes))
	for _, rt := range routes {
		if rt.path == floqlPath && rt.method == http.MethodGet { // which a measurement could have, were the name not reserved
			exact[rt.method+" "+rt.path] = rt
			continue
		}
		router.Handle(rt.method, rt.path, func(w http.ResponseWriter, r *http.Request, path httprouter.Params) {
			h.serve(rt, w.(*reply), newInput(h, r, path))
		})
	}
	return router, exact
}

// methodNotAllowed answers when other methods have the path; the router has set Allow to them.
func (h *handler) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	allow := allowHead(w.Header())
	h.fail(w.(*reply), engine.Errorf(errMethod, "method %.32s is not allowed here, %s are", r.Method, allow))
}

// allowHead adds HEAD, which the router does not know, to what Allow has, and returns that.
func allowHead(header http.Header) string {
	allow := strings.Replace(header.Get("Allow"), http.MethodGet, "GET, HEAD", 1)
	header.Set("Allow", allow)
	return allow
}

// serve carries out one row of the route table.
func (h *handler) serve(rt route, out *reply, in *input) {
	defer in.release()
	answer, err := rt.serve(h, in)
	out.bodyRead = in.bodyRead
	if err != nil {
		h.fail(out, err)
		return
	}
	if a, ok := answer.(headed); ok {
		a.setHeader(out.Header())
	}
	if a, ok := answer.(partial); ok {
		if name, value := a.next(); value != "" {
			out.Header().Set("Link", in.link(name, value))
		}
	}
	if a, ok := answer.(interface{ body() any }); ok {
		answer = a.body()
	}
	h.send(out, http.StatusOK, answer)
}

func noSuchPath(path string) error {
	return engine.Errorf(engine.ErrNotFound, "no endpoint has the path %.200q", path)
}
