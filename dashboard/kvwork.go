package dashboard

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rawjson"
	"github.com/floedb/floe/kv"
)

const (
	kvPath   = "/api/v1/kv/namespaces/:namespace"
	getsPath = kvPath + "/get"
)

var kvWorkRoutes = []route{
	endpoint("PATCH "+kvPath+"/keys/:key", (*handler).patchKey,
		"Set and delete values inside a JSON document, by their paths: all of them, or none."),
	endpoint("POST "+kvPath+"/keys/:key/incr", (*handler).incrKey, "Add to a number. A key that does not exist counts as 0; only then does ttl_ms apply."),
	endpoint("POST "+kvPath+"/keys/:key/touch", (*handler).touchKey, "Make a key expire ttl_ms from now; 0 means never."),
	endpoint("POST "+getsPath, (*handler).getKeys, "Get up to 1,000 keys. Those that do not exist are left out; unread are those behind 4 MiB of values."),
	endpoint("POST "+kvPath+"/locks/:key/acquire", (*handler).acquireLock,
		"Acquire a lock for ttl_ms. Later holders have greater tokens. With wait_ms it waits for the lock."),
	endpoint("POST "+kvPath+"/locks/:key/renew", (*handler).renewLock, "Make a lock expire ttl_ms from now."),
	endpoint("POST "+kvPath+"/locks/:key/release", (*handler).releaseLock, "Release a lock."),
}

// ttlRange is the range of ttl_ms.
var ttlRange = codec.Range{Min: 1, Max: ttlSeconds.max * 1000}

// keyDone is the response to an operation on a key.
type keyDone struct {
	OK        bool   `json:"ok"`
	Key       string `json:"key"`
	Namespace string `json:"namespace"`
}

// patchRequest has changes of a document.
type patchRequest struct {
	keyRequest
	documentEdits
}

func (q *patchRequest) parse(in *input) {
	q.keyRequest.parse(in)
	readFields(in, &q.documentEdits, (*documentEdits).fields)
	if in.err == nil {
		if err := q.check(); err != nil {
			in.invalid("body: %v", err)
		}
	}
}

// documentEdits are changes of a document, which are made in the order of the body: first set, then
// delete.
type documentEdits struct {
	set     []documentEdit
	deleted []string
}

type documentEdit struct {
	path  string
	value []byte
}

func (e *documentEdits) fields(f *codec.Fields) {
	if !f.Checking() && f.Given("set", false) {
		f.Custom("set", codec.Custom{Type: codec.ObjectType, Parse: e.parseSet})
	}
	codec.ListOf(f, "delete", &e.deleted, codec.Text, codec.Range{Max: maxEdits})
}

func (e *documentEdits) check() error {
	if len(e.set)+len(e.deleted) == 0 {
		return engine.Errorf(engine.ErrInvalid, "it takes set, delete or both")
	}
	for _, edit := range e.set {
		if slices.Contains(e.deleted, edit.path) {
			return engine.Errorf(engine.ErrInvalid, "path %.64q is both set and deleted", edit.path)
		}
	}
	return nil
}

// ops returns the changes as operations, at least one.
func (e *documentEdits) ops(key string) (ops []kv.OpOf[kv.Written]) {
	for _, edit := range e.set {
		ops = append(ops, kv.JSONSetOp(key, edit.path, edit.value))
	}
	for _, path := range e.deleted {
		ops = append(ops, kv.JSONDeleteOp(key, path))
	}
	return ops
}

// maxEdits is the maximum number of paths to set, and of paths to delete.
const maxEdits = 100

func (e *documentEdits) parseSet(value []byte) error {
	twice := false
	object := rawjson.EachMember(value, func(key, value []byte) bool {
		path, _ := rawjson.Text(key)
		twice = slices.ContainsFunc(e.set, func(e documentEdit) bool { return e.path == path })
		e.set = append(e.set, documentEdit{path, slices.Clone(value)})
		return len(e.set) <= maxEdits && !twice
	})
	switch {
	case twice:
		return engine.Errorf(engine.ErrInvalid, "path %.64q is given twice", e.set[len(e.set)-1].path)
	case len(e.set) > maxEdits:
		return engine.Errorf(engine.ErrInvalid, "more than %d paths", maxEdits)
	case !object:
		return engine.Errorf(engine.ErrInvalid, "want an object of values by path")
	}
	return nil
}

// keyPatched is the response to PATCH.
type keyPatched struct {
	keyDone
	Version uint64 `json:"version"`
	LSN     uint64 `json:"lsn"`
}

