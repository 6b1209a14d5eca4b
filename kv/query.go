package kv

import (
	"bytes"
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/floedb/floe/internal/arena"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// The queries of the machine: arguments first, results after the blank line.

type getQuery struct {
	namespace     string
	keys          []string
	withoutValues bool
	counted       bool // the read is already in the statistics; not sent

	entries []Entry
	left    int // keys not read because the answer was full; fewer than keys
}

type scanQuery struct {
	namespace string
	prefix    string
	after     string // keys after this one; "" for all
	limit     int
	keysOnly  bool
	maxBytes  int  // of values; the page ends with the one that exceeds it
	position  bool // request lsn

	items []Item
	more  bool
	last  string // with more: the last key examined
	lsn   uint64 // of the state that was read; with position
	mem   arena.Arena
}

type historyQuery struct {
	namespace     string
	key           string
	withoutValues bool
	before        uint64 // a version; 0: from the newest one on
	limit         int

	found    bool
	versions []Version
	size     int // of their values
	more     bool
}

// waitQuery waits until the key exists (after 0) or its latest change is later than the revision
// after.
type waitQuery struct {
	namespace string
	key       string
	after     uint64
	exists    bool // wait for a value, whatever its revision

	event Event
}

// changesQuery waits for changes of keys with a prefix after a revision. A scan of all keys can
// find more changes than one answer holds. The rest is returned in queue for the next query, so a
// watcher that is far behind does not need a scan per answer. If a scan exceeds the time limit of a
// query, the next query continues it.
type changesQuery struct {
	namespace string
	prefix    string
	after     uint64
	limit     int
	queue     []recentKey // also a result: changes found but not delivered, oldest first
	queueEnd  uint64      // also a result: with the queue, all changes up to here are delivered
	scanned   string      // also a result: the last key of an unfinished scan, so the queue is incomplete; "": none
	patience  int64       // ms after which it answers without changes, if the shard has moved on; 0: none

	waited bool   // all changes up to after were found delivered, and later ones wake the query
	from   uint64 // after, when the query arrived
	due    int64  // when patience ends

	events    []Event
	next      uint64 // revision to continue from
	compacted bool   // some of the changes are no longer in the history
}

func (*getQuery) Machine() engine.MachineID     { return engine.MachineKV }
func (*scanQuery) Machine() engine.MachineID    { return engine.MachineKV }
func (*historyQuery) Machine() engine.MachineID { return engine.MachineKV }
func (*waitQuery) Machine() engine.MachineID    { return engine.MachineKV }
func (*changesQuery) Machine() engine.MachineID { return engine.MachineKV }

func (m *machine) queryGet(v *engine.View, q *getQuery) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	if !q.counted {
		v.CountRead(q.namespace)
	}
	if len(q.keys) > 1 {
		v.Freeze()
	}
	q.entries, q.left = q.entries[:0], 0 // from an attempt before the log had reached the end of a key
	size := 0
	for i, k := range q.keys {
		w, err := current(v, ns, []byte(k))
		if err != nil {
			return err
		}
		if !w.lives(v) {
			continue
		}
		if q.withoutValues {
			w.value = nil
		}
		q.entries = append(q.entries, w.entry(k))
		if size += len(w.value); size > maxGetBytes {
			q.left = len(q.keys) - i - 1
			break
		}
	}
	return nil
}

// maxGetBytes bounds the values of one answer, which ends with the value that exceeds it.
const maxGetBytes = 8 << 20

func current(v *engine.View, ns uint32, k []byte) (row, error) {
	b, ok, err := v.Get(currentKey(nil, ns, k))
	if err != nil || !ok {
		return row{}, err
	}
	return decodeRow(b)
}

// maxPageBytes bounds the values of one page, so that a page of large ones stays small.
const maxPageBytes = 4 << 20

