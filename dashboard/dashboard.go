package dashboard

import (
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/floedb/floe"
)

// Backend is the node that a dashboard shows and changes; *floe.Node is one, and *floe.Client. Its
// methods are called by many goroutines at once, also after the node was closed: they then return
// floe.ErrClosed.
type Backend interface {
	floe.DB
	// MaxValueSize is the limit for values in bytes. It does not change.
	MaxValueSize() int
}

// Options changes what New makes. The zero value is fit for a handler behind a server that does its
// own access control.
type Options struct {
	// MaxBodyBytes is the largest body of a request; a larger one is answered with 413. 0 or less
	// means what the largest value needs in its longest JSON spelling: six times
	// Backend.MaxValueSize, and 64 KiB for the rest.
	MaxBodyBytes int64
	// MaxConcurrent is how many requests are served at once. Seven times as many may wait for up to
	// 100 ms; more are answered with 429, except those for /health. 0 means 1024, less than 0 no
	// limit.
	MaxConcurrent int
	// MaxHeldBytes bounds the bodies of all requests under way; more are answered with 429. 0 or
	// less means 64 MiB. One body of MaxBodyBytes always fits. One request per 4 MiB of it, and at
	// least two, may read more than 16 KiB at a time; seven times as many wait for that, for up to
	// 30 s, and more are answered with 429.
	MaxHeldBytes int64
	// Logger hears of panics and of errors that are not the client's, never of plain requests. nil
	// means no log.
	Logger *slog.Logger
	// LoopbackOnly says that the handler is meant for this machine alone: bound to a loopback
	// address, without authentication; while there is a key store, it makes no difference. A
	// request whose Host header is neither "localhost", nor a loopback address, nor in Hosts is
	// then answered with 421, because a web site could point its own name at 127.0.0.1 and read
	// everything (DNS rebinding).
	LoopbackOnly bool
	// LocalUntilKeys refuses, with 403, requests of other machines for all but /health while there
	// is no key store.
	LocalUntilKeys bool
	// ReadOnly refuses with 403 whatever would change something.
	ReadOnly bool
	// FrameAncestors are the origins whose pages may show the console in a frame, as
	// Content-Security-Policy writes them: "'self'", "https://ops.example.com". None by default.
	FrameAncestors []string
	// Hosts are further names or addresses, without port, by which clients may call the handler if
	// LoopbackOnly is set.
	Hosts []string
	// MetricsObjects is how many things of each kind have series of their own in the metrics; see
	// floe.Node.Collector. Only NewExporter looks at it.
	MetricsObjects int
	// CORSOrigins are the origins, such as "https://ops.example.com", of other sites whose pages
	// may call the handler. nil means none. New panics if one is malformed.
	CORSOrigins []string
	// TrustedProxies are the addresses of reverse proxies before the handler. A request from one of
	// them counts as one of the client that the proxy names in X-Forwarded-For, for the limit of
	// wrong keys and in the audit. By default the header is ignored, since any client can send it.
	TrustedProxies []netip.Prefix
}

// New returns the handler of a node's dashboard. It panics if an option is malformed.
func New(backend Backend, opts Options) http.Handler { return newHandler(backend, opts) }
