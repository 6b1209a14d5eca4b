// Overlay plants the bugs of internal/test/plant. It writes the files that differ from the product,
// and a file for the flag -overlay of the go command:
//
//	go run ./internal/test/plant/overlay -o .plant
//	go test -tags plant -overlay .plant/overlay.json ./queue -run '^TestPlanted$'
//
// Each bug is in a unified diff in internal/test/plant/bugs. A hunk applies where its context and
// removed lines are, which must be at exactly one place in the file. Line numbers are ignored.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const bugs = "internal/test/plant/bugs"

func main() {
	out := flag.String("o", ".plant", "directory to write to")
	flag.Parse()
	if err := write(".", *out); err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
		os.Exit(1)
	}
}

// write writes the overlay of the module in root to the directory dir.
func write(root, dir string) error {
	files, err := planted(root)
	if err != nil {
		return err
	}
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	list := filepath.Join(dir, "overlay.json")
	// Programs that a test builds need the flag as well.
	files["internal/test/plant/applied.go"] = fmt.Sprintf("//go:build plant\n\npackage plant\n\nconst overlay = %q\n", list)
	replace := make(map[string]string)
	for name, text := range files {
		to := filepath.Join(dir, filepath.FromSlash(name))
		replace[filepath.Join(root, filepath.FromSlash(name))] = to
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(list, b, 0o644)
}

// planted returns the files of the module in root that have bugs, with all bugs applied.
func planted(root string) (map[string]string, error) {
	diffs, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(bugs), "*.diff"))
	if err != nil {
		return nil, err
	}
	files := make(map[string]string)
	for _, diff := range diffs {
		b, err := os.ReadFile(diff)
		if err != nil {
			return nil, err
		}
		hunks, err := parse(string(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", diff, err)
		}
		for _, h := range hunks {
			text, known := files[h.file]
			if !known {
				b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(h.file)))
				if err != nil {
					return nil, err
				}
				text = withImport(string(b))
			}
			switch n := strings.Count(text, h.before); {
			case n != 1 || h.before == "":
				return nil, fmt.Errorf("%s:%d: the hunk applies in %d places of %s, want 1", filepath.Base(diff), h.line, n, h.file)
			default:
				files[h.file] = strings.Replace(text, h.before, h.after, 1)
			}
		}
	}
	return files, nil
}

// withImport returns a file that imports package plant.
func withImport(text string) string {
	at := strings.Index(text, "\npackage ") + 1
	end := at + strings.IndexByte(text[at:], '\n') + 1
	return text[:end] + "\nimport \"github.com/floedb/floe/internal/test/plant\"\n" + text[end:]
}

// hunk is one change of a file.
type hunk struct {
	file          string
	line          int // in the diff
	before, after string
}

// parse returns the hunks of a unified diff.
func parse(diff string) (all []hunk, err error) {
	var file string
	for i, line := range strings.Split(strings.TrimSuffix(diff, "\n"), "\n") {
		if line == "" {
			line = " " // an editor has removed the space
		}
		if name, ok := strings.CutPrefix(line, "--- "); ok {
			file = name
			continue
		}
		if strings.HasPrefix(line, "+++ ") {
			continue
		}
		if strings.HasPrefix(line, "@@ ") {
			all = append(all, hunk{file: file, line: i + 1})
			continue
		}
		if len(all) == 0 || all[len(all)-1].file != file || !strings.Contains(" -+", line[:1]) {
			return nil, fmt.Errorf("line %d: %q is not a line of a hunk", i+1, line)
		}
		h := &all[len(all)-1]
		if line[0] != '+' {
			h.before += line[1:] + "\n"
		}
		if line[0] != '-' {
			h.after += line[1:] + "\n"
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no hunks")
	}
	return all, nil
}
