package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const sample = `package sample

const limit = 3

func within(n int) (bool, error) {
	if n < 0 {
		return false, errorf("%d is less than %d", n, 0+1)
	}
	count++
	note(n)
	return n <= limit && n != 2, err
}
`

// TestMutantsIn lists every bug that can be planted in a small file.
func TestMutantsIn(t *testing.T) {
	found, err := mutantsIn("./sample", "sample.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range found {
		got = append(got, m.id())
	}
	want := []string{
		"sample.go -: 3 -> 4 in `const limit = 3`",
		"sample.go within: < -> <= in `if n < 0 {`",
		"sample.go within: 0 -> 1 in `if n < 0 {`",
		"sample.go within: count++ -> _ = 0 in `count++`",
		"sample.go within: note(n) -> _ = 0 in `note(n)`",
		"sample.go within: err -> nil in `return n <= limit && n != 2, err`",
		"sample.go within: && -> || in `return n <= limit && n != 2, err`",
		"sample.go within: <= -> < in `return n <= limit && n != 2, err`",
		"sample.go within: != -> == in `return n <= limit && n != 2, err`",
		"sample.go within: 2 -> 3 in `return n <= limit && n != 2, err`",
	}
	if !slices.Equal(got, want) {
		t.Errorf("mutants:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestTry plants one bug that a test notices, one that none notices, and one that does not compile.
func TestTry(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	files := map[string]string{
		"go.mod": "module sample\n\ngo 1.26\n",
		"a.go": `package sample

const most, least = 9, 10

func less(a, b int) bool { return a < b }

func limit() int { return 3 }

func use() { x := limit(); note(x) }

func note(int) {}

func labelled() int {
again:
	for {
		break again
	}
	return 1
}
`,
		"a_test.go": `package sample

import "testing"

func TestLess(t *testing.T) {
	if less(1, 1) || most != len("123456789") || labelled() != len("1") {
		t.Fatal()
	}
	use()
}
`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := mutantsOf(".")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]verdict{}
	for _, b := range builds(found) {
		if err := b.compile(t.Context(), t.TempDir()); err != nil {
			t.Fatal(err)
		}
		for i, m := range b.mutants {
			v, by := b.try(t.Context(), i, time.Minute, true)
			if got[m.old+" -> "+m.new] = v; v == noticed && by != "by TestLess" {
				t.Errorf("mutant %d: %v noticed %q, want by TestLess", i, m, by)
			}
		}
	}
	want := map[string]verdict{
		"< -> <=": noticed, "3 -> 4": survived, "note(x) -> _ = 0": invalid, "9 -> 10": noticed, "10 -> 11": survived, "1 -> 2": noticed,
	}
	if !maps.Equal(got, want) {
		t.Errorf("verdicts: %v, want %v", got, want)
	}
}

// TestSurvivorsExist: each reviewed survivor is a bug that can be planted in the code as it is.
func TestSurvivorsExist(t *testing.T) {
	t.Chdir("../../..")
	reviewed, err := readReviewed("internal/test/mutants/survivors.txt")
	if err != nil {
		t.Fatal(err)
	}
	sites := make(map[string]bool)
	for _, dir := range packages {
		found, err := mutantsOf(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range found {
			sites[m.id()] = true
		}
	}
	for id := range reviewed {
		if !sites[id] {
			t.Errorf("no such bug, any more: %s", id)
		}
	}
}
