package kv_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestModel does random operations and compares every result, error, count and history with those of a map.
//
//	go test -run TestModel -seed 7 -long ./kv
func TestModel(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	steps := 1500
	if testing.Short() {
		steps = 400
	}
	if *longFlag {
		steps = 50_000
	}
	for _, shards := range []int{1, 5} {
		for _, spread := range []bool{false, true} {
			t.Run(fmt.Sprintf("on=disk/shards=%d/spread=%v", shards, spread), func(t *testing.T) {
				runModel(t, seed, steps, newDiskModel(t, shards, spread))
			})
			t.Run(fmt.Sprintf("on=rig/shards=%d/spread=%v", shards, spread), func(t *testing.T) {
				runModel(t, seed, steps, newRigModel(t, shards, spread))
			})
		}
	}
}

// model is a namespace as a map. Revisions that an operation does not return are 0 until a read shows them.
type model struct {
	t             *testing.T
	rng           *rand.Rand
	store         *kv.Store
	txn           func() *engine.Txn
	counts        func() engine.Counts
	now           func() int64
	pass          func() // lets time go by, which may expire and forget; nil: time plays no part
	restart       func()
	spread        bool
	keys          map[string]*modelKey
	sets, deletes int64
	last          string // the operation, for messages
}

type modelKey struct {
	versions []kv.Version // oldest first; all that there ever were since it was forgotten
	expires  int64        // ms, 0: never
}

func (k *modelKey) current() *kv.Version { return &k.versions[len(k.versions)-1] }

