// Package dashboard serves a node's JSON API for monitoring, management and ad-hoc operations as an
// http.Handler.
//
//	node, err := floe.Open(floe.Config{DataDir: "data"})
//	...
//	mux := http.NewServeMux()
//	mux.Handle("/admin/floe/", http.StripPrefix("/admin/floe", dashboard.New(node, dashboard.Options{})))
//
// New takes any floe.DB: a Client (floe.Dial) instead of a Node shows a node or cluster in other
// processes.
//
// The handler works at "/" and under any prefix, opens no listener, starts no goroutine and needs
// no Close. It serves the API at /health and /api/v1/..., with JSON responses and errors as
// {"error": "..."}, and at / the web console, which calls the API. The only redirect is from the
// prefix without its slash to the prefix with it. A proxy that rewrites the last part of the prefix
// must add that slash itself.
//
// # Listings
//
// A listing is truncated at its limit: by default 100 for potentially long listings (keys,
// messages) and 10,000 for the others, and when its payloads exceed 4 MiB. A truncated response has
// a Link header with the relative URL of the next page.
//
// # Stale reads
//
// Reads accept the parameter stale=true: any available replica then serves them, even on a node
// that is cut off from the others; see floe.Stale.
//
// # Limits
//
// Timeouts are set on the server: set ReadHeaderTimeout, ReadTimeout and IdleTimeout of the
// http.Server that serves the handler. The handler itself limits the size of bodies
// (Options.MaxBodyBytes), their total memory, and the number of requests (Options.MaxConcurrent).
//
// # Security
//
// Without a key store (floe.Keys), anyone who can reach the handler can read and write: put it
// behind the host's own authentication, or bind it to loopback. With a key store, everything under
// /api/v1/ except /api/v1/auth/ requires a session token, as "Authorization: Bearer <token>". POST
// /api/v1/auth/session returns one for an API key, and DELETE /api/v1/auth/session ends it. A key
// with the role read permits only reads, and a key with namespaces permits only those; other
// requests return 403. Requests that change something are recorded in the stream floe.AuditStream.
//
// Cross-site writes through a visitor's browser are rejected (net/http.CrossOriginProtection). The
// console loads no external resources, has no inline script, and may not be framed
// (Options.FrameAncestors). The build tag noconsole omits it.
package dashboard
