// Package reference writes the pages of docs/reference, which tests make from the tables of the
// program, and checks that the committed pages are up to date.
package reference

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var write = flag.Bool("write-reference", false, "write the page of docs/reference anew")

// Check compares docs/reference/name with the page that the calling test has made. With
// -write-reference it writes the page.
func Check(t *testing.T, name, page string) {
	t.Helper()
	root, dir := moduleRoot(t)
	command := fmt.Sprintf("go test ./%s -run '^%s$' -write-reference", filepath.ToSlash(dir), t.Name())
	want := []byte("<!-- Generated. To update: " + command + " -->\n\n" + wrap(page))
	file := filepath.Join(root, "docs", "reference", name)
	if *write {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/reference/%s is out of date (%v): %s", name, err, command)
	}
}

// moduleRoot returns the directory of go.mod and the path from it to the package under test.
func moduleRoot(t *testing.T) (root, dir string) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for root = here; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			t.Fatalf("no go.mod above %s", here)
		}
	}
	if dir, err = filepath.Rel(root, here); err != nil {
		t.Fatal(err)
	}
	return root, dir
}

// Table returns a table in Markdown, after an empty line. A cell with several lines has them below
// each other.
func Table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			c = strings.ReplaceAll(strings.ReplaceAll(c, "|", `\|`), "\n", "<br>")
			fmt.Fprintf(&b, " %s |", c)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	line(head)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, row := range rows {
		line(row)
	}
	return b.String()
}

// Code returns text as code, "" if it is empty.
func Code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// maxColumns is the width of prose.
const maxColumns = 100

var (
	word  = regexp.MustCompile("(?:`[^`]*`|[^\\s`])+") // a code span is not broken
	fence = "```"
)

// wrap breaks the lines of paragraphs and list items.
func wrap(page string) string {
	var b, paragraph strings.Builder
	flush := func() {
		text := paragraph.String()
		paragraph.Reset()
		indent := ""
		if strings.HasPrefix(text, "- ") {
			indent = "  "
		}
		n := 0
		for _, w := range word.FindAllString(text, -1) {
			switch columns := utf8.RuneCountInString(w); {
			case n == 0:
				n = columns
			case n+1+columns > maxColumns:
				b.WriteString("\n" + indent)
				n = len(indent) + columns
			default:
				b.WriteString(" ")
				n += 1 + columns
			}
			b.WriteString(w)
		}
		if n > 0 {
			b.WriteString("\n")
		}
	}
	code := false
	for line := range strings.Lines(page) {
		isFence := strings.HasPrefix(line, fence)
		if code || isFence || line == "\n" || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#") {
			flush()
			b.WriteString(line)
			code = code != isFence
			continue
		}
		if strings.HasPrefix(line, "- ") {
			flush()
		}
		paragraph.WriteString(line)
	}
	flush()
	return b.String()
}
