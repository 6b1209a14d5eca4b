package stream

import (
	"errors"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// groupSpecQuery reads the records of stream and group from the stream's home.
type groupSpecQuery struct {
	namespace string
	stream    string
	group     string
	consumer  string // "": none

	spec   spec // zero: the stream does not exist
	found  bool
	config groupSpec
	held   held
}

// held is a consumer's right to an exclusive group.
type held struct {
	known bool // the right is known and the consumer is present: no command is needed
	held  bool // the consumer has the right
	epoch uint64
}

// groupWaitQuery waits until there may be records for a consumer.
type groupWaitQuery struct {
	namespace string
	stream    string
	group     string
	consumer  string
	epoch     uint64 // of the consumer's right in an exclusive group, 0: none
	since     int64  // when the wait began, 0: now; also a result
	id        uint64 // of the group; the query does not wait for a group that no longer exists
	home      bool   // the shard has the stream's record
}

// groupsQuery reads groups of a stream: the one of a name, or those with a prefix after a name.
type groupsQuery struct {
	namespace string
	stream    string
	name      string
	prefix    string
	after     string
	limit     int
	id        uint64     // of the stream; 0: any
	spec      *groupSpec // of the named group, for shards that may not have it yet; nil: none

	found bool // the stream exists
	infos []GroupStats
	more  bool
}

// pendingQuery reads pending records of a group.
type pendingQuery struct {
	namespace string
	stream    string
	group     string
	after     Ref
	limit     int
	// The stream and the group, for shards that may not have them yet, or still have earlier ones
	// of these names; 0: any.
	streamID, groupID uint64

	found   bool
	records []PendingRecord
	more    bool

	bound Ref // if there are more: records after it are not needed
}

func (*groupSpecQuery) Machine() engine.MachineID { return engine.MachineStream }
func (*groupWaitQuery) Machine() engine.MachineID { return engine.MachineStream }
func (*groupsQuery) Machine() engine.MachineID    { return engine.MachineStream }
func (*pendingQuery) Machine() engine.MachineID   { return engine.MachineStream }

// group returns a group of the stream, nil if it does not exist.
func (w *view) group(name string) (*groupHeader, error) {
	b, ok, err := w.v.Get(groupKey(nil, w.gen, name))
	if err != nil || !ok {
		return nil, err
	}
	g, err := decodeGroup(b)
	return &g, err
}

func (w *view) cursor(g *groupHeader, p int) (groupCursor, error) {
	b, ok, err := w.v.Get(cursorKey(nil, w.gen, g.id, p))
	if err != nil || !ok {
		return groupCursor{next: 1}, err
	}
	return decodeCursor(b)
}

func (m *machine) queryGroupSpec(v *engine.View, q *groupSpecQuery) error {
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil || w == nil {
		return err
	}
	q.spec = w.spec
	g, err := w.group(q.group)
	if err != nil || g == nil {
		return err
	}
	q.found, q.config = true, *g.toSpec()
	if q.consumer == "" || g.mode != Exclusive || g.recalling {
		return nil
	}
	l := look{m: m, v: v, namespace: q.namespace, name: q.stream, group: q.group, consumer: q.consumer, w: w, g: g}
	q.held, err = l.right()
	return err
}

func (m *machine) queryGroupWait(v *engine.View, q *groupWaitQuery) error {
	if q.since == 0 {
		q.since = v.Now()
	}
	v.Freeze()
	l := look{
		m: m, v: v, namespace: q.namespace, name: q.stream, group: q.group, consumer: q.consumer, epoch: q.epoch, limit: 1, waits: true,
		since: q.since,
		id:    q.id, home: q.home,
	}
	n, err := l.look()
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if n == 0 {
		return engine.ErrWait
	}
	v.Claim(l.turn)
	return nil
}

// groupOf returns stream and group, nil if they do not exist.
func groupOf(v *engine.View, namespace, stream, group string) (*view, *groupHeader, error) {
	w, err := viewOf(v, namespace, stream)
	if err != nil || w == nil {
		return nil, nil, err
	}
	g, err := w.group(group)
	return w, g, err
}

func (m *machine) queryGroups(v *engine.View, q *groupsQuery) error {
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil || w == nil || q.id != 0 && q.id != w.id {
		return err
	}
	q.found = true
	if q.name != "" {
		g, err := w.group(q.name)
		if q.spec != nil && (g == nil || g.home != q.spec.id) {
			g = &groupHeader{groupConfig: q.spec.config}
		}
		if err != nil || g == nil {
			return err
		}
		info, err := w.describeGroup(q.name, g)
		q.infos = append(q.infos, info)
		return err
	}
	read := func(k, value []byte) (info GroupStats, ok bool, err error) {
		g, err := decodeGroup(value)
		if err == nil {
			info, err = w.describeGroup(string(k[9:]), &g)
		}
		return info, true, err
	}
	q.infos, q.more, err = engine.ListRows(v, groupKey(nil, w.gen, q.prefix), groupKey(nil, w.gen, q.after), q.limit, read)
	return err
}

// rows calls f for the group's rows of a kind.
func (w *view) rows(kind byte, g *groupHeader, f func(k, v []byte) error) error {
	return scanRows(w.v, groupPrefix(nil, kind, w.gen, g.id), f)
}

// scanRows calls f for all rows with a prefix.
func scanRows(v *engine.View, prefix []byte, f func(k, v []byte) error) error {
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := f(it.Key(), it.Value()); err != nil {
			it.Close()
			return err
		}
	}
	return it.Close()
}
