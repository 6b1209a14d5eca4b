package cli

import (
	"io"
	"net/http"
	"time"
)

// deadlines cut off clients that do not send or do not read. They are not http.Server's ReadTimeout
// and WriteTimeout, which count from the first byte of the request and would so end a long poll: a
// request may wait for its answer as long as it likes, only the transfer of the bodies is timed.
type deadlines struct {
	body  time.Duration // for the body of a request to arrive, counted from its header
	rest  time.Duration // for what of it has not arrived when it is answered, which net/http reads and drops
	write time.Duration // for each writeChunk of the answer to be taken
}

// writeChunk is how much of an answer one write deadline is for: about 9 KiB/s with 30 s.
const writeChunk = 256 << 10

func (d deadlines) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := http.NewResponseController(w)
		// The connection may still have the deadline of its last answer, and a "100 Continue" is
		// written behind our back. An error means that the connection is closed, here and below;
		// the next read or write says so.
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

// timedBody is a body that has to arrive by its deadline. It takes that off the connection when it
// has come: what is read from then on is whether the client is still there. Until then the deadline
// only gets earlier, so that a body that has failed by it does not get more time from anyone.
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

// within sets the deadline, unless there is an earlier one or the body has ended.
func (b *timedBody) within(d time.Duration) { b.by(time.Now().Add(d)) }

func (b *timedBody) by(t time.Time) {
	if b.ended || !b.deadline.IsZero() && t.After(b.deadline) {
		return
	}
	b.deadline = t
	_ = b.conn.SetReadDeadline(t)
}

// timedWriter sets a new deadline for each chunk.
type timedWriter struct {
	http.ResponseWriter
	conn   *http.ResponseController
	limits deadlines
	body   *timedBody // nil: there is none
	begun  bool
}

// begin hurries what has not come of the body when it is answered: a client that has not shown a
// key yet would hold the connection for as long as those that have.
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

// SetReadDeadline is for http.ResponseController. It can give the body less time, not more.
func (w *timedWriter) SetReadDeadline(t time.Time) error {
	if w.body != nil && !t.IsZero() {
		w.body.by(t)
	}
	return nil
}

// Unwrap lets http.ResponseController find the writer below.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
