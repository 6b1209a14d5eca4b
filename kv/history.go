package kv

import (
	"cmp"
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Version is one version of a key.
type Version struct {
	Version   uint64
	Revision  uint64
	Term      uint64 // raft term of the write
	Time      time.Time
	Size      int // bytes of the value
	Tombstone bool
	Expired   bool   // a tombstone left by expiry, not by Delete
	Value     []byte // nil for a tombstone, and with NoValues
}

// HistoryOption selects which versions of a key are listed, and how.
type HistoryOption interface{ versionOption }

// History is the history of a key: at most 64 versions, including tombstones.
type History struct {
	store *Store
	key   string
}

// History returns a handle that lists the versions of a key.
func (s *Store) History(key string) History { return History{s, key} }

// Page returns a page of the versions, newest first. A page ends early when its values exceed 4
// MiB. The tombstone of an expired key is written when its timer fires, soon after the key has
// become invisible.
//
// Options: Limit, Cursor, NoValues. Errors: ErrNotFound if the key never existed or was deleted
// long ago (see the package comment); ErrInvalid for a limit that is not 1-1000 and for a malformed
// cursor.
func (h History) Page(ctx context.Context, opts ...HistoryOption) (page Page[Version], err error) {
	o := listOptions{Listing: engine.NewListing()}
	engine.Apply(&o, opts)
	q := historyQuery{namespace: h.store.scope.Namespace(), key: h.key, withoutValues: o.withoutValues, limit: o.Limit}
	if o.Cursor != "" {
		if q.before, err = strconv.ParseUint(o.Cursor, 10, 64); err != nil || q.before == 0 ||
			strconv.FormatUint(q.before, 10) != o.Cursor {
			o.Fail(engine.BadCursor(o.Cursor))
		}
	}
	if err := cmp.Or(o.Err, checkKey(h.key)); err != nil {
		return page, err
	}
	if err := h.store.scope.Query(ctx, h.key, &q); err != nil {
		return page, err
	}
	if !q.found {
		return page, notFound(h.key)
	}
	if page.Items = q.versions; q.more {
		page.Cursor = strconv.FormatUint(q.versions[len(q.versions)-1].Version, 10)
	}
	return page, nil
}

// All iterates over the versions in the order of Page, with the contract of Store.All. Options and
// errors are those of Page.
func (h History) All(ctx context.Context, opts ...HistoryOption) iter.Seq2[Version, error] {
	return engine.All(ctx, h.Page, opts)
}