func (m *machine) queryScan(v *engine.View, q *scanQuery) error {
	if q.position {
		lsn, err := v.LSN()
		if err != nil {
			return err
		}
		q.lsn = uint64(lsn)
	}
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	v.CountRead(q.namespace)
	lower := currentKey(nil, ns, []byte(q.prefix))
	upper := key.PrefixEnd(lower)
	if q.after >= q.prefix {
		lower = append(currentKey(nil, ns, []byte(q.after)), 0)
	}
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	it, err := v.Iter(lower, upper)
	if err != nil {
		return err
	}
	q.items, q.more = q.items[:0], false // from an attempt before the log had reached the end of a key
	err = q.collect(it, v)
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (q *scanQuery) collect(it *engine.Iter, v *engine.View) error {
	size := 0
	var w row
	for ok := it.First(); ok; ok = it.Next() {
		if err := w.decode(it.Value()); err != nil {
			return err
		}
		if w.lives(v) {
			if n := len(q.items); n == q.limit || size > q.maxBytes {
				q.more, q.last = true, q.items[n-1].Key
				return nil
			}
			size += q.add(it.Key()[keyAt:], &w)
		}
		if v.Full() {
			q.more, q.last = true, string(it.Key()[keyAt:])
			return nil
		}
	}
	return nil
}

// add adds an item, and returns the bytes of its value.
func (q *scanQuery) add(k []byte, w *row) int {
	size, value := len(w.value), w.value
	if w.value = nil; !q.keysOnly {
		w.value = q.mem.Copy(value)
	}
	k = q.mem.Copy(k)
	if len(q.items) == cap(q.items) {
		q.items = slices.Grow(q.items, min(max(len(q.items), firstItems), q.limit-len(q.items)))
	}
	q.items = append(q.items, Item{Size: size})
	w.fill(&q.items[len(q.items)-1].Entry, unsafe.String(unsafe.SliceData(k), len(k)))
	return len(w.value)
}

// firstItems is the initial capacity of a page.
const firstItems = 100

func (m *machine) queryHistory(v *engine.View, q *historyQuery) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	v.CountRead(q.namespace)
	v.Freeze()
	cur, err := current(v, ns, []byte(q.key))
	if err != nil || !cur.exists() {
		return err
	}
	q.found = true
	if q.before == 0 || cur.version < q.before {
		q.add(cur)
	}
	prefix := historyPrefix(nil, ns, []byte(q.key))
	lower := prefix
	if q.before > 0 {
		lower = historyKey(nil, ns, []byte(q.key), q.before-1)
	}
	it, err := v.Iter(lower, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if q.more = len(q.versions) == q.limit || q.size > maxPageBytes; q.more {
			break
		}
		w, err := decodeRow(it.Value())
		if err != nil {
			it.Close()
			return err
		}
		q.add(w)
	}
	return it.Close()
}

func (q *historyQuery) add(w row) {
	v := w.describe()
	if q.withoutValues {
		v.Value = nil
	}
	q.size += len(v.Value)
	v.Value = bytes.Clone(v.Value)
	q.versions = append(q.versions, v)
}

func (w *row) describe() Version {
	return Version{
		Version: w.version, Revision: w.revision, Term: w.term, Time: time.UnixMilli(w.updatedAt),
		Size: len(w.value), Tombstone: w.tombstone(), Expired: w.flags&flagExpired != 0, Value: w.value,
	}
}

func (w *row) event(k []byte) Event {
	e := Event{Type: EventPut, Key: string(k), Value: w.value, Revision: w.revision, Version: w.version, Time: time.UnixMilli(w.updatedAt)}
	switch {
	case w.flags&flagExpired != 0:
		e.Type = EventExpire
	case w.tombstone():
		e.Type = EventDelete
	}
	return e
}

func (m *machine) queryWait(v *engine.View, q *waitQuery) error {
	if err := v.WaitOn(keyTopic(q.namespace, []byte(q.key))); err != nil {
		return err
	}
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return engine.ErrWait
	}
	v.Freeze()
	w, err := current(v, ns, []byte(q.key))
	if err != nil {
		return err
	}
	if lsn, err := v.LSN(); err != nil || q.after > uint64(lsn) && !v.Stale() {
		return cmp.Or(err, aheadError(q.after, lsn))
	}
	if q.exists && w.lives(v) || !q.exists && w.revision > q.after {
		q.event = w.event([]byte(q.key))
		return nil
	}
	if q.exists || w.exists() || q.after == 0 {
		return engine.ErrWait
	}
	// The key had a revision and now has no row. If tombstones were forgotten since, its own may be
	// among them.
	forgotten, err := forgottenUpTo(v, ns)
	if err != nil {
		return err
	}
	if forgotten <= q.after {
		return engine.ErrWait
	}
	q.event = Event{Type: EventDelete, Key: q.key, Revision: forgotten}
	return nil
}

