package flow

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// fickle takes back what it has answered when it is asked again, and counts.
type fickle struct {
	values
	given [][]byte
	asked int
}

func (f *fickle) Root(r Root, name string) []byte {
	for _, raw := range f.given {
		clear(raw)
	}
	f.asked++
	raw := append([]byte(nil), f.values.Root(r, name)...)
	f.given = append(f.given, raw)
	return raw
}

// TestResolverIsPaths: many paths at once lead where each of them leads alone.
func TestResolverIsPaths(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var random func(depth int) string
	random = func(depth int) string {
		if depth == 0 {
			return fmt.Sprint(r.IntN(100))
		}
		var parts []string
		for range r.IntN(5) {
			parts = append(parts, random(depth-1))
		}
		if r.IntN(2) == 0 {
			return " [" + strings.Join(parts, " , ") + "] "
		}
		for i := range parts {
			parts[i] = fmt.Sprintf(`%s : %s`, []string{`"a"`, `"b"`, `"\u0061"`, `"c d"`}[r.IntN(4)], parts[i])
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	roots := []string{"$.input", "$.item", "$.steps.a.output", "$.steps.b.output"}
	for range 1000 {
		source := &fickle{values: values{"input": random(4), "item": random(3), "steps.a.output": random(4), "steps.b.output": `{"a": [1`}}
		var paths []*Path
		for range 1 + r.IntN(8) {
			text := roots[r.IntN(len(roots))]
			for range r.IntN(4) {
				text += []string{".a", ".b", `["c d"]`, "[0]", "[1]", "[2]"}[r.IntN(6)]
			}
			p, err := parsePath(text, pathRules{item: true})
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, &p)
		}
		many := newResolver(source, paths)
		for range 2 * len(paths) {
			i := r.IntN(len(paths))
			if got, want := string(many.value(i)), string(paths[i].Append(nil, source.values)); got != want {
				t.Fatalf("path %+v of %d in %v: %q, want %q", *paths[i], len(paths), source.values, got, want)
			}
		}
	}
}

// TestRootsAreReadOnce: what a template costs does not grow with the number of its paths into the
// same root.
func TestRootsAreReadOnce(t *testing.T) {
	d := mustParse(t, strings.Replace(minimal, "run:", "when: '"+strings.Repeat("input.n == 7 and ", 100)+"true', input: ["+
		strings.Repeat("$.input.n,", maxPaths)+"], run:", 1))
	source := &fickle{values: testValues}
	d.Steps[0].Call.Input.Append(nil, source)
	if holds, err := d.Steps[0].When.Eval(source); !holds || err != nil || source.asked != 2 {
		t.Errorf("the input was read %d times, want 2; %v, %v", source.asked, holds, err)
	}
}
