package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/julienschmidt/httprouter"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/codec"
)

const openAPIPath = apiPath + "v1/openapi.json"

var openAPIRoutes = []route{
	endpoint("GET "+openAPIPath, (*handler).openAPI, "Get the OpenAPI 3.1 description of all routes."),
}

// OpenAPI returns the OpenAPI 3.1 description of the HTTP API in JSON: every route with its role,
// parameters, body, responses and errors. The handler serves it as /api/v1/openapi.json.
func OpenAPI() []byte {
	b, err := json.MarshalIndent(describeAPI(), "", "  ")
	if err != nil {
		panic(fmt.Sprintf("dashboard: OpenAPI: %v", err)) // it has only maps, slices, strings and numbers
	}
	return append(b, '\n')
}

// schema is a JSON object of an OpenAPI document, such as a JSON Schema.
type schema map[string]any

// openAPIRequest asks for the description. The prefix is where the handler is mounted.
type openAPIRequest struct{ prefix string }

func (q *openAPIRequest) parse(in *input) {
	if target, err := url.ParseRequestURI(in.request.RequestURI); err == nil {
		q.prefix, _ = strings.CutSuffix(target.Path, openAPIPath)
	}
}

func (h *handler) openAPI(_ context.Context, q openAPIRequest) (schema, error) {
	described := maps.Clone(h.description())
	described["servers"] = []schema{{"url": cmp.Or(q.prefix, "/")}}
	return described, nil
}

// describeAPI returns the description of all routes.
func describeAPI() schema {
	d := describer{components: make(schema), handler: newHandler(noDB{}, Options{})}
	d.schemaOf(reflect.TypeFor[errorBody]())
	paths, tags := make(schema), []schema(nil)
	for _, rt := range allRoutes() {
		path := template(rt.path)
		operations, _ := paths[path].(schema)
		if operations == nil {
			operations = make(schema)
			paths[path] = operations
		}
		operations[strings.ToLower(rt.method)] = d.operation(rt)
		tag := schema{"name": rt.section()}
		if !slices.ContainsFunc(tags, func(other schema) bool { return other["name"] == tag["name"] }) {
			tags = append(tags, tag)
		}
	}
	return schema{
		"openapi": "3.1.0",
		"info": schema{
			"title":   "floe",
			"version": floe.Version,
			"license": schema{"name": "Apache 2.0", "identifier": "Apache-2.0"},
			"description": "The HTTP API of floe. Every route takes the parameter namespace. Keys, values and payloads are strings: " +
				"UTF-8 text, or base64 with encoding=base64. The errors are those of package floe.",
		},
		"servers":    []schema{{"url": "/"}},
		"tags":       tags,
		"paths":      paths,
		"components": schema{"schemas": d.components, "responses": failures(), "securitySchemes": securitySchemes},
	}
}

var securitySchemes = schema{"session": schema{"type": "http", "scheme": "bearer",
	"description": "A session token of POST /api/v1/auth/session, if the node has a key store."}}

// noDB is the backend of a handler that only describes its routes.
type noDB struct{ floe.DB }

func (noDB) MaxValueSize() int { return math.MaxInt32 }

// template turns ":name" in a path into "{name}".
func template(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if name, ok := strings.CutPrefix(s, ":"); ok {
			segments[i] = "{" + name + "}"
		}
	}
	return strings.Join(segments, "/")
}

// sectionNames are the titles of resources, by the first segment of their paths.
var sectionNames = map[string]string{
	"": "Health and metrics of the node", "auth": "Authentication", "cluster": "Cluster", "metrics": "Metrics",
	"namespaces": "Namespaces", "kv": "Key-value", "streams": "Streams", "queues": "Queues", "timeseries": "Time series",
	"txn": "Transactions", "actions": "Actions", "workers": "Workers", "console": "Console", "workflow": "Workflows",
	"workflows": "Workflows, alternative paths", "processing": "Processing", "schedules": "Schedules", "openapi.json": "Description",
}

// resource returns the first segment of the path of a route.
func (rt route) resource() string {
	first, _, _ := strings.Cut(strings.TrimPrefix(rt.path, apiPath+"v1/"), "/")
	return first
}

