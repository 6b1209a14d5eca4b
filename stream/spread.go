package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/engine"
)

// In a spread namespace the partitions of a stream are in the shards of their routes. The first one
// is with the stream's record in the shard of its name, the stream's home. Other shards learn the
// contents of the record from the commands they receive, as a spec.

// route returns the name that determines a partition's shard.
func route(name string, partition int) string {
	if partition == 0 || engine.Tagged(name) {
		return name
	}
	return fmt.Sprintf("%s/%d", name, partition)
}

// streamShard is a stream's part in one shard.
type streamShard struct {
	route      string
	spec       *spec // nil: the shard has the stream's record
	partitions []int // nil: all
}

// id returns the stream's id, or 0 if the shard has the stream's record.
func (p *streamShard) id() uint64 {
	if p.spec == nil {
		return 0
	}
	return p.spec.id
}

// scattered reports whether the partitions of a stream may be in several shards.
func (s *Store) scattered(ctx context.Context, name string) (bool, error) {
	if engine.Tagged(name) {
		return false, nil
	}
	return s.scope.Spread(ctx)
}

// parts returns the shards of a stream's partitions, the home first. Errors: ErrInvalid for a
// malformed name; ErrNotFound, but only if the stream is scattered.
func (s *Store) parts(ctx context.Context, name string) ([]streamShard, error) {
	if err := engine.CheckName("stream", name); err != nil {
		return nil, err
	}
	spread, err := s.scattered(ctx, name)
	if err != nil || !spread {
		return []streamShard{{route: name}}, err
	}
	sp, err := s.spec(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.partsOf(name, sp), nil
}

func (s *Store) partsOf(name string, sp *spec) (parts []streamShard) {
	at := make(map[engine.ShardID]int)
	for p := range sp.partitions {
		r, shard := route(name, p), s.shardOf(name, p)
		i, known := at[shard]
		if !known {
			i = len(parts)
			at[shard] = i
			parts = append(parts, streamShard{route: r, spec: sp})
		}
		parts[i].partitions = append(parts[i].partitions, p)
	}
	return parts
}

// shardOf returns the shard of a partition in a spread namespace.
func (s *Store) shardOf(name string, partition int) engine.ShardID {
	return s.scope.SpreadShard(route(name, partition))
}

// spec reads a stream's record from its home.
func (s *Store) spec(ctx context.Context, name string) (*spec, error) {
	q := specQuery{namespace: s.scope.Namespace(), stream: name}
	if err := s.scope.Query(ctx, name, &q); err != nil {
		return nil, err
	}
	if !q.found {
		return nil, notFound(name)
	}
	return &q.spec, nil
}

// appendScattered is AppendMany for partitions in several shards.
func (s *Store) appendScattered(ctx context.Context, name string, msgs []Message, o appendOptions) ([]Appended, error) {
	a := scatteredAppend{store: s, name: name, msgs: msgs, options: o, results: make([]Appended, len(msgs))}
	a.left = make([]int, len(msgs))
	for i := range msgs {
		a.left[i] = i
	}
	// A stream that is deleted during an append is treated as missing and recreated, but only this
	// many times.
	const attempts = 3
	var err error
	for n, again := 0, true; again && n < attempts; n++ {
		again, err = a.attempt(ctx)
	}
	if err != nil && !a.some {
		return nil, err
	}
	return a.results, err
}

type scatteredAppend struct {
	store   *Store
	name    string
	msgs    []Message
	options appendOptions
	results []Appended
	left    []int // messages not appended yet
	some    bool  // some messages have been appended
}

// attempt appends the remaining messages, with one command for each partition. again reports that
// all failures are due to a missing stream.
func (a *scatteredAppend) attempt(ctx context.Context) (again bool, err error) {
	sp, err := a.store.spec(ctx, a.name)
	if errors.Is(err, ErrNotFound) {
		sp, err = a.create(ctx)
	}
	if err != nil {
		return errors.Is(err, ErrNotFound), err
	}
	if p := a.options.partition; p > sp.partitions {
		return false, noSuchPartition(a.name, sp.partitions, p-1)
	}
	byPartition := make(map[int][]int)
	var order []int
	unkeyed := a.options.unkeyed(sp.partitions)
	for _, i := range a.left {
		p := partitionOf(a.msgs[i].Key, a.options.partition, unkeyed, sp.partitions)
		if byPartition[p] == nil {
			order = append(order, p)
		}
		byPartition[p] = append(byPartition[p], i)
	}
	if a.options.conditional() && len(order) > 1 {
		return false, engine.Errorf(ErrInvalid,
			"stream %q: messages for %d partitions, but Dedup and IfLastID allow one in a spread namespace", a.name, len(order))
	}
	var failed error
	a.left, again = nil, true
	for _, p := range order {
		if err := a.appendTo(ctx, p, byPartition[p], sp); err != nil {
			failed = errors.Join(failed, fmt.Errorf("partition %d: %w", p, err))
			a.left = append(a.left, byPartition[p]...)
			again = again && errors.Is(err, ErrNotFound)
		}
	}
	return again && failed != nil, failed
}

func (a *scatteredAppend) appendTo(ctx context.Context, p int, which []int, sp *spec) error {
	batch := make([]Message, len(which))
	for j, i := range which {
		batch[j] = a.msgs[i]
	}
	o := a.options
	o.partition = p + 1
	out, err := a.store.propose(ctx, at(appendOp(a.name, batch, o, sp), route(a.name, p)))
	if err != nil {
		return err
	}
	a.some = true
	all := out.([]Appended)
	if len(all) != len(which) {
		a.results = all // with Dedup, the result for other messages: there is no other partition
		return nil
	}
	for j, i := range which {
		a.results[i] = all[j]
	}
	return nil
}

// create creates the stream, unless the append would then be rejected.
func (a *scatteredAppend) create(ctx context.Context) (*spec, error) {
	o := &a.options
	if o.partition > 1 {
		return nil, noSuchPartition(a.name, 1, o.partition-1)
	}
	if o.expect {
		if err := compareLast(nil, a.name, 0, o.lastID); err != nil {
			return nil, err
		}
	}
	if err := a.store.Create(ctx, a.name); err != nil && !errors.Is(err, ErrExists) {
		return nil, err
	}
	return a.store.spec(ctx, a.name)
}
