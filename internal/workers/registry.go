package workers

import (
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Registry is the part of the action machine that stores a shard's workers. The zero value is ready
// for use.
type Registry struct {
	heartbeats
	// Holds returns the number of the shard's runs that a polling worker holds. A worker that holds
	// runs is alive. nil: always 0.
	Holds func(v *engine.View, ns uint32, id string) (int, error)

	bodies *engine.Calls[session] // nil before the first command
}

// Apply applies a command of kind KindJoin, KindLeave or KindNote.
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

// session is the context of a command that is being applied.
type session struct {
	*Registry
	tx *engine.Tx
}

// join writes the rows of workers that join.
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
		return engine.Errorf(engine.ErrBusy, "namespace %q has %d workers in a shard: no more than %d are listed", tx.NamespaceName(),
			before, MaxWorkers)
	}
	setCount(tx, before, count)
	return nil
}

// checkPlace returns ErrConflict for a worker of another shard. A client with outdated information
// about the namespace routes all workers of a command by the first worker.
func checkPlace(tx *engine.Tx, id string) error {
	if tx.Spread() && engine.NameShard(tx.NamespaceName(), id, tx.Shards()) != tx.Shard() {
		return engine.Errorf(engine.ErrConflict, "worker %q is not of shard %d: the namespace is spread", id, tx.Shard())
	}
	return nil
}

// leave removes the rows of workers or marks them as draining.
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
			return engine.Errorf(engine.ErrConflict, "worker %q cannot be drained by a command: it drains when its program stops it", l.id)
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

// CheckTakes returns ErrConflict if the worker drains, according to its row in this shard.
func CheckTakes(tx *engine.Tx, id string) error {
	if at, _ := rowOf(tx, workerKey(tx.Namespace(), id)); at.draining {
		return drains(id)
	}
	return nil
}

// WatchTakes is CheckTakes for a take that waits. It subscribes to changes of the answer. For a
// polling worker with a row it also records a heartbeat, and makes the query run again before the
// worker would count as silent.
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

// drainTopic is notified when a worker starts to drain.
func drainTopic(namespace, id string) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, []byte("x"+id))
}

// note stores heartbeats and removes silent workers, unless their rows changed since the leader
// read them.
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

// countOf returns the number of the namespace's workers in the shard.
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
