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
	suitedLine = regexp.MustCompile(`(?m)^SUITED = (.*)$`)
	suiteLine  = regexp.MustCompile(`(?m)^suite-(\S+):\s+suite = (\S+) -test\.run '?([^' \n]+)`)
	poolLine   = regexp.MustCompile(`(?m)^(?:COMPUTING|WAITING)\s+= (.*)$`)
)

// TestSuitesRunWhatIsSkipped: what make test leaves out of the short tests, by its name, one of the suites runs. A test that only bore such a name ran nowhere.
func TestSuitesRunWhatIsSkipped(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	makefile := strings.ReplaceAll(string(text), "$$", "$")
	skipped := regexp.MustCompile(suitedLine.FindStringSubmatch(makefile)[1])
	var pools []string
	for _, m := range poolLine.FindAllStringSubmatch(makefile, -1) {
		pools = append(pools, strings.Fields(m[1])...)
	}
	run := make(map[string][]*regexp.Regexp) // by package
	for _, m := range suiteLine.FindAllStringSubmatch(makefile, -1) {
		if !slices.Contains(pools, m[1]) {
			t.Errorf("suite-%s is in no pool", m[1])
		}
		run[m[2]] = append(run[m[2]], regexp.MustCompile(m[3]))
	}
	for _, s := range sources(t) {
		if !strings.HasSuffix(s.name, "_test.go") {
			continue
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !skipped.MatchString(f.Name.Name) {
				continue
			}
			found := false
			for _, re := range run[s.dir()] {
				found = found || re.MatchString(f.Name.Name)
			}
			if !found {
				t.Errorf("%s: make test runs %s neither with the short tests (SUITED) nor in a suite", s.name, f.Name.Name)
			}
		}
	}
}
