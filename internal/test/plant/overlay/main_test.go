package main

import (
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../../.."

// TestBugsApply: every hunk applies to the present sources, the result is valid Go, and every bug
// is planted, only in the overlay.
func TestBugsApply(t *testing.T) {
	files, err := planted(root)
	if err != nil {
		t.Fatal(err)
	}
	on := regexp.MustCompile(`plant\.On\(plant\.(\w+)\)`)
	found := make(map[string]bool)
	for name, text := range files {
		if _, err := format.Source([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, m := range on.FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || strings.Contains(string(b), "internal/test/plant") {
			t.Errorf("%s has bugs without the overlay, or %v", name, err)
		}
	}
	b, err := os.ReadFile("../plant.go")
	if err != nil {
		t.Fatal(err)
	}
	bugs := regexp.MustCompile(`(?m)^\t(\w+) +Bug = `).FindAllStringSubmatch(string(b), -1)
	if len(bugs) < 100 {
		t.Errorf("%d bugs in plant.go, want more", len(bugs))
	}
	for _, b := range bugs {
		if !found[b[1]] {
			t.Errorf("no diff plants %s", b[1])
		}
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("a/a.go", "// Package a is an example.\npackage a\n\nfunc max() int {\n\treturn 1\n}\n\nfunc min() int {\n\treturn 1\n}\n")
	diff := "--- a/a.go\n+++ a/a.go\n@@ -1 +1 @@\n func min() int {\n+\tif plant.On(plant.TooMany) {\n+\t\treturn 2\n+\t}\n \treturn 1\n"
	put(bugs+"/a.diff", diff)
	out := filepath.Join(dir, "out")
	if err := write(dir, out); err != nil {
		t.Fatal(err)
	}
	want := "// Package a is an example.\npackage a\n\nimport \"github.com/floedb/floe/internal/test/plant\"\n\nfunc max() int " +
		"{\n\treturn 1\n}\n\n" +
		"func min() int {\n\tif plant.On(plant.TooMany) {\n\t\treturn 2\n\t}\n\treturn 1\n}\n"
	if b, err := os.ReadFile(filepath.Join(out, "a/a.go")); string(b) != want || err != nil {
		t.Errorf("a.go is\n%s\n%v, want\n%s", b, err, want)
	}
	list, err := os.ReadFile(filepath.Join(out, "overlay.json"))
	if err != nil || strings.Count(string(list), out) != 2 || !strings.Contains(string(list), filepath.Join(dir, "a/a.go")) {
		t.Errorf("overlay.json is %s, %v", list, err)
	}
	for _, c := range []struct{ diff, want string }{
		{strings.Replace(diff, " func min() int {\n", "", 1), "a.diff:3: the hunk applies in 2 places of a/a.go"},
		{strings.Replace(diff, "func min", "func mean", 1), "a.diff:3: the hunk applies in 0 places"},
		{strings.Replace(diff, "@@ -1 +1 @@\n", "", 1), "line 3"},
		{strings.Replace(diff, "+\tif", "*\tif", 1), `line 5: "*\tif plant.On(plant.TooMany) {" is not a line of a hunk`},
		{strings.ReplaceAll(diff, "a/a.go", "a/b.go"), "b.go"},
		{"--- a/a.go\n+++ a/a.go\n", "no hunks"},
	} {
		put(bugs+"/a.diff", c.diff)
		if err := write(dir, out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n%v, want %q", c.diff, err, c.want)
		}
	}
}
