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
	KindJoin  uint8 = 12 // registers workers or updates their descriptions
	KindLeave uint8 = 13 // removes workers or marks them as draining
	KindNote  uint8 = 14 // stores heartbeats and removes silent workers; proposed by the leader
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
	MaxWorkers       = 100_000 // workers of a namespace per shard; each takes a few hundred bytes of the leader's memory
	MaxMetadataBytes = 4 << 10
	MaxLabelBytes    = 1024
	MaxHandles       = 1000      // names in Worker.Handles
	maxProcesses     = 1000      // processes per worker
	maxConcurrent    = 1_000_000 // Worker.Max
	maxBatch         = 256       // workers per command
	maxBatchBytes    = 256 << 10 // a command with this many bytes of workers takes no more
	maxReports       = 2000      // workers per report
)

// Times, in ms.
const (
	reportMillis = 10_000       // between reports, and between scans of the rows
	silentMillis = 90_000       // without a heartbeat, until a worker is unhealthy
	waitMillis   = 60_000       // between heartbeats recorded for a polling worker while its take waits
	goneMillis   = 24 * 3600e3  // without a heartbeat, until a worker is removed
	settleMillis = 5 * 60 * 1e3 // after the begin of a term, while no worker is removed
)

// Worker is the description that a worker sends when it joins.
type Worker struct {
	ID       string
	Type     string // such as "action", "stream" or "queue"
	Machine  string // host name, "" if unknown
	Max      int    // concurrency limit
	Labels   map[string]string
	Handles  []string // names of the actions, queues or streams that it handles, sorted
	Metadata []byte   // a JSON object or nil
}

// Status is the state of a worker.
type Status uint8

// The states of a worker.
const (
	Active    Status = iota + 1
	Draining         // takes no new work
	Unhealthy        // no heartbeat for 90 s
)

// Process counts the runs of one kind of work of a worker.
type Process struct {
	Name     string
	Kind     string
	Runs     int64
	Failures int64
	LastRun  time.Time
}

// Info is a worker in a listing.
type Info struct {
	Worker
	Status       Status
	Load         int
	Completed    int64
	Failed       int64
	LastSeen     time.Time
	RegisteredAt time.Time
	Processes    []Process

	poller *poller // set in a shard's answer about a polling worker; see merge
}

// CheckID returns ErrInvalid if id is not a valid worker ID.
func CheckID(id string) error { return engine.CheckName("worker", id) }

// normalize sorts the worker's Handles and removes duplicates.
func (w *Worker) normalize() { w.Handles = slices.Compact(slices.Sorted(slices.Values(w.Handles))) }

// Check returns ErrInvalid if a field of the worker is invalid.
func (w *Worker) Check() error {
	if w.Metadata != nil && !isObject(w.Metadata) {
		return engine.Errorf(engine.ErrInvalid, "worker %q: metadata is not a JSON object: %.40q", w.ID, w.Metadata)
	}
	return w.check()
}

// check is Check without parsing the metadata.
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
		return engine.Errorf(engine.ErrInvalid, "worker %q: concurrency %d is not in 0-%d", w.ID, w.Max, maxConcurrent)
	case len(w.Metadata) > MaxMetadataBytes:
		return engine.Errorf(engine.ErrInvalid, "worker %q: metadata of %d bytes exceeds %d", w.ID, len(w.Metadata), MaxMetadataBytes)
	case len(w.Handles) > MaxHandles:
		return engine.Errorf(engine.ErrInvalid, "worker %q: %d handled names exceed %d", w.ID, len(w.Handles), MaxHandles)
	}
	for i, name := range w.Handles {
		if err := engine.CheckName("worker: what it handles: the", name); err != nil {
			return err
		}
		if i > 0 && w.Handles[i-1] >= name {
			return engine.Errorf(engine.ErrInvalid, "worker %q: %q is listed twice or out of order", w.ID, name)
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
