package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the root of the repository, relative to this package.
const root = "../.."

// module is the path of the module.
const module = "github.com/floedb/floe"

// source is a Go file of the project.
type source struct {
	name string // path below root, with slashes
	ast  *ast.File
	set  *token.FileSet
}

// dir is the folder of the file, "." for the root.
func (s *source) dir() string { return path.Dir(s.name) }

func (s *source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// at returns the position of a node, for messages.
func (s *source) at(n ast.Node) string {
	p := s.set.Position(n.Pos())
	p.Filename = s.name
	return p.String()
}

// sources parses all Go files of the project.
func sources(t *testing.T) []*source {
	t.Helper()
	var found []*source
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); file != root && (name[0] == '.' || name == "testdata" || name == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(entry.Name()) != ".go" {
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		s := &source{name: filepath.ToSlash(name), set: token.NewFileSet()}
		s.ast, err = parser.ParseFile(s.set, file, nil, parser.ParseComments)
		found = append(found, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// topLevel lists the permitted entries at the top level of the repository, besides dot files and Go
// files of package floe.
const topLevel = "kv stream queue ts floql action workflow dashboard cmd examples docs internal " +
	"go.mod go.sum README.md ARCHITECTURE.md CONTRIBUTING.md LICENSE CHANGELOG.md SECURITY.md Makefile"

func TestTopLevel(t *testing.T) {
	allowed := make(map[string]bool)
	for _, name := range strings.Fields(topLevel) {
		allowed[name] = true
	}
	for _, name := range topLevelNames(t) {
		if !allowed[name] && name[0] != '.' && path.Ext(name) != ".go" {
			t.Errorf("%s: the top level is the first page that a reader sees: put it below one of %s", name, topLevel)
		}
	}
}

// topLevelNames returns the names at the top level.
func topLevelNames(t *testing.T) (names []string) {
	t.Helper()
	for _, file := range tracked(t) {
		name, _, _ := strings.Cut(file, "/")
		names = append(names, name)
	}
	return names
}

// tracked returns the files that git tracks or would add, except deleted ones.
func tracked(t *testing.T) []string {
	t.Helper()
	git := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	git.Dir = root
	out, err := git.Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Lstat(filepath.Join(root, name))
		return err != nil
	})
}
