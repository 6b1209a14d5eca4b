package dashboard

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

var kvRoutes = []route{
	endpoint("GET /api/v1/kv/namespaces", (*handler).kvNamespaces, "List all namespaces with their keys, bytes and operations."),
	endpoint("GET /api/v1/kv/namespaces/:namespace/keys", (*handler).keys, "List the keys with a prefix."),
	endpoint("GET /api/v1/kv/namespaces/:namespace/keys/:key", (*handler).key, "Get a key with its value."),
	endpoint("PUT /api/v1/kv/namespaces/:namespace/keys/:key", (*handler).putKey, "Store a value."),
	endpoint("DELETE /api/v1/kv/namespaces/:namespace/keys/:key", (*handler).deleteKey, "Delete a key."),
	endpoint("GET /api/v1/kv/namespaces/:namespace/keys/:key/history", (*handler).keyHistory, "List the versions of a key, newest first."),
	endpoint("GET /api/v1/console/kv/namespaces/:namespace/keys", (*handler).keyRows,
		"List the keys with a prefix, their expiry, and the beginning of their values."),
}

// kvNamespace is an item of /kv/namespaces.
type kvNamespace struct {
	Name        string `json:"name"`
	KeyCount    int64  `json:"key_count"`
	BytesStored int64  `json:"bytes_stored"`
	GetOps      int64  `json:"get_ops"`
	SetOps      int64  `json:"set_ops"`
	DeleteOps   int64  `json:"delete_ops"`
}

// kvNamespaces lists the namespaces with keys.
func (h *handler) kvNamespaces(ctx context.Context, q namespacesRequest) (listing[kvNamespace], error) {
	// It reads whole pages: of many namespaces few may have keys.
	page := func(after string, n int) ([]floe.NamespaceStats, string, error) {
		p, err := h.backend.Namespaces().Page(ctx, floe.Cursor(after), floe.Limit(maxPage))
		holding := slices.DeleteFunc(p.Items, func(info floe.NamespaceStats) bool { return !holdsKeys(info) })
		if len(holding) > n {
			return holding[:n], holding[n-1].Name, err
		}
		return holding, p.Cursor, err
	}
	return collect(q.after, q.limit, page, func(info floe.NamespaceStats) kvNamespace {
		return kvNamespace{
			Name:        info.Name,
			KeyCount:    info.Counts.Keys,
			BytesStored: info.Counts.KeyBytes,
			GetOps:      info.Counts.KeyReads,
			SetOps:      info.Counts.KeySets,
			DeleteOps:   info.Counts.KeyDeletes,
		}
	}, nil)
}

// holdsKeys reports whether a namespace has keys: /kv/namespaces lists such namespaces, and
// kv_namespaces of /metrics counts them.
func holdsKeys(info floe.NamespaceStats) bool { return info.Counts.Keys > 0 }

// keysRequest asks for a page of keys: after the cursor of the previous page, with the same prefix,
// or after a key, encoded as in the listing.
type keysRequest struct {
	namespace string
	prefix    string
	limit     int
	place     kv.ListOption // where to continue
	encoding  encoding
}

func (q *keysRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.prefix = in.text("prefix")
	q.limit = int(in.integer("limit", pageLimit))
	q.encoding = in.encoding()
	cursor, given := in.named("cursor")
	after, also := in.named("after")
	if given && also {
		in.invalid("parameters cursor, of the page before, and after, a key, exclude each other")
	}
	if q.place = kv.Cursor(cursor); also {
		key, err := q.encoding.decoded("parameter after", after)
		in.check(err)
		q.place = kv.After(key)
	}
}

// keyPage is a page of keys; Cursor is "" if there are no more.
type keyPage struct {
	Keys      []scanItem `json:"keys"`
	Count     int        `json:"count"` // of this page
	HasMore   bool       `json:"has_more"`
	Cursor    string     `json:"cursor"`
	Namespace string     `json:"namespace"`
}

func (p keyPage) next() (name, value string) { return "cursor", p.Cursor }

// scanItem is a key in a listing.
type scanItem struct {
	Key     string `json:"key"`
	Size    int    `json:"size"`
	Version uint64 `json:"version"` // log sequence number of the last write
}

func (e encoding) item(item kv.Item) scanItem {
	return scanItem{Key: e.encoded(item.Key), Size: item.Size, Version: item.Revision}
}

