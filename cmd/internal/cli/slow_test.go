package cli

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestSlowStrangers: whoever has shown no key gets no more than 5 s for a body, over a socket and
// with the deadlines of a server. Those of 30 s are for holders of a key, and so an answer that
// takes 25 s is one that a stranger waited for.
func TestSlowStrangers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, "--data-dir", dir)
	defer s.stop()
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSpace(expectRun(t, nil, 0, "server", "bootstrap", "--data-dir", dir, "--port", port))
	const session = "POST /api/v1/auth/session HTTP/1.1\r\nHost: localhost\r\n"
	const most = 25 * time.Second
	var all sync.WaitGroup
	for name, c := range map[string]struct {
		head    string
		trickle string // sent again and again
		want    string
	}{
		"a silent session":         {session + "Content-Length: 100\r\n\r\n", "", "400"},
		"a session that trickles":  {session + "Content-Length: 1000\r\n\r\n", " ", "400"},
		"a chunked session":        {session + "Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n", "400"},
		"a session with a surplus": {session + "Content-Length: 60000\r\n\r\n" + strings.Repeat(" ", 5000), " ", "413"},
		"a read with a body":       {"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n", "", "200"},
		"a write without a token": {"PUT /api/v1/kv/namespaces/n/keys/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n", "",
			"401"},
		"no endpoint": {"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n", "", "404"},
	} {
		all.Go(func() {
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			began := time.Now()
			if err := conn.SetDeadline(began.Add(most)); err != nil {
				t.Error(err)
			}
			if _, err := io.WriteString(conn, c.head); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			ended := make(chan bool)
			all.Go(func() {
				for c.trickle != "" {
					select {
					case <-ended:
						return
					case <-time.After(200 * time.Millisecond):
						_, _ = io.WriteString(conn, c.trickle) // an error: the server has closed it
					}
				}
			})
			got, err := bufio.NewReader(conn).ReadString('\n')
			if !strings.HasPrefix(got, "HTTP/1.1 "+c.want) {
				t.Errorf("%s: %q, %v after %v, want %s within 5 s", name, got, err, time.Since(began), c.want)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("%s: open after %v, want it closed within 5 s", name, time.Since(began))
			}
			close(ended)
		})
	}
	all.Wait()
	if status, answer, err := call(client(t), "POST", s.url+"/api/v1/auth/session", fmt.Sprintf(`{"api_key":%q}`, key)); err != nil ||
		status != http.StatusOK {
		t.Errorf("a session afterwards: %d, %s, %v", status, answer, err)
	}
}

// TestSlowStrangersOverTLS is the same for a stream of HTTP/2, as browsers have it: it is over
// after 5 s, and others of the connection go on.
func TestSlowStrangersOverTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.certify("node")
	s := start(t, "--data-dir", t.TempDir(), "--shards", "1", "--dashboard-tls-cert", a.file("node.pem"), "--dashboard-tls-key",
		a.file("node.key"))
	defer s.stop()
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: 25 * time.Second}
	body, never := io.Pipe()
	defer never.Close()
	resp, err := c.Post(s.url+"/api/v1/auth/session", "application/json", body)
	if err != nil {
		t.Fatalf("a body that never comes: %v, want 400 after 5 s", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest || resp.ProtoMajor != 2 {
		t.Errorf("a body that never comes: %s, HTTP/%d, want 400 by HTTP/2", resp.Status, resp.ProtoMajor)
	}
	if status, answer, err := call(c, "GET", s.url+"/health", ""); err != nil || status != http.StatusOK {
		t.Errorf("another stream: %d, %s, %v", status, answer, err)
	}
}
