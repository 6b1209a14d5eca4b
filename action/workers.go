package action

import (
	"context"
	"iter"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workers"
)

// WorkerStatus is the status of a worker.
type WorkerStatus uint8

// The statuses of workers.
const (
	Active    WorkerStatus = iota + 1
	Draining               // takes no new runs
	Unhealthy              // silent for 90 s and without runs; removed after 24 h
)

var workerStatusNames = [...]string{Active: "active", Draining: "draining", Unhealthy: "unhealthy"}

// String returns the name of the status: active, draining or unhealthy.
func (s WorkerStatus) String() string {
	if s < Active || s > Unhealthy {
		return "unknown"
	}
	return workerStatusNames[s]
}

// WorkerInfo is a listed worker: of actions, of a stream or of a queue. The values a worker reports
// are up to 10 s old. Its counts continue when a worker with the same id starts again, unless it
// has deregistered. The caller may keep its bytes.
//
// A worker of another runtime is listed once it has received a run, even if it has not registered.
// Its counts come from the shards and cover up to 1,000 actions. A worker that is not registered
// has neither Machine nor MaxConcurrent, and its Actions are those of its runs. It is removed after
// 24 h without a call, in a spread namespace by each shard separately.
type WorkerInfo struct {
	ID            string
	Type          string // "action", "stream", "queue", or the registered type
	Status        WorkerStatus
	Machine       string // where it runs; "" if unknown
	Load          int    // current number of runs or messages
	MaxConcurrent int    // maximum number of them
	Completed     int64
	Failed        int64
	LastSeen      time.Time
	RegisteredAt  time.Time // first registration
	Labels        map[string]string
	Actions       []string // it has handlers for these, sorted
	Metadata      []byte   // a JSON object; nil: none
	Processes     []Process
}

// Process counts a worker's runs of one kind of work, such as an action.
type Process struct {
	Name     string
	Kind     string // same values as the Type of workers
	Runs     int64
	Failures int64 // failed ones among these
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

// WorkerOption is an option of the listing of workers.
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

// Workers gives access to the workers of a namespace, of all types.
type Workers struct{ store *Store }

// Workers returns the workers of the namespace.
func (s *Store) Workers() Workers { return Workers{s} }

// Page returns a page of the workers of all shards, ordered by id. With OfType or HandlersOf it may
// be empty without being the last.
//
// Options: Limit, Cursor, OfType, HandlersOf. Errors: ErrInvalid for a limit that is not 1-1000,
// and for an invalid cursor.
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

// All iterates over the workers, ordered by id, with the contract of Store.All. Options and errors
// are those of Page.
func (l Workers) All(ctx context.Context, opts ...WorkerOption) iter.Seq2[WorkerInfo, error] {
	return engine.All(ctx, l.Page, opts)
}

// Get returns a worker. Errors: ErrNotFound; ErrInvalid for an invalid id.
func (l Workers) Get(ctx context.Context, id string) (WorkerInfo, error) {
	i, err := workers.Find(ctx, &l.store.scope, id)
	if err != nil {
		return WorkerInfo{}, err
	}
	return infoOf(&i), nil
}

// countWorkers sets the number of workers of each action; infos are sorted by name.
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
