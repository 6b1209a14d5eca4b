package cli

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestBareRefusals: what net/http refuses before there is a request is answered in JSON, and answers of handlers pass as they are.
func TestBareRefusals(t *testing.T) {
	s, err := listen("127.0.0.1:0", nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	const own = "HTTP/1.1 400 Bad Request" + bareHead + "400 Bad Request"
	s.gate.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, own) }))
	for request, want := range map[string]struct {
		status string
		text   string
	}{
		"GET / HTTP/1.1\r\n\r\n":                                                {"400 Bad Request: missing required Host header", "missing required host header"},
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                          {"400 Bad Request", "400 bad request"},
		"nonsense\r\n\r\n":                                                      {"400 Bad Request", "400 bad request"},
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n":      {"431 Request Header Fields Too Large", "431 request header fields too large"},
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: secret\r\n\r\n":        {"501", "unsupported transfer encoding"},
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept: */*\r\n\r\n": {"200 OK", ""},
	} {
		conn, err := net.Dial("tcp", s.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(conn, request) }()
		got, _ := io.ReadAll(conn) // the rest of a large header may be reset
		conn.Close()
		head, body, _ := strings.Cut(string(got), "\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.1 "+want.status) {
			t.Errorf("%.60q: %q, want %s", request, head, want.status)
		}
		if want.text == "" {
			if body != own {
				t.Errorf("a handler's answer has become %q", body)
			}
			continue
		}
		var refusal struct{ Error string }
		if err := json.Unmarshal([]byte(body), &refusal); err != nil || !strings.Contains(refusal.Error, want.text) || !strings.Contains(head, "application/json") {
			t.Errorf("%.60q: %q, %q; want JSON with %q", request, head, body, want.text)
		}
	}
}