func (h *handler) patchKey(ctx context.Context, q patchRequest) (keyPatched, error) {
	ops := q.ops(q.key)
	txn := h.backend.Txn(q.namespace)
	for _, op := range ops {
		txn.Do(op)
	}
	res, err := txn.Commit(ctx)
	if err != nil {
		return keyPatched{}, err
	}
	written, err := ops[len(ops)-1].Result(res)
	return keyPatched{keyDone{true, q.key, q.namespace}, written.Version, written.Revision}, err
}

// incrRequest adds to a number, within bounds.
type incrRequest struct {
	keyRequest
	increment
}

func (q *incrRequest) parse(in *input) {
	q.keyRequest.parse(in)
	q.increment = defaultIncrement
	readFields(in, &q.increment, (*increment).fields)
}

// increment is a number to add, with the bounds of the sum.
type increment struct {
	by, min, max int64
	ttl          time.Duration // of a key that it creates; 0: none
}

var defaultIncrement = increment{by: 1, min: math.MinInt64, max: math.MaxInt64}

func (i *increment) fields(f *codec.Fields) {
	f.Varint("by", &i.by)
	f.Varint("min", &i.min)
	f.Varint("max", &i.max)
	f.Duration("ttl_ms", &i.ttl, codec.Range{Max: ttlRange.Max})
}

func (i *increment) options() []kv.IncrOption {
	opts := []kv.IncrOption{kv.Min(i.min), kv.Max(i.max)}
	if i.ttl > 0 {
		opts = append(opts, kv.TTL(i.ttl))
	}
	return opts
}

// countedKey is the response to incr.
type countedKey struct {
	Value    int64  `json:"value"`
	Version  uint64 `json:"version"`
	Revision uint64 `json:"revision"`
}

func showCounted(c kv.Counted) countedKey { return countedKey{c.Value, c.Version, c.Revision} }

func (h *handler) incrKey(ctx context.Context, q incrRequest) (countedKey, error) {
	counted, err := h.backend.KV(q.namespace).Incr(ctx, q.key, q.by, q.options()...)
	return showCounted(counted), err
}

// touchKeyRequest has the new time to live of a key; 0 means none.
type touchKeyRequest struct {
	keyRequest
	ttl time.Duration
}

func (q *touchKeyRequest) parse(in *input) {
	q.keyRequest.parse(in)
	readFields(in, q, (*touchKeyRequest).fields)
}

func (q *touchKeyRequest) fields(f *codec.Fields) {
	need(f, "ttl_ms")
	f.Duration("ttl_ms", &q.ttl, codec.Range{Max: ttlRange.Max})
}

func (h *handler) touchKey(ctx context.Context, q touchKeyRequest) (keyDone, error) {
	store := h.backend.KV(q.namespace)
	if q.ttl == 0 {
		return keyDone{true, q.key, q.namespace}, store.Persist(ctx, q.key)
	}
	return keyDone{true, q.key, q.namespace}, store.Touch(ctx, q.key, q.ttl)
}

// keysGetRequest names keys.
type keysGetRequest struct {
	namespace string
	keys      []string
	encoding  encoding
}

func (q *keysGetRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.encoding = in.encoding()
	readFields(in, q, (*keysGetRequest).fields)
	given := make(map[string]bool, len(q.keys))
	for i, key := range q.keys {
		decoded, err := q.encoding.decoded("a key in the body", key)
		if in.check(err); given[decoded] {
			in.invalid("body: key %.64q is given twice", key)
		}
		q.keys[i], given[decoded] = decoded, true
	}
}

func (q *keysGetRequest) fields(f *codec.Fields) { texts(f, "keys", &q.keys, pageLimit.max) }

// keyItems has the existing ones of the requested keys, in the order of the request. Unread are the
// keys that were left for another request, because the values before them exceed 4 MiB.
type keyItems struct {
	Items  []keyItem `json:"items"`
	Unread []string  `json:"unread"`
}

type keyItem struct {
	Key       string `json:"key"`
	Value     string `json:"value"`
	Version   uint64 `json:"version"`
	Revision  uint64 `json:"revision"`
	TTLMillis *int64 `json:"ttl_ms"` // null: it does not expire
}

