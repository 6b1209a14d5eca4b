package dashboard

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

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

// parameters returns the parameters and the members of the body of a route, with their values.
func (rt route) parameters(h *handler) string {
	if rt.request == nil {
		return ""
	}
	var lines []string
	in := rt.parse(h, jsonMedia)
	for _, name := range in.asked {
		if name == "namespace" || name == "cursor" && slices.Contains(in.asked, "after") {
			continue
		}
		about := rt.meaning(name)
		if takes := takesOf(in.probe.schemas[name]); takes != "" {
			about = takes + "; " + about
		}
		lines = append(lines, reference.Code(name)+": "+about)
	}
	if in.object != nil {
		for _, name := range in.object.asked {
			lines = append(lines, reference.Code(name)+" (body): "+takesOf(in.probe.schemas[name])+"; "+rt.meaning(name))
		}
	}
	if in.fields != nil {
		for _, f := range codec.Describe(in.fields) {
			lines = append(lines, reference.Code(f.Name)+" (body): "+describeMember(f)+"; "+rt.meaning(f.Name))
		}
	}
	return strings.Join(lines, "\n")
}

// takesOf describes the values of a parameter.
func takesOf(of schema) string {
	if values, ok := of["enum"].([]string); ok {
		return strings.Join(values, ", ")
	}
	kind, _ := of["type"].(string)
	if from, ok := of["minimum"]; ok {
		kind += fmt.Sprintf(" from %d", from)
	}
	if to, ok := of["maximum"]; ok {
		kind += fmt.Sprintf(" to %d", to)
	}
	return kind
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
