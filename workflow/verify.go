package workflow

import (
	"encoding/binary"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
)

var _ engine.Verifier = (*machine)(nil)

// allKinds are the row types, in order.
const allKinds = "bcdefghjklmnpqrtuvwyz"

// Verify checks that all rows of the machine are consistent; see the comment on rows for their
// meaning. Above all, every run that has not ended must wait for an event that can occur: an
// action, a child, a signal or a time.
func (m *machine) Verify(a *engine.Audit) error {
	v := &verifier{
		Audit: a, names: a.Names(), workflows: make(map[uint64]*audited), known: make(map[uint32]int64), active: make(map[uint32]int64),
		found: make(map[byte]int64), want: make(map[byte]int64),
	}
	for _, step := range []func() error{v.unknownRows, v.allNames, v.allWorkflows, v.allRuns, v.plans, v.verifySchedules, v.verifyTriggers,
		v.indexes, v.timers} {
		if err := step(); err != nil {
			return err
		}
	}
	v.count()
	return nil
}

// verifier walks over the rows. It keeps a few numbers for each workflow.
type verifier struct {
	*engine.Audit
	names       []string // of namespaces
	workflows   map[uint64]*audited
	known       map[uint32]int64 // workflows at home, by namespace
	active      map[uint32]int64 // active runs, by namespace
	found, want map[byte]int64   // index rows, by type: actual and expected counts
	run         *auditedRun
}

// audited is a workflow while its rows are recounted.
type audited struct {
	nameRow
	record
	read        bool // it has a row 'd' or 'g'
	runs, kept  int64
	oldest      int64 // end of the first retained run
	definitions map[uint32]*flow.Definition
}

// unknownRows reports rows of unknown types.
func (v *verifier) unknownRows() error { return v.UnknownRows("workflow", allKinds) }

// each calls f for the rows of a type. Their keys must have the given length (0: any), and their
// values must decode.
func each[T any](v *verifier, prefix []byte, length int, code func(*T, *codec.Coder), f func(k []byte, row *T) error) error {
	return v.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		row, err := decode(value, code)
		if err != nil || length > 0 && len(k) != length {
			v.Reportf("workflow: row %x: %v", k, err)
			return nil
		}
		return f(k, &row)
	})
}

func (v *verifier) allNames() error {
	return each(v, []byte{rowName}, partAt, (*nameRow).code, func(k []byte, n *nameRow) error {
		id := lastOf(k)
		v.workflows[id] = &audited{nameRow: *n, oldest: never, definitions: make(map[uint32]*flow.Definition)}
		if int(n.ns) >= len(v.names) {
			v.Reportf("workflow %q: unknown namespace %d", n.name, n.ns)
		}
		return nil
	})
}