// section returns the title of the resource of a route.
func (rt route) section() string { return cmp.Or(sectionNames[rt.resource()], rt.resource()) }

// meaning returns the meaning of a parameter, path segment or member of the body.
func (rt route) meaning(name string) string {
	return described(name, rt.request.Name(), "/"+rt.resource())
}

// needs returns the role that a caller needs.
func (rt route) needs() string {
	if rt.path != metricsPath && !strings.HasPrefix(rt.path, apiPath) || strings.HasPrefix(rt.path, authPath) {
		return "public"
	}
	if rt.path == keysPath {
		return string(floe.RoleAdmin)
	}
	return string(rt.role())
}

// probe records what the request of a route reads from its input.
type probe struct {
	schemas  map[string]schema // of parameters and path segments that are not any string
	required []string          // parameters
	headers  []string
	media    []string // of a body that is not a JSON object
}

// describe records the schema of a parameter, path segment or member of the body. Requests that are
// served do not build it.
func (in *input) describe(name string, of func() schema) {
	if in.probe != nil {
		in.probe.schemas[name] = of()
	}
}

func textSchema() schema { return schema{"type": "string"} }
func boolSchema() schema { return schema{"type": "boolean"} }

// reads records the media type of a body that is not a JSON object.
func (in *input) reads(media string) {
	if in.probe != nil {
		in.probe.media = append(in.probe.media, media)
	}
}

// parse returns the input of a request after the route has parsed it, without checks. Segments of
// the path are 1.
func (rt route) parse(h *handler, contentType string) *input {
	var segments httprouter.Params
	for s := range strings.SplitSeq(rt.path, "/") {
		if name, ok := strings.CutPrefix(s, ":"); ok {
			segments = append(segments, httprouter.Param{Key: name, Value: "1"})
		}
	}
	r := &http.Request{Method: rt.method, URL: &url.URL{Path: "/"}, Header: http.Header{"Content-Type": {contentType}},
		Body: http.NoBody, RequestURI: "/"}
	in := newInput(h, r, segments)
	in.probe = &probe{schemas: make(map[string]schema)}
	reflect.New(rt.request).Interface().(interface{ parse(*input) }).parse(in)
	return in
}

// describer describes routes; the types of their responses become components.
type describer struct {
	components schema
	handler    *handler
}

// id returns the operationId of a route: the name of the method that serves it, with a number if
// the method serves other paths too.
func (rt route) id() string {
	_, name, _ := strings.Cut(runtime.FuncForPC(reflect.ValueOf(rt.call).Pointer()).Name(), "(*handler).")
	n := 0
	for _, other := range allRoutes() {
		if reflect.ValueOf(other.call).Pointer() != reflect.ValueOf(rt.call).Pointer() {
			continue
		}
		if n++; other.method == rt.method && other.path == rt.path {
			break
		}
	}
	if n > 1 {
		name += strconv.Itoa(n)
	}
	return name
}

func (d *describer) operation(rt route) schema {
	in := rt.parse(d.handler, jsonMedia)
	op := schema{
		"operationId": rt.id(),
		"summary":     firstSentence(rt.doc),
		"tags":        []string{rt.section()},
		"x-floe-role": rt.needs(),
		"responses":   d.responses(rt),
	}
	if op["summary"] != rt.doc {
		op["description"] = rt.doc
	}
	if rt.needs() != "public" {
		op["security"] = []schema{{"session": []string{}}, {}}
	}
	if parameters := d.parameters(rt, in); len(parameters) > 0 {
		op["parameters"] = parameters
	}
	if body := d.body(rt, in); len(body) > 0 {
		of := schema{"content": body}
		if object, _ := body[jsonMedia].(schema); object != nil && object["schema"].(schema)["required"] != nil {
			of["required"] = true
		}
		op["requestBody"] = of
	}
	return op
}

func firstSentence(doc string) string {
	if sentence, _, more := strings.Cut(doc, ". "); more {
		return sentence + "."
	}
	return doc
}

