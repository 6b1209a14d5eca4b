package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// unfinished matches text that admits unfinished code. Its words are split so that this file does
// not match.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b|(?i:not ` + `implemented)`)

func TestNothingUnfinished(t *testing.T) {
	for _, s := range sources(t) {
		text, err := os.ReadFile(filepath.Join(root, s.name))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if word := unfinished.FindString(line); word != "" {
				t.Errorf("%s:%d: %q: finish it, or leave it out and say so in the README", s.name, i+1, word)
			}
		}
	}
}

// longSuites lists the packages whose tests may be shortened or skipped with -short, with the
// reason why they take long.
var longSuites = map[string]string{
	"action":                    "runs random commands against models",
	"examples/gosrc":            "loads over 100 MB",
	"kv":                        "runs random histories against a model",
	"internal/test/e2e":         "kills processes and cuts the power many times, runs clusters",
	"internal/test/machinetest": "runs random histories of all models",
	"internal/test/sim":         "runs many seeds",
	"internal/test/sim/faults":  "tries every file operation",
	"internal/shard":            "simulates a cluster",
	"internal/raftlog":          "crashes at every file operation",
}

func TestNoSleepAndNoSkip(t *testing.T) {
	for _, s := range sources(t) {
		long := longSuites[s.dir()] != ""
		var stack []ast.Node
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if n == nil {
				stack = stack[:len(stack)-1]
				return true
			}
			stack = append(stack, n)
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch called := selector(call.Fun); {
			case called == "time.Sleep":
				t.Errorf("%s: time.Sleep: wait for what is to happen, with a channel, a deadline or testing/synctest", s.at(n))
			case called == "testing.Short" && !long:
				t.Errorf("%s: testing.Short: only long suites have a short form, see internal/lint/code_test.go", s.at(n))
			case s.isTest() && isSkip(called) && !(long && (underShort(stack) || forPrivileges(stack))):
				t.Errorf("%s: %s: a test that is skipped proves nothing; make it run everywhere", s.at(n), called)
			}
			return true
		})
	}
}

// selector returns x.Name as text, "" for anything else.
func selector(e ast.Expr) string {
	if sel, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := sel.X.(*ast.Ident); ok {
			return x.Name + "." + sel.Sel.Name
		}
	}
	return ""
}

// isSkip reports whether a call skips a test, benchmark or fuzz target.
func isSkip(called string) bool {
	on, name, _ := strings.Cut(called, ".")
	return strings.Contains("t b f tb", on) && (name == "Skip" || name == "Skipf" || name == "SkipNow")
}

// underShort reports whether the innermost if around a node is `if testing.Short()`.
func underShort(stack []ast.Node) bool {
	for i := len(stack) - 1; i >= 0; i-- {
		if cond, ok := stack[i].(*ast.IfStmt); ok {
			call, ok := cond.Cond.(*ast.CallExpr)
			return ok && selector(call.Fun) == "testing.Short"
		}
	}
	return false
}

// forPrivileges reports whether a node is in a function needPrivileges that fails the test if the
// environment variable CI is set, before it may skip it. Mounting a file system needs privileges
// that a laptop may lack and CI must provide.
func forPrivileges(stack []ast.Node) bool {
	skip := stack[len(stack)-1]
	for _, n := range stack {
		f, ok := n.(*ast.FuncDecl)
		if !ok || f.Name.Name != "needPrivileges" || f.Recv != nil {
			continue
		}
		for _, stmt := range f.Body.List {
			if cond, ok := stmt.(*ast.IfStmt); ok && cond.End() < skip.Pos() && isSetInCI(cond.Cond) && endsInFatal(cond.Body) {
				return true
			}
		}
	}
	return false
}

// isSetInCI reports whether a condition is `os.Getenv("CI") != ""`.
func isSetInCI(cond ast.Expr) bool {
	not, ok := cond.(*ast.BinaryExpr)
	if !ok || not.Op != token.NEQ || !isString(not.Y, "") {
		return false
	}
	call, ok := not.X.(*ast.CallExpr)
	return ok && selector(call.Fun) == "os.Getenv" && len(call.Args) == 1 && isString(call.Args[0], "CI")
}

func isString(e ast.Expr, want string) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind == token.STRING && lit.Value == strconv.Quote(want)
}

func endsInFatal(body *ast.BlockStmt) bool {
	if len(body.List) == 0 {
		return false
	}
	last, ok := body.List[len(body.List)-1].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := last.X.(*ast.CallExpr)
	return ok && strings.HasPrefix(selector(call.Fun), "t.Fatal")
}

func TestSkipForPrivileges(t *testing.T) {
	const before = `package p; func needPrivileges(t *testing.T, missing string) { if missing == "" { return }; `
	const ci = `if os.Getenv("CI") != "" { t.Fatalf("missing: %s", missing) }; `
	for text, want := range map[string]bool{
		before + ci + `t.Skip(missing) }`:                                        true,
		before + `t.Skip(missing) }`:                                             false,
		before + `t.Skip(missing); ` + ci + `}`:                                  false,
		before + strings.Replace(ci, "!=", "==", 1) + `t.Skip(missing) }`:        false,
		before + strings.Replace(ci, "Fatalf", "Logf", 1) + `t.Skip(missing) }`:  false,
		strings.Replace(before, "needPrivileges", "need", 1) + ci + `t.Skip() }`: false,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		var stack []ast.Node
		ast.Inspect(file, func(n ast.Node) bool {
			if n == nil {
				stack = stack[:len(stack)-1]
				return true
			}
			stack = append(stack, n)
			if call, ok := n.(*ast.CallExpr); ok && isSkip(selector(call.Fun)) && forPrivileges(stack) != want {
				t.Errorf("%s: may skip: %v, want %v", text, !want, want)
			}
			return true
		})
	}
}

// mustBeDeterministic reports whether a file runs inside Apply. A Scope is for callers, outside of
// the shard. Readers, and the time at which a query runs again, are for queries.
func mustBeDeterministic(s *source) bool {
	forCallers := s.name == "internal/engine/scope.go" || s.name == "internal/engine/readers.go" || s.name == "internal/engine/again.go"
	return !s.isTest() && !forCallers && (s.dir() == "internal/engine" || strings.HasPrefix(path.Base(s.name), "machine"))
}

func TestMachinesAreDeterministic(t *testing.T) {
	const why = "every replica that applied the same log must have the same state, byte by byte: "
	forbidden := map[string]string{
		"time.Now": "take the stamp of the entry", "time.Since": "take the stamp of the entry", "time.Until": "take the stamp of the entry",
		"time.After": "schedule a timer of the shard", "time.NewTimer": "schedule a timer of the shard",
		"time.NewTicker": "schedule a timer of the shard",
		"os.Getenv":      "take it from the command",
	}
	random := map[string]bool{"math/rand": true, "math/rand/v2": true, "crypto/rand": true}
	for _, s := range sources(t) {
		if !mustBeDeterministic(s) {
			continue
		}
		for _, spec := range s.ast.Imports {
			if name, _ := strconv.Unquote(spec.Path.Value); random[name] {
				t.Errorf("%s: %s: %stake the LSN for an identity", s.at(spec), name, why)
			}
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: go statement: %sdo it in order", s.at(n), why)
			case *ast.SelectorExpr:
				if instead := forbidden[selector(n)]; instead != "" {
					t.Errorf("%s: %s: %s%s", s.at(n), selector(n), why, instead)
				}
			}
			return true
		})
	}
}
