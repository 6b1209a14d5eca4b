package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

// pipeJob runs a stream-processing job in the plain namespace, and another in the spread namespace,
// whose source and sinks are in all shards. Clients append events, stop and restore the jobs, and
// empty their output queues, which are small enough to hold the jobs up. In the end the sinks must
// hold the result of each event exactly once.
type pipeJob struct{}

func newPipeJob() Job { return &pipeJob{} }

// Names used by the work.
const (
	events   = "events"
	passed   = "events passed"
	todo     = "events todo"
	pipeName = "pipe"
	todoLen  = 20
)

// event is a record of the source. The job filters out those whose N is less than 3.
type event struct {
	ID string `json:"id"`
	N  int    `json:"n"`
}

const pipe = `
kind: Processing
name: pipe
batch_size: 7
sources:
  - name: events
    stream: { name: events }
operators:
  - name: wanted
    type: filter
    condition: "json:$.n>=3"
sinks:
  - name: passed
    stream: { name: events passed, key: "$.id" }
  - name: seen
    kv: { key: "$.id", key_prefix: event, separator: "/", write_mode: versioned }
  - name: todo
    queue: { name: events todo }
`

// pipeClient is a client of a job.
type pipeClient struct {
	World
	jobs    *processing.Store
	streams *stream.Store
	queues  *queue.Store
	keys    *kv.Store
	count   int
}

// pipeClientsOf returns a client for each of the namespaces.
func pipeClientsOf(w World) (all [2]*pipeClient) {
	r := w.Router()
	for i, ns := range []string{Plain, Spread} {
		all[i] = &pipeClient{
			World: w, jobs: engine.StoreOf[processing.Store](r, ns, MaxValue), streams: engine.StoreOf[stream.Store](r, ns, MaxValue),
			queues: engine.StoreOf[queue.Store](r, ns, MaxValue), keys: engine.StoreOf[kv.Store](r, ns, MaxValue),
		}
	}
	return all
}

// Open submits the jobs once. No client appends events before it has returned.
func (j *pipeJob) Open(w World) bool {
	for _, p := range pipeClientsOf(w) {
		if !p.open() {
			return false
		}
	}
	return true
}

func (p *pipeClient) open() bool {
	ctx := context.Background()
	return insist(p, func() error { return p.queues.Configure(ctx, todo, queue.Settings{MaxLen: todoLen}) }) &&
		p.create(events, 3) && p.create(passed, 2) &&
		insist(p, func() error {
			id, err := theJob(p.jobs, pipeName)
			if err == nil && id == "" {
				_, err = p.jobs.Submit(ctx, []byte(pipe))
			}
			return err
		})
}

// create creates a stream unless it exists.
func (p *pipeClient) create(name string, partitions int) bool {
	return insist(p, func() error {
		err := p.streams.Create(context.Background(), name, stream.Partitions(partitions))
		if errors.Is(err, engine.ErrExists) {
			return nil
		}
		return err
	})
}

// theJob returns the job with a name, "" if none exists. A submission of unknown outcome may
// create several; all but the first are cancelled.
func theJob(jobs *processing.Store, name string) (first processing.JobID, err error) {
	ctx := context.Background()
	for job, err := range jobs.All(ctx, processing.Named(name)) {
		switch {
		case err != nil:
			return "", err
		case job.Status == processing.Cancelled:
		case first == "":
			first = job.ID
		default:
			if _, err := jobs.Cancel(ctx, job.ID); err != nil {
				return "", err
			}
		}
	}
	return first, nil
}

// Do appends events and disturbs the job.
func (j *pipeJob) Do(w World) {
	clients, ctx := pipeClientsOf(w), context.Background()
	for w.Working() {
		p := clients[w.Rand().IntN(len(clients))]
		switch n := w.Rand().IntN(20); {
		case n < 13:
			w.Note(p.append(ctx))
		case n < 17:
			_, err := p.queues.Purge(ctx, todo)
			w.Note(err)
		default:
			w.Note(disturb(w, p.jobs, pipeName))
		}
	}
}

func (p *pipeClient) append(ctx context.Context) error {
	msgs := make([]stream.Message, 1+p.Rand().IntN(5))
	for i := range msgs {
		p.count++
		e := event{fmt.Sprintf("%d.%d", p.Client(), p.count), p.Rand().IntN(10)}
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		msgs[i] = stream.Message{Key: e.ID, Payload: b}
	}
	_, err := p.streams.AppendMany(ctx, events, msgs)
	return err
}

