package flow

import (
	"fmt"
	"testing"

	"github.com/floedb/floe/internal/document"
)

func TestSchemas(t *testing.T) {
	const order = `{ type: object, required: [id, "x y"], additionalProperties: false, properties: { id: { type: string, minLength: 2, maxLength: 3 },
		"x y": { type: [integer, "null"], minimum: 0, maximum: 10 }, tags: { type: array, minItems: 1, maxItems: 2, items: { enum: [a, 1, {k: [1]}] } }, c: { const: yes! }, any: } }`
	for _, test := range []struct{ schema, raw, want string }{
		{order, `{"id":"ab","x y":10}`, ""},
		{order, `{"id":"日本語","x y":null,"tags":["a",1.0],"c":"yes!","any":[{}]}`, ""},
		{order, `{"id":"ab","x y":1,"tags":[{"k":[1.0]}]}`, ""},
		{order, `{"id":"ab","\u0078 y":1e1}`, ""},
		{order, `[]`, "$ is [], expected object"},
		{order, ` {"id":"ab"} `, `$["x y"] is missing`},
		{order, `{}`, "$.id is missing"},
		{order, `{"id":"a","x y":1}`, "$.id has 1 characters, expected at least 2"},
		{order, `{"id":"日本語x","x y":1}`, "$.id has 4 characters, expected at most 3"},
		{order, `{"id":"ab","x y":1.5}`, `$["x y"] is 1.5, expected null or integer`},
		{order, `{"id":"ab","x y":11}`, `$["x y"] is 11, expected at most 10`},
		{order, `{"id":"ab","x y":-1}`, `$["x y"] is -1, expected at least 0`},
		{order, `{"id":"ab","x y":1,"tags":[]}`, "$.tags has 0 elements, expected at least 1"},
		{order, `{"id":"ab","x y":1,"tags":["a","a","a"]}`, "$.tags has 3 elements, expected at most 2"},
		{order, `{"id":"ab","x y":1,"tags":["a","b"]}`, `$.tags[1] is "b", expected "a" or 1 or {"k":[1]}`},
		{order, `{"id":"ab","x y":1,"c":"no"}`, `$.c is "no", expected "yes!"`},
		{order, `{"id":"ab","x y":1,"more":2}`, "$.more is not allowed"},
		{order, `{"id":"ab","id":"a","x y":1}`, "$.id has 1 characters, expected at least 2"}, // each of several is looked at
		{order, `{"id"`, `$ is no JSON: "{\"id\""`},
		{`{ type: integer }`, `3.0`, ""},
		{`{ type: integer }`, `1e999`, "$ is 1e999, expected integer"},
		{`{ minimum: 0.5 }`, `1e999`, "$ is 1e999, which is out of range"},
		{`{ minimum: 0.5 }`, `0.25`, "$ is 0.25, expected at least 0.5"},
		{`{ minimum: 0.5 }`, `"text"`, ""},
		{`{ type: boolean }`, `null`, "$ is null, expected boolean"},
		{`{ type: null }`, `null`, ""},
		{`{ type: null }`, `1`, "$ is 1, expected null"},
		{`{ type: [string, null] }`, `1`, "$ is 1, expected null or string"},
		{`{ const: }`, `null`, ""},
		{`{ const: }`, `0`, "$ is 0, expected null"},
		{`{}`, `[1]`, ""},
		{`{ items: { items: { type: string } } }`, `[["a"],["b",2]]`, "$[1][1] is 2, expected string"},
	} {
		var s *Schema
		if found := readValue(t, "v: "+test.schema,
			func(r *reader) func(*document.Node, string) { return r.schema(&s) }); len(found.Problems) > 0 {
			t.Errorf("%s: %v", test.schema, found.Problems)
			continue
		}
		got := ""
		if err := s.Check([]byte(test.raw)); err != nil {
			got = fmt.Sprint(err)
		}
		if got != test.want {
			t.Errorf("Check(%s) of %s: %s, want %s", test.raw, test.schema, got, test.want)
		}
	}
}
