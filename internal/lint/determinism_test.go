package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// replicated lists the folders with code that every replica of a shard must compute alike.
var replicated = []string{"floql", "internal/auth", "internal/codec", "internal/engine", "internal/key", "internal/protocol",
	"internal/test/toy", "kv", "queue", "stream", "stream/processing", "ts", "action", "workflow"}

// TestReplicasComputeAlike: replicas on different machines compute the same. A processor may round
// x*y + z once instead of twice (the language allows it, arm64 does it) unless the product is
// converted explicitly. Time zone data depends on the files of the machine.
func TestReplicasComputeAlike(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || !slices.Contains(replicated, s.dir()) {
			continue
		}
		for _, n := range differing(s.ast) {
			t.Errorf("%s: replicas may differ here: write float64(x*y) + z, and resolve time zones before proposing", s.at(n))
		}
	}
}

// differing returns the code of a file whose result may depend on the machine. It has no type
// information: in a function that mentions floats, every sum with a product counts.
func differing(f *ast.File) (found []ast.Node) {
	for _, d := range f.Decls {
		floats := mentionsFloats(d)
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if name := selector(n); name == "time.Local" || strings.HasPrefix(name, "time.LoadLocation") {
					found = append(found, n)
				}
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Local" && len(n.Args) == 0 {
					found = append(found, n)
				}
			case *ast.BinaryExpr:
				if floats && (n.Op == token.ADD || n.Op == token.SUB) && (isProduct(n.X) || isProduct(n.Y)) {
					found = append(found, n)
				}
			case *ast.AssignStmt:
				if floats && (n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN) && isProduct(n.Rhs[0]) {
					found = append(found, n)
				}
			}
			return true
		})
	}
	return found
}

func isProduct(e ast.Expr) bool {
	b, ok := ast.Unparen(e).(*ast.BinaryExpr)
	return ok && b.Op == token.MUL
}

func mentionsFloats(d ast.Decl) (floats bool) {
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			floats = floats || n.Name == "float64" || n.Name == "float32"
		case *ast.BasicLit:
			floats = floats || n.Kind == token.FLOAT
		case *ast.SelectorExpr:
			floats = floats || strings.HasPrefix(selector(n), "math.Float")
		}
		return !floats
	})
	return floats
}

func TestDiffering(t *testing.T) {
	for body, want := range map[string]int{
		`func f(x, y, z float64) float64 { return x*y + z }`:           1,
		`func f(x, y, z float64) float64 { return z - (x * y) }`:       1,
		`func f(x, y, z float64) float64 { z += x * y; return z }`:     1,
		`func f(x, y, z float64) float64 { return float64(x*y) + z }`:  0,
		`func f(x, y, z float64) float64 { return math.FMA(x, y, z) }`: 0,
		`func f(x, y, z int) int { return x*y + z }`:                   0,
		`func f(t time.Time) time.Time { return t.In(time.Local) }`:    1,
		`func f(t time.Time) time.Time { return t.Local() }`:           1,
		`func f() { time.LoadLocation("Europe/Berlin") }`:              1,
		`func f(t time.Time) time.Time { return t.UTC() }`:             0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+body, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(differing(file)); got != want {
			t.Errorf("%s: %d findings, want %d", body, got, want)
		}
	}
}
