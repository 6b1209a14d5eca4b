package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

const eventStream = "text/event-stream"

// heartbeat is the interval of comments in an event stream without events: they show a client that
// the connection is alive, and the handler that the client is.
const heartbeat = 15 * time.Second

// firstBeat is the time after which a response begins without an event, so that the client knows
// that it is connected. Errors before that have their own status.
const firstBeat = 200 * time.Millisecond

// event is a message of an event stream. Its id, from which a client resumes, may be empty; without
// data it only moves that position.
type event struct {
	id   string
	data any
}

// follower is a response that continues until the client leaves.
type follower interface {
	// events returns a function that returns the events until ctx ends; nil if the response is an
	// ordinary one.
	events() func(ctx context.Context) iter.Seq2[event, error]
}

// lastEvent returns the position from which a client resumes: the header Last-Event-ID, else the
// parameter after.
func (in *input) lastEvent() string {
	after, _ := in.named("after")
	if id := in.header("Last-Event-ID"); id != "" {
		return id
	}
	return after
}

// wantsEvents reports whether the client asks for an event stream.
func (in *input) wantsEvents() bool {
	in.headerValues("Last-Event-ID") // which only requests for events read
	return strings.Contains(strings.ToLower(in.request.Header.Get("Accept")), eventStream)
}

// follow sends events until the client leaves, the key is revoked or the node is closed. They are
// read in another goroutine, so that heartbeats are sent meanwhile.
func (h *handler) follow(out *reply, in *input, events func(ctx context.Context) iter.Seq2[event, error]) {
	if err := in.leaveSlot(); err != nil {
		h.fail(out, err)
		return
	}
	header := out.Header()
	header.Set("Content-Type", eventStream)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Accel-Buffering", "no") // proxies would collect events otherwise
	if out.request.Method == http.MethodHead {
		out.WriteHeader(http.StatusOK)
		return
	}
	ctx, cancel := context.WithCancel(in.request.Context())
	ctx, end := h.followers.Begin(ctx)
	defer end()
	type pair struct {
		event
		err error
	}
	pairs, gone, ended := make(chan pair), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(pairs)
		for e, err := range events(ctx) {
			select {
			case pairs <- pair{e, err}:
			case <-gone:
				return
			}
		}
	}()
	defer func() { // nothing of the request is used after its end
		cancel()
		close(gone)
		<-ended
	}()

	beat := time.NewTimer(firstBeat)
	defer beat.Stop()
	for begun := false; ; {
		text := ":\n\n"
		select {
		case p, more := <-pairs:
			if !more && !begun && ctx.Err() == nil { // an EventSource does not connect again
				header.Del("Content-Type")
				out.WriteHeader(http.StatusNoContent)
			}
			if !more {
				return
			}
			if p.err != nil && ctx.Err() != nil {
				p.err = context.Cause(ctx) // ErrUnauthorized if the key was revoked
			}
			if p.err != nil && !begun {
				h.fail(out, p.err)
				return
			}
			text = p.text()
			if p.err != nil {
				text = fmt.Sprintf("event: error\ndata: %s\n\n", encodedLine(errorBody{interrupted(p.err)}))
			}
		case <-beat.C:
		}
		if !begun {
			out.WriteHeader(http.StatusOK)
			begun = true
		}
		if _, err := out.Write([]byte(text)); err != nil {
			return
		}
		if err := http.NewResponseController(out).Flush(); err != nil {
			return
		}
		beat.Reset(heartbeat)
	}
}

// text returns the event as it is sent.
func (e event) text() string {
	var b strings.Builder
	if e.id != "" {
		fmt.Fprintf(&b, "id: %s\n", e.id)
	}
	if e.data != nil {
		fmt.Fprintf(&b, "data: %s\n", encodedLine(e.data))
	}
	return b.String() + "\n"
}

