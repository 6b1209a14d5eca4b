package budget

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// Least is the smallest budget with which a node works well.
const Least = 64 << 20

const (
	kib = int64(1) << 10
	mib = int64(1) << 20

	// What one of them costs, at most or nearly so.
	callBytes  = 16 * kib // a call under way: its goroutine, what it has decoded, its place in a shard
	waitBytes  = 8 * kib  // a call that waits
	tableCount = 4        // memtables at a time
)

// Limits are what a node bounds itself by.
type Limits struct {
	Cache      int64 // blocks and rows of the state, in bytes
	MemTable   int64 // one of four, in bytes
	LogCache   int64 // recent entries of the log, in bytes
	Proposals  int64 // commands under way in one shard, in bytes
	State      int64 // keyed state of jobs that is remembered, in bytes
	Requests   int64 // requests of all connections under way, in bytes
	Answers    int64 // of all connections, not sent yet, in bytes
	ConnBuffer int64 // of a connection, in bytes

	Connections int // to the port for clients and nodes
	Calls       int // of clients under way
	Waits       int // calls of clients that wait

	Tables int // files of the state database that are open; 0: as many as it likes

	HTTPRequests    int   // under way, of the dashboard
	HTTPConnections int   // to it
	HTTPBodies      int64 // of all requests, in bytes
}

// Default returns the limits of a node without a budget.
func Default() Limits {
	return Limits{
		Cache: 256 * mib, MemTable: 16 * mib, LogCache: 32 * mib, Proposals: 64 * mib, State: 64 * mib, Requests: 256 * mib,
		Answers: 256 * mib, ConnBuffer: 8 * mib,
		Connections: 10_000, Calls: 65_536, Waits: 100_000, HTTPRequests: 1024, HTTPConnections: 4096, HTTPBodies: 64 * mib,
	}
}

// Divide returns the limits of a node with so many shards and bytes in all; none is more than it is
// without a budget, but for the cache.
func Divide(total int64, shards int) Limits {
	most := Default()
	part := func(of int64, least, most int64) int64 { return min(max(total/of, least), most) }
	l := Limits{
		Cache:     part(4, 8*mib, math.MaxInt64),
		MemTable:  part(64, mib, most.MemTable),
		LogCache:  part(32, mib, most.LogCache),
		Proposals: part(32*int64(max(shards, 1)), mib, most.Proposals),
		State:     part(64, mib/2, most.State),
		Requests:  part(32, 2*mib, most.Requests),
		Answers:   part(16, 4*mib, most.Answers),

		HTTPBodies: part(64, 2*mib, most.HTTPBodies),
	}
	l.ConnBuffer = part(8192, 64*kib, most.ConnBuffer)
	l.Connections = int(min(max(total/16/l.ConnBuffer, 64), int64(most.Connections)))
	l.Calls = int(min(max(total/16/callBytes, 256), int64(most.Calls)))
	l.Waits = int(min(max(total/16/waitBytes, 256), int64(most.Waits)))
	l.HTTPRequests = int(min(max(total/32/(4*callBytes), 64), int64(most.HTTPRequests)))
	l.HTTPConnections = 4 * l.HTTPRequests
	return l
}

// Files of a process that may have few of them open.
const (
	ownFiles   = 64     // the log, standard streams, connections to other nodes, and what else is open now and then
	mostTables = 1000   // that the state database has open, if it may
	leastFiles = 512    // with fewer there is no node
	manyFiles  = 40_000 // with so many nothing has to be fitted
)

// FitFiles lowers the limits so that a process that may have so many files open, 0 being any
// number, never has that many: connections are files too, and what is written needs some. It
// reports whether it had to.
func (l *Limits) FitFiles(files int) (lowered bool) {
	if files == 0 || files >= manyFiles {
		return false
	}
	files = max(files, leastFiles)
	l.Tables = min(files/4, mostTables)
	rest := files - ownFiles - l.Tables
	for _, fit := range []struct {
		limit *int
		most  int
	}{{&l.Connections, rest / 2 * 10 / 11}, {&l.HTTPConnections,
		rest/4 - httpLatecomers}} { // those who hear that there is no place, and two ports of HTTP
		if most := max(fit.most, 16); *fit.limit > most {
			*fit.limit, lowered = most, true
		}
	}
	return lowered
}

// httpLatecomers are connections that the ports of HTTP take beyond their limit.
const httpLatecomers = 64

// MemTables returns the bytes of all memtables.
func (l *Limits) MemTables() int64 { return tableCount * l.MemTable }

// Share is a line of the division.
type Share struct {
	What  string
	Bytes int64
}

// Shares returns what the limits come to, at most, and what is left of the total.
func (l *Limits) Shares(total int64, shards int) []Share {
	all := []Share{
		{"cached blocks and rows (cache_size)", l.Cache},
		{fmt.Sprintf("memtables, %d of %s", tableCount, Size(l.MemTable)), l.MemTables()},
		{"recent entries of the log", l.LogCache},
		{fmt.Sprintf("commands under way, %s in each of %d shards", Size(l.Proposals), shards), int64(shards) * l.Proposals},
		{"keyed state of jobs that is remembered", l.State},
		{"requests of clients", l.Requests},
		{"answers to clients", l.Answers},
		{fmt.Sprintf("connections of clients, %d of %s", l.Connections, Size(l.ConnBuffer)), int64(l.Connections) * l.ConnBuffer},
		{fmt.Sprintf("calls of clients, %d of %s", l.Calls, Size(callBytes)), int64(l.Calls) * callBytes},
		{fmt.Sprintf("calls that wait, %d of %s", l.Waits, Size(waitBytes)), int64(l.Waits) * waitBytes},
		{fmt.Sprintf("bodies, and %d requests, of the dashboard", l.HTTPRequests), l.HTTPBodies + int64(l.HTTPRequests)*4*callBytes},
	}
	left := total
	for _, s := range all {
		left -= s.Bytes
	}
	return append(all, Share{"the rest: garbage, stacks, tables", left})
}

// Size returns a number of bytes as a person reads it.
func Size(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if shift := 10 * (3 - i); n >= 1<<shift && n%(1<<shift) == 0 {
			return strconv.FormatInt(n>>shift, 10) + " " + unit
		}
	}
	if n >= mib {
		return fmt.Sprintf("%.1f MiB", float64(n)/float64(mib))
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

// Found returns what the process is allowed, and who says so: GOMEMLIMIT, or nine tenths of the
// limit of its cgroup, in whose memory are files that were read as well. 0 if nobody says anything.
func Found() (total int64, from string) {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit, "GOMEMLIMIT"
	}
	if limit := cgroupLimit("/"); limit > 0 {
		return limit / 10 * 9, "cgroup"
	}
	return 0, ""
}

// cgroupLimit returns the least limit of the process's cgroup, of version 2 or of the controller
// memory of version 1, and those above it, 0 if there is none.
func cgroupLimit(root string) int64 {
	b, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	least := int64(0)
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		switch {
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case parts[0] != "0" || parts[1] != "":
			continue
		}
		for dir := filepath.Clean(parts[2]); ; dir = filepath.Dir(dir) {
			if n := readLimit(filepath.Join(root, mount, dir, file)); n > 0 && n < unlimited && (least == 0 || n < least) {
				least = n
			}
			if dir == "/" || dir == "." {
				break
			}
		}
	}
	return least
}

// unlimited is what version 1 says where there is no limit, or less: in pages, as many as fit.
const unlimited = 1 << 60

func readLimit(name string) int64 {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil { // "max"
		return 0
	}
	return n
}
