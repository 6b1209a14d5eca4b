package workflow

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// VersionInfo is a startable version of a workflow.
type VersionInfo struct {
	Version   string
	Default   bool // the version of starts that name no other
	CreatedAt time.Time

	Definition []byte // source as it was created; only Get returns it
	number     uint32
}

// Versions gives access to the startable versions of a workflow.
type Versions struct {
	store    *Store
	workflow string
}

// Versions returns the versions of a workflow. The option Version of Start selects one of them.
func (s *Store) Versions(workflow string) Versions { return Versions{s, workflow} }

// Page returns a page of the versions, newest first.
//
// Options: Limit, Cursor. Errors: ErrNotFound if there is no such workflow; ErrInvalid for a limit
// that is not 1-1000 and for an invalid cursor.
func (l Versions) Page(ctx context.Context, opts ...PageOption) (page Page[VersionInfo], err error) {
	o, err := engine.PageOf(opts)
	if err != nil {
		return page, err
	}
	if o.Cursor != "" {
		n, err := strconv.ParseUint(o.Cursor, 10, 32)
		if err != nil || versionCursor(VersionInfo{number: math.MaxUint32 - uint32(n)}) != o.Cursor {
			return page, engine.BadCursor(o.Cursor)
		}
	}
	all, err := l.list(ctx)
	if err != nil {
		return page, err
	}
	return engine.PageIn(all, o, versionCursor), nil
}

// versionCursor returns the cursor of a version, in the order of the listing.
func versionCursor(v VersionInfo) string { return fmt.Sprintf("%010d", math.MaxUint32-v.number) }

// All iterates over the versions, in the order of Page and with the contract of Store.All. Options
// and errors are those of Page.
func (l Versions) All(ctx context.Context, opts ...PageOption) iter.Seq2[VersionInfo, error] {
	return engine.All(ctx, l.Page, opts)
}

// Get returns a version with its definition. "" is the default version. Errors: ErrNotFound.
func (l Versions) Get(ctx context.Context, version string) (VersionInfo, error) {
	if err := checkWorkflow(l.workflow); err != nil {
		return VersionInfo{}, err
	}
	q := infoQuery{namespace: l.store.Namespace(), name: l.workflow, version: version}
	if err := l.store.scope.Query(ctx, l.workflow, &q); err != nil {
		return VersionInfo{}, err
	}
	if !q.found {
		return VersionInfo{}, notFound(l.workflow)
	}
	if q.known {
		all, err := l.list(ctx)
		if err != nil {
			return VersionInfo{}, err
		}
		for _, v := range all {
			if v.Version == q.info.Version {
				v.Definition = q.source
				return v, nil
			}
		}
	}
	return VersionInfo{}, engine.Errorf(ErrNotFound, "workflow %q has no version %q", l.workflow, version)
}

func (l Versions) list(ctx context.Context) ([]VersionInfo, error) {
	if err := checkWorkflow(l.workflow); err != nil {
		return nil, err
	}
	q := versionsQuery{namespace: l.store.Namespace(), name: l.workflow}
	if err := l.store.scope.Query(ctx, l.workflow, &q); err != nil {
		return nil, err
	}
	if !q.found {
		return nil, notFound(l.workflow)
	}
	return q.items, nil
}

// Delete removes a version of the workflow. It can no longer be started, and a later Create may
// reuse its name for another definition. Its runs continue and can be retried; their definition is
// kept until the workflow is deleted. In a spread namespace Delete waits as Create does.
//
// Errors: ErrNotFound if there is no such workflow or version; ErrConflict for the default version.
func (l Versions) Delete(ctx context.Context, version string) error {
	_, err := removeVersion.Do(ctx, &l.store.scope, l.workflow, versionBody{version: version}, nil)
	if err == nil {
		l.store.heard(ctx, l.workflow)
	}
	return err
}

// SetDefault makes a version the default. Starts that name no version run it, and its schedule,
// trigger and retention apply to the workflow. A later Create of a new version makes that version
// the default. In a spread namespace SetDefault waits as Create does.
//
// Errors: ErrNotFound if there is no such workflow or version.
func (l Versions) SetDefault(ctx context.Context, version string) error {
	_, err := setDefault.Do(ctx, &l.store.scope, l.workflow, versionBody{version: version}, nil)
	if err == nil {
		l.store.heard(ctx, l.workflow)
	}
	return err
}

// SetDefaultOp is Versions.SetDefault as an operation of a transaction.
func SetDefaultOp(name, version string) Op {
	return Op{engine.Hide(setDefault.Op(name, versionBody{version: version}, nil))}
}

// RemoveVersionOp is Versions.Delete as an operation of a transaction.
func RemoveVersionOp(name, version string) Op {
	return Op{engine.Hide(removeVersion.Op(name, versionBody{version: version}, nil))}
}

// versionBody removes a version or makes it the default. With a revision it is a message from the
// workflow's home to the other shards.
type versionBody struct {
	version  string
	revision uint64
}

