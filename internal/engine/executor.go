package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/arena"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/wait"
)

// Kinds of the engine's own commands.
const (
	kindTxn uint8 = iota + 1
	kindFire
	kindDeliver
	kindSettle
	kindSkip
	kindCreateNamespace
	kindCompare
	kindFenced
	kindDeleteNamespace
)

// Applied is how far a shard's state has come. It is a row of the state, written with every batch, so the state always
// knows which part of the log it holds.
type Applied struct {
	Index uint64 // raft index of the last applied entry
	Term  uint64 // its term
	LSN   LSN    // last LSN given out
	Stamp int64  // time of the last entry, ms
	Hash  uint64 // chained over every write since the shard began: equal on replicas of equal index
}

// Executor applies the log of one shard to its part of the state.
//
// State rows are keyed: shard (u16) | machine (u8) | the machine's own key. Apply, Commit and Restore are called by one
// goroutine; queries run concurrently and see what Commit made visible.
//
// Entries are applied into an overlay and reach Pebble in Commit, together with Applied, as one batch without WAL: after a
// crash the state is that of some earlier entry and the log brings it forward.
type Executor struct {
	shard    ShardID
	shards   int
	db       *pebble.DB
	table    *table
	machines [maxMachines]Machine

	memories  [maxMachines][]Remembered // of the machines
	forgetful bool
	haste     int64                // at least 1
	stopwatch func() time.Duration // nil: there is none

	applied  Applied
	over     *overlay
	answered int              // bytes of the results since the last Commit
	points   *pebble.Iterator // over the committed state, for lookups of this batch; made by the first
	ranges   *pebble.Iterator // the same for the first rows of ranges: it has bounds, which points must not have
	tables   *pebble.Iterator // over the part of it that had been flushed when it was made, for lookups of rows not in fresh
	durable  uint64           // index that tables has come to
	flushed  atomic.Bool      // a new tables would come further
	merged   atomic.Bool      // a new tables would have fewer to look into, and let go of old ones
	used     bool             // tables has been used since the last Release
	fresh    freshRows
	reads    arena.Arena // what the command being applied has read from the database
	digest   xxhash.Digest
	tx       Tx
	entry    Entry
	wakes    []wait.Wakeup
	due      []wait.Wakeup // whose takes are to be looked at
	ready    []ReadyTake   // of what has been settled
	hooks    []func()
	changes  []pendingChange // in order; those of one machine are handed over together
	hashes   hashes
	compared []Comparison
	rows     *shardRows
	strict   bool
	efforts  map[string]*Effort // by command; if strict
	scanned  atomic.Int64       // rows that queries have looked at; if strict
	changed  []changedRow       // of the batch being committed
	observed []Change           // of one machine
	row      []byte             // of the engine's own, being encoded

	dir         directory
	hub         *wait.Hub
	predictor   wait.Predictor
	timers      timerIndex
	outbox      outboxIndex
	visible     atomic.Uint64 // applied index that queries see
	stamp       atomic.Int64  // and its time
	visibleTerm atomic.Uint64 // and its term
	refused     atomic.Int64  // messages of other shards that were refused here
	nextDue     atomic.Int64  // copy of timers.next for the shard's leader
}

// Config says what an Executor works on.
type Config struct {
	Shard      ShardID
	Shards     int
	DB         *pebble.DB
	Primitives []Primitive
	RowCache   *RowCache // for rows that are read often, shared with the other shards of the node; nil: none
	Compared   bool      // there are other replicas, to compare this one with
	Strict     bool      // check what takes too long to check always: for tests
	Forgetful  bool      // machines forget what they remember whenever they may, which must make no difference: for tests
	Haste      int64     // by how much shorter duties wait, see Lead.Patience; 0: not at all. For tests that last seconds

	// Watch measures what commands take, if Strict; nil: nobody does. Nothing depends on it.
	Watch func() time.Duration
}

