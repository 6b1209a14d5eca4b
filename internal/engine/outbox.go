package engine

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/plant"
)

// The outbox carries commands from one shard to another with exactly-once effect.
//
// Send stores the command in the sending shard, in the same step as the change that caused it, numbered by an LSN, which is
// never used again. The leader of the sending shard proposes stored messages to the target, in order; the target remembers
// the highest number seen per sender and drops what it has seen; when the target has applied them, the sender forgets them.
//
// Rows in the sending shard:  'o' | target (u16) | number (u64) -> raft index (uvarint) | command
// Rows in the receiving one:  's' | sender (u16)                -> number (uvarint)

// Bounds of one delivery: it becomes one command in the target's log.
const (
	maxDelivery      = 256
	maxDeliveryBytes = 256 << 10
)

// outboxIndex knows which targets have messages waiting, and where they begin.
type outboxIndex struct {
	heads map[ShardID]LSN // no message for the target has a lower number; owned by the executor

	mu      sync.Mutex // guards pending
	pending map[ShardID]LSN
	changed bool // heads differs from pending; owned by the executor
}

func (o *outboxIndex) publish() {
	if !o.changed {
		return
	}
	o.changed = false
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = make(map[ShardID]LSN, len(o.heads))
	for target, head := range o.heads {
		o.pending[target] = head
	}
}

func (x *Executor) restoreOutbox() error {
	x.outbox.heads, x.outbox.changed = make(map[ShardID]LSN), true
	for target := range x.shards {
		prefix := outboxPrefix(nil, ShardID(target))
		it, err := newIter(x.db, x.rowKey(nil, machineEngine), prefix, key.PrefixEnd(prefix), nil)
		if err != nil {
			return err
		}
		if it.First() && !plant.On(plant.LoseOutbox) {
			x.outbox.heads[ShardID(target)] = outboxNumber(it.Key())
		}
		if err := it.Close(); err != nil {
			return err
		}
	}
	return nil
}

func outboxPrefix(dst []byte, target ShardID) []byte {
	return binary.BigEndian.AppendUint16(append(dst, 'o'), uint16(target))
}

func outboxRow(dst []byte, target ShardID, n LSN) []byte {
	return key.AppendUint64(outboxPrefix(dst, target), uint64(n))
}

func outboxNumber(k []byte) LSN { return LSN(binary.BigEndian.Uint64(k[3:])) }

// Send stores a command for the shard that holds name of the namespace, which may be the sending one. It is applied there
// exactly once, after this change has become durable, in the order of sending per target. A command that the target refuses
// is dropped: send only what can not fail, or what may.
func (tx *Tx) Send(cmd Command, name string) {
	x := tx.x
	if c := x.table.command(cmd); c == nil || c.From&FromShards == 0 {
		panic(fmt.Sprintf("shard %d, index %d: machine %d sends machine %d a command of kind %d", x.shard, tx.index, tx.machine, cmd.Machine, cmd.Kind))
	}
	target := HomeShard(cmd.Namespace, x.shards)
	if cmd.Spread {
		target = NameShard(cmd.Namespace, name, x.shards)
	}
	x.applied.LSN++ // not Step: tx.LSN stays the number of the change that sends
	number := x.applied.LSN
	value := codec.AppendUvarint(nil, tx.index)
	tx.insertRow(outboxRow(tx.rowKey(machineEngine), target, number), cmd.AppendTo(value))
	if _, ok := x.outbox.heads[target]; !ok {
		x.outbox.heads[target] = number
		x.outbox.changed = true
		// After a rollback the number is given out again, perhaps to a smaller number of steps: a head may not stay too high.
		tx.onRollback = append(tx.onRollback, func() { delete(x.outbox.heads, target) })
	}
}

// Delivery is a batch of messages for one target.
type Delivery struct {
	Target  ShardID
	Command Command // to be proposed to the target
	Last    LSN     // number of its last message
	Index   uint64  // raft index of the entry that sent the last message
}

// PendingTargets returns the targets that may have messages waiting.
func (x *Executor) PendingTargets() []ShardID {
	x.outbox.mu.Lock()
	defer x.outbox.mu.Unlock()
	var targets []ShardID
	for t := range x.shards {
		if _, ok := x.outbox.pending[ShardID(t)]; ok {
			targets = append(targets, ShardID(t))
		}
	}
	return targets
}