// getKeys reads as many keys at a time as fit into the limit if they are like those before, and
// first as many as fit in any case.
func (h *handler) getKeys(ctx context.Context, q keysGetRequest) (keyItems, error) {
	store := h.backend.KV(q.namespace)
	all := keyItems{[]keyItem{}, []string{}}
	n := max(maxListedBytes/h.backend.MaxValueSize(), 1)
	for keys, size, read := q.keys, 0, 0; len(keys) > 0; {
		if size >= maxListedBytes {
			for _, key := range keys {
				all.Unread = append(all.Unread, q.encoding.encoded(key))
			}
			break
		}
		some := keys[:min(n, len(keys))]
		keys = keys[len(some):]
		found, err := store.GetMany(ctx, some...)
		if err != nil {
			return keyItems{}, err
		}
		for _, key := range some {
			if entry, ok := found[key]; ok {
				all.Items = append(all.Items, keyItem{q.encoding.encoded(key), q.encoding.encoded(string(entry.Value)), entry.Version,
					entry.Revision, h.ttlMillis(entry)})
				size += len(entry.Value)
			}
		}
		read += len(some)
		n = max((maxListedBytes-size)*read/max(size, 1), 1)
	}
	return all, nil
}

// acquireRequest asks for a lock, which is a key.
type acquireRequest struct {
	keyRequest
	wait
	ttl time.Duration
}

func (q *acquireRequest) parse(in *input) {
	q.keyRequest.parse(in)
	q.wait.parse(in)
	readFields(in, q, (*acquireRequest).fields)
}

func (q *acquireRequest) fields(f *codec.Fields) {
	need(f, "ttl_ms")
	f.Duration("ttl_ms", &q.ttl, ttlRange)
	q.wait.fields(f)
}

// lockHeld is the response to acquire and renew. Until the time, the lock is certainly held.
type lockHeld struct {
	Token     uint64 `json:"token"`
	ExpiresAt int64  `json:"expires_at"`
}

// acquireLock waits for changes of the key, and tries to acquire the lock after each one: a wait
// that ends never leaves the lock to a client that does not know of it.
func (h *handler) acquireLock(ctx context.Context, q acquireRequest) (lockHeld, error) {
	store := h.backend.KV(q.namespace)
	end := time.Now().Add(q.time)
	for {
		until := h.now().Add(q.ttl)
		lock, err := store.TryLock(ctx, q.key, q.ttl)
		if err == nil {
			return lockHeld{lock.Token(), until.UnixMilli()}, nil
		}
		var held *kv.ConflictError
		if !errors.As(err, &held) {
			return lockHeld{}, err
		}
		taken := engine.Errorf(engine.ErrConflict, "lock %q is held", q.key)
		if !time.Now().Before(end) {
			return lockHeld{}, taken
		}
		if err := q.in.leaveSlot(); err != nil {
			return lockHeld{}, err
		}
		waiting, cancel := context.WithDeadline(ctx, end)
		_, changed := store.WaitChange(waiting, q.key, held.Revision)
		cancel()
		switch {
		case ctx.Err() != nil:
			return lockHeld{}, context.Cause(ctx)
		case changed != nil && waiting.Err() != nil:
			return lockHeld{}, taken
		case changed != nil:
			return lockHeld{}, changed
		}
	}
}

// lockRequest names a lock that the caller holds.
type lockRequest struct {
	keyRequest
	token uint64
}

func (q *lockRequest) parse(in *input) {
	q.keyRequest.parse(in)
	readFields(in, q, (*lockRequest).fields)
}

func (q *lockRequest) fields(f *codec.Fields) {
	f.Uvarint("token", &q.token, codec.Range{Min: 1, Max: math.MaxInt64})
}

func (h *handler) releaseLock(ctx context.Context, q lockRequest) (keyDone, error) {
	_, err := h.backend.KV(q.namespace).Delete(ctx, q.key, kv.IfRevision(q.token))
	return keyDone{true, q.key, q.namespace}, err
}

type renewRequest struct {
	lockRequest
	ttl time.Duration
}

func (q *renewRequest) parse(in *input) {
	q.keyRequest.parse(in)
	readFields(in, q, (*renewRequest).fields)
}

func (q *renewRequest) fields(f *codec.Fields) {
	q.lockRequest.fields(f)
	need(f, "ttl_ms")
	f.Duration("ttl_ms", &q.ttl, ttlRange)
}

func (h *handler) renewLock(ctx context.Context, q renewRequest) (lockHeld, error) {
	until := h.now().Add(q.ttl)
	err := h.backend.KV(q.namespace).Touch(ctx, q.key, q.ttl, kv.IfRevision(q.token))
	return lockHeld{q.token, until.UnixMilli()}, err
}
