package dashboard

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/julienschmidt/httprouter"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// input is the source from which a request struct parses itself: path segments, query parameters
// and a JSON body. Its methods return zero values after the first problem, which finish returns.
type input struct {
	handler  *handler
	request  *http.Request
	out      *reply
	path     httprouter.Params
	query    url.Values
	asked    []string // names of the parameters the endpoint takes
	object   *object
	fields   func(*codec.Fields) // of the body of an operation, for descriptions
	lines    func(*codec.Fields) // of each line of the body, likewise
	probe    *probe              // not nil: the request only describes its route
	maxBody  int64               // bytes
	held     int64               // bytes of the body in memory
	bodyRead bool

	home       string // namespace of requests that name none
	namespaced bool   // namespace has been called
	about      string // result of namespace
	err        error
}

func newInput(h *handler, r *http.Request, path httprouter.Params) *input {
	in := &input{handler: h, request: r, path: path, asked: []string{"namespace"}, maxBody: h.maxBody, home: engine.DefaultNamespace}
	var err error
	if in.query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		in.invalid("query: %v", err)
	}
	return in
}

// alone reports whether a parameter is given by its name alone, without "=".
func (in *input) alone(name string) bool {
	for part := range strings.SplitSeq(in.request.URL.RawQuery, "&") {
		if decoded, err := url.QueryUnescape(part); err == nil && decoded == name && !strings.Contains(part, "=") {
			return true
		}
	}
	return false
}

// invalid records that the request is malformed.
func (in *input) invalid(format string, args ...any) {
	in.check(engine.Errorf(engine.ErrInvalid, format, args...))
}

// check records err, unless it is nil or there is an earlier one.
func (in *input) check(err error) {
	if in.err == nil && in.probe == nil {
		in.err = err
	}
}

// finish returns the first problem. An unknown parameter is a problem, since it may be a mistyped
// option or condition; on reads only an unknown parameter for paging is.
func (in *input) finish() error {
	if in.object != nil {
		in.object.finish()
	}
	if !in.namespaced { // the parameter is accepted everywhere, and checked everywhere
		in.namespace()
	}
	in.refuseUnknown()
	return in.err
}

// paging are usual names of parameters for paging. An endpoint that uses another name, or has no
// pages, must not ignore them: the caller would mistake the response for the requested page.
var paging = []string{"after", "before", "cursor", "limit", "offset", "page", "page_size", "page_token", "per_page", "skip", "start",
	"count", "size", "max", "max_results", "marker", "top", "pageSize", "pageToken", "perPage"}

func (in *input) refuseUnknown() {
	reads := in.request.Method == http.MethodGet
	for name := range in.query {
		if !slices.Contains(in.asked, name) && (!reads || slices.Contains(paging, name)) {
			in.invalid("unknown parameter %.64q: this endpoint takes %s%s", name, strings.Join(in.asked, ", "), didYouMean(name, in.asked))
		}
	}
}

// release releases the memory of the body.
func (in *input) release() { in.handler.traffic.held.Add(-in.held) }

// segment returns a segment of the path, unescaped.
func (in *input) segment(name string) string {
	s, err := url.PathUnescape(in.path.ByName(name))
	if err != nil {
		in.invalid("path segment %s: %v", name, err)
	}
	return s
}

// number returns an integer path segment.
func (in *input) number(name string, s span) int64 {
	in.describe(name, s.schema)
	text := in.segment(name)
	n, ok := s.parse(text)
	if !ok {
		in.invalid("path segment %s is %.64q, it takes an integer from %d to %d", name, text, s.min, s.max)
	}
	return n
}

// namespace returns the namespace in the path, else the parameter, else the only one of the key,
// else the default one. If path and parameter both name one, they must agree.
func (in *input) namespace() string {
	in.namespaced = true
	name, given := in.param("namespace")
	if in.path.ByName("namespace") != "" {
		segment := in.segment("namespace")
		if given && name != segment {
			in.invalid("parameter namespace %.64q contradicts the path, which names %.64q", name, segment)
		}
		name = segment
	} else if !given {
		name = in.home
	}
	in.check(engine.CheckName("namespace", name))
	in.about = name
	return name
}

