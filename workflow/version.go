package workflow

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// VersionInfo is a version of a workflow that can be started.
type VersionInfo struct {
	Version   string
	Default   bool // it is the one that runs have if their start names no other
	CreatedAt time.Time
}

// Versions returns the versions of a workflow, the newest first: at most MaxVersions. Definition returns what one of them says, and the option Version starts it.
// Errors: ErrNotFound.
func (s *Store) Versions(ctx context.Context, name string) ([]VersionInfo, error) {
	if err := checkWorkflow(name); err != nil {
		return nil, err
	}
	q := versionsQuery{namespace: s.Namespace(), name: name}
	if err := s.scope.Query(ctx, name, &q); err != nil {
		return nil, err
	}
	if !q.found {
		return nil, notFound(name)
	}
	return q.items, nil
}

// RemoveVersion removes a version of a workflow: it can not be started any more, and a later Create may give its name to another definition. Runs of it go on, and can
// be retried; what they run stays until the workflow is deleted. In a spread namespace it returns as Create does.
//
// Errors: ErrNotFound if there is no such workflow or version; ErrConflict for the default version.
func (s *Store) RemoveVersion(ctx context.Context, name, version string) error {
	_, err := removeVersion.Do(ctx, &s.scope, name, versionBody{version: version}, nil)
	if err == nil {
		s.heard(ctx, name)
	}
	return err
}

// RemoveVersionOp is RemoveVersion as an operation of a transaction.
func RemoveVersionOp(name, version string) Op {
	return Op{engine.Hide(removeVersion.Op(name, versionBody{version: version}, nil))}
}

// versionBody removes a version. With a revision it is what the home of the workflow tells the others.
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
		return engine.Errorf(ErrInvalid, "workflow: a removal as the home of a workflow tells it")
	}
	return checkText("version", b.version)
}

// removeVersion makes a version unknown, at the workflow's home or where that has told it. Its runs still find it by its number.
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
		return engine.Errorf(ErrConflict, "workflow %q: version %q is the default one", k.name, c.version)
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

// startable counts the versions that can be started.
func (k *kind) startable() (n uint32) {
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

// versionsQuery asks for the versions of a workflow.
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
	})
}

// versions lists the versions of a workflow that can be started.
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
	numbers := make(map[string]uint32)
	for ok := it.First(); ok; ok = it.Next() {
		i, err := decode(it.Value(), (*versionIndex).code)
		if err != nil {
			return cmp.Or(err, it.Close())
		}
		if i.gone {
			continue
		}
		name := string(it.Key()[len(prefix):])
		numbers[name] = i.number
		q.items = append(q.items, VersionInfo{name, i.number == r.current, time.UnixMilli(i.createdAt)})
	}
	slices.SortFunc(q.items, func(a, b VersionInfo) int { return cmp.Compare(numbers[b.Version], numbers[a.Version]) })
	return it.Close()
}