// NewExecutor returns an executor whose state still has to be read with Restore.
func NewExecutor(c Config) *Executor {
	x := &Executor{
		shard: c.Shard, shards: c.Shards, db: c.DB, table: newTable(c.Primitives), over: newOverlay(), hub: wait.NewHub(), rows: c.RowCache.of(c.Shard),
		strict: c.Strict, forgetful: c.Forgetful, haste: max(c.Haste, 1), stopwatch: c.Watch,
	}
	for _, p := range c.Primitives {
		m := p.New()
		x.machines[p.ID] = m
		if r, ok := m.(Rememberer); ok {
			x.memories[p.ID] = r.Memories()
		}
	}
	if c.Compared {
		x.hashes.ring = make([]leftState, recentHashes)
	}
	if c.Strict {
		x.efforts = make(map[string]*Effort)
	}
	x.tx.x = x
	return x
}

// Bounds returns the key range of a shard's state: everything a snapshot of it has to hold.
func Bounds(shard ShardID) (lower, upper []byte) {
	return binary.BigEndian.AppendUint16(nil, uint16(shard)), binary.BigEndian.AppendUint16(nil, uint16(shard)+1)
}

// rowKey starts the key of a row of machine m.
func (x *Executor) rowKey(dst []byte, m MachineID) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(x.shard)), byte(m))
}

func (x *Executor) machine(id MachineID) Machine {
	if id >= maxMachines {
		return nil
	}
	return x.machines[id]
}

// Suspend has to be called before a snapshot replaces the shard's rows, and Restore afterwards.
func (x *Executor) Suspend() { x.rows.suspend() }

// Restore reads what the state says into memory, after opening and after a snapshot has replaced the shard's rows. Executors of several shards
// may do so at once.
func (x *Executor) Restore() error {
	x.rows.suspend()
	defer x.rows.resume()
	if err := x.restore(); err != nil {
		return fmt.Errorf("shard %d: restore: %w", x.shard, err)
	}
	return nil
}

func (x *Executor) restore() error {
	if err := x.Release(); err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	x.over.reset()
	x.answered = 0
	x.wakes, x.hooks, x.changes = nil, nil, nil
	x.eachMemory(Remembered.forget)
	if x.forgetful {
		x.eachMemory(func(m Remembered) { m.limit(0) })
	}
	var err error
	if x.applied, err = readApplied(x.db, x.shard); err != nil {
		return err
	}
	x.fresh.reset(x.applied.Index)
	x.hashes.reset(x.applied)
	x.compared = x.compared[:0]
	if err := x.restoreNamespaces(); err != nil {
		return err
	}
	if err := x.restoreTimers(); err != nil {
		return err
	}
	if err := x.restoreOutbox(); err != nil {
		return err
	}
	x.publish()
	for id, m := range x.machines {
		if m == nil {
			continue
		}
		v := &View{x: x, machine: MachineID(id), now: func() int64 { return x.applied.Stamp }}
		err := m.Restore(v)
		v.release()
		if err != nil {
			return fmt.Errorf("machine %d (%s): %w", id, x.table.byID[id].Name, err)
		}
	}
	x.publish()
	return nil
}

// eachMemory calls f for all that machines remember.
func (x *Executor) eachMemory(f func(Remembered)) {
	for _, memories := range x.memories {
		for _, m := range memories {
			f(m)
		}
	}
}

func (x *Executor) restoreNamespaces() error {
	reads := x.dir.reads() // a snapshot knows nothing of them
	x.dir.mu.Lock()
	x.dir.byName, x.dir.byID, x.dir.dirty = make(map[string]*namespace), nil, nil
	x.dir.mu.Unlock()
	x.dir.restored.Add(1)
	return x.scanRows([]byte{'n'}, func(k, value []byte) error {
		ns, err := x.table.decodeNamespace(value)
		if err != nil {
			return err
		}
		ns.id = uint32(len(x.dir.byID))
		if len(k) != 5 || binary.BigEndian.Uint32(k[1:]) != ns.id {
			return fmt.Errorf("namespace row %x out of order, want number %d", k, ns.id)
		}
		ns.reads.Store(reads[ns.id])
		x.dir.add(ns)
		return nil
	})
}

