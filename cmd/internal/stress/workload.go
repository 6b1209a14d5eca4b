package stress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

// Workload is a kind of load: a call that callers repeat.
type Workload struct {
	Name string
	Doc  string
	// begin prepares the workload and returns its call. What it starts stops when ctx is done; end
	// waits for that and is nil if there is nothing to wait for.
	begin func(ctx context.Context, t *Target) (call func(ctx context.Context, c *caller) error, end func() error, err error)
}

// Target is the target of a load.
type Target struct {
	DB        floe.DB
	Namespace string
	ValueSize int // in bytes, of values and payloads
	Keys      int // number of keys that are read and overwritten
	Callers   int
}

// caller makes its next call when the last one has returned.
type caller struct {
	id    int
	calls uint64
	rng   *rand.Rand
	value []byte
}

// payload returns bytes that differ from those of all other calls.
func (c *caller) payload() []byte {
	c.calls++
	b := c.value
	copy(b, strconv.AppendUint(nil, c.rng.Uint64(), 36))
	return b
}

func (t *Target) key(n int) string { return fmt.Sprintf("bench-%09d", n) }

// Names of objects that the workloads use in the namespace.
const (
	queueName   = "bench"
	streamName  = "bench"
	groupName   = "bench"
	measurement = "bench"
	queried     = "bench_query"
	actionName  = "bench"
	flowName    = "bench"
	sourceName  = "bench-in"
	sinkName    = "bench-out"
)

const (
	pointsOf   = 100 // points per write
	hostsOf    = 100 // number of series
	queriedOf  = 59  // queried points per series
	keptOf     = 1_000_000
	fillAtOnce = 200
	fillBytes  = 2 << 20
)

