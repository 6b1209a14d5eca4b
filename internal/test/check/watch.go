package check

import (
	"fmt"
	"math"
	"sync"

	"github.com/floedb/floe/kv"
)

// Watch records the events that watchers of keys in one shard received, and those that they had to
// receive. These are all changes of a key, in order, without duplicates or gaps, even when the
// watcher resumes after an error. It is safe for concurrent use, but each Viewer is for one
// goroutine.
//
// Values must be unique per key, so that a change of unknown outcome can be recognised.
type Watch struct {
	mu        sync.Mutex // guards what follows
	committed map[uint64]kv.Event
	possible  map[change]uint64 // revision at which it was reported, 0 if it was not
	told      map[uint64]kv.Event
}

// change is an event without the data that only the node knows.
type change struct {
	kind       kv.EventType
	key, value string
}

func changeOf(e kv.Event) change { return change{e.Type, e.Key, string(e.Value)} }

// NewWatch returns a Watch of keys without changes.
func NewWatch() *Watch {
	return &Watch{committed: make(map[uint64]kv.Event), possible: make(map[change]uint64), told: make(map[uint64]kv.Event)}
}

// Committed notes an acknowledged change: type, key, value (of a put) and revision. Watchers may
// receive it earlier.
func (w *Watch) Committed(e kv.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.committed[e.Revision] = e
}

// Possible notes a change of unknown outcome: type, key and value. That includes expiries. Any
// number of possible deletes and expiries of a key may be reported.
func (w *Watch) Possible(e kv.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.possible[changeOf(e)]; !known {
		w.possible[changeOf(e)] = 0
	}
}

// Check returns an error if watchers received an event without a change, or different events for
// one revision. Call it when every change has been noted. It does not detect missing events;
// Viewer.Check does.
func (w *Watch) Check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for revision, e := range w.told {
		if c, known := w.committed[revision]; known {
			if changeOf(c) != changeOf(e) {
				return fmt.Errorf("watchers were told\n%v\nbut the change was\n%v", describe(e), describe(c))
			}
			continue
		}
		at, known := w.possible[changeOf(e)]
		if !known {
			return fmt.Errorf("watchers were told %v, which nobody did", describe(e))
		}
		if e.Type == kv.EventPut && at != 0 && at != revision {
			return fmt.Errorf("watchers were told %v, which also happened at revision %d", describe(e), at)
		}
		w.possible[changeOf(e)] = revision
	}
	return nil
}

func describe(e kv.Event) string {
	return fmt.Sprintf("%v of %q at revision %d, version %d, value %q", e.Type, e.Key, e.Revision, e.Version, e.Value)
}

// Viewer is one watcher.
type Viewer struct {
	watch *Watch
	since uint64                // all later changes must be reported; MaxUint64 while unknown
	asked uint64                // no change up to this revision may be reported any more
	seen  map[string][]kv.Event // events since the last snapshot began, by key
	last  map[string]uint64     // highest revision reported before, by key
}

// View returns a watcher that begins with a snapshot.
func (w *Watch) View() *Viewer {
	return &Viewer{watch: w, since: math.MaxUint64, seen: make(map[string][]kv.Event), last: make(map[string]uint64)}
}

// ViewFrom returns a watcher that begins after a revision: kv.FromRevision.
func (w *Watch) ViewFrom(revision uint64) *Viewer {
	v := w.View()
	v.Resume(revision)
	return v
}

// Event notes an event that the watcher received. It returns an error if the event cannot follow
// the previous ones.
func (v *Viewer) Event(e kv.Event) error {
	switch e.Type {
	case kv.EventCompacted:
		v.Restart()
		return nil
	case kv.EventProgress:
		v.since, v.asked = min(v.since, e.Revision), max(v.asked, e.Revision)
		return nil
	}
	if err := v.follows(e); err != nil {
		return err
	}
	v.seen[e.Key] = append(v.seen[e.Key], e)
	v.watch.mu.Lock()
	defer v.watch.mu.Unlock()
	if other, known := v.watch.told[e.Revision]; known && changeOf(other) != changeOf(e) {
		return fmt.Errorf("watchers were told of one revision\n%v\n%v", describe(other), describe(e))
	}
	v.watch.told[e.Revision] = e
	return nil
}

