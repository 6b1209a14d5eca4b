package lint

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// blocks returns the code blocks of a language in a file below root.
func blocks(t *testing.T, file, language string) (found []string) {
	t.Helper()
	fenced := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	for _, match := range fenced.FindAllStringSubmatch(read(t, file), -1) {
		found = append(found, match[1])
	}
	return found
}

// TestExampleSnippets: the Go code in the READMEs of examples is copied from the programs, which
// have tests.
func TestExampleSnippets(t *testing.T) {
	readmes, err := filepath.Glob(filepath.Join(root, "examples/*/README.md"))
	if err != nil || len(readmes) == 0 {
		t.Fatalf("READMEs of examples: %v, %v", readmes, err)
	}
	for _, readme := range readmes {
		code := ""
		files, err := filepath.Glob(filepath.Join(filepath.Dir(readme), "*.go"))
		for _, file := range files {
			text, readErr := os.ReadFile(file)
			err = errors.Join(err, readErr)
			code += unindented(string(text))
		}
		name, relErr := filepath.Rel(root, readme)
		if err := errors.Join(err, relErr); err != nil {
			t.Fatal(err)
		}
		for _, snippet := range blocks(t, name, "go") {
			if !strings.Contains(code, unindented(snippet)) {
				t.Errorf("%s shows code that is not in the program:\n%s", name, snippet)
			}
		}
	}
}

// unindented removes the white space in front of each line.
func unindented(s string) string { return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(s, "") }

// TestDependencies compares go.mod with the table of the README. Every user who embeds floe pays
// for a dependency; the table gives its purpose.
func TestDependencies(t *testing.T) {
	inReadme := tableOfDependencies(t)
	inMod := directDependencies(t)
	for _, name := range inMod {
		if !slices.Contains(inReadme, name) {
			t.Errorf("%s is a dependency, but the table in README.md does not say what it saves: add a line, or do without it", name)
		}
	}
	for _, name := range inReadme {
		if !slices.Contains(inMod, name) {
			t.Errorf("the table in README.md has %s, which is no direct dependency in go.mod: remove the line, or run go mod tidy", name)
		}
	}
}

func tableOfDependencies(t *testing.T) (names []string) {
	t.Helper()
	_, section, found := strings.Cut(read(t, "README.md"), "\n## Dependencies\n")
	if !found {
		t.Fatal("README.md has no section Dependencies")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| .+ \\|$").FindAllStringSubmatch(section, -1) {
		names = append(names, row[1])
	}
	return names
}

func directDependencies(t *testing.T) (names []string) {
	t.Helper()
	edit := exec.Command("go", "mod", "edit", "-json")
	edit.Dir = root
	out, err := edit.Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if !r.Indirect {
			names = append(names, r.Path)
		}
	}
	return names
}
