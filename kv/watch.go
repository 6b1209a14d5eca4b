package kv

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// EventType is the kind of change of a key.
type EventType uint8

// The types of events.
const (
	EventPut       EventType = iota + 1 // the key has a new value
	EventDelete                         // the key was deleted
	EventExpire                         // the key expired
	EventCompacted                      // changes were missed: discard all state, a snapshot follows
	EventProgress                       // all changes up to Revision have been delivered; see Progress
)

func (t EventType) String() string {
	switch t {
	case EventPut:
		return "put"
	case EventDelete:
		return "delete"
	case EventExpire:
		return "expire"
	case EventCompacted:
		return "compacted"
	case EventProgress:
		return "progress"
	}
	return "unknown"
}

// Event is a change of a key. Compacted and Progress events have no key.
type Event struct {
	Type     EventType
	Key      string
	Value    []byte // for a put
	Revision uint64
	Version  uint64
	Time     time.Time
}

// WatchOption is an option of Watch.
type WatchOption interface{ applyWatch(*watchOptions) }

type watchOption func(*watchOptions)

func (f watchOption) applyWatch(o *watchOptions) { f(o) }

type watchOptions struct {
	from     uint64
	resumed  bool
	progress bool
}

// FromRevision makes Watch start with the first change after revision r instead of a snapshot. It
// requires a namespace that is not spread: revisions of different shards cannot be compared.
func FromRevision(r uint64) WatchOption {
	return watchOption(func(o *watchOptions) { o.from, o.resumed = r, true })
}

// Progress adds EventProgress events: after the snapshot, whenever the watch has delivered all
// changes it found, and about every 10 s while only other keys of the shard change. A watch resumed
// from such a revision misses nothing and repeats nothing. The revision of a snapshot's event is
// not suitable, because a snapshot comes in key order. In a spread namespace, progress events are
// per shard and useless.
func Progress() WatchOption { return watchOption(func(o *watchOptions) { o.progress = true }) }

// How long a watch waits for changes, in ms, before it requests the shard's current revision, with
// and without Progress. Without Progress this only helps a watch that resumes after its node
// failed.
const (
	minPatience = 10_000
	maxPatience = 60_000
)

// watchPage is the maximum number of changes or entries that one request fetches.
const watchPage = 256

// Watch iterates over the keys that start with prefix, until ctx is done. It first yields a put
// event for every existing key, then every change exactly once and in order per key. Each pair is
// an event and nil, or a zero Event and an error (in the end ctx's), after which iteration ends. If
// the consumer is so slow that changes are dropped from the history, the watch sends EventCompacted
// and then a new snapshot. Between two requests the node keeps no state for the watcher.
//
// Options: FromRevision, Progress. Errors: ErrInvalid for a prefix of more than 4096 bytes, and for
// FromRevision in a spread namespace or ahead of the shard. With floe.Stale, Watch waits for a
// replica that has not reached the revision.
func (s *Store) Watch(ctx context.Context, prefix string, opts ...WatchOption) iter.Seq2[Event, error] {
	var o watchOptions
	opts, bad := engine.Given(opts)
	for _, opt := range opts {
		opt.applyWatch(&o)
	}
	return func(yield func(Event, error) bool) {
		ctx := engine.Lasting(ctx)
		if err := cmp.Or(bad, engine.CheckPrefix(prefix, MaxKeyBytes)); err != nil {
			yield(Event{}, err)
			return
		}
		shards, err := s.watchedShards(ctx)
		if err == nil && o.resumed && len(shards) > 1 {
			err = engine.Errorf(ErrInvalid, "kv: namespace %q is spread: a watch cannot resume from a revision", s.scope.Namespace())
		}
		if err != nil {
			yield(Event{}, err)
			return
		}
		if len(shards) == 1 {
			w := shardWatch{store: s, shard: shards[0], prefix: prefix, after: o.from, live: o.resumed, progress: o.progress}
			w.run(ctx, yield)
			return
		}
		s.watchAll(ctx, prefix, shards, yield)
	}
}

// watchedShards waits until the namespace exists, because only then is it known whether it is
// spread.
func (s *Store) watchedShards(ctx context.Context) ([]engine.ShardID, error) {
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	return s.scope.Shards(ctx)
}

func (s *Store) await(ctx context.Context) error {
	if err := engine.CheckName("namespace", s.scope.Namespace()); err != nil {
		return err
	}
	return s.scope.Await(ctx)
}

