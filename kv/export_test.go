package kv

import (
	"context"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Internals for the tests, which otherwise are users of the package.

// NumKinds is the highest command kind.
var NumKinds = uint8(len(table().Commands))

// Constants of the machine.
const (
	KindPut         = kindPut
	KindJSONSet     = kindJSONSet
	TombstoneMillis = tombstoneMillis
	MaxTombstones   = maxTombstones
	MaxRecent       = maxRecent
	MaxPageBytes    = maxPageBytes
)

// Functions of the machine.
var (
	ParsePath  = parsePath
	CheckJSON  = checkJSON
	SetJSON    = setJSON
	DeleteJSON = deleteJSON
	GetJSON    = getJSON
)

// LookedAt returns how many bytes of values an edit of a document scans.
func LookedAt(doc []byte, path, raw string) (int, error) {
	segments, err := parsePath(path)
	if err != nil {
		return 0, err
	}
	e := editor{doc: doc, path: path, raw: raw}
	e.edit(segments)
	return e.looked, e.err
}

// Row is a decoded version row.
type Row struct {
	Flags                             uint8
	Revision, Version, Previous, Term uint64
	UpdatedAt, ExpiresAt              int64
	Value                             []byte
}

// Tombstone reports whether the row is a tombstone.
func (r Row) Tombstone() bool { return r.Flags&flagTombstone != 0 }

// Expired reports whether the row is the tombstone of an expiry.
func (r Row) Expired() bool { return r.Flags&flagExpired != 0 }

// Expires reports whether the row has a time to live.
func (r Row) Expires() bool { return r.Flags&flagExpires != 0 }

// DecodeRow reads a version row.
func DecodeRow(b []byte) (Row, error) {
	w, err := decodeRow(b)
	return Row{w.flags, w.revision, w.version, w.previous, w.term, w.updatedAt, w.expiresAt, w.value}, err
}

// Encode is the inverse of DecodeRow.
func (r Row) Encode() []byte {
	w := row{
		flags: r.Flags, revision: r.Revision, version: r.Version, previous: r.Previous, term: r.Term,
		updatedAt: r.UpdatedAt, expiresAt: r.ExpiresAt, value: r.Value,
	}
	return w.encode(nil)
}

// DecodeBody decodes a command's body and returns the error, if any.
func DecodeBody(kind uint8, b []byte) error {
	_, err := commands.NewCalls().Read(engine.Command{Kind: kind, Body: b})
	return err
}

// PutCommandBody returns the body of a put with a time to live of any number of milliseconds.
func PutCommandBody(key string, ttlMillis uint64) []byte {
	b := append(codec.AppendString(nil, key), byte(always), 0)
	for ; ttlMillis >= 0x80; ttlMillis >>= 7 {
		b = append(b, byte(ttlMillis)|0x80)
	}
	return append(b, byte(ttlMillis))
}

// DecodeCursor returns the key after which a listing's cursor continues.
func (s *Store) DecodeCursor(prefix, cursor string) (string, error) {
	return s.decodeCursor(prefix, cursor)
}

// EncodeCursor is the inverse of DecodeCursor.
func (s *Store) EncodeCursor(prefix, key string) string { return s.encodeCursor(prefix, key) }

// ChangesBytes queries a shard once for the changes after a revision and returns the total bytes of
// their values.
func (s *Store) ChangesBytes(ctx context.Context, shard engine.ShardID, after uint64) (int, error) {
	q := changesQuery{namespace: s.scope.Namespace(), after: after, limit: watchPage}
	if err := s.scope.QueryShard(ctx, shard, &q); err != nil {
		return 0, err
	}
	n := 0
	for _, e := range q.events {
		n += len(e.Value)
	}
	return n, nil
}

// MachineOf returns a machine that keeps the given number of tombstones per namespace.
func MachineOf(tombstones int64) engine.Machine { return newMachineOf(tombstones) }

// Changes is a query for the changes after a revision. It can be repeated, as a router does when
// the shard's leader changes.
type Changes struct {
	store *Store
	q     changesQuery
}

// Changes returns the query for the keys with a prefix.
func (s *Store) Changes(prefix string, after uint64) *Changes {
	return &Changes{s, changesQuery{namespace: s.scope.Namespace(), prefix: prefix, after: after, limit: watchPage, patience: minPatience}}
}

// Ask queries shard 0 and returns the changed keys.
func (c *Changes) Ask(ctx context.Context) (keys []string, err error) {
	err = c.store.scope.QueryShard(ctx, 0, &c.q)
	for _, e := range c.q.events {
		keys = append(keys, e.Key)
	}
	return keys, err
}