// parameters returns the path segments, parameters and headers of a route.
func (d *describer) parameters(rt route, in *input) (all []schema) {
	add := func(where, name string, required bool) {
		of := in.probe.schemas[name]
		if of == nil || where == "header" {
			of = schema{"type": "string"}
		}
		p := schema{"name": name, "in": where, "schema": of, "description": rt.meaning(name)}
		if required {
			p["required"] = true
		}
		all = append(all, p)
	}
	for _, segment := range in.path {
		add("path", segment.Key, true)
	}
	for _, name := range in.asked {
		if !slices.ContainsFunc(in.path, func(p httprouter.Param) bool { return p.Key == name }) {
			add("query", name, slices.Contains(in.probe.required, name))
		}
	}
	for i, name := range in.probe.headers {
		if name != "Content-Type" && !slices.Contains(in.probe.headers[:i], name) { // which OpenAPI has as the key of the body
			add("header", name, false)
		}
	}
	return all
}

// body returns the bodies of a request by media type.
func (d *describer) body(rt route, in *input) schema {
	bodies := make(schema)
	add := func(media string, of schema) { maps.Copy(bodies, content(media, of)) }
	for _, media := range in.probe.media {
		add(media, bareSchemas[media])
	}
	if in.object != nil {
		add(jsonMedia, in.object.schema(rt))
	}
	if in.fields != nil {
		add(jsonMedia, d.objectOf(rt, codec.Describe(in.fields)))
	}
	if slices.Contains(in.probe.headers, "Content-Type") {
		if other := rt.parse(d.handler, jsonLines); other.lines != nil {
			line := d.objectOf(rt, codec.Describe(other.lines))
			line["description"] = "One of these in each line."
			add(jsonLines, line)
		}
		for _, media := range []string{octetStream, textMedia} {
			if other := rt.parse(d.handler, media); slices.Contains(other.probe.media, media) {
				add(media, bareSchemas[media])
			}
		}
	}
	return bodies
}

// bareSchemas are the schemas of bodies without fields: any JSON, any bytes, or text.
var bareSchemas = map[string]schema{
	jsonMedia: {}, octetStream: {}, textMedia: {"type": "string"}, yamlMedia: {"type": "string"},
}

// schema returns the schema of the object.
func (o *object) schema(rt route) schema {
	properties := make(schema)
	for _, name := range o.asked {
		of := maps.Clone(o.in.probe.schemas[name])
		of["description"] = rt.meaning(name)
		properties[name] = of
	}
	of := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(o.required) > 0 {
		of["required"] = o.required
	}
	return of
}

// objectOf returns the schema of an object with these fields.
func (d *describer) objectOf(rt route, fields []codec.Field) schema {
	properties, required := make(schema), []string(nil)
	for _, f := range fields {
		of := d.fieldOf(rt, f)
		of["description"] = rt.meaning(f.Name)
		properties[f.Name] = of
		if f.Required {
			required = append(required, f.Name)
		}
	}
	of := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		of["required"] = required
	}
	return of
}

func (d *describer) fieldOf(rt route, f codec.Field) schema {
	switch f.Type {
	case codec.IntegerType:
		of := span{absent: f.Default, min: f.Range.Min, max: f.Range.Max}.schema()
		if f.Range == (codec.Range{}) {
			of = span{absent: f.Default, min: math.MinInt64, max: math.MaxInt64}.schema()
		}
		if f.Range.Optional && f.Range.Min > 0 {
			of["minimum"] = 0
		}
		if f.Required {
			delete(of, "default")
		}
		return of
	case codec.NumberType:
		return schema{"type": "number"}
	case codec.BooleanType:
		return schema{"type": "boolean"}
	case codec.StringType:
		of := limited(schema{"type": "string"}, "Length", f)
		if f.Values != nil {
			of["enum"] = f.Values
		}
		return of
	case codec.BytesType:
		return schema{"type": "string"}
	case codec.ListType:
		items := schema{"type": "string"}
		switch element := f.Fields[0]; {
		case rt.request == reflect.TypeFor[txnRequest]() && f.Name == "if":
			items = d.parts(rt, txnConditions)
		case rt.request == reflect.TypeFor[txnRequest]() && f.Name == "do":
			items = d.parts(rt, txnOperations)
		case element.Type == codec.ObjectType:
			items = d.objectOf(rt, element.Fields)
		default:
			items = d.fieldOf(rt, element)
		}
		return limited(schema{"type": "array", "items": items}, "Items", f)
	case codec.ObjectType:
		if len(f.Fields) > 0 {
			return d.objectOf(rt, f.Fields)
		}
		return schema{"type": "object", "additionalProperties": true}
	}
	return schema{}
}

