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

// A polling worker has no process that counts its runs, so each shard counts the runs that it gave
// to the worker. There is one row per action, so that the end of a run rewrites only a few bytes,
// regardless of the number of actions. The counts are replicated state, so they survive crashes and
// failovers.
//
// A polling worker need not register. The first run that it takes in a shard creates an
// unregistered row there. In a spread namespace there may be one such row per shard, because only
// the shard of the ID registers workers. Listings merge the rows of an ID.

// KindOfRuns is the kind of a process that counts runs of an action, and the type of action
// workers.
const KindOfRuns = "action"

// The rows:
//
//	't' | ns u32 | worker id | 0            header: number of action rows, counts of all other actions (see runStats)
//	't' | ns u32 | worker id | 0 | action   counts of the worker's runs of an action (see runStats)
const rowStats = 't'

// runStats are a shard's counts of the runs of a polling worker.
type runStats struct {
	completed, failed int64
	lastRun           int64 // ms; end of the latest run, 0: none
	actions           int   // header only: number of action rows, at most maxProcesses
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

// statsKey returns the key of an action's counts. With an empty action it is the key of the header,
// which is also the prefix of the worker's other keys. IDs contain no zero byte.
func statsKey(ns uint32, id, action string) []byte {
	return append(append(append(key.AppendUint32([]byte{rowStats}, ns), id...), 0), action...)
}

// Took records that a worker took runs of actions, which may repeat. It ignores workers that have a
// process. A polling worker without a row gets one, unless the shard has MaxWorkers.
func (r *Registry) Took(tx *engine.Tx, id string, actions []string) {
	k := workerKey(tx.Namespace(), id)
	at, known := rowOf(tx, k)
	switch {
	case known && at.life != 0: // the worker's process counts
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
	case at.silent: // a new leader without heartbeats would still treat the worker as silent
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

// Ended counts an attempt of a polling worker that completed or failed. It has no effect if the
// worker has no rows.
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

// Called records a heartbeat for a polling worker that made a call.
func (r *Registry) Called(tx *engine.Tx, id string) {
	if _, known := tx.Get(workerKey(tx.Namespace(), id)); known {
		r.called(tx, id)
	}
}

// Forget removes an unregistered polling worker from the shard and reports whether there was one.
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

// Clear removes the run counts and unregistered polling workers of a namespace that is being
// deleted, until the command is full. It reports whether it found any.
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

// remove deletes the rows of a worker. The caller updates the count of workers.
func (r *Registry) remove(tx *engine.Tx, id string, at *row) {
	tx.Delete(workerKey(tx.Namespace(), id))
	if at.life == 0 {
		dropStats(tx, id)
	}
	r.left(tx, id)
}

// takeStats removes and returns the shard's counts of a polling worker, which has joined from a
// process.
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

// viewStats returns the shard's counts of a polling worker.
func viewStats(v *engine.View, w workerRef) (workerStats, error) {
	prefix := statsKey(w.ns, w.id, "")
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return workerStats{}, err
	}
	return sumStats(it, len(prefix))
}

// viewNames returns the names, from first to last, of the actions whose runs a polling worker has
// taken.
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

// sumStats adds up the rows of a worker and closes the iterator. The action's name starts at nameAt
// in the keys.
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

// withoutRuns returns the stats without processes of KindOfRuns, which the shards count themselves.
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