func (h *handler) keys(ctx context.Context, q keysRequest) (keyPage, error) {
	page, err := h.backend.KV(q.namespace).Page(ctx, kv.Prefix(q.prefix), kv.NoValues(), kv.Limit(q.limit), q.place)
	if err == nil {
		err = h.checkListed(ctx, q.namespace, page)
	}
	if err != nil {
		return keyPage{}, err
	}
	keys := make([]scanItem, 0, len(page.Items))
	for _, item := range page.Items {
		keys = append(keys, q.encoding.item(item))
	}
	return keyPage{Keys: keys, Count: len(keys), HasMore: page.Cursor != "", Cursor: page.Cursor, Namespace: q.namespace}, nil
}

// checkListed returns ErrNotFound if a page is empty because its namespace does not exist.
func (h *handler) checkListed(ctx context.Context, namespace string, page kv.Page[kv.Item]) (err error) {
	if len(page.Items) == 0 && page.Cursor == "" {
		_, err = h.backend.Namespaces().Get(ctx, namespace)
	}
	return err
}

// keyRowPage is a page of keys as the console lists them; Cursor is "" if there are no more.
type keyRowPage struct {
	Keys   []keyRow `json:"keys"`
	Cursor string   `json:"cursor"`
}

func (p keyRowPage) next() (name, value string) { return "cursor", p.Cursor }

// keyRow is a key in the console's list.
type keyRow struct {
	scanItem
	UpdatedAt int64   `json:"updated_at"`
	TTLMillis *int64  `json:"ttl_ms"`  // remaining time; nil: does not expire
	Preview   *string `json:"preview"` // the beginning of the value; nil: not read
}

// previewBytes is the maximum length of a preview.
const previewBytes = 200

// keyRows reads values for the previews only up to the limit of a page; the remaining keys of the
// request are listed without.
func (h *handler) keyRows(ctx context.Context, q keysRequest) (keyRowPage, error) {
	store := h.backend.KV(q.namespace)
	page, err := store.Page(ctx, kv.Prefix(q.prefix), kv.Limit(q.limit), q.place)
	if err == nil {
		err = h.checkListed(ctx, q.namespace, page)
	}
	rows := keyRowPage{Keys: make([]keyRow, 0, len(page.Items)), Cursor: page.Cursor}
	for _, item := range page.Items {
		row := h.keyRow(q.encoding, item)
		row.Preview = new(q.encoding.encoded(string(beginning(item.Value, previewBytes))))
		rows.Keys = append(rows.Keys, row)
	}
	n := q.limit - len(page.Items)
	if err != nil || n == 0 || page.Cursor == "" {
		return rows, err
	}
	page, err = store.Page(ctx, kv.Prefix(q.prefix), kv.NoValues(), kv.Limit(n), kv.Cursor(page.Cursor))
	for _, item := range page.Items {
		rows.Keys = append(rows.Keys, h.keyRow(q.encoding, item))
	}
	rows.Cursor = page.Cursor
	return rows, err
}

func (h *handler) keyRow(e encoding, item kv.Item) keyRow {
	return keyRow{scanItem: e.item(item), UpdatedAt: item.UpdatedAt.UnixMilli(), TTLMillis: h.ttlMillis(item.Entry)}
}

// keyRequest names a key.
type keyRequest struct{ namespace, key string }

func (q *keyRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.key = in.segment("key")
}

// keyDetailRequest asks for a key and its value: the current one, or that of a retained version.
type keyDetailRequest struct {
	keyRequest
	encoding encoding
	version  uint64 // 0: the current one
}

// versions is the range of a version number.
var versions = span{min: 1, max: math.MaxInt64}

func (q *keyDetailRequest) parse(in *input) {
	q.keyRequest.parse(in)
	q.encoding = in.encoding()
	q.version = uint64(in.integer("version", versions))
}

// keyDetail is a key with its value.
type keyDetail struct {
	Found     bool   `json:"found"`
	Key       string `json:"key"`
	Namespace string `json:"namespace"`
	Value     string `json:"value"`
	Version   uint64 `json:"version"` // number of versions the key has had
	Size      int    `json:"size"`    // bytes of the value
	UpdatedAt int64  `json:"updated_at"`
	TTLMillis *int64 `json:"ttl_ms"` // remaining time; nil: does not expire
}

