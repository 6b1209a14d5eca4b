package kv_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

func (m *model) Step() {
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
		if m.rng.IntN(2) == 0 {
			m.last = "restart"
			m.restart()
			m.Compare()
		}
	case n == 99:
		m.Compare()
	}
}

// single runs one operation alone, equivalent to a transaction of one part.
func (m *model) single() {
	o := m.draw()
	m.last = o.name
	before := m.clone()
	check, want := o.apply()
	values, err := m.commit(m.t.Context(), nil, o.op)
	m.outcome(before, want, err)
	if err == nil && want == nil && !check(values[0]) {
		m.errorf("got %v", values[0])
	}
	m.adopt(engine.OpOf(o.op).Route)
}

func (m *model) transaction() {
	before := m.clone()
	var conditions []engine.Condition
	var ops []engine.Operation
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
		if conditions = append(conditions, c); !holds {
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
		ops = append(ops, o.op)
		routes = append(routes, engine.OpOf(o.op).Route)
		if want == nil {
			var check func(any) bool
			check, want = o.apply()
			checks = append(checks, check)
		}
	}
	if m.spread && !m.together(routes) {
		want = kv.ErrInvalid
	}
	values, err := m.commit(m.t.Context(), conditions, ops...)
	m.outcome(before, want, err)
	if err == nil && want == nil {
		for i, check := range checks {
			if !check(values[i]) {
				m.errorf("operation %d: got %v", i, values[i])
			}
		}
	}
	m.adopt(routes...)
}

// together reports whether the names are in one shard.
func (m *model) together(names []string) bool {
	var conditions []engine.Condition
	for _, n := range names {
		conditions = append(conditions, kv.RevisionIs(n, math.MaxInt64))
	}
	_, err := m.commit(m.t.Context(), conditions)
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

// outcome compares errors, and restores the model if the operation was to fail.
func (m *model) outcome(before snapshot, want, got error) {
	m.t.Helper()
	if want != nil {
		m.keys, m.sets, m.deletes = before.keys, before.sets, before.deletes
	}
	if want == nil && got != nil || !errors.Is(got, want) {
		m.errorf("got error %v, want %v", got, want)
	}
}

// adopt copies from the store what only it knows of the written keys: revisions, and the exact
// bytes of documents.
func (m *model) adopt(keys ...string) {
	m.t.Helper()
	for _, k := range keys {
		key := m.keys[k]
		if key == nil {
			continue
		}
		versions, err := engine.Collect(m.store.History(k).All(m.t.Context()))
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

// onDisk reports whether times and expiries are unknown to the model and not compared.
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
		m.errorf("entry of %q is %q at revision %d, version %d, want %q at %d, %d", k, e.Value, e.Revision, e.Version, v.Value, v.Revision,
			v.Version)
	}
	if expires == 0 != e.ExpiresAt.IsZero() || expires != 0 && e.ExpiresAt.UnixMilli() != expires ||
		!m.onDisk() && !e.UpdatedAt.Equal(v.Time) {
		m.errorf("entry of %q expires %v, updated %v, want %v, %v", k, e.ExpiresAt, e.UpdatedAt, expires, v.Time)
	}
}

func (m *model) compareHistory(k string) {
	m.t.Helper()
	versions, err := engine.Collect(m.store.History(k).All(m.t.Context()))
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
		// The time at which the store processed an expiry is not modelled.
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

// page reads a page, into its own memory or that of the previous page.
func (m *model) page(opts []kv.ListOption) (kv.Page[kv.Item], error) {
	if m.rng.IntN(2) == 0 {
		return m.store.Page(m.t.Context(), opts...)
	}
	return m.store.PageInto(m.t.Context(), &m.buf, opts...)
}

// compareScan reads a listing page by page, with a write between pages. Keys that are not written
// must appear exactly once and in order.
func (m *model) compareScan() {
	prefix := []string{"", "p", "j{t}", "c\x00", "p\xff", "none"}[m.rng.IntN(6)]
	limit := []int{1, 2, 5, 1000}[m.rng.IntN(4)]
	opts := []kv.ListOption{kv.Prefix(prefix), kv.Limit(limit)}
	keysOnly := m.rng.IntN(2) == 0
	if keysOnly {
		opts = append(opts, kv.NoValues())
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
		page, err := m.page(append(slices.Clip(opts), kv.Cursor(cursor)))
		if err != nil || len(page.Items) > limit {
			m.errorf("Page(%q, Limit(%d)) = %d items, %v", prefix, limit, len(page.Items), err)
			return
		}
		for _, it := range page.Items {
			got = append(got, strings.Clone(it.Key))
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
			touched[engine.OpOf(o.op).Route] = true
			before := m.clone()
			_, wantErr := o.apply()
			_, err := m.commit(m.t.Context(), nil, o.op)
			m.last = o.name
			m.outcome(before, wantErr, err)
			m.adopt(engine.OpOf(o.op).Route)
		}
	}
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		m.errorf("Page(%q) = %q, not in order", prefix, got)
	}
	isTouched := func(k string) bool { return touched[k] }
	if got, want := slices.DeleteFunc(got, isTouched), slices.DeleteFunc(want, isTouched); !slices.Equal(got, want) {
		m.errorf("Page(%q, Limit(%d)) = %q, want %q", prefix, limit, got, want)
	}
}

func (m *model) Compare() {
	m.t.Helper()
	var want engine.Counts
	for k, key := range m.keys {
		m.compareKey(k)
		// An expired key that is not yet processed still counts.
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