func (b *versionBody) code(f *codec.Fields) {
	f.Text("version", &b.version, codec.Range{Min: 1, Max: engine.MaxNameBytes})
	if c := f.Binary(); c != nil {
		c.Uvarint(&b.revision)
	}
}

func (b *versionBody) limit() error {
	if b.revision != 0 {
		return engine.Errorf(ErrInvalid, "workflow: a change of a version that only the home of a workflow sends")
	}
	return checkText("version", b.version)
}

// removeVersion removes a version, at the workflow's home or in a shard notified by it. The
// version's runs still find it by its number.
func (w *work) removeVersion(c *versionBody) error {
	k := w.workflow(w.subject)
	told := c.revision != 0
	if told && (k == nil || k.revision >= c.revision) {
		return nil
	}
	if k == nil {
		return notFound(w.subject)
	}
	v, ok := k.version(c.version)
	switch {
	case !told && !ok:
		return engine.Errorf(ErrNotFound, "workflow %q has no version %q", k.name, c.version)
	case !told && v.number == k.current:
		return engine.Errorf(ErrConflict, "workflow %q: version %q is the default version", k.name, c.version)
	}
	if !told {
		c.revision = uint64(w.tx.LSN())
		w.tx.SendOthers(command(kindRemoveVersion, k.name, c, (*versionBody).code))
	}
	k.revision, k.updatedAt, k.changed = c.revision, w.tx.Now(), true
	if ok {
		v.gone = true
		k.tx.Set(append(numberKey(nil, rowVersions, k.id), c.version...), encode(nil, &v, (*versionIndex).code))
	}
	return nil
}

// setDefault makes a version the default, at the workflow's home or in a shard notified by it. Only
// the home has the schedule and the trigger.
func (w *work) setDefault(c *versionBody) error {
	k := w.workflow(w.subject)
	told := c.revision != 0
	if told && (k == nil || k.revision >= c.revision) {
		return nil
	}
	if k == nil {
		return notFound(w.subject)
	}
	v, ok := k.version(c.version)
	switch {
	case !told && !ok:
		return engine.Errorf(ErrNotFound, "workflow %q has no version %q", k.name, c.version)
	case !told && v.number == k.current:
		return nil
	}
	if !told {
		c.revision = uint64(w.tx.LSN())
		w.tx.SendOthers(command(kindSetDefault, k.name, c, (*versionBody).code))
	}
	k.revision, k.updatedAt, k.changed = c.revision, w.tx.Now(), true
	if !ok {
		return nil
	}
	d := w.definition(k.id, v.number)
	k.current, k.retainFor, k.retainRuns = v.number, d.RetainFor, d.RetainRuns
	if !told {
		k.reschedule(d.Schedule)
		k.retrigger(d.Trigger)
	}
	return nil
}

// startable counts the startable versions.
func (k *openWorkflow) startable() (n uint32) {
	prefix := numberKey(nil, rowVersions, k.id)
	it := k.tx.Iter(prefix, key.PrefixEnd(prefix))
	defer mustClose(it)
	for ok := it.First(); ok; ok = it.Next() {
		if i := must(decode(it.Value(), (*versionIndex).code)); !i.gone {
			n++
		}
	}
	return n
}

// versionsQuery lists the versions of a workflow.
type versionsQuery struct {
	namespace string
	name      string

	found bool
	items []VersionInfo
}

func (*versionsQuery) Kind() uint8               { return queryVersions }
func (*versionsQuery) Machine() engine.MachineID { return engine.MachineWorkflow }

func (q *versionsQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	f.Text("name", &q.name)
}

func (q *versionsQuery) Results(f *codec.Fields) {
	f.Found(&q.found)
	codec.ListOf(f, "versions", &q.items, func(v *VersionInfo, f *codec.Fields) {
		f.Text("version", &v.Version)
		f.Bool("default", &v.Default)
		f.Time("created_at_ms", &v.CreatedAt)
		number := uint64(v.number)
		f.Uvarint("number", &number, codec.Range{Max: math.MaxUint32})
		v.number = uint32(number)
	})
}

// versions lists the startable versions of a workflow.
func versions(v *engine.View, q *versionsQuery) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	r, ok, err := getRow(v, namedKey(nil, rowWorkflow, ns, q.name), (*record).code)
	if err != nil || !ok {
		return err
	}
	q.found, q.items = true, nil
	prefix := numberKey(nil, rowVersions, r.id)
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		i, err := decode(it.Value(), (*versionIndex).code)
		if err != nil {
			return cmp.Or(err, it.Close())
		}
		if i.gone {
			continue
		}
		q.items = append(q.items, VersionInfo{
			Version: string(it.Key()[len(prefix):]), Default: i.number == r.current, CreatedAt: time.UnixMilli(i.createdAt),
			number: i.number,
		})
	}
	slices.SortFunc(q.items, func(a, b VersionInfo) int { return cmp.Compare(b.number, a.number) })
	return it.Close()
}
