package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// machine describes what was measured on.
type machine struct {
	cpu, kernel, fs, goVersion, date string
	cores                            int
}

func thisMachine(dir string, now time.Time) machine {
	info, _ := os.ReadFile("/proc/cpuinfo")
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return machine{
		cpu: cpuModel(string(info)), cores: runtime.NumCPU(), kernel: strings.TrimSpace(string(kernel)),
		fs: fileSystem(string(mounts), dir), goVersion: runtime.Version(), date: now.UTC().Format(time.DateOnly),
	}
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s %s, %s, %s, %s", m.cpu, m.cores, runtime.GOOS, m.kernel, m.fs, m.goVersion, m.date)
}

func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// fileSystem returns the type of the file system that holds dir, from the text of /proc/self/mountinfo: the mount with the
// longest path, the last one of several on the same path.
func fileSystem(mountinfo, dir string) string {
	best, kind := "", "unknown file system"
	for line := range strings.Lines(mountinfo) {
		mount, source, found := strings.Cut(line, " - ")
		fields, kinds := strings.Fields(mount), strings.Fields(source)
		if !found || len(fields) < 5 || len(kinds) == 0 {
			continue
		}
		point := fields[4]
		rel, err := filepath.Rel(point, dir)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") && len(point) >= len(best) {
			best, kind = point, kinds[0]
		}
	}
	return kind
}

// bytesWritten returns what this process has caused to be written to disk: the kernel counts whole pages when they become
// dirty. Without that count (on another system) it is 0.
func bytesWritten() int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	n, err := field(string(text), "write_bytes")
	if err != nil {
		return 0
	}
	return n
}
