package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/key"
)

// MaxNamespaces is the maximum number of namespaces in a shard. Each takes about 300 bytes of
// memory on every replica.
const MaxNamespaces = 100_000

// NamespaceInfo describes a namespace.
type NamespaceInfo struct {
	Name      string
	Spread    bool // its contents are spread over all shards
	CreatedAt time.Time
	Counts    Counts
}

// namespace is a shard's record of a namespace. Row keys contain its small number instead of its
// name. The number is the shard's own, assigned in the order in which the shard first saw the
// names.
//
// The record of a namespace, with its placement, is in its home shard. A shard with a part of a
// spread namespace has a row too, for the number and its share of the counts.
type namespace struct {
	id        uint32
	name      string
	spread    bool
	createdAt int64
	counts    []int64 // as the table of primitives has them; owned by the executor
	dirty     bool    // counts differ from the row
	deleted   bool    // it is empty; it keeps its number and placement, which routers and timers may still refer to
	reads     atomic.Int64
}

// encodeNamespace appends a namespace row to dst:
//
//	version u8 | name (uvarint length, bytes) | spread u8 | created at (varint ms) | counters (see appendCounters)
//
// The version is 2 if the namespace was deleted, else 1.
func (t *table) encodeNamespace(dst []byte, n *namespace) []byte {
	version := byte(1)
	if n.deleted {
		version = 2
	}
	dst = append(slices.Grow(dst, 64+len(n.name)), version)
	dst = codec.AppendString(dst, n.name)
	dst = codec.AppendBool(dst, n.spread)
	dst = codec.AppendVarint(dst, n.createdAt)
	return t.appendCounters(dst, n.counts)
}

func (t *table) decodeNamespace(row []byte) (ns *namespace, err error) {
	r := codec.NewReader(row)
	v := r.Byte()
	if v != 1 && v != 2 {
		return nil, fmt.Errorf("namespace row: %w: version %d", codec.ErrCorrupt, v)
	}
	ns = &namespace{name: r.String(), spread: r.Bool(), createdAt: r.Varint(), deleted: v == 2}
	if ns.counts, err = t.readCounters(&r); err == nil {
		err = r.Done()
	}
	if err != nil {
		return nil, fmt.Errorf("namespace row: %w", err)
	}
	return ns, nil
}

// directory holds a shard's namespaces in memory. Only the executor changes it; queries look up
// names.
//
// If the creation of a namespace is rolled back, the next one gets its number. So queries see only
// numbers below committed.
type directory struct {
	mu        sync.RWMutex
	byName    map[string]*namespace
	byID      []*namespace // byID[i].id == i
	committed atomic.Int64 // how many of them are in the committed state
	dirty     []*namespace // owned by the executor
	restored  atomic.Int64 // how often it was reread: namespaces found before are outdated
	looked    func()       // test hook, nil otherwise: called in the middle of visible

	order struct { // of names, of those that were committed when it was made
		sync.Mutex
		all      []*namespace
		restored int64
	}
}

// inOrder returns the committed namespaces, sorted by name. Callers must not change them.
func (d *directory) inOrder() []*namespace {
	o := &d.order
	o.Lock()
	defer o.Unlock()
	d.mu.RLock()
	restored, n := d.restored.Load(), min(int(d.committed.Load()), len(d.byID))
	if restored == o.restored && n == len(o.all) {
		d.mu.RUnlock()
		return o.all
	}
	if restored != o.restored || n < len(o.all) {
		o.all = nil // it has been reread
	}
	o.restored, o.all = restored, append(slices.Clone(o.all), d.byID[len(o.all):n]...)
	d.mu.RUnlock()
	slices.SortFunc(o.all, func(a, b *namespace) int { return strings.Compare(a.name, b.name) })
	return o.all
}

func (d *directory) lookup(name string) *namespace {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byName[name]
}

// visible returns the namespace if its creation is committed. It holds the lock until that is
// known. Otherwise the creation could be rolled back after the lookup, and the number given to
// another namespace that is then committed, so the number would look committed.
func (d *directory) visible(name string) *namespace {
	d.mu.RLock()
	defer d.mu.RUnlock()
	ns := d.byName[name]
	if d.looked != nil {
		d.looked()
	}
	if ns == nil || int64(ns.id) >= d.committed.Load() {
		return nil
	}
	return ns
}

func (d *directory) get(id uint32) *namespace {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if int(id) >= len(d.byID) {
		return nil
	}
	return d.byID[id]
}

func (d *directory) add(n *namespace) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byName[n.name] = n
	d.byID = append(d.byID, n)
}

// removeLast undoes the latest add, when its command is rolled back.
func (d *directory) removeLast() {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := len(d.byID) - 1
	delete(d.byName, d.byID[last].name)
	d.byID = d.byID[:last]
}