func (m *machine) queryChanges(v *engine.View, q *changesQuery) error {
	if !v.Waited() {
		q.waited, q.due = false, 0 // findings of an earlier call are only valid for the time before it
	}
	quiet := m.recent.toldUpTo() // before checking whether anything has woken the query
	before, err := v.WaitOnPrefix(q.namespace, []byte(q.prefix))
	if err != nil {
		return err
	}
	if before > 0 {
		quiet = before - 1
	}
	// No key with the prefix has changed between the previous scan and quiet.
	if q.waited && m.recent.woken(engine.LSN(q.after)) {
		q.after = max(q.after, uint64(quiet))
	}
	if q.due == 0 {
		q.from, q.due = q.after, v.Now()+q.patience
	}
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return engine.ErrWait
	}
	if len(q.queue) == 0 || q.scanned != "" {
		if err := m.findChanges(v, ns, q); err != nil || q.compacted {
			return err
		}
	}
	switch {
	case q.scanned != "":
		q.next = q.after
		return nil
	case len(q.queue) == 0:
		q.after, q.waited = q.queueEnd, true
		return q.wait(v)
	}
	return m.fetch(v, ns, q)
}

// wait waits for a change, or answers with the shard's revision after a long wait. So a watcher of
// unchanging keys can resume from a recent revision, and changes of other keys rarely wake it.
func (q *changesQuery) wait(v *engine.View) error {
	if q.patience == 0 {
		return engine.ErrWait
	}
	if now := v.Now(); now >= q.due {
		if q.after > q.from {
			q.next = q.after
			return nil
		}
		q.due = now + q.patience
	}
	v.LookAgainAt(q.due)
	return engine.ErrWait
}

// findChanges fills the queue, from memory if it reaches back far enough.
func (m *machine) findChanges(v *engine.View, ns uint32, q *changesQuery) error {
	changes, upTo, ok := m.recent.since(engine.LSN(q.after), ns, []byte(q.prefix), q.limit)
	lsn, err := v.LSN() // after the ring, so that the view contains everything the ring names
	if err != nil {
		return err
	}
	if q.after > uint64(lsn) {
		if v.Stale() {
			return engine.ErrWait // the replica lags: a change with a later revision will come, or none to deliver
		}
		return aheadError(q.after, lsn)
	}
	if ok {
		q.queue, q.queueEnd, q.scanned = changes, uint64(upTo), ""
		return nil
	}
	if q.scanned == "" || q.queueEnd > uint64(lsn) { // or another, lagging replica has started
		q.queue, q.queueEnd, q.scanned = nil, uint64(lsn), ""
	}
	return m.scanChanges(v, ns, q)
}

func aheadError(revision uint64, lsn engine.LSN) error {
	return engine.Errorf(ErrInvalid, "kv: revision %d is ahead of the shard, which is at %d", revision, lsn)
}

// fetch reads the next versions of the queue, until the answer is full.
func (m *machine) fetch(v *engine.View, ns uint32, q *changesQuery) error {
	v.Freeze()
	told := make(map[string]uint64) // versions, by key
	for size := 0; len(q.queue) > 0 && len(q.events) < q.limit && size <= maxPageBytes; q.queue = q.queue[1:] {
		c := q.queue[0]
		w, found, err := versionAt(v, ns, c, told[string(c.key)])
		if err != nil {
			return err
		}
		if !found {
			q.events = nil
			q.compact()
			return nil
		}
		told[string(c.key)] = w.version
		q.events = append(q.events, w.event(c.key))
		q.next = c.revision
		size += len(w.value)
	}
	if len(q.queue) == 0 {
		q.next = q.queueEnd
	}
	return nil
}

// versionAt returns the version of a key at the revision. Usually that is the current version, or
// the one before told, the last delivered version (0: none). Otherwise versionAt walks back through
// the history.
func versionAt(v *engine.View, ns uint32, c recentKey, told uint64) (w row, found bool, err error) {
	if w, err = current(v, ns, c.key); err != nil || w.revision == c.revision && w.exists() {
		return w, err == nil, err
	}
	if next := told + 1; told > 0 && next < w.version {
		b, ok, err := v.Get(historyKey(nil, ns, c.key, next))
		if err != nil {
			return row{}, false, err
		}
		if ok {
			if w, err := decodeRow(b); err != nil || w.revision == c.revision {
				return w, err == nil, err
			}
		}
	}
	for version := w.version; version > 1 && w.previous >= c.revision; {
		version--
		b, ok, err := v.Get(historyKey(nil, ns, c.key, version))
		if err != nil || !ok {
			return row{}, false, err
		}
		if w, err = decodeRow(b); err != nil || w.revision == c.revision {
			return w, err == nil, err
		}
	}
	return row{}, false, nil
}

// maxScanned is the maximum number of changes that one scan of all keys keeps: about 1 MiB.
const maxScanned = 8192

