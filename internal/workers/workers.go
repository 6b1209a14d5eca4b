// Package workers is the list of workers of a namespace, whatever they work on: who they are, whether they are alive, how much they have, and what has become of it.
// Its rows and commands are of engine.MachineAction; package action hands over to it what is about workers.
//
// # Where it is
//
// A worker is in the shard of its id: at the home of the namespace, or anywhere if that is spread. It joins and leaves by commands. In between its process
// reports every 10 s how it is, by a query that the leader of the shard keeps in memory (heartbeat): who is idle writes nothing. A duty of the leader (watch) keeps in
// the rows what a next one needs, each time a pass over them is due: workerStats that have changed, and who has fallen silent.
//
// # Silence
//
// A worker that was not heard of for 90 s is unhealthy, and forgotten after 24 h. A new leader has heard of nobody yet, and takes all for heard of when its term
// began, but for those whose rows say that they are silent: so a failover makes nobody unhealthy, and nobody healthy.
//
// # Lives
//
// Each worker draws a number when it begins, its life. A report of another life than the row's is of a worker that the shard does not know, which joins (again). What
// the lives before have done counts on, as long as the row is there: until the worker leaves.
//
// # Workers that call by themselves
//
// A worker of another runtime calls for each run: it has life 0, and may register, and report as others do. Whether it does or not, each shard counts the runs that it
// gives to it and that end (see Took and Ended), and takes all of its calls for reports; while it has a run it is not silent.
package workers

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Kinds of commands of engine.MachineAction.
const (
	KindJoin  uint8 = 12 // workers register, or say something else of themselves
	KindLeave uint8 = 13 // workers are gone, or take nothing new
	KindNote  uint8 = 14 // the leader keeps what workers have reported to it
)

// Kinds of queries of engine.MachineAction.
const (
	QueryReport   uint8 = 8
	QueryList     uint8 = 9
	QueryWorker   uint8 = 10
	QueryHandlers uint8 = 11
)

// Limits.
const (
	MaxWorkers       = 100_000 // of a namespace in a shard: each takes some hundred bytes of its leader's memory
	MaxMetadataBytes = 4 << 10
	MaxLabelBytes    = 1024
	MaxHandles       = 1000      // names of what a worker handles
	maxProcesses     = 1000      // of a worker
	maxConcurrent    = 1_000_000 // pieces of work that a worker has at a time
	maxBatch         = 256       // workers in a command
	maxBatchBytes    = 256 << 10 // which it ends behind
	maxReports       = 2000      // workers in a report
)

// Times, in ms.
const (
	reportMillis = 10_000       // between reports, and between passes over the rows
	silentMillis = 90_000       // after which a worker is unhealthy
	waitMillis   = 60_000       // how often a waiting worker without a process counts as heard from
	goneMillis   = 24 * 3600e3  // after which it is forgotten
	settleMillis = 5 * 60 * 1e3 // of a term, in which nobody is
)

// Worker is what a worker says of itself when it joins.
type Worker struct {
	ID       string
	Type     string // such as "action", "stream" or "queue"
	Machine  string // where it runs, "" if nobody has said
	Max      int    // how much it works on at a time
	Labels   map[string]string
	Handles  []string // names of what it works on, in order
	Metadata []byte   // a JSON object, nil: none
}

// Status is how a worker is.
type Status uint8

// How workers are.
const (
	Active    Status = iota + 1
	Draining         // it takes nothing new
	Unhealthy        // it has been silent for 90 s
)

// Process counts the runs of one kind of what a worker does.
type Process struct {
	Name     string
	Kind     string
	Runs     int64
	Failures int64
	LastRun  time.Time
}

// Info is a worker as it is listed.
type Info struct {
	Worker
	Status       Status
	Load         int
	Completed    int64
	Failed       int64
	LastSeen     time.Time
	RegisteredAt time.Time
	Processes    []Process

	caller *caller // of what a shard answers about a worker that calls by itself, see merge
}

// CheckID returns ErrInvalid for what is no id of a worker.
func CheckID(id string) error { return engine.CheckName("worker", id) }

// normalize puts what the worker handles in order.
func (w *Worker) normalize() { w.Handles = slices.Compact(slices.Sorted(slices.Values(w.Handles))) }

// Check returns ErrInvalid for what no worker can be.
func (w *Worker) Check() error {
	if w.Metadata != nil && !isObject(w.Metadata) {
		return engine.Errorf(engine.ErrInvalid, "worker %q: metadata is no JSON object: %.40q", w.ID, w.Metadata)
	}
	return w.check()
}

// check leaves out what takes long.
func (w *Worker) check() error {
	if err := CheckID(w.ID); err != nil {
		return err
	}
	if err := engine.CheckName("worker's type: the", w.Type); err != nil {
		return err
	}
	if w.Machine != "" {
		if err := engine.CheckName("machine", w.Machine); err != nil {
			return err
		}
	}
	switch {
	case w.Max < 0 || w.Max > maxConcurrent:
		return engine.Errorf(engine.ErrInvalid, "worker %q: %d at a time is not in 0-%d", w.ID, w.Max, maxConcurrent)
	case len(w.Metadata) > MaxMetadataBytes:
		return engine.Errorf(engine.ErrInvalid, "worker %q: metadata of %d bytes exceeds %d", w.ID, len(w.Metadata), MaxMetadataBytes)
	case len(w.Handles) > MaxHandles:
		return engine.Errorf(engine.ErrInvalid, "worker %q: %d names of what it handles exceed %d", w.ID, len(w.Handles), MaxHandles)
	}
	for i, name := range w.Handles {
		if err := engine.CheckName("worker: what it handles: the", name); err != nil {
			return err
		}
		if i > 0 && w.Handles[i-1] >= name {
			return engine.Errorf(engine.ErrInvalid, "worker %q: %q is there twice, or out of order", w.ID, name)
		}
	}
	if n := engine.HeaderBytes(w.Labels); n > MaxLabelBytes {
		return engine.Errorf(engine.ErrInvalid, "worker %q: labels of %d bytes exceed %d", w.ID, n, MaxLabelBytes)
	}
	return engine.CheckLabels("worker", w.Labels)
}

func isObject(b []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{")) && json.Valid(b)
}

func notFound(id string) error { return engine.Errorf(engine.ErrNotFound, "worker %q not found", id) }

func notRegistered(id string) error {
	return engine.Errorf(engine.ErrNotFound, "worker %q is not registered", id)
}
