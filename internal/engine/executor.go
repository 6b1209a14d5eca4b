package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

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

// Executor applies the log of one shard to its part of the state.
//
// State rows are keyed: shard (u16) | machine (u8) | the machine's own key. Apply, Commit and
// Restore are called by one goroutine. Queries run concurrently and see the changes that Commit has
// made visible.
//
// Entries are applied into an overlay and reach Pebble in Commit, together with Applied, as one
// batch without WAL. After a crash the state is that of some earlier entry, and the log is replayed
// from there.
type Executor struct {
	shard       ShardID
	shards      int
	table       *table
	machines    [maxMachines]Machine
	memories    memories
	dutySpeedup int64 // at least 1

	// For the goroutine that applies.
	applied   Applied
	entry     Entry // being applied
	tx        Tx
	batch     batch
	committed committed
	hashes    hashes
	timers    timerIndex

	// Other goroutines use these as well.
	dir       directory
	outbox    outboxIndex
	hub       *wait.Hub
	predictor wait.Predictor
	published published
	checks    checks
}

// Config configures an Executor.
type Config struct {
	Shard       ShardID
	Shards      int
	DB          *pebble.DB
	Primitives  []Primitive
	RowCache    *RowCache // for rows that are read often, shared with the other shards of the node; nil: none
	Compared    bool      // there are other replicas to compare this one with
	Strict      bool      // run checks that are too slow for production: for tests
	Forgetful   bool      // machines forget what they remember whenever they may, which must make no difference: for tests
	DutySpeedup int64     // factor by which duties wait shorter, see Lead.Patience; 0: 1. For tests that last seconds

	// Watch measures the time that commands take, if Strict; nil: they are not measured. No
	// decision depends on it.
	Watch func() time.Duration
	// Fault is Replica.Fault for the reads of takes, duties, Verify and Restore.
	Fault func() error
}

// NewExecutor returns an executor whose state must still be read with Restore.
func NewExecutor(c Config) *Executor {
	t := newTable(c.Primitives)
	x := &Executor{
		shard: c.Shard, shards: c.Shards, table: t, dutySpeedup: max(c.DutySpeedup, 1), hub: wait.NewHub(),
		batch:     batch{over: newOverlay()},
		committed: committed{shard: c.Shard, db: c.DB, table: t, rows: c.RowCache.of(c.Shard)},
		checks:    checks{strict: c.Strict, forgetful: c.Forgetful, stopwatch: c.Watch, fault: c.Fault},
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
		x.checks.efforts = make(map[string]*Effort)
	}
	x.tx.x = x
	return x
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

// Suspend must be called before a snapshot replaces the shard's rows, and Restore afterwards.
func (x *Executor) Suspend() { x.committed.rows.suspend() }

// Restore reads the state into memory, after opening and after a snapshot has replaced the shard's
// rows. Executors of several shards may do so concurrently.
func (x *Executor) Restore() error {
	x.committed.rows.suspend()
	defer x.committed.rows.resume()
	if err := x.restore(); err != nil {
		return fmt.Errorf("shard %d: restore: %w", x.shard, err)
	}
	return nil
}

func (x *Executor) restore() error {
	if err := x.Release(); err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	x.batch.drop()
	x.memories.each(Remembered.forget)
	if x.checks.forgetful {
		x.memories.each(func(m Remembered) { m.limit(0) })
	}
	var err error
	if x.applied, err = readApplied(x.committed.db, x.shard); err != nil {
		return err
	}
	x.committed.fresh.reset(x.applied.Index)
	x.hashes.reset(x.applied)
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
		v := &View{x: x, machine: MachineID(id), now: func() int64 { return x.applied.Stamp }, scan: scan{fault: x.checks.fault}}
		err := m.Restore(v)
		v.release()
		if err != nil {
			return fmt.Errorf("machine %d (%s): %w", id, x.table.byID[id].Name, err)
		}
	}
	x.publish()
	return nil
}

func (x *Executor) restoreNamespaces() error {
	reads := x.dir.reads() // a snapshot does not contain them
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
	it, err := newIter(x.committed.db, x.rowKey(nil, machineEngine), prefix, key.PrefixEnd(prefix), nil)
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

// Outcome is the outcome of one command.
type Outcome struct {
	Result []byte
	Err    error
}

// Apply applies the log entry at index. data is empty for entries that raft itself made. The
// outcomes, one per command in the order of the entry, are appended to out. They may be returned to
// callers after Commit. header gives the entry's origin.
func (x *Executor) Apply(term, index uint64, data []byte, out []Outcome) (header Entry, outcomes []Outcome) {
	if index != x.applied.Index+1 {
		panic(fmt.Sprintf("shard %d: entry %d applied after %d", x.shard, index, x.applied.Index))
	}
	x.applied.Index, x.applied.Term = index, term
	if x.checks.strict {
		defer x.noteEntry(x.checks.watch())
	}
	x.hashes.start(x.applied.Hash)
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
			x.batch.answered += len(result)
		}
		header = Entry{Origin: x.entry.Origin, Sequence: x.entry.Sequence}
	}
	x.endEntry()
	return header, out
}

