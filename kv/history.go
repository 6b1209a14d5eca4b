package kv

import (
	"context"
	"github.com/floedb/floe/internal/engine"
	"time"
)

// Version is one version of a key.
type Version struct {
	Version   uint64
	Revision  uint64
	Term      uint64 // raft term in which it was written
	Time      time.Time
	Size      int // bytes of the value
	Tombstone bool
	Expired   bool   // a tombstone left by expiry, not by Delete
	Value     []byte // nil for a tombstone, and with NoValues
}

// HistoryOption changes what History returns.
type HistoryOption interface{ applyHistory(*historyQuery) }

// History returns the versions of key that are kept, newest first, tombstones included: at most 64. The tombstone of an
// expired key is made when its timer fires, soon after it has become invisible.
//
// Options: NoValues. Errors: ErrNotFound if the key never existed or was deleted long ago (see the package comment); ErrInvalid if the values
// exceed 128 MiB together.
func (s *Store) History(ctx context.Context, key string, opts ...HistoryOption) ([]Version, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	q := historyQuery{namespace: s.scope.Namespace(), key: key}
	opts, err := engine.Given(opts)
	if err != nil {
		return nil, err
	}
	for _, opt := range opts {
		opt.applyHistory(&q)
	}
	if err := s.scope.Query(ctx, key, &q); err != nil {
		return nil, err
	}
	if len(q.versions) == 0 {
		return nil, notFound(key)
	}
	return q.versions, nil
}
