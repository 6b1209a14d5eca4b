package lint

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
	"github.com/floedb/floe/internal/test/plant"
)

// blocks returns the code blocks of a language in a file below root.
func blocks(t *testing.T, file, language string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	fenced := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	for _, match := range fenced.FindAllSubmatch(text, -1) {
		found = append(found, string(match[1]))
	}
	return found
}

// TestReadmePrograms runs the Go programs of the README. A final comment "// Output: ..." is the
// expected output.
func TestReadmePrograms(t *testing.T) {
	programs := blocks(t, "README.md", "go")
	if len(programs) == 0 {
		t.Fatal("README.md has no program: show how floe is embedded")
	}
	for _, program := range programs {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"build", "-o", filepath.Join(dir, "program"), "-ldflags=-w"}, plant.BuildFlags()...)
		build := exec.Command("go", append(args, filepath.Join(dir, "main.go"))...)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build the program of README.md: %v\n%s", err, out)
		}
		command := exec.Command(filepath.Join(dir, "program"))
		command.Dir = dir
		out, err := command.CombinedOutput()
		_, want, _ := strings.Cut(program, "// Output: ")
		if err != nil || strings.TrimSpace(string(out)) != strings.TrimSpace(want) {
			t.Errorf("the program of README.md: %v, printed\n%swant\n%s", err, out, want)
		}
	}
}

// TestReadmeCalls makes the HTTP API calls of the README, in order. A comment line after a call is
// its expected answer; numbers in it may differ.
func TestReadmeCalls(t *testing.T) {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	server := httptest.NewServer(dashboard.New(node, dashboard.Options{}))
	defer server.Close()
	calls := 0
	for _, block := range blocks(t, "README.md", "sh") {
		answer := ""
		for line := range strings.Lines(block) {
			line = strings.TrimSpace(line)
			if want, shown := strings.CutPrefix(line, "# "); shown && answer != "" {
				if withoutNumbers(answer) != withoutNumbers(want) {
					t.Errorf("README.md shows the answer\n%s\nit is\n%s", want, answer)
				}
			}
			answer = ""
			if strings.HasPrefix(line, "curl ") {
				calls++
				answer = curl(t, strings.ReplaceAll(line, "http://127.0.0.1:9002", server.URL))
			}
		}
	}
	if calls == 0 {
		t.Error("README.md shows no call to the HTTP API")
	}
}

func withoutNumbers(s string) string { return regexp.MustCompile(`\d+`).ReplaceAllString(s, "0") }

// curl makes the request of a curl command. It supports -X, -d and quotes around whole words.
func curl(t *testing.T, line string) string {
	t.Helper()
	method, body, url := http.MethodGet, "", ""
	words := regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1)[1:]
	for len(words) > 0 {
		word := strings.Trim(words[0], "'")
		words = words[1:]
		switch {
		case word == "-X" && len(words) > 0:
			method, words = words[0], words[1:]
		case word == "-d" && len(words) > 0:
			body, words = strings.Trim(words[0], "'"), words[1:]
		case strings.HasPrefix(word, "http://") && url == "":
			url = word
		default:
			t.Fatalf("%s: the test does not know what %q means", line, word)
		}
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, %v\n%s", line, resp.Status, err, answer)
	}
	return strings.TrimSpace(string(answer))
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
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Dependencies\n")
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
