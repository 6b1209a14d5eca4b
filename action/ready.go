package action

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workers"
)

// queryReady comes after the queries of the worker registry.
const queryReady = workers.QueryHandlers + 1

// readyQuery waits until a worker can take a run. A worker that waits in several shards queries
// them before it takes a run. If it took runs directly, an abandoned take might have taken a run
// that no worker receives.
type readyQuery struct {
	namespace, worker string
	group             group
}

// OfLeader directs the query to the leader, which decides which runs can be taken.
func (*readyQuery) OfLeader() {}

func (*readyQuery) Machine() engine.MachineID { return engine.MachineAction }
func (*readyQuery) Kind() uint8               { return queryReady }

func (q *readyQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("worker", &q.worker)
	if q.group.fields(f); f.Checking() && len(q.group.names) > maxNames {
		f.Refuse(engine.Errorf(ErrInvalid, "action: %d actions of a worker exceed %d", len(q.group.names), maxNames))
	}
}

// Results has no fields: the response itself means that a run is ready.
func (*readyQuery) Results(*codec.Fields) {}

func (m *machine) queryReady(v *engine.View, q *readyQuery) error {
	if err := q.group.check(); err != nil {
		return err
	}
	if err := m.workers.WatchTakes(v, q.namespace, q.worker); err != nil {
		return err
	}
	l := look{v: v, namespace: q.namespace, again: math.MaxInt64}
	if err := l.at(&q.group); err != nil {
		return err
	}
	if err := l.wait(); err != nil {
		return err
	}
	l = look{v: v, namespace: q.namespace, again: math.MaxInt64} // look again: runs that became ready before the wait woke no waiter
	if err := l.at(&q.group); err != nil {
		return err
	}
	if l.n > 0 {
		for _, t := range l.busy {
			v.Claim(t)
		}
		return nil
	}
	if l.again != math.MaxInt64 {
		v.LookAgainAt(l.again) // when a rate allows a run
	}
	return engine.ErrWait
}

// takeFirst waits in all shards until one of them has a run.
func (s *Store) takeFirst(ctx context.Context, shards []engine.ShardID, c *workBody, wait time.Duration) (tasks []Task, err error) {
	within, cancel := context.WithTimeout(engine.Lasting(ctx), wait)
	defer cancel()
	for {
		shard, err := s.awaitReady(within, shards, c)
		if err == nil {
			tasks, err = s.takeSelf(ctx, shard, c, 0)
		}
		if within.Err() != nil && len(tasks) == 0 {
			return nil, ctx.Err()
		}
		if err != nil || len(tasks) > 0 {
			return tasks, err
		}
	}
}

// awaitReady returns the first shard that has a run for a worker. Other shards may have had one
// too, even if their answer was lost because the wait had ended. The run is then offered to the
// next worker.
func (s *Store) awaitReady(ctx context.Context, shards []engine.ShardID, c *workBody) (engine.ShardID, error) {
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		shard engine.ShardID
		err   error
	}
	answers := make(chan answer, len(shards))
	for _, shard := range shards {
		go func() {
			q := readyQuery{namespace: s.Namespace(), worker: c.self, group: c.group}
			answers <- answer{shard, s.scope.QueryShard(ctx, shard, &q)}
		}()
	}
	first := <-answers
	cancel()
	for range len(shards) - 1 {
		switch a := <-answers; {
		case a.err == nil && isEnd(first.err): // it came when the wait ended
			first = a
		case a.err != nil && !isEnd(a.err) && first.err == nil:
			first.err = a.err // for example because the worker drains
		}
	}
	if first.err == nil {
		s.scope.PassOn(ctx, slices.DeleteFunc(slices.Clone(shards), func(id engine.ShardID) bool { return id == first.shard }))
	}
	return first.shard, first.err
}

// isEnd reports whether a wait failed because its time was over.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