func (v *verifier) allWorkflows() error {
	err := each(v, []byte{rowWorkflow}, 0, (*record).code, func(k []byte, r *record) error {
		w := v.workflows[r.id]
		if w == nil || w.deleted || string(k) != string(namedKey(nil, rowWorkflow, w.ns, w.name)) {
			v.Reportf("workflow: row %q has number %d, which is unused or belongs to another one", k, r.id)
			return nil
		}
		if v.Here(v.names[w.ns], w.name) {
			v.known[w.ns]++
		}
		return v.workflow(w, r)
	})
	if err != nil {
		return err
	}
	err = each(v, []byte{rowGrave}, partAt, (*record).code, func(k []byte, r *record) error {
		w := v.workflows[r.id]
		if w == nil || !w.deleted || lastOf(k) != r.id {
			v.Reportf("workflow: deleted workflow %d is known as %+v", r.id, w)
			return nil
		}
		if r.active+r.kept == 0 {
			v.Reportf("workflow %q was deleted and has no runs, but still has a row", w.name)
		}
		return v.workflow(w, r)
	})
	if err != nil {
		return err
	}
	err = v.Scan([]byte{rowGraves}, []byte{rowGraves + 1}, func(k, _ []byte) error {
		id := uint64(0)
		if len(k) > partAt {
			id = lastOf(k)
		}
		if w := v.workflows[id]; w == nil || !w.deleted || string(k) != string(key.AppendUint64(gravesKey(nil, w.ns, w.name), id)) {
			v.Reportf("workflow: row %q has number %d, which is unused or belongs to another one", k, id)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id, w := range v.workflows {
		if !w.read {
			v.Reportf("workflow %q: number %d has no row", w.name, id)
		}
	}
	return nil
}

// workflow checks one workflow with its versions.
func (v *verifier) workflow(w *audited, r *record) error {
	w.record, w.read = *r, true
	versions := int64(0)
	if err := each(v, numberKey(nil, rowVersion, r.id), partAt+4, (*versionRow).code, func(k []byte, row *versionRow) error {
		number := binary.BigEndian.Uint32(k[partAt:])
		versions++
		d, err := decode(row.compiled, (*flow.Definition).Code)
		if err != nil || d.Name != w.name || d.Version != row.version {
			v.Reportf("workflow %q: version %q is one of %q, %q: %v", w.name, row.version, d.Name, d.Version, err)
		}
		w.definitions[number] = &d
		b, ok, err := v.Get(append(numberKey(nil, rowVersions, r.id), row.version...))
		if err != nil {
			return err
		}
		if i, err := decode(b, (*versionIndex).code); !ok || err != nil || i.number < number {
			v.Reportf("workflow %q: version %q is not found by its name: %+v, %v", w.name, row.version, i, err)
		} else if i.number == number { // not a removed one whose name another version has now
			v.want[rowVersions]++
		}
		return nil
	}); err != nil {
		return err
	}
	if versions != int64(r.versions) || r.current < 1 || r.current > r.versions {
		v.Reportf("workflow %q: its row counts %d versions, there are %d; the default one is %d", w.name, r.versions, versions, r.current)
	}
	if r.timer == never {
		return nil
	}
	ok, err := v.HasTimer(r.timer, w.ns, key.AppendUint64([]byte{tokenWorkflow}, r.id))
	if err == nil && !ok {
		v.Reportf("workflow %q has no timer at %d", w.name, r.timer)
	}
	return err
}

// verifyTriggers checks that a workflow's home has a subscription to the stream of its trigger, and
// no subscription without a trigger.
func (v *verifier) verifyTriggers() error {
	found := make(map[uint64]bool)
	err := each(v, []byte{rowTrigger}, partAt, (*triggerRow).code, func(k []byte, r *triggerRow) error {
		id := lastOf(k)
		found[id] = true
		w := v.workflows[id]
		if w == nil || w.deleted || w.definitions[w.current] == nil {
			v.Reportf("workflow: trigger %+v belongs to no workflow", *r)
			return nil
		}
		t := w.definitions[w.current].Trigger
		if t == nil || t.Stream != r.stream || t.Namespace != r.namespace && (t.Namespace != "" || v.names[w.ns] != r.namespace) {
			v.Reportf("workflow %q: has subscribed to %+v, its trigger says %+v", w.name, *r, t)
		}
		return nil
	})
	for id, w := range v.workflows {
		home := int(w.ns) < len(v.names) && v.Here(v.names[w.ns], w.name)
		if d := w.definitions[w.current]; home && !w.deleted && d != nil && d.Trigger != nil && !found[id] {
			v.Reportf("workflow %q: has not subscribed to the stream of its trigger", w.name)
		}
	}
	return err
}

// indexes counts the rows of indexes, because the check of each run has read only the run's own.
func (v *verifier) indexes() error {
	for _, kind := range []byte{rowOf, rowIn, rowByStatus, rowEnded, rowKey, rowID, rowAttribute, rowVersions, rowStale} {
		if err := v.Scan([]byte{kind}, []byte{kind + 1}, func(_, _ []byte) error {
			v.found[kind]++
			return nil
		}); err != nil {
			return err
		}
		if v.found[kind] != v.want[kind] {
			v.Reportf("workflow: there are %d rows %q, expected %d", v.found[kind], kind, v.want[kind])
		}
	}
	return nil
}

// wants reports an object that lacks a row.
func (v *verifier) wants(who string, kind byte, k []byte) error {
	v.want[kind]++
	_, ok, err := v.Get(k)
	if err == nil && !ok {
		v.Reportf("workflow: %s has no row %x", who, k)
	}
	return err
}

// timers reports timers without an owner.
func (v *verifier) timers() error {
	return v.Timers(func(due int64, ns uint32, token []byte) error {
		if len(token) > 9 && token[0] == tokenPlan {
			return v.planTimer(due, ns, token)
		}
		if len(token) != 9 {
			v.Reportf("workflow: timer %x", token)
			return nil
		}
		number := binary.BigEndian.Uint64(token[1:])
		switch token[0] {
		case tokenWorkflow:
			if w := v.workflows[number]; w == nil || w.timer != due || w.ns != ns {
				v.Reportf("workflow: unexpected timer at %d of workflow %d", due, number)
			}
			return nil
		case tokenRun:
			b, ok, err := v.Get(partKey(nil, number, partHeader))
			if err != nil {
				return err
			}
			if h, err := decode(b, (*header).code); !ok || err != nil || h.timer != due {
				v.Reportf("workflow: unexpected timer at %d of run %d: %v", due, number, err)
			}
			return nil
		}
		v.Reportf("workflow: timer %x", token)
		return nil
	})
}

// count compares the counters with the recounted values.
func (v *verifier) count() {
	for _, w := range v.workflows {
		if w.active != w.runs || w.record.kept != w.kept {
			v.Reportf("workflow %q: its row counts %d active runs and %d kept ones, there are %d and %d", w.name, w.active, w.record.kept,
				w.runs, w.kept)
		}
		if w.kept > 0 && (w.nextEnded > w.oldest || w.timer > w.oldest+w.retention()) {
			v.Reportf("workflow %q: its first run has ended at %d, and is not forgotten: looked for from %d at %d", w.name, w.oldest,
				w.nextEnded, w.timer)
		}
	}
	for i := range v.names {
		for _, c := range []struct {
			counter engine.Counter
			what    string
			is      int64
		}{{countWorkflows, "workflows", v.known[uint32(i)]}, {countActive, "active runs", v.active[uint32(i)]}} {
			if n, counted := v.Counted(uint32(i), c.counter); counted && n != c.is {
				v.Reportf("workflow: namespace %q: its row counts %d %s, found %d", v.names[i], n, c.what, c.is)
			}
		}
	}
}
