package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/floedb/floe/internal/test/lesson"
)

func TestDashboard(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	printed, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, out, "127.0.0.1:0") }()
	text := ""
	for lines := bufio.NewScanner(printed); strings.Count(text, "\n") < 2 && lines.Scan(); {
		text += lines.Text() + "\n"
	}
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	if got, want := address.ReplaceAllString(text, "127.0.0.1:8080"), lesson.Output(t); got != want {
		t.Errorf("printed\n%s\nthe README shows\n%s", got, want)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	const key = "/admin/floe/api/v1/kv/namespaces/shop/keys/visits"
	for _, c := range []struct {
		method, path, user string
		status             int
		body               string
	}{
		{"GET", "/", "", 200, "welcome, visitor 1\n"},
		{"GET", "/admin/floe/", "", 401, "administrators only\n"},
		{"GET", "/admin/floe/", "admin", 200, "<!doctype html>"},
		{"GET", "/admin/floe/health", "admin", 200, `"status":"ok"`},
		{"GET", key, "admin", 200, `"value":"1"`},
		{"DELETE", key, "admin", 403, "error"},
	} {
		req, err := http.NewRequestWithContext(ctx, c.method, "http://"+address.FindString(text)+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.user != "" {
			req.SetBasicAuth(c.user, "secret")
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !strings.Contains(strings.ToLower(string(body)), c.body) {
			t.Errorf("%s %s: %s, %v\n%s\nwant %d and %s", c.method, c.path, resp.Status, err, body, c.status, c.body)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
