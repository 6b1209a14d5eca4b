//go:build !noconsole

package console_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/dashboard/console"
)

// TestSource: dist was built from the sources that are here. It is the test of those who have no
// Node; make prove builds it again and compares.
func TestSource(t *testing.T) {
	var names []string
	for _, root := range []string{"index.html", "package.json", "package-lock.json", "public", "src", "tsconfig.json", "vite.config.ts"} {
		err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				names = append(names, filepath.ToSlash(name))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	hash := sha256.New()
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(hash, "%s\x00%d\x00%s", name, len(raw), raw)
	}
	built, err := os.ReadFile("dist/SOURCE")
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != strings.TrimSpace(string(built)) {
		t.Errorf("dist was built from sources with the hash %s, those here have %s: run make console and commit dist",
			strings.TrimSpace(string(built)), got)
	}
}

func ask(s http.Handler, path string, header ...string) *http.Response {
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) []byte {
	t.Helper()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestServing(t *testing.T) {
	site := console.New()
	paths := site.Paths()
	if len(paths) < 10 || paths[0] != "/" {
		t.Fatalf("the paths are %q", paths)
	}
	want := map[string]string{
		"/": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
		".svg": "image/svg+xml", ".md": "text/plain; charset=utf-8",
	}
	const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; " +
		"form-action 'none'; " +
		"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
	for _, path := range paths {
		got := ask(site, path)
		raw := body(t, got)
		kind := want[filepath.Ext(path)]
		if path == "/" {
			kind = want["/"]
		}
		caching := "no-cache"
		if strings.HasPrefix(path, "/assets/") {
			caching = "public, max-age=31536000, immutable"
		}
		for name, want := range map[string]string{
			"Content-Type": kind, "Cache-Control": caching, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Content-Security-Policy": csp, "Content-Length": fmt.Sprint(len(raw)),
			"Vary": "Accept-Encoding",
		} {
			if have := got.Header.Get(name); have != want {
				t.Errorf("GET %s: %s is %q, want %q", path, name, have, want)
			}
		}
		tag := got.Header.Get("ETag")
		if again := ask(site, path, "If-None-Match", `"other", W/`+tag); again.StatusCode != 304 || len(body(t, again)) > 0 {
			t.Errorf("GET %s with its tag %s is %s", path, tag, again.Status)
		}
		if other := ask(site, path, "If-None-Match", `"other"`); other.StatusCode != 200 {
			t.Errorf("GET %s with another tag is %s", path, other.Status)
		}
		zipped := ask(site, path, "Accept-Encoding", "br, gzip;q=0.5")
		r, err := gzip.NewReader(zipped.Body)
		if err != nil {
			t.Fatalf("GET %s with gzip: %v", path, err)
		}
		if plain, err := io.ReadAll(r); err != nil || !bytes.Equal(plain, raw) || zipped.Header.Get("Content-Encoding") != "gzip" ||
			zipped.Header.Get("ETag") == tag {
			t.Errorf("GET %s with gzip: %d bytes, %v, %v", path, len(plain), err, zipped.Header)
		}
		if refused := ask(site, path, "Accept-Encoding", "gzip;q=0"); refused.Header.Get("Content-Encoding") != "" {
			t.Errorf("GET %s is zipped for a client that refuses it", path)
		}
	}
	for _, path := range []string{"/index.html", "/SOURCE", "/assets", "/assets/", "/assets/none.js", "/streams", "/favicon.ico"} {
		if got := ask(site, path); got.StatusCode != 404 {
			t.Errorf("GET %s is %s, want 404", path, got.Status)
		}
	}
}

// TestAssets: what a browser may keep for a year has a name with a hash of its content in it, each
// is asked for by the page or by another one, and all that are asked for are there: a tab that is
// open over an upgrade finds another name or none, never other bytes.
func TestAssets(t *testing.T) {
	site := console.New()
	name := regexp.MustCompile(`[\w-]+-[\w-]{8}\.(?:js|css)\b`)
	there := make(map[string]bool)
	asked := make(map[string]bool)
	for _, path := range site.Paths() {
		if base, ok := strings.CutPrefix(path, "/assets/"); ok {
			there[base] = true
			if name.FindString(base) != base {
				t.Errorf("%s has no hash in its name", path)
			}
		}
		if ext := filepath.Ext(path); path != "/" && ext != ".js" {
			continue
		}
		for _, other := range name.FindAllString(string(body(t, ask(site, path))), -1) {
			asked[other] = true
		}
	}
	if len(there) < 10 {
		t.Fatalf("there are %d assets", len(there))
	}
	for base := range there {
		if !asked[base] {
			t.Errorf("nothing asks for %s", base)
		}
	}
	for base := range asked {
		if !there[base] {
			t.Errorf("%s is asked for and not there", base)
		}
	}
}

// TestPageIsBare: the page holds no script, no style and no address but its own relative ones, so
// it works under any mount and any policy.
func TestPageIsBare(t *testing.T) {
	page := string(body(t, ask(console.New(), "/")))
	for _, bad := range []string{"://", "style=", "<style", "<base", `="/`, "onload", "unsafe"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q:\n%s", bad, page)
		}
	}
	if strings.Count(page, "<script") != 1 || !strings.Contains(page, `src="./assets/`) {
		t.Errorf("the page is\n%s", page)
	}
}

func TestFrameAncestors(t *testing.T) {
	got := ask(console.New("'self'", "https://ops.example.com"), "/").Header.Get("Content-Security-Policy")
	if !strings.Contains(got, "; frame-ancestors 'self' https://ops.example.com; ") {
		t.Errorf("the policy is %q", got)
	}
}

func TestRedirect(t *testing.T) {
	for _, tt := range []struct{ uri, want string }{
		{"/admin/floe", "./floe/"}, {"/floe?x=1", "./floe/?x=1"}, {"/a%20b", "./a%20b/"},
	} {
		r := httptest.NewRequest("GET", tt.uri, nil)
		w := httptest.NewRecorder()
		console.Redirect(w, r)
		if got := w.Header().Get("Location"); w.Code != 308 || got != tt.want {
			t.Errorf("%s: %d, Location %q, want 308 and %q", tt.uri, w.Code, got, tt.want)
		}
	}
}
