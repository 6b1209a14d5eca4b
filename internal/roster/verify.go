package roster

import (
	"github.com/floedb/floe/internal/engine"
)

// Verify reports what is wrong with the rows of workers.
func (r *Roster) Verify(a *engine.Audit) error {
	names := a.Names()
	counted, known := make(map[uint32]uint64), make(map[uint32]uint64)
	err := a.Scan([]byte{rowWorker}, []byte{rowWorker + 1}, func(k, value []byte) error {
		if len(k) < idAt {
			a.Reportf("row %x of workers is too short", k)
			return nil
		}
		w := whoOf(k)
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

func verifyRow(a *engine.Audit, w who, namespace string, value []byte) {
	at, err := decodeRow(value)
	at.worker.ID = w.id
	if err == nil {
		err = at.worker.check()
	}
	switch end := a.Applied.Stamp; {
	case err != nil:
		a.Reportf("worker %q of namespace %d: %v", w.id, w.ns, err)
	case at.seen > end || at.registeredAt > at.seen:
		a.Reportf("worker %q of namespace %d was registered at %d and seen at %d, all ends at %d", w.id, w.ns, at.registeredAt, at.seen, end)
	case namespace != "" && a.Spread(namespace) && engine.NameShard(namespace, w.id, a.Shards()) != a.Shard():
		a.Reportf("worker %q of namespace %q does not belong to the shard", w.id, namespace)
	}
}
