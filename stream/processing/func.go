package processing

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/floedb/floe/internal/pipeline"
)

// Func is a Go function that works as an operator of jobs: it returns what becomes of a record,
// none to drop it. A program gives its functions to its node (floe.Config.Funcs), and definitions
// call them by their names:
//
//	node, err := floe.Open(floe.Config{DataDir: dir, Funcs: map[string]processing.Func{"score": score}})
//
//	operators:
//	  - { name: scored, type: func, function: score }
//
// The node runs it where it leads the job's shard, outside of the replicated log: replicas store
// what came of it. A step of a job that was interrupted runs again, on this node or another one, so
// the function has to be deterministic: equal records, equal results, with no effects besides.
// Several goroutines may call it at once. It has to return soon, and when ctx is done: jobs of the
// same shard wait for it.
//
// An error or a panic makes the record an error record (or ends a job with on_error: fail). On a
// node without the function, such as one of another program or of floe server, the job waits:
// nothing is read or skipped, and Job.Reason names the function. In a cluster all nodes should have
// it. A Client has no functions; it submits definitions that call those of the nodes.
//
// The function may keep and change what it is given. It must not change what it has returned. Of
// what it returns, Time and Tags have no effect: a record keeps those of the record that it is made
// of. All that it makes of one record may have up to 16 MiB.
type Func func(ctx context.Context, rec Record) ([]Record, error)

// Record is what a Func is given, and returns.
type Record struct {
	Key     string
	Value   []byte
	Headers map[string]string
	Time    time.Time // event time
	Tags    []string  // that operators gave it
}

// pipelineFuncs returns functions as operators call them.
func pipelineFuncs(funcs map[string]Func) map[string]pipeline.Func {
	all := make(map[string]pipeline.Func, len(funcs))
	for name, f := range funcs {
		if f == nil {
			continue // as if it were not there
		}
		all[name] = func(ctx context.Context, rec pipeline.Record, tags []string) ([]pipeline.Record, error) {
			made, err := f(ctx, Record{Key: string(rec.Key), Value: rec.Value, Headers: headersOf(rec.Headers),
				Time: time.UnixMilli(rec.EventTime), Tags: tags})
			list := make([]pipeline.Record, len(made))
			for i := range made {
				list[i].Key, list[i].Value = []byte(made[i].Key), made[i].Value
				for _, name := range slices.Sorted(maps.Keys(made[i].Headers)) {
					list[i].Headers = append(list[i].Headers, pipeline.Tag{Name: name, Value: made[i].Headers[name]})
				}
			}
			return list, err
		}
	}
	return all
}