// missingKey is the ErrNotFound of a key's detail.
type missingKey struct {
	keyRequest
	err error
}

func (e *missingKey) Error() string { return e.err.Error() }

// Unwrap returns the store's error.
func (e *missingKey) Unwrap() error { return e.err }

func (e *missingKey) body() any {
	return missingKeyBody{Error: e.Error(), Key: e.key, Namespace: e.namespace}
}

type missingKeyBody struct {
	Error     string `json:"error"`
	Found     bool   `json:"found"` // false
	Key       string `json:"key"`
	Namespace string `json:"namespace"`
}

func (h *handler) key(ctx context.Context, q keyDetailRequest) (keyDetail, error) {
	if q.version > 0 {
		return h.oldKey(ctx, q)
	}
	entry, err := h.backend.KV(q.namespace).Get(ctx, q.key)
	if errors.Is(err, kv.ErrNotFound) {
		err = &missingKey{q.keyRequest, err}
	}
	if err != nil {
		return keyDetail{}, err
	}
	return keyDetail{
		Found:     true,
		Key:       entry.Key,
		Namespace: q.namespace,
		Value:     q.encoding.encoded(string(entry.Value)),
		Version:   entry.Version,
		Size:      len(entry.Value),
		UpdatedAt: entry.UpdatedAt.UnixMilli(),
		TTLMillis: h.ttlMillis(entry),
	}, nil
}

// oldKey returns an earlier version of a key, without its remaining time.
func (h *handler) oldKey(ctx context.Context, q keyDetailRequest) (keyDetail, error) {
	history, err := engine.Collect(h.backend.KV(q.namespace).History(q.key).All(ctx))
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return keyDetail{}, err
	}
	for _, v := range history {
		if v.Version == q.version && !v.Tombstone {
			return keyDetail{
				Found: true, Key: q.key, Namespace: q.namespace, Value: q.encoding.encoded(string(v.Value)), Version: v.Version,
				Size:      v.Size,
				UpdatedAt: v.Time.UnixMilli(),
			}, nil
		}
	}
	return keyDetail{}, &missingKey{q.keyRequest,
		engine.Errorf(kv.ErrNotFound, "kv: key %q has no value of version %d, or it is not kept", q.key, q.version)}
}

func (h *handler) ttlMillis(entry kv.Entry) *int64 {
	if entry.ExpiresAt.IsZero() {
		return nil
	}
	// The clock of the shard that found the entry alive may be slightly behind this clock.
	return new(max(0, entry.ExpiresAt.Sub(h.now()).Milliseconds()))
}

// ttlSeconds is the range of ttl_seconds: 0 means none, the maximum is a hundred years.
var ttlSeconds = span{absent: 0, min: 0, max: 100 * 365 * 24 * 60 * 60}

// putKeyRequest is a key and the body {"value": "...", "ttl_seconds": 60, "nx": true}; value is
// required.
type putKeyRequest struct {
	keyRequest
	value  []byte
	ttl    time.Duration // 0: none
	absent bool          // only if the key does not exist
	at     uint64        // only if the key has this version; 0: any
	rev    *int64        // only if the key has this revision, 0: if it does not exist; nil: any
}

func (q *putKeyRequest) parse(in *input) {
	q.keyRequest.parse(in)
	encoding := in.encoding()
	q.at = uint64(in.integer("if_version", versions))
	q.rev = in.optional("if_revision", span{max: math.MaxInt64})
	if q.at > 0 && q.rev != nil {
		in.invalid("parameters if_version and if_revision exclude each other")
	}
	body := in.body()
	value, err := encoding.decoded(`member "value" of the body`, body.text("value"))
	in.check(err)
	q.value = []byte(value)
	q.ttl = time.Duration(body.integer("ttl_seconds", ttlSeconds)) * time.Second
	q.absent = body.boolean("nx")
}

// keyWritten is the response to a PUT.
type keyWritten struct {
	OK        bool   `json:"ok"`
	Key       string `json:"key"`
	Namespace string `json:"namespace"`
	Version   uint64 `json:"version"` // number of versions the key has had
	LSN       uint64 `json:"lsn"`
}

