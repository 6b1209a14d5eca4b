package dashboard

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/julienschmidt/httprouter"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard/console"
	"github.com/floedb/floe/internal/engine"
)

const (
	defaultConcurrent = 1024
	strangersOf       = 8  // one in this many concurrent requests may be without a session
	waitingOf         = 16 // requests that may wait, for each slot; see waiters
	followersOf       = 4  // event streams may hold one in this many bytes of maxHeld
	// longestSpelling is the maximum number of JSON bytes for one byte of a value: \u0000.
	longestSpelling = 6
	bodyOverhead    = 64 << 10
	// maxHeldBytes limits the total size of bodies in memory, so that many large ones cannot
	// exhaust it. Decoding takes up to four times as much in addition.
	maxHeldBytes = 64 << 20
)

type handler struct {
	backend     floe.DB
	maxBody     int64
	maxHeld     int64
	slots       *slots
	strangers   *slots // for requests that open a session, which any client can send
	waiters     *waiters
	readers     *engine.Readers
	followers   *engine.Readers // for event streams, which may read for a long time
	maxListed   int
	log         *slog.Logger
	hosts       map[string]bool // nil: any
	crossOrigin *http.CrossOriginProtection
	console     *console.Site
	readOnly    bool
	clientAddr  string // of the node, for clients; "" if the backend is in another process or does not listen
	localUntil  bool   // only this machine may call, until there are keys
	router      *httprouter.Router
	exact       map[string]route // by method and path: routes that collide with a parameter of another route
	now         func() time.Time
	traffic     *traffic
	cors        []string
	proxies     []netip.Prefix
	description func() schema // of all routes; see describeAPI
}

// traffic counts the requests and bytes of the handler.
type traffic struct {
	inFlight atomic.Int64 // requests
	received atomic.Int64 // bytes of request bodies; 0 if node counts them
	sent     atomic.Int64 // bytes of response bodies; likewise
	node     counter      // nil if the backend is in another process
	held     atomic.Int64 // bytes of the bodies of requests in flight
	recent   recentBytes
}

func newHandler(backend floe.DB, o Options) *handler {
	h := &handler{
		backend:     backend,
		maxBody:     o.MaxBodyBytes,
		slots:       newSlots(cmp.Or(o.MaxConcurrent, defaultConcurrent)),
		maxListed:   maxListed,
		log:         cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		crossOrigin: http.NewCrossOriginProtection(),
		console:     console.New(o.FrameAncestors...),
		readOnly:    o.ReadOnly,
		localUntil:  o.LocalUntilKeys,
		now:         time.Now,
		traffic:     new(traffic),
		cors:        o.CORSOrigins,
		proxies:     slices.Clone(o.TrustedProxies),
		description: sync.OnceValue(describeAPI),
	}
	h.strangers = newSlots(h.slots.limit)
	if limit := h.slots.limit; limit > 0 {
		h.strangers = newSlots(max(limit/strangersOf, 1))
	}
	h.waiters = &waiters{most: waitingOf * max(h.slots.limit, defaultConcurrent), mostBytes: maxWaitingBytes, by: make(map[string]int)}
	if node, ok := backend.(counter); ok {
		h.traffic.node = node
	}
	if node, ok := backend.(interface{ Addr() net.Addr }); ok && node.Addr() != nil {
		h.clientAddr = node.Addr().String()
	}
	for _, origin := range o.CORSOrigins {
		if err := h.crossOrigin.AddTrustedOrigin(origin); err != nil {
			panic(fmt.Sprintf("dashboard: Options.CORSOrigins: %v", err))
		}
	}
	if h.maxBody <= 0 {
		h.maxBody = longestSpelling*int64(backend.MaxValueSize()) + bodyOverhead
	}
	h.maxHeld = max(o.MaxHeldBytes, h.maxBody)
	if o.MaxHeldBytes <= 0 {
		h.maxHeld = max(maxHeldBytes, h.maxBody)
	}
	h.readers = engine.NewReaders(h.maxHeld)
	h.followers = engine.NewReaders(h.maxHeld / followersOf)
	if o.LoopbackOnly {
		h.hosts = hostSet(o.Hosts)
	}
	h.router, h.exact = newRouter(h, allRoutes())
	return h
}