// body returns the JSON object in the body.
func (in *input) body() *object {
	in.object = &object{in: in}
	if in.err != nil {
		return in.object
	}
	raw, err := in.readEncodedBody()
	if err == nil {
		in.object.members, err = parseObject(raw)
	}
	in.check(err)
	return in.object
}

// payload returns the decoded body, within the limit for values.
func (in *input) payload(e encoding) []byte {
	if in.err != nil {
		return nil
	}
	limit := in.handler.backend.MaxValueSize()
	if e != base64Text && in.request.Header.Get("Content-Encoding") == "" {
		in.maxBody = min(in.maxBody, int64(limit))
	}
	raw, err := in.readEncodedBody()
	in.check(err)
	payload, err := e.decoded("body", string(raw))
	in.check(err)
	if len(payload) > limit {
		in.check(engine.Errorf(errTooLarge, "payload of %d bytes exceeds max_value_size (%d bytes)", len(payload), limit))
	}
	return []byte(payload)
}

// mostExpected is the size for which memory is reserved before a body arrives.
const mostExpected = 64 << 10

func (in *input) readBody() ([]byte, error) {
	if in.request.ContentLength > in.maxBody {
		return nil, bodyTooLarge(in.maxBody)
	}
	buf := bytes.NewBuffer(make([]byte, 0, min(max(in.request.ContentLength, 0), mostExpected)+bytes.MinRead))
	_, err := buf.ReadFrom(bodyReader{in})
	raw := buf.Bytes()
	in.bodyRead = err == nil
	if err != nil && statusOf(err) == http.StatusInternalServerError {
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err // without the addresses of the connection
		}
		err = engine.Errorf(engine.ErrInvalid, "read body: %v", err)
	}
	return raw, err
}

// readEncodedBody reads the body according to its Content-Encoding: plain or gzip. The size limit
// also applies to the decoded body.
func (in *input) readEncodedBody() ([]byte, error) {
	raw, err := in.readBody()
	if err != nil {
		return nil, err
	}
	switch encoding := strings.ToLower(in.request.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return raw, nil
	case "gzip":
	default:
		return nil, engine.Errorf(errUnsupported, "content encoding %.64q is not supported, only gzip is", encoding)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, engine.Errorf(engine.ErrInvalid, "gzip body: %v", err)
	}
	decoded, err := io.ReadAll(bodyDecoder{in, z})
	if err != nil && statusOf(err) == http.StatusInternalServerError {
		err = engine.Errorf(engine.ErrInvalid, "gzip body: %v", err)
	}
	return decoded, err
}

// bodyDecoder counts the decoded bytes of a body as bodyReader counts the body: a small body may
// decode to a very large one.
type bodyDecoder struct {
	in *input
	r  io.Reader
}

func (d bodyDecoder) Read(p []byte) (int, error) {
	h := d.in.handler
	n, err := d.r.Read(p)
	d.in.held += int64(n)
	held := h.traffic.held.Add(int64(n))
	switch {
	case d.in.held > d.in.maxBody:
		return n, bodyTooLarge(d.in.maxBody)
	case held > h.maxHeld:
		return n, engine.Errorf(engine.ErrBusy, "bodies of %d bytes are being read, the limit is %d", held, h.maxHeld)
	}
	return n, err
}

func bodyTooLarge(limit int64) error {
	return engine.Errorf(errTooLarge, "body exceeds the limit of %d bytes", limit)
}

// bodyReader reads the body of a request within its limits.
type bodyReader struct{ in *input }

func (b bodyReader) Read(p []byte) (int, error) {
	h := b.in.handler
	n, err := b.in.request.Body.Read(p)
	b.in.held += int64(n)
	h.traffic.add(h.now(), int64(n), 0)
	held := h.traffic.held.Add(int64(n))
	switch {
	case b.in.held > b.in.maxBody:
		return n, bodyTooLarge(b.in.maxBody)
	case held > h.maxHeld:
		return n, engine.Errorf(engine.ErrBusy, "bodies of %d bytes are being read, the limit is %d", held, h.maxHeld)
	}
	return n, err
}
