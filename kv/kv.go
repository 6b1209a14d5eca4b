package kv

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// MaxKeyBytes is the maximum length of a key.
const MaxKeyBytes = 4096

// DefaultMaxValueBytes is the default maximum length of a value.
const DefaultMaxValueBytes = 1 << 20

// MaxVersions is the maximum number of versions in a key's history, including the current one.
const MaxVersions = 64

// The errors of the store; the same values as in package floe.
var (
	ErrNotFound = engine.ErrNotFound // the key does not exist
	ErrConflict = engine.ErrConflict // a condition (*ConflictError) or a bound (*BoundError) does not hold
	ErrInvalid  = engine.ErrInvalid  // an argument is malformed or exceeds its limits
)

// ConflictError is the ErrConflict for a condition that does not hold.
type ConflictError struct {
	Key      string
	Revision uint64 // the key's current revision, 0 if it does not exist
	Want     string // the condition, such as "absent" or "revision 7"
}

func (e *ConflictError) Error() string {
	present := "absent"
	if e.Revision != 0 {
		present = fmt.Sprintf("at revision %d", e.Revision)
	}
	return engine.Text("kv: key %q is %s, want %s", e.Key, present, e.Want)
}

// Unwrap returns ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// BoundError is the ErrConflict for an increment that would leave its bounds. Nothing was written.
type BoundError struct {
	Key      string
	Value    int64 // current value of the key, 0 if it does not exist
	Delta    int64 // the increment
	Min, Max int64 // the bounds; the minimum and maximum int64 if not given
}

func (e *BoundError) Error() string {
	return engine.Text("kv: key %q: %d + %d = %d is not in [%d, %d]", e.Key, e.Value, e.Delta, e.Value+e.Delta, e.Min, e.Max)
}

// Unwrap returns ErrConflict.
func (e *BoundError) Unwrap() error { return ErrConflict }

// Entry is a key with its current value.
type Entry struct {
	Key       string
	Value     []byte // owned by the caller
	Revision  uint64 // log sequence number of its last write; use it with IfRevision
	Version   uint64 // number of versions the key has had, 1 for a new key
	UpdatedAt time.Time
	ExpiresAt time.Time // zero: never
}

// Written is the result of a write.
type Written struct {
	Revision uint64
	Version  uint64
}

// Counted is the result of an increment.
type Counted struct {
	Written
	Value int64 // the sum
}

// Store is the key-value store of one namespace. It is cheap to make, safe for concurrent use and
// needs no Close.
type Store struct{ scope engine.Scope }

// Namespace returns the namespace of the store.
func (s *Store) Namespace() string { return s.scope.Namespace() }

// Put stores value at key. Without options it replaces the current value and clears an earlier
// expiry. value may be reused on return. When Put returns nil, the value is committed (see
// floe.Config.Durability) and visible to every reader. After a ctx error or ErrUnknownOutcome it
// may or may not have been stored.
//
// Options: TTL, KeepTTL, IfAbsent, IfPresent, IfRevision. Errors: *ConflictError if a condition
// does not hold; ErrInvalid for a key that is not 1-4096 bytes, a value over the limit, a TTL that
// is not positive, contradicting conditions.
func (s *Store) Put(ctx context.Context, key string, value []byte, opts ...PutOption) (Written, error) {
	return engine.Propose(ctx, &s.scope, putOp(key, value, opts), put.Decode)
}

// Get returns the entry at key, or ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (Entry, error) { return s.GetInto(ctx, key, nil) }

// GetInto is Get with a reusable buffer. It appends the value to buf[:0], so the entry's value
// shares memory with buf unless the value did not fit.
func (s *Store) GetInto(ctx context.Context, key string, buf []byte) (Entry, error) {
	if err := checkKey(key); err != nil {
		return Entry{}, err
	}
	b, cached := s.scope.Cached(engine.MachineKV, 'c', key)
	if cached && ctx.Err() == nil {
		if e, ok := plainEntry(key, b, buf); ok {
			return e, nil
		}
	}
	return s.query(ctx, key, buf, cached)
}

// query reads a key from its shard. counted means that the read is already in the statistics.
func (s *Store) query(ctx context.Context, key string, buf []byte, counted bool) (Entry, error) {
	q := getQuery{namespace: s.scope.Namespace(), keys: []string{key}, counted: counted}
	if err := s.scope.Query(ctx, key, &q); err != nil {
		return Entry{}, err
	}
	if len(q.entries) == 0 {
		return Entry{}, notFound(key)
	}
	e := q.entries[0]
	if cap(buf) > 0 {
		e.Value = append(buf[:0], e.Value...)
	}
	return e, nil
}