// Workloads are all workloads, in the order in which they run.
var Workloads = []Workload{
	{"kv-put", "put a new value to one of the keys",
		func(_ context.Context, t *Target) (func(context.Context, *caller) error, func() error, error) {
			store := t.DB.KV(t.Namespace)
			return func(ctx context.Context, c *caller) error {
				_, err := store.Put(ctx, t.key(c.rng.IntN(t.Keys)), c.payload())
				return err
			}, nil, nil
		}},
	{"kv-get", "get one of the keys", func(ctx context.Context, t *Target) (func(context.Context, *caller) error, func() error, error) {
		store := t.DB.KV(t.Namespace)
		return func(ctx context.Context, c *caller) error {
			_, err := store.Get(ctx, t.key(c.rng.IntN(t.Keys)))
			return err
		}, nil, t.fill(ctx)
	}},
	{"txn", "put two keys, enqueue and append, all or nothing",
		func(ctx context.Context, t *Target) (func(context.Context, *caller) error, func() error, error) {
			return func(ctx context.Context, c *caller) error {
				_, err := t.DB.Txn(t.Namespace).Do(
					kv.PutOp(t.key(c.rng.IntN(t.Keys)), c.payload()), kv.PutOp(t.key(c.rng.IntN(t.Keys)), c.payload()),
					queue.EnqueueOp(queueName+"-txn", c.payload()), stream.AppendOp(streamName, stream.Message{Payload: c.payload()}),
				).Commit(ctx)
				return err
			}, nil, t.stream(ctx, streamName)
		}},
	{"queue", "enqueue a message, dequeue one and ack it",
		func(_ context.Context, t *Target) (func(context.Context, *caller) error, func() error, error) {
			store := t.DB.Queue(t.Namespace)
			return func(ctx context.Context, c *caller) error {
				if _, err := store.Enqueue(ctx, queueName, c.payload()); err != nil {
					return err
				}
				got, err := store.Dequeue(ctx, queueName)
				if err != nil || len(got) == 0 {
					return err
				}
				_, err = store.Ack(ctx, queueName, got[0].Receipt)
				return err
			}, nil, nil
		}},
	{"stream-append", "append a record", func(ctx context.Context, t *Target) (func(context.Context, *caller) error, func() error, error) {
		store := t.DB.Stream(t.Namespace)
		return func(ctx context.Context, c *caller) error {
			_, err := store.Append(ctx, streamName, stream.Message{Payload: c.payload()})
			return err
		}, nil, t.stream(ctx, streamName)
	}},
	{"stream-group", "append a record, read one as a consumer of a group and ack it",
		func(ctx context.Context, t *Target) (func(context.Context, *caller) error, func() error, error) {
			store := t.DB.Stream(t.Namespace)
			err := t.stream(ctx, streamName)
			if err == nil {
				if err = store.Groups(streamName).Create(ctx, groupName, stream.FromEnd()); errors.Is(err, floe.ErrExists) {
					err = nil
				}
			}
			return func(ctx context.Context, c *caller) error {
				if _, err := store.Append(ctx, streamName, stream.Message{Payload: c.payload()}); err != nil {
					return err
				}
				got, err := store.ReadGroup(ctx, streamName, groupName, strconv.Itoa(c.id), stream.Limit(1))
				if err != nil || len(got) == 0 {
					return err
				}
				_, err = store.Ack(ctx, streamName, groupName, stream.RefsOf(got)...)
				return err
			}, nil, err
		}},
	{"ts-write", fmt.Sprintf("write %d points", pointsOf),
		func(_ context.Context, t *Target) (func(context.Context, *caller) error, func() error, error) {
			store := t.DB.TS(t.Namespace)
			return func(ctx context.Context, c *caller) error {
				_, err := store.Write(ctx, points(c, measurement, time.Now())...)
				return err
			}, nil, nil
		}},
	{"ts-query", fmt.Sprintf("ask for averages of an hour, %d points of each of %d hosts", queriedOf, hostsOf),
		func(ctx context.Context, t *Target) (func(context.Context, *caller) error, func() error, error) {
			c, now := &caller{rng: rand.New(rand.NewPCG(1, 2))}, time.Now()
			var err error
			for i := 0; i < queriedOf && err == nil; i++ {
				_, err = t.DB.TS(t.Namespace).Write(ctx, points(c, queried, now.Add(-time.Duration(i)*time.Minute))...)
			}
			return func(ctx context.Context, c *caller) error {
				_, err := t.DB.FloQL(ctx, t.Namespace, queried+"[1h] | window(10m) | group_by(host) | avg()")
				return err
			}, nil, err
		}},
	{"action", "invoke an action and wait for its result, which workers of this process make",
		func(ctx context.Context, t *Target) (func(context.Context, *caller) error, func() error, error) {
			end, err := t.work(ctx)
			return func(ctx context.Context, c *caller) error {
				run, err := t.DB.Action(t.Namespace).InvokeAndWait(ctx, actionName, []byte("{}"))
				if err == nil && run.Status != action.Completed {
					err = fmt.Errorf("a run is %v: %s", run.Status, run.Error)
				}
				return err
			}, end, err
		}},
	{"workflow", "start a workflow of one action and wait for its end",
		func(ctx context.Context, t *Target) (func(context.Context, *caller) error, func() error, error) {
			end, err := t.work(ctx)
			if err == nil {
				if _, err = t.DB.Workflow(t.Namespace).Create(ctx, []byte(flowText)); errors.Is(err, floe.ErrExists) {
					err = nil
				}
			}
			return func(ctx context.Context, c *caller) error {
				run, err := t.DB.Workflow(t.Namespace).StartAndWait(ctx, flowName, []byte("{}"))
				if err == nil && run.Status != workflow.Completed {
					err = fmt.Errorf("a run is %v: %s", run.Status, run.Error)
				}
				return err
			}, end, err
		}},
	{"processing", "append a record, and wait until a job has copied it to another stream", beginProcessing},
}