// scanChanges fills the queue with the oldest changes after q.after, up to q.queueEnd, by scanning
// every key with the prefix after q.scanned. It stops early if that takes long. If a key changes in
// the meantime, its earlier changes are in its history.
func (m *machine) scanChanges(v *engine.View, ns uint32, q *changesQuery) error {
	forgotten, err := forgottenUpTo(v, ns)
	if err == nil && forgotten > q.after {
		q.compact()
		return nil
	}
	if err != nil {
		return err
	}
	prefix := currentKey(nil, ns, []byte(q.prefix))
	lower := prefix
	if q.scanned != "" {
		lower = append(currentKey(nil, ns, []byte(q.scanned)), 0)
	}
	upper := key.PrefixEnd(prefix)
	if bytes.Compare(lower, upper) >= 0 {
		return engine.Errorf(ErrInvalid, "kv: key %q is not one of the prefix %q", shown(q.scanned), shown(q.prefix))
	}
	it, err := v.Iter(lower, upper)
	if err != nil {
		return err
	}
	oldest := newOldest(q)
	err = oldest.look(v, ns, it, q)
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if err == nil && !q.compacted {
		q.queue, q.queueEnd = oldest.sorted(), oldest.upTo
	}
	return err
}

// compact makes the query report that some of the changes are no longer in the history.
func (q *changesQuery) compact() { q.queue, q.scanned, q.compacted = nil, "", true }

// forgottenUpTo returns the highest revision of any forgotten tombstone. Deletes up to it can no
// longer be reported.
func forgottenUpTo(v *engine.View, ns uint32) (uint64, error) {
	b, ok, err := v.Get(forgottenKey(nil, ns))
	if err != nil || !ok {
		return 0, err
	}
	r := codec.NewReader(b)
	revision := r.Uvarint()
	if err := r.Done(); err != nil {
		return 0, fmt.Errorf("kv: forgotten row: %w", err)
	}
	return revision, nil
}

// oldestChanges keeps the limit oldest changes: a heap with the newest of them on top.
type oldestChanges struct {
	keys  []recentKey
	limit int
	upTo  uint64 // later changes are left out
}

// newOldest starts with the changes that a query has already found.
func newOldest(q *changesQuery) *oldestChanges {
	o := &oldestChanges{keys: q.queue, limit: maxScanned, upTo: q.queueEnd}
	heap.Init(o)
	return o
}

// look scans the keys until the view is Full.
func (o *oldestChanges) look(v *engine.View, ns uint32, it *engine.Iter, q *changesQuery) error {
	scanned := ""
	for ok := it.First(); ok; ok = it.Next() {
		w, err := decodeRow(it.Value())
		if err == nil && w.revision > q.after {
			var compacted bool
			if compacted, err = o.addKey(v, ns, bytes.Clone(it.Key()[keyAt:]), w, q.after); compacted {
				q.compact()
				return nil
			}
		}
		if err != nil {
			return err
		}
		if v.Full() {
			scanned = string(it.Key()[keyAt:])
			break
		}
	}
	q.scanned = scanned
	return nil
}

func (o *oldestChanges) Len() int           { return len(o.keys) }
func (o *oldestChanges) Less(i, j int) bool { return o.keys[i].revision > o.keys[j].revision }
func (o *oldestChanges) Swap(i, j int)      { o.keys[i], o.keys[j] = o.keys[j], o.keys[i] }
func (o *oldestChanges) Push(x any)         { o.keys = append(o.keys, x.(recentKey)) }
func (o *oldestChanges) Pop() any {
	last := o.keys[len(o.keys)-1]
	o.keys = o.keys[:len(o.keys)-1]
	return last
}

// addKey adds all changes of a key after a revision; compacted means that one of them is no longer
// in the key's history.
func (o *oldestChanges) addKey(v *engine.View, ns uint32, k []byte, w row, after uint64) (compacted bool, err error) {
	for {
		if w.revision <= o.upTo {
			heap.Push(o, recentKey{w.revision, k})
		}
		if len(o.keys) > o.limit {
			heap.Pop(o)
			o.upTo = o.keys[0].revision
		}
		if w.version == 1 || w.previous <= after {
			return false, nil
		}
		b, ok, err := v.Get(historyKey(nil, ns, k, w.version-1))
		if err != nil {
			return false, err
		}
		if !ok {
			return true, nil
		}
		if w, err = decodeRow(b); err != nil {
			return false, err
		}
	}
}

func (o *oldestChanges) sorted() []recentKey {
	keys := make([]recentKey, len(o.keys))
	for i := len(keys) - 1; i >= 0; i-- {
		keys[i] = heap.Pop(o).(recentKey)
	}
	return keys
}
