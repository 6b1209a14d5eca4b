package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/key"
)

// The outbox sends commands from one shard to another with exactly-once effect.
//
// Send stores the command in the sending shard, in the same step as the change that caused it. Its
// number is an LSN, which is never used again. Messages are in lanes: one per target, machine,
// namespace and an id chosen by the machine. Messages in a lane stay in order, and a message that
// the target cannot accept for now blocks only its own lane.
//
// The leader of the sending shard proposes one delivery at a time to a target (see Dispatch). The
// target applies it if its number follows that of the last one. It stores that number with the
// outcome of each message, in one row per sender. The sender then settles those outcomes: it
// removes the messages and notifies the machines that want the outcome. Only then does it send the
// next delivery. So a delivery never contains an applied message, a late or repeated delivery has
// an old number, and a lost outcome is still in the target's row. Lanes leave no rows there.
//
// Exactly-once delivery depends on the log: a message is delivered when the entry that sent it is
// durable, and settled after the entry that applied it. On a single node that also holds with async
// durability, because all shards share one log, which a power failure truncates at one point. No
// settlement survives without its delivery, and no delivery without the sent message. It would not
// hold with a log per node, because a target that loses acknowledged entries loses the number of
// the last delivery. It would apply the delivery again, or never if the sender has settled it. So
// clusters are always sync.
//
// Rows in the sending shard: 'o' | lane | number (u64) -> raft index uvarint | reply u8 | token
// (uvarint length, bytes) | command Rows in the receiving one: 's' | sender (u16) -> number of the
// last delivery (uvarint) | outcomes, see delivery.go lane: target (u16) | machine (u8) | namespace
// number (u32) | id (u64)

// lane identifies a lane. Messages in different lanes do not wait for each other.
type lane struct {
	target  ShardID
	machine MachineID
	ns      uint32
	id      uint64
}

// backlog describes the messages waiting in a lane.
type backlog struct {
	first LSN // no message has a lower number
	count int
	bytes int64
}

// outboxIndex holds the backlog of each lane that is not empty.
type outboxIndex struct {
	lanes   map[lane]backlog // owned by the executor
	changed []lane           // whose first message may differ from pending; owned by the executor

	mu      sync.Mutex // guards all below
	pending map[lane]LSN
	targets []int    // by shard: how many lanes of pending lead there
	changes []uint64 // by shard: change count of those
}

func (o *outboxIndex) set(l lane, b backlog) {
	if b.count == 0 {
		delete(o.lanes, l)
	} else {
		o.lanes[l] = b
	}
	o.changed = append(o.changed, l)
}

func (o *outboxIndex) publish() {
	if len(o.changed) == 0 {
		return
	}
	o.mu.Lock()
	for _, l := range o.changed {
		o.changes[l.target]++
		_, was := o.pending[l]
		b, is := o.lanes[l]
		switch {
		case is:
			o.pending[l] = b.first
		case was:
			delete(o.pending, l)
			o.targets[l.target]--
		}
		if is && !was {
			o.targets[l.target]++
		}
	}
	o.mu.Unlock()
	o.changed = o.changed[:0]
}

func (x *Executor) restoreOutbox() error {
	o := &x.outbox
	o.lanes, o.changed = make(map[lane]backlog), nil
	o.mu.Lock()
	o.pending, o.targets, o.changes = make(map[lane]LSN), make([]int, x.shards), make([]uint64, x.shards)
	o.mu.Unlock()
	return x.scanRows([]byte{'o'}, func(k, value []byte) error {
		l, number, err := parseOutboxRow(k)
		if err != nil {
			return err
		}
		if int(l.target) >= x.shards {
			return fmt.Errorf("message %d for shard %d: there are %d shards", number, l.target, x.shards)
		}
		b := o.lanes[l]
		if b.count == 0 {
			b.first = number
		}
		b.count, b.bytes = b.count+1, b.bytes+int64(len(value))
		o.set(l, b)
		return nil
	})
}

func laneRow(dst []byte, l lane) []byte {
	dst = binary.BigEndian.AppendUint16(append(dst, 'o'), uint16(l.target))
	dst = key.AppendUint32(append(dst, byte(l.machine)), l.ns)
	return key.AppendUint64(dst, l.id)
}

func outboxRow(dst []byte, l lane, n LSN) []byte { return key.AppendUint64(laneRow(dst, l), uint64(n)) }

// outboxRowBytes is the length of a message's key.
const outboxRowBytes = 1 + 2 + 1 + 4 + 8 + 8

