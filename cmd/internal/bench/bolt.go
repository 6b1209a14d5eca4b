package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// boltGets is a bbolt that is read in its own process, by the program of another module.
func (b *bench) boltGets(l load) side {
	return func(dir string) (*subject, error) {
		module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/floedb/floe").Output()
		if err != nil {
			return nil, fmt.Errorf("finding the module: %w", err)
		}
		program := filepath.Join(dir, "bbolt")
		build := exec.Command("go", "build", "-o", program, ".")
		build.Dir = filepath.Join(strings.TrimSpace(string(module)), "cmd", "internal", "bench", "bbolt")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the program that reads bbolt: %w\n%s", err, out)
		}
		return &subject{ops: 1, close: func() error { return nil }, run: func() (figures, error) {
			out, err := exec.Command(program, "-dir", dir, "-keys", strconv.Itoa(l.existing), "-callers", strconv.Itoa(l.callers), "-time",
				l.last.String()).Output()
			if err != nil {
				return figures{}, fmt.Errorf("reading bbolt: %w", err)
			}
			rate, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
			return figures{rate: rate}, err
		}}, nil
	}
}
