package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A mutant is one changed piece of a file.
type mutant struct {
	dir      string // of the package, as given to go test
	file     string // path relative to the working directory
	function string // that contains the piece, "" outside of functions
	line     int
	from, to int    // byte offsets of the piece
	old, new string // its text
	source   string // the whole line, trimmed
	alone    bool   // needs a build of its own: outside of functions, or in one with labels
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d %s: %s -> %s in `%s`", m.file, m.line, m.function, m.old, m.new, m.source)
}

// id identifies a mutant without its line number, which other changes of the file move.
func (m mutant) id() string {
	return fmt.Sprintf("%s %s: %s -> %s in `%s`", m.file, cmp.Or(m.function, "-"), m.old, m.new, m.source)
}

// readReviewed reads lines of the form "id # reason"; a line that begins with # is a comment.
func readReviewed(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	reviewed := map[string]string{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(line, " # ")
		if at < 0 {
			return nil, fmt.Errorf("%s:%d: no reason after #", name, i+1)
		}
		reviewed[line[:at]] = line[at+3:]
	}
	return reviewed, nil
}

// mutantsOf returns all mutants of a package, excluding its tests.
func mutantsOf(dir string) ([]mutant, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("%s: no Go files", dir)
	}
	var all []mutant
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "doc.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := mutantsIn(dir, name, text)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// operators are replaced by their neighbours, as in typical mistakes.
var operators = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
}

// ignored calls produce texts for people.
var ignored = regexp.MustCompile(`^(.*[eE]rrorf|.*Sprint.*|panic|.*\.(Debug|Info|Warn|Error)(Context)?|.*Grow|make)$`)

func mutantsIn(dir, name string, text []byte) ([]mutant, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var (
		all      []mutant
		function string
		alone    bool
		lines    = strings.Split(string(text), "\n")
	)
	add := func(from, to token.Pos, new string) {
		at, end := files.Position(from), files.Position(to)
		all = append(all, mutant{dir, name, function, at.Line, at.Offset, end.Offset, string(text[at.Offset:end.Offset]), new,
			strings.TrimSpace(lines[at.Line-1]), alone})
	}
	operator := func(at token.Pos, op token.Token) {
		if other, ok := operators[op]; ok {
			add(at, at+token.Pos(len(op.String())), other.String())
		}
	}
	beside := map[ast.Node]bool{}
	visit := func(n ast.Node) bool {
		if beside[n] {
			return false
		}
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.ArrayType:
			return false
		case *ast.CallExpr:
			return !ignored.MatchString(source(text, files, n.Fun))
		case *ast.BinaryExpr:
			if !isText(n.X) && !isText(n.Y) { // strings have no difference
				operator(n.OpPos, n.Op)
			}
		case *ast.AssignStmt:
			if !isText(n.Rhs[0]) {
				operator(n.TokPos, n.Tok)
			}
		case *ast.IncDecStmt:
			add(n.Pos(), n.End(), "_ = 0")
		case *ast.ExprStmt:
			if call, ok := n.X.(*ast.CallExpr); ok && !ignored.MatchString(source(text, files, call.Fun)) {
				add(n.Pos(), n.End(), "_ = 0")
			}
		case *ast.IfStmt:
			if _, binary := n.Cond.(*ast.BinaryExpr); !binary {
				add(n.Cond.Pos(), n.Cond.End(), "!("+source(text, files, n.Cond)+")")
			}
		case *ast.BasicLit:
			if v, err := strconv.ParseInt(n.Value, 0, 64); n.Kind == token.INT && err == nil {
				add(n.Pos(), n.End(), strconv.FormatInt(v+1, 10))
			}
		case *ast.ReturnStmt:
			if fails(n) { // values returned beside an error are ignored
				for _, result := range n.Results[:len(n.Results)-1] {
					beside[result] = isPlain(result)
				}
			}
			for _, result := range n.Results {
				if id, ok := result.(*ast.Ident); ok && !beside[result] {
					if other := map[string]string{"true": "false", "false": "true", "err": "nil"}[id.Name]; other != "" {
						add(id.Pos(), id.End(), other)
					}
				}
			}
		}
		return true
	}
	for _, decl := range file.Decls {
		function, alone = "", true
		if f, ok := decl.(*ast.FuncDecl); ok {
			alone = hasLabels(f)
			if function = f.Name.Name; f.Recv != nil {
				function = source(text, files, f.Recv.List[0].Type) + "." + function
			}
		}
		ast.Inspect(decl, visit)
	}
	return all, nil
}

func hasLabels(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		_, label := n.(*ast.LabeledStmt)
		found = found || label
		return !found
	})
	return found
}

// fails reports whether a statement returns an error, or false, beside other results.
func fails(n *ast.ReturnStmt) bool {
	if len(n.Results) < 2 {
		return false
	}
	switch last := n.Results[len(n.Results)-1].(type) {
	case *ast.Ident:
		return last.Name == "err" || last.Name == "false"
	case *ast.CallExpr:
		switch f := last.Fun.(type) {
		case *ast.Ident:
			return strings.HasSuffix(f.Name, "rrorf")
		case *ast.SelectorExpr:
			return strings.HasSuffix(f.Sel.Name, "rrorf")
		}
	}
	return false
}

func isPlain(e ast.Expr) bool {
	switch e.(type) {
	case *ast.Ident, *ast.BasicLit:
		return true
	}
	return false
}

func source(text []byte, files *token.FileSet, n ast.Node) string {
	return string(text[files.Position(n.Pos()).Offset:files.Position(n.End()).Offset])
}

func isText(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind == token.STRING
}
