package cli

import (
	"io"
	"net/http"
	"time"
)

// deadlines disconnect clients that do not send or do not read. They replace http.Server's
// ReadTimeout and WriteTimeout, which count from the first byte of the request and so would end a
// long poll. A request may wait for its answer without a limit; only the transfer of the bodies is
// timed.
type deadlines struct {
	body  time.Duration // for the arrival of the request body, from the end of the header
	rest  time.Duration // for the rest of the body once it is answered, which net/http reads and drops
	write time.Duration // for the client to accept each writeChunk of the answer
}

// writeChunk is the part of an answer that one write deadline covers: about 9 KiB/s with 30 s.
const writeChunk = 256 << 10

func (d deadlines) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := http.NewResponseController(w)
		// The connection may still have the deadline of its last answer, and net/http writes "100
		// Continue" without a call to this writer. Here and below, an error means that the
		// connection is closed, and the next read or write reports it.
		_ = conn.SetWriteDeadline(time.Time{})
		out := &timedWriter{ResponseWriter: w, conn: conn, limits: d}
		if r.Body != http.NoBody {
			out.body = &timedBody{ReadCloser: r.Body, conn: conn}
			out.body.within(d.body)
			r.Body = out.body
		}
		h.ServeHTTP(out, r)
		out.begin()
	})
}

// timedBody is a body that must arrive by its deadline. At its end it clears the deadline of the
// connection: later reads only detect whether the client is still connected. Until then the
// deadline only gets earlier, so that a body that has missed it never gets more time.
type timedBody struct {
	io.ReadCloser
	conn     *http.ResponseController
	deadline time.Time
	ended    bool
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended = true
		_ = b.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}

// within sets the deadline to d from now, unless an earlier one is set or the body has ended.
func (b *timedBody) within(d time.Duration) { b.by(time.Now().Add(d)) }

func (b *timedBody) by(t time.Time) {
	if b.ended || !b.deadline.IsZero() && t.After(b.deadline) {
		return
	}
	b.deadline = t
	_ = b.conn.SetReadDeadline(t)
}

// timedWriter sets a new write deadline for each chunk.
type timedWriter struct {
	http.ResponseWriter
	conn   *http.ResponseController
	limits deadlines
	body   *timedBody // nil: no body
	begun  bool
}

// begin shortens the deadline of the body when the answer begins. Otherwise a client without a key
// could hold the connection as long as one with a key.
func (w *timedWriter) begin() {
	if !w.begun && w.body != nil {
		w.body.within(w.limits.rest)
	}
	w.begun = true
}

func (w *timedWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.begin()
	}
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

func (w *timedWriter) Write(p []byte) (written int, err error) {
	w.begin()
	for {
		chunk := p[:min(len(p), writeChunk)]
		w.extend()
		n, err := w.ResponseWriter.Write(chunk)
		written += n
		if err != nil || len(chunk) == len(p) {
			return written, err
		}
		p = p[len(chunk):]
	}
}

func (w *timedWriter) extend() { _ = w.conn.SetWriteDeadline(time.Now().Add(w.limits.write)) }

// SetReadDeadline implements the method for http.ResponseController. It can only shorten the
// deadline of the body.
func (w *timedWriter) SetReadDeadline(t time.Time) error {
	if w.body != nil && !t.IsZero() {
		w.body.by(t)
	}
	return nil
}

// Unwrap returns the underlying writer to http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
