package action

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Task is an attempt of a run that a worker has. Its bytes are the handler's to keep.
type Task struct {
	Run            RunID
	Action         string
	Attempt        int // from 1
	MaxAttempts    int
	Delivery       int    // from 1: how often the run has been begun, attempts that do not count included. See OfDelivery
	Input          []byte // JSON; nil if the run was invoked with nothing
	Priority       int
	Labels         map[string]string
	ConcurrencyKey string
	IdempotencyKey string
	Source         string // who invoked it
	CreatedAt      time.Time
	LastError      string // of the attempt before, "" if there was none or it did not fail
	LastCode       string // of that error

	session uint64       // that has it, 0: that of
	self    string       // a worker that calls by itself
	settled *atomic.Bool // an operation was made that ends it; nil: nobody looks
	touch   func(ctx context.Context, d time.Duration) (time.Time, error)
}

// Decode reads the input into v, as json.Unmarshal does. Errors: permanent ones, with the code
// bad_input, so that a handler can return them.
func (t *Task) Decode(v any) error {
	if len(t.Input) == 0 {
		return nil
	}
	if err := json.Unmarshal(t.Input, v); err != nil {
		return Permanent(Code(CodeBadInput, err))
	}
	return nil
}

// Extend makes the attempt time out d from now, instead of after the action's timeout, and returns
// the new deadline. Errors: ErrConflict if the attempt is over or the run was cancelled; ErrInvalid
// if d is not positive.
func (t *Task) Extend(ctx context.Context, d time.Duration) (until time.Time, err error) {
	if t.touch == nil {
		return until, engine.Errorf(ErrInvalid, "action: task %s is of no worker of this process", t.Run)
	}
	return t.touch(ctx, d)
}

// taskOf returns what a worker is told of a run that was taken in a shard.
func taskOf(shard engine.ShardID, t *taken) Task {
	labels, _ := engine.DecodeHeaders(t.labels) // as the run was invoked with
	source := t.source
	if source == "" {
		source = "api"
	}
	return Task{
		Run: runLocation{shard, t.ref}.id(), Action: t.action, Attempt: int(t.attempt), MaxAttempts: int(t.maxAttempts), Input: t.input,
		Priority: int(t.priority),
		Labels:   labels, ConcurrencyKey: t.key, IdempotencyKey: t.idempotencyKey, Source: source, CreatedAt: time.UnixMilli(t.createdAt),
		LastError: t.message, LastCode: t.code, Delivery: int(t.begun),
	}
}

type taskKey struct{}

// TaskOf returns the task that a handler has, by its context, nil if it is that of no handler.
func TaskOf(ctx context.Context) *Task {
	t, _ := ctx.Value(taskKey{}).(*Task)
	return t
}
