package kv_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// TestModel runs random operations on nodes of random configurations that restart and crash at
// random. It compares every result, error, count and history with those of a map.
//
//	go test -run TestModel -seed 7 -runs 6000 ./kv
func TestModel(t *testing.T) {
	machinetest.Models{
		Primitives: primitives, Runs: 24, Steps: 1000, ShortRuns: 12, ShortSteps: 400, MaxShards: 5,
		Begin: func(t *testing.T, rng *rand.Rand, g machinetest.Ground, spread bool) machinetest.Model {
			return newGroundModel(t, rng, g, spread)
		},
		Others: []machinetest.OtherModel{{Name: "disk", Begin: newDiskModel}, {Name: "client", Begin: newClientModel}},
	}.Run(t)
}

// model is a namespace as a map. A revision that an operation does not return is 0 until a read
// returns it.
type model struct {
	t             *testing.T
	rng           *rand.Rand
	store         *kv.Store
	commit        commit
	counts        func() engine.Counts
	now           func() int64
	pass          func() // advances time, which may expire and forget keys; nil if unused
	restart       func()
	spread        bool
	keys          map[string]*modelKey
	sets, deletes int64
	last          string // the last operation, for messages
	buf           kv.PageBuffer
}

type modelKey struct {
	versions []kv.Version // oldest first; all since the key was forgotten
	expires  int64        // ms, 0 for never
}

func (k *modelKey) current() *kv.Version { return &k.versions[len(k.versions)-1] }

// commit runs a transaction in the namespace of a model.
type commit func(ctx context.Context, conditions []engine.Condition, ops ...engine.Operation) (values []any, err error)

func commitThrough(router *engine.Router) commit {
	return func(ctx context.Context, conditions []engine.Condition, ops ...engine.Operation) ([]any, error) {
		res, err := engine.NewTxn(router, "n", kv.DefaultMaxValueBytes).If(conditions...).Do(ops...).Commit(ctx)
		if err != nil {
			return nil, err
		}
		return res.Values, nil
	}
}

