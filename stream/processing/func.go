package processing

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/floedb/floe/internal/pipeline"
)

// Func is a Go function that jobs use as an operator. It returns the records that replace a record,
// or none to drop it. A program passes its functions to its node (floe.Config.Funcs), and
// definitions call them by name:
//
//	node, err := floe.Open(floe.Config{DataDir: dir, Funcs: map[string]processing.Func{"score": score}})
//
//	operators:
//	  - { name: scored, type: func, function: score }
//
// The node runs it where it leads the job's shard, outside of the replicated log: replicas store
// the results. An interrupted step of a job runs again, on this node or another one. So the
// function must be deterministic and have no side effects. It may be called by several goroutines
// at once. It must return soon, and when ctx is done, because jobs of the same shard wait for it.
//
// An error or a panic makes the record an error record, or ends the job with on_error: fail. On a
// node without the function, such as floe server, the job waits. It reads and skips no records, and
// Job.Reason names the function. In a cluster all nodes should have it. A Client has no functions;
// it submits definitions that call those of the nodes.
//
// The function may keep and modify its arguments. It must not change results after returning them.
// Time and Tags of results have no effect: a result keeps those of the record it was made from. The
// results for one record may have up to 16 MiB in total.
type Func func(ctx context.Context, rec Record) ([]Record, error)

// Record is the argument and the result of a Func.
type Record struct {
	Key     string
	Value   []byte
	Headers map[string]string
	Time    time.Time // event time
	Tags    []string  // added by operators
}

// pipelineFuncs returns the functions in the form that operators call.
func pipelineFuncs(funcs map[string]Func) map[string]pipeline.Func {
	all := make(map[string]pipeline.Func, len(funcs))
	for name, f := range funcs {
		if f == nil {
			continue // treated as missing
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