// scanRows calls f for every row of the engine's own that starts with prefix.
func (x *Executor) scanRows(prefix []byte, f func(k, value []byte) error) error {
	it, err := newIter(x.db, x.rowKey(nil, machineEngine), prefix, key.PrefixEnd(prefix), nil)
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

// Outcome is what became of one command.
type Outcome struct {
	Result []byte
	Err    error
}

// Apply carries out the log entry at index. data is empty for entries that raft itself made. The outcomes, one per command
// in the order of the entry, are appended to out; they may be told to callers after Commit. header gives the entry's origin.
func (x *Executor) Apply(term, index uint64, data []byte, out []Outcome) (header Entry, outcomes []Outcome) {
	if index != x.applied.Index+1 {
		panic(fmt.Sprintf("shard %d: entry %d applied after %d", x.shard, index, x.applied.Index))
	}
	x.applied.Index, x.applied.Term = index, term
	if x.strict {
		defer x.noteEntry(x.watch())
	}
	x.startHash()
	if len(data) > 0 {
		if err := x.entry.Decode(data); err != nil {
			panic(fmt.Sprintf("shard %d, index %d: %v", x.shard, index, err))
		}
		x.applied.Stamp = max(x.applied.Stamp, x.entry.Stamp)
		x.tx.now, x.tx.term, x.tx.index = x.applied.Stamp, term, index
		x.tx.startEntry()
		for i, c := range x.entry.Commands {
			result, err := x.tx.applyAt(i, c)
			out = append(out, Outcome{result, err})
			x.answered += len(result)
		}
		header = Entry{Origin: x.entry.Origin, Sequence: x.entry.Sequence}
	}
	x.endEntry()
	return header, out
}

// caches reports whether the row cache holds rows like this one.
func (x *Executor) caches(row []byte) bool {
	p := x.table.primitive(MachineID(row[rowPrefix-1]))
	return p != nil && p.Caches != nil && p.Caches(row[rowPrefix:])
}

// rowPrefix is how many bytes of a row's key stand before the machine's own.
const rowPrefix = 3

// lookup returns the value of a row of the committed state, valid while the command is being applied.
func (x *Executor) lookup(k []byte) (value []byte, ok bool, err error) {
	if !x.caches(k) {
		value, ok, err = x.seekAll(k)
		return x.reads.Copy(value), ok, err
	}
	if value, ok := x.rows.get(k); ok {
		return value, true, nil
	}
	if err := x.openTables(); err != nil {
		return nil, false, err
	}
	if x.fresh.may(hashRow(k), x.durable) {
		value, ok, err = x.seekAll(k)
	} else {
		value, ok, err = seek(x.tables, k)
	}
	if ok {
		if kept, ok := x.rows.add(k, value); ok {
			return kept, true, nil
		}
	}
	return x.reads.Copy(value), ok, err
}

// seekAll looks a row up in the whole state. One iterator serves a batch: that is cheaper than a Get each.
func (x *Executor) seekAll(k []byte) (value []byte, ok bool, err error) {
	if err := x.openPoints(); err != nil {
		return nil, false, err
	}
	return seek(x.points, k)
}

func (x *Executor) openPoints() (err error) {
	if x.points == nil {
		x.points, err = x.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	}
	return err
}

// firstRow returns the first row with lower <= key < upper, valid until the next lookup.
func (x *Executor) firstRow(lower, upper []byte) (k, value []byte, ok bool, err error) {
	first := x.over.first(lower, upper)
	if first != nil {
		upper = first.key
	}
	if bytes.Compare(lower, upper) >= 0 {
		return firstOf(first)
	}
	// Without an upper bound the iterator goes on to the next row, wherever that is, over the remains of all that were deleted in between.
	if x.ranges == nil {
		if x.ranges, err = x.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper}); err != nil {
			return nil, nil, false, err
		}
	} else {
		x.ranges.SetBounds(lower, upper)
	}
	if x.strict {
		before := stepsOf(x.ranges)
		defer func() { x.tx.toil.Steps += stepsOf(x.ranges) - before }()
	}
	for valid := x.ranges.SeekGE(lower); valid; {
		x.tx.toil.Looks++
		if r := x.over.ranges.find(x.ranges.Key()); r != nil {
			valid = x.ranges.SeekGE(r.upper)
			continue
		}
		if _, ok := x.over.get(x.ranges.Key()); !ok {
			value, err := x.ranges.ValueAndErr()
			return x.ranges.Key(), value, err == nil, err
		}
		valid = x.ranges.Next() // deleted by this batch, or first would be at it
	}
	if err := x.ranges.Error(); err != nil {
		return nil, nil, false, err
	}
	return firstOf(first)
}

