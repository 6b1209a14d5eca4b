package action

import (
	"context"
	"iter"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workers"
)

// WorkerStatus is how a worker is.
type WorkerStatus uint8

// How workers are.
const (
	Active    WorkerStatus = iota + 1
	Draining               // it takes nothing new
	Unhealthy              // it has been silent for 90 s and holds no runs; after 24 h it is forgotten
)

var workerStatusNames = [...]string{Active: "active", Draining: "draining", Unhealthy: "unhealthy"}

// String returns the name of the status: active, draining or unhealthy.
func (s WorkerStatus) String() string {
	if s < Active || s > Unhealthy {
		return "unknown"
	}
	return workerStatusNames[s]
}

// WorkerInfo is a worker as it is listed: of actions, of a stream or of a queue. What it says of
// itself is up to 10 s old. Its counts go on when a worker of that id begins anew, as long as it
// has not left. Its bytes are the caller's to keep.
//
// A worker of another runtime is listed from its first run on, registered or not, and its counts
// are those of the shards, of up to 1,000 actions by their names. One that is not registered says
// neither where it runs nor how much it may have, and Actions are those of the runs that it got. It
// is forgotten after 24 h without a call, in a spread namespace by each shard for itself.
type WorkerInfo struct {
	ID            string
	Type          string // "action", "stream", "queue", or what was registered
	Status        WorkerStatus
	Machine       string // where it runs, "" if nobody has said
	Load          int    // runs, or messages, that it has
	MaxConcurrent int    // how many it may have
	Completed     int64
	Failed        int64
	LastSeen      time.Time
	RegisteredAt  time.Time // the first time
	Labels        map[string]string
	Actions       []string // that it has handlers for, in order
	Metadata      []byte   // a JSON object; nil: it has none
	Processes     []Process
}

// Process counts the runs of one kind of what a worker does, such as those of an action.
type Process struct {
	Name     string
	Kind     string // as the Type of workers
	Runs     int64
	Failures int64 // of these
	LastRun  time.Time
}

func infoOf(i *workers.Info) WorkerInfo {
	w := WorkerInfo{
		ID: i.ID, Type: i.Type, Status: WorkerStatus(i.Status), Machine: i.Machine, Load: i.Load, MaxConcurrent: i.Max,
		Completed: i.Completed, Failed: i.Failed,
		LastSeen: i.LastSeen, RegisteredAt: i.RegisteredAt, Labels: i.Labels, Actions: i.Handles, Metadata: i.Metadata,
	}
	for _, p := range i.Processes {
		w.Processes = append(w.Processes, Process(p))
	}
	return w
}

// WorkerOption says which workers are listed.
type WorkerOption interface{ workerOption }

type workerOptions struct {
	engine.Listing
	filter workers.Filter
}

func workerFilter(f func(*workerOptions)) WorkerOption {
	return struct {
		engine.Filter
		engine.OfWorkers
	}{Filter: engine.FilterOf(f)}
}

// OfType lists only workers of a type, such as "action".
func OfType(t string) WorkerOption { return workerFilter(func(o *workerOptions) { o.filter.Type = t }) }

// HandlersOf lists only workers that have a handler for an action.
func HandlersOf(action string) WorkerOption {
	return workerFilter(func(o *workerOptions) { o.filter.Handles = action })
}

// Workers are the workers of a namespace, of all types.
type Workers struct{ store *Store }

// Workers returns what lists the workers of the namespace.
func (s *Store) Workers() Workers { return Workers{s} }

// Page returns a page of the workers, in order of their ids, over all shards. With OfType or
// HandlersOf it may be empty and not the last.
//
// Options: Limit, Cursor, OfType, HandlersOf. Errors: ErrInvalid for a limit that is not 1-1000,
// and for what is no cursor.
func (l Workers) Page(ctx context.Context, opts ...WorkerOption) (page Page[WorkerInfo], err error) {
	o := workerOptions{Listing: engine.NewListing()}
	engine.Apply(&o, opts)
	if o.Err != nil {
		return page, o.Err
	}
	found, err := workers.Page(ctx, &l.store.scope, o.Listing, o.filter)
	for i := range found.Items {
		page.Items = append(page.Items, infoOf(&found.Items[i]))
	}
	page.Cursor = found.Cursor
	return page, err
}

// All iterates over the workers, in order of their ids, by the contract of Store.All. Options and
// errors are those of Page.
func (l Workers) All(ctx context.Context, opts ...WorkerOption) iter.Seq2[WorkerInfo, error] {
	return engine.All(ctx, l.Page, opts)
}

// Get returns a worker. Errors: ErrNotFound; ErrInvalid for what is no id.
func (l Workers) Get(ctx context.Context, id string) (WorkerInfo, error) {
	i, err := workers.Find(ctx, &l.store.scope, id)
	if err != nil {
		return WorkerInfo{}, err
	}
	return infoOf(&i), nil
}

// countWorkers fills in how many workers there are for each action, which are in order of their
// names.
func (s *Store) countWorkers(ctx context.Context, infos []Info) error {
	if len(infos) == 0 {
		return nil
	}
	counts, err := workers.Handlers(ctx, &s.scope, kindOfWorkers, infos[0].Name, infos[len(infos)-1].Name)
	for i := range infos {
		infos[i].Workers = counts[infos[i].Name]
	}
	return err
}
