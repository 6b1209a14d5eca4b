// Package dashboard serves a node's JSON API for monitoring, management and ad-hoc operations as an
// http.Handler.
//
//	node, err := floe.Open(floe.Config{DataDir: "data"})
//	...
//	mux := http.NewServeMux()
//	mux.Handle("/admin/floe/", http.StripPrefix("/admin/floe", dashboard.New(node, dashboard.Options{})))
//
// The handler works at "/" and under any prefix, opens no listener, starts no goroutine and needs
// no Close. Its paths are /health and /api/v1/..., where whatever it answers is JSON and errors are
// {"error": "..."}, and / with the web console, which calls them. It redirects nothing but the
// prefix without its slash, to the same with it. A proxy that renames the last part of the prefix
// has to add that slash itself.
//
// # Listings
//
// A listing is cut at its limit: by default 100 for what can be long (keys, messages) and 10,000
// for the rest, and when its payloads exceed 4 MiB. Nothing is cut silently: the answer then has a
// header Link with the relative URL of what comes next.
//
// # Stale reads
//
// Reads take the parameter stale=true: they are then answered from whichever replica is at hand,
// see floe.Stale, also by a node that is cut off from the others.
//
// # Limits
//
// Timeouts are the server's: set ReadHeaderTimeout, ReadTimeout and IdleTimeout of the http.Server
// that carries the handler. The handler itself bounds bodies (Options.MaxBodyBytes), what all of
// them hold in memory together, and the number of requests (Options.MaxConcurrent).
//
// # Security
//
// As long as the node has no key store (floe.Keys), anybody who can reach the handler can read and
// write: put it behind the host's own authentication, or bind it to loopback. With one, everything
// under /api/v1/ but /api/v1/auth/ takes a session token, as "Authorization: Bearer <token>", which
// POST /api/v1/auth/session gives for an API key, and DELETE /api/v1/auth/session ends. A key with
// the role read is for reads only, one with namespaces for these only; what such a key may not do
// is 403. Requests that change something are noted in the stream floe.AuditStream.
//
// Writes sent by another web site through a visitor's browser are refused
// (net/http.CrossOriginProtection). The console loads nothing from anywhere else, has no inline
// script, and may not be framed (Options.FrameAncestors). The build tag noconsole leaves it out.
package dashboard
