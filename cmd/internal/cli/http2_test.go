package cli

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// clientOf returns Go's client with a single version of HTTP. HTTP/2 keeps one connection to an
// address, and waits for a free stream.
func clientOf(t *testing.T, p protocol, conf *tls.Config) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(p == http1)
	protocols.SetHTTP2(p == http2 && conf != nil)
	protocols.SetUnencryptedHTTP2(p == http2 && conf == nil)
	transport := &http.Transport{Protocols: &protocols, TLSClientConfig: conf,
		HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// TestHTTP2 sends requests, a request that waits and an event stream in both versions of HTTP, in
// clear text and over TLS; those of HTTP/2 share a connection.
func TestHTTP2(t *testing.T) {
	a := newAuthority(t)
	a.certify("node")
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate())
	trusting := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
	for _, conf := range []*tls.Config{nil, trusting} {
		args := []string{"--shards", "1", "--data-dir", t.TempDir()}
		if conf != nil {
			args = append(args, "--dashboard-tls-cert", a.file("node.pem"), "--dashboard-tls-key", a.file("node.key"))
		}
		s := start(t, args...)
		for _, p := range []protocol{http1, http2} {
			testVersion(t, s.url, clientOf(t, p, conf), p)
		}
		if resp, err := clientOf(t, http2, conf).Get(s.scrape + "/health"); err == nil {
			resp.Body.Close()
			t.Errorf("the metrics port: %s, want HTTP/1 only", resp.Proto)
		}
		// A request that waits does not delay the stop of the server.
		waiting := make(chan error)
		c := clientOf(t, http2, conf)
		go func() {
			resp, err := c.Post(s.url+"/api/v1/queues/stop/dequeue", "", strings.NewReader(`{"wait_ms":60000}`))
			if err == nil {
				resp.Body.Close()
			}
			waiting <- err
		}()
		if status, answer, err := call(c, "GET", s.url+"/health", ""); err != nil || status != http.StatusOK {
			t.Errorf("health: %d, %s, %v", status, answer, err)
		}
		if code := s.stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		<-waiting
	}
}

func testVersion(t *testing.T, url string, c *http.Client, p protocol) {
	t.Helper()
	at := fmt.Sprintf("%.5s, HTTP/%d", url, p)
	resp, err := c.Get(url + "/api/v1/kv/namespaces/default/watch?prefix=" + fmt.Sprint("k", int(p)))
	if err != nil {
		t.Fatal(at, err)
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != int(p) || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%s: event stream by %s, %v", at, resp.Proto, resp.Header)
	}
	taken := make(chan string)
	queue := fmt.Sprintf("%s/api/v1/queues/q%d", url, p)
	go func() {
		_, answer, err := call(c, "POST", queue+"/dequeue", `{"wait_ms":60000}`)
		taken <- fmt.Sprint(answer, err)
	}()
	for _, request := range [][3]string{
		{"PUT", url + keyPath(fmt.Sprint("k", int(p))), `{"value":"v"}`},
		{"POST", queue, "woken"},
	} {
		if status, answer, err := call(c, request[0], request[1], request[2]); err != nil || status != http.StatusOK {
			t.Errorf("%s: %s %s: %d, %s, %v", at, request[0], request[1], status, answer, err)
		}
	}
	if got := <-taken; !strings.Contains(got, `"payload":"woken"`) {
		t.Errorf("%s: a dequeue that waits: %s", at, got)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), `"value":"v"`) {
	}
	if lines.Err() != nil || !strings.Contains(lines.Text(), `"type":"put"`) {
		t.Errorf("%s: event %q, %v", at, lines.Text(), lines.Err())
	}
	large, err := http.NewRequest("GET", url+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]int{maxHeaderBytes / 2: http.StatusOK, 2 * maxHeaderBytes: http.StatusRequestHeaderFieldsTooLarge} {
		large.Header.Set("X-Large", strings.Repeat("x", n))
		got, err := c.Do(large)
		if p == http2 && want != http.StatusOK && err != nil && strings.Contains(err.Error(), "larger than peer's advertised limit") {
			continue // the client has not sent it
		}
		if err != nil {
			t.Errorf("%s: header of %d bytes: %v", at, n, err)
			continue
		}
		got.Body.Close()
		if got.StatusCode != want {
			t.Errorf("%s: header of %d bytes: %s, want %d", at, n, got.Status, want)
		}
	}
}

