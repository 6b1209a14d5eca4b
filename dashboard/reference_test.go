package dashboard

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/julienschmidt/httprouter"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/test/reference"
)

const httpIntro = "# HTTP API\n\n" +
	"The handler of `dashboard.New` serves these routes, as does the dashboard port of a server; `/metrics` and " +
	"`/health` are on the metrics port. The role is the minimum role of the " +
	"API key if there is a key store: `public`, `read` or `write`. Requests then carry `Authorization: Bearer` with a session token.\n\n" +
	"- Responses are JSON; errors are `{\"error\": \"...\"}`, see [errors](errors.md).\n" +
	"- Path segments `:name` are percent-encoded.\n" +
	"- Every route takes the parameter `namespace`; the default is the only namespace of the key, or `default`.\n" +
	"- A boolean parameter takes `true`, `false`, `1` or `0`; its name alone means true.\n" +
	"- A listing that has been cut has the header `Link` with `rel=\"next\"`. `cursor` is another name of `after`.\n"

// sectionNames are the titles of resources, by the first segment of their paths.
var sectionNames = map[string]string{
	"": "Health and metrics of the node", "auth": "Authentication", "cluster": "Cluster", "metrics": "Metrics",
	"namespaces": "Namespaces", "kv": "Key-value", "streams": "Streams", "queues": "Queues", "timeseries": "Time series",
	"txn": "Transactions", "actions": "Actions", "workers": "Workers", "console": "Console", "workflow": "Workflows",
	"workflows": "Workflows, alternative paths", "processing": "Processing",
}

// TestHTTPReference: docs/reference/http.md agrees with the route table. The parameters are those
// that the request of a route asks for.
func TestHTTPReference(t *testing.T) {
	h := New(openNode(t), Options{}).(*handler)
	var titles []string
	sections := make(map[string][][]string)
	for _, rt := range slices.Concat(allRoutes(), exporterRoutes[1:]) {
		title, _, _ := strings.Cut(strings.TrimPrefix(rt.path, apiPath+"v1/"), "/")
		if !slices.Contains(titles, title) {
			titles = append(titles, title)
		}
		sections[title] = append(sections[title], []string{reference.Code(rt.method + " " + rt.path), rt.needs(), rt.parameters(h), rt.doc})
	}
	page := httpIntro
	for _, title := range titles {
		page += "\n## " + cmp.Or(sectionNames[title], title) + "\n" +
			reference.Table([]string{"route", "role", "parameters", "meaning"}, sections[title])
		if title == "txn" {
			page += "\nConditions:\n" + partsTable(txnConditions) + "\nOperations:\n" + partsTable(txnOperations)
		}
	}
	reference.Check(t, "http.md", page)
}

// partsTable returns the table of the conditions or operations of a transaction.
func partsTable(kinds map[string]func() txnOperation) string {
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		var members []string
		for _, f := range codec.Describe(kinds[name]().fields) {
			members = append(members, reference.Code(f.Name)+": "+describeMember(f))
		}
		rows = append(rows, []string{reference.Code(name), strings.Join(members, "\n")})
	}
	return reference.Table([]string{"op", "members"}, rows)
}

// needs returns the role that a caller needs.
func (rt route) needs() string {
	if rt.path != metricsPath && !strings.HasPrefix(rt.path, apiPath) || strings.HasPrefix(rt.path, authPath) {
		return "public"
	}
	return string(rt.role())
}

// parameters returns the parameters and the members of the body of a route, with their values.
func (rt route) parameters(h *handler) string {
	if rt.request == nil {
		return ""
	}
	var lines []string
	all := rt.parse(h, "")
	for _, name := range all.asked {
		if name == "namespace" || name == "cursor" && slices.Contains(all.asked, "after") {
			continue
		}
		_, refusal, _ := strings.Cut(fmt.Sprint(rt.parse(h, "?"+name+"="+url.QueryEscape("\x00")).finish()), "parameter "+name)
		_, takes, found := strings.Cut(refusal, "it takes ")
		if found {
			takes = ": " + strings.NewReplacer("true, false, 1 or 0, or nothing: ?"+name, "boolean", "an integer", "integer",
				" to "+strconv.Itoa(math.MaxInt64), "").Replace(takes)
		}
		lines = append(lines, reference.Code(name)+takes)
	}
	if all.object != nil {
		for _, name := range all.object.asked {
			lines = append(lines, reference.Code(name)+" (body)")
		}
	}
	if all.fields != nil {
		for _, f := range codec.Describe(all.fields) {
			lines = append(lines, reference.Code(f.Name)+" (body): "+describeMember(f))
		}
	}
	return strings.Join(lines, "\n")
}

// describeMember describes a member of the body of an operation.
func describeMember(f codec.Field) string {
	about := f.Type.String()
	if len(f.Fields) > 0 {
		var inner []string
		for _, m := range f.Fields {
			inner = append(inner, m.Name)
		}
		if f.Type == codec.ListType && len(f.Fields) == 1 && f.Fields[0].Name == "" {
			inner = nil
			for _, m := range f.Fields[0].Fields {
				inner = append(inner, m.Name)
			}
		}
		if f.Type == codec.ListType && len(inner) == 0 {
			inner = []string{f.Fields[0].Type.String()}
		}
		about += " of " + strings.Join(inner, ", ")
	}
	r := f.Range
	if r.Optional {
		r.Min = 0
	}
	switch {
	case f.Type == codec.IntegerType && r.Max == math.MaxInt64:
		about += fmt.Sprintf(" from %d", r.Min)
	case f.Type == codec.IntegerType && r.Max > 0:
		about += fmt.Sprintf(" from %d to %d", r.Min, r.Max)
	case r.Max > 0:
		about = fmt.Sprintf("%s, up to %d", about, r.Max)
	}
	return about
}

// parse returns the input of a request after the route has parsed it. Segments of the path are 1.
func (rt route) parse(h *handler, query string) *input {
	var segments httprouter.Params
	for s := range strings.SplitSeq(rt.path, "/") {
		if name, ok := strings.CutPrefix(s, ":"); ok {
			segments = append(segments, httprouter.Param{Key: name, Value: "1"})
		}
	}
	in := newInput(h, httptest.NewRequest(rt.method, "/"+query, strings.NewReader("{}")), segments)
	reflect.New(rt.request).Interface().(interface{ parse(*input) }).parse(in)
	return in
}
