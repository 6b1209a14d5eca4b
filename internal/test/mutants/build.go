package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// variable is the environment variable that selects the mutant of a test binary.
const variable = "FLOE_MUTANT"

// selection is the source of a variable that tells which mutant is on.
const selection = `package %s

import (
	"os"
	"strconv"
)

var floeMutant = func() int {
	if n, err := strconv.Atoi(os.Getenv("%s")); err == nil {
		return n
	}
	return -1
}()
`

// A build is a test binary of one package that contains several mutants, all of them switched off.
// Compiling a package and what imports it takes much longer than its short tests.
type build struct {
	dir     string // of the package
	mutants []mutant
	invalid map[int]bool // indexes of mutants that do not compile
	binary  string       // "" if no mutant compiles
}

// builds distributes mutants over test binaries: one for each package, and one for each mutant that
// can not stand beside others.
func builds(mutants []mutant) []*build {
	var all []*build
	at := map[string]*build{}
	for _, m := range mutants {
		b := at[m.dir]
		if b == nil || m.alone {
			b = &build{dir: m.dir, invalid: map[int]bool{}}
			all = append(all, b)
			if !m.alone {
				at[m.dir] = b
			}
		}
		b.mutants = append(b.mutants, m)
	}
	return all
}

var mutantLine = regexp.MustCompile(`mutant-(\d+)\.go:`)

// compile builds the binary in tmp. It repeats the build without the mutants that the compiler
// complains of.
func (b *build) compile(ctx context.Context, tmp string) error {
	for len(b.invalid) < len(b.mutants) {
		list, err := b.overlay(tmp)
		if err != nil {
			return err
		}
		binary := filepath.Join(tmp, "test")
		command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-gcflags=-e",
			"-overlay", list, "-o", binary, b.dir)
		out, err := command.CombinedOutput()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			b.binary = binary
			return nil
		}
		complaints := mutantLine.FindAllSubmatch(out, -1)
		if len(complaints) == 0 {
			return fmt.Errorf("%s does not compile: %s", b.dir, out)
		}
		for _, c := range complaints {
			i, err := strconv.Atoi(string(c[1]))
			if err != nil || i >= len(b.mutants) {
				return fmt.Errorf("%s does not compile: %s", b.dir, out)
			}
			b.invalid[i] = true
		}
	}
	return nil
}

// overlay writes the changed files into tmp, and the list of replaced files that the go command
// reads, whose name it returns.
func (b *build) overlay(tmp string) (string, error) {
	replaced := map[string]string{}
	write := func(original, text string) error {
		original, err := filepath.Abs(original)
		if err != nil {
			return err
		}
		replaced[original] = filepath.Join(tmp, fmt.Sprintf("%d.go", len(replaced)))
		return os.WriteFile(replaced[original], []byte(text), 0o600)
	}
	var pkg string
	of := map[string][]int{}
	for i, m := range b.mutants {
		if !b.invalid[i] {
			of[m.file] = append(of[m.file], i)
		}
	}
	for name, indexes := range of {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		var changed string
		if m := b.mutants[indexes[0]]; m.alone {
			pkg, changed, err = replaceIn(text, m)
		} else {
			pkg, changed, err = b.switches(name, text, indexes)
		}
		if err == nil {
			err = write(name, changed)
		}
		if err != nil {
			return "", err
		}
	}
	if err := write(filepath.Join(b.dir, "floe_mutant.go"), fmt.Sprintf(selection, pkg, variable)); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	list := filepath.Join(tmp, "overlay.json")
	return list, os.WriteFile(list, text, 0o600)
}

// replaceIn returns the package's name and the text with the mutant in it, always on.
func replaceIn(text []byte, m mutant) (string, string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), m.file, text, parser.PackageClauseOnly)
	if err != nil {
		return "", "", err
	}
	before := text[:bytes.LastIndexByte(text[:m.from], '\n')+1]
	line := fmt.Sprintf("//line mutant-0.go:%d\n", m.line)
	return file.Name.Name, string(slices.Concat(before, []byte(line), text[len(before):m.from], []byte(m.new), text[m.to:])), nil
}

// switches returns the package's name and the text in which each function begins with copies of its
// body, one for each of its mutants, that run when they are selected.
func (b *build) switches(name string, text []byte, indexes []int) (string, string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return "", "", err
	}
	var out strings.Builder
	last := 0
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		from, to := files.Position(f.Body.Lbrace).Offset+1, files.Position(f.Body.Rbrace).Offset
		out.Write(text[last:from])
		last = from
		for _, i := range indexes {
			m := b.mutants[i]
			if m.from < from || m.to > to {
				continue
			}
			fmt.Fprintf(&out, "\nif floeMutant == %d {\n//line mutant-%d.go:1\n%s%s%s\n", i, i, text[from:m.from], m.new, text[m.to:to])
			if f.Type.Results == nil {
				out.WriteString("return\n")
			}
			fmt.Fprintf(&out, "}\n//line %s:%d\n", filepath.Base(name), files.Position(f.Body.Lbrace).Line)
		}
	}
	out.Write(text[last:])
	return file.Name.Name, out.String(), nil
}

// verdict is the result of the tests for a mutant.
type verdict string

const (
	noticed  verdict = "noticed"
	survived verdict = "SURVIVED"
	invalid  verdict = "invalid" // it does not compile
)

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// passes returns an error if the short tests fail without a mutant: then they would notice any.
func (b *build) passes(ctx context.Context, limit time.Duration) error {
	if b.binary == "" || len(b.mutants) > 0 && b.mutants[0].alone {
		return nil
	}
	if v, by := b.test(ctx, -1, limit, "-test.short"); v == noticed {
		return fmt.Errorf("%s fails without a mutant too, as noticed %s", b.dir, by)
	}
	return nil
}

// try runs the tests of the package with a mutant: their short form, and if that notices nothing
// and all is set, their full one. It returns the name of the test that noticed it, if known.
func (b *build) try(ctx context.Context, i int, limit time.Duration, all bool) (verdict, string) {
	if b.invalid[i] {
		return invalid, ""
	}
	v, by := b.test(ctx, i, limit, "-test.short")
	if v == survived && all {
		v, by = b.test(ctx, i, limit)
	}
	return v, by
}

func (b *build) test(ctx context.Context, i int, limit time.Duration, flags ...string) (verdict, string) {
	command := exec.CommandContext(ctx, b.binary, append(flags, "-test.failfast", "-test.timeout", limit.String())...)
	command.Dir = b.dir
	command.Env = append(os.Environ(), variable+"="+strconv.Itoa(i))
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	out, err := command.CombinedOutput()
	switch {
	case err == nil:
		return survived, ""
	case ctx.Err() != nil:
		return invalid, ""
	case bytes.Contains(out, []byte("panic: test timed out")):
		return noticed, "by the time limit"
	}
	names := failure.FindAllSubmatch(out, -1)
	if len(names) == 0 {
		return noticed, "by the end of the process"
	}
	deepest := slices.MaxFunc(names, func(a, b [][]byte) int { return cmp.Compare(len(a[1]), len(b[1])) })
	return noticed, "by " + string(deepest[1])
}