// results reads the operations' results as a user does.
func results(res *floe.TxnResult, ops []engine.Operation) ([]any, error) {
	values := make([]any, len(ops))
	for i, op := range ops {
		var err error
		switch op := op.(type) {
		case kv.OpOf[kv.Written]:
			values[i], err = op.Result(res)
		case kv.OpOf[kv.Counted]:
			values[i], err = op.Result(res)
		}
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}

func newDiskModel(t *testing.T, rng *rand.Rand, shards int, spread bool) machinetest.Model {
	return newNodeModel(t, rng, shards, spread, false).begin(t, rng)
}

// newClientModel is a node on disk that is used through a Client. The Client stays when the node
// restarts.
func newClientModel(t *testing.T, rng *rand.Rand, shards int, spread bool) machinetest.Model {
	return newNodeModel(t, rng, shards, spread, true).begin(t, rng)
}

func newNodeModel(t *testing.T, rng *rand.Rand, shards int, spread, remote bool) *model {
	config := floe.Config{
		DataDir: t.TempDir(), Shards: shards, CacheSize: 4 << 20, Durability: []floe.Durability{floe.Sync, floe.Async}[rng.IntN(2)],
	}
	if remote {
		config.Listen = "127.0.0.1:0"
	}
	var node *floe.Node
	m := &model{spread: spread}
	start := func() {
		var err error
		if node, err = floe.Open(config); err != nil {
			t.Fatalf("Open: %v", err)
		}
	}
	start()
	t.Cleanup(func() { node.Close() })
	db := func() floe.DB { return node }
	if remote {
		config.Listen = node.Addr().String()
		client, err := floe.Dial(t.Context(), []string{config.Listen})
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		t.Cleanup(func() { client.Close() })
		db = func() floe.DB { return client }
	}
	m.store = db().KV("n")
	m.commit = func(ctx context.Context, conditions []engine.Condition, ops ...engine.Operation) ([]any, error) {
		txn := db().Txn("n")
		for _, c := range conditions {
			txn.If(c)
		}
		for _, op := range ops {
			txn.Do(op)
		}
		res, err := txn.Commit(ctx)
		if err != nil {
			return nil, err
		}
		return results(res, ops)
	}
	m.now = func() int64 { return 0 }
	m.counts = func() engine.Counts {
		info, err := db().Namespaces().Get(t.Context(), "n")
		if err != nil {
			t.Fatalf("Get namespace: %v", err)
		}
		return engine.Counts(info.Counts)
	}
	m.restart = func() {
		if err := node.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		start()
		m.store = db().KV("n")
	}
	if spread {
		if err := db().Namespaces().Create(t.Context(), "n", floe.Spread()); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func newGroundModel(t *testing.T, rng *rand.Rand, g machinetest.Ground, spread bool) *model {
	router, verify := g.Router(), g.Verify
	if r, ok := g.(*machinetest.Rig); ok {
		verify = (&recounted{r, t, make(map[version]kv.Row)}).verify
	}
	m := &model{spread: spread, store: engine.StoreOf[kv.Store](router, "n", 0), commit: commitThrough(router), now: g.Now,
		restart: g.Restart}
	m.counts = func() engine.Counts {
		verify()
		info, err := engine.NewNamespaces(router).Get(t.Context(), "n")
		if err != nil {
			t.Fatalf("Get namespace: %v", err)
		}
		return info.Counts
	}
	m.pass = func() {
		step := int64(rng.IntN(2000))
		if rng.IntN(20) == 0 {
			step = int64(rng.IntN(13)) * 3_600_000
		}
		g.Pass(step)
		verify()                                                                 // verify must see every version before it is forgotten
		if _, stepped := g.(*machinetest.Stepped); stepped || rng.IntN(2) == 0 { // a node fires with its next step
			g.Fire()
			m.fired(g.Now())
		}
	}
	return m.begin(t, rng)
}

// begin creates the model's namespace.
func (m *model) begin(t *testing.T, rng *rand.Rand) *model {
	m.t, m.rng, m.keys = t, rng, make(map[string]*modelKey)
	must(m.store.Put(t.Context(), "first", nil))
	must(m.store.Delete(t.Context(), "first"))
	m.keys["first"] = &modelKey{versions: []kv.Version{{Version: 1}, {Version: 2, Tombstone: true}}}
	m.sets, m.deletes = 1, 1
	m.stamp("first")
	return m
}

// stamp makes the times of a key's versions comparable, because the model knows them only on a rig.
func (m *model) stamp(k string) {
	for i := range m.keys[k].versions {
		m.keys[k].versions[i].Time = time.UnixMilli(m.now())
	}
}

func (m *model) errorf(format string, args ...any) {
	m.t.Helper()
	m.t.Errorf(m.last+": "+format, args...)
}

// key draws a key. Counters and documents have their own keys, but any operation may use any key.
func (m *model) key(kinds string) string {
	if m.rng.IntN(10) == 0 {
		kinds = "pcj"
	}
	kind := kinds[m.rng.IntN(len(kinds))]
	n := m.rng.IntN(8)
	tag := []string{"{t}", "", "{u}"}[m.rng.IntN(3)]
	return string(kind) + tag + []string{"", "\x00", "\x00\x01", "\xff", "a", "a\x00", "ab", "\x00\xff"}[n]
}

func (m *model) value() []byte {
	switch m.rng.IntN(6) {
	case 0:
		return nil
	case 1:
		return []byte(strconv.Itoa(m.rng.IntN(100)))
	case 2:
		return []byte(`{"a":[1,{"b":2}],"c":{"d":"e"}}`)
	case 3:
		return bytes.Repeat([]byte("v"), m.rng.IntN(5000))
	}
	return fmt.Appendf(nil, "v%d", m.rng.Uint64())
}

// live returns the current version of an existing key.
func (m *model) live(k string) *kv.Version {
	key := m.keys[k]
	if key == nil || key.current().Tombstone || key.expires != 0 && key.expires <= m.now() {
		return nil
	}
	return key.current()
}

func (m *model) revision(k string) uint64 {
	if v := m.live(k); v != nil {
		return v.Revision
	}
	return 0
}

// settle turns an expired key's expiry into a version, as every write to it does.
func (m *model) settle(k string) {
	key := m.keys[k]
	if key != nil && !key.current().Tombstone && key.expires != 0 && key.expires <= m.now() {
		m.append(k, kv.Version{Tombstone: true, Expired: true})
	}
}

func (m *model) append(k string, v kv.Version) *kv.Version {
	key := m.keys[k]
	if key == nil {
		key = new(modelKey)
		m.keys[k] = key
	}
	v.Version, v.Size, v.Time = uint64(len(key.versions)+1), len(v.Value), time.UnixMilli(m.now())
	key.versions = append(key.versions, v)
	key.expires = 0
	return key.current()
}

func (m *model) set(k string, value []byte, expires int64) *kv.Version {
	m.settle(k)
	m.sets++
	v := m.append(k, kv.Version{Value: bytes.Clone(value)})
	m.keys[k].expires = expires
	return v
}

// fired does what timers do: expire and forget keys.
func (m *model) fired(now int64) {
	for k := range m.keys {
		m.settle(k)
		if v := m.keys[k].current(); v.Tombstone && v.Time.UnixMilli() <= now-kv.TombstoneMillis {
			delete(m.keys, k)
		}
	}
}

// modelOp is a store operation and its effect on the model. apply returns a check of the result, or
// the expected error.
type modelOp struct {
	name  string
	op    engine.Operation
	apply func() (check func(got any) bool, want error)
}

func written(v *kv.Version) func(any) bool {
	return func(got any) bool {
		w, ok := got.(kv.Written)
		if v.Revision == 0 {
			v.Revision = w.Revision
		}
		return ok && w.Version == v.Version && w.Revision == v.Revision
	}
}

// condition draws a condition and reports whether it would hold.
func (m *model) condition(k string) (name string, opts []kv.PutOption, revision uint64, holds func() bool) {
	yes := func() bool { return true }
	switch m.rng.IntN(6) {
	case 0:
		return "absent", []kv.PutOption{kv.IfAbsent()}, 0, func() bool { return m.live(k) == nil }
	case 1:
		return "present", []kv.PutOption{kv.IfPresent()}, 0, func() bool { return m.live(k) != nil }
	case 2:
		r := m.revision(k)
		if m.rng.IntN(3) == 0 {
			r++
		}
		return fmt.Sprint("revision ", r), []kv.PutOption{kv.IfRevision(r)}, r, func() bool {
			// A version made earlier in the same transaction has no revision yet, so it is not r.
			return m.revision(k) == r && (r != 0 || m.live(k) == nil)
		}
	}
	return "", nil, 0, yes
}

func (m *model) draw() modelOp {
	switch m.rng.IntN(9) {
	case 0, 1, 2:
		return m.drawPut()
	case 3:
		return m.drawDelete()
	case 4:
		return m.drawTouch()
	case 5, 6:
		return m.drawIncr()
	}
	return m.drawJSON()
}

func (m *model) drawPut() modelOp {
	k, value := m.key("p"), m.value()
	cond, opts, _, holds := m.condition(k)
	expires := int64(0)
	if m.pass != nil && m.rng.IntN(3) == 0 {
		ttl := int64(m.rng.IntN(3000) + 1)
		expires = m.now() + ttl
		opts = append(opts, kv.TTL(time.Duration(ttl)*time.Millisecond))
	}
	keeps := expires == 0 && m.rng.IntN(4) == 0
	if keeps {
		opts = append(opts, kv.KeepTTL())
	}
	return modelOp{fmt.Sprintf("put %q %.20q if %s", k, value, cond), kv.PutOp(k, value, opts...), func() (func(any) bool, error) {
		if !holds() {
			return nil, kv.ErrConflict
		}
		if keeps && m.live(k) != nil {
			expires = m.keys[k].expires
		}
		return written(m.set(k, value, expires)), nil
	}}
}

func (m *model) drawDelete() modelOp {
	k := m.key("pcj")
	var opts []kv.DeleteOption
	conditional, r := m.rng.IntN(3) == 0, m.revision(k)+uint64(m.rng.IntN(2))
	if conditional {
		opts = append(opts, kv.IfRevision(r))
	}
	return modelOp{fmt.Sprintf("delete %q if %v %d", k, conditional, r), kv.DeleteOp(k, opts...), func() (func(any) bool, error) {
		if conditional && (m.revision(k) != r || r == 0 && m.live(k) != nil) {
			return nil, kv.ErrConflict
		}
		if m.live(k) == nil {
			return nil, kv.ErrNotFound
		}
		m.deletes++
		return written(m.append(k, kv.Version{Tombstone: true})), nil
	}}
}

func (m *model) drawTouch() modelOp {
	k, expires := m.key("pcj"), int64(0)
	op := kv.PersistOp(k)
	if m.pass != nil && m.rng.IntN(2) == 0 {
		ttl := int64(m.rng.IntN(3000) + 1)
		expires = m.now() + ttl
		op = kv.TouchOp(k, time.Duration(ttl)*time.Millisecond)
	}
	return modelOp{fmt.Sprintf("touch %q until %d", k, expires), op, func() (func(any) bool, error) {
		v := m.live(k)
		if v == nil {
			return nil, kv.ErrNotFound
		}
		m.keys[k].expires = expires
		check := written(v)
		return func(got any) bool { return got == nil || check(got) }, nil // users do not see the result
	}}
}

func (m *model) drawIncr() modelOp {
	k := m.key("c")
	delta := int64(m.rng.IntN(20) - 10)
	lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
	if m.rng.IntN(8) == 0 {
		delta = []int64{math.MaxInt64, math.MinInt64, math.MaxInt64 - 5}[m.rng.IntN(3)]
	}
	var opts []kv.IncrOption
	if m.rng.IntN(3) == 0 {
		lo, hi = -20, 20
		opts = append(opts, kv.Min(lo), kv.Max(hi))
	}
	ends := int64(0)
	if m.pass != nil && m.rng.IntN(3) == 0 {
		ttl := int64(m.rng.IntN(3000) + 1)
		ends = m.now() + ttl
		opts = append(opts, kv.TTL(time.Duration(ttl)*time.Millisecond))
	}
	return modelOp{fmt.Sprintf("incr %q %d in [%d, %d] until %d", k, delta, lo, hi, ends), kv.IncrOp(k, delta, opts...),
		func() (func(any) bool, error) {
			old, expires := int64(0), ends
			if v := m.live(k); v != nil {
				var err error
				if old, err = strconv.ParseInt(string(v.Value), 10, 64); err != nil {
					return nil, kv.ErrInvalid
				}
				expires = m.keys[k].expires
			}
			sum := old + delta
			if delta > 0 && sum < old || delta < 0 && sum > old {
				return nil, kv.ErrInvalid
			}
			if sum < lo || sum > hi {
				return nil, kv.ErrConflict
			}
			check := written(m.set(k, strconv.AppendInt(nil, sum, 10), expires))
			return func(got any) bool {
				c, ok := got.(kv.Counted)
				return ok && c.Value == sum && check(c.Written)
			}, nil
		}}
}

// drawJSON draws a change of a document. The model applies it to decoded values.
func (m *model) drawJSON() modelOp {
	k := m.key("j")
	var parts []string
	for range m.rng.IntN(3) + 1 {
		parts = append(parts, []string{"a", "b", "c", "d", "0", "1", "2", "-1", ":x", "a.b"}[m.rng.IntN(10)])
	}
	var quoted []string
	for _, p := range parts {
		quoted = append(quoted, quote(p))
	}
	path := strings.Join(quoted, ".")
	raw := []string{"1", `"x"`, "null", "[]", "{}", `{"a":{"b":[1,2]}}`, "[0,[1],2]"}[m.rng.IntN(7)]
	remove := m.rng.IntN(3) == 0
	op := kv.JSONSetOp(k, path, []byte(raw))
	if remove {
		op = kv.JSONDeleteOp(k, path)
	}
	return modelOp{fmt.Sprintf("json %q %s = %s, delete: %v", k, path, raw, remove), op, func() (func(any) bool, error) {
		v := m.live(k)
		doc, expires := any(map[string]any{}), int64(0)
		if v == nil && remove {
			return nil, kv.ErrNotFound
		}
		if v != nil {
			if !json.Valid(v.Value) {
				return nil, kv.ErrInvalid
			}
			must(0, json.Unmarshal(v.Value, &doc))
			expires = m.keys[k].expires
		}
		var err error
		if remove {
			doc, err = removeAt(doc, parts)
		} else {
			var value any
			must(0, json.Unmarshal([]byte(raw), &value))
			doc, err = setAt(doc, parts, value)
		}
		if err != nil {
			return nil, err
		}
		// The exact bytes are not modelled. The model copies the store's bytes if they are
		// equivalent.
		next := m.set(k, must(json.Marshal(doc)), expires)
		return written(next), nil
	}}
}

func setAt(at any, parts []string, value any) (any, error) {
	if len(parts) == 0 {
		return value, nil
	}
	switch at := at.(type) {
	case map[string]any:
		child, ok := at[parts[0]]
		if !ok && len(parts) > 1 {
			child = map[string]any{}
		}
		child, err := setAt(child, parts[1:], value)
		at[parts[0]] = child
		return at, err
	case []any:
		i, err := index(parts[0], len(at))
		if err != nil {
			return nil, err
		}
		if i == -1 || i == len(at) {
			i, at = len(at), append(at, map[string]any{})
		}
		at[i], err = setAt(at[i], parts[1:], value)
		return at, err
	}
	return nil, kv.ErrInvalid
}

// index parses the index of an element, of the position after the last, or -1.
func index(part string, length int) (int, error) {
	i, err := strconv.Atoi(part)
	if err != nil || i > length || i < -1 || strconv.Itoa(i) != part {
		return 0, kv.ErrInvalid
	}
	return i, nil
}

func removeAt(at any, parts []string) (any, error) {
	switch at := at.(type) {
	case map[string]any:
		child, ok := at[parts[0]]
		if !ok {
			return nil, kv.ErrNotFound
		}
		if len(parts) == 1 {
			delete(at, parts[0])
			return at, nil
		}
		child, err := removeAt(child, parts[1:])
		at[parts[0]] = child
		return at, err
	case []any:
		i, err := index(parts[0], len(at))
		if err != nil {
			return nil, err
		}
		if i == -1 || i == len(at) {
			return nil, kv.ErrNotFound
		}
		if len(parts) == 1 {
			return slices.Delete(at, i, i+1), nil
		}
		at[i], err = removeAt(at[i], parts[1:])
		return at, err
	}
	return nil, kv.ErrInvalid
}
