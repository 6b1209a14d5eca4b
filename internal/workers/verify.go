package workers

import (
	"bytes"

	"github.com/floedb/floe/internal/engine"
)

// Verify reports invalid rows of workers.
func (r *Registry) Verify(a *engine.Audit) error {
	if err := verifyStats(a); err != nil {
		return err
	}
	names := a.Names()
	counted, known := make(map[uint32]uint64), make(map[uint32]uint64)
	err := a.Scan([]byte{rowWorker}, []byte{rowWorker + 1}, func(k, value []byte) error {
		if len(k) < idAt {
			a.Reportf("row %x of workers is too short", k)
			return nil
		}
		w := refOf(k)
		if int(w.ns) >= len(names) {
			a.Reportf("row %x: worker %q of namespace %d, but there are only %d", k, w.id, w.ns, len(names))
			return nil
		}
		if w.id == "" {
			n, err := decodeCount(value)
			if counted[w.ns] = n; err != nil || n == 0 {
				a.Reportf("namespace %d: %d workers, %v", w.ns, n, err)
			}
			return nil
		}
		known[w.ns]++
		verifyRow(a, w, names[w.ns], value)
		return nil
	})
	for ns := range names {
		if is, want := counted[uint32(ns)], known[uint32(ns)]; is != want {
			a.Reportf("namespace %d has %d workers, its row says %d", ns, want, is)
		}
	}
	return err
}

// verifyStats reports invalid rows of run counts.
func verifyStats(a *engine.Audit) error {
	var header []byte // key of the latest header row
	actions, found := 0, 0
	end := func() {
		if actions != found {
			a.Reportf("row %x counts %d actions, there are %d", header, actions, found)
		}
	}
	err := a.Scan([]byte{rowStats}, []byte{rowStats + 1}, func(k, value []byte) error {
		n, err := decodeRunStats(value)
		zero := bytes.IndexByte(k[min(idAt, len(k)):], 0)
		switch {
		case err != nil:
			a.Reportf("row %x: %v", k, err)
			return nil
		case zero <= 0:
			a.Reportf("row %x has no worker ID", k)
			return nil
		case n.lastRun > a.Applied.Stamp:
			a.Reportf("row %x: a run has ended at %d, all ends at %d", k, n.lastRun, a.Applied.Stamp)
		}
		id := k[idAt : idAt+zero]
		if len(k) > idAt+zero+1 {
			if !bytes.HasPrefix(k, header) || header == nil {
				a.Reportf("row %x has no header row", k)
				return nil
			}
			found++
			return nil
		}
		end()
		header, actions, found = bytes.Clone(k), n.actions, 0
		b, there, err := a.Get(append(append([]byte{rowWorker}, k[1:idAt]...), id...))
		if err != nil {
			return err
		}
		if at, err := decodeRow(b); !there || err == nil && at.life != 0 {
			a.Reportf("row %x: worker %q is not a polling worker", k, id)
		}
		return nil
	})
	end()
	return err
}

func verifyRow(a *engine.Audit, w workerRef, namespace string, value []byte) {
	at, err := decodeRow(value)
	at.worker.ID = w.id
	if err == nil {
		err = at.worker.check()
	}
	switch end := a.Applied.Stamp; {
	case err != nil:
		a.Reportf("worker %q of namespace %d: %v", w.id, w.ns, err)
	case at.unregistered && at.life != 0:
		a.Reportf("worker %q of namespace %d is not registered, and has life %d", w.id, w.ns, at.life)
	case at.seen > end || at.registeredAt > at.seen:
		a.Reportf("worker %q of namespace %d was registered at %d and seen at %d, all ends at %d", w.id, w.ns, at.registeredAt, at.seen,
			end)
	case !at.unregistered && namespace != "" && a.Spread(namespace) && engine.NameShard(namespace, w.id, a.Shards()) != a.Shard():
		a.Reportf("worker %q of namespace %q does not belong to the shard", w.id, namespace)
	}
}
