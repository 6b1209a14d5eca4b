package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe/ts"
)

// sample reads what the machine has done so far from the files of a directory that are like those
// of /proc, see proc(5).
func sample(proc string, now time.Time) (points []ts.Point, err error) {
	for file, parse := range map[string]func(string) []ts.Point{"stat": cpu, "meminfo": memory, "diskstats": disks, "net/dev": network} {
		text, err := os.ReadFile(filepath.Join(proc, file))
		if err != nil {
			return nil, err
		}
		points = append(points, parse(string(text))...)
	}
	for i := range points {
		points[i].Time = now
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("%s says nothing", proc)
	}
	return points, nil
}

// ticks is how many parts the kernel divides a second of processor time into.
const ticks = 100

// cpu counts the seconds that each processor has spent in each mode: "cpu0 8741 12 3291 99182 301 0
// 22 0 0 0".
func cpu(text string) (points []ts.Point) {
	modes := []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) <= len(modes) || !strings.HasPrefix(words[0], "cpu") || words[0] == "cpu" {
			continue
		}
		for i, mode := range modes {
			tags := map[string]string{"cpu": strings.TrimPrefix(words[0], "cpu"), "mode": mode}
			points = append(points, ts.Point{Measurement: "cpu", Tags: tags,
				Fields: map[string]float64{"seconds": number(words[i+1]) / ticks}})
		}
	}
	return points
}

// memory is in bytes: "MemTotal:       16306780 kB".
func memory(text string) []ts.Point {
	kib := make(map[string]float64)
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 1 {
			kib[strings.TrimSuffix(words[0], ":")] = number(words[1])
		}
	}
	total, available := kib["MemTotal"]*1024, kib["MemAvailable"]*1024
	return []ts.Point{{Measurement: "memory",
		Fields: map[string]float64{"total": total, "used": total - available, "cached": kib["Cached"] * 1024}}}
}

// disks counts bytes of whole disks and of partitions, in sectors of 512: "8 0 sda 5151 1203 401922
// 2711 3882 2918 318232 ...".
func disks(text string) (points []ts.Point) {
	const sector = 512
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 11 || strings.HasPrefix(words[2], "loop") || strings.HasPrefix(words[2], "ram") {
			continue
		}
		fields := map[string]float64{"read": number(words[5]) * sector, "written": number(words[9]) * sector}
		points = append(points, ts.Point{Measurement: "disk", Tags: map[string]string{"device": words[2]}, Fields: fields})
	}
	return points
}

// network counts bytes and packets of each interface: "eth0: 91837 381 0 0 0 0 0 0 73627 299 ...".
func network(text string) (points []ts.Point) {
	for line := range strings.Lines(text) {
		device, rest, found := strings.Cut(line, ":")
		words := strings.Fields(rest)
		if !found || len(words) < 10 {
			continue
		}
		fields := map[string]float64{
			"received": number(words[0]), "packets_received": number(words[1]), "sent": number(words[8]), "packets_sent": number(words[9]),
		}
		points = append(points, ts.Point{Measurement: "network", Tags: map[string]string{"interface": strings.TrimSpace(device)},
			Fields: fields})
	}
	return points
}

// number is 0 for what is none.
func number(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}
