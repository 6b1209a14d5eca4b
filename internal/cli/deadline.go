package cli

import (
	"io"
	"net/http"
	"time"
)

// deadlines cut off clients that do not send or do not read. They are not http.Server's ReadTimeout and WriteTimeout, which
// count from the first byte of the request and would so end a long poll: a request may wait for its answer as long as it
// likes, only the transfer of the bodies is timed.
type deadlines struct {
	body  time.Duration // for the body of a request to arrive, counted from its header
	write time.Duration // for each writeChunk of the answer to be taken
}

// writeChunk is how much of an answer one write deadline is for: about 9 KiB/s with 30 s.
const writeChunk = 256 << 10

func (d deadlines) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := http.NewResponseController(w)
		// The connection may still have the deadline of its last answer, and a "100 Continue" is written behind our back. An
		// error means that the connection is closed, here and below; the next read or write says so.
		_ = conn.SetWriteDeadline(time.Time{})
		if r.Body != http.NoBody {
			_ = conn.SetReadDeadline(time.Now().Add(d.body))
			r.Body = &timedBody{r.Body, conn}
		}
		h.ServeHTTP(&timedWriter{w, conn, d.write}, r)
	})
}

// timedBody takes the read deadline off when the body has come: what is read from then on is whether the client is still there.
type timedBody struct {
	io.ReadCloser
	conn *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}

// timedWriter sets a new deadline for each chunk.
type timedWriter struct {
	http.ResponseWriter
	conn  *http.ResponseController
	limit time.Duration
}

func (w *timedWriter) WriteHeader(status int) {
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

func (w *timedWriter) Write(p []byte) (written int, err error) {
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

func (w *timedWriter) extend() { _ = w.conn.SetWriteDeadline(time.Now().Add(w.limit)) }

// Unwrap lets http.ResponseController find the writer below.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
