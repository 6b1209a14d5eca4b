package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Site serves the files of the console. Its paths are relative to the mount and begin with a slash.
type Site struct {
	files  map[string]*file
	policy string // Content-Security-Policy
}

// New returns the console. frameAncestors are the origins that may show it in a frame, as
// Content-Security-Policy writes them; without any, no site may.
func New(frameAncestors ...string) *Site {
	s := &Site{files: files(), policy: policy(frameAncestors)}
	if len(s.files) == 0 {
		s.files = map[string]*file{"/": hint}
	}
	return s
}

// policy is all that a page of the console may do: load its own scripts, styles and images, and
// call the API beside it.
func policy(frameAncestors []string) string {
	ancestors := "'none'"
	if len(frameAncestors) > 0 {
		ancestors = strings.Join(frameAncestors, " ")
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; " +
		"form-action 'none'; " +
		"frame-ancestors " + ancestors + "; require-trusted-types-for 'script'; trusted-types 'none'"
}

// Paths returns the paths that the site answers, in order.
func (s *Site) Paths() []string { return slices.Sorted(maps.Keys(s.files)) }

// ServeHTTP answers a GET of one of the paths. Any other is 404: a page in place of a script would
// only be a worse error.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := s.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Content-Security-Policy", s.policy)
	header.Set("Cache-Control", f.caching)
	header.Set("Vary", "Accept-Encoding")
	body, tag := f.raw, f.tag
	zipped := acceptsGzip(r.Header.Get("Accept-Encoding"))
	if zipped {
		body, tag = f.zipped(), f.tag+"-gzip"
	}
	header.Set("ETag", `"`+tag+`"`)
	if f.status == http.StatusOK && has(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if zipped {
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("Content-Type", f.kind)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.status)
	// The only error is a client that has gone.
	_, _ = w.Write(body)
}

// Redirect answers a request for the mount without its slash, which reaches a handler behind
// http.StripPrefix with an empty path. The address is relative, so that it holds whatever a proxy
// calls the mount.
func Redirect(w http.ResponseWriter, r *http.Request) {
	target, query, _ := strings.Cut(r.RequestURI, "?")
	to := "./" + target[strings.LastIndexByte(target, '/')+1:] + "/"
	if query != "" {
		to += "?" + query
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusPermanentRedirect)
}

// file is something that is served, as it is and compressed.
type file struct {
	status  int
	raw     []byte
	zipped  func() []byte // made when it is first asked for
	tag     string
	kind    string // Content-Type
	caching string // Cache-Control
}

// kinds are fixed: what a machine believes of file names should not decide whether a browser runs a
// script.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".md":   "text/plain; charset=utf-8",
}

// hint is the only page of a program that was built without the console.
var hint = newFile(".md", []byte("This program was built without the console of floe (build tag noconsole). The API is below api/v1.\n"))

// files reads the files once. What has no known kind is not for browsers.
var files = sync.OnceValue(func() map[string]*file {
	all := make(map[string]*file)
	source := built()
	if source == nil {
		hint.status = http.StatusNotFound
		return all
	}
	err := fs.WalkDir(source, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || kinds[path.Ext(name)] == "" {
			return err
		}
		raw, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		f := newFile(path.Ext(name), raw)
		if strings.HasPrefix(name, "assets/") { // their names change with what is in them
			f.caching = "public, max-age=31536000, immutable"
		}
		if name == "index.html" {
			name = ""
		}
		all["/"+name] = f
		return nil
	})
	if err != nil {
		panic(err) // the files are part of the program
	}
	return all
})

func newFile(extension string, raw []byte) *file {
	sum := sha256.Sum256(raw)
	return &file{
		status: http.StatusOK, raw: raw, tag: hex.EncodeToString(sum[:12]), kind: kinds[extension], caching: "no-cache",
		zipped: sync.OnceValue(func() []byte { return compress(raw) }),
	}
}

func compress(raw []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(raw)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // writes to memory do not fail
	}
	return b.Bytes()
}

// acceptsGzip reports whether a client names gzip and does not refuse it.
func acceptsGzip(header string) bool {
	for coding := range strings.SplitSeq(header, ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(coding), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q := strings.ReplaceAll(strings.TrimSpace(quality), " ", "")
			return strings.Trim(q, "0.") != "q="
		}
	}
	return false
}

// has reports whether one of the entity tags of If-None-Match is the given one.
func has(header, tag string) bool {
	for given := range strings.SplitSeq(header, ",") {
		given = strings.TrimSpace(given)
		if given == "*" || strings.TrimPrefix(given, "W/") == `"`+tag+`"` {
			return true
		}
	}
	return false
}