// disturb stops and restores a job, changes its settings, or takes a savepoint.
func disturb(w World, jobs *processing.Store, name string) error {
	ctx := context.Background()
	id, err := theJob(jobs, name)
	if err != nil || id == "" {
		return err
	}
	switch n := w.Rand().IntN(5); {
	case n == 0:
		_, err = jobs.Stop(ctx, id)
	case n == 1:
		err = jobs.Rescale(ctx, id, 1+w.Rand().IntN(8))
	case n == 2:
		_, err = jobs.Savepoints(id).Create(ctx)
	default:
		_, err = jobs.Restore(ctx, id)
	}
	if errors.Is(err, engine.ErrConflict) || errors.Is(err, engine.ErrBusy) {
		return nil
	}
	return err
}

// Audit waits until the jobs have read all events, and compares them with the contents of the
// sinks.
func (j *pipeJob) Audit(w World) {
	for _, p := range pipeClientsOf(w) {
		p.audit()
	}
}

func (p *pipeClient) audit() {
	w, ctx := p.World, context.Background()
	var all []event
	if !insist(w, func() (err error) {
		all, err = recordsOf[event](p.streams, events)
		return err
	}) {
		return
	}
	job, ok := settleJob(w, p.jobs, pipeName, int64(len(all)), func() error {
		_, err := p.queues.Purge(ctx, todo)
		return err
	})
	if !ok {
		return
	}
	want := make(map[string]int)
	for _, e := range all {
		if e.N >= 3 {
			want[e.ID]++
		}
	}
	got := make(map[string]int)
	for range 1000 { // a spread stream may still be forwarding records to its partitions
		if !insist(w, func() error {
			clear(got)
			out, err := recordsOf[event](p.streams, passed)
			for _, e := range out {
				got[e.ID]++
			}
			return err
		}) {
			return
		}
		if total(got) >= total(want) || p.jobs.Namespace() == Plain {
			break
		}
		if !w.Sleep(50 * time.Millisecond) {
			return
		}
	}
	p.compare("stream", want, got)
	var stats queue.Stats
	clear(got)
	if !insist(w, func() (err error) {
		if stats, err = p.queues.Get(ctx, todo); err != nil {
			return err
		}
		for item, err := range p.keys.All(ctx, kv.Prefix("event/")) {
			if err != nil {
				return err
			}
			got[item.Key[len("event/"):]] = int(item.Version)
		}
		return nil
	}) {
		return
	}
	p.compare("keys", want, got)
	if sum := total(want); int(stats.Enqueued) != sum || int(job.Metrics.RecordsOut) != 3*sum {
		w.Failf("processing: %d events were enqueued and %d records written, want %d and %d", stats.Enqueued, job.Metrics.RecordsOut, sum,
			3*sum)
	}
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func (p *pipeClient) compare(what string, want, got map[string]int) {
	for id, n := range want {
		if got[id] != n {
			p.Failf("processing: %s: event %s is there %d times, want %d", what, id, got[id], n)
			return
		}
	}
	if len(got) > len(want) {
		p.Failf("processing: %s: %d events are there that are none", what, len(got)-len(want))
	}
}

// settleJob keeps a job running until it has read n records, calling help. It returns false if the
// job cannot exist, or the run ends.
func settleJob(w World, jobs *processing.Store, name string, n int64, help func() error) (job processing.Detail, ok bool) {
	ctx := context.Background()
	for range 10_000 {
		id, err := theJob(jobs, name)
		if err == nil && id == "" {
			if !w.Lossy() {
				w.Failf("processing: there is no job %s", name)
			}
			return job, false
		}
		if err == nil {
			job, err = jobs.Get(ctx, id)
		}
		switch {
		case err != nil:
		case job.Status == processing.Failed && !w.Lossy():
			w.Failf("processing: job %s has failed: %s", name, job.Reason)
			return job, false
		case job.Status != processing.Running:
			_, err = jobs.Restore(ctx, id)
		case job.Metrics.RecordsIn >= n && job.Metrics.Backlog == 0:
			return job, true
		case help != nil:
			err = help()
		}
		if err != nil && !errors.Is(err, engine.ErrConflict) {
			w.Note(err)
		}
		if !w.Sleep(50 * time.Millisecond) {
			return job, false
		}
	}
	w.Failf("processing: job %s has read %d records of %d: %s %s", name, job.Metrics.RecordsIn, n, job.Status, job.Reason)
	return job, false
}