// limited adds the limits of a length.
func limited(of schema, unit string, f codec.Field) schema {
	if f.Range.Max > 0 && f.Range.Max < math.MaxInt64 {
		of["max"+unit] = f.Range.Max
	}
	if f.Range.Min > 0 && !f.Range.Optional {
		of["min"+unit] = f.Range.Min
	}
	return of
}

// parts returns the schema of the conditions or operations of a transaction.
func (d *describer) parts(rt route, kinds map[string]func() txnOperation) schema {
	var all []schema
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		of := d.objectOf(rt, codec.Describe(kinds[name]().fields))
		of["title"] = name
		of["properties"].(schema)["op"] = schema{"const": name, "description": rt.meaning("op")}
		required, _ := of["required"].([]string)
		of["required"] = append([]string{"op"}, required...)
		all = append(all, of)
	}
	return schema{"oneOf": all}
}

// schema returns the integers of the span.
func (s span) schema() schema {
	of := schema{"type": "integer", "format": "int64"}
	if s.min > math.MinInt64 {
		of["minimum"] = s.min
	}
	if s.max < math.MaxInt64 {
		of["maximum"] = s.max
	}
	if s.absent != 0 && s.absent <= s.max { // a listing without limit may be longer
		of["default"] = s.absent
	}
	return of
}

// failures are the responses for errors.
func failures() schema {
	all := make(schema)
	for status, meaning := range failureMeanings {
		failure := schema{"description": meaning, "content": content(jsonMedia, schema{"$ref": componentPath + "ErrorBody"})}
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			failure["headers"] = schema{"Retry-After": schema{"description": "Seconds after which to try again.",
				"schema": schema{"type": "integer", "minimum": 1}}}
		}
		all[failureName(status)] = failure
	}
	return all
}

// failureMeanings are the statuses of errors.
var failureMeanings = map[int]string{
	http.StatusBadRequest:            "The request is malformed, or a value is out of range (ErrInvalid).",
	http.StatusUnauthorized:          "There is no session, or its key was revoked (ErrUnauthorized).",
	http.StatusForbidden:             "The key lacks the role or the namespace, the dashboard is read-only, or the request is from another origin.",
	http.StatusNotFound:              "The named thing does not exist (ErrNotFound).",
	http.StatusConflict:              "The state excludes the operation, or the thing exists already (ErrConflict, ErrExists).",
	http.StatusRequestEntityTooLarge: "The body or a value is too large.",
	http.StatusUnsupportedMediaType:  "The Content-Encoding of the body is not supported.",
	http.StatusMisdirectedRequest:    "The Host header names another host than those that the dashboard serves.",
	http.StatusTooManyRequests:       "A limit of requests or memory is reached (ErrBusy).",
	http.StatusInternalServerError:   "The node has failed; its log has the reason.",
	http.StatusServiceUnavailable:    "No node can answer now (ErrUnavailable), or the outcome is unknown (ErrUnknownOutcome).",
}

func failureName(status int) string { return strings.ReplaceAll(http.StatusText(status), " ", "") }

// ownFailures are the routes whose errors may have a body of their own.
var ownFailures = map[string]reflect.Type{
	"GET " + healthPath:            reflect.TypeFor[healthState](),
	"GET " + kvPath + "/keys/:key": reflect.TypeFor[missingKeyBody](),
	"POST /api/v1/txn":             reflect.TypeFor[txnRefusedBody](),
}

