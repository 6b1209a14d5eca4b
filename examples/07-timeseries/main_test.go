package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun collects for two moments from files like those of /proc.
func TestRun(t *testing.T) {
	proc := t.TempDir()
	for name, text := range map[string]string{
		"stat":      "cpu  1 2 3 4 5 6 7 8\ncpu0 100 0 50 1000 0 0 0 0 0 0\ncpu1 100 0 50 1000 0 0 0 0 0 0\nctxt 5\n",
		"meminfo":   "MemTotal:       2048 kB\nMemFree:  100 kB\nMemAvailable:   1024 kB\nCached:          512 kB\n",
		"diskstats": "   8       0 sda 10 0 100 5 20 0 200 9 0 0 0\n   7       0 loop0 1 0 1 0 0 0 0 0 0 0 0\n",
		"net/dev": "Inter-|   Receive\n face |bytes    packets\n    lo:     500       5    0 0 0 0 0 0      500       5    0 0 0 0 " +
			"0 0\n  eth0: 91837     381    0 0 0 0 0 0    73627     299    0 0 0 0 0 0\n",
	} {
		file := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := run(t.Context(), &out, options{length: 20 * time.Millisecond, every: 5 * time.Millisecond, proc: proc}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cpu       16 series, 1 fields", "disk       1 series, 2 fields", "memory     1 series, 3 fields",
		"network    2 series, 4 fields", "memory                          1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, out.String())
		}
	}
}

// TestThisMachine reads the real files.
func TestThisMachine(t *testing.T) {
	points, err := sample("/proc", time.Now())
	if _, none := os.Stat("/proc/stat"); none != nil && err != nil {
		return // another system: it says so
	}
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, p := range points {
		seen[p.Measurement] = true
	}
	if !seen["cpu"] || !seen["memory"] {
		t.Errorf("there is %v, want cpu and memory", seen)
	}
}
