package workers

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// reportQuery sends the heartbeats of a process's workers to the leader. The answer is the indexes
// of the workers in list that are not in the shard.
type reportQuery struct {
	namespace string
	list      []report

	unknown []int
}

type report struct {
	id      string
	life    uint64
	load    int
	present workerStats
}

// OfLeader directs the query to the leader, because heartbeats are in its memory.
func (*reportQuery) OfLeader() {}

// listQuery lists workers ordered by ID.
type listQuery struct {
	namespace string
	after     string
	limit     int
	typ       string // "": any
	handles   string // a name that the workers handle; "": any

	items []Info
	more  bool
	next  string // cursor of the next page
}

// workerQuery returns one worker.
type workerQuery struct {
	namespace, id string

	found bool
	info  Info
}

// handlersQuery counts the live workers of a type per handled name, for names from first to last.
type handlersQuery struct {
	namespace, typ, first, last string

	counts  []handlers
	pollers []pollerHandles // polling workers of a spread namespace, which are not in counts: several shards may have the same one
}

// pollerHandles is the names that a polling worker handles according to one shard. The shard where
// the worker is registered has all of them, or none if the worker is of another type.
type pollerHandles struct {
	id         string
	names      []string
	registered bool
	alive      bool
}

type handlers struct {
	name string
	n    int
}

// Host is a machine that has a worker registry.
type Host interface {
	engine.Machine
	Workers() *Registry
}

// Queries returns the query types of the registry, for its host's query table.
func Queries() []engine.QueryType {
	return []engine.QueryType{
		engine.QueryRow(QueryReport, "report workers",
			func(m Host, v *engine.View, q *reportQuery) error { return m.Workers().queryReport(v, q) }),
		engine.QueryRow(QueryList, "workers", func(m Host, v *engine.View, q *listQuery) error { return m.Workers().queryList(v, q) }),
		engine.QueryRow(QueryWorker, "worker", func(m Host, v *engine.View, q *workerQuery) error { return m.Workers().queryWorker(v, q) }),
		engine.QueryRow(QueryHandlers, "handlers",
			func(m Host, v *engine.View, q *handlersQuery) error { return m.Workers().queryHandlers(v, q) }),
	}
}

func (*reportQuery) Machine() engine.MachineID   { return engine.MachineAction }
func (*listQuery) Machine() engine.MachineID     { return engine.MachineAction }
func (*workerQuery) Machine() engine.MachineID   { return engine.MachineAction }
func (*handlersQuery) Machine() engine.MachineID { return engine.MachineAction }

func (*reportQuery) Kind() uint8   { return QueryReport }
func (*listQuery) Kind() uint8     { return QueryList }
func (*workerQuery) Kind() uint8   { return QueryWorker }
func (*handlersQuery) Kind() uint8 { return QueryHandlers }

func (q *reportQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	codec.ListOf(f, "workers", &q.list, func(r *report, f *codec.Fields) {
		f.Text("id", &r.id)
		f.Uvarint("life", &r.life)
		f.Int("load", &r.load, codec.Range{Max: math.MaxInt64})
		r.present.fields(f)
	}, codec.Range{Max: maxReports})
}

func (q *reportQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "unknown", &q.unknown, func(i *int, f *codec.Fields) { f.Int("", i) })
}

func (q *listQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("after", &q.after)
	f.Int("limit", &q.limit, engine.PageLimit)
	f.Text("type", &q.typ)
	f.Text("handles", &q.handles)
}

func (q *listQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "workers", &q.items, (*Info).code)
	f.Bool("more", &q.more)
	f.Text("next", &q.next)
	if c := f.Binary(); c != nil && c.More(slices.ContainsFunc(q.items, func(i Info) bool { return i.poller != nil })) {
		for i := range q.items {
			q.items[i].codePoller(c)
		}
	}
}

func (q *workerQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("id", &q.id)
}

func (q *workerQuery) Results(f *codec.Fields) {
	if !f.Found(&q.found) {
		return
	}
	q.info.code(f)
	if c := f.Binary(); c != nil && c.More(q.info.poller != nil) {
		q.info.codePoller(c)
	}
}

func (q *handlersQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("type", &q.typ)
	f.Text("first", &q.first)
	f.Text("last", &q.last)
}

func (q *handlersQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "counts", &q.counts, func(h *handlers, f *codec.Fields) {
		f.Text("name", &h.name)
		f.Int("workers", &h.n)
	})
	if c := f.Binary(); c == nil || !c.More(len(q.pollers) > 0) {
		return
	}
	codec.ListOf(f, "callers", &q.pollers, func(h *pollerHandles, f *codec.Fields) {
		f.Text("id", &h.id)
		codec.ListOf(f, "names", &h.names, codec.Text)
		f.Bool("registered", &h.registered)
		f.Bool("alive", &h.alive)
	})
}

func (i *Info) code(f *codec.Fields) {
	f.Text("id", &i.ID)
	i.Worker.fields(f)
	codec.Enum(f, "status", &i.Status, []string{"unknown", Active: "active", Draining: "draining", Unhealthy: "unhealthy"})
	f.Int("load", &i.Load)
	f.Varint("completed", &i.Completed)
	f.Varint("failed", &i.Failed)
	f.Time("last_seen_ms", &i.LastSeen)
	f.Time("registered_at_ms", &i.RegisteredAt)
	codec.ListOf(f, "processes", &i.Processes, func(p *Process, f *codec.Fields) {
		f.Text("name", &p.Name)
		f.Text("kind", &p.Kind)
		f.Varint("runs", &p.Runs)
		f.Varint("failures", &p.Failures)
		f.Time("last_run_ms", &p.LastRun)
	})
}

