package cli

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
	"github.com/floedb/floe/internal/test/reference"
)

const errorsIntro = "# Errors\n\n" +
	"Errors match these values with `errors.Is`; their messages are not stable. Packages export the same values as package `floe`. " +
	"The HTTP API responds to other errors with 500, the command line exits with 1, and with 2 after invalid arguments. A call whose " +
	"context has ended returns the error of the context: a write may then have happened or not. In HTTP that is 503, the exit code " +
	"is 5.\n"

// retries says for each error of package floe whether the same call can succeed later.
var retries = []struct {
	name  string
	err   error
	again string
}{
	{"ErrNotFound", floe.ErrNotFound, "no"},
	{"ErrConflict", floe.ErrConflict, "after reading the current state"},
	{"ErrExists", floe.ErrExists, "no"},
	{"ErrInvalid", floe.ErrInvalid, "no"},
	{"ErrBusy", floe.ErrBusy, "yes, with back-off; the call had no effect"},
	{"ErrUnavailable", floe.ErrUnavailable, "yes, with back-off; unless it is ErrUnknownOutcome, the call had no effect"},
	{"ErrInUse", floe.ErrInUse, "after the other node has closed"},
	{"ErrReadOnly", floe.ErrReadOnly, "after freeing disk space"},
	{"ErrUnknownOutcome", floe.ErrUnknownOutcome, "if the write is idempotent; otherwise read first"},
	{"ErrClosed", floe.ErrClosed, "with another node or client"},
	{"ErrUnauthorized", floe.ErrUnauthorized, "with other credentials"},
}

// failing is a node whose Stats fail.
type failing struct {
	*floe.Node
	err error
}

func (f failing) Stats(context.Context) (floe.Stats, error) { return floe.Stats{}, f.err }

// TestErrorsReference: docs/reference/errors.md has all public errors, with the statuses and exit
// codes that the program gives them.
func TestErrorsReference(t *testing.T) {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	packages := publicErrors(t)
	docs := packages["floe"]
	delete(packages, "floe")
	var rows [][]string
	for _, r := range retries {
		w := httptest.NewRecorder()
		site := dashboard.New(failing{node, r.err}, dashboard.Options{})
		site.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/cluster/stats", nil))
		at := slices.IndexFunc(docs.values, func(row []string) bool { return row[0] == reference.Code("floe."+r.name) })
		if at < 0 {
			t.Fatalf("floe.%s is not declared", r.name)
		}
		rows = append(rows, []string{docs.values[at][0], docs.values[at][1], fmt.Sprint(w.Code),
			fmt.Sprint(report(io.Discard, coded(r.err))), r.again})
		docs.values = slices.Delete(docs.values, at, at+1)
	}
	for _, row := range docs.values {
		t.Errorf("%s is not in the table of retries", row[0])
	}
	page := errorsIntro + "\n## Values\n" + reference.Table([]string{"error", "meaning", "HTTP status", "exit code", "retry"}, rows)
	page += "\n## Values of packages\n\nWhat the errors mean in a package, and its own errors.\n"
	types := docs.types
	rows = nil
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		rows = append(rows, packages[name].values...)
		types = append(types, packages[name].types...)
	}
	page += reference.Table([]string{"error", "meaning"}, rows)
	page += "\n## Types\n\nErrors with details, for `errors.As`.\n" + reference.Table([]string{"type", "meaning"}, types)
	reference.Check(t, "errors.md", page)
}

// errorDocs are the errors of a package: variables and types, with their documentation.
type errorDocs struct{ values, types [][]string }

// publicErrors returns the errors of all public packages.
func publicErrors(t *testing.T) map[string]*errorDocs {
	t.Helper()
	const root = "../../.."
	all := make(map[string]*errorDocs)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && path != root
			if hidden || slices.Contains([]string{"internal", "cmd", "examples", "console"}, d.Name()) {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		found := cmp.Or(all[file.Name.Name], new(errorDocs))
		if found.add(file); len(found.values)+len(found.types) > 0 {
			all[file.Name.Name] = found
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (e *errorDocs) add(file *ast.File) {
	for _, decl := range file.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range g.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				if name := spec.Names[0].Name; g.Tok == token.VAR && strings.HasPrefix(name, "Err") {
					text := cmp.Or(spec.Comment.Text(), spec.Doc.Text(), g.Doc.Text())
					e.values = append(e.values, []string{reference.Code(file.Name.Name + "." + name), sentence(text, name)})
				}
			case *ast.TypeSpec:
				if name := spec.Name.Name; ast.IsExported(name) && strings.HasSuffix(name, "Error") {
					text := cmp.Or(spec.Doc.Text(), g.Doc.Text())
					e.types = append(e.types, []string{reference.Code("*" + file.Name.Name + "." + name), sentence(text, name)})
				}
			}
		}
	}
}

// sentence returns the first sentence of a comment, without the name that it begins with.
func sentence(text, name string) string {
	text = strings.TrimSuffix(new(doc.Package).Synopsis(text), ".")
	return strings.TrimPrefix(strings.TrimPrefix(text, name+" is "), name+" ")
}