func newDiskModel(t *testing.T, shards int, spread bool) *model {
	dir := t.TempDir()
	var node *floe.Node
	m := &model{spread: spread}
	connect := func() {
		var err error
		if node, err = floe.Open(floe.Config{DataDir: dir, Shards: shards, CacheSize: 4 << 20}); err != nil {
			t.Fatalf("Open: %v", err)
		}
		m.store = node.KV("n")
	}
	connect()
	t.Cleanup(func() { node.Close() })
	m.txn = func() *engine.Txn { return node.Txn("n") }
	m.now = func() int64 { return 0 }
	m.counts = func() engine.Counts {
		info, err := node.Namespaces().Get(t.Context(), "n")
		if err != nil {
			t.Fatalf("Get namespace: %v", err)
		}
		return info.Counts
	}
	m.restart = func() {
		if err := node.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		connect()
	}
	if spread {
		if err := node.Namespaces().Create(t.Context(), "n", floe.Spread()); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func newRigModel(t *testing.T, shards int, spread bool) *model {
	r := newRig(t, shards)
	m := &model{spread: spread, store: r.store("n"), txn: func() *engine.Txn { return r.txn("n") }, now: r.time, restart: r.restart}
	m.counts = func() engine.Counts {
		r.verify()
		info, err := engine.NewNamespaces(engine.NewRouter(r)).Get(t.Context(), "n")
		if err != nil {
			t.Fatalf("Get namespace: %v", err)
		}
		return info.Counts
	}
	m.pass = func() {
		step := int64(m.rng.IntN(2000))
		if m.rng.IntN(20) == 0 {
			step = int64(m.rng.IntN(13)) * 3_600_000
		}
		r.advance(step)
		r.verify() // it has to see every version before it is forgotten
		if m.rng.IntN(2) == 0 {
			r.fire()
			m.fired(r.time())
		}
	}
	if spread {
		if err := engine.NewNamespaces(engine.NewRouter(r)).Create(t.Context(), "n", engine.Spread()); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func runModel(t *testing.T, seed uint64, steps int, m *model) {
	m.t, m.rng, m.keys = t, rand.New(rand.NewPCG(seed, 0)), make(map[string]*modelKey)
	must(m.store.Put(t.Context(), "first", nil)) // so that the namespace exists
	must(m.store.Delete(t.Context(), "first"))
	m.keys["first"] = &modelKey{versions: []kv.Version{{Version: 1}, {Version: 2, Tombstone: true}}}
	m.sets, m.deletes = 1, 1
	m.stamp("first")
	defer func() {
		if t.Failed() {
			t.Logf("repeat it with: go test -run '%s' -seed %d ./kv", t.Name(), seed)
		}
	}()
	for range steps {
		m.step()
		if t.Failed() {
			return
		}
	}
	m.compareAll()
}

// stamp makes the times of a key's versions comparable: the model knows them on a rig only.
func (m *model) stamp(k string) {
	for i := range m.keys[k].versions {
		m.keys[k].versions[i].Time = time.UnixMilli(m.now())
	}
}

func (m *model) errorf(format string, args ...any) {
	m.t.Helper()
	m.t.Errorf(m.last+": "+format, args...)
}

// key draws a key; counters and documents have keys of their own, but anything may hit any key.
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

// live returns the present version of a key that exists.
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

// settle makes an expired key's expiry a version, as every write to it does.
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

// fired is what timers do: expire and forget.
func (m *model) fired(now int64) {
	for k := range m.keys {
		m.settle(k)
		if v := m.keys[k].current(); v.Tombstone && v.Time.UnixMilli() <= now-kv.TombstoneMillis {
			delete(m.keys, k)
		}
	}
}

// modelOp is an operation of the store, and what it does to the model: a check of the value that it
// returned, or the kind of error.
type modelOp struct {
	name  string
	op    engine.Op
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

// condition draws a condition and says whether it would hold.
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
			// A version made earlier in the same transaction has no revision yet, and certainly not r.
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
	return modelOp{fmt.Sprintf("put %q %.20q if %s", k, value, cond), kv.PutOp(k, value, opts...), func() (func(any) bool, error) {
		if !holds() {
			return nil, kv.ErrConflict
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
	k, expires, op := m.key("pcj"), int64(0), engine.Op{}
	if m.pass != nil && m.rng.IntN(2) == 0 {
		ttl := int64(m.rng.IntN(3000) + 1)
		expires = m.now() + ttl
		op = kv.TouchOp(k, time.Duration(ttl)*time.Millisecond)
	} else {
		op = kv.PersistOp(k)
	}
	return modelOp{fmt.Sprintf("touch %q until %d", k, expires), op, func() (func(any) bool, error) {
		v := m.live(k)
		if v == nil {
			return nil, kv.ErrNotFound
		}
		m.keys[k].expires = expires
		return written(v), nil
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
	return modelOp{fmt.Sprintf("incr %q %d in [%d, %d]", k, delta, lo, hi), kv.IncrOp(k, delta, opts...), func() (func(any) bool, error) {
		old, expires := int64(0), int64(0)
		if v := m.live(k); v != nil {
			var err error
			if old, err = strconv.ParseInt(string(v.Value), 10, 64); err != nil {
				return nil, kv.ErrInvalid
			}
			expires = m.keys[k].expires
		}
		sum := old + delta
		if delta > 0 && sum < old || delta < 0 && sum > old || sum < lo || sum > hi {
			return nil, kv.ErrInvalid
		}
		m.set(k, strconv.AppendInt(nil, sum, 10), expires)
		return func(got any) bool { return got == sum }, nil
	}}
}

// drawJSON draws a change of a document; the model's is done on decoded values.
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
		// The exact bytes are not the model's business: it takes them over when they mean what they should.
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

// index reads the index of an element, of the one behind the last, or -1.
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

func (m *model) step() {
	switch n := m.rng.IntN(100); {
	case n < 50:
		m.single()
	case n < 65:
		m.transaction()
	case n < 75:
		m.compareKey(m.key("pcj"))
	case n < 80:
		m.compareMany()
	case n < 90:
		m.compareScan()
	case n < 97 && m.pass != nil:
		m.last = "pass"
		m.pass()
	case n == 98:
		if m.rng.IntN(5) == 0 {
			m.last = "restart"
			m.restart()
			m.compareAll()
		}
	case n == 99:
		m.compareAll()
	}
}

// single does one operation by itself, as a transaction of one part would.
func (m *model) single() {
	o := m.draw()
	m.last = o.name
	before := m.clone()
	check, want := o.apply()
	res, err := m.txn().Do(o.op).Commit(m.t.Context())
	m.outcome(before, want, err)
	if err == nil && want == nil && !check(res.Values[0]) {
		m.errorf("got %v", res.Values[0])
	}
	m.adopt(o.op.Route)
}

func (m *model) transaction() {
	before := m.clone()
	txn := m.txn()
	m.last = "txn"
	var want error
	var checks []func(any) bool
	var routes []string
	if m.rng.IntN(2) == 0 {
		k := m.key("pcj")
		r, holds := m.revision(k), true
		c := kv.RevisionIs(k, r)
		switch m.rng.IntN(3) {
		case 0:
			c, holds = kv.Absent(k), m.live(k) == nil
		case 1:
			c, holds = kv.Present(k), m.live(k) != nil
		}
		if txn.If(c); !holds {
			want = kv.ErrConflict
		} else {
			m.settle(k)
		}
		routes = append(routes, k)
		m.last += fmt.Sprintf(" if %q %v;", k, holds)
	}
	for range m.rng.IntN(5) + 1 {
		o := m.draw()
		m.last += " " + o.name + ";"
		txn.Do(o.op)
		routes = append(routes, o.op.Route)
		if want == nil {
			var check func(any) bool
			check, want = o.apply()
			checks = append(checks, check)
		}
	}
	if m.spread && !m.together(routes) {
		want = kv.ErrInvalid
	}
	res, err := txn.Commit(m.t.Context())
	m.outcome(before, want, err)
	if err == nil && want == nil {
		for i, check := range checks {
			if !check(res.Values[i]) {
				m.errorf("operation %d: got %v", i, res.Values[i])
			}
		}
	}
	m.adopt(routes...)
}

// together reports whether the names live in one shard.
func (m *model) together(names []string) bool {
	err := error(nil)
	txn := m.txn()
	for _, n := range names {
		txn.If(kv.RevisionIs(n, math.MaxInt64))
	}
	_, err = txn.Commit(m.t.Context())
	return !errors.Is(err, kv.ErrInvalid)
}

type snapshot struct {
	keys          map[string]*modelKey
	sets, deletes int64
}

func (m *model) clone() snapshot {
	keys := make(map[string]*modelKey, len(m.keys))
	for k, v := range m.keys {
		keys[k] = &modelKey{slices.Clone(v.versions), v.expires}
	}
	return snapshot{keys, m.sets, m.deletes}
}

// outcome compares errors, and takes the model back when the operation had one.
func (m *model) outcome(before snapshot, want, got error) {
	m.t.Helper()
	if want != nil {
		m.keys, m.sets, m.deletes = before.keys, before.sets, before.deletes
	}
	if want == nil && got != nil || !errors.Is(got, want) {
		m.errorf("got error %v, want %v", got, want)
	}
}

// adopt takes over what only the store knows of keys that were written: revisions, and the spelling of documents.
func (m *model) adopt(keys ...string) {
	m.t.Helper()
	for _, k := range keys {
		key := m.keys[k]
		if key == nil {
			continue
		}
		versions, err := m.store.History(m.t.Context(), k)
		if err != nil {
			m.errorf("History(%q): %v", k, err)
			return
		}
		for _, got := range versions {
			if got.Version > uint64(len(key.versions)) {
				m.errorf("History(%q) has version %d, want at most %d", k, got.Version, len(key.versions))
				return
			}
			want := &key.versions[got.Version-1]
			if want.Revision == 0 {
				want.Revision = got.Revision
			}
			if !bytes.Equal(want.Value, got.Value) && sameJSON(want.Value, got.Value) {
				want.Value, want.Size = got.Value, len(got.Value)
			}
		}
	}
}

func sameJSON(a, b []byte) bool {
	var va, vb any
	return json.Unmarshal(a, &va) == nil && json.Unmarshal(b, &vb) == nil && reflect.DeepEqual(va, vb)
}

// onDisk leaves out times and expiries that the model can not know there.
func (m *model) onDisk() bool { return m.pass == nil }

func (m *model) compareKey(k string) {
	m.t.Helper()
	ctx := m.t.Context()
	e, err := m.store.Get(ctx, k)
	ok, existsErr := m.store.Exists(ctx, k)
	v := m.live(k)
	if v == nil {
		if !errors.Is(err, kv.ErrNotFound) || ok || existsErr != nil {
			m.errorf("Get(%q) = %v, %v, Exists = %v, %v, want ErrNotFound and false", k, e, err, ok, existsErr)
		}
	} else if err != nil || !ok || existsErr != nil {
		m.errorf("Get(%q): %v, Exists = %v, %v, want version %d", k, err, ok, existsErr, v.Version)
	} else {
		m.compareEntry(e, k)
	}
	m.compareHistory(k)
}

func (m *model) compareEntry(e kv.Entry, k string) {
	m.t.Helper()
	v, expires := m.live(k), m.keys[k].expires
	if e.Key != k || !bytes.Equal(e.Value, v.Value) || e.Revision != v.Revision || e.Version != v.Version {
		m.errorf("entry of %q is %q at revision %d, version %d, want %q at %d, %d", k, e.Value, e.Revision, e.Version, v.Value, v.Revision, v.Version)
	}
	if expires == 0 != e.ExpiresAt.IsZero() || expires != 0 && e.ExpiresAt.UnixMilli() != expires || !m.onDisk() && !e.UpdatedAt.Equal(v.Time) {
		m.errorf("entry of %q expires %v, updated %v, want %v, %v", k, e.ExpiresAt, e.UpdatedAt, expires, v.Time)
	}
}

func (m *model) compareHistory(k string) {
	m.t.Helper()
	versions, err := m.store.History(m.t.Context(), k)
	key := m.keys[k]
	if key == nil {
		if !errors.Is(err, kv.ErrNotFound) {
			m.errorf("History(%q) = %d versions, %v, want ErrNotFound", k, len(versions), err)
		}
		return
	}
	want := key.versions[max(0, len(key.versions)-kv.MaxVersions):]
	if err != nil || len(versions) != len(want) {
		m.errorf("History(%q) = %d versions, %v, want %d", k, len(versions), err, len(want))
		return
	}
	for i, got := range versions {
		w := want[len(want)-1-i]
		if got.Term == 0 || i > 0 && got.Revision >= versions[i-1].Revision {
			m.errorf("History(%q)[%d] has term %d, revision %d", k, i, got.Term, got.Revision)
		}
		if w.Revision == 0 {
			want[len(want)-1-i].Revision, w.Revision = got.Revision, got.Revision
		}
		// When an expiry was noticed is the store's business.
		w.Term = got.Term
		if m.onDisk() {
			w.Time = got.Time
		}
		if !got.Time.Equal(w.Time) || got.Revision != w.Revision || got.Version != w.Version || got.Size != w.Size ||
			got.Tombstone != w.Tombstone || got.Expired != w.Expired || !bytes.Equal(got.Value, w.Value) {
			m.errorf("History(%q)[%d] = %+v, want %+v", k, i, got, w)
		}
	}
}

func (m *model) compareMany() {
	var keys []string
	for range m.rng.IntN(10) {
		keys = append(keys, m.key("pcj"))
	}
	found, err := m.store.GetMany(m.t.Context(), keys...)
	if err != nil {
		m.errorf("GetMany(%q): %v", keys, err)
	}
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		e, ok := found[k]
		if ok != (m.live(k) != nil) {
			m.errorf("GetMany(%q) has %q: %v, want %v", keys, k, ok, !ok)
		} else if ok {
			m.compareEntry(e, k)
		}
		delete(found, k)
	}
	if len(found) > 0 {
		m.errorf("GetMany(%q) also gives %v", keys, found)
	}
}

// compareScan reads a listing page by page, with a write between the pages: keys that are not written must all show, once
// and in order.
func (m *model) compareScan() {
	prefix := []string{"", "p", "j{t}", "c\x00", "p\xff", "none"}[m.rng.IntN(6)]
	limit := []int{1, 2, 5, 1000}[m.rng.IntN(4)]
	opts := []kv.ScanOption{kv.Limit(limit)}
	keysOnly := m.rng.IntN(2) == 0
	if keysOnly {
		opts = append(opts, kv.KeysOnly())
	}
	quietly := m.rng.IntN(2) == 0
	var want []string
	for _, k := range slices.Sorted(maps.Keys(m.keys)) {
		if m.live(k) != nil && strings.HasPrefix(k, prefix) {
			want = append(want, k)
		}
	}
	touched := make(map[string]bool)
	var got []string
	for cursor := ""; ; {
		page, err := m.store.Page(m.t.Context(), prefix, append(slices.Clip(opts), kv.Cursor(cursor))...)
		if err != nil || len(page.Items) > limit {
			m.errorf("Page(%q, Limit(%d)) = %d items, %v", prefix, limit, len(page.Items), err)
			return
		}
		for _, it := range page.Items {
			got = append(got, it.Key)
			if m.live(it.Key) == nil {
				m.errorf("Page(%q) has %q, which does not exist", prefix, it.Key)
				return
			}
			if keysOnly && it.Value != nil || it.Size != len(m.live(it.Key).Value) {
				m.errorf("Page(%q) has %q with %d bytes, size %d", prefix, it.Key, len(it.Value), it.Size)
			}
			if !keysOnly {
				m.compareEntry(it.Entry, it.Key)
			}
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
		if !quietly {
			o := m.draw()
			touched[o.op.Route] = true
			before := m.clone()
			_, wantErr := o.apply()
			_, err := m.txn().Do(o.op).Commit(m.t.Context())
			m.last = o.name
			m.outcome(before, wantErr, err)
			m.adopt(o.op.Route)
		}
	}
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		m.errorf("Scan(%q) = %q, not in order", prefix, got)
	}
	isTouched := func(k string) bool { return touched[k] }
	if got, want := slices.DeleteFunc(got, isTouched), slices.DeleteFunc(want, isTouched); !slices.Equal(got, want) {
		m.errorf("Scan(%q, Limit(%d)) = %q, want %q", prefix, limit, got, want)
	}
}

func (m *model) compareAll() {
	m.t.Helper()
	var want engine.Counts
	for k, key := range m.keys {
		m.compareKey(k)
		// What has expired and was not noticed still counts.
		if v := key.current(); v.Tombstone {
			want.DeadKeys++
		} else {
			want.Keys++
			want.KeyBytes += int64(len(k) + len(v.Value))
		}
	}
	want.KeySets, want.KeyDeletes = m.sets, m.deletes
	got := m.counts()
	if got.KeyReads = 0; got != want {
		m.errorf("counts are %v, want %v", got, want)
	}
}