// firstOf returns a row of this batch that comes before all others, if there is one.
func firstOf(op *overlayOp) (k, value []byte, ok bool, err error) {
	if op == nil {
		return nil, nil, false, nil
	}
	return op.key, op.value, true, nil
}

// openTables makes tables if it is time for another. Not after every flush: until the tables that flushes add are merged, they would only
// be more to look into. Its bloom filters are asked at the lowest level too, where most rows are.
func (x *Executor) openTables() (err error) {
	x.used = true
	if x.tables != nil && !x.merged.Load() && (!x.flushed.Load() || x.fresh.rows() < manyFreshRows) {
		return nil
	}
	if err := x.closeTables(); err != nil {
		return err
	}
	x.merged.Store(false)
	x.flushed.Store(false)
	if x.tables, err = x.db.NewIter(&pebble.IterOptions{OnlyReadGuaranteedDurable: true, UseL6Filters: true}); err != nil {
		return err
	}
	row, ok, err := seek(x.tables, appliedRow(x.rowKey(nil, machineEngine)))
	if err != nil {
		return err
	}
	var a Applied
	if ok {
		if a, err = decodeApplied(row); err != nil {
			return err
		}
	}
	x.durable = a.Index
	x.fresh.flushed(a.Index)
	return nil
}

func seek(it *pebble.Iterator, k []byte) (value []byte, ok bool, err error) {
	if !it.SeekPrefixGE(k) {
		return nil, false, it.Error()
	}
	value, err = it.ValueAndErr()
	return value, err == nil, err
}

// endBatch closes what lookups of a batch have opened.
func (x *Executor) endBatch() error {
	var errs []error
	for _, it := range [...]**pebble.Iterator{&x.points, &x.ranges} {
		if *it != nil {
			errs = append(errs, (*it).Close())
			*it = nil
		}
	}
	return errors.Join(errs...)
}

func (x *Executor) closeTables() error {
	if x.tables == nil {
		return nil
	}
	err := x.tables.Close()
	x.tables = nil
	return err
}

// Flushed tells that more of the state has been flushed, Merged that tables of it have become others. Any goroutine may call them.
func (x *Executor) Flushed() { x.flushed.Store(true) }

// Merged is described with Flushed.
func (x *Executor) Merged() { x.merged.Store(true) }

// ReleaseOld gives back what the executor holds of the database if that keeps old tables from being removed, or has not been used since
// the last call: it has to be called from time to time. Only for the goroutine that applies.
func (x *Executor) ReleaseOld() error {
	if x.used && !x.merged.Load() {
		x.used = false
		return nil
	}
	return x.Release()
}

// Release gives back all that the executor holds of the database, which can be closed then. Only for the goroutine that applies.
func (x *Executor) Release() error { return errors.Join(x.endBatch(), x.closeTables()) }

// endEntry writes the rows that sum up the entry. They are rewritten in the overlay by the next entry of the batch.
func (x *Executor) endEntry() {
	x.tx.budget.limit = unlimited
	x.over.settle()
	for _, ns := range x.dir.dirty {
		ns.dirty = false
		x.row = x.table.encodeNamespace(x.row[:0], ns)
		x.tx.setRow(namespaceRow(x.tx.rowKey(machineEngine), ns.id), x.row)
	}
	x.dir.dirty = x.dir.dirty[:0]
	x.hashWrites()
	x.applied.Hash = x.digest.Sum64()
	x.hashes.note(x.applied)
	x.row = x.applied.encode(x.row[:0])
	x.tx.setRow(appliedRow(x.tx.rowKey(machineEngine)), x.row)
	x.over.settle()
}

func (x *Executor) startHash() {
	x.digest.Reset()
	var prev [8]byte
	binary.LittleEndian.PutUint64(prev[:], x.applied.Hash)
	x.digest.Write(prev[:])
}