const flowText = `{"kind":"Workflow","name":"bench","version":"1","start":{"run":"@actions/bench","transitions":{"success":"flo.Completed","failure":"flo.Failed"}}}`

// fill stores the keys for reads.
func (t *Target) fill(ctx context.Context) error {
	c := newCaller(0, t)
	atOnce := max(min(fillAtOnce, fillBytes/len(c.value)), 1)
	for first := 0; first < t.Keys; first += atOnce {
		txn := t.DB.Txn(t.Namespace)
		for i := first; i < min(first+atOnce, t.Keys); i++ {
			txn.Do(kv.PutOp(t.key(i), append([]byte(nil), c.payload()...)))
		}
		if _, err := txn.Commit(ctx); err != nil {
			return fmt.Errorf("store the keys: %w", err)
		}
	}
	return nil
}

// stream creates a stream of bounded length.
func (t *Target) stream(ctx context.Context, name string) error {
	err := t.DB.Stream(t.Namespace).Create(ctx, name, stream.MaxLen(keptOf))
	if errors.Is(err, floe.ErrExists) {
		return nil
	}
	return err
}

func points(c *caller, measurement string, at time.Time) []ts.Point {
	all := make([]ts.Point, 0, pointsOf)
	for i := range pointsOf {
		all = append(all, ts.Point{
			Measurement: measurement, Tags: map[string]string{"host": fmt.Sprintf("host-%d-%d", c.id%4, i%hostsOf)},
			Fields: map[string]float64{"value": c.rng.Float64()}, Time: at,
		})
	}
	return all
}

// work registers the action and runs a worker for it until ctx is done.
func (t *Target) work(ctx context.Context) (end func() error, err error) {
	store := t.DB.Action(t.Namespace)
	if _, err := store.Register(ctx, actionName, action.Retain(time.Hour, 1000)); err != nil {
		return nil, err
	}
	w := store.Worker(action.WorkerConfig{Concurrency: min(max(t.Callers, 1), 1000), Grace: time.Second})
	w.Handle(actionName, func(context.Context, *action.Task) (any, error) { return json.RawMessage("{}"), nil })
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error {
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}, nil
}

const jobText = `{"kind":"Processing","name":"bench","sources":[{"name":"in","stream":{"name":"bench-in","partitions":"all"}}],"operators":[{"name":"only","type":"filter","condition":"not_empty"}],"sinks":[{"name":"out","stream":{"name":"bench-out"}}]}`

// beginProcessing submits a job. It follows the job's sink and notifies each caller when its record
// arrives.
func beginProcessing(ctx context.Context, t *Target) (func(context.Context, *caller) error, func() error, error) {
	streams, jobs := t.DB.Stream(t.Namespace), t.DB.Processing(t.Namespace)
	for _, name := range []string{sourceName, sinkName} {
		if err := t.stream(ctx, name); err != nil {
			return nil, nil, err
		}
	}
	job, err := jobs.Submit(ctx, []byte(jobText))
	if err != nil {
		return nil, nil, err
	}
	var waiting sync.Map // id -> chan struct{}
	var ids atomic.Uint64
	run := strconv.FormatInt(time.Now().UnixNano(), 36) + "-"
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for r, err := range streams.Follow(ctx, sinkName, stream.FromTime(time.Now().Add(-time.Second))) {
			if err != nil {
				return
			}
			if c, ok := waiting.LoadAndDelete(string(r.Payload)); ok {
				close(c.(chan struct{}))
			}
		}
	}()
	end := func() error {
		<-ended
		last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := jobs.Cancel(last, job.Job)
		return err
	}
	return func(ctx context.Context, c *caller) error {
		id, seen := run+strconv.FormatUint(ids.Add(1), 10), make(chan struct{})
		waiting.Store(id, seen)
		if _, err := streams.Append(ctx, sourceName, stream.Message{Payload: []byte(id)}); err != nil {
			return err
		}
		select {
		case <-seen:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, end, nil
}
