package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/wait"
)

// Tx gives Apply and OnTimer access to the machine's rows and the entry's time, and records their
// effects. All effects happen together or, when Apply returns an error, not at all.
//
// Byte slices returned by a Tx are valid until Apply or OnTimer returns. Copy them to keep them in
// memory or in a result.
type Tx struct {
	x             *Executor
	machine       MachineID
	ns            *namespace
	now           int64
	lsn           LSN
	term          uint64
	index         uint64
	scratch       []byte
	lastNamespace string // its name, as a string that need not be allocated again
	budget        budget
	cost          Cost // of the current command; counted for a strict executor
	entryCost     Cost // of the current entry
	open          []*Iter
	counts        []countChange
	onRollback    []func()
	follow        []followUp // to run after the current command, in order
	followed      int        // how many there were
	enlisted      work       // of those that have not run yet
	goesOn        bool       // the current command calls Conclude after its follow-ups
	causes        []Topic    // of what the current command makes
	firstWake     int        // of the current command, among those of the batch
	founded       int        // number of rows written when the current command had created its namespace; 0: it did not
}

type countChange struct {
	ns      *namespace
	counter int // among those of all machines
	delta   int64
}

// Now returns the time of the entry in ms since the epoch, stamped by the leader. Within a shard it
// never decreases.
func (tx *Tx) Now() int64 { return tx.now }

// LSN returns the number of the current change.
func (tx *Tx) LSN() LSN { return tx.lsn }

// Step takes the next LSN, for a command that makes more than one change.
func (tx *Tx) Step() LSN {
	tx.x.applied.LSN++
	tx.lsn = tx.x.applied.LSN
	return tx.lsn
}

// Term returns the raft term of the entry.
func (tx *Tx) Term() uint64 { return tx.term }

// Tag returns a tag that distinguishes objects with the same number. A number is reused if the log
// lost its tail.
func (tx *Tx) Tag() uint16 {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(tx.now))
	binary.BigEndian.PutUint64(b[8:], tx.term)
	return uint16(xxhash.Sum64(b[:]))
}

// Shard returns the shard in which the command is applied.
func (tx *Tx) Shard() ShardID { return tx.x.shard }

// Shards returns the number of shards of the node.
func (tx *Tx) Shards() int { return tx.x.shards }

// Namespace returns the number that stands for the command's namespace in row keys.
func (tx *Tx) Namespace() uint32 { return tx.ns.id }

// NamespaceName returns the name of the command's namespace.
func (tx *Tx) NamespaceName() string { return tx.ns.name }

// Spread reports whether the command's namespace is spread over all shards.
func (tx *Tx) Spread() bool { return tx.ns.spread }

// Get returns the value of a row.
func (tx *Tx) Get(k []byte) (value []byte, ok bool) {
	return tx.getRow(append(tx.rowKey(tx.machine), k...))
}

// Set writes a row; k and value are copied.
func (tx *Tx) Set(k, value []byte) { tx.setRow(append(tx.rowKey(tx.machine), k...), value) }

// Insert is Set for a row that does not exist. If the row is deleted again before it reaches the
// disk, it is never written there.
func (tx *Tx) Insert(k, value []byte) { tx.insertRow(append(tx.rowKey(tx.machine), k...), value) }

// Delete removes a row, which need not exist.
func (tx *Tx) Delete(k []byte) { tx.deleteRow(append(tx.rowKey(tx.machine), k...)) }

// fewRows is the maximum number of rows that DeleteRange deletes one by one.
const fewRows = 64

// DeleteRange removes all rows with lower <= key < upper, in any number. They must not be rows that
// the machine caches (see Primitive.Caches).
//
// A few rows are deleted one by one, because the cost of a range in the state does not depend on
// its size, and makes each iterator more expensive until compaction.
func (tx *Tx) DeleteRange(lower, upper []byte) {
	if bytes.Compare(lower, upper) < 0 && !tx.deleteFew(lower, upper) {
		tx.DeleteMany(lower, upper)
	}
}

// DeleteMany is DeleteRange for rows that are known to be many: it does not count them first.
func (tx *Tx) DeleteMany(lower, upper []byte) {
	if bytes.Compare(lower, upper) >= 0 {
		return
	}
	lo := append(tx.rowKey(tx.machine), lower...)
	tx.scratch = lo[:0]
	if tx.x.committed.caches(lo) {
		panic(fmt.Sprintf("shard %d: a range of cached rows: %x", tx.x.shard, lo))
	}
	tx.spend(len(lower) + len(upper))
	tx.x.batch.over.deleteRange(bytes.Clone(lo), append(tx.x.rowKey(nil, tx.machine), upper...))
}

