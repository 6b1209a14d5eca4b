package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// description is the OpenAPI description as clients read it, in which objects that list their
// members have no others.
type description struct {
	doc      map[string]any
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema // by their place in the document
}

var theDescription = sync.OnceValue(func() *description {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(OpenAPI()))
	if err != nil {
		panic(err)
	}
	closeObjects(doc)
	d := &description{doc: doc.(map[string]any), compiler: jsonschema.NewCompiler(), schemas: make(map[string]*jsonschema.Schema)}
	if err := d.compiler.AddResource("openapi.json", doc); err != nil {
		panic(err)
	}
	return d
})

func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, lists := v["properties"].(map[string]any); lists && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for _, member := range v {
			closeObjects(member)
		}
	case []any:
		for _, item := range v {
			closeObjects(item)
		}
	}
}

// object returns the object at a path of member names.
func (d *description) object(at ...string) map[string]any {
	v := d.doc
	for _, name := range at {
		v, _ = v[name].(map[string]any)
		if ref, ok := v["$ref"].(string); ok {
			v = d.object(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return v
}

// operation returns the place of the operation of a request, nil if it is not described. A path
// without parameters precedes others.
func (d *description) operation(method, path string) []string {
	var at []string
	for candidate := range d.object("paths") {
		if fits(strings.NewReplacer("{", ":", "}", "").Replace(candidate), path) && (at == nil || !strings.Contains(candidate, "{")) &&
			d.object("paths", candidate, strings.ToLower(method)) != nil {
			at = []string{"paths", candidate, strings.ToLower(method)}
		}
	}
	return at
}

// checkAnswer returns how an answer differs from the description of its operation.
func (d *description) checkAnswer(operation []string, got answer) error {
	at := slices.Concat(operation, []string{"responses", fmt.Sprint(got.status)})
	if d.object(at...) == nil {
		return fmt.Errorf("status %d is not described", got.status)
	}
	if got.status == http.StatusNoContent {
		return nil
	}
	media, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
	at = append(at, "content", media)
	if d.object(at...) == nil {
		return fmt.Errorf("media type %s of status %d is not described", media, got.status)
	}
	if media != jsonMedia || got.header.Get("Content-Encoding") != "" {
		return nil
	}
	return d.validate(at, got.body)
}

// checkRequest returns how a request that succeeded differs from the description of its operation.
func (d *description) checkRequest(operation []string, r *http.Request, body []byte) error {
	var names []string
	described, _ := d.object(operation...)["parameters"].([]any)
	for _, p := range described {
		names = append(names, p.(map[string]any)["name"].(string))
	}
	for name := range r.URL.Query() {
		if !slices.Contains(names, name) && r.Method != http.MethodGet { // which ignores others
			return fmt.Errorf("parameter %s is not described", name)
		}
	}
	at := slices.Concat(operation, []string{"requestBody", "content", jsonMedia})
	media := r.Header.Get("Content-Type")
	if len(body) == 0 || r.Header.Get("Content-Encoding") != "" || d.object(at...) == nil || media != "" && media != jsonMedia ||
		media == "" && d.object(append(at[:len(at)-1:len(at)-1], textMedia)...) != nil { // text is the default
		return nil
	}
	return d.validate(at, body)
}

func (d *description) validate(at []string, body []byte) error {
	of, err := d.schema(at)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return of.Validate(value)
}

// schema returns the compiled schema of a body.
func (d *description) schema(at []string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	described := d.doc
	for i, name := range at { // the responses for errors are references
		described, _ = described[name].(map[string]any)
		if ref, ok := described["$ref"].(string); ok {
			at = append(strings.Split(strings.TrimPrefix(ref, "#/"), "/"), at[i+1:]...)
			break
		}
	}
	place := "openapi.json#"
	for _, name := range append(at, "schema") {
		place += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(name)
	}
	if d.schemas[place] == nil {
		compiled, err := d.compiler.Compile(place)
		if err != nil {
			return nil, err
		}
		d.schemas[place] = compiled
	}
	return d.schemas[place], nil
}

// conforming returns a handler whose answers, and the requests that it serves, must be as the
// OpenAPI description says.
func conforming(t testing.TB, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &observed{ResponseWriter: w}
		target, body := escapedPath(r.URL), new(bytes.Buffer)
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, body), r.Body}
		h.ServeHTTP(seen, r)
		seen.check(t, r, target, body.Bytes())
	})
}

