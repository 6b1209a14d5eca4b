package lint

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	suiteLine = regexp.MustCompile(`(?m)^suite-(\S+):\s+suite = (\S+) -test\.run '?([^' \n]+)`)
	poolLine  = regexp.MustCompile(`(?m)^(?:COMPUTING|WAITING)\s+= (.*)$`)
)

// TestSuitesRun: each suite of the Makefile is in a pool and names tests that exist. go test
// succeeds even if a pattern matches nothing.
func TestSuitesRun(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	makefile := strings.ReplaceAll(string(text), "$$", "$")
	var pools []string
	for _, m := range poolLine.FindAllStringSubmatch(makefile, -1) {
		pools = append(pools, strings.Fields(m[1])...)
	}
	tests := make(map[string][]string) // by package
	for _, s := range sources(t) {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasSuffix(s.name, "_test.go") {
				tests[s.dir()] = append(tests[s.dir()], f.Name.Name)
			}
		}
	}
	suites := suiteLine.FindAllStringSubmatch(makefile, -1)
	if len(suites) < len(pools) {
		t.Errorf("%d suites in pools, but %d have a line", len(pools), len(suites))
	}
	for _, m := range suites {
		if !slices.Contains(pools, m[1]) {
			t.Errorf("suite-%s is in no pool", m[1])
		}
		if !slices.ContainsFunc(tests[m[2]], regexp.MustCompile(m[3]).MatchString) {
			t.Errorf("suite-%s: no test in %s matches %s", m[1], m[2], m[3])
		}
	}
}
