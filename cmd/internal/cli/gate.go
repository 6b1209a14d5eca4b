package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// The phases of a gate.
const (
	starting = "starting" // the node is being opened
	serving  = "serving"
	stopping = "stopping"
)

// gate wraps the handler of a server. While the node starts or stops, gate answers 503 itself,
// /health included. So a load balancer notices a shutdown at once, and no request in flight reaches
// a closed node.
type gate struct {
	refused atomic.Int64 // requests

	mu       sync.Mutex // guards the fields below; not held while a request is served
	phase    string
	handler  http.Handler
	inFlight int
	idle     chan struct{} // closed when the gate is stopping and no request is in flight
}

func newGate() *gate { return &gate{phase: starting, idle: make(chan struct{})} }

// open passes requests to h from now on.
func (g *gate) open(h http.Handler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.phase, g.handler = serving, h
}

// stop rejects further requests. Those in flight continue; idle is closed when they have ended.
func (g *gate) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.phase = stopping
	g.checkIdleLocked()
}

func (g *gate) checkIdleLocked() {
	if g.phase == stopping && g.inFlight == 0 {
		close(g.idle)
	}
}

// enter admits a request if the node serves; the caller must then call leave.
func (g *gate) enter() (h http.Handler, phase string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase == serving {
		g.inFlight++
	}
	return g.handler, g.phase
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	g.checkIdleLocked()
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, phase := g.enter()
	if phase != serving {
		g.refused.Add(1)
		refuse(w, r, phase)
		return
	}
	defer g.leave()
	h.ServeHTTP(w, r)
}

// refuse answers as the dashboard does if the node is unavailable.
func refuse(w http.ResponseWriter, r *http.Request, phase string) {
	body := map[string]string{"error": "node is " + phase}
	if r.URL.Path == "/health" {
		body = map[string]string{"status": phase}
	}
	turnAway(w, r, http.StatusServiceUnavailable, body)
}

// turnAway answers regardless of the request and closes the connection.
func turnAway(w http.ResponseWriter, r *http.Request, status int, body map[string]string) {
	// Closing a connection with an unread body resets it, and the client may lose the answer.
	// Clients that send a longer body than this must cope with that.
	const worthReading = 64 << 10
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restTimeout)) // an error means that the connection is closed
	_, _ = io.CopyN(io.Discard, r.Body, worthReading)
	header := w.Header()
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Retry-After", "1")
	header.Set("Connection", "close")
	w.WriteHeader(status)
	// The only error is a client that has disconnected.
	_ = json.NewEncoder(w).Encode(body)
}