// deleteFew deletes the rows with lower <= key < upper, unless there are more than fewRows.
func (tx *Tx) deleteFew(lower, upper []byte) bool {
	var few [][]byte
	it := tx.Iter(lower, upper)
	more := it.First()
	for ; more && len(few) < fewRows; more = it.Next() {
		few = append(few, bytes.Clone(it.Key()))
	}
	if err := it.Close(); err != nil {
		panic(storageFailure{err})
	}
	if more {
		return false
	}
	for _, k := range few {
		tx.Delete(k)
	}
	return true
}

// Iter iterates over the rows with lower <= key < upper as they are now; later writes are not
// visible. Close it.
func (tx *Tx) Iter(lower, upper []byte) *Iter {
	it, err := newIter(tx.x.committed.db, tx.x.rowKey(nil, tx.machine), lower, upper, tx.x.batch.over)
	if err != nil {
		panic(storageFailure{err})
	}
	it.tx = tx
	tx.cost.Iters++
	tx.open = append(tx.open, it)
	return it
}

// closed removes an iterator that is being closed.
func (tx *Tx) closed(it *Iter) {
	if i := slices.Index(tx.open, it); i >= 0 {
		tx.open = slices.Delete(tx.open, i, i+1)
	}
}

// First returns the first row with lower <= key < upper. It uses no iterator, but reads each
// preceding row that this batch has deleted. A caller that removes rows from the front must keep
// its position.
func (tx *Tx) First(lower, upper []byte) (k, value []byte, ok bool) {
	lo := append(tx.x.rowKey(nil, tx.machine), lower...)
	hi := append(tx.x.rowKey(nil, tx.machine), upper...)
	k, value, ok, err := tx.x.firstRow(lo, hi)
	if err != nil {
		panic(storageFailure{fmt.Errorf("read state: %w", err)})
	}
	if !ok {
		return nil, nil, false
	}
	return tx.x.committed.reads.Copy(k[rowPrefix:]), tx.x.committed.reads.Copy(value), true
}

// Count adds delta to a counter of the machine for the command's namespace.
func (tx *Tx) Count(c Counter, delta int64) {
	if delta != 0 {
		tx.counts = append(tx.counts, countChange{tx.ns, tx.counter(c), delta})
	}
}

// Counted returns the value of a counter of the command's namespace in this shard, including this
// command's changes.
func (tx *Tx) Counted(c Counter) int64 {
	at := tx.counter(c)
	n := tx.ns.counts[at]
	for _, ch := range tx.counts {
		if ch.ns == tx.ns && ch.counter == at {
			n += ch.delta
		}
	}
	return n
}

func (tx *Tx) counter(c Counter) int { return tx.x.table.base[tx.machine] + int(c) }

// Changed reports a change with the current LSN to the machine itself, once it has become visible
// (see Observer). k is copied.
func (tx *Tx) Changed(k []byte) {
	tx.x.batch.changes = append(tx.x.batch.changes,
		pendingChange{tx.machine, Change{tx.ns.id, tx.ns.name, tx.lsn, tx.x.batch.over.arena.Copy(k)}})
}

type pendingChange struct {
	machine MachineID
	change  Change
}

// Notify wakes up to n queries that wait for the topic once the change is visible; n < 0 wakes all.
func (tx *Tx) Notify(t Topic, n int) {
	tx.x.batch.wakes = append(tx.x.batch.wakes, wait.Wakeup{Topic: t, N: n})
}

// NotifyWithin is Notify for each topic within parent that has waiters. It skips takes that do not
// accept items of these kinds (see View.Only).
func (tx *Tx) NotifyWithin(parent Topic, n int, of Slots) {
	tx.x.batch.wakes = append(tx.x.batch.wakes, wait.Wakeup{Topic: parent, N: n, Within: true, Of: of})
}

// OnCommit runs f after the change has become visible. f may change only in-memory indexes of the
// machine.
func (tx *Tx) OnCommit(f func()) { tx.x.batch.hooks = append(tx.x.batch.hooks, f) }

// storageFailure is the panic of a Tx whose reads fail. The Tx cannot continue, and Apply cannot
// return such errors.
type storageFailure struct{ err error }

func (f storageFailure) Error() string { return f.err.Error() }

// Unwrap returns the error of the storage.
func (f storageFailure) Unwrap() error { return f.err }

// rowKey starts the key of one of the machine's rows in a buffer that is valid until the next call.
func (tx *Tx) rowKey(m MachineID) []byte {
	tx.scratch = tx.x.rowKey(tx.scratch[:0], m)
	return tx.scratch
}

func (tx *Tx) getRow(k []byte) (value []byte, ok bool) {
	tx.cost.Looks++
	tx.scratch = k[:0]
	if op, ok := tx.x.batch.over.get(k); ok {
		return op.value, !op.deleted
	}
	value, ok, err := tx.x.committed.lookup(k)
	if err != nil {
		panic(storageFailure{fmt.Errorf("read state: %w", err)})
	}
	return value, ok
}

