package workers

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// A worker that calls by itself is one of another runtime, or a script: no process of it counts. The shards that give it runs, and in which these end, do so, in rows of
// their own: one for each action, so that an end writes a few bytes, whatever the worker has done before. They hold the same at all replicas, and after any crash.
//
// Such a worker need not register. The first run that a shard gives it makes it a row there, as one that is not registered: in a spread namespace, in which a worker is
// registered in the shard of its id alone, there may be several. Listings put together what the shards have of one id.

// KindOfRuns is the kind of processes that count runs of actions, and the type of workers that carry them out.
const KindOfRuns = "action"

// The rows:
//
//	't' | ns u32 | worker id | 0            how many rows of actions follow, and what is counted of other actions (see counted)
//	't' | ns u32 | worker id | 0 | action   what the shard has counted of the worker's runs of an action (see counted)
const rowStats = 't'

// counted is what a shard counts of the runs of a worker that calls by itself.
type runStats struct {
	completed, failed int64
	lastRun           int64 // ms: when one ended last; 0: none has
	actions           int   // of the first row: how many others there are, maxProcesses at most
}

func (n *runStats) code(c *codec.Coder) {
	v := byte(1)
	if c.Byte(&v); v != 1 {
		c.Fail(fmt.Sprintf("stats row of version %d", v))
	}
	c.Varint(&n.completed)
	c.Varint(&n.failed)
	c.Varint(&n.lastRun)
	c.Int(&n.actions)
	if c.Reading() && c.Err() == nil && (n.completed < 0 || n.failed < 0 || n.lastRun < 0 || n.actions < 0 || n.actions > maxProcesses) {
		c.Fail(fmt.Sprintf("%d runs completed, %d failed, the last at %d, and %d actions", n.completed, n.failed, n.lastRun, n.actions))
	}
}

// statsKey is the key of what is counted of an action, or with "" that of the first row of a worker, which those of all others begin with. No id holds a zero.
func statsKey(ns uint32, id, action string) []byte {
	return append(append(append(key.AppendUint32([]byte{rowStats}, ns), id...), 0), action...)
}

// Took notes that a worker that calls by itself has got runs of actions, which may be named several times. One that is not listed yet is from now on, unless there are
// too many workers.
func (r *Registry) Took(tx *engine.Tx, id string, actions []string) {
	k := workerKey(tx.Namespace(), id)
	at, known := rowOf(tx, k)
	switch {
	case known && at.life != 0: // its process counts
		return
	case !known:
		count := countOf(tx)
		if count >= MaxWorkers {
			return
		}
		at = row{worker: Worker{Type: KindOfRuns}, unregistered: true, registeredAt: tx.Now(), seen: tx.Now()}
		tx.Set(k, encode(&at, (*row).code))
		setCount(tx, count, count+1)
		r.joined(tx, id, &at)
	case at.silent: // a new leader, which has not heard from any worker yet, does not count a silent one as alive
		at.silent, at.seen = false, tx.Now()
		tx.Set(k, encode(&at, (*row).code))
		fallthrough
	default:
		r.called(tx, id)
	}
	for i, action := range actions {
		k := statsKey(tx.Namespace(), id, action)
		if slices.Contains(actions[:i], action) {
			continue
		}
		if _, counts := tx.Get(k); counts {
			continue
		}
		firstKey := statsKey(tx.Namespace(), id, "")
		first, _ := runStatsOf(tx, firstKey)
		if first.actions >= maxProcesses {
			continue
		}
		first.actions++
		tx.Set(firstKey, encode(&first, (*runStats).code))
		tx.Set(k, encode(&runStats{}, (*runStats).code))
	}
}

// Ended counts an attempt of a worker that calls by itself: one that is completed, or has failed. Without rows, of a worker that is not listed, it does nothing.
func (r *Registry) Ended(tx *engine.Tx, id, action string, failed bool) {
	k := statsKey(tx.Namespace(), id, action)
	n, ok := runStatsOf(tx, k)
	if !ok {
		k = statsKey(tx.Namespace(), id, "")
		if n, ok = runStatsOf(tx, k); !ok {
			return
		}
	}
	if n.lastRun = tx.Now(); failed {
		n.failed++
	} else {
		n.completed++
	}
	tx.Set(k, encode(&n, (*runStats).code))
}

// Called notes that a worker that calls by itself has done so.
func (r *Registry) Called(tx *engine.Tx, id string) {
	if _, known := tx.Get(workerKey(tx.Namespace(), id)); known {
		r.called(tx, id)
	}
}