func (d *directory) markDirty(n *namespace) {
	if !n.dirty {
		n.dirty = true
		d.dirty = append(d.dirty, n)
	}
}

// Rows of the engine's own space: 'n' | namespace number (u32).
func namespaceRow(dst []byte, id uint32) []byte { return key.AppendUint32(append(dst, 'n'), id) }

// admit makes the namespace of a command the current one. The first write creates it. A command
// that assumes a placement other than the record's is refused, because the sender would look for
// the data elsewhere. Only the home shard can check that, and it only matters there, because a
// namespace never changes its placement.
func (tx *Tx) admit(cmd Command) error {
	x := tx.x
	home := HomeShard(cmd.Namespace, x.shards) == x.shard
	ns := x.dir.lookup(cmd.Namespace)
	switch {
	case ns == nil && cmd.Spread && home:
		return errMisrouted
	case ns == nil && !cmd.Spread && !home:
		return errMisrouted
	case ns == nil:
		var err error
		if ns, err = tx.createNamespace(cmd.Namespace, cmd.Spread); err != nil {
			return err
		}
		tx.founded = tx.budget.spent.rows
	case ns.deleted && ns.spread:
		return Errorf(ErrNotFound, "namespace %q was deleted: create it again, spread as it was, before you write to it", cmd.Namespace)
	case ns.spread != cmd.Spread:
		return errMisrouted
	case ns.deleted:
		tx.foundAgain(ns)
		tx.founded = tx.budget.spent.rows
	}
	tx.ns = ns
	return nil
}

func (tx *Tx) createNamespace(name string, spread bool) (*namespace, error) {
	x := tx.x
	if n := len(x.dir.byID); n >= MaxNamespaces {
		return nil, Errorf(ErrInvalid, "namespace %q: the shard holds %d namespaces, the limit is %d", name, n, MaxNamespaces)
	}
	ns := &namespace{id: uint32(len(x.dir.byID)), name: name, spread: spread, createdAt: tx.now, counts: make([]int64, x.table.counters)}
	x.dir.add(ns)
	tx.onRollback = append(tx.onRollback, x.dir.removeLast)
	tx.setRow(namespaceRow(tx.rowKey(machineEngine), ns.id), x.table.encodeNamespace(nil, ns))
	tx.Notify(TopicOf(machineEngine, name, nil), -1)
	return ns, nil
}

// foundAgain revives a namespace that was deleted.
func (tx *Tx) foundAgain(ns *namespace) {
	was := ns.createdAt
	tx.onRollback = append(tx.onRollback, func() { ns.deleted, ns.createdAt = true, was })
	ns.deleted, ns.createdAt = false, tx.now
	tx.setRow(namespaceRow(tx.rowKey(machineEngine), ns.id), tx.x.table.encodeNamespace(nil, ns))
	tx.Notify(TopicOf(machineEngine, ns.name, nil), -1)
}

// applyCreateNamespace executes kindCreateNamespace in the home shard, and in other shards in which
// a spread namespace was deleted. Body: spread u8. The result is 1 if the namespace had been
// deleted in this shard. It may then have to be created in other shards as well.
func (tx *Tx) applyCreateNamespace(cmd Command) ([]byte, error) {
	if err := CheckName("namespace", cmd.Namespace); err != nil {
		return nil, err
	}
	spread, err := decodeCreateNamespace(cmd.Body)
	if err != nil {
		return nil, err
	}
	home := HomeShard(cmd.Namespace, tx.x.shards) == tx.x.shard
	ns := tx.x.dir.lookup(cmd.Namespace)
	switch {
	case !home && !spread:
		return nil, errMisrouted
	case ns == nil:
		_, err = tx.createNamespace(cmd.Namespace, spread)
		return nil, err
	case ns.deleted && ns.spread != spread:
		as := map[bool]string{false: "not spread", true: "spread"}[ns.spread]
		return nil, Errorf(ErrConflict, "namespace %q was deleted: it can only be recreated %s", cmd.Namespace, as)
	case ns.deleted:
		tx.foundAgain(ns)
		return []byte{1}, nil
	case !home:
		return nil, nil
	}
	return nil, Errorf(ErrExists, "namespace %q already exists", cmd.Namespace)
}

