package cli

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floedb/floe"
)

// filled returns a data directory that a server has left, with a few keys in it.
func filled(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s := start(t, "--data-dir", dir, "--shards", "2")
	for i := range 50 {
		mustCall(t, 200, "PUT", s.url+keyPath(fmt.Sprint("k", i)), `{"value":"v"}`)
	}
	if code := s.stop(); code != 0 {
		t.Fatalf("exit code %d, stderr\n%s", code, s.stderr())
	}
	return dir
}

// inventory lists all files of a directory with size, mode, time of change and content.
func inventory(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&all, name, info.Size(), info.Mode(), info.ModTime().UnixNano())
		if entry.IsDir() {
			return nil
		}
		b, err := os.ReadFile(name)
		fmt.Fprintf(&all, "%x\n", b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// one returns the only or first file of a data directory that matches.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s in %s: %v, %v", pattern, dir, names, err)
	}
	return names[0]
}

func flipByte(t *testing.T, name string, at int64) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestVerify(t *testing.T) {
	whole := filled(t)
	for _, tc := range []struct {
		name   string
		args   string // DIR stands for the directory
		damage func(t *testing.T, dir string)
		code   int
		stdout string // parts, by |
		stderr string // parts, by |
	}{
		{name: "clean", args: "DIR", stdout: "directory|shards     2|segments|entries|tables|shard 0|shard 1|rows|no problem found"},
		{name: "json", args: "DIR -o json", stdout: `"problems": null|"shards": 2`},
		{name: "damaged log", args: "DIR", code: 1,
			damage: func(t *testing.T, dir string) { flipByte(t, one(t, dir, "log/*.ual"), 300) },
			stdout: "problem: |.ual: offset ", stderr: "floe: error: DIR: problems found: 1\nfloe: hint: copy the directory"},
		{name: "damaged table", args: "DIR -o json", code: 1,
			damage: func(t *testing.T, dir string) { flipByte(t, one(t, dir, "state/*.sst"), 30) },
			stdout: `"problems": [|.sst: |checksum`, stderr: "problems found: 1"},
		{name: "missing table", args: "DIR", code: 1,
			damage: func(t *testing.T, dir string) { os.Remove(one(t, dir, "state/*.sst")) },
			stdout: "problem: DIR/state: |(type sstable) unknown", stderr: "problems found: 1"},
		{name: "several", args: "DIR", code: 1,
			damage: func(t *testing.T, dir string) {
				flipByte(t, one(t, dir, "log/*.ual"), 300)
				flipByte(t, one(t, dir, "state/*.sst"), 30)
				flipByte(t, filepath.Join(dir, "FORMAT"), 3)
			},
			stdout: ".ual: offset |.sst: |FORMAT", stderr: "problems found: 3"},
		{name: "another directory", args: "DIR/log", code: 1, stderr: "floe: error: |DIR/log is not a data directory"},
		{name: "no directory", args: "DIR/nowhere", code: 1, stderr: "no such file or directory"},
		{name: "a file", args: "DIR/FORMAT", code: 1, stderr: "DIR/FORMAT is not a data directory"},
		{name: "nothing given", args: "", code: 2, stderr: "floe: error: DIR is missing\nfloe: hint: see floe server verify --help"},
		{name: "too much given", args: "DIR other", code: 2, stderr: `unexpected argument "other"`},
		{name: "unknown format", args: "DIR -o yaml", code: 2, stderr: "--output=yaml: not one of json, raw, table"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			if tc.damage != nil {
				tc.damage(t, dir)
			}
			before := inventory(t, dir)
			code, stdout, stderr := run(t, nil,
				append([]string{"server", "verify"}, strings.Fields(strings.ReplaceAll(tc.args, "DIR", dir))...)...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			for out, parts := range map[string]string{stdout: tc.stdout, stderr: tc.stderr} {
				if (out == "") != (parts == "") {
					t.Errorf("printed\n%swant %q", out, parts)
				}
				for part := range strings.SplitSeq(parts, "|") {
					if tc.code != 2 {
						part = strings.ReplaceAll(part, "DIR", dir)
					}
					if !strings.Contains(out, part) {
						t.Errorf("printed\n%swant %q", out, part)
					}
				}
			}
			if after := inventory(t, dir); after != before {
				t.Errorf("the directory was\n%.3000s\nand is\n%.3000s", before, after)
			}
			if strings.Contains(tc.args, "json") {
				if err := json.Unmarshal([]byte(stdout), new(floe.VerifyReport)); err != nil {
					t.Errorf("not one JSON document: %v\n%s", err, stdout)
				}
			}
		})
	}
}

// TestVerifyInUse verifies the directory of a server, in its own process and in another: it is
// refused, and the server keeps its lock.
func TestVerifyInUse(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), build(t)
	s := start(t, "--data-dir", dir)
	code, stdout, stderr := run(t, nil, "server", "verify", dir)
	if code != exitFailure || stdout != "" || !strings.Contains(stderr, "is in use by another node") ||
		!strings.Contains(stderr, "hint: stop the node first") {
		t.Errorf("in its own process: exit code %d, stdout %q, stderr\n%s", code, stdout, stderr)
	}
	for _, args := range [][]string{{"server", "verify", dir}, {"server", "start", "--port", "0", "--no-dashboard", "--data-dir", dir}} {
		out, err := exec.Command(path, args...).CombinedOutput()
		if exitCode(err) != exitFailure || !strings.Contains(string(out), "is in use by another node") {
			t.Errorf("%v in another process: %v\n%s", args, err, out)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if out, err := exec.Command(path, "server", "verify", dir).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "no problem found") {
		t.Errorf("of the stopped server: %v\n%s", err, out)
	}
}