// responses returns the responses of a route by their statuses.
func (d *describer) responses(rt route) schema {
	all := make(schema)
	own := ownFailures[rt.method+" "+rt.path]
	for status, meaning := range failureMeanings {
		failure := schema{"$ref": "#/components/responses/" + failureName(status)}
		if own != nil {
			of := schema{"anyOf": []schema{d.schemaOf(own), d.schemaOf(reflect.TypeFor[errorBody]())}}
			failure = schema{"description": meaning, "content": content(jsonMedia, of)}
		}
		all[strconv.Itoa(status)] = failure
	}
	bodies := content(jsonMedia, d.schemaOf(bodyType(rt.response)))
	if rt.response.Implements(reflect.TypeFor[follower]()) {
		if rt.response == reflect.TypeFor[watchedKeys]() {
			bodies = make(schema)
		}
		events := schema{"type": "string", "description": "Server-sent events, with the header Accept: " + eventStream + "."}
		maps.Copy(bodies, content(eventStream, events))
		all["204"] = schema{"description": "The events after Last-Event-ID have ended: an EventSource does not connect again."}
	}
	ok := schema{"description": "Success.", "content": bodies}
	if rt.response.Implements(reflect.TypeFor[partial]()) {
		link := schema{"type": "string", "description": `The next page, with rel="next", if the listing was cut.`}
		ok["headers"] = schema{"Link": schema{"schema": link}}
	}
	all["200"] = ok
	return all
}

// content is the body of a request or response.
func content(media string, of schema) schema { return schema{media: schema{"schema": of}} }

const componentPath = "#/components/schemas/"

// schemaOf returns the schema of what encoding/json writes of a type. A struct is a component.
func (d *describer) schemaOf(t reflect.Type) schema {
	switch t.Kind() {
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Float64, reflect.Float32:
		return schema{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return schema{"type": "integer", "format": "int64"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return schema{"type": "integer", "minimum": 0}
	case reflect.Pointer:
		of := d.schemaOf(t.Elem())
		if kind, simple := of["type"].(string); simple {
			of["type"] = []string{kind, "null"}
			return of
		}
		return schema{"anyOf": []schema{of, {"type": "null"}}}
	case reflect.Slice, reflect.Array:
		return schema{"type": "array", "items": d.schemaOf(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": d.schemaOf(t.Elem())}
	case reflect.Struct:
		name := componentName(t)
		if d.components[name] == nil {
			d.components[name] = schema{} // it may hold itself
			d.components[name] = d.structOf(t)
		}
		return schema{"$ref": componentPath + name}
	}
	return schema{} // an interface: any JSON
}

func componentName(t reflect.Type) string { return strings.ToUpper(t.Name()[:1]) + t.Name()[1:] }

// structOf returns the schema of a struct.
func (d *describer) structOf(t reflect.Type) schema {
	properties, required := make(schema), []string(nil)
	for f, name := range members(t) {
		of := d.schemaOf(f.Type)
		of["description"] = described(name, componentName(t))
		properties[name] = of
		if !strings.Contains(f.Tag.Get("json"), ",omit") {
			required = append(required, name)
		}
	}
	of := schema{"type": "object", "properties": properties}
	if required != nil {
		of["required"] = required
	}
	return of
}

// members returns the fields of a struct that encoding/json writes, with their names: those of an
// embedded one belong to it, unless a name is taken.
func members(t reflect.Type) iter.Seq2[reflect.StructField, string] {
	return func(yield func(reflect.StructField, string) bool) {
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || name == "" || name == "-" {
				continue
			}
			if !yield(f, name) {
				return
			}
		}
	}
}

// bodyType returns the type of the body of a response: a listing is an array of its items, the
// response to a query its result.
func bodyType(answer reflect.Type) reflect.Type {
	if answer == reflect.TypeFor[floqlAnswer]() {
		return reflect.TypeFor[queryResult]()
	}
	if answer.Kind() == reflect.Struct {
		if items, ok := answer.FieldByName("items"); ok {
			return items.Type
		}
	}
	return answer
}

// queryResult is what a floql.Result writes as JSON.
type queryResult struct {
	Query  string        `json:"query"`
	Series []querySeries `json:"series"`
	Hints  []string      `json:"hints,omitempty"`
}

type querySeries struct {
	Key        string      `json:"key"`
	Field      string      `json:"field"`
	PointCount int         `json:"point_count"`
	Tags       []queryTag  `json:"tags"`
	Points     []dataPoint `json:"points"`
}

type queryTag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}
