package dashboard

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"github.com/floedb/floe"
)

// pageStyle is the whole style of the page; the policy names it by its hash.
const pageStyle = `body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}` +
	`td{padding:.1rem 1rem .1rem 0;vertical-align:top}code{font-size:.9em}`

var pageTemplate = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>floe</title>
<style>{{.Style}}</style>
<h1>floe {{.Version}}</h1>
<p>This is the dashboard of a floe data node: a JSON API for its namespaces, keys, streams, queues, time series, actions and workflows. It has no console yet.
<p>Parameters of paths begin with a colon. Whatever lives in a namespace takes <code>?namespace=</code>; without it the namespace is <code>default</code>.
<table>
{{range .Routes}}<tr><td><code>{{.Method}}</code><td><code>{{if .Link}}<a href="{{.Link}}">{{.Path}}</a>{{else}}{{.Path}}{{end}}</code><td>{{.Doc}}
{{end}}</table>
</html>
`))

// newPage returns what answers GET /: a page that says what this is and links the endpoints. Its links are relative, so it works under any prefix.
func newPage(routes []route) http.HandlerFunc {
	type row struct{ Method, Path, Link, Doc string }
	var rows []row
	for _, rt := range routes {
		r := row{Method: rt.method, Path: rt.path, Doc: rt.doc}
		if rt.method == http.MethodGet && !strings.Contains(rt.path, ":") && rt.path != floqlPath { // which takes a query
			r.Link = strings.TrimPrefix(rt.path, "/")
		}
		rows = append(rows, r)
	}
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, struct {
		Version string
		Style   template.CSS
		Routes  []row
	}{floe.Version, pageStyle, rows})
	if err != nil {
		panic(err) // nothing in it comes from outside
	}
	hash := sha256.Sum256([]byte(pageStyle))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Length", strconv.Itoa(b.Len()))
		header.Set("Content-Security-Policy", policy)
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		// The only error is a client that has gone.
		_, _ = w.Write(b.Bytes())
	}
}
