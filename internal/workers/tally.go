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
const rowTally = 't'

// counted is what a shard counts of the runs of a worker that calls by itself.
type counted struct {
	completed, failed int64
	lastRun           int64 // ms: when one ended last; 0: none has
	actions           int   // of the first row: how many others there are, maxProcesses at most
}

func (n *counted) code(c *codec.Coder) {
	v := byte(1)
	if c.Byte(&v); v != 1 {
		c.Fail(fmt.Sprintf("tally row of version %d", v))
	}
	c.Varint(&n.completed)
	c.Varint(&n.failed)
	c.Varint(&n.lastRun)
	c.Int(&n.actions)
	if c.Reading() && c.Err() == nil && (n.completed < 0 || n.failed < 0 || n.lastRun < 0 || n.actions < 0 || n.actions > maxProcesses) {
		c.Fail(fmt.Sprintf("%d runs completed, %d failed, the last at %d, and %d actions", n.completed, n.failed, n.lastRun, n.actions))
	}
}

// tallyKey is the key of what is counted of an action, or with "" that of the first row of a worker, which those of all others begin with. No id holds a zero.
func tallyKey(ns uint32, id, action string) []byte {
	return append(append(append(key.AppendUint32([]byte{rowTally}, ns), id...), 0), action...)
}

// Took notes that a worker that calls by itself has got runs of actions, which may be named several times. One that is not listed yet is from now on, unless there are
// too many workers.
func (r *Roster) Took(tx *engine.Tx, id string, actions []string) {
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
		k := tallyKey(tx.Namespace(), id, action)
		if slices.Contains(actions[:i], action) {
			continue
		}
		if _, counts := tx.Get(k); counts {
			continue
		}
		firstKey := tallyKey(tx.Namespace(), id, "")
		first, _ := countedOf(tx, firstKey)
		if first.actions >= maxProcesses {
			continue
		}
		first.actions++
		tx.Set(firstKey, encode(&first, (*counted).code))
		tx.Set(k, encode(&counted{}, (*counted).code))
	}
}

// Ended counts an attempt of a worker that calls by itself: one that is completed, or has failed. Without rows, of a worker that is not listed, it does nothing.
func (r *Roster) Ended(tx *engine.Tx, id, action string, failed bool) {
	k := tallyKey(tx.Namespace(), id, action)
	n, ok := countedOf(tx, k)
	if !ok {
		k = tallyKey(tx.Namespace(), id, "")
		if n, ok = countedOf(tx, k); !ok {
			return
		}
	}
	if n.lastRun = tx.Now(); failed {
		n.failed++
	} else {
		n.completed++
	}
	tx.Set(k, encode(&n, (*counted).code))
}

// Called notes that a worker that calls by itself has done so.
func (r *Roster) Called(tx *engine.Tx, id string) {
	if _, known := tx.Get(workerKey(tx.Namespace(), id)); known {
		r.called(tx, id)
	}
}

// Forget has a worker listed no more that the shard only knows by the runs that it gave to it, and reports whether there was one.
func (r *Roster) Forget(tx *engine.Tx, id string) bool {
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
func (r *Roster) Clear(tx *engine.Tx) (found bool) {
	prefix := key.AppendUint32([]byte{rowTally}, tx.Namespace())
	for !found || !tx.Full() {
		k, _, ok := tx.First(prefix, key.PrefixEnd(prefix))
		if !ok {
			return found
		}
		found = true
		rest := k[idAt:]
		if id := string(rest[:bytes.IndexByte(rest, 0)]); !r.Forget(tx, id) {
			dropCounted(tx, id)
		}
	}
	return found
}

// remove removes the rows of a worker, but does not count it out.
func (r *Roster) remove(tx *engine.Tx, id string, at *row) {
	tx.Delete(workerKey(tx.Namespace(), id))
	if at.life == 0 {
		dropCounted(tx, id)
	}
	r.left(tx, id)
}

// takeCounted returns what the shard has counted of a worker that a process reports of from now on, and removes it.
func takeCounted(tx *engine.Tx, id string) tallies {
	prefix := tallyKey(tx.Namespace(), id, "")
	t, err := sumCounted(tx.Iter(prefix, key.PrefixEnd(prefix)), len(prefix))
	if err != nil {
		panic(fmt.Sprintf("tallies of worker %q: %v", id, err))
	}
	dropCounted(tx, id)
	return t
}

func dropCounted(tx *engine.Tx, id string) {
	prefix := tallyKey(tx.Namespace(), id, "")
	tx.DeleteRange(prefix, key.PrefixEnd(prefix))
}

func countedOf(tx *engine.Tx, k []byte) (counted, bool) {
	b, ok := tx.Get(k)
	if !ok {
		return counted{}, false
	}
	n, err := decodeCounted(b)
	if err != nil {
		panic(fmt.Sprintf("row %x: %v", k, err))
	}
	return n, true
}

func decodeCounted(b []byte) (counted, error) { return decode(b, (*counted).code) }

// viewCounted returns what the shard has counted of a worker.
func viewCounted(v *engine.View, w who) (tallies, error) {
	prefix := tallyKey(w.ns, w.id, "")
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return tallies{}, err
	}
	return sumCounted(it, len(prefix))
}

// viewNames returns the actions, of names from first to last, of which the shard has given runs to a worker.
func viewNames(v *engine.View, w who, first, last string) (names []string, err error) {
	nameAt := len(tallyKey(w.ns, w.id, ""))
	it, err := v.Iter(tallyKey(w.ns, w.id, first), append(tallyKey(w.ns, w.id, last), 0))
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

// sumCounted reads the rows of a worker, whose keys have the names of actions from nameAt on, and closes the iterator.
func sumCounted(it *engine.Iter, nameAt int) (t tallies, err error) {
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var n counted
		if n, err = decodeCounted(it.Value()); err != nil {
			break
		}
		t.completed, t.failed = t.completed+n.completed, t.failed+n.failed
		if name := it.Key()[nameAt:]; len(name) > 0 {
			last := n.lastRun
			if last == 0 {
				last = time.Time{}.UnixMilli()
			}
			t.list = append(t.list, tally{string(name), KindOfRuns, n.completed + n.failed, n.failed, last})
		}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return t, err
}

// withoutRuns returns the tallies of all but the runs of actions, which the shards count.
func (t tallies) withoutRuns() tallies {
	var other []tally
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
