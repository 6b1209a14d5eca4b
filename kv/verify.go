package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

var _ engine.Verifier = (*machine)(nil)

// Verify checks that all rows of the machine are consistent: see the comment on rows.
func (m *machine) Verify(a *engine.Audit) error {
	names := a.Names()
	v := &verifier{Audit: a, names: names, counted: make([]tally, len(names))}
	for _, step := range []func() error{v.unknownRows, v.keys, v.moreRevisions, v.tombstones, v.timers, v.marks} {
		if err := step(); err != nil {
			return err
		}
	}
	v.compareCounts()
	return nil
}

// verifier walks over the rows kind by kind. It needs little memory: a few numbers per namespace,
// and a bit per LSN.
type verifier struct {
	*engine.Audit
	names     []string
	counted   []tally // by namespace
	revisions revisionSet
}

// tally holds the counts of a namespace.
type tally struct {
	keys, bytes, dead int64
	deadRows          int64
	forgetTimers      int
	forgetRow         bool
}

// problem reports a problem of a key.
func (v *verifier) problem(ns uint32, k []byte, format string, args ...any) {
	v.Reportf("kv: namespace %s, key %q: %s", v.name(ns), k, fmt.Sprintf(format, args...))
}

func (v *verifier) name(ns uint32) string {
	if int(ns) >= len(v.names) || v.names[ns] == "" {
		return fmt.Sprint(ns)
	}
	return fmt.Sprintf("%q", v.names[ns])
}

// of returns the tally of a namespace, even if it does not exist. A missing namespace is reported
// with its rows.
func (v *verifier) of(ns uint32) *tally {
	if int(ns) < len(v.counted) {
		return &v.counted[ns]
	}
	return new(tally)
}

// unknownRows reports rows of unknown kind, or too short for their kind.
func (v *verifier) unknownRows() error {
	unknown := func(k, _ []byte) error {
		v.Reportf("kv: row %x is of an unknown kind", k)
		return nil
	}
	for _, gap := range [][2][]byte{{nil, {'c'}}, {{'e'}, {'h'}}, {{'i'}, {'q'}}, {{'r'}, {'w'}}, {{'x'}, nil}} {
		if err := v.Scan(gap[0], gap[1], unknown); err != nil {
			return err
		}
	}
	return nil
}

