package lint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Limits of a lesson in examples.
const (
	lessons         = 14
	maxProgramLines = 119
	maxReadmeLines  = 59
)

// TestCourse: the lessons in examples are numbered without gaps and short. Each has one program, a
// test and a README, which names the command to run and links to the next lesson.
func TestCourse(t *testing.T) {
	contents := readFile(t, "examples/README.md")
	dirs, err := filepath.Glob(filepath.Join(root, "examples/[0-9]*"))
	if err != nil || len(dirs) != lessons {
		t.Fatalf("examples has %d lessons, %v; want %d", len(dirs), err, lessons)
	}
	for i, dir := range dirs {
		name := filepath.Base(dir)
		if !regexp.MustCompile(fmt.Sprintf(`^%02d-[a-z]+$`, i+1)).MatchString(name) {
			t.Errorf("examples/%s: a lesson is named by its number and a word, and this is number %d", name, i+1)
		}
		row := fmt.Sprintf("| [%s](%s/README.md) | ", name, name)
		if !bytes.Contains(contents, []byte(row)) {
			t.Errorf("examples/README.md has no row %q", row)
		}
		if programs, _ := filepath.Glob(filepath.Join(dir, "*.go")); len(programs) != 2 {
			t.Errorf("examples/%s has the Go files %v, want main.go and main_test.go", name, programs)
		}
		program, readme := readFile(t, "examples/"+name+"/main.go"), readFile(t, "examples/"+name+"/README.md")
		readFile(t, "examples/"+name+"/main_test.go")
		if n := bytes.Count(program, []byte("\n")); n > maxProgramLines {
			t.Errorf("examples/%s/main.go has %d lines, want %d at most: teach one thing", name, n, maxProgramLines)
		}
		if n := bytes.Count(readme, []byte("\n")); n > maxReadmeLines {
			t.Errorf("examples/%s/README.md has %d lines, want %d at most", name, n, maxReadmeLines)
		}
		next := "](../shop/README.md)"
		if i+1 < len(dirs) {
			next = "](../" + filepath.Base(dirs[i+1]) + "/README.md)"
		}
		for _, want := range []string{fmt.Sprintf("# %d. ", i+1), "\ngo run ./examples/" + name, next} {
			if !bytes.Contains(readme, []byte(want)) {
				t.Errorf("examples/%s/README.md does not contain %q", name, want)
			}
		}
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
