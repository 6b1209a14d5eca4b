package dashboard

import (
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/floedb/floe"
)

// Options configures New. The zero value suits a handler behind a server with its own access
// control.
type Options struct {
	// MaxBodyBytes is the maximum size of a request body; a larger one returns 413. 0 or less means
	// the size of the largest value in its longest JSON spelling: six times DB.MaxValueSize,
	// plus 64 KiB.
	MaxBodyBytes int64
	// MaxConcurrent is the maximum number of concurrent requests. Seven times as many may wait for
	// up to 100 ms; more return 429, except those for /health. 0 means 1024, negative means no
	// limit.
	MaxConcurrent int
	// MaxHeldBytes limits the total size of the bodies of active requests; more return 429. 0 or
	// less means 64 MiB. One body of MaxBodyBytes always fits. One request per 4 MiB of it, and at
	// least two, may read more than 16 KiB at a time. Seven times as many wait for that, for up to
	// 30 s, and more return 429.
	MaxHeldBytes int64
	// Logger receives panics and server errors, never plain requests. nil means no log.
	Logger *slog.Logger
	// LoopbackOnly is for a handler that serves only this machine: bound to a loopback address,
	// without authentication. It has no effect while there is a key store. A request is answered
	// with 421 if its Host header is neither "localhost", nor a loopback address, nor in Hosts.
	// Otherwise a web site could point its own name at 127.0.0.1 and read everything (DNS
	// rebinding).
	LoopbackOnly bool
	// LocalUntilKeys rejects requests from other machines with 403 while there is no key store,
	// except for /health.
	LocalUntilKeys bool
	// ReadOnly rejects all requests that would change something with 403.
	ReadOnly bool
	// FrameAncestors are the origins whose pages may show the console in a frame, in the syntax of
	// Content-Security-Policy: "'self'", "https://ops.example.com". None by default.
	FrameAncestors []string
	// Hosts are additional host names or addresses, without port, that clients may use if
	// LoopbackOnly is set.
	Hosts []string
	// MetricsObjects is the maximum number of objects of each type with their own metric series;
	// see floe.Node.Collector. Only NewExporter uses it.
	MetricsObjects int
	// CORSOrigins are the origins of other sites whose pages may call the handler, such as
	// "https://ops.example.com". nil means none. New panics if one is malformed.
	CORSOrigins []string
	// TrustedProxies are the addresses of reverse proxies in front of the handler. For a request
	// from one of them, the client in X-Forwarded-For counts as the caller, for the limit of wrong
	// keys and in the audit. By default the header is ignored, since any client can send it.
	TrustedProxies []netip.Prefix
}

// New returns the handler of the dashboard of a node, or of the cluster that a client is connected
// to. After db is closed, requests return 503. It panics if an option is malformed.
func New(db floe.DB, opts Options) http.Handler { return newHandler(db, opts) }
