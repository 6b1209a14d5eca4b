package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// Widths of lines in columns; a tab counts as tabColumns.
const (
	maxCodeColumns    = 140
	maxCommentColumns = 100
	tabColumns        = 4
)

// TestLinesAreShort: code has at most 140 columns and prose in comments at most 100. Raw strings,
// string literals that fill half a line, preformatted comments and outputs of examples may be
// longer.
func TestLinesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(s.name)))
		if err != nil {
			t.Fatal(err)
		}
		free, output := wideLines(s), false
		for i, line := range strings.Split(string(text), "\n") {
			most := maxCodeColumns
			if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "//"); ok {
				most = maxCommentColumns
				output = output || strings.HasPrefix(comment, " Output:") || strings.HasPrefix(comment, " Unordered output:")
				if output || strings.HasPrefix(comment, "\t") || strings.HasPrefix(comment, "  ") || !strings.HasPrefix(comment, " ") {
					continue
				}
				if !strings.Contains(strings.TrimSpace(comment), " ") { // an address
					continue
				}
			} else {
				output = false
			}
			if n := columns(line); n > most && !free[i+1] {
				t.Errorf("%s:%d: %d columns, want %d at most", s.name, i+1, n, most)
			}
		}
	}
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

// wideLines returns the lines with raw strings, and those with a literal that cannot be broken.
func wideLines(s *source) map[int]bool {
	lines := make(map[int]bool)
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			from, to := s.set.Position(lit.Pos()).Line, s.set.Position(lit.End()).Line
			for line := from; line <= to && (lit.Value[0] == '`' || len(lit.Value) > maxCodeColumns/2); line++ {
				lines[line] = true
			}
		}
		return true
	})
	return lines
}