// hashWrites chains the writes since the last undo mark into the state hash and makes them final.
func (x *Executor) hashWrites() {
	for _, u := range x.over.undo {
		switch u.kind {
		case undoChange, undoFresh:
			op := &x.over.ops[u.op]
			x.digest.Write(op.key)
			x.digest.Write(op.value)
		case undoRange:
			added := &x.over.splits[u.op].added
			x.digest.Write(added.lower)
			x.digest.Write(added.upper)
		case undoCover: // which rows of a range are in the overlay differs between replicas
		}
	}
	x.over.settle()
}

// Pending returns the size of the writes and answers that wait for Commit.
func (x *Executor) Pending() int { return x.over.bytes + x.answered }

// Commit makes everything applied since the last Commit visible and wakes who waits for it.
func (x *Executor) Commit() error {
	if x.strict {
		defer x.noteCommit(Toil{Rows: len(x.over.ops), Bytes: x.Pending()}, x.watch())
	}
	if err := x.endBatch(); err != nil {
		return fmt.Errorf("shard %d: read state: %w", x.shard, err)
	}
	if !x.over.empty() {
		b := x.db.NewBatchWithSize(x.over.size())
		if err := x.over.writeTo(b); err != nil {
			return fmt.Errorf("shard %d: write state: %w", x.shard, err)
		}
		x.noteChanged()
		x.rows.begin(x.over.ops, x.changed)
		if err := x.db.Apply(b, pebble.NoSync); err != nil {
			return fmt.Errorf("shard %d: write state: %w", x.shard, err)
		}
		x.rows.end(x.over.ops, x.changed)
		b.Close()
	}
	x.publish()
	x.observe()
	x.over.reset()
	x.answered = 0
	x.eachMemory(Remembered.settle)
	for _, f := range x.hooks {
		f()
	}
	clear(x.hooks)
	x.hooks = x.hooks[:0]
	for _, w := range x.wakes {
		x.noteDue(w)
		if w.Within {
			x.hub.NotifyWithin(w.Topic, w.N)
		} else {
			x.hub.Notify(w.Topic, w.N)
		}
	}
	x.wakes = x.wakes[:0]
	return nil
}

// noteChanged notes which rows the batch writes of those that are cached.
func (x *Executor) noteChanged() {
	x.changed = x.changed[:0]
	for i := range x.over.ops {
		if k := x.over.ops[i].key; x.caches(k) {
			r := changedRow{hash: hashRow(k), op: int32(i), slot: noSlot}
			x.fresh.add(r.hash, x.applied.Index)
			x.changed = append(x.changed, r)
		}
	}
}

// observe hands the changes to the machines that want them, before the overlay gives up the memory of their keys.
func (x *Executor) observe() {
	for start := 0; start < len(x.changes); {
		id := x.changes[start].machine
		batch := x.observed[:0]
		for start < len(x.changes) && x.changes[start].machine == id {
			batch = append(batch, x.changes[start].change)
			start++
		}
		if o, ok := x.machines[id].(Observer); ok {
			o.Committed(batch, Waker{x.hub, id})
		}
		clear(batch)
		x.observed = batch
	}
	clear(x.changes)
	x.changes = x.changes[:0]
}

func (x *Executor) publish() {
	x.dir.committed.Store(int64(len(x.dir.byID)))
	x.stamp.Store(x.applied.Stamp)
	x.visible.Store(x.applied.Index)
	x.visibleTerm.Store(x.applied.Term)
	x.nextDue.Store(x.timers.next)
	x.outbox.publish()
}

// Applied returns how far the executor has come; only for the goroutine that applies.
func (x *Executor) Applied() Applied { return x.applied }

// Stamp returns the time of the last entry whose effects queries see, ms.
func (x *Executor) Stamp() int64 { return x.stamp.Load() }

// Visible returns the index of the last entry whose effects queries see.
func (x *Executor) Visible() uint64 { return x.visible.Load() }

// Refused returns how many messages of other shards this replica has refused since it started.
func (x *Executor) Refused() int64 { return x.refused.Load() }

// Waiting returns how many queries wait for topics.
func (x *Executor) Waiting() int { return x.hub.Waiting() }

// Check refuses a command that no machine of this node knows, or that is not for who has sent it, before it gets into the log.
func (x *Executor) Check(cmd Command) error { return x.table.check(cmd) }

// Shrinks reports whether a command may be applied while the disk is full; it has passed Check.
func (x *Executor) Shrinks(cmd Command) bool { return x.table.shrinks(cmd) }