// Forget has a worker listed no more that the shard only knows by the runs that it gave to it, and reports whether there was one.
func (r *Registry) Forget(tx *engine.Tx, id string) bool {
	k := workerKey(tx.Namespace(), id)
	at, known := rowOf(tx, k)
	if !known || !at.unregistered {
		return false
	}
	count := countOf(tx)
	r.remove(tx, id, &at)
	setCount(tx, count, count-1)
	return true
}

// Clear removes what the shard has counted in a namespace that is being deleted, with the workers that it only knows by that, until the command is Full, and reports
// whether there was something.
func (r *Registry) Clear(tx *engine.Tx) (found bool) {
	prefix := key.AppendUint32([]byte{rowStats}, tx.Namespace())
	for !found || !tx.Full() {
		k, _, ok := tx.First(prefix, key.PrefixEnd(prefix))
		if !ok {
			return found
		}
		found = true
		rest := k[idAt:]
		if id := string(rest[:bytes.IndexByte(rest, 0)]); !r.Forget(tx, id) {
			dropStats(tx, id)
		}
	}
	return found
}

// remove removes the rows of a worker, but does not count it out.
func (r *Registry) remove(tx *engine.Tx, id string, at *row) {
	tx.Delete(workerKey(tx.Namespace(), id))
	if at.life == 0 {
		dropStats(tx, id)
	}
	r.left(tx, id)
}

// takeStats returns what the shard has counted of a worker that a process reports of from now on, and removes it.
func takeStats(tx *engine.Tx, id string) workerStats {
	prefix := statsKey(tx.Namespace(), id, "")
	t, err := sumStats(tx.Iter(prefix, key.PrefixEnd(prefix)), len(prefix))
	if err != nil {
		panic(fmt.Sprintf("stats of worker %q: %v", id, err))
	}
	dropStats(tx, id)
	return t
}

func dropStats(tx *engine.Tx, id string) {
	prefix := statsKey(tx.Namespace(), id, "")
	tx.DeleteRange(prefix, key.PrefixEnd(prefix))
}

func runStatsOf(tx *engine.Tx, k []byte) (runStats, bool) {
	b, ok := tx.Get(k)
	if !ok {
		return runStats{}, false
	}
	n, err := decodeRunStats(b)
	if err != nil {
		panic(fmt.Sprintf("row %x: %v", k, err))
	}
	return n, true
}

func decodeRunStats(b []byte) (runStats, error) { return decode(b, (*runStats).code) }

// viewStats returns what the shard has counted of a worker.
func viewStats(v *engine.View, w workerRef) (workerStats, error) {
	prefix := statsKey(w.ns, w.id, "")
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return workerStats{}, err
	}
	return sumStats(it, len(prefix))
}

// viewNames returns the actions, of names from first to last, of which the shard has given runs to a worker.
func viewNames(v *engine.View, w workerRef, first, last string) (names []string, err error) {
	nameAt := len(statsKey(w.ns, w.id, ""))
	it, err := v.Iter(statsKey(w.ns, w.id, first), append(statsKey(w.ns, w.id, last), 0))
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if name := it.Key()[nameAt:]; len(name) > 0 {
			names = append(names, string(name))
		}
	}
	return names, it.Close()
}

// sumStats reads the rows of a worker, whose keys have the names of actions from nameAt on, and closes the iterator.
func sumStats(it *engine.Iter, nameAt int) (t workerStats, err error) {
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var n runStats
		if n, err = decodeRunStats(it.Value()); err != nil {
			break
		}
		t.completed, t.failed = t.completed+n.completed, t.failed+n.failed
		if name := it.Key()[nameAt:]; len(name) > 0 {
			last := n.lastRun
			if last == 0 {
				last = time.Time{}.UnixMilli()
			}
			t.list = append(t.list, processStats{string(name), KindOfRuns, n.completed + n.failed, n.failed, last})
		}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return t, err
}

// withoutRuns returns the workerStats of all but the runs of actions, which the shards count.
func (t workerStats) withoutRuns() workerStats {
	var other []processStats
	for _, one := range t.list {
		if one.kind == KindOfRuns {
			t.completed, t.failed = t.completed-(one.runs-one.failures), t.failed-one.failures
			continue
		}
		other = append(other, one)
	}
	t.list, t.completed, t.failed = other, max(t.completed, 0), max(t.failed, 0)
	return t
}
