package engine

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/floedb/floe/internal/codec"
)

// Limits of one delivery. It becomes one command in the target's log. Its outcomes become one row
// there and one command in the sender's log.
const (
	maxDelivery      = 256
	maxDeliveryBytes = 256 << 10
	maxOutcomeBytes  = 256 << 10
	maxResult        = 1 << 20 // of a message with a reply: if its result is larger, the message is refused
)

// delivery is the body of kindDeliver. Number 0 delivers nothing and requests the outcomes of the
// last delivery.
type delivery struct {
	sender ShardID
	number uint64
	lanes  []laneMessages
}

// laneMessages are the first messages of a lane, in order.
type laneMessages struct {
	machine  MachineID
	ns       uint32
	id       uint64
	messages []message
}

type message struct {
	number  LSN
	reply   bool
	command []byte
}

// laneOutcome is the outcome of messages of a lane: those up to a number have been applied or
// permanently refused.
type laneOutcome struct {
	machine MachineID
	ns      uint32
	id      uint64
	upTo    LSN
	replies []messageOutcome // replies that the sender requested, and refusals; in order
}

type messageOutcome struct {
	number LSN
	result []byte
	err    error
}

// laneRefusal means that the target cannot accept the next message of a lane for now.
type laneRefusal struct {
	machine MachineID
	ns      uint32
	id      uint64
	reason  string
}

// receipt is the result of kindDeliver.
type receipt struct {
	number   uint64        // of the last delivery that was applied
	outcomes []laneOutcome // of that one
	refusals []laneRefusal // of this one
}

func codeShard(c *codec.Coder, s *ShardID) {
	v := uint64(*s)
	if c.Uvarint(&v); c.Reading() {
		if *s = ShardID(v); v > math.MaxUint16 {
			c.Fail("shard out of range")
		}
	}
}

func codeLane(c *codec.Coder, m *MachineID, ns *uint32, id *uint64) {
	b, n := byte(*m), uint64(*ns)
	c.Byte(&b)
	c.Uvarint(&n)
	c.Uvarint(id)
	if c.Reading() {
		if *m, *ns = MachineID(b), uint32(n); n > math.MaxUint32 || *m >= maxMachines {
			c.Fail("lane out of range")
		}
	}
}

func codeLSN(c *codec.Coder, n *LSN) {
	v := uint64(*n)
	c.Uvarint(&v)
	*n = LSN(v)
}

func (d *delivery) code(c *codec.Coder) {
	codeShard(c, &d.sender)
	c.Uvarint(&d.number)
	codec.List(c, &d.lanes, func(c *codec.Coder, l *laneMessages) {
		codeLane(c, &l.machine, &l.ns, &l.id)
		codec.List(c, &l.messages, func(c *codec.Coder, m *message) {
			codeLSN(c, &m.number)
			c.Bool(&m.reply)
			c.Bytes(&m.command)
		})
	})
}

func (o *laneOutcome) code(c *codec.Coder) {
	codeLane(c, &o.machine, &o.ns, &o.id)
	codeLSN(c, &o.upTo)
	codec.List(c, &o.replies, func(c *codec.Coder, r *messageOutcome) { r.code(c) })
}

// code codes the outcome as number | refused u8 | result, or code u8 and message of the error.
func (o *messageOutcome) code(c *codec.Coder) {
	codeLSN(c, &o.number)
	refused := o.err != nil
	if c.Bool(&refused); !refused {
		c.Bytes(&o.result)
		return
	}
	var code byte
	var text string
	if o.err != nil {
		code, text = codeOf(o.err), o.err.Error()
	}
	c.Byte(&code)
	if c.String(&text); c.Reading() {
		o.err = plain(code, text)
	}
}

func (r *laneRefusal) code(c *codec.Coder) {
	codeLane(c, &r.machine, &r.ns, &r.id)
	c.String(&r.reason)
}

func (r *receipt) code(c *codec.Coder) {
	c.Uvarint(&r.number)
	codec.List(c, &r.outcomes, func(c *codec.Coder, o *laneOutcome) { o.code(c) })
	codec.List(c, &r.refusals, func(c *codec.Coder, l *laneRefusal) { l.code(c) })
}

// codeRow codes the part of a receipt that the target stores.
func (r *receipt) codeRow(c *codec.Coder) {
	c.Uvarint(&r.number)
	codec.List(c, &r.outcomes, func(c *codec.Coder, o *laneOutcome) { o.code(c) })
}

func decodeDelivery(body []byte) (d delivery, err error) {
	c := codec.NewDecoder(body)
	d.code(&c)
	return d, c.Done()
}

func decodeReceiptRow(row []byte) (r receipt, err error) {
	c := codec.NewDecoder(row)
	r.codeRow(&c)
	return r, c.Done()
}

// reply returns the outcome of a message if it must be sent to the sender, or nil.
func (o *laneOutcome) reply(n LSN) *messageOutcome {
	for len(o.replies) > 0 && o.replies[0].number < n {
		o.replies = o.replies[1:]
	}
	if len(o.replies) > 0 && o.replies[0].number == n {
		return &o.replies[0]
	}
	return nil
}

