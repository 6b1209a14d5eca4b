package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// machine describes the machine that was measured.
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
		fs: mountOf(string(mounts), dir).kind, goVersion: runtime.Version(), date: now.UTC().Format(time.DateOnly),
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

// mount is a line of /proc/self/mountinfo.
type mount struct{ device, point, kind string }

// mountOf returns the mount that holds dir: the one with the longest path, and the last one if
// several have the same path.
func mountOf(mountinfo, dir string) (best mount) {
	best.kind = "unknown file system"
	for line := range strings.Lines(mountinfo) {
		left, right, found := strings.Cut(line, " - ")
		fields, kinds := strings.Fields(left), strings.Fields(right)
		if !found || len(fields) < 5 || len(kinds) == 0 {
			continue
		}
		m := mount{device: fields[2], point: fields[4], kind: kinds[0]}
		rel, err := filepath.Rel(m.point, dir)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") && len(m.point) >= len(best.point) {
			best = m
		}
	}
	return best
}

// bytesWritten returns the bytes written to the disk that holds the data, by all processes and the
// file system itself. It returns 0 if the disk does not report them. The kernel's count for this
// process alone (write_bytes in /proc/self/io) is no substitute: a record written to an existing
// file counts as the whole folio around it, up to 2 MiB.
func (b *bench) bytesWritten() int64 {
	const sectorBytes = 512
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	stat, err := os.ReadFile("/sys/dev/block/" + mountOf(string(mounts), b.dir).device + "/stat")
	fields := strings.Fields(string(stat))
	if err != nil || len(fields) < 7 {
		return 0
	}
	sectors, _ := strconv.ParseInt(fields[6], 10, 64)
	return sectors * sectorBytes
}
