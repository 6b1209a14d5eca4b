package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// Tally is a group of operations of a primitive, of which a transaction carries out all or none,
// and a count of those transactions. Suites that predict every outcome write a key in the same
// transactions for comparison.
type Tally struct {
	Name string
	// Ops may take something briefly, but must leave nothing that could make a later one fail.
	Ops func(rng *rand.Rand, tag string, payload []byte) []engine.Operation
	// Count returns the number of committed transactions with the tag.
	Count func(ctx context.Context, r *engine.Router, namespace, tag string) (int64, error)
}

// Tallies lists the tallies of all primitives that have one.
var Tallies = []Tally{
	{"queue", queueTally, countQueue},
	{"stream", streamTally, countStream},
	{"ts", seriesTally, countSeries},
	{"action", actionTally, countAction},
	{"workflow", flowTally, countFlow},
}

// Tallied returns the operations of all tallies.
func Tallied(rng *rand.Rand, tag string, payload func() []byte) (ops []engine.Operation) {
	for _, t := range Tallies {
		ops = append(ops, t.Ops(rng, tag, payload())...)
	}
	return ops
}

// queueTally enqueues a message and leases one; the lease then expires.
func queueTally(rng *rand.Rand, tag string, payload []byte) []engine.Operation {
	return []engine.Operation{queue.EnqueueOp(tag+"jobs", payload), queue.DequeueOp(tag+"jobs", queue.Lease(shortly(rng)))}
}

func countQueue(ctx context.Context, r *engine.Router, namespace, tag string) (int64, error) {
	s, err := engine.StoreOf[queue.Store](r, namespace, 0).Get(ctx, tag+"jobs")
	return s.Enqueued, unlessAbsent(err)
}

// streamTally appends a record and reads some with a consumer group; their leases then expire.
func streamTally(rng *rand.Rand, tag string, payload []byte) []engine.Operation {
	mode := stream.Mode(rng.IntN(3))
	return []engine.Operation{
		stream.AppendOp(tag+"log", stream.Message{Key: strconv.Itoa(rng.IntN(3)), Payload: payload}),
		stream.ReadGroupOp(tag+"log", mode.String(), "c", stream.InMode(mode), stream.AckTimeout(shortly(rng)), stream.Limit(2),
			stream.MaxAttempts(2)),
	}
}

func countStream(ctx context.Context, r *engine.Router, namespace, tag string) (int64, error) {
	s, err := engine.StoreOf[stream.Store](r, namespace, 0).Get(ctx, tag+"log")
	return int64(s.Appended), unlessAbsent(err)
}

func shortly(rng *rand.Rand) time.Duration { return time.Duration(1+rng.IntN(1000)) * time.Millisecond }

func unlessAbsent(err error) error {
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}
