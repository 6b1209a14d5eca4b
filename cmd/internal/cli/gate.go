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

// gate stands before the handler of a server: while the node starts or stops, it answers 503
// itself, /health included. So a balancer learns at once that the node is going, and no request in
// flight meets a closed node.
type gate struct {
	refused atomic.Int64 // requests

	mu       sync.Mutex // guards the fields below; not held while a request is served
	phase    string
	handler  http.Handler
	inFlight int
	idle     chan struct{} // closed when the gate is stopping and nothing is in flight
}

func newGate() *gate { return &gate{phase: starting, idle: make(chan struct{})} }

// open lets requests through to h.
func (g *gate) open(h http.Handler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.phase, g.handler = serving, h
}

// stop refuses further requests. Those in flight go on; idle is closed when there are none.
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

// enter admits a request if the node serves; the caller then has to leave.
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

// refuse answers like the dashboard does when the node is not available.
func refuse(w http.ResponseWriter, r *http.Request, phase string) {
	body := map[string]string{"error": "node is " + phase}
	if r.URL.Path == "/health" {
		body = map[string]string{"status": phase}
	}
	turnAway(w, r, http.StatusServiceUnavailable, body)
}

// turnAway answers without looking what is asked for, and ends the connection.
func turnAway(w http.ResponseWriter, r *http.Request, status int, body map[string]string) {
	// A connection closed with a body unread is reset, and the client may lose the answer. A body
	// that is longer than this is being sent by a client that has to cope.
	const worthReading = 64 << 10
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restTimeout)) // an error: the connection is closed
	_, _ = io.CopyN(io.Discard, r.Body, worthReading)
	header := w.Header()
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Retry-After", "1")
	header.Set("Connection", "close")
	w.WriteHeader(status)
	// The only error is a client that has gone.
	_ = json.NewEncoder(w).Encode(body)
}
