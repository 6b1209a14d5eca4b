package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

func TestPackagesHaveComments(t *testing.T) {
	commented := make(map[string]bool)
	for _, s := range sources(t) {
		if !s.isTest() {
			commented[s.dir()] = commented[s.dir()] || s.ast.Doc != nil
		}
	}
	for dir, ok := range commented {
		if !ok {
			t.Errorf("%s has no package comment: it is what go doc shows first", dir)
		}
	}
}

// isPublic reports whether users can import the package of a file.
func isPublic(s *source) bool {
	top, _, _ := strings.Cut(s.name, "/")
	return !s.isTest() && !slices.Contains([]string{"internal", "cmd", "examples"}, top)
}

func TestPublicIdentifiersHaveComments(t *testing.T) {
	for _, s := range sources(t) {
		if !isPublic(s) {
			continue
		}
		for _, decl := range s.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				checkFunc(t, s, d)
			case *ast.GenDecl:
				checkSpecs(t, s, d)
			}
		}
	}
}

// wellKnown are methods whose meaning is defined by an interface of the standard library.
var wellKnown = []string{"Error", "String", "Unwrap"}

func checkFunc(t *testing.T, s *source, d *ast.FuncDecl) {
	if d.Doc != nil || !d.Name.IsExported() {
		return
	}
	if d.Recv != nil && (!ast.IsExported(receiver(d)) || slices.Contains(wellKnown, d.Name.Name)) {
		return
	}
	missing(t, s, d.Name)
}

func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// checkSpecs accepts the comment of a group as the comment of each of its constants or variables.
func checkSpecs(t *testing.T, s *source, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && spec.Doc == nil && (d.Doc == nil || d.Tok == token.TYPE && d.Lparen.IsValid()) {
				missing(t, s, spec.Name)
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() && spec.Doc == nil && spec.Comment == nil && d.Doc == nil {
					missing(t, s, name)
				}
			}
		}
	}
}

func missing(t *testing.T, s *source, name *ast.Ident) {
	t.Errorf("%s: %s has no comment: users know of it what go doc says", s.at(name), name.Name)
}
