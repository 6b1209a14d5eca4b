package workers

import (
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Registry is the part of the machine of actions that knows the workers in a shard. The zero value is ready for use.
type Registry struct {
	heartbeats
	// Holds says how many runs a worker that calls by itself has in the shard. While it has some it is alive. nil: it has none.
	Holds func(v *engine.View, ns uint32, id string) (int, error)

	bodies *engine.Calls[session] // made by the first command
}

// Apply carries out KindJoin, KindLeave and KindNote.
func (r *Registry) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	if r.bodies == nil {
		bodies := commands.NewCalls()
		r.bodies = &bodies
	}
	call, err := r.bodies.Read(cmd)
	if err != nil {
		return nil, err
	}
	return call.Apply(session{r, tx})
}

// session is a command that is being applied.
type session struct {
	*Registry
	tx *engine.Tx
}

// join writes the rows of workers that are there now.
func (r *Registry) join(tx *engine.Tx, c *joinBody) error {
	count := countOf(tx)
	before := count
	for i := range c.list {
		j := &c.list[i]
		if err := checkPlace(tx, j.worker.ID); err != nil {
			return err
		}
		k := workerKey(tx.Namespace(), j.worker.ID)
		at, known := rowOf(tx, k)
		if !known {
			at.registeredAt = tx.Now()
			count++
		}
		if j.life == 0 || at.life != j.life {
			at.before = at.before.plus(at.present)
			at.present, at.load = workerStats{}, 0
		}
		if known && at.life == 0 && j.life != 0 {
			at.before = at.before.plus(takeStats(tx, j.worker.ID))
		}
		at.worker, at.life, at.draining, at.silent, at.unregistered, at.seen = j.worker, j.life, j.draining, false, false, tx.Now()
		tx.Set(k, encode(&at, (*row).code))
		r.joined(tx, j.worker.ID, &at)
	}
	if count > MaxWorkers {
		return engine.Errorf(engine.ErrBusy, "namespace %q has %d workers in a shard: no more than %d are listed", tx.NamespaceName(), before, MaxWorkers)
	}
	setCount(tx, before, count)
	return nil
}

// checkPlace refuses workers that were routed when the namespace was thought to be another one, all to the shard of the first of them.
func checkPlace(tx *engine.Tx, id string) error {
	if tx.Spread() && engine.NameShard(tx.NamespaceName(), id, tx.Shards()) != tx.Shard() {
		return engine.Errorf(engine.ErrConflict, "worker %q is not of shard %d: the namespace is spread", id, tx.Shard())
	}
	return nil
}

// leave removes the rows of workers, or notes that they drain.
func (r *Registry) leave(tx *engine.Tx, c *leaveBody) error {
	count := countOf(tx)
	before := count
	for _, l := range c.list {
		k := workerKey(tx.Namespace(), l.id)
		at, known := rowOf(tx, k)
		switch {
		case !known || l.life != 0 && l.life != at.life || c.drain && at.unregistered:
			switch {
			case len(c.list) > 1:
			case c.drain:
				return notRegistered(l.id)
			default:
				return notFound(l.id)
			}
		case c.drain && l.life == 0 && at.life != 0:
			return engine.Errorf(engine.ErrConflict, "worker %q does not call for each run by itself: it drains when its program ends it", l.id)
		case !c.drain:
			r.remove(tx, l.id, &at)
			count--
		case !at.draining:
			at.draining = true
			tx.Set(k, encode(&at, (*row).code))
			tx.Notify(drainTopic(tx.NamespaceName(), l.id), -1)
		}
	}
	setCount(tx, before, count)
	return nil
}

// CheckTakes refuses, with ErrConflict, what a worker takes that drains. It knows of those that are listed in this shard.
func CheckTakes(tx *engine.Tx, id string) error {
	if at, _ := rowOf(tx, workerKey(tx.Namespace(), id)); at.draining {
		return drains(id)
	}
	return nil
}

// WatchTakes is CheckTakes on behalf of a take, which waits on what would change the answer. Of a worker that is listed and calls by itself the leader notes that it has:
// one that waits for a long time looks again before it would be taken for silent.
func (r *Registry) WatchTakes(v *engine.View, namespace, id string) error {
	if err := v.WaitOn(drainTopic(namespace, id)); err != nil {
		return err
	}
	ns, ok := v.Namespace(namespace)
	if !ok {
		return nil
	}
	b, ok, err := v.Get(workerKey(ns, id))
	if err != nil || !ok {
		return err
	}
	at, err := decodeRow(b)
	switch {
	case err != nil:
		return err
	case at.draining:
		return drains(id)
	case at.life == 0:
		r.calls(workerRef{ns, id}, v.Now())
		v.WakeAt(v.Now() + waitMillis)
		v.LookAgainAt(v.Now() + waitMillis)
	}
	return nil
}

func drains(id string) error {
	return engine.Errorf(engine.ErrConflict, "worker %q drains: it takes nothing new", id)
}

// drainTopic is what waits for a worker to drain.
func drainTopic(namespace, id string) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, []byte("x"+id))
}

// note keeps what the leader has heard.
func (r *Registry) note(tx *engine.Tx, c *noteBody) {
	for i := range c.list {
		n := &c.list[i]
		k := workerKey(tx.Namespace(), n.id)
		at, known := rowOf(tx, k)
		if !known || at.life != n.life || at.seen != n.was {
			continue
		}
		at.silent, at.seen, at.load, at.present = n.silent, min(n.seen, tx.Now()), n.load, n.present
		tx.Set(k, encode(&at, (*row).code))
	}
	count := countOf(tx)
	before := count
	for _, g := range c.gone {
		k := workerKey(tx.Namespace(), g.id)
		if at, known := rowOf(tx, k); known && at.silent && at.seen == g.was {
			r.remove(tx, g.id, &at)
			count--
		}
	}
	setCount(tx, before, count)
}

func rowOf(tx *engine.Tx, k []byte) (row, bool) {
	b, ok := tx.Get(k)
	if !ok {
		return row{}, false
	}
	at, err := decodeRow(b)
	if err != nil {
		panic(fmt.Sprintf("row %x: %v", k, err))
	}
	return at, true
}

// countOf returns how many workers the namespace has in the shard.
func countOf(tx *engine.Tx) uint64 {
	b, ok := tx.Get(workerKey(tx.Namespace(), ""))
	if !ok {
		return 0
	}
	n, err := decodeCount(b)
	if err != nil {
		panic(fmt.Sprintf("count of workers: %v", err))
	}
	return n
}

func setCount(tx *engine.Tx, before, count uint64) {
	switch k := workerKey(tx.Namespace(), ""); {
	case count == before:
	case count == 0:
		tx.Delete(k)
	default:
		tx.Set(k, codec.AppendUvarint(nil, count))
	}
}

func decodeCount(b []byte) (uint64, error) {
	r := codec.NewReader(b)
	n := r.Uvarint()
	return n, r.Done()
}