// ServeHTTP serves one request. The router gets the path in its escaped form, so that %2F in a key
// is not a slash.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.traffic.inFlight.Add(1)
	defer h.traffic.inFlight.Add(-1)
	out := &reply{ResponseWriter: w, request: r, traffic: h.traffic}
	defer h.recoverPanic(out)

	path := escapedPath(r.URL)
	if path == "" && r.Method != http.MethodConnect && namesNoPath(r.RequestURI) {
		path = "/"
	}
	err := h.admit(r, path)
	slots := h.slots
	if path == sessionPath {
		slots = h.strangers
		if err == nil {
			readEarly(out, r)
		}
	}
	if err == nil && path != healthPath {
		if err = slots.take(r.Context(), r.URL); err == nil {
			out.slots = slots
			defer out.leave()
		}
	}
	if h.allowOrigin(out, r) && err == nil {
		return
	}
	if err == nil {
		out.who, err = h.authenticate(r, path)
	}
	if err != nil {
		h.fail(out, err)
		return
	}
	if path == "" && r.Method == http.MethodConnect { // CONNECT has no path, only a target host
		h.fail(out, engine.Errorf(errMethod, "method CONNECT is not allowed: this is no proxy"))
		return
	}
	if path == "" { // the mount point without its slash
		console.Redirect(out, r)
		return
	}
	ctx, cancel := out.bound(r.Context())
	defer cancel()
	ctx, end := h.readers.Begin(ctx)
	defer end()
	routed := r.WithContext(ctx)
	routed.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	if path == healthPath {
		routed.URL.RawQuery = "" // ignored: the answer is always 200 or 503
	}
	if r.Method == http.MethodHead {
		routed.Method = http.MethodGet
	}
	if rt, ok := h.exact[routed.Method+" "+path]; ok {
		h.serve(rt, out, newInput(h, routed, nil))
		return
	}
	if path == floqlPath && routed.Method == http.MethodDelete { // the router would treat it as the name of a measurement
		out.Header().Set("Allow", "GET, OPTIONS, POST")
		h.methodNotAllowed(out, routed)
		return
	}
	h.router.ServeHTTP(out, routed)
}

// admit rejects requests that no endpoint should receive.
func (h *handler) admit(r *http.Request, path string) error {
	if path != healthPath { // health reveals nothing that a foreign site may not know, and clients use any host name for it
		if err := checkHost(h.hosts, r.Host); err != nil && !h.locked(r) {
			return err
		}
		if err := h.checkNear(r); err != nil {
			return err
		}
	}
	if err := h.crossOrigin.Check(r); err != nil {
		return engine.Errorf(errForbidden, "%v", err)
	}
	// The router would treat the empty text between two slashes as the value of a segment.
	if path != "" && !strings.HasPrefix(path, "/") || strings.Contains(path, "//") {
		return noSuchPath(path)
	}
	return nil
}

// namesNoPath reports whether a request targets a whole URL without a path, such as
// http://localhost:9002, as clients of proxies do. Other requests have an empty path if the handler
// is mounted under a prefix.
func namesNoPath(target string) bool {
	u, err := url.ParseRequestURI(target)
	return err == nil && u.Path == ""
}

// escapedPath returns the path as the client wrote it. URL.EscapedPath differs if the path contains
// a character that should have been escaped, such as a plain "é": it then escapes the unescaped
// path, and a %2F in it becomes a slash. A RawPath that is not the escaped form of Path is
// outdated, because Path was changed afterwards.
func escapedPath(u *url.URL) string {
	if path, err := url.PathUnescape(u.RawPath); err == nil && path == u.Path && u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// newRouter returns the router, and the routes that it cannot hold beside the others.
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
	for _, path := range h.console.Paths() {
		router.Handler(http.MethodGet, path, h.console)
	}
	for _, rt := range routes {
		if rt.path == floqlPath && rt.method == http.MethodGet { // a measurement would match it, were the name not reserved
			exact[rt.method+" "+rt.path] = rt
			continue
		}
		path, parameter, word := routable(rt, routes)
		router.Handle(rt.method, path, func(w http.ResponseWriter, r *http.Request, path httprouter.Params) {
			if path.ByName(parameter) != word {
				h.fail(w.(*reply), noSuchPath(r.URL.Path))
				return
			}
			h.serve(rt, w.(*reply), newInput(h, r, path))
		})
	}
	return router, exact
}

// routable returns the path under which a route is registered. The router cannot hold a fixed last
// segment where other routes of the method have a parameter. Such a route is registered with the
// parameter, which must then have the value word.
func routable(rt route, routes []route) (path, parameter, word string) {
	at := strings.LastIndex(rt.path, "/") + 1
	for _, other := range routes {
		if rest, ok := strings.CutPrefix(other.path, rt.path[:at]+":"); ok && other.method == rt.method && rt.path[at:at+1] != ":" {
			parameter, _, _ = strings.Cut(rest, "/")
			return rt.path[:at] + ":" + parameter, parameter, rt.path[at:]
		}
	}
	return rt.path, "", ""
}

// methodNotAllowed responds to a request whose path has only other methods; the router has set
// Allow to them.
func (h *handler) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	allow := allowHead(w.Header())
	h.fail(w.(*reply), engine.Errorf(errMethod, "method %.32s is not allowed here, %s are", r.Method, allow))
}

// allowHead adds HEAD, which the router does not know, to the Allow header, and returns the result.
func allowHead(header http.Header) string {
	allow := strings.Replace(header.Get("Allow"), http.MethodGet, "GET, HEAD", 1)
	header.Set("Allow", allow)
	return allow
}

// serve executes one row of the route table.
func (h *handler) serve(rt route, out *reply, in *input) {
	defer in.release()
	in.out = out
	answer, err := h.carryOut(rt, out.who, in)
	out.bodyRead = in.bodyRead
	if err != nil {
		h.fail(out, err)
		return
	}
	if a, ok := answer.(follower); ok && a.events() != nil {
		h.follow(out, in, a.events())
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