func parseOutboxRow(k []byte) (l lane, number LSN, err error) {
	if len(k) != outboxRowBytes {
		return l, 0, fmt.Errorf("outbox row %x has %d bytes, want %d", k, len(k), outboxRowBytes)
	}
	l = lane{ShardID(binary.BigEndian.Uint16(k[1:])), MachineID(k[3]), binary.BigEndian.Uint32(k[4:]), binary.BigEndian.Uint64(k[8:])}
	return l, LSN(binary.BigEndian.Uint64(k[16:])), nil
}

// stored is a message as stored in its row.
type stored struct {
	index   uint64 // raft index of the entry that sent it
	reply   bool   // its sender wants the outcome when it has been applied
	token   []byte
	command []byte
}

func (s *stored) encode(dst []byte) []byte {
	dst = codec.AppendBool(codec.AppendUvarint(dst, s.index), s.reply)
	return append(codec.AppendBytes(dst, s.token), s.command...)
}

func decodeStored(value []byte) (s stored, err error) {
	r := codec.NewReader(value)
	s = stored{index: r.Uvarint(), reply: r.Bool(), token: r.Bytes()}
	s.command = r.Rest()
	return s, r.Err()
}

// Message is a command for another shard.
type Message struct {
	// Command is the command to run. Without a namespace it gets that of the sending command.
	Command Command
	// Name is the name the command acts on: in a spread namespace it selects the shard.
	Name string
	// Lane is a number chosen by the sending machine. Messages with the same target, namespace and
	// lane are applied in the order of sending. They wait while the target refuses one of them with
	// ErrBusy or ErrUnavailable.
	Lane uint64
	// Token is passed to the machine's OnReply with the outcome. OnReply is called if the target
	// refuses the command permanently, and, if Reply is set, also when the command has been
	// applied.
	Token []byte
	Reply bool
}

// Send stores a command for the shard that holds a name, which may be the sending shard. It is
// applied there exactly once, after this change has become durable, unless it is refused. The
// machine must be a Replier.
func (tx *Tx) Send(m Message) {
	x := tx.x
	cmd := m.Command
	if cmd.Namespace == "" {
		cmd.Namespace, cmd.Spread = tx.ns.name, tx.ns.spread
	}
	if err := x.table.sent(cmd, FromShards); err != nil {
		panic(fmt.Sprintf("shard %d, index %d: a message of machine %d: %v", x.shard, tx.index, tx.machine, err))
	}
	tx.replier(tx.machine)
	target := HomeShard(cmd.Namespace, x.shards)
	if cmd.Spread && !x.table.command(cmd).AtHome {
		target = NameShard(cmd.Namespace, m.Name, x.shards)
	}
	x.applied.LSN++ // not Step: tx.LSN stays the number of the change that sends
	number := x.applied.LSN
	s := stored{index: tx.index, reply: m.Reply, token: m.Token, command: cmd.AppendTo(nil)}
	value := s.encode(make([]byte, 0, len(s.command)+len(s.token)+16))
	l := lane{target, tx.machine, tx.ns.id, m.Lane}
	tx.insertRow(outboxRow(tx.rowKey(machineEngine), l, number), value)

	before := x.outbox.lanes[l]
	b := backlog{before.first, before.count + 1, before.bytes + int64(len(value))}
	if before.count == 0 {
		b.first = number
	}
	x.outbox.set(l, b)
	tx.onRollback = append(tx.onRollback, func() { x.outbox.set(l, before) })
}

// SendTo sends a command to a shard of the namespace, which is spread. With a token, OnReply
// receives the outcome.
func (tx *Tx) SendTo(shard ShardID, cmd Command, token []byte) {
	cmd.Spread, cmd.Namespace = true, tx.ns.name
	tx.Send(Message{Command: cmd, Name: RouteTo(cmd.Namespace, shard, tx.x.shards), Token: token, Reply: token != nil})
}

// SendOthers sends a command to all other shards if the namespace is spread.
func (tx *Tx) SendOthers(cmd Command) {
	if !tx.ns.spread {
		return
	}
	for shard := range ShardID(tx.x.shards) {
		if shard != tx.x.shard {
			tx.SendTo(shard, cmd, nil)
		}
	}
}

// Backlog returns the number and bytes of the machine's messages that wait for a shard, in a lane
// of the command's namespace. To wait until there are fewer, use OutboxTopic.
func (tx *Tx) Backlog(target ShardID, laneID uint64) (count int, bytes int64) {
	b := tx.x.outbox.lanes[lane{target, tx.machine, tx.ns.id, laneID}]
	return b.count, b.bytes
}

// OutboxTopic returns the topic that is notified when messages in a lane, for any target, have been
// settled.
func OutboxTopic(m MachineID, namespace string, laneID uint64) Topic {
	return TopicOf(m, namespace, key.AppendUint64([]byte("\x00outbox"), laneID))
}

