package action

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Task is an attempt of a run that was given to a worker. The handler may keep its bytes.
type Task struct {
	Run            RunID
	Action         string
	Attempt        int // from 1
	MaxAttempts    int
	Delivery       int    // from 1: number of starts of the run, including attempts that do not count. See OfDelivery
	Input          []byte // JSON; nil if the run has no input
	Priority       int
	Labels         map[string]string
	ConcurrencyKey string
	IdempotencyKey string
	Source         string // origin of the invocation
	CreatedAt      time.Time
	Deadline       time.Time // of a task from Await: end of the attempt's time unless extended; else zero
	LastError      string    // error of the previous attempt; empty on the first, or if that did not fail
	LastCode       string    // of LastError

	session uint64       // that has the run; 0: the session of self
	self    string       // a worker that calls Await itself
	settled *atomic.Bool // an operation that ends the attempt was created; nil: not tracked
	touch   func(ctx context.Context, d time.Duration) (time.Time, error)
}

// Decode reads the input into v, as json.Unmarshal does. Its errors are permanent and have the code
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

// Extend moves the deadline of the attempt to d from now, in place of the action's timeout, and
// returns the new deadline. Errors: ErrConflict if the attempt is over or the run was cancelled;
// ErrInvalid if d is not positive.
func (t *Task) Extend(ctx context.Context, d time.Duration) (until time.Time, err error) {
	if t.touch == nil {
		return until, engine.Errorf(ErrInvalid, "action: task %s belongs to no worker of this process", t.Run)
	}
	return t.touch(ctx, d)
}

// taskOf returns the task for a run that was taken in a shard.
func taskOf(shard engine.ShardID, t *taken) Task {
	labels, _ := engine.DecodeHeaders(t.labels) // the labels given at invocation
	source := t.source
	if source == "" {
		source = "api"
	}
	deadline := time.Time{}
	if t.deadline != 0 {
		deadline = time.UnixMilli(t.deadline)
	}
	return Task{
		Run: runLocation{shard, t.ref}.id(), Action: t.action, Attempt: int(t.attempt), MaxAttempts: int(t.maxAttempts), Input: t.input,
		Priority: int(t.priority),
		Labels:   labels, ConcurrencyKey: t.key, IdempotencyKey: t.idempotencyKey, Source: source, CreatedAt: time.UnixMilli(t.createdAt),
		LastError: t.message, LastCode: t.code, Delivery: int(t.begun), Deadline: deadline,
	}
}

type taskKey struct{}

// TaskOf returns the task of the handler that ctx belongs to, or nil if ctx belongs to no handler.
func TaskOf(ctx context.Context) *Task {
	t, _ := ctx.Value(taskKey{}).(*Task)
	return t
}
