package workflow

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
)

// A workflow's versions live in its home, the shard of its name. In a spread namespace the home
// sends them to all other shards, so that any shard can hold runs. Each shard has its own number
// and counters for the workflow.

// create creates a version of a workflow and makes it the default.
func (w *work) create(c *createBody) (res created, err error) {
	name := w.subject
	if err := checkWorkflow(name); err != nil {
		return res, err
	}
	k := w.workflow(name)
	res.lsn = uint64(w.tx.LSN())
	if k != nil {
		if res.unchanged, err = k.checkVersion(c); err != nil {
			return res, err
		}
	}
	if !res.unchanged {
		enabled := k == nil || k.enabled
		w.use(name, enabled, res.lsn, c)
		k = w.workflow(name)
		d := w.definition(k.id, k.current)
		k.reschedule(d.Schedule)
		k.retrigger(d.Trigger)
		w.tell(&adoptCommand{name: name, enabled: enabled, revision: res.lsn, of: name, version: *c})
	}
	res.versions = int64(w.workflow(name).startable())
	return res, nil
}

// checkVersion reports whether a version already exists. Errors: ErrExists if its definition
// differs; ErrInvalid if there are too many versions.
func (k *openWorkflow) checkVersion(c *createBody) (known bool, err error) {
	v, ok := k.version(c.version)
	switch {
	case ok && v.hash == xxhash.Sum64(c.source):
		return true, nil
	case ok:
		return false, engine.Errorf(ErrExists, "workflow %q: version %q exists with another definition", k.name, c.version)
	case k.versions < k.m.maxVersions:
		return false, nil
	}
	if n := k.startable(); n >= k.m.maxVersions {
		return false, engine.Errorf(ErrInvalid, "workflow %q has %d versions already, the limit is %d", k.name, n, k.m.maxVersions)
	}
	return false, nil
}

// version returns the index entry of a version.
func (k *openWorkflow) version(version string) (v versionIndex, ok bool) {
	k.buf = append(numberKey(k.buf[:0], rowVersions, k.id), version...)
	b, ok := k.tx.Get(k.buf)
	if !ok {
		return v, false
	}
	v = must(decode(b, (*versionIndex).code))
	return v, !v.gone
}

// enable enables or disables a workflow at its home. A disabled workflow accepts no starts; active
// runs continue.
func (w *work) enable(enabled *bool) error {
	name := w.subject
	k := w.workflow(name)
	if k == nil {
		return notFound(name)
	}
	if k.enabled != *enabled {
		w.use(name, *enabled, uint64(w.tx.LSN()), nil)
		if s := k.calendar(); s != nil {
			s.turn(s.paused, !*enabled, s.note)
		}
		if t := w.definition(k.id, k.current).Trigger; t != nil {
			w.workflow(name).retrigger(t)
		}
		w.tell(&adoptCommand{name: name, enabled: *enabled, revision: uint64(w.tx.LSN())})
	}
	return nil
}

// use stores the current state of a workflow in the shard, with a version if one is given.
func (w *work) use(name string, enabled bool, revision uint64, c *createBody) {
	tx := w.tx
	k := w.workflow(name)
	if k == nil {
		k = &openWorkflow{record: record{id: uint64(tx.LSN()), createdAt: tx.Now(), nextEnded: never, timer: never}, work: w, name: name}
		w.workflows = append(w.workflows, k)
		tx.Insert(numberKey(nil, rowName, k.id), encode(nil, &nameRow{ns: tx.Namespace(), name: name}, (*nameRow).code))
		if tx.Here(name) {
			tx.Count(countWorkflows, 1)
		}
	}
	k.enabled, k.revision, k.updatedAt, k.changed = enabled, revision, tx.Now(), true
	if c != nil {
		k.add(c)
	}
}

// add adds a version, which becomes the default.
func (k *openWorkflow) add(c *createBody) {
	if _, ok := k.version(c.version); ok {
		return // the home has sent it before
	}
	k.versions++
	k.current = k.versions
	d := must(decode(c.compiled, (*flow.Definition).Code))
	k.retainFor, k.retainRuns = d.RetainFor, d.RetainRuns
	k.m.definitions.Replace(k.tx, versionID{k.id, k.current}, &d, len(c.compiled))
	row := versionRow{c.version, k.tx.Now(), c.source, c.compiled}
	k.tx.Insert(versionKey(nil, k.id, k.current), encode(nil, &row, (*versionRow).code))
	index := versionIndex{number: k.current, hash: xxhash.Sum64(c.source), createdAt: k.tx.Now()}
	k.tx.Set(append(numberKey(nil, rowVersions, k.id), c.version...), encode(nil, &index, (*versionIndex).code))
}

// tell sends the state at a workflow's home to all other shards of a spread namespace.
func (w *work) tell(c *adoptCommand) {
	w.tx.SendOthers(engine.Command{Machine: engine.MachineWorkflow, Kind: kindAdopt, Body: encode(nil, c, (*adoptCommand).code)})
}

// adopt takes over the state from a workflow's home, unless the shard has a newer one.
func (w *work) adopt(c *adoptCommand) ([]byte, error) {
	k := w.workflow(c.name)
	switch {
	case k != nil && k.revision >= c.revision:
	case !c.gone && c.of != "":
		w.use(c.name, c.enabled, c.revision, &c.version)
	case !c.gone:
		w.use(c.name, c.enabled, c.revision, nil)
	case k != nil:
		k.bury()
	}
	return nil, nil
}