// PendingTargets returns the targets that may have messages waiting.
func (x *Executor) PendingTargets() []ShardID {
	x.outbox.mu.Lock()
	defer x.outbox.mu.Unlock()
	var targets []ShardID
	for t, lanes := range x.outbox.targets {
		if lanes > 0 {
			targets = append(targets, ShardID(t))
		}
	}
	return targets
}

// applySettle removes delivered messages and passes their outcomes to the senders. The result is
// whether everything is settled, because a shard settles a bounded part at a time.
//
//	target uvarint | outcomes
//	result: done u8
func (tx *Tx) applySettle(body []byte) ([]byte, error) {
	c := codec.NewDecoder(body)
	var target ShardID
	var outcomes []laneOutcome
	codeShard(&c, &target)
	codec.List(&c, &outcomes, func(c *codec.Coder, o *laneOutcome) { o.code(c) })
	if err := c.Done(); err != nil {
		return nil, Errorf(ErrMalformed, "settle: %v", err)
	}
	settled := 0
	for i := range outcomes {
		done, err := tx.settleLane(target, &outcomes[i], &settled)
		if err != nil || !done {
			return codec.AppendBool(nil, false), err
		}
	}
	return codec.AppendBool(nil, true), nil
}

// settleLane reports whether all of the lane's outcomes have been settled. An error means that
// there was no room for the first one.
func (tx *Tx) settleLane(target ShardID, out *laneOutcome, settled *int) (done bool, err error) {
	x := tx.x
	l := lane{target, out.machine, out.ns, out.id}
	ns := x.dir.get(l.ns)
	if b, ok := x.outbox.lanes[l]; !ok || ns == nil || b.first > out.upTo {
		return true, nil // settled before
	}
	for _, m := range tx.delivered(l, out.upTo) {
		if *settled > 0 && tx.Full() {
			return false, nil
		}
		s := tx.nestedMark()
		if err := tx.settleMessage(l, &m, out.reply(m.number)); err != nil {
			if *settled == 0 && tx.budget.first {
				panic(fmt.Sprintf("shard %d, index %d: a reply to machine %d: %v", x.shard, tx.index, l.machine, err))
			}
			tx.rollback(s)
			if *settled > 0 {
				tx.budget.overrun, err = false, nil
			}
			return false, err
		}
		*settled++
	}
	tx.ns = ns
	tx.Notify(OutboxTopic(l.machine, ns.name, l.id), -1)
	return true, nil
}

// deliveredMessage is a message that has been delivered.
type deliveredMessage struct {
	number LSN
	size   int
	token  []byte
}

// delivered returns the lane's messages up to a number, at most as many as fit into a delivery.
func (tx *Tx) delivered(l lane, upTo LSN) (list []deliveredMessage) {
	tx.machine = machineEngine
	it := tx.Iter(outboxRow(nil, l, tx.x.outbox.lanes[l].first), key.PrefixEnd(laneRow(nil, l)))
	for ok := it.First(); ok; ok = it.Next() {
		_, n, err := parseOutboxRow(it.Key())
		if err == nil && n > upTo {
			break
		}
		s, storedErr := decodeStored(it.Value())
		if err = cmp.Or(err, storedErr); err != nil {
			panic(fmt.Sprintf("shard %d: message %x: %v", tx.x.shard, it.Key(), err))
		}
		list = append(list, deliveredMessage{n, len(it.Value()), bytes.Clone(s.token)})
	}
	if err := it.Close(); err != nil {
		panic(storageFailure{err})
	}
	return list
}

// settleMessage removes a message and passes its outcome to its sender, if r is set. That cannot be
// refused; an error means that there was no room for it.
func (tx *Tx) settleMessage(l lane, m *deliveredMessage, r *messageOutcome) (err error) {
	defer tx.catch(&err)
	x := tx.x
	tx.deleteRow(outboxRow(tx.rowKey(machineEngine), l, m.number))
	before := x.outbox.lanes[l]
	tx.onRollback = append(tx.onRollback, func() { x.outbox.set(l, before) })
	x.outbox.set(l, backlog{m.number + 1, before.count - 1, before.bytes - int64(m.size)})
	for times := replies(r); times > 0; times-- {
		tx.ns, tx.followed = x.dir.get(l.ns), 0
		tx.reply(l.machine, Reply{Token: m.token, Result: r.result, Err: r.err})
		tx.settled("a reply")
	}
	return nil
}

// replies returns how many replies an outcome causes.
func replies(r *messageOutcome) int {
	switch {
	case r == nil:
		return 0
	}
	return 1
}

// temporary reports whether a refused command may succeed if it is sent again. An error that
// declares itself permanent (Lasts) is not retried.
func temporary(err error) bool {
	var l interface{ Lasts() bool }
	return (errors.Is(err, ErrBusy) || errors.Is(err, ErrUnavailable)) && !(errors.As(err, &l) && l.Lasts())
}