// observed keeps a copy of an answer.
type observed struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (o *observed) WriteHeader(status int) {
	o.status = status
	o.ResponseWriter.WriteHeader(status)
}

func (o *observed) Write(p []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	o.body.Write(p)
	return o.ResponseWriter.Write(p)
}

func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

func (o *observed) check(t testing.TB, r *http.Request, path string, body []byte) {
	if at := strings.Index(path, apiPath+"v1/"); at >= 0 {
		path = path[at:]
	} else if path != healthPath {
		return
	}
	if r.Method == http.MethodHead || r.Method == http.MethodOptions || o.status == 0 || o.status == http.StatusMethodNotAllowed {
		return
	}
	d := theDescription()
	operation := d.operation(r.Method, path)
	if operation == nil {
		if o.status == http.StatusOK {
			t.Errorf("%s %s is not described", r.Method, path)
		}
		return
	}
	if err := d.checkAnswer(operation, answer{o.status, o.Header(), o.body.Bytes()}); err != nil {
		t.Errorf("%s %s: the answer is not as described: %v\n%.500s", r.Method, path, err, o.body.Bytes())
	}
	if o.status == http.StatusOK {
		if err := d.checkRequest(operation, r, body); err != nil {
			t.Errorf("%s %s: the request succeeded, and is not as described: %v\n%.500s", r.Method, path, err, body)
		}
	}
}

// TestOpenAPIDescribes: every operation, parameter and field has a meaning, ids are unique, and no
// entry of the glossary is unused.
func TestOpenAPIDescribes(t *testing.T) {
	used, ids := make(map[string]bool), make(map[string]string)
	var visit func(at string, v any)
	visit = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if id, ok := v["operationId"].(string); ok {
				if id == "" || ids[id] != "" {
					t.Errorf("%s: operationId %q is also that of %s", at, id, ids[id])
				}
				if ids[id] = at; v["summary"] == "" {
					t.Errorf("%s has no summary", at)
				}
			}
			if name, isParameter := v["name"].(string); isParameter && v["in"] != nil {
				meaning, _ := v["description"].(string)
				if used[meaning] = true; meaning == "" {
					t.Errorf("%s: parameter %s has no description", at, name)
				}
			}
			if members, ok := v["properties"].(map[string]any); ok {
				for name, member := range members {
					meaning, _ := member.(map[string]any)["description"].(string)
					if used[meaning] = true; meaning == "" {
						t.Errorf("%s: field %s has no description", at, name)
					}
				}
			}
			for name, member := range v {
				visit(at+"/"+name, member)
			}
		case []any:
			for i, item := range v {
				visit(fmt.Sprint(at, "/", i), item)
			}
		}
	}
	var modes any = theDescription().doc
	visit("", modes)
	path := []string{"paths", template(groupPath), "put", "requestBody", "content", jsonMedia, "schema", "properties", "mode", "enum"}
	for _, name := range path {
		modes = modes.(map[string]any)[name]
	}
	if want := []any{"shared", "exclusive", "key_shared"}; !reflect.DeepEqual(modes, want) {
		t.Errorf("modes of a group: %v, want %v", modes, want)
	}
	for name, meaning := range glossary() {
		if !used[meaning] {
			t.Errorf("glossary.txt has %s, which no route uses", name)
		}
	}
}

// TestOpenAPIServer: the server URL in the description is where the handler is mounted.
func TestOpenAPIServer(t *testing.T) {
	for _, m := range mounts {
		base := serve(t, m.mount(New(openNode(t), Options{}))) + m.prefix
		var got struct{ Servers []struct{ URL string } }
		if err := json.Unmarshal(send(t, "GET "+base+openAPIPath, "").body, &got); err != nil {
			t.Fatal(err)
		}
		if want := cmp.Or(m.prefix, "/"); len(got.Servers) != 1 || got.Servers[0].URL != want {
			t.Errorf("servers %v, want %s", got.Servers, want)
		}
	}
}

// openAPIContract: the description has more members than a row should list.
var openAPIContract = []contractRow{{"GET " + openAPIPath, openAPIPath, "", 200, anyObject{}}}

// anyObject is an object with any members.
type anyObject struct{}

func (anyObject) check(at string, value any) []string {
	if got, ok := value.(map[string]any); !ok || len(got) == 0 {
		return []string{fmt.Sprintf("%s is %v, want an object with members", at, value)}
	}
	return nil
}
