// Package kv is floe's key-value store: linearizable, with conditions, expiry, history, watches and
// locks.
//
//	node, _ := floe.Open(floe.Config{DataDir: "data"})
//	store := node.KV("default")
//	w, err := store.Put(ctx, "user:42", []byte(`{"name":"Ada"}`), kv.TTL(time.Hour))
//	e, err := store.Get(ctx, "user:42")
//	_, err = store.Put(ctx, "user:42", v, kv.IfRevision(w.Revision)) // compare and set
//	_, err = store.Update(ctx, "user:42", func(e kv.Entry) ([]byte, error) { ... }) // the same, until it succeeds
//	user, err := kv.JSON[User](store).Get(ctx, "user:42")
//
// # Concepts
//
// An entry has a Revision, the log sequence number of its last write, and a Version, which counts
// the key's writes. Every write, delete and expiry is one version. History returns the last 64
// versions of a key, and a Watch resumes from them. A deleted key leaves a tombstone. Its history
// is kept for a day, or until 100,000 more keys of the namespace have been deleted in the same
// shard.
//
// # Guarantees
//
// When a write returns nil, it is committed (see floe.Config.Durability) and visible to every
// reader. Operations on one key are linearizable. A transaction (floe.Node.Txn) changes several
// keys of one namespace atomically. A watch delivers every change of a key once and in order. If it
// cannot, it sends EventCompacted. An expired key is invisible at once; counts and watchers are
// updated soon after.
//
// # Limits
//
// Keys are 1 to 4096 arbitrary bytes, values up to floe.Config.MaxValueSize (1 MiB by default).
// Revisions of different shards cannot be compared, which matters only in spread namespaces.
package kv