// rowPrefix is the number of bytes in a row's key before the machine's own key.
const rowPrefix = 3

// firstRow returns the first row with lower <= key < upper, valid until the next lookup.
func (x *Executor) firstRow(lower, upper []byte) (k, value []byte, ok bool, err error) {
	first := x.batch.over.first(lower, upper)
	if first != nil {
		upper = first.key
	}
	if bytes.Compare(lower, upper) >= 0 {
		return firstOf(first)
	}
	it, err := x.committed.within(lower, upper)
	if err != nil {
		return nil, nil, false, err
	}
	if x.checks.strict {
		before := stepsOf(it)
		defer func() { x.tx.cost.Steps += stepsOf(it) - before }()
	}
	for valid := it.SeekGE(lower); valid; {
		x.tx.cost.Looks++
		if r := x.batch.over.ranges.find(it.Key()); r != nil {
			valid = it.SeekGE(r.upper)
			continue
		}
		if _, ok := x.batch.over.get(it.Key()); !ok {
			value, err := it.ValueAndErr()
			return it.Key(), value, err == nil, err
		}
		valid = it.Next() // deleted by this batch: otherwise first would be at it
	}
	if err := it.Error(); err != nil {
		return nil, nil, false, err
	}
	return firstOf(first)
}

// firstOf returns a row of this batch that sorts before all others, if op is one.
func firstOf(op *overlayOp) (k, value []byte, ok bool, err error) {
	if op == nil {
		return nil, nil, false, nil
	}
	return op.key, op.value, true, nil
}

// endEntry writes the rows that summarize the entry. The next entry of the batch overwrites them in
// the overlay.
func (x *Executor) endEntry() {
	x.tx.budget.limit = unlimited
	x.batch.over.settle()
	for _, ns := range x.dir.dirty {
		ns.dirty = false
		x.batch.row = x.table.encodeNamespace(x.batch.row[:0], ns)
		x.tx.setRow(namespaceRow(x.tx.rowKey(machineEngine), ns.id), x.batch.row)
	}
	x.dir.dirty = x.dir.dirty[:0]
	x.hashes.write(x.batch.over)
	x.batch.over.settle()
	x.applied.Hash = x.hashes.digest.Sum64()
	x.hashes.note(x.applied)
	x.batch.row = x.applied.encode(x.batch.row[:0])
	x.tx.setRow(appliedRow(x.tx.rowKey(machineEngine)), x.batch.row)
	x.batch.over.settle()
}

// Pending returns the size of the writes and answers waiting for Commit.
func (x *Executor) Pending() int { return x.batch.size() }

// Commit makes everything applied since the last Commit visible and wakes its waiters.
func (x *Executor) Commit() error {
	b := &x.batch
	if x.checks.strict {
		defer x.noteCommit(Cost{Rows: len(b.over.ops), Bytes: b.size()}, x.checks.watch())
	}
	if err := x.committed.endBatch(); err != nil {
		return fmt.Errorf("shard %d: read state: %w", x.shard, err)
	}
	if !b.over.empty() {
		if err := x.committed.write(b.over, x.applied.Index); err != nil {
			return fmt.Errorf("shard %d: write state: %w", x.shard, err)
		}
	}
	x.publish()
	x.observe()
	b.over.reset()
	b.answered = 0
	x.memories.each(Remembered.settle)
	for _, f := range b.hooks {
		f()
	}
	clear(b.hooks)
	b.hooks = b.hooks[:0]
	for _, w := range b.wakes {
		x.noteDue(w)
		if w.Within {
			x.hub.NotifyWithin(w.Topic, w.N)
		} else {
			x.hub.Notify(w.Topic, w.N)
		}
	}
	b.wakes = b.wakes[:0]
	return nil
}

// observe passes the changes to the machines that observe them, before the overlay frees the memory
// of their keys.
func (x *Executor) observe() {
	b := &x.batch
	for start := 0; start < len(b.changes); {
		id := b.changes[start].machine
		own := b.observed[:0]
		for start < len(b.changes) && b.changes[start].machine == id {
			own = append(own, b.changes[start].change)
			start++
		}
		if o, ok := x.machines[id].(Observer); ok {
			o.Committed(own, Waker{x.hub, id})
		}
		clear(own)
		b.observed = own
	}
	clear(b.changes)
	b.changes = b.changes[:0]
}

func (x *Executor) publish() {
	x.dir.committed.Store(int64(len(x.dir.byID)))
	x.published.set(x.applied, x.timers.next)
	x.outbox.publish()
}

// Applied returns the executor's position in the log; only for the goroutine that applies.
func (x *Executor) Applied() Applied { return x.applied }

// Waiting returns the number of queries waiting for topics.
func (x *Executor) Waiting() int { return x.hub.Waiting() }

// Check refuses a command that is unknown to this node, or that its sender may not send, before it
// reaches the log.
func (x *Executor) Check(cmd Command) error { return x.table.check(cmd) }

// Shrinks reports whether a command may be applied while the disk is full. The command must have
// passed Check.
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

// Skip is the command that moves the LSN past to, so that numbers assigned in a lost tail of the
// log are not reused.
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