// follows checks an event against the previous one of its key. Versions count a key's changes, so
// they reveal gaps; they restart after a deleted key is forgotten.
func (v *Viewer) follows(e kv.Event) error {
	if e.Revision <= v.asked {
		return fmt.Errorf("told %v, but asked for what follows revision %d", describe(e), v.asked)
	}
	if e.Revision < v.last[e.Key] {
		return fmt.Errorf("told %v, but knew of revision %d", describe(e), v.last[e.Key])
	}
	seen := v.seen[e.Key]
	if len(seen) == 0 {
		return nil
	}
	before := seen[len(seen)-1]
	if e.Revision <= before.Revision {
		return fmt.Errorf("told\n%v\nbehind\n%v", describe(e), describe(before))
	}
	if e.Version != before.Version+1 && (before.Type == kv.EventPut || e.Version != 1) {
		return fmt.Errorf("not told what came between\n%v\n%v", describe(before), describe(e))
	}
	return nil
}

// Resume notes that the watcher resumes from a revision: later events are sent once more.
func (v *Viewer) Resume(revision uint64) {
	for key, seen := range v.seen {
		for len(seen) > 0 && seen[len(seen)-1].Revision > revision {
			seen = seen[:len(seen)-1]
		}
		v.seen[key] = seen
	}
	v.since, v.asked = min(v.since, revision), revision
}

// Restart notes that the watcher requests another snapshot.
func (v *Viewer) Restart() {
	for key, seen := range v.seen {
		if len(seen) > 0 {
			v.last[key] = seen[len(seen)-1].Revision
		}
	}
	clear(v.seen)
	v.since, v.asked = math.MaxUint64, 0
}

// Check returns an error if the watcher missed a committed change up to a revision. By then it must
// have received that change: the revision is that of an EventProgress, or of an event for a change
// without concurrent ones.
func (v *Viewer) Check(upTo uint64) error {
	v.watch.mu.Lock()
	defer v.watch.mu.Unlock()
	newest := make(map[string]kv.Event)
	for revision, c := range v.watch.committed {
		if revision > upTo {
			continue
		}
		if revision > newest[c.Key].Revision {
			newest[c.Key] = c
		}
		if v.mustKnow(c) && !v.knows(c) {
			return fmt.Errorf("not told of %v", describe(c))
		}
	}
	for key, c := range newest {
		seen := v.seen[key]
		shown := len(seen) > 0 && seen[len(seen)-1].Revision >= c.Revision
		if c.Type == kv.EventPut && c.Revision <= v.since && !shown && !v.watch.mayBeGoneLocked(key) {
			return fmt.Errorf("not told of %v, which a snapshot has to show", describe(c))
		}
	}
	return nil
}

// mayBeGoneLocked reports whether the key may have been deleted, at a revision known only to the
// node.
func (w *Watch) mayBeGoneLocked(key string) bool {
	_, deleted := w.possible[change{kind: kv.EventDelete, key: key}]
	_, expired := w.possible[change{kind: kv.EventExpire, key: key}]
	return deleted || expired
}

// mustKnow reports whether no snapshot can have replaced the change's event.
func (v *Viewer) mustKnow(c kv.Event) bool {
	seen := v.seen[c.Key]
	return c.Revision > v.since || len(seen) > 0 && c.Revision > seen[0].Revision
}

func (v *Viewer) knows(c kv.Event) bool {
	for _, e := range v.seen[c.Key] {
		if e.Revision == c.Revision {
			return true
		}
	}
	return false
}