func (tx *Tx) setRow(k, value []byte) {
	tx.scratch = k[:0]
	tx.spend(len(k) + len(value))
	tx.x.batch.over.set(k, value, false)
}

// insertRow is setRow for a row that does not exist.
func (tx *Tx) insertRow(k, value []byte) {
	if tx.x.checks.strict {
		tx.checkAbsent(k)
	}
	tx.scratch = k[:0]
	tx.spend(len(k) + len(value))
	tx.x.batch.over.insert(k, value)
}

func (tx *Tx) checkAbsent(k []byte) {
	_, found := tx.x.batch.over.get(k)
	if op, known := tx.x.batch.over.get(k); known && !op.deleted {
		panic(fmt.Sprintf("shard %d: a row that exists is inserted: %x", tx.x.shard, k))
	}
	if found {
		return
	}
	_, found, err := tx.x.committed.seekAll(k)
	if err != nil {
		panic(storageFailure{fmt.Errorf("read state: %w", err)})
	}
	if found {
		panic(fmt.Sprintf("shard %d: a row that exists is inserted: %x", tx.x.shard, k))
	}
}

func (tx *Tx) deleteRow(k []byte) {
	tx.scratch = k[:0]
	tx.spend(len(k))
	tx.x.batch.over.set(k, nil, true)
}

// begin starts the next command. Everything since can be rolled back until it ends.
func (tx *Tx) begin() Savepoint {
	tx.x.batch.over.settle()
	tx.onRollback, tx.ns, tx.followed = tx.onRollback[:0], nil, 0
	tx.causes, tx.firstWake = tx.causes[:0], len(tx.x.batch.wakes)
	return tx.mark()
}

// applyAt applies the command at position i of an entry.
func (tx *Tx) applyAt(i int, encoded []byte) (result []byte, err error) {
	if !tx.startCommand(i == 0) {
		return nil, ErrPutOff
	}
	result, err = tx.runTop(encoded)
	if tx.budget.overrun && i > 0 {
		return nil, ErrPutOff // refused if it is too large for an entry of its own
	}
	return result, err
}

// commit makes the command's changes final within the batch: counters take effect and the state
// hash is updated.
func (tx *Tx) commit() {
	x := tx.x
	for _, c := range tx.counts {
		c.ns.counts[c.counter] += c.delta
		x.dir.markDirty(c.ns)
	}
	tx.counts = tx.counts[:0]
	x.hashes.write(x.batch.over)
	x.batch.over.settle()
	if len(tx.causes) > 0 {
		x.predictor.Note(tx.causes, x.batch.wakes[tx.firstWake:])
	}
}

// runTop applies one command of an entry (or of a delivery) as a whole.
func (tx *Tx) runTop(encoded []byte) (result []byte, err error) {
	cmd, err := decodeCommand(encoded, tx.lastNamespace)
	tx.lastNamespace = cmd.Namespace
	if err != nil {
		// The door encodes every command itself, so this one was written by another version or is
		// not a command.
		panic(fmt.Sprintf("shard %d, index %d: %v", tx.x.shard, tx.index, err))
	}
	s := tx.begin()
	tx.cost, tx.founded = Cost{Moves: tx.x.batch.over.order.moves}, 0
	if tx.x.checks.strict {
		began := tx.x.checks.watch()
		result, err = tx.dispatch(cmd)
		tx.noteEffort(cmd, began)
	} else {
		result, err = tx.dispatch(cmd)
	}
	if err != nil {
		tx.rollback(s)
		return nil, err
	}
	if tx.founded != 0 && tx.founded == tx.budget.spent.rows {
		tx.rollback(s) // only a write creates a namespace: a command that found nothing in it leaves no trace
		return result, nil
	}
	tx.commit()
	return result, nil
}

func (tx *Tx) dispatch(cmd Command) (result []byte, err error) {
	defer tx.catch(&err)
	if cmd.Machine == machineEngine {
		if result, err = tx.applyEngine(cmd); err != nil {
			tx.mustDecode(cmd, err)
		}
		return result, err
	}
	if err := tx.known(cmd, FromUsers); err != nil {
		return nil, err
	}
	if tx.x.table.isGlobal(cmd) {
		if cmd.Namespace != "" || tx.x.shard != GlobalShard {
			return nil, Errorf(ErrInvalid, "%s: a command in namespace %q and shard %d, it takes none and shard %d",
				tx.x.table.byID[cmd.Machine].Name, cmd.Namespace, tx.x.shard, GlobalShard)
		}
		return tx.run(cmd)
	}
	if err := tx.admit(cmd); err != nil {
		return nil, err
	}
	return tx.run(cmd)
}