// keys walks over the current and, in parallel, the earlier versions of all keys: both are in key
// order.
func (v *verifier) keys() error {
	earlier, err := v.Iter([]byte{'h'}, []byte{'h' + 1})
	if err != nil {
		return err
	}
	more := earlier.First()
	err = v.Scan([]byte{'c'}, []byte{'c' + 1}, func(k, value []byte) error {
		if len(k) <= keyAt || len(k) > keyAt+MaxKeyBytes {
			v.Reportf("kv: row %x has a missing or too long key", k)
			return nil
		}
		ns, k := binary.BigEndian.Uint32(k[1:]), k[keyAt:]
		if int(ns) >= len(v.names) {
			v.problem(ns, k, "the shard has %d namespaces", len(v.names))
		}
		prefix := historyPrefix(nil, ns, k)
		for more && bytes.Compare(earlier.Key(), prefix) < 0 {
			v.orphan(earlier.Key())
			more = earlier.Next()
		}
		c := chain{verifier: v, ns: ns, key: k}
		if err := c.current(value); err != nil {
			return err
		}
		for more && bytes.HasPrefix(earlier.Key(), prefix) {
			c.earlier(earlier.Key()[len(prefix):], earlier.Value())
			if err := v.Tick(); err != nil {
				return err
			}
			more = earlier.Next()
		}
		c.end()
		return nil
	})
	for ; more && err == nil; more = earlier.Next() {
		v.orphan(earlier.Key())
	}
	if closeErr := earlier.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (v *verifier) orphan(row []byte) {
	v.Reportf("kv: row %x is an earlier version of a key that does not exist", row)
}

// chain is the versions of one key, newest first.
type chain struct {
	*verifier
	ns     uint32
	key    []byte
	newer  row    // without its value
	newest uint64 // version
	broken bool
}

func (c *chain) current(value []byte) error {
	w, err := decodeRow(value)
	if err != nil {
		c.problem(c.ns, c.key, "%v", err)
		c.broken = true
		return nil
	}
	c.check(&w)
	c.newer, c.newest = w, w.version
	t := c.of(c.ns)
	if w.tombstone() {
		t.dead++
		return c.tombstone(&w)
	}
	t.keys++
	t.bytes += int64(len(c.key) + len(w.value))
	return c.expiry(&w)
}

// check checks one version on its own.
func (c *chain) check(w *row) {
	c.revisions.add(w.revision)
	switch last := c.Applied; {
	case w.flags&^(flagTombstone|flagExpires|flagExpired) != 0,
		w.tombstone() && (w.flags&flagExpires != 0 || len(w.value) > 0),
		!w.tombstone() && w.flags&flagExpired != 0:
		c.problem(c.ns, c.key, "version %d has flags %#x and %d bytes", w.version, w.flags, len(w.value))
	case w.version == 0:
		c.problem(c.ns, c.key, "has version 0")
	case w.revision == 0 || w.revision > uint64(last.LSN):
		c.problem(c.ns, c.key, "version %d has revision %d, the shard's last LSN is %d", w.version, w.revision, last.LSN)
	case w.previous >= w.revision || (w.previous == 0) != (w.version == 1):
		c.problem(c.ns, c.key, "version %d of revision %d follows revision %d", w.version, w.revision, w.previous)
	case w.term == 0 || w.term > last.Term:
		c.problem(c.ns, c.key, "version %d is of term %d, the shard's last is %d", w.version, w.term, last.Term)
	case w.updatedAt > last.Stamp:
		c.problem(c.ns, c.key, "version %d was written at %d, after all there is, which ends at %d", w.version, w.updatedAt, last.Stamp)
	}
}

// tombstone checks that the key is in the queue of tombstones to forget.
func (c *chain) tombstone(w *row) error {
	queued, ok, err := c.Get(deadKey(nil, c.ns, w.revision))
	if err == nil && (!ok || !bytes.Equal(queued, append(codec.AppendVarint(nil, w.updatedAt), c.key...))) {
		c.problem(c.ns, c.key, "its tombstone of revision %d is not queued to be forgotten", w.revision)
	}
	return err
}

func (c *chain) expiry(w *row) error {
	if w.flags&flagExpires == 0 {
		return nil
	}
	set, err := c.HasTimer(w.expiresAt, c.ns, append([]byte{tokenExpire}, c.key...))
	if err == nil && !set {
		c.problem(c.ns, c.key, "expires at %d, but has no timer", w.expiresAt)
	}
	return err
}

// earlier takes the next older version; number is the rest of its row key.
func (c *chain) earlier(number, value []byte) {
	if len(number) != 8 {
		c.problem(c.ns, c.key, "has an earlier version with a row key that ends with %x", number)
		return
	}
	version := ^binary.BigEndian.Uint64(number)
	w, err := decodeRow(value)
	if err != nil {
		c.problem(c.ns, c.key, "version %d: %v", version, err)
		c.broken = true
		return
	}
	c.check(&w)
	switch {
	case w.version != version:
		c.problem(c.ns, c.key, "the row of version %d holds version %d", version, w.version)
	case c.broken:
	case version < oldestVersion(c.newest):
		c.problem(c.ns, c.key, "still has version %d, its newest is %d", version, c.newest)
	case version != c.newer.version-1:
		c.problem(c.ns, c.key, "version %d comes before version %d", version, c.newer.version)
	case w.revision != c.newer.previous:
		c.problem(c.ns, c.key, "version %d has revision %d, but the next one follows revision %d", version, w.revision, c.newer.previous)
	case w.updatedAt > c.newer.updatedAt || w.term > c.newer.term:
		c.problem(c.ns, c.key, "version %d was written at %d in term %d, the next one at %d in term %d",
			version, w.updatedAt, w.term, c.newer.updatedAt, c.newer.term)
	}
	c.newer = w
}

func (c *chain) end() {
	if oldest := oldestVersion(c.newest); !c.broken && c.newer.version > oldest {
		c.problem(c.ns, c.key, "version %d is the oldest of its history, which has to reach back to %d", c.newer.version, oldest)
	}
}

// moreRevisions repeats the search for duplicate revisions until all windows have been searched.
func (v *verifier) moreRevisions() error {
	for v.revisions.next() {
		for _, kind := range []byte{'c', 'h'} {
			err := v.Scan([]byte{kind}, []byte{kind + 1}, func(_, value []byte) error {
				if w, err := decodeRow(value); err == nil {
					v.revisions.add(w.revision)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	for _, revision := range v.revisions.twice {
		v.Reportf("kv: two versions have revision %d", revision)
	}
	return nil
}

// tombstones checks the queue of tombstones to forget.
func (v *verifier) tombstones() error {
	return v.Scan([]byte{'d'}, []byte{'d' + 1}, func(k, value []byte) error {
		if len(k) != keyAt+8 {
			v.Reportf("kv: invalid tombstone row %x", k)
			return nil
		}
		ns, revision := binary.BigEndian.Uint32(k[1:]), binary.BigEndian.Uint64(k[keyAt:])
		v.of(ns).deadRows++
		r := codec.NewReader(value)
		r.Varint()
		deleted := r.Rest()
		cur, err := v.current(ns, deleted)
		if err != nil {
			return err
		}
		if !cur.tombstone() || cur.revision != revision {
			v.problem(ns, deleted, "is queued to be forgotten as deleted at revision %d, but it is at %d", revision, cur.revision)
		}
		return nil
	})
}

// current returns the current version of a key, or none if its row does not decode, which keys
// reports.
func (v *verifier) current(ns uint32, k []byte) (cur row, err error) {
	if cur, err = current(&v.View, ns, k); errors.Is(err, codec.ErrCorrupt) {
		return row{}, nil
	}
	return cur, err
}

// timers checks that every timer has a reason. That each reason has a timer is checked elsewhere.
func (v *verifier) timers() error {
	return v.Timers(func(due int64, ns uint32, token []byte) error {
		switch {
		case len(token) > 1 && token[0] == tokenExpire:
			k := token[1:]
			cur, err := v.current(ns, k)
			if err != nil {
				return err
			}
			if !cur.exists() || cur.tombstone() || cur.flags&flagExpires == 0 || cur.expiresAt != due {
				v.problem(ns, k, "has a timer to expire at %d, but does not expire then", due)
			}
		case len(token) == 1 && token[0] == tokenForget:
			v.of(ns).forgetTimers++
		default:
			v.Reportf("kv: namespace %s: timer with unknown token %q", v.name(ns), token)
		}
		return nil
	})
}

// marks checks the rows with one per namespace: timers and forgotten tombstones.
func (v *verifier) marks() error {
	err := v.Scan([]byte{'q'}, []byte{'q' + 1}, func(k, value []byte) error {
		if len(k) != keyAt || len(value) > 0 {
			v.Reportf("kv: invalid timer row %x", k)
			return nil
		}
		v.of(binary.BigEndian.Uint32(k[1:])).forgetRow = true
		return nil
	})
	if err != nil {
		return err
	}
	return v.Scan([]byte{'w'}, []byte{'w' + 1}, func(k, value []byte) error {
		r := codec.NewReader(value)
		forgotten := r.Uvarint()
		if err := r.Done(); err != nil || len(k) != keyAt {
			v.Reportf("kv: invalid row %x of forgotten tombstones", k)
			return nil
		}
		return v.forgotten(binary.BigEndian.Uint32(k[1:]), forgotten)
	})
}

// forgotten checks that tombstones were forgotten in order.
func (v *verifier) forgotten(ns uint32, upTo uint64) error {
	if upTo == 0 || upTo > uint64(v.Applied.LSN) {
		v.Reportf("kv: namespace %s: tombstones up to revision %d were forgotten, the shard's last LSN is %d", v.name(ns), upTo,
			v.Applied.LSN)
	}
	return v.Scan(deadPrefix(nil, ns), deadKey(nil, ns, upTo+1), func(k, _ []byte) error {
		v.Reportf("kv: namespace %s: tombstone of revision %d was left when those up to %d were forgotten",
			v.name(ns), binary.BigEndian.Uint64(k[keyAt:]), upTo)
		return nil
	})
}

// compareCounts compares the tallies with the counts in the namespaces' rows.
func (v *verifier) compareCounts() {
	for i := range v.counted {
		ns, t := uint32(i), &v.counted[i]
		for _, c := range []struct {
			what    string
			counter engine.Counter
			n       int64
		}{
			{"keys", countKeys, t.keys}, {"bytes", countBytes, t.bytes}, {"deleted keys", countDead, t.dead},
		} {
			if n, known := v.Counted(ns, c.counter); known && n != c.n {
				v.Reportf("kv: namespace %s: its row counts %d %s, found %d", v.name(ns), n, c.what, c.n)
			}
		}
		if t.deadRows != t.dead {
			v.Reportf("kv: namespace %s: %d keys are queued to be forgotten, %d are deleted", v.name(ns), t.deadRows, t.dead)
		}
		if timers := t.forgetTimers; timers > 1 || (timers == 1) != t.forgetRow || t.dead > 0 && timers == 0 {
			v.Reportf("kv: namespace %s: %d timers to forget its %d deleted keys, timer row: %v", v.name(ns), timers,
				t.dead, t.forgetRow)
		}
	}
}

// revisionSet finds duplicate revisions. It keeps a bit for each revision in a window, and makes
// one pass per window.
type revisionSet struct {
	pages  [windowPages]*[pageWords]uint64
	window uint64         // the current one
	counts map[uint64]int // revisions of each window; complete after the first pass
	first  bool           // first pass
	twice  []uint64       // at most maxTwice
}

const (
	pageWords   = 1 << 13                // 64 KiB
	windowPages = 1 << 10                // 64 MiB for half a billion revisions
	windowSize  = windowPages * pageBits // revisions
	pageBits    = 64 * pageWords
	maxTwice    = 100
)

func (s *revisionSet) add(revision uint64) {
	if s.counts == nil {
		s.counts, s.first = make(map[uint64]int), true
	}
	window := revision / windowSize
	if s.first {
		s.counts[window]++
	}
	if window != s.window {
		return
	}
	page := &s.pages[revision%windowSize/pageBits]
	if *page == nil {
		*page = new([pageWords]uint64)
	}
	word, bit := &(*page)[revision%pageBits/64], uint64(1)<<(revision%64)
	if *word&bit != 0 && len(s.twice) < maxTwice {
		s.twice = append(s.twice, revision)
	}
	*word |= bit
}

// next moves to the next window that holds more than one revision and reports whether there is one.
func (s *revisionSet) next() bool {
	s.first = false
	delete(s.counts, s.window)
	for window, n := range s.counts {
		if n > 1 {
			s.window = window
			clear(s.pages[:])
			return true
		}
	}
	return false
}
