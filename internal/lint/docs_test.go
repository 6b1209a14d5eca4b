package lint

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// pages returns the Markdown files of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	names := slices.DeleteFunc(tracked(t), func(name string) bool { return path.Ext(name) != ".md" })
	if len(names) == 0 {
		t.Fatal("no pages")
	}
	return names
}

// guides returns the pages whose programs and commands are run.
func guides(t *testing.T) []string {
	return slices.DeleteFunc(pages(t), func(name string) bool { return name != "README.md" && !strings.HasPrefix(name, "docs/") })
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	inline  = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
)

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(text string) (found []string) {
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		anchor := strings.ToLower(regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(match[1], "$1"))
		anchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(anchor, "")
		found = append(found, strings.ReplaceAll(anchor, " ", "-"))
	}
	return found
}

// TestLinks: each link within the repository leads to a file, and to a heading that exists.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		text := read(t, page)
		prose := inline.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
		for _, match := range link.FindAllStringSubmatch(prose, -1) {
			target, err := url.Parse(match[1])
			if err != nil {
				t.Errorf("%s: %q: %v", page, match[1], err)
				continue
			}
			if target.IsAbs() {
				continue
			}
			to := path.Join(path.Dir(page), target.Path)
			if target.Path == "" {
				to = page
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil || strings.HasPrefix(to, "../") {
				t.Errorf("%s links to %s, which does not exist", page, match[1])
			} else if target.Fragment != "" && !slices.Contains(anchors(read(t, to)), target.Fragment) {
				t.Errorf("%s links to %s, but %s has no such heading", page, match[1], to)
			}
		}
	}
}

// TestGuidePrograms compiles the Go code of README.md and docs as part of a module of its own, and
// runs the complete programs. A final comment "// Output: ..." is the expected output.
func TestGuidePrograms(t *testing.T) {
	type program struct{ page, text string }
	var programs []program
	dir := t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	fragments := 0
	for _, page := range guides(t) {
		for _, text := range blocks(t, page, "go") {
			if !strings.HasPrefix(text, "package main\n") {
				fragments++
				write(fmt.Sprintf("f%d/f.go", fragments), fragment(page, text))
				continue
			}
			name := fmt.Sprintf("p%d", len(programs))
			programs = append(programs, program{page, text})
			text = strings.Replace(text, "package main\n", "package "+name+"\n", 1)
			write(name+"/main.go", strings.Replace(text, "\nfunc main() {", "\nfunc Main() {", 1))
		}
	}
	if len(programs) == 0 {
		t.Fatal("no program: show how floe is embedded")
	}
	// One program with all of them, since a linker takes longer than a compiler.
	var imports, cases strings.Builder
	for i := range programs {
		fmt.Fprintf(&imports, "\t\"example.com/guides/p%d\"\n", i)
		fmt.Fprintf(&cases, "\t\"p%d\": p%d.Main,\n", i, i)
	}
	for i := range fragments {
		fmt.Fprintf(&imports, "\t_ \"example.com/guides/f%d\"\n", i+1)
	}
	write("main.go", fmt.Sprintf("package main\n\nimport (\n\t\"os\"\n%s)\n\nfunc main() {\n\tmap[string]func(){\n%s}[os.Args[1]]()\n}\n", &imports, &cases))
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	mod := strings.Replace(read(t, "go.mod"), "module github.com/floedb/floe", "module example.com/guides", 1)
	write("go.mod", mod+"\nrequire github.com/floedb/floe v0.0.0\n\nreplace github.com/floedb/floe => "+absolute+"\n")
	write("go.sum", read(t, "go.sum"))
	args := append([]string{"build", "-mod=mod", "-o", filepath.Join(dir, "program"), "-ldflags=-w"}, plant.BuildFlags()...)
	build := exec.Command("go", append(args, ".")...)
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the programs of the guides: %v\n%s", err, out)
	}
	for i, p := range programs {
		command := exec.Command(filepath.Join(dir, "program"), fmt.Sprintf("p%d", i))
		command.Dir = t.TempDir()
		out, err := command.CombinedOutput()
		_, want, _ := strings.Cut(p.text, "// Output: ")
		want = strings.ReplaceAll(want, "\n// ", "\n")
		if err != nil || strings.TrimSpace(string(out)) != strings.TrimSpace(want) {
			t.Errorf("a program of %s: %v, printed\n%swant\n%s", p.page, err, out, want)
		}
	}
}

// fragment returns a file that compiles a few lines of Go: declarations, or the body of a function
// with a context, a node and an error.
func fragment(page, text string) string {
	var imports strings.Builder
	for name, importPath := range map[string]string{
		"bytes": "bytes", "context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "json": "encoding/json", "log": "log",
		"os": "os", "slog": "log/slog", "strings": "strings", "testing": "testing", "time": "time", "strconv": "strconv", "sync": "sync",
		"floe": "github.com/floedb/floe", "kv": "github.com/floedb/floe/kv", "stream": "github.com/floedb/floe/stream",
		"queue": "github.com/floedb/floe/queue", "ts": "github.com/floedb/floe/ts", "floql": "github.com/floedb/floe/floql",
		"action": "github.com/floedb/floe/action", "workflow": "github.com/floedb/floe/workflow",
		"workflowtest": "github.com/floedb/floe/workflow/workflowtest", "dashboard": "github.com/floedb/floe/dashboard",
		"processing": "github.com/floedb/floe/stream/processing",
	} {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(text) {
			fmt.Fprintf(&imports, "import %q\n", importPath)
		}
	}
	if !regexp.MustCompile(`(?m)^(func|type|var|const) `).MatchString(text) {
		if !strings.Contains(imports.String(), `"context"`) {
			imports.WriteString("import \"context\"\n")
		}
		if !strings.Contains(imports.String(), `"github.com/floedb/floe"`) {
			imports.WriteString("import \"github.com/floedb/floe\"\n")
		}
		text = fmt.Sprintf("func _(ctx context.Context, node *floe.Node) (err error) {\n%s\n\treturn err\n}\n", text)
	}
	return fmt.Sprintf("// From %s.\npackage fragment\n\n%s\n%s", page, &imports, text)
}
