package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
)

// Errors of HTTP itself; the others are the errors of package floe.
var (
	errForbidden   = errors.New("forbidden")
	errMethod      = errors.New("method not allowed")
	errTooLarge    = errors.New("too large")
	errUnsupported = errors.New("unsupported media type")
	errMisdirected = errors.New("misdirected request")
)

// statuses maps errors to statuses; the first match applies. Other errors are 500.
var statuses = []struct {
	err    error
	status int
}{
	{engine.ErrInvalid, http.StatusBadRequest},
	{engine.ErrUnauthorized, http.StatusUnauthorized},
	{errForbidden, http.StatusForbidden},
	{engine.ErrNotFound, http.StatusNotFound},
	{errMethod, http.StatusMethodNotAllowed},
	{engine.ErrConflict, http.StatusConflict},
	{engine.ErrExists, http.StatusConflict},
	{errTooLarge, http.StatusRequestEntityTooLarge},
	{errUnsupported, http.StatusUnsupportedMediaType},
	{errMisdirected, http.StatusMisdirectedRequest},
	{engine.ErrBusy, http.StatusTooManyRequests},
	{engine.ErrUnavailable, http.StatusServiceUnavailable}, // and ErrUnknownOutcome
	{engine.ErrClosed, http.StatusServiceUnavailable},
	{context.Canceled, http.StatusServiceUnavailable},
	{context.DeadlineExceeded, http.StatusServiceUnavailable},
}

func statusOf(err error) int {
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status
		}
	}
	return http.StatusInternalServerError
}

// unlessForced adds the parameter that allows a deletion to the error that refuses it.
func unlessForced(err error) error {
	if errors.Is(err, engine.ErrConflict) {
		return fmt.Errorf("%w; to delete it all the same, set force=true", err)
	}
	return err
}

// retryAfter returns the Retry-After header for 429 and 503: 1 s unless the error has its own
// value, since a node recovers from both within moments or not without intervention.
func retryAfter(err error) string {
	var later interface{ RetryAfter() time.Duration }
	if errors.As(err, &later) {
		return strconv.Itoa(max(int(math.Ceil(later.RetryAfter().Seconds())), 1))
	}
	return "1"
}

// errorBody is the body of an error.
type errorBody struct {
	Error string `json:"error"`
}

// bodyError is an error with its own response body.
type bodyError interface {
	error
	body() any
}

// headed is a response that sets headers.
type headed interface{ setHeader(http.Header) }

// fail responds with an error. Errors not caused by the client are logged, and their text is not
// sent to the client.
func (h *handler) fail(out *reply, err error) {
	status := statusOf(err)
	var body any = errorBody{err.Error()}
	var own bodyError
	switch {
	case errors.As(err, &own):
		body = own.body()
	case status == http.StatusInternalServerError:
		h.log.Error("dashboard: request failed", "method", out.request.Method, "path", out.request.URL.Path, "err", err)
		body = errorBody{"internal error"}
	}
	if status == http.StatusServiceUnavailable && own == nil {
		body = errorBody{interrupted(err)}
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		out.Header().Set("Retry-After", retryAfter(err))
	}
	if status == http.StatusUnauthorized {
		out.Header().Set("WWW-Authenticate", "Bearer")
	}
	h.send(out, status, body)
}

// addresses matches node addresses, and names that were looked up for one, in the errors of
// connections.
var addresses = regexp.MustCompile(`\blookup [\w.-]+(?: on [\w.-]+(?::\d+)?)?|\[[0-9A-Fa-f:.%a-z]+\]:\d+|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|\b[\w.-]*[A-Za-z][\w.-]*:\d{1,5}\b`)

// withoutAddresses removes the addresses of other nodes from an error's text: the client does not
// need them, and may not be permitted to know them.
func withoutAddresses(text string) string { return addresses.ReplaceAllString(text, "a node") }

// interrupted returns the text of an error that does not come from the request.
func interrupted(err error) string {
	if errors.Is(err, context.Canceled) {
		return "the request was interrupted: the node is stopping, or the client has left"
	}
	return withoutAddresses(err.Error())
}

// recoverPanic turns a panic into 500, or closes the connection if the response has begun.
func (h *handler) recoverPanic(out *reply) {
	cause := recover()
	if cause == nil {
		return
	}
	err := fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
	if out.begun {
		h.log.Error("dashboard: answer broken off", "err", err)
		panic(http.ErrAbortHandler)
	}
	h.fail(out, err)
}

// send writes the response. It encodes the body before the first byte is sent, so that an encoding
// error results in a clean 500. Bytes that are not UTF-8 become U+FFFD, and a header reports that,
// so that clients do not write the response back.
func (h *handler) send(out *reply, status int, body any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		h.fail(out, fmt.Errorf("encode %T: %w", body, err))
		return
	}
	header := out.Header()
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(b.Len()))
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if replaced(b.Bytes()) {
		header.Set("X-Floe-Lossy", "true")
	}
	if out.leavesBody() {
		header.Set("Connection", "close")
	}
	out.WriteHeader(status)
	// The only possible error is a closed connection.
	_, _ = out.Write(b.Bytes())
}

// replaced reports whether encoding/json has replaced bytes: it then writes U+FFFD as an escape
// sequence, which it otherwise does not use for it.
func replaced(encoded []byte) bool {
	escape := []byte(`\ufffd`)
	for {
		at := bytes.Index(encoded, escape)
		if at < 0 {
			return false
		}
		before := encoded[:at]
		if backslashes := len(before) - len(bytes.TrimRight(before, `\`)); backslashes%2 == 0 {
			return true
		}
		encoded = encoded[at+len(escape):]
	}
}

// reply is the response writer of a request. It counts the bytes sent.
type reply struct {
	http.ResponseWriter
	request  *http.Request
	traffic  *traffic
	bodyRead bool // the body of the request was read to its end
	begun    bool
	who      *floe.Holder // nil: no authentication was needed
	slots    *slots       // of the slot that the request occupies; nil: none

	stopWaiting func() // gives back its place among the waiters; nil: it has none
}

// leave ends the request's use of a slot or of a place among the waiters.
func (out *reply) leave() {
	if out.slots != nil {
		out.slots.leave()
		out.slots = nil
	}
	if out.stopWaiting != nil {
		out.stopWaiting()
		out.stopWaiting = nil
	}
}

// WriteHeader begins the response.
func (out *reply) WriteHeader(status int) {
	out.begun = true
	out.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body, unless the request is HEAD.
func (out *reply) Write(p []byte) (int, error) {
	out.begun = true
	if out.request.Method == http.MethodHead {
		return len(p), nil
	}
	n, err := out.ResponseWriter.Write(p)
	out.traffic.add(time.Now(), 0, int64(n))
	return n, err
}

// Unwrap gives http.ResponseController access to the underlying writer.
func (out *reply) Unwrap() http.ResponseWriter { return out.ResponseWriter }

// leavesBody reports whether so much of the body may be unread that the connection should be
// closed: net/http would wait for the rest before it responds.
func (out *reply) leavesBody() bool {
	const worthReading = 64 << 10
	r := out.request
	return r.ProtoMajor == 1 && !out.bodyRead && (r.ContentLength < 0 || r.ContentLength > worthReading)
}