// watchAll runs one watch per shard of a spread namespace and passes on their events.
func (s *Store) watchAll(ctx context.Context, prefix string, shards []engine.ShardID, yield func(Event, error) bool) {
	type pair struct {
		event Event
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	pairs, done := make(chan pair), make(chan struct{})
	for _, shard := range shards {
		go func() {
			defer func() { done <- struct{}{} }()
			w := shardWatch{store: s, shard: shard, prefix: prefix}
			w.run(ctx, func(e Event, err error) bool {
				select {
				case pairs <- pair{e, err}:
					return true
				case <-ctx.Done():
					return false
				}
			})
		}()
	}
	defer func() {
		cancel()
		for range shards {
			<-done
		}
	}()
	for {
		select {
		case p := <-pairs:
			if !yield(p.event, p.err) || p.err != nil {
				return
			}
		case <-ctx.Done():
			yield(Event{}, ctx.Err())
			return
		}
	}
}

// shardWatch is a watch of one shard. It has a position and, during and just after a snapshot, the
// keys that are ahead of that position.
type shardWatch struct {
	store  *Store
	shard  engine.ShardID
	prefix string
	after  uint64
	live   bool              // past the snapshot
	ahead  map[string]uint64 // key -> revision the snapshot showed, where later than after

	queue    []recentKey // see changesQuery
	queueEnd uint64
	scanned  string
	progress bool
}

func (w *shardWatch) run(ctx context.Context, yield func(Event, error) bool) {
	for {
		if !w.live {
			if !w.snapshot(ctx, yield) {
				return
			}
			w.live = true
			if len(w.ahead) == 0 && !w.tellProgress(yield) {
				return
			}
		}
		q := changesQuery{
			namespace: w.store.scope.Namespace(), prefix: w.prefix, after: w.after, limit: watchPage, queue: w.queue, queueEnd: w.queueEnd,
			scanned: w.scanned, patience: maxPatience,
		}
		if w.progress {
			q.patience = minPatience
		}
		if err := w.store.scope.QueryShard(ctx, w.shard, &q); err != nil {
			yield(Event{}, err)
			return
		}
		w.queue, w.queueEnd, w.scanned = q.queue, q.queueEnd, q.scanned
		if q.compacted {
			w.live = false
			if !yield(Event{Type: EventCompacted}, nil) {
				return
			}
			continue
		}
		for _, e := range q.events {
			if e.Revision > w.ahead[e.Key] && !yield(e, nil) {
				return
			}
		}
		w.advance(q.next)
		if len(w.queue) == 0 && w.scanned == "" && len(w.ahead) == 0 && !w.tellProgress(yield) {
			return
		}
	}
}

func (w *shardWatch) tellProgress(yield func(Event, error) bool) bool {
	return !w.progress || yield(Event{Type: EventProgress, Revision: w.after}, nil)
}

// snapshot yields all entries, page by page. The position is that of the first page. Newer states
// on later pages are recorded, so that they are not delivered again.
func (w *shardWatch) snapshot(ctx context.Context, yield func(Event, error) bool) bool {
	w.ahead = make(map[string]uint64)
	q := &scanQuery{namespace: w.store.scope.Namespace(), prefix: w.prefix, limit: watchPage, maxBytes: maxPageBytes, position: true}
	for first := true; ; first = false {
		if err := w.store.scope.QueryShard(ctx, w.shard, q); err != nil {
			yield(Event{}, err)
			return false
		}
		if first {
			w.after = q.lsn
		}
		for _, it := range q.items {
			if it.Revision > w.after {
				w.ahead[strings.Clone(it.Key)] = it.Revision
			}
			e := Event{Type: EventPut, Key: it.Key, Value: it.Value, Revision: it.Revision, Version: it.Version, Time: it.UpdatedAt}
			if !yield(e, nil) {
				return false
			}
		}
		if !q.more {
			return true
		}
		q = &scanQuery{namespace: q.namespace, prefix: q.prefix, limit: q.limit, maxBytes: q.maxBytes, after: q.last}
	}
}

func (w *shardWatch) advance(next uint64) {
	w.after = next
	for k, r := range w.ahead {
		if r <= next {
			delete(w.ahead, k)
		}
	}
}

// Wait returns the entry at key as soon as it exists, or ctx's error.
func (s *Store) Wait(ctx context.Context, key string) (Entry, error) {
	if err := checkKey(key); err != nil {
		return Entry{}, err
	}
	ctx = engine.Lasting(ctx)
	if err := s.await(ctx); err != nil {
		return Entry{}, err
	}
	for {
		q := waitQuery{namespace: s.scope.Namespace(), key: key, exists: true}
		if err := s.scope.Query(ctx, key, &q); err != nil {
			return Entry{}, err
		}
		// The event has no expiry; read the entry, which may already be gone.
		e, err := s.Get(ctx, key)
		if err == nil {
			return e, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return Entry{}, err
		}
	}
}

// WaitChange returns the latest change of key, a put, delete or expiry, as soon as its revision is
// greater than after. Changes in between are skipped. With after 0 it waits for the first change.
// If key does not exist and its history may have been dropped since after, WaitChange reports a
// delete.
//
// Errors: ErrInvalid for a revision ahead of the key's shard; with floe.Stale, WaitChange waits for
// a replica that has not reached it. ErrUnavailable; ctx's error.
func (s *Store) WaitChange(ctx context.Context, key string, after uint64) (Event, error) {
	if err := checkKey(key); err != nil {
		return Event{}, err
	}
	ctx = engine.Lasting(ctx)
	if err := s.await(ctx); err != nil {
		return Event{}, err
	}
	q := waitQuery{namespace: s.scope.Namespace(), key: key, after: after}
	err := s.scope.Query(ctx, key, &q)
	return q.event, err
}