// GetMany returns the existing entries among keys, by key. A key given twice is read once. The
// shards are read concurrently. Each takes one round trip per 8 MiB of values or 1 MiB of keys. The
// entries of one round trip reflect one state of their shard.
//
// Errors: ErrInvalid for a key that is not 1-4096 bytes.
func (s *Store) GetMany(ctx context.Context, keys ...string) (map[string]Entry, error) {
	byShard := make(map[engine.ShardID][]string)
	for _, k := range keys {
		if err := checkKey(k); err != nil {
			return nil, err
		}
		shard, err := s.scope.Shard(ctx, k)
		if err != nil {
			return nil, err
		}
		byShard[shard] = append(byShard[shard], k)
	}
	shards := slices.Sorted(maps.Keys(byShard))
	parts, errs := make([][]Entry, len(shards)), make([]error, len(shards))
	s.scope.Each(len(shards), func(i int) { parts[i], errs[i] = s.getFrom(ctx, shards[i], byShard[shards[i]]) })
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return nil, errs[i]
	}
	found := make(map[string]Entry, len(keys))
	for _, part := range parts {
		for _, e := range part {
			found[e.Key] = e
		}
	}
	return found, nil
}

// maxGetKeys bounds the bytes of the keys in one query: a request has room for 8 MiB.
const maxGetKeys = 1 << 20

// getFrom returns the entries of the existing keys of a shard, with as many queries as the limits
// of requests and answers require.
func (s *Store) getFrom(ctx context.Context, shard engine.ShardID, keys []string) (found []Entry, err error) {
	slices.Sort(keys)
	for keys = slices.Compact(keys); len(keys) > 0; {
		n := 0
		for size := 0; n < len(keys) && size < maxGetKeys; n++ {
			size += len(keys[n])
		}
		q := getQuery{namespace: s.scope.Namespace(), keys: keys[:n]}
		if err := s.scope.QueryShard(ctx, shard, &q); err != nil {
			return nil, err
		}
		found = append(found, q.entries...)
		keys = keys[n-q.left:]
	}
	return found, nil
}

// Exists reports whether key has a value.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	q := getQuery{namespace: s.scope.Namespace(), keys: []string{key}, withoutValues: true}
	err := s.scope.Query(ctx, key, &q)
	return len(q.entries) > 0, err
}

// Delete removes key and leaves a tombstone in its history.
//
// Options: IfRevision. Errors: ErrNotFound if it does not exist, *ConflictError.
func (s *Store) Delete(ctx context.Context, key string, opts ...DeleteOption) (Written, error) {
	return engine.Propose(ctx, &s.scope, deleteOp(key, opts), remove.Decode)
}

// Touch makes key expire ttl from now. Its value, revision and version do not change, and watchers
// are not notified.
//
// Options: IfRevision. Errors: ErrNotFound, *ConflictError, ErrInvalid if ttl is not positive.
func (s *Store) Touch(ctx context.Context, key string, ttl time.Duration, opts ...TouchOption) error {
	_, err := engine.Propose(ctx, &s.scope, touchOp(key, ttl, opts), touch.Decode)
	return err
}

// Persist removes the expiry of key. Errors: ErrNotFound.
func (s *Store) Persist(ctx context.Context, key string) error {
	_, err := engine.Propose(ctx, &s.scope, persistOp(key), touch.Decode)
	return err
}

// Incr adds delta to the decimal integer stored at key and returns the sum; a missing key counts as
// 0. An existing expiry is kept. A TTL applies only to a key that Incr creates, so a
// counter's first increment sets its lifetime. When Incr returns nil, the value is committed and
// visible to every reader. After a ctx error the increment may or may not have happened.
//
// Options: Min, Max, TTL. Errors: *BoundError, which is ErrConflict, if the sum is out of bounds;
// ErrInvalid if the stored value is not a decimal integer, if the sum leaves the int64 range, and
// for a TTL that is not positive. Nothing is written then.
func (s *Store) Incr(ctx context.Context, key string, delta int64, opts ...IncrOption) (Counted, error) {
	return engine.Propose(ctx, &s.scope, incrOp(key, delta, opts), incr.Decode)
}

func checkKey(key string) error {
	if key == "" {
		return engine.Errorf(ErrInvalid, "kv: key is empty")
	}
	if len(key) > MaxKeyBytes {
		return engine.Errorf(ErrInvalid, "kv: key of %d bytes exceeds %d", len(key), MaxKeyBytes)
	}
	return nil
}

func notFound(key string) error {
	return engine.Errorf(ErrNotFound, "kv: key %q not found", shown(key))
}

// shown truncates an argument for an error message: keys and paths may be long.
func shown(s string) string { return engine.Cut(s, 200) }