func (tx *Tx) applyEngine(cmd Command) ([]byte, error) {
	tx.machine = machineEngine
	switch cmd.Kind {
	case kindTxn:
		return tx.applyTxn(cmd)
	case kindFire:
		return tx.applyFire()
	case kindDeliver:
		return tx.applyDeliver(cmd.Body)
	case kindSettle:
		return tx.applySettle(cmd.Body)
	case kindSkip:
		return nil, tx.applySkip(cmd.Body)
	case kindCreateNamespace:
		return tx.applyCreateNamespace(cmd)
	case kindDeleteNamespace:
		return tx.applyDeleteNamespace(cmd)
	case kindCompare:
		return nil, tx.applyCompare(cmd.Body)
	case kindFenced:
		return tx.applyFenced(cmd.Body)
	}
	panic(fmt.Sprintf("shard %d, index %d: unknown command: engine kind %d", tx.x.shard, tx.index, cmd.Kind))
}

// Skip is the command that moves the LSN past to, so that numbers given out in a lost tail of the log are not used again.
func Skip(to LSN) Command {
	return Command{Machine: machineEngine, Kind: kindSkip, Body: codec.AppendUvarint(nil, uint64(to))}
}

func (tx *Tx) applySkip(body []byte) error {
	r := codec.NewReader(body)
	to := LSN(r.Uvarint())
	if err := r.Done(); err != nil {
		return Errorf(ErrMalformed, "skip: %v", err)
	}
	tx.x.applied.LSN = max(tx.x.applied.LSN, to)
	return nil
}

func appliedRow(dst []byte) []byte { return append(dst, 'a') }

// encode lays the row out: version u8 | index | term | LSN (uvarints) | stamp (varint) | hash u64 little-endian.
func (a Applied) encode(dst []byte) []byte {
	dst = append(slices.Grow(dst, 64), 1)
	dst = codec.AppendUvarint(dst, a.Index)
	dst = codec.AppendUvarint(dst, a.Term)
	dst = codec.AppendUvarint(dst, uint64(a.LSN))
	dst = codec.AppendVarint(dst, a.Stamp)
	return binary.LittleEndian.AppendUint64(dst, a.Hash)
}

func decodeApplied(row []byte) (Applied, error) {
	r := codec.NewReader(row)
	if v := r.Byte(); v != 1 {
		return Applied{}, fmt.Errorf("applied row: %w: version %d", codec.ErrCorrupt, v)
	}
	a := Applied{Index: r.Uvarint(), Term: r.Uvarint(), LSN: LSN(r.Uvarint()), Stamp: r.Varint()}
	hash := r.Rest()
	if err := r.Err(); err != nil || len(hash) != 8 {
		return Applied{}, fmt.Errorf("applied row: %w", codec.ErrCorrupt)
	}
	a.Hash = binary.LittleEndian.Uint64(hash)
	return a, nil
}

func readApplied(r pebble.Reader, shard ShardID) (Applied, error) {
	lower, _ := Bounds(shard)
	row, ok, err := getRow(r, appliedRow(append(lower, byte(machineEngine))))
	if err != nil || !ok {
		return Applied{}, err
	}
	return decodeApplied(row)
}

// ReadApplied returns how far the state in r has come, zero if it holds nothing of the shard.
func ReadApplied(r pebble.Reader, shard ShardID) (Applied, error) {
	a, err := readApplied(r, shard)
	if err != nil {
		return a, fmt.Errorf("shard %d: %w", shard, err)
	}
	return a, nil
}

// DurableApplied returns the part of Applied that would survive a power failure now: what Pebble has flushed.
func DurableApplied(db *pebble.DB, shard ShardID) (Applied, error) {
	lower, _ := Bounds(shard)
	row := appliedRow(append(lower, byte(machineEngine)))
	it, err := db.NewIter(&pebble.IterOptions{
		LowerBound: row, UpperBound: append(row[:len(row):len(row)], 0), OnlyReadGuaranteedDurable: true,
	})
	if err != nil {
		return Applied{}, fmt.Errorf("shard %d: read durable state: %w", shard, err)
	}
	var a Applied
	if it.First() {
		a, err = decodeApplied(it.Value())
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return a, err
}