func (h *handler) putKey(ctx context.Context, q putKeyRequest) (keyWritten, error) {
	if limit := h.backend.MaxValueSize(); len(q.value) > limit {
		return keyWritten{}, engine.Errorf(errTooLarge, "value of %d bytes exceeds max_value_size (%d bytes)", len(q.value), limit)
	}
	var opts []kv.PutOption
	if q.ttl > 0 {
		opts = append(opts, kv.TTL(q.ttl))
	}
	if q.absent {
		opts = append(opts, kv.IfAbsent())
	}
	if q.at > 0 {
		entry, err := h.backend.KV(q.namespace).Get(ctx, q.key)
		if err == nil && entry.Version != q.at {
			err = engine.Errorf(kv.ErrConflict, "kv: key %q is at version %d, not %d", q.key, entry.Version, q.at)
		}
		if err != nil {
			return keyWritten{}, err
		}
		opts = append(opts, kv.IfRevision(entry.Revision)) // in case it changes in between
	}
	if q.rev != nil {
		opts = append(opts, kv.IfRevision(uint64(*q.rev)))
	}
	written, err := h.backend.KV(q.namespace).Put(ctx, q.key, q.value, opts...)
	if err != nil {
		return keyWritten{}, err
	}
	return keyWritten{OK: true, Key: q.key, Namespace: q.namespace, Version: written.Version, LSN: written.Revision}, nil
}

// keyDeleted is the response to a DELETE.
type keyDeleted struct {
	OK        bool   `json:"ok"`
	Key       string `json:"key"`
	Namespace string `json:"namespace"`
}

func (h *handler) deleteKey(ctx context.Context, q keyRequest) (keyDeleted, error) {
	if _, err := h.backend.KV(q.namespace).Delete(ctx, q.key); err != nil {
		return keyDeleted{}, err
	}
	return keyDeleted{OK: true, Key: q.key, Namespace: q.namespace}, nil
}

// keyHistory is the body of a key's history.
type keyHistory struct {
	Key          string       `json:"key"`
	Namespace    string       `json:"namespace"`
	VersionCount int          `json:"version_count"` // number of listed versions
	Versions     []keyVersion `json:"versions"`      // newest first
}

type keyVersion struct {
	Version         uint64 `json:"version"`
	Term            uint64 `json:"term"`
	TimestampMillis int64  `json:"timestamp_ms"`
	Size            int    `json:"size"`
	Tombstone       bool   `json:"tombstone"`
}

func (h *handler) keyHistory(ctx context.Context, q keyRequest) (keyHistory, error) {
	history, err := engine.Collect(h.backend.KV(q.namespace).History(q.key).All(ctx, kv.NoValues()))
	if err != nil {
		return keyHistory{}, err
	}
	versions := make([]keyVersion, 0, len(history))
	for _, v := range history {
		versions = append(versions, keyVersion{
			Version: v.Version, Term: v.Term, TimestampMillis: v.Time.UnixMilli(), Size: v.Size, Tombstone: v.Tombstone,
		})
	}
	return keyHistory{Key: q.key, Namespace: q.namespace, VersionCount: len(versions), Versions: versions}, nil
}

func (b staleBackend) KV(ns string, _ ...floe.AccessOption) *kv.Store {
	return b.DB.KV(ns, floe.Stale())
}

// namespaceKeysRequest asks for limit keys after a given one. after is encoded as in the listing.
type namespaceKeysRequest struct {
	namespace string
	after     string
	limit     int
	encoding  encoding
}

func (q *namespaceKeysRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.limit = in.listLimit()
	q.encoding = in.encoding()
	var err error
	q.after, err = q.encoding.decoded("parameter "+in.called("after"), in.text("after"))
	in.check(err)
}

func (h *handler) namespaceKeys(ctx context.Context, q namespaceKeysRequest) (listing[scanItem], error) {
	if _, err := h.backend.Namespaces().Get(ctx, q.namespace); err != nil {
		return listing[scanItem]{}, err
	}
	page := func(after string, n int) ([]kv.Item, string, error) {
		page, err := h.backend.KV(q.namespace).Page(ctx, kv.NoValues(), kv.Limit(n), kv.After(after))
		if err != nil || page.Cursor == "" {
			return page.Items, "", err
		}
		return page.Items, page.Items[len(page.Items)-1].Key, nil
	}
	keys, err := collect(q.after, q.limit, page, q.encoding.item, nil)
	keys.after = q.encoding.encoded(keys.after)
	return keys, err
}
