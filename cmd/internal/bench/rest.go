package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
)

// restCallers is the number of concurrent connections that request keys.
const restCallers = 64

// rest returns the rows of the dashboard's JSON API. Clients share the processors with the server
// and use as little of them as possible.
func (b *bench) rest() []row {
	reads := load{callers: restCallers, last: b.settings.last, sample: 1, existing: b.settings.hot}
	pages := load{callers: 1, last: b.settings.last, sample: 1, existing: b.settings.keys}
	return []row{
		{
			name: "rest/get/64", bar: 57_000, unit: "requests/s", absolute: true, more: true,
			work: throughput{reads, b.requests(b.stored(b.settings.hot), reads, getKey)},
		},
		{
			name: "rest/put/64", bar: 24_500, unit: "requests/s", absolute: true, more: true,
			work: throughput{b.writes(restCallers), b.requests(nil, b.writes(restCallers), b.putKey)},
		},
		{
			name: "rest/list/first byte", bar: 5, unit: "ms", absolute: true,
			work: worstFew{throughput{pages, b.requests(b.stored(b.settings.keys), pages, listKeys)}},
		},
	}
}

// throughput measures floe's operations per second, without a comparison.
type throughput struct {
	load load
	floe side
}

func (r throughput) measure(b *bench) (result, error) {
	var all []figures
	for i := range b.settings.rounds {
		f, err := b.round(r.floe, r.load)
		if err != nil {
			return result{}, err
		}
		b.log("  round %d: %v", i+1, f)
		all = append(all, f)
	}
	f := medians(all)
	return result{value: f.rate, figures: f}, nil
}

func (r throughput) profile(b *bench) (figures, error) { return b.round(r.floe, r.load) }

// worstFew measures the p99 latency in milliseconds.
type worstFew struct{ throughput }

func (r worstFew) measure(b *bench) (result, error) {
	res, err := r.throughput.measure(b)
	res.value = float64(res.p99) / float64(time.Millisecond)
	return res, err
}

// request appends the next request of a worker.
type request func(dst []byte, w *worker) []byte

const keysPath = "/api/v1/kv/namespaces/" + namespace + "/keys"

func getKey(dst []byte, w *worker) []byte {
	return fmt.Appendf(dst, "GET %s/%s?encoding=base64 HTTP/1.1\r\nHost: bench\r\n\r\n", keysPath, w.pick())
}

func (b *bench) putKey(dst []byte, w *worker) []byte {
	const before, after = `{"value":"`, `"}`
	length := len(before) + base64.StdEncoding.EncodedLen(valueBytes) + len(after)
	dst = fmt.Appendf(dst, "PUT %s/%s?encoding=base64 HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n\r\n%s", keysPath, w.keys.take(),
		length, before)
	return append(base64.StdEncoding.AppendEncode(dst, b.values.cut(w.rng)), after...)
}

// listKeys requests the largest page of keys with the same two digits as a prefix.
func listKeys(dst []byte, w *worker) []byte {
	return fmt.Appendf(dst, "GET %s?limit=1000&prefix=%s HTTP/1.1\r\nHost: bench\r\n\r\n", keysPath, w.pick()[:2])
}

// requests returns the side of floe's dashboard: each worker sends requests through its own
// connection. The directory is prepared, or new if prepared is nil.
func (b *bench) requests(prepared func() (string, error), l load, next request) side {
	return b.exchanges(prepared, l, func(c *caller, w *worker) error {
		c.out = next(c.out[:0], w)
		return c.ask()
	})
}

// exchanges is requests with several requests in a call.
func (b *bench) exchanges(prepared func() (string, error), l load, call func(c *caller, w *worker) error) side {
	return func(dir string) (_ *subject, err error) {
		if prepared != nil {
			if dir, err = prepared(); err != nil {
				return nil, err
			}
		}
		n, err := floe.Open(floe.Config{DataDir: dir, Shards: 1})
		if err != nil {
			return nil, err
		}
		s, err := serve(n, l.callers)
		if err != nil {
			return nil, errors.Join(err, n.Close())
		}
		return &subject{
			ops: 1, close: func() error { return errors.Join(s.close(), n.Close()) },
			warm: func() error {
				if l.existing != b.settings.hot {
					return nil
				}
				return b.heat(n.KV(namespace))
			},
			call: func(w *worker) error { return call(s.callers[w.id], w) },
		}, nil
	}
}

// site is a dashboard on a port, and connections to it.
type site struct {
	server  *http.Server
	addr    string
	failed  chan error
	callers []*caller
}

func serve(n *floe.Node, callers int) (*site, error) {
	l, err := net.Listen("tcp", loopback)
	if err != nil {
		return nil, err
	}
	s := &site{server: &http.Server{Handler: dashboard.New(n, dashboard.Options{}), ReadHeaderTimeout: time.Minute},
		addr:   l.Addr().String(),
		failed: make(chan error, 1)}
	go func() { s.failed <- s.server.Serve(l) }()
	for range callers {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.callers = append(s.callers, &caller{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)})
	}
	return s, nil
}

func (s *site) close() (err error) {
	for _, c := range s.callers {
		err = errors.Join(err, c.conn.Close())
	}
	err = errors.Join(err, s.server.Close())
	if stopped := <-s.failed; !errors.Is(stopped, http.ErrServerClosed) {
		err = errors.Join(err, stopped)
	}
	return err
}

// caller is a keep-alive connection.
type caller struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

// ask sends the request in out and reads the whole answer, which must have status 200. The server
// sends the first byte when it has computed the last one.
func (c *caller) ask() error {
	if err := c.begin(); err != nil {
		return err
	}
	length, err := c.head()
	if err == nil {
		_, err = c.in.Discard(length)
	}
	return err
}

// begin sends the request in out and reads the status of its answer.
func (c *caller) begin() error {
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	line, err := c.in.ReadSlice('\n')
	if err == nil && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
		err = fmt.Errorf("%s is answered with %s", c.out, line)
	}
	return err
}

// head reads the header of an answer and returns the length of its body.
func (c *caller) head() (length int, err error) {
	length = -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		if rest, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			if length, err = strconv.Atoi(string(rest)); err != nil {
				return 0, err
			}
		}
	}
	if length < 0 {
		return 0, errors.New("an answer without its length")
	}
	return length, nil
}
