package budget

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDivide: whatever the budget and the number of shards, all limits together leave a part of it,
// and none is without bound.
func TestDivide(t *testing.T) {
	for _, total := range []int64{Least, 128 * mib, 512 * mib, 1 << 30, 4 << 30, 64 << 30, 1 << 42} {
		for _, shards := range []int{1, 4, 16} {
			l := Divide(total, shards)
			shares := l.Shares(total, shards)
			sum := int64(0)
			for _, s := range shares {
				sum += s.Bytes
				if s.Bytes <= 0 {
					t.Errorf("%s, %d shards: %s get %d bytes", Size(total), shards, s.What, s.Bytes)
				}
			}
			if sum != total {
				t.Errorf("%s, %d shards: the shares come to %s", Size(total), shards, Size(sum))
			}
			if rest := shares[len(shares)-1].Bytes; total >= 256*mib && rest < total/4 {
				t.Errorf("%s, %d shards: only %s are left", Size(total), shards, Size(rest))
			}
		}
	}
}

// TestGrows: more memory never makes a limit smaller.
func TestGrows(t *testing.T) {
	before := Divide(Least, 4)
	for total := int64(Least); total < 1<<40; total += total / 3 {
		l := Divide(total, 4)
		if l.Cache < before.Cache || l.Requests < before.Requests || l.Calls < before.Calls || l.Waits < before.Waits ||
			l.Proposals < before.Proposals || l.State < before.State {
			t.Errorf("%s: %+v, before %+v", Size(total), l, before)
		}
		before = l
	}
}

// TestFitFiles: with few files allowed, all connections, those that are told to go away, and tables
// together are fewer, and some are left for what is written.
func TestFitFiles(t *testing.T) {
	for _, files := range []int{leastFiles, 1024, 4096, 20_000, manyFiles - 1} {
		l := Default()
		l.FitFiles(files)
		most := l.Connections + max(l.Connections/10, 16) + 2*(l.HTTPConnections+httpLatecomers) + l.Tables
		if left := files - most; left < ownFiles/2 {
			t.Errorf("of %d files %d are left, %+v", files, left, l)
		}
		if l.Connections < 16 || l.HTTPConnections < 16 || l.Tables < 64 {
			t.Errorf("%d files: %d and %d connections, %d tables", files, l.Connections, l.HTTPConnections, l.Tables)
		}
	}
	for files, want := range map[int]bool{0: false, 1024: true, manyFiles: false} {
		l := Default()
		if got := l.FitFiles(files); got != want || got == (l == Default()) {
			t.Errorf("%d files: lowered %t, want %t", files, got, want)
		}
	}
	if Files() < 0 {
		t.Error("a negative number of files")
	}
}

func TestCgroupLimit(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := cgroupLimit(root); got != 0 {
		t.Errorf("without files: %d", got)
	}
	write("proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n")
	if got := cgroupLimit(root); got != 0 {
		t.Errorf("without limits: %d", got)
	}
	write("sys/fs/cgroup/a/b/memory.max", "max\n")
	write("sys/fs/cgroup/a/memory.max", "536870912\n")
	write("sys/fs/cgroup/memory.max", "1073741824\n")
	if got := cgroupLimit(root); got != 512*mib {
		t.Errorf("the least of the groups above: %d", got)
	}
	write("proc/self/cgroup", "4:memory:/c\n0::/\n")
	write("sys/fs/cgroup/memory.max", "max\n")
	write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
	if got := cgroupLimit(root); got != 0 {
		t.Errorf("version 1 without a limit: %d", got)
	}
	write("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "268435456\n")
	if got := cgroupLimit(root); got != 256*mib {
		t.Errorf("version 1: %d", got)
	}
}