// applyDeliver applies messages of another shard, each as a separate unit, so a refused message
// does not roll back the others.
func (tx *Tx) applyDeliver(body []byte) ([]byte, error) {
	d, err := decodeDelivery(body)
	if err != nil {
		return nil, Errorf(ErrMalformed, "delivery: %v", err)
	}
	r := tx.received(d.sender)
	if next := d.number == r.number+1; next {
		r = receipt{number: d.number}
		if err := tx.deliver(&d, &r); err != nil {
			return nil, err
		}
		c := codec.NewEncoder(nil)
		r.codeRow(&c)
		tx.budget.limit = unlimited // for the one row that records the outcomes
		tx.setRow(receiptRow(tx.rowKey(machineEngine), d.sender), c.Encoded())
	}
	c := codec.NewEncoder(nil)
	r.code(&c)
	return c.Encoded(), nil
}

// deliver applies the messages of a delivery, lane by lane, until the command is Full. The others
// must be delivered again. An error means that there was no room even for the first.
func (tx *Tx) deliver(d *delivery, r *receipt) error {
	applied, size := 0, 0
	for i := range d.lanes {
		l := &d.lanes[i]
		out := laneOutcome{machine: l.machine, ns: l.ns, id: l.id}
		for j := range l.messages {
			if applied > 0 && (tx.Full() || size > maxOutcomeBytes) {
				break
			}
			m := &l.messages[j]
			o, err := tx.runMessage(m, applied == 0 && tx.budget.first)
			if tx.budget.overrun {
				if tx.budget.overrun = applied == 0; tx.budget.overrun {
					return err // put off as a whole
				}
				break
			}
			if applied++; err != nil {
				r.refusals = append(r.refusals, laneRefusal{l.machine, l.ns, l.id, err.Error()})
				break
			}
			out.upTo = m.number
			if o != nil {
				out.replies = append(out.replies, *o)
				size += len(o.result) + 64
			}
		}
		if out.upTo > 0 {
			r.outcomes = append(r.outcomes, out)
		}
	}
	return nil
}

// runMessage executes a command of another shard, completely or not at all. It returns the outcome
// for the sender, nil if the sender needs none, or the reason why the message must be delivered
// again. A command that writes too much is permanently refused only if nothing was written before
// it.
func (tx *Tx) runMessage(m *message, alone bool) (tell *messageOutcome, again error) {
	s := tx.nestedMark()
	result, err := tx.runForeign(m)
	switch {
	case err == nil && m.reply:
		return &messageOutcome{number: m.number, result: result}, nil
	case err == nil:
		return nil, nil
	}
	tx.rollback(s)
	if tx.budget.overrun = tx.budget.overrun && !alone; tx.budget.overrun || temporary(err) {
		return nil, err
	}
	tx.x.published.refused.Add(1)
	return &messageOutcome{number: m.number, err: err}, nil
}

func (tx *Tx) runForeign(m *message) ([]byte, error) {
	cmd, err := DecodeCommand(m.command)
	if err != nil {
		tx.mustDecode(Command{Machine: machineEngine, Kind: kindDeliver}, fmt.Errorf("message %d: %w", m.number, err))
	}
	if err := tx.known(cmd, FromShards); err != nil {
		return nil, err
	}
	// Machines only send to a system namespace if a user's definition names it.
	if IsSystem(cmd.Namespace) {
		return nil, CheckWritable(cmd.Namespace)
	}
	tx.followed = 0
	if tx.x.table.command(cmd).AtHome {
		ns := tx.x.dir.lookup(cmd.Namespace)
		cmd.Spread = ns != nil && ns.spread
	}
	if ns := tx.x.dir.lookup(cmd.Namespace); ns != nil && ns.spread && !cmd.Spread && HomeShard(cmd.Namespace, tx.x.shards) == tx.x.shard {
		// The home shard is authoritative, and the placement of a namespace never changes. So the
		// message, and all messages behind it, would wait forever.
		return nil, Errorf(ErrInvalid, "namespace %q is spread over all shards, the message is for one in a single shard", cmd.Namespace)
	}
	if err := tx.admit(cmd); err != nil {
		// This shard's record of the namespace may be outdated or lost, so the refusal must be
		// temporary.
		return nil, Errorf(ErrUnavailable, "%v", err)
	}
	result, err := tx.run(cmd)
	if err == nil && m.reply && len(result) > maxResult {
		return nil, Errorf(ErrInvalid, "the result has %d bytes, a reply %d at most", len(result), maxResult)
	}
	return result, err
}

// deliveryShrinks reports whether a delivery may be applied while the disk is full.
func (t *table) deliveryShrinks(body []byte) bool {
	d, err := decodeDelivery(body)
	if err != nil {
		return true // it is refused, and writes nothing
	}
	for _, l := range d.lanes {
		for _, m := range l.messages {
			if c := t.encoded(m.command); c != nil && !c.Shrinks {
				return false
			}
		}
	}
	return true
}

// encoded returns the type of an encoded command, or nil if it is unknown. Unknown commands are
// refused and write nothing.
func (t *table) encoded(command []byte) *CommandType {
	cmd, err := DecodeCommand(command)
	if err != nil {
		return nil
	}
	return t.command(cmd)
}

func receiptRow(dst []byte, sender ShardID) []byte {
	return binary.BigEndian.AppendUint16(append(dst, 's'), uint16(sender))
}

func (tx *Tx) received(sender ShardID) receipt {
	row, ok := tx.getRow(receiptRow(tx.rowKey(machineEngine), sender))
	if !ok {
		return receipt{}
	}
	r, err := decodeReceiptRow(row)
	if err != nil {
		panic(fmt.Sprintf("shard %d: row of deliveries of shard %d: %v", tx.x.shard, sender, err))
	}
	return r
}
