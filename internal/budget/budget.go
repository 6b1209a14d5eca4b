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

	// Cost of each, at most or nearly so.
	callBytes  = 16 * kib // an active call: its goroutine, decoded data, its place in a shard
	waitBytes  = 8 * kib  // a waiting call
	tableCount = 4        // concurrent memtables
)

// Limits are the bounds that a node sets for itself.
type Limits struct {
	Cache      int64 // blocks and rows of the state, in bytes
	MemTable   int64 // one of four, in bytes
	LogCache   int64 // recent entries of the log, in bytes
	Proposals  int64 // active commands in one shard, in bytes
	State      int64 // cached keyed state of jobs, in bytes
	Requests   int64 // active requests of all connections, in bytes
	Answers    int64 // unsent answers of all connections, in bytes
	ConnBuffer int64 // of a connection, in bytes

	Connections int // to the port for clients and nodes
	Calls       int // active calls of clients
	Waits       int // waiting calls of clients

	Tables int // open files of the state database; 0: unlimited

	HTTPRequests    int   // active requests to the dashboard
	HTTPConnections int   // connections to the dashboard
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

// Divide returns the limits of a node with a number of shards and a total of bytes. None exceeds
// its default without a budget, except the cache.
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

// Open files of a process with a low limit.
const (
	ownFiles   = 64     // the log, standard streams, connections to other nodes, and files opened now and then
	mostTables = 1000   // maximum for the state database
	leastFiles = 512    // minimum for a node
	manyFiles  = 40_000 // from here on no limits need fitting
)

// FitFiles lowers the limits so that the process never exceeds the given number of open files, 0
// meaning any number. Connections count as files, and writes need some. FitFiles reports whether it
// lowered a limit of connections.
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
		rest/4 - httpLatecomers}} { // connections rejected because the node is full, and two HTTP ports
		if most := max(fit.most, 16); *fit.limit > most {
			*fit.limit, lowered = most, true
		}
	}
	return lowered
}

// httpLatecomers is the number of connections that HTTP ports accept beyond their limit.
const httpLatecomers = 64

// MemTables returns the bytes of all memtables.
func (l *Limits) MemTables() int64 { return tableCount * l.MemTable }

// Share is one line of the division of a budget.
type Share struct {
	What  string
	Bytes int64
}

// Shares returns the maximum cost of each limit, and the rest of the total.
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

// Size formats a number of bytes for people.
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

// Found returns the memory that the process may use, and the source of that limit: GOMEMLIMIT, or
// nine tenths of its cgroup limit, because a cgroup's memory includes the page cache. It returns 0
// if there is no limit.
func Found() (total int64, from string) {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit, "GOMEMLIMIT"
	}
	if limit := cgroupLimit("/"); limit > 0 {
		return limit / 10 * 9, "cgroup"
	}
	return 0, ""
}

// cgroupLimit returns the least memory limit of the process's cgroup and its ancestors, in version
// 2 or the memory controller of version 1. It returns 0 if none exists.
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

// unlimited is at most the value that version 1 reports for no limit: the maximum in whole pages.
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
