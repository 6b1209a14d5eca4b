package lint

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/test/plant"
)

// TestSurface: no exported identifier of a public package mentions a type of an internal package,
// not even through an alias, or has its fields or methods by embedding. go doc would show a name
// that leads nowhere, and users could not call it.
func TestSurface(t *testing.T) {
	load := exports(t, publicPackages(t))
	for _, path := range publicPackages(t) {
		pkg, err := load.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, leak := range leaks(pkg) {
			t.Error(leak)
		}
	}
}

// TestSurfaceNotices: TestSurface finds planted violations.
func TestSurfaceNotices(t *testing.T) {
	const planted = `package planted

import "` + module + `/internal/engine"

type Alias = engine.Op
type Field struct { Inner []engine.Op }
type Embeds struct { engine.Txn }
type hidden = engine.Op
type Promotes struct { hidden }
type Method struct{}
func (*Method) Wire(engine.Command) {}
func Takes(map[string]engine.Op) {}
func Returns() (_ []byte, _ func() *engine.Router) { return }
type inner struct { Scope engine.Scope }
func Inner() inner { return inner{} }
var Value engine.ShardID
const Number = engine.MachineKV
type Generic[T any] struct { At *T }
var OfInternal Generic[engine.Op]
type Interface interface { Do() engine.Entry }

type opaque = engine.HiddenOp
type Fine struct { opaque; scope engine.Scope }
func (Fine) Do(Fine, error, ...Option) []Fine { return nil }
type Option interface { apply(*engine.Scope) }
var FineError = engine.ErrInvalid
`
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "planted.go", planted, 0)
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: exports(t, []string{module + "/internal/engine"})}
	pkg, err := config.Check("planted", set, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := leaks(pkg)
	for _, name := range strings.Fields("Alias Field Embeds Promotes Method Takes Returns Inner Value Number OfInternal Interface") {
		if !slices.ContainsFunc(found, func(leak string) bool { return strings.HasPrefix(leak, "planted."+name+":") }) {
			t.Errorf("planted.%s is not found", name)
		}
	}
	for _, leak := range found {
		if strings.Contains(leak, "Fine") || strings.Contains(leak, "Option") {
			t.Errorf("nothing is wrong with it: %s", leak)
		}
	}
}

// publicPackages returns the import paths of the packages that users may import.
func publicPackages(t *testing.T) (paths []string) {
	for _, s := range sources(t) {
		path := strings.TrimSuffix(module+"/"+s.dir(), "/.")
		top, _, _ := strings.Cut(s.dir(), "/")
		if !s.isTest() && top != "internal" && top != "cmd" && top != "examples" && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// exports returns an importer of packages and their dependencies, from the compiler's export data.
func exports(t *testing.T, paths []string) types.Importer {
	t.Helper()
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}, plant.BuildFlags()...)
	list := exec.Command("go", append(args, paths...)...)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

// leaks returns the internal types that a package exports.
func leaks(pkg *types.Package) (found []string) {
	s := surface{pkg: pkg, seen: make(map[types.Type]bool)}
	for _, name := range pkg.Scope().Names() {
		if obj := pkg.Scope().Lookup(name); obj.Exported() {
			s.name = pkg.Name() + "." + name
			s.object(obj)
		}
	}
	return s.found
}

// surface walks the parts of a package that users can reach.
type surface struct {
	pkg   *types.Package
	name  string // of the exported identifier
	seen  map[types.Type]bool
	found []string
}

func (s *surface) leak(format string, args ...any) {
	s.found = append(s.found, s.name+": "+fmt.Sprintf(format, args...))
}

func (s *surface) object(obj types.Object) {
	name, isType := obj.(*types.TypeName)
	if !isType {
		s.visit(obj.Type())
		return
	}
	if alias, ok := obj.Type().(*types.Alias); ok {
		s.visit(alias.Rhs())
		return
	}
	s.visit(name.Type())
}

func isInternal(pkg *types.Package) bool {
	return pkg != nil && strings.HasPrefix(pkg.Path(), module+"/internal/")
}

// visit checks a type, and everything that a value of it gives a user.
func (s *surface) visit(t types.Type) {
	switch t := t.(type) {
	case *types.Alias:
		s.visit(types.Unalias(t))
	case *types.Named:
		s.named(t)
	case *types.Pointer:
		s.visit(t.Elem())
	case *types.Slice:
		s.visit(t.Elem())
	case *types.Array:
		s.visit(t.Elem())
	case *types.Chan:
		s.visit(t.Elem())
	case *types.Map:
		s.visit(t.Key())
		s.visit(t.Elem())
	case *types.Signature:
		s.tuple(t.Params())
		s.tuple(t.Results())
	case *types.Struct:
		s.fields(t)
	case *types.Interface:
		for m := range t.Methods() {
			if m.Exported() {
				s.visit(m.Type())
			}
		}
	}
}

func (s *surface) tuple(t *types.Tuple) {
	for v := range t.Variables() {
		s.visit(v.Type())
	}
}

func (s *surface) named(t *types.Named) {
	if isInternal(t.Obj().Pkg()) {
		s.leak("mentions %s: give users a type of their own, and hide what is behind it (see internal/engine/hidden.go)", t)
		return
	}
	for arg := range t.TypeArgs().Types() {
		s.visit(arg)
	}
	if t.Obj().Pkg() != s.pkg || s.seen[t] { // other packages are checked separately
		return
	}
	s.seen[t] = true
	outer := s.name
	if t.Obj().Exported() {
		s.name = s.pkg.Name() + "." + t.Obj().Name()
	}
	defer func() { s.name = outer }()
	s.visit(t.Underlying())
	methods := types.NewMethodSet(types.NewPointer(t))
	for m := range methods.Methods() {
		if m.Obj().Exported() {
			s.visit(m.Type())
		}
	}
}

// fields checks the fields that users see, including those of unexported embedded types.
func (s *surface) fields(t *types.Struct) {
	for f := range t.Fields() {
		switch {
		case f.Exported():
			s.visit(f.Type())
		case f.Embedded():
			s.embedded(f)
		}
	}
}

// embedded refuses embedded types of internal packages that have exported fields or methods.
func (s *surface) embedded(f *types.Var) {
	t := types.Unalias(f.Type())
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if inner, ok := t.Underlying().(*types.Struct); ok {
		if named, ok := t.(*types.Named); ok && isInternal(named.Obj().Pkg()) {
			for field := range inner.Fields() {
				if field.Exported() {
					s.leak("has the field %s of %s", field.Name(), named)
				}
			}
			methods := types.NewMethodSet(types.NewPointer(t))
			for m := range methods.Methods() {
				if m.Obj().Exported() {
					s.leak("has the method %s of %s", m.Obj().Name(), named)
				}
			}
			return
		}
		s.fields(inner)
	}
}