// delete removes a workflow at its home. If there are active runs, force is required, and they
// continue.
func (w *work) delete(force *bool) error {
	k := w.workflow(w.subject)
	if k == nil {
		return notFound(w.subject)
	}
	if k.active > 0 && !*force {
		return engine.Errorf(ErrConflict, "workflow %q has %d active runs", k.name, k.active)
	}
	w.tell(&adoptCommand{name: k.name, gone: true, revision: uint64(w.tx.LSN())})
	k.bury()
	return nil
}

// bury marks a workflow as deleted. Its runs, and the definitions they need, stay until the runs
// are removed.
func (k *openWorkflow) bury() {
	tx := k.tx
	if tx.Here(k.name) {
		tx.Count(countWorkflows, -1)
	}
	tx.Delete(namedKey(nil, rowWorkflow, tx.Namespace(), k.name))
	if s := k.calendar(); s != nil {
		s.drop()
	}
	k.untrigger()
	k.deleted, k.changed = true, true
	if k.active+k.kept > 0 {
		tx.Set(numberKey(nil, rowName, k.id), encode(nil, &nameRow{deleted: true, ns: tx.Namespace(), name: k.name}, (*nameRow).code))
		tx.Set(key.AppendUint64(gravesKey(nil, tx.Namespace(), k.name), k.id), nil)
	}
}

// drop removes all rows of a deleted workflow that has no runs left.
func (k *openWorkflow) drop() {
	k.unschedule()
	for _, kind := range [...]byte{rowVersion, rowVersions, rowOf, rowEnded, rowKey, rowPlan, rowCache, rowStale} {
		prefix := numberKey(nil, kind, k.id)
		k.tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	}
	for n := range k.versions {
		k.m.definitions.Remove(k.tx, versionID{k.id, n + 1})
	}
	k.tx.Delete(numberKey(nil, rowName, k.id))
	k.tx.Delete(numberKey(nil, rowGrave, k.id))
	k.tx.Delete(key.AppendUint64(gravesKey(nil, k.tx.Namespace(), k.name), k.id))
	k.dropped = true
}

// maxForgotten limits how many runs are removed at once.
const maxForgotten = 100

// handoverMillis is the minimum retention of an ended run, so that notified waiters can read it.
const handoverMillis = 10_000

// nextDue returns when runs must be removed next.
func (k *openWorkflow) nextDue() int64 {
	switch {
	case k.kept == 0:
		return never
	case k.kept > k.retainRuns:
		return k.nextEnded + handoverMillis
	}
	return k.nextEnded + k.retention()
}

// retention returns how long ended runs are kept if there are not too many, in ms.
func (r *record) retention() int64 { return max(r.retainFor, handoverMillis) }

// catchUp removes runs whose retention is over, and the oldest beyond the limit unless they ended
// after the given time.
func (k *openWorkflow) catchUp(keep, until int64) {
	k.changed = true
	k.unschedule()
	k.forgetOld(maxForgotten, keep, until)
}

// forgetOld removes runs whose retention is over, and the oldest beyond the limit unless they ended
// after the given time. It removes at most maxForgotten at once.
func (k *openWorkflow) forgetOld(most int, keep, until int64) {
	old := k.tx.Now() - k.retention()
	prefix := numberKey(nil, rowEnded, k.id)
	for n := 0; n < most && k.kept > 0 && !k.tx.Full(); n++ {
		row, _, ok := k.tx.First(key.AppendInt64(numberKey(nil, rowEnded, k.id), k.nextEnded), key.PrefixEnd(prefix))
		if !ok {
			k.nextEnded = never
			return
		}
		at := key.Int64(row[partAt:])
		switch k.nextEnded = at; {
		case at <= old:
		case k.kept <= keep, at > until:
			return
		}
		k.forget(lastOf(row), at)
	}
}

// forget removes an ended run with all its rows.
func (k *openWorkflow) forget(run uint64, endedAt int64) {
	tx := k.tx
	b, ok := tx.Get(partKey(nil, run, partHeader))
	if !ok {
		panic("workflow: a run that ended has no row")
	}
	h := must(decode(b, (*header).code))
	tx.Delete(endedKey(nil, k.id, endedAt, run))
	tx.Delete(ofKey(nil, k.id, run))
	tx.Delete(inKey(nil, tx.Namespace(), run))
	tx.Delete(statusRunKey(nil, tx.Namespace(), h.status, run))
	for _, a := range h.attributes {
		tx.Delete(attributeKey(nil, tx.Namespace(), a, run))
	}
	if h.idempotencyKey != "" {
		tx.Delete(append(numberKey(nil, rowKey, k.id), h.idempotencyKey...))
	}
	if h.id != "" {
		tx.Delete(namedKey(nil, rowID, tx.Namespace(), h.id))
	}
	tx.Delete(partKey(nil, run, partHeader)) // separately, as it is cached
	tx.DeleteRange(partKey(nil, run, partHeader+1), key.PrefixEnd(numberKey(nil, rowRun, run)))
	k.kept--
}

// idRow returns the run with an id that the caller of Start chose.
func (w *work) idRow(id string) (run uint64, ok bool) {
	w.buf = namedKey(w.buf[:0], rowID, w.tx.Namespace(), id)
	b, ok := w.tx.Get(w.buf)
	if !ok {
		return 0, false
	}
	run, _ = binary.Uvarint(b)
	return run, true
}
