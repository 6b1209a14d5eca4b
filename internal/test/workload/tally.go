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

// Tally is operations of a primitive that a transaction does all of, or none, and how often that
// happened. Suites that predict every outcome have a key in the same transactions, to compare with.
type Tally struct {
	Name string
	// Ops may take something for a short while, but leave nothing that a later one could be refused
	// for.
	Ops func(rng *rand.Rand, tag string, payload []byte) []engine.Operation
	// Count returns how many transactions with the tag were carried out.
	Count func(ctx context.Context, r *engine.Router, namespace, tag string) (int64, error)
}

// Tallies are those of all primitives that can count.
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

// queueTally enqueues a message and leases one, for a while in which time passes.
func queueTally(rng *rand.Rand, tag string, payload []byte) []engine.Operation {
	return []engine.Operation{queue.EnqueueOp(tag+"jobs", payload), queue.DequeueOp(tag+"jobs", queue.Lease(shortly(rng)))}
}

func countQueue(ctx context.Context, r *engine.Router, namespace, tag string) (int64, error) {
	s, err := engine.StoreOf[queue.Store](r, namespace, 0).Get(ctx, tag+"jobs")
	return s.Enqueued, unlessAbsent(err)
}

// streamTally appends a record and reads some with a consumer group, for a while in which time
// passes.
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