// applyDeleteNamespace executes kindDeleteNamespace in a shard. It has no body. The result is 1 if
// machines still had rows to remove. The caller then proposes it again.
func (tx *Tx) applyDeleteNamespace(cmd Command) ([]byte, error) {
	x := tx.x
	if err := CheckName("namespace", cmd.Namespace); err != nil {
		return nil, err
	}
	if len(cmd.Body) > 0 {
		return nil, Errorf(ErrMalformed, "delete namespace: a body of %d bytes", len(cmd.Body))
	}
	ns := x.dir.lookup(cmd.Namespace)
	if ns == nil || ns.deleted {
		return []byte{0}, nil
	}
	if err := x.table.counts(ns.counts, 0).checkEmpty(cmd.Namespace); err != nil {
		return nil, err
	}
	tx.ns = ns
	found := false
	for id := range MachineID(maxMachines) {
		if m, ok := x.machine(id).(Leaver); ok {
			tx.machine = id
			found = m.Leave(tx) || found
		}
	}
	if tx.machine = machineEngine; found {
		return []byte{1}, nil
	}
	counts := ns.counts
	tx.onRollback = append(tx.onRollback, func() { ns.deleted, ns.counts = false, counts })
	ns.deleted, ns.counts = true, make([]int64, len(counts))
	tx.setRow(namespaceRow(tx.rowKey(machineEngine), ns.id), x.table.encodeNamespace(nil, ns))
	tx.OnCommit(func() { ns.reads.Store(0) })
	return []byte{0}, nil
}

// DeleteNamespace is the command that deletes a namespace in a shard.
func DeleteNamespace(name string) Command {
	return Command{Machine: machineEngine, Kind: kindDeleteNamespace, Namespace: name}
}

func admitDeletion(cmd Command, _ int) error {
	if len(cmd.Body) > 0 {
		return Errorf(ErrInvalid, "delete namespace: a body of %d bytes", len(cmd.Body))
	}
	return checkDeletable(cmd.Namespace)
}

func checkDeletable(name string) error {
	if err := CheckWritable(name); err != nil {
		return err
	}
	if name == DefaultNamespace {
		return Errorf(ErrInvalid, "namespace %q cannot be deleted: it always exists", name)
	}
	return nil
}

func decodeCreateNamespace(body []byte) (spread bool, err error) {
	r := codec.NewReader(body)
	spread = r.Bool()
	if err := r.Done(); err != nil {
		return false, Errorf(ErrMalformed, "create namespace: %v", err)
	}
	return spread, nil
}

// CreateNamespace is the command that creates a namespace explicitly.
func CreateNamespace(name string, spread bool) Command {
	return Command{Machine: machineEngine, Kind: kindCreateNamespace, Namespace: name, Body: codec.AppendBool(nil, spread)}
}

// NamespaceQuery queries one namespace of a shard.
type NamespaceQuery struct {
	Name  string
	Wait  bool          // until it exists
	Info  NamespaceInfo // result
	Found bool          // result
	Gone  bool          // result: it was deleted in this shard
}

// Machine returns the engine's own machine.
func (*NamespaceQuery) Machine() MachineID { return machineEngine }

// NamespacesQuery queries the namespaces of a shard with a prefix that come after a name, in name
// order.
type NamespacesQuery struct {
	Prefix string
	After  string
	Limit  int
	Infos  []NamespaceInfo // result
}

// Machine returns the engine's own machine.
func (*NamespacesQuery) Machine() MachineID { return machineEngine }

func (v *View) queryNamespace(q *NamespaceQuery) error {
	if q.Wait {
		if err := v.WaitOn(TopicOf(machineEngine, q.Name, nil)); err != nil {
			return err
		}
	}
	if ns := v.x.dir.visible(q.Name); ns != nil {
		var err error
		if q.Info, q.Found, q.Gone, err = v.namespaceInfo(ns); err != nil || q.Found {
			return err
		}
	}
	if q.Wait {
		return ErrWait
	}
	return nil
}

func (v *View) queryNamespaces(q *NamespacesQuery) error {
	all := v.x.dir.inOrder()
	first, _ := slices.BinarySearchFunc(all, max(q.After, q.Prefix),
		func(ns *namespace, name string) int { return strings.Compare(ns.name, name) })
	for _, ns := range all[first:] {
		if ns.name == q.After {
			continue
		}
		if len(q.Infos) == q.Limit || !strings.HasPrefix(ns.name, q.Prefix) {
			break
		}
		info, found, _, err := v.namespaceInfo(ns)
		if err != nil {
			return err
		}
		if found {
			q.Infos = append(q.Infos, info)
		}
	}
	return nil
}

// namespaceInfo reads the row rather than memory, because memory is ahead of the committed state.
func (v *View) namespaceInfo(ns *namespace) (info NamespaceInfo, found, deleted bool, err error) {
	row, found, err := v.getRow(namespaceRow(v.rowKey(machineEngine), ns.id))
	if err != nil || !found {
		return info, false, false, err
	}
	got, err := v.x.table.decodeNamespace(row)
	if err != nil || got.deleted {
		return info, false, err == nil, err
	}
	v.x.committed.rows.flushReads()
	return NamespaceInfo{
		Name: got.name, Spread: got.spread, CreatedAt: time.UnixMilli(got.createdAt), Counts: v.x.table.counts(got.counts, ns.reads.Load()),
	}, true, false, nil
}