func (r *Registry) queryReport(v *engine.View, q *reportQuery) error {
	ns, ok := v.Namespace(q.namespace)
	for i := range q.list {
		one := &q.list[i]
		if one.life == 0 {
			one.present = one.present.withoutRuns()
		}
		w := workerRef{ns, one.id}
		if ok && r.update(w, one, present(v)) {
			continue
		}
		at, found, err := viewRow(v, w)
		switch {
		case err != nil:
			return err
		case !ok || !found || at.life != one.life || at.unregistered:
			q.unknown = append(q.unknown, i)
		default:
			r.begin(w, one, present(v))
		}
	}
	return nil
}

func viewRow(v *engine.View, w workerRef) (at row, found bool, err error) {
	if w.id == "" {
		return at, false, nil // the key is that of the count
	}
	b, found, err := v.Get(workerKey(w.ns, w.id))
	if err != nil || !found {
		return at, false, err
	}
	at, err = decodeRow(b)
	return at, err == nil, err
}

func (r *Registry) queryList(v *engine.View, q *listQuery) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	prefix := workerKey(ns, "")
	return scanRows(v, append(workerKey(ns, q.after), 0), key.PrefixEnd(prefix), func(w workerRef, value []byte) (more bool, err error) {
		if len(q.items) == q.limit || q.next != "" && v.Full() {
			q.more = true
			return false, nil
		}
		at, err := decodeRow(value)
		if q.next = w.id; err != nil || q.typ != "" && at.worker.Type != q.typ {
			return true, err
		}
		handles := q.handles == "" || slices.Contains(at.worker.Handles, q.handles)
		if !handles && at.unregistered {
			_, handles, err = v.Get(statsKey(w.ns, w.id, q.handles))
		}
		if err != nil || !handles {
			return true, err
		}
		i, err := r.info(v, w, &at)
		q.items = append(q.items, i)
		return true, err
	})
}

func (r *Registry) queryWorker(v *engine.View, q *workerQuery) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	w := workerRef{ns, q.id}
	at, found, err := viewRow(v, w)
	if found {
		q.found = true
		q.info, err = r.info(v, w, &at)
	}
	return err
}

func (r *Registry) queryHandlers(v *engine.View, q *handlersQuery) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	counts, spread := make(map[string]int), v.Spread(q.namespace)
	prefix := workerKey(ns, "")
	err := scanRows(v, prefix, key.PrefixEnd(prefix), func(w workerRef, value []byte) (more bool, err error) {
		at, err := decodeRow(value)
		apart := err == nil && spread && at.life == 0
		if err != nil || at.worker.Type != q.typ && !apart {
			return true, err
		}
		held, err := r.held(v, w, &at)
		if err != nil {
			return true, err
		}
		alive := r.status(v, w, &at, held) != Unhealthy
		names := at.worker.Handles
		switch {
		case at.worker.Type != q.typ:
			names = nil
		case at.unregistered:
			if names, err = viewNames(v, w, q.first, q.last); err != nil {
				return true, err
			}
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name < q.first || name > q.last })
		if apart {
			q.pollers = append(q.pollers, pollerHandles{w.id, names, !at.unregistered, alive})
		}
		if apart || !alive {
			return true, nil
		}
		for _, name := range names {
			counts[name]++
		}
		return true, nil
	})
	for name, n := range counts {
		q.counts = append(q.counts, handlers{name, n})
	}
	slices.SortFunc(q.counts, func(a, b handlers) int { return strings.Compare(a.name, b.name) })
	return err
}

// held returns the number of runs that a polling worker holds.
func (r *Registry) held(v *engine.View, w workerRef, at *row) (int, error) {
	if at.life != 0 || r.Holds == nil {
		return 0, nil
	}
	return r.Holds(v, w.ns, w.id)
}

// status applies the worker's heartbeat to its row and returns its state. held is the result of
// Registry.held.
func (r *Registry) status(v *engine.View, w workerRef, at *row, held int) Status {
	switch age := r.overlay(w, at, present(v)); {
	case held == 0 && (at.silent || age >= silentMillis):
		return Unhealthy
	case at.draining:
		return Draining
	}
	return Active
}

func (r *Registry) info(v *engine.View, w workerRef, at *row) (Info, error) {
	held, err := r.held(v, w, at)
	if err != nil {
		return Info{}, err
	}
	status := r.status(v, w, at, held)
	all := at.before.plus(at.present)
	i := Info{
		Worker: at.worker, Status: status, Load: at.load, Completed: all.completed, Failed: all.failed,
		LastSeen: time.UnixMilli(at.seen), RegisteredAt: time.UnixMilli(at.registeredAt), Processes: all.processes(),
	}
	i.ID = w.id
	if at.life == 0 {
		i.poller = &poller{unregistered: at.unregistered, held: held}
		i.poller.stats, err = viewStats(v, w)
	}
	return i, err
}