// TestStreamsOfConnections: a connection has up to maxStreams requests at once, and all connections
// together have as many as the site has connections; /health is served beside them.
func TestStreamsOfConnections(t *testing.T) {
	s, err := listen("127.0.0.1:0", http2, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	const limit = maxStreams - 20
	s.crowd.bound(limit, nil)
	begun, end := make(chan bool, 2*maxStreams), make(chan bool)
	s.gate.open(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			begun <- true
			<-end
		}
	}))
	url := "http://" + s.addr.String()
	c := clientOf(t, http2, nil)
	ask := func(path string) int {
		resp, err := c.Get(url + path)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	var all sync.WaitGroup
	for range limit {
		all.Go(func() {
			if status := ask("/wait"); status != http.StatusOK {
				t.Errorf("a request within the limit: %d", status)
			}
		})
	}
	for range limit {
		<-begun
	}
	if status := ask("/wait"); status != http.StatusTooManyRequests {
		t.Errorf("a request beyond the limit: %d, want 429", status)
	}
	if status := ask("/health"); status != http.StatusOK {
		t.Errorf("/health beyond the limit: %d", status)
	}
	s.crowd.bound(2*maxStreams, nil)
	for range maxStreams - limit {
		all.Go(func() { ask("/wait") })
	}
	for range maxStreams - limit {
		<-begun
	}
	var beyond sync.WaitGroup
	beyond.Go(func() { ask("/wait") }) // waits for a free stream
	s.crowd.mu.Lock()
	served := s.crowd.served
	s.crowd.mu.Unlock()
	if served != maxStreams {
		t.Errorf("%d requests of a connection are being served, want %d", served, maxStreams)
	}
	close(end)
	all.Wait()
	beyond.Wait()
	if s.crowd.served != 0 || len(s.crowd.asked) != 0 {
		t.Errorf("when all have ended: %d are being served, by address %v", s.crowd.served, s.crowd.asked)
	}
}

// TestRequestsOfAddresses: an address has three fourths of the requests.
func TestRequestsOfAddresses(t *testing.T) {
	c := newCrowd(slog.New(slog.DiscardHandler))
	c.bound(40, nil)
	guestOf := func(addr string) *guest {
		a, b := net.Pipe()
		t.Cleanup(func() { a.Close(); b.Close() })
		return c.admit(visitor{a, addr})
	}
	far, other, local := guestOf("192.0.2.1:1000"), guestOf("192.0.2.2:1000"), guestOf("127.0.0.1:1000")
	for i := range 31 {
		if refusal := c.begin(far, 2); (refusal == "") != (i < 30) {
			t.Errorf("request %d of an address: %q", i+1, refusal)
		}
	}
	c.end(far)
	for i := range 11 {
		if refusal := c.begin(other, 2); (refusal == "") != (i < 10) {
			t.Errorf("request %d of another address: %q", i+1, refusal)
		}
	}
	if refusal := c.begin(local, 2); refusal == "" {
		t.Error("this machine is served beyond the limit")
	}
	if refusal := c.begin(local, 1); refusal != "" {
		t.Errorf("HTTP/1 has a connection for each request: %q", refusal)
	}
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// TestHostileHTTP2: connections that do not finish the handshake, or flood the server with frames
// whose answers they do not read, are closed, and others are served meanwhile. A flood of settings
// holds no memory, since one answer stands for all, and ends after transferTimeout.
func TestHostileHTTP2(t *testing.T) {
	s, err := listen("127.0.0.1:0", http2, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	s.gate.open(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	var all sync.WaitGroup
	served := make(chan bool)
	for name, c := range map[string]struct{ first, flood string }{
		"half a preface":      {preface[:15], ""},
		"no settings":         {preface, ""},
		"a frame too large":   {preface + settings + "\x01\x00\x00\x00\x00\x00\x00\x00\x01", ""},
		"a flood of settings": {preface + settings, strings.Repeat(settings, 1000)},
		"a flood of pings":    {preface + settings, strings.Repeat("\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678", 1000)},
		"a flood of resets":   {preface + settings, "\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08"},
	} {
		all.Go(func() {
			conn, err := net.Dial("tcp", s.addr.String())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Error(err)
			}
			_, err = io.WriteString(conn, c.first)
			for err == nil && c.flood != "" {
				_, err = io.WriteString(conn, c.flood)
				select {
				case <-served:
					if strings.HasPrefix(c.flood, settings) {
						return
					}
				default:
				}
			}
			if c.flood == "" {
				_, err = io.Copy(io.Discard, conn)
			}
			if err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("%s: open after %v", name, patience)
			}
		})
	}
	c := clientOf(t, http2, nil)
	for range 100 {
		resp, err := c.Get("http://" + s.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	close(served)
	all.Wait()
}
