package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fault is a body with one mistake, or with a value at its limit.
type fault struct {
	field, what, body string
	valid             bool // at a limit: not refused because of the field
	hint              string
}

// TestBodiesBySchema: every body that differs from its description in one field is refused, and the
// error names the field. The limits themselves are accepted.
func TestBodiesBySchema(t *testing.T) {
	h := New(openNode(t), Options{})
	d := theDescription()
	faults := 0
	for path, operations := range d.object("paths") {
		for method := range operations.(map[string]any) {
			of := d.object("paths", path, method, "requestBody", "content", jsonMedia, "schema")
			if of["properties"] == nil {
				continue
			}
			target := samplePath(d.object("paths", path, method), path)
			for _, f := range faultsOf(of, func(raw string) string { return raw }) {
				faults++
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if f.valid { // a long poll at its limit would wait for as long
					ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
				}
				r := httptest.NewRequestWithContext(ctx, strings.ToUpper(method), target, strings.NewReader(f.body))
				r.Header.Set("Content-Type", jsonMedia)
				got := record(h, r)
				cancel()
				text := string(got.body)
				label := strings.ReplaceAll(strings.TrimSuffix(f.field, "_ms"), "_", " ") // in errors about a range
				switch names := strings.Contains(text, f.field) || strings.Contains(text, label); {
				case got.status == 500:
					t.Errorf("%s %s with %s %s: %v\n%.300s", method, target, f.field, f.what, got, f.body)
				case f.valid && got.status == 400 && names && strings.Contains(text, "is not in"):
					t.Errorf("%s %s with %s %s is refused: %v\n%.300s", method, target, f.field, f.what, got, f.body)
				case !f.valid && (got.status != 400 || !names || !strings.Contains(text, f.hint)):
					t.Errorf("%s %s with %s %s: %v, want 400, the name, %q\n%.300s", method, target, f.field, f.what, got, f.hint, f.body)
				}
			}
		}
	}
	if faults < 500 {
		t.Errorf("the description gives only %d bodies", faults)
	}
}

// samplePath returns a path and query of an operation with values for all that it requires.
func samplePath(operation map[string]any, path string) string {
	parameters, _ := operation["parameters"].([]any)
	for _, p := range parameters {
		p := p.(map[string]any)
		of := p["schema"].(map[string]any)
		value := "x"
		if of["type"] == "integer" {
			value = "1"
		}
		if p["in"] == "path" {
			path = strings.ReplaceAll(path, "{"+p["name"].(string)+"}", value)
		} else if p["required"] == true {
			path += "?" + p["name"].(string) + "=" + value
		}
	}
	return path
}

// faultsOf returns bodies with each possible mistake in an object. The function puts the object
// where it belongs in the body.
func faultsOf(of map[string]any, wrap func(raw string) string) (all []fault) {
	properties, _ := of["properties"].(map[string]any)
	base := sampleMembers(of)
	with := func(name, raw string) string {
		members := maps.Clone(base)
		members[name] = raw
		return wrap(objectText(members))
	}
	add := func(f fault) { all = append(all, f) }
	add(fault{field: "zzqj", what: "unknown", body: with("zzqj", "1")})
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		member := properties[name].(map[string]any)
		sample := sampleOf(member)
		if misspelt := name + "s"; len(name) > 3 && properties[misspelt] == nil {
			add(fault{field: misspelt, what: "misspelt", body: with(misspelt, sample), hint: "did you mean"})
		}
		if _, required := base[name]; required {
			members := maps.Clone(base)
			delete(members, name)
			add(fault{field: name, what: "missing", body: wrap(objectText(members))})
		}
		members := maps.Clone(base)
		members[name] = sample
		twice := objectText(members)
		add(fault{field: name, what: "twice", body: wrap("{" + strconv.Quote(name) + ":" + sample + "," + twice[1:])})
		for what, raw := range wrongTypes(member) {
			add(fault{field: name, what: what, body: with(name, raw)})
		}
		all = append(all, limitsOf(name, member, with)...)
		inner := func(raw string) string { return with(name, raw) }
		switch items, _ := member["items"].(map[string]any); {
		case member["properties"] != nil:
			all = append(all, faultsOf(member, inner)...)
		case items["oneOf"] != nil:
			for _, kind := range items["oneOf"].([]any) {
				all = append(all, faultsOf(kind.(map[string]any), func(raw string) string { return inner("[" + raw + "]") })...)
			}
		case items["properties"] != nil:
			all = append(all, faultsOf(items, func(raw string) string { return inner("[" + raw + "]") })...)
		}
	}
	return all
}

