package workloop

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Observer is told of the loops of a process, to show them.
type Observer interface {
	// Join is called when a loop begins, and the function it returns when it has ended. status may be called by any goroutine, at any time.
	Join(status func() Status) (leave func())
}

// Status is what a loop is about and what it has done.
type Status struct {
	Kind      string // "action", "stream" or "queue"
	Namespace string
	Name      string // of what it takes its work from, such as the queue
	Worker    string // the name by which the source knows the loop, "" if it has none
	Began     time.Time
	Draining  bool // it takes nothing new
	Load      int  // handlers that run
	Max       int  // and how many may
	Processes []Process
}

// Process counts the runs of one kind of work.
type Process struct {
	Name     string
	Runs     int64     // handlers that have returned
	Failures int64     // those of them that failed, or whose piece was lost
	LastRun  time.Time // when one returned last
}

// tallies are the counts of a loop, by process.
type tallies map[string]*Process

// count notes a run that has ended.
func (t tallies) count(name string, failed bool) {
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
func (t tallies) list() []Process {
	all := make([]Process, 0, len(t))
	for p := range maps.Values(t) {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Process) int { return strings.Compare(a.Name, b.Name) })
	return all
}
