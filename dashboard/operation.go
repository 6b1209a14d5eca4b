package dashboard

import (
	"bytes"
	"context"
	"errors"
	"mime"
	"slices"
	"sync"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Operations are the endpoints through which programs in any language work with data: they append,
// consume, lease and settle, where the others list and inspect. Names are in the path, and
// everything else is in a JSON body, whose fields a request declares once: for the parser, for the
// limits and for the reference.

// Media types of bodies.
const (
	jsonMedia   = "application/json"
	jsonLines   = "application/x-ndjson"
	octetStream = "application/octet-stream"
	yamlMedia   = "application/yaml"
	textMedia   = "text/plain"
)

// longestWait is the maximum of wait_ms: proxies close connections that are silent for longer.
const longestWait = 60_000

// waitRange is the range of wait_ms, where 0 means no wait.
var waitRange = codec.Range{Max: longestWait}

// readFields reads the JSON object in the body into the fields of v. An empty body is an empty
// object. Fields that are absent keep their values.
func readFields[T any](in *input, v *T, code func(*T, *codec.Fields)) {
	in.fields = func(f *codec.Fields) { code(v, f) }
	if in.probe != nil && hasBytes(codec.Describe(in.fields)) {
		in.encoding()
	}
	if body := in.content(); in.err == nil && len(bytes.TrimSpace(body)) > 0 {
		in.check(readObject(body, in.encoding(), in.fields))
	}
	if in.err == nil {
		in.check(refused(codec.CheckFields(v, false, code)))
	}
}

// hasBytes reports whether a body has fields to which the parameter encoding applies.
func hasBytes(fields []codec.Field) bool {
	return slices.ContainsFunc(fields, func(f codec.Field) bool { return f.Type == codec.BytesType || hasBytes(f.Fields) })
}

// readLines reads the values of a batch: a JSON object in each line of the body. Empty lines are
// skipped.
func readLines[T any](in *input, list *[]T, limit int, code func(*T, *codec.Fields)) {
	in.lines = func(f *codec.Fields) { code(new(T), f) }
	encoding := in.encoding()
	n := 0
	for line := range bytes.Lines(in.content()) {
		if n++; in.err != nil {
			return
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if len(*list) == limit {
			in.invalid("the body has more than %d lines", limit)
			return
		}
		var v T
		err := readObject(line, encoding, func(f *codec.Fields) { code(&v, f) })
		if err == nil {
			err = refused(codec.CheckFields(&v, false, code))
		}
		if err != nil {
			in.invalid("line %d: %v", n, err)
			return
		}
		*list = append(*list, v)
	}
}

// content returns the body of the request, decoded according to its Content-Encoding.
func (in *input) content() []byte {
	if in.err != nil {
		return nil
	}
	body, err := in.readEncodedBody()
	in.check(err)
	return body
}

// readObject reads a JSON object by its fields.
func readObject(body []byte, e encoding, code func(*codec.Fields)) error {
	if err := checkText(body); err != nil {
		return err
	}
	if err := checkSyntax(body); err != nil {
		return err
	}
	return refused(codec.ReadJSON(body, e == base64Text, code))
}

// refused makes an error about a body ErrInvalid.
func refused(err error) error {
	if err == nil {
		return nil
	}
	return engine.Errorf(engine.ErrInvalid, "body: %v", err)
}

// contentType returns the media type of the body, "" if it is not given.
func (in *input) contentType() string {
	given := in.header("Content-Type")
	if given == "" {
		return ""
	}
	media, _, err := mime.ParseMediaType(given)
	if err != nil {
		in.invalid("header Content-Type is %.64q: %v", given, err)
	}
	return media
}

// need rejects an object that lacks a member.
func need(f *codec.Fields, name string) { f.Require(name) }

// texts codes a list of strings that name records, such as receipts.
func texts(f *codec.Fields, name string, list *[]string, most int64) {
	need(f, name)
	codec.ListOf(f, name, list, codec.Text, codec.Range{Min: 1, Max: most})
}

// wait is how long a request waits if it finds nothing.
type wait struct {
	time time.Duration
	in   *input
}

func (w *wait) parse(in *input) { w.in = in }

func (w *wait) fields(f *codec.Fields) { f.Duration("wait_ms", &w.time, waitRange) }

// waiters limits the number of waiting requests. Each holds a connection, a goroutine and its
// parsed body, but no slot.
type waiters struct {
	most      int   // requests; one caller may have half of them
	mostBytes int64 // of their bodies

	mu    sync.Mutex // guards the fields below
	n     int
	bytes int64
	by    map[string]int // by caller
}

// maxWaitingBytes is the total size of the bodies of waiting requests. A usual one has 100 bytes.
const maxWaitingBytes = 16 << 20

// enter takes a place for a request of a caller, whose body has a size; leave gives it back.
// Errors: ErrBusy.
func (w *waiters) enter(caller string, size int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch share := max(w.most/2, 1); {
	case w.n >= w.most:
		return engine.Errorf(engine.ErrBusy, "%d requests are waiting, the limit is %d", w.n, w.most)
	case w.by[caller] >= share:
		return engine.Errorf(engine.ErrBusy, "%d requests of this caller are waiting, the limit is %d", w.by[caller], share)
	case w.bytes+size > w.mostBytes:
		return engine.Errorf(engine.ErrBusy, "requests with bodies of %d bytes are waiting, the limit is %d", w.bytes, w.mostBytes)
	}
	w.n, w.bytes = w.n+1, w.bytes+size
	w.by[caller]++
	return nil
}

func (w *waiters) leave(caller string, size int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n, w.bytes = w.n-1, w.bytes-size
	if w.by[caller]--; w.by[caller] == 0 {
		delete(w.by, caller)
	}
}

// count returns the number of requests that wait.
func (w *waiters) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

// patiently calls f without waiting. If that finds nothing, it gives up the request's slot and
// calls f with the wait of the request. A stream that does not exist yet is waited for too.
func patiently[T any](ctx context.Context, w wait, f func(ctx context.Context, wait time.Duration) ([]T, error)) ([]T, error) {
	found, err := f(ctx, 0)
	if w.time == 0 || len(found) > 0 || err != nil && !errors.Is(err, engine.ErrNotFound) {
		return found, err
	}
	if err := w.in.leaveSlot(); err != nil {
		return nil, err
	}
	found, err = f(ctx, w.time)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // ErrUnauthorized if the key was revoked
	}
	return found, err
}

// parameter reads wait_ms as a parameter.
func (w *wait) parameter(in *input) {
	w.in = in
	w.time = time.Duration(in.integer("wait_ms", span{max: longestWait})) * time.Millisecond
}

// until calls f, which waits for something, for up to the time of the request. It is no error if
// that time ends first.
func (w *wait) until(ctx context.Context, f func(ctx context.Context) error) error {
	if err := w.in.leaveSlot(); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, w.time)
	defer cancel()
	err := f(waiting)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case waiting.Err() != nil:
		return nil
	}
	return err
}

// leaveSlot ends the request's use of a slot of work and of the memory for bodies, because it only
// waits from now on. Errors: ErrBusy if too many requests wait.
func (in *input) leaveSlot() error {
	out := in.out
	if out.stopWaiting != nil {
		return nil
	}
	waiters, caller, size := in.handler.waiters, in.from(), in.held
	if out.who != nil && out.who.Key().ID != "" {
		caller = out.who.Key().ID
	}
	if err := waiters.enter(caller, size); err != nil {
		return err
	}
	in.release()
	in.held = 0
	out.leave()
	out.stopWaiting = func() { waiters.leave(caller, size) }
	return nil
}

// jsonField codes any JSON value, as it is.
func jsonField(f *codec.Fields, name string, v *[]byte) {
	if !f.Checking() && f.Given(name, *v != nil) {
		f.Custom(name, codec.Custom{Type: codec.AnyType, Parse: func(value []byte) error {
			*v = bytes.Clone(value)
			return nil
		}})
	}
}