// wrongTypes returns values of other types.
func wrongTypes(of map[string]any) map[string]string {
	wrong := map[string]string{"null": "null"}
	switch of["type"] {
	case "string":
		wrong["a number"], wrong["an array"] = "7", "[]"
	case "integer":
		wrong["a string"], wrong["a fraction"], wrong["beyond 64 bits"] = `"7"`, "1.5", "99999999999999999999"
	case "boolean":
		wrong["a string"] = `"true"`
	case "array":
		wrong["an object"], wrong["a number"] = "{}", "1"
	case "object":
		wrong["an array"], wrong["a string"] = "[]", `"{}"`
	default:
		return nil // any JSON, or a constant
	}
	return wrong
}

// limitsOf returns bodies in which a member is at a limit, and beyond it.
func limitsOf(name string, of map[string]any, with func(name, raw string) string) (all []fault) {
	add := func(what, raw string, valid bool) {
		all = append(all, fault{field: name, what: what, body: with(name, raw), valid: valid})
	}
	if most, ok := limitOf(of["maximum"]); ok {
		add("at its maximum", fmt.Sprint(most), true)
		add("above its maximum", fmt.Sprint(most+1), false)
	}
	if least, ok := limitOf(of["minimum"]); ok {
		add("at its minimum", fmt.Sprint(least), true)
		add("below its minimum", fmt.Sprint(least-1), false)
	}
	if most, ok := limitOf(of["maxLength"]); ok && most < 1<<20 {
		add("of its maximum length", strconv.Quote(strings.Repeat("x", int(most))), true)
		add("longer than its maximum", strconv.Quote(strings.Repeat("x", int(most)+1)), false)
	}
	if least, ok := limitOf(of["minLength"]); ok && least > 0 {
		add("empty", `""`, false)
	}
	if most, ok := limitOf(of["maxItems"]); ok && most <= 1<<14 {
		item := sampleOf(of["items"].(map[string]any))
		add("with one item too many", "["+strings.Repeat(item+",", int(most))+item+"]", false)
	}
	if least, ok := limitOf(of["minItems"]); ok && least > 0 {
		add("without items", "[]", false)
	}
	return all
}

func limitOf(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil && i > math.MinInt64 && i < math.MaxInt64
}

// sampleMembers returns the required members of an object.
func sampleMembers(of map[string]any) map[string]string {
	members := make(map[string]string)
	required, _ := of["required"].([]any)
	for _, name := range required {
		members[name.(string)] = sampleOf(of["properties"].(map[string]any)[name.(string)].(map[string]any))
	}
	return members
}

func sampleOf(of map[string]any) string {
	if constant, ok := of["const"].(string); ok {
		return strconv.Quote(constant)
	}
	if kinds, ok := of["oneOf"].([]any); ok {
		return objectText(sampleMembers(kinds[0].(map[string]any)))
	}
	switch of["type"] {
	case "string":
		return `"x"`
	case "integer":
		least, _ := limitOf(of["minimum"])
		return fmt.Sprint(max(least, 1))
	case "boolean":
		return "true"
	case "array":
		return "[" + sampleOf(of["items"].(map[string]any)) + "]"
	case "object":
		return objectText(sampleMembers(of))
	}
	return "1"
}

func objectText(members map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		parts = append(parts, strconv.Quote(name)+":"+members[name])
	}
	return "{" + strings.Join(parts, ",") + "}"
}