// NextDelivery returns the next messages for the target after the given number, sent by entries up to raft index durable;
// false if there are none. It reads the visible state and may be called from any goroutine.
func (x *Executor) NextDelivery(target ShardID, after LSN, durable uint64) (d Delivery, ok bool, err error) {
	x.outbox.mu.Lock()
	from := max(x.outbox.pending[target], after+1)
	x.outbox.mu.Unlock()
	it, err := newIter(x.db, x.rowKey(nil, machineEngine), outboxRow(nil, target, from), key.PrefixEnd(outboxPrefix(nil, target)), nil)
	if err != nil {
		return d, false, err
	}
	d.Target = target
	body := codec.AppendUvarint(nil, uint64(x.shard))
	for n, more := 0, it.First(); more && n < maxDelivery && len(body) < maxDeliveryBytes; n, more = n+1, it.Next() {
		r := codec.NewReader(it.Value())
		index := r.Uvarint()
		if index > durable {
			break
		}
		d.Last, d.Index = outboxNumber(it.Key()), index
		body = codec.AppendUvarint(body, uint64(d.Last))
		body = codec.AppendBytes(body, r.Rest())
	}
	if err := it.Close(); err != nil {
		return d, false, err
	}
	d.Command = Command{Machine: machineEngine, Kind: kindDeliver, Body: body}
	return d, d.Last > 0, nil
}

// applyDeliver applies messages of another shard that have not been seen. Body: sender uvarint | (number uvarint, command
// bytes) ... Each message is a step of its own: one that is refused does not take back the others. The result is the number of the last one that is
// done with (uvarint): when the command is Full, the others have to be delivered again.
func (tx *Tx) applyDeliver(body []byte) ([]byte, error) {
	r := codec.NewReader(body)
	sender := r.Uvarint()
	seen := tx.seen(ShardID(sender))
	for applied := 0; r.Len() > 0; {
		number, message := LSN(r.Uvarint()), r.Bytes()
		if r.Err() != nil {
			break
		}
		if number <= seen && !plant.On(plant.DeliverTwice) {
			continue
		}
		if applied > 0 && tx.Full() {
			break
		}
		err := tx.runMessage(message)
		if tx.budget.overrun && (applied > 0 || !tx.budget.first) {
			if applied == 0 {
				return nil, err // put off as a whole
			}
			break
		}
		if err != nil {
			tx.x.refused.Add(1)
		}
		seen = number
		applied++
	}
	tx.budget.overrun = false
	if err := r.Err(); err != nil {
		panic(fmt.Sprintf("shard %d, index %d: delivery: %v", tx.x.shard, tx.index, err))
	}
	tx.budget.limit = unlimited // for the one row that says what is done
	number := codec.AppendUvarint(nil, uint64(seen))
	tx.setRow(seenRow(tx.rowKey(machineEngine), ShardID(sender)), number)
	return number, nil
}

// Delivered returns, from the result of a delivery's command, the number of the last message that need not be delivered again.
func Delivered(result []byte) (LSN, error) {
	r := codec.NewReader(result)
	n := LSN(r.Uvarint())
	return n, r.Done()
}

// runMessage carries out a command of another shard, or nothing of it.
func (tx *Tx) runMessage(encoded []byte) error {
	cmd, err := DecodeCommand(encoded)
	if err != nil {
		panic(fmt.Sprintf("shard %d, index %d: %v", tx.x.shard, tx.index, err))
	}
	s := tx.nestedMark()
	tx.followed = 0
	if err = tx.admit(cmd); err == nil {
		_, err = tx.run(cmd)
	}
	if err != nil {
		tx.rollback(s)
	}
	return err
}

func seenRow(dst []byte, sender ShardID) []byte {
	return binary.BigEndian.AppendUint16(append(dst, 's'), uint16(sender))
}

func (tx *Tx) seen(sender ShardID) LSN {
	row, ok := tx.getRow(seenRow(tx.rowKey(machineEngine), sender))
	if !ok {
		return 0
	}
	r := codec.NewReader(row)
	return LSN(r.Uvarint())
}

// Forget is the command that removes delivered messages from the sender's outbox, up to and including a number.
func Forget(target ShardID, upTo LSN) Command {
	body := codec.AppendUvarint(nil, uint64(target))
	return Command{Machine: machineEngine, Kind: kindForget, Body: codec.AppendUvarint(body, uint64(upTo))}
}

func (tx *Tx) applyForget(body []byte) error {
	r := codec.NewReader(body)
	target, upTo := ShardID(r.Uvarint()), LSN(r.Uvarint())
	if err := r.Done(); err != nil {
		return Errorf(ErrInvalid, "forget: %v", err)
	}
	o := &tx.x.outbox
	head, ok := o.heads[target]
	if !ok {
		return nil
	}
	delete(o.heads, target)
	o.changed = true
	it := tx.Iter(outboxRow(nil, target, head), key.PrefixEnd(outboxPrefix(nil, target)))
	for ok := it.First(); ok; ok = it.Next() {
		n := outboxNumber(it.Key())
		if n > upTo && !plant.On(plant.ForgetMore) || tx.Full() {
			o.heads[target] = n
			break
		}
		tx.deleteRow(outboxRow(tx.rowKey(machineEngine), target, n))
	}
	if err := it.Close(); err != nil {
		panic(storageFailure{err})
	}
	return nil
}
