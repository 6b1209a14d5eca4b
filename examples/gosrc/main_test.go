package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// smallTree is a source tree with the files that the program shows, and one over the usual limit
// for values.
func smallTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, size := range map[string]int{
		"net/http/server.go": 20, "net/http/doc.go": 10, "net/http/cgi/child.go": 5, "net/http/httptest/empty.go": 0,
		"fmt/print.go": 7, "time/tzdata/zzipdata.go": 3 << 20,
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes.Repeat([]byte{'x'}, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOnce(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-once", "-src", smallTree(t), "-data-dir", t.TempDir()}, &out, io.Discard); err != nil {
		t.Fatalf("run: %v, stdout\n%s", err, &out)
	}
	const want = `loaded 6 files, 3145770 bytes in `
	const rest = `
        5  src/net/http/cgi/child.go
       10  src/net/http/doc.go
        0  src/net/http/httptest/empty.go
       20  src/net/http/server.go
       35  in all 4 files of src/net/http/
a second edit of the same revision: kv: key "src/net/http/server.go" is at revision 7, want revision N
version 2: 39 bytes, T
version 1: 20 bytes, T
`
	got := regexp.MustCompile(`want revision \d+`).ReplaceAllString(out.String(), "want revision N")
	got = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`).ReplaceAllString(got, "T")
	if !strings.Contains(got, want) || !strings.HasSuffix(got, rest) {
		t.Errorf("stdout\n%s\nwant in it %q and at its end\n%s", got, want, rest)
	}
}

// TestServe makes the calls that the program proposes.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-addr", "127.0.0.1:0", "-src", smallTree(t), "-data-dir", t.TempDir()}, stdout, io.Discard)
		stdout.Close()
	}()
	wants := []string{`"key":"src/net/http/cgi/child.go"`, `"value":"xxxxxxxxxx"`, `"version_count":2`}
	var urls []string
	for lines := bufio.NewScanner(out); len(urls) < len(wants) && lines.Scan(); {
		if url, found := strings.CutPrefix(lines.Text(), "  curl '"); found {
			urls = append(urls, strings.TrimSuffix(url, "'"))
		}
	}
	transport := &http.Transport{}
	for i, url := range urls {
		resp, err := (&http.Client{Transport: transport}).Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), wants[i]) {
			t.Errorf("%s: %s, %v\n%s\nwant %s", url, resp.Status, err, body, wants[i])
		}
	}
	transport.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil || len(urls) != len(wants) {
		t.Errorf("run: %v; proposed %q, want %d calls", err, urls, len(wants))
	}
}

// TestWholeTree loads what the README has figures of.
func TestWholeTree(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-once", "-data-dir", t.TempDir()}, &out, io.Discard); err != nil {
		t.Fatalf("run: %v, stdout\n%s", err, &out)
	}
	t.Logf("%s", &out)
	if files := regexp.MustCompile(`loaded \d{4,} files, \d{8,} bytes`); !files.Match(out.Bytes()) {
		t.Errorf("want some thousand files, stdout\n%s", &out)
	}
}
