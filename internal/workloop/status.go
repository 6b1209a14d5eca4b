package workloop

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Observer lists the loops of a process.
type Observer interface {
	// Join is called when a loop starts, and leave when it has ended. status may be called by any
	// goroutine at any time.
	Join(status func() Status) (leave func())
}

// Status describes a loop and its work.
type Status struct {
	Kind      string // "action", "stream" or "queue"
	Namespace string
	Name      string // of the source, such as the queue
	Worker    string // name of the consumer at the source, "" if it has none
	Began     time.Time
	Draining  bool // takes no new pieces
	Load      int  // running handlers
	Max       int  // maximum of Load
	Processes []Process
}

// Process counts the runs of one kind of work.
type Process struct {
	Name     string
	Runs     int64     // finished handlers
	Failures int64     // failed or lost ones
	LastRun  time.Time // when the latest one returned
}

// counters are the counts of a loop, by process name.
type counters map[string]*Process

// count counts a finished run.
func (t counters) count(name string, failed bool) {
	p := t[name]
	if p == nil {
		p = &Process{Name: name}
		t[name] = p
	}
	p.Runs++
	if failed {
		p.Failures++
	}
	p.LastRun = time.Now()
}

// list returns copies, sorted by name.
func (t counters) list() []Process {
	all := make([]Process, 0, len(t))
	for p := range maps.Values(t) {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Process) int { return strings.Compare(a.Name, b.Name) })
	return all
}