// known returns an error if a command may not come from this sender. A command unknown to all
// machines was written by another version, or is not a command.
func (tx *Tx) known(cmd Command, from Senders) error {
	if tx.x.table.command(cmd) == nil {
		panic(fmt.Sprintf("shard %d, index %d: unknown command: machine %d kind %d", tx.x.shard, tx.index, cmd.Machine, cmd.Kind))
	}
	return tx.x.table.sent(cmd, from)
}

// run executes a command with its follow-ups, in the namespace admitted before. The caller rolls
// everything back on error.
func (tx *Tx) run(cmd Command) (result []byte, err error) {
	defer tx.catch(&err)
	base := len(tx.follow)
	tx.goesOn = false
	result, err = tx.apply(cmd)
	goesOn := tx.goesOn
	if err = tx.runFollowUps(base, err); err == nil && goesOn {
		result, err = tx.conclude(cmd, result)
	}
	if err == nil {
		tx.answer(result)
	}
	return result, err
}

// apply passes a command to its machine.
func (tx *Tx) apply(cmd Command) ([]byte, error) {
	tx.Step()
	tx.enter(cmd.Machine)
	result, err := tx.x.machines[cmd.Machine].Apply(tx, cmd)
	if err != nil {
		tx.mustDecode(cmd, err)
	}
	return result, err
}

// mustDecode stops the shard if a command was refused because its body does not decode. Every body
// was decoded before it was proposed (see Primitive.Admit), so the log was written by a build with
// another layout. Skipping the command would lose an acknowledged write.
func (tx *Tx) mustDecode(cmd Command, err error) {
	if errors.Is(err, codec.ErrCorrupt) {
		p := tx.x.table.byID[cmd.Machine]
		panic(fmt.Sprintf("shard %d, index %d: %s: command %d (%s) does not decode: %v: it was written by another version of floe, or "+
			"is damaged",
			tx.x.shard, tx.index, p.Name, cmd.Kind, p.Command(cmd.Kind).Name, err))
	}
}

// enter makes a machine the current one; it must not be running already.
func (tx *Tx) enter(m MachineID) {
	tx.machine = m
	tx.x.committed.reads.Reset()
	for _, memory := range tx.x.memories[m] {
		memory.trim()
	}
}

// applyTxn executes a transaction: all conditions and operations succeed, or it has no effect.
//
//	conditions uvarint | operations uvarint | command (uvarint length, bytes) ...
//	result: result (uvarint length, bytes) of each operation
func (tx *Tx) applyTxn(cmd Command) ([]byte, error) {
	parts, conditions, err := decodeTxn(cmd.Body, cmd.Namespace)
	if err != nil {
		return nil, err
	}
	if err := tx.admit(cmd); err != nil {
		return nil, err
	}
	var result []byte
	for i, part := range parts {
		out, err := tx.runPart(part)
		if err != nil {
			return nil, partError(i, conditions, err)
		}
		if i >= conditions {
			result = codec.AppendBytes(result, out)
		}
	}
	return result, nil
}

// partError returns the refusal of a part of a transaction, whose first parts are conditions.
func partError(i, conditions int, err error) error {
	if i < conditions {
		return &TxnError{Index: i, Condition: true, Err: err}
	}
	return &TxnError{Index: i - conditions, Err: err}
}

func (tx *Tx) runPart(part Command) ([]byte, error) {
	if err := tx.known(part, FromUsers); err != nil {
		return nil, err
	}
	if tx.x.table.isGlobal(part) {
		return nil, Errorf(ErrInvalid, "%s: not allowed in a transaction", tx.x.table.byID[part.Machine].Name)
	}
	return tx.run(part)
}

func decodeTxn(body []byte, namespace string) (parts []Command, conditions int, err error) {
	r := codec.NewReader(body)
	nc, no := r.Uvarint(), r.Uvarint()
	if nc > MaxTxnOps || no > MaxTxnOps || nc+no > MaxTxnOps {
		return nil, 0, Errorf(ErrInvalid, "transaction: %d conditions and %d operations exceed %d", nc, no, MaxTxnOps)
	}
	for range nc + no {
		part, err := decodeCommand(r.Bytes(), namespace)
		if err != nil {
			return nil, 0, Errorf(ErrMalformed, "transaction: %v", err)
		}
		if part.Machine == machineEngine {
			return nil, 0, Errorf(ErrInvalid, "transaction: an operation of the engine itself")
		}
		parts = append(parts, part)
	}
	if err := r.Done(); err != nil {
		return nil, 0, Errorf(ErrMalformed, "transaction: %v", err)
	}
	return parts, int(nc), nil
}