// encodedLine returns v as JSON in one line.
func encodedLine(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte(`{}`)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

var eventRoutes = []route{
	endpoint("GET "+kvPath+"/watch", (*handler).watchKeys,
		"Watch keys as server-sent events: first the existing ones, then every change. The header Last-Event-ID, or after, continues after "+
			"the id of an event, without the existing ones."),
}

// watchRequest asks for the changes of keys with a prefix, after a revision if one is given.
type watchRequest struct {
	namespace string
	prefix    string
	after     *int64
	encoding  encoding
}

func (q *watchRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.prefix = in.text("prefix")
	q.encoding = in.encoding()
	if id := in.lastEvent(); id != "" {
		n, ok := (span{max: math.MaxInt64}).parse(id)
		if q.after = &n; !ok {
			in.invalid("the revision after which the watch continues is %.64q, it takes an integer from 0", id)
		}
	}
}

// keyChange is an event of a watch.
type keyChange struct {
	Type     string `json:"type"` // put, delete, expire or compacted
	Key      string `json:"key"`
	Value    string `json:"value"`
	Revision uint64 `json:"revision"`
	Version  uint64 `json:"version"`
	AtMillis int64  `json:"at_ms"`
}

// watchedKeys is the response to watch.
type watchedKeys struct {
	keyChange
	follow func(ctx context.Context) iter.Seq2[event, error]
}

func (w watchedKeys) events() func(ctx context.Context) iter.Seq2[event, error] { return w.follow }

func (h *handler) watchKeys(ctx context.Context, q watchRequest) (watchedKeys, error) {
	var opts []kv.WatchOption
	if q.after != nil {
		opts = append(opts, kv.FromRevision(uint64(*q.after)))
	}
	info, err := h.backend.Namespaces().Get(ctx, q.namespace)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return watchedKeys{}, err
	}
	if info.Spread && q.after != nil {
		return watchedKeys{}, engine.Errorf(engine.ErrInvalid, "namespace %q is spread: a watch of it cannot be resumed", q.namespace)
	}
	if !info.Spread {
		opts = append(opts, kv.Progress())
	}
	store := h.backend.KV(q.namespace)
	return watchedKeys{follow: func(ctx context.Context) iter.Seq2[event, error] {
		changes := store.Watch(ctx, q.prefix, opts...)
		if info.Spread {
			return converted(changes, func(c kv.Event) event { return event{data: q.change(c)} })
		}
		return q.events(changes)
	}}, nil
}

// events returns changes as they are sent. The watch reports progress when it has delivered all
// changes it found, so the last one of them gets the id to resume from: the others come in the
// order of keys, and their revisions are no such positions.
func (q *watchRequest) events(changes iter.Seq2[kv.Event, error]) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		var last event // not sent yet
		send := func(next event) bool {
			ok := last.data == nil && last.id == "" || yield(last, nil)
			last = next
			return ok
		}
		for c, err := range changes {
			switch {
			case err != nil:
				if send(event{}) {
					yield(event{}, err)
				}
				return
			case c.Type != kv.EventProgress:
				if !send(event{data: q.change(c)}) {
					return
				}
				continue
			}
			last.id = fmt.Sprint(c.Revision)
			if !send(event{}) {
				return
			}
		}
	}
}

func (q *watchRequest) change(c kv.Event) keyChange {
	shown := keyChange{Type: c.Type.String(), Key: q.encoding.encoded(c.Key), Value: q.encoding.encoded(string(c.Value)),
		Revision: c.Revision, Version: c.Version}
	if !c.Time.IsZero() {
		shown.AtMillis = c.Time.UnixMilli()
	}
	return shown
}

// converted returns what all yields as events.
func converted[T any](all iter.Seq2[T, error], convert func(T) event) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		for v, err := range all {
			if !yield(convert(v), err) {
				return
			}
		}
	}
}

// runEvents returns the events of a run: its present state, unless it is the last event that the
// client has, and its end. end waits for the end; it is nil if the run has ended.
func runEvents(now event, last string, end func(ctx context.Context) (event, error)) func(ctx context.Context) iter.Seq2[event, error] {
	return func(ctx context.Context) iter.Seq2[event, error] {
		return func(yield func(event, error) bool) {
			first := now
			now = event{} // large, and the end may be far away
			if first.id != last && !yield(first, nil) || end == nil {
				return
			}
			first = event{}
			e, err := end(ctx)
			if err != nil {
				e = event{}
			}
			yield(e, err)
		}
	}
}
