package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Verifier is a Machine that can check the consistency of its rows. It is called offline and after
// every crash in tests. It may read all rows, but must hold only a bounded part of them in memory.
type Verifier interface {
	// Verify reports every state that no sequence of commands can have produced. The error is for
	// rows that cannot be read.
	Verify(a *Audit) error
}

// Audit gives a Verifier a frozen state of one shard, and receives its reports.
type Audit struct {
	View
	Applied Applied

	ctx        context.Context
	report     func(problem string)
	namespaces []*namespace // by number, from the rows; nil for one that cannot be read
	scanned    int64        // rows read since the context was checked
}

// Verify reads all rows of the shard and reports inconsistencies: in the engine's own rows, in its
// machines' rows, and between rows and memory. No entry may be applied in the meantime. It returns
// the number of rows. Errors: ctx's error, and those of Pebble.
func (x *Executor) Verify(ctx context.Context, report func(problem string)) (rows int64, err error) {
	a := &Audit{View: View{x: x, now: func() int64 { return x.applied.Stamp }, scan: scan{fault: x.checks.fault}}, ctx: ctx}
	a.report = func(problem string) { report(fmt.Sprintf("shard %d: %s", x.shard, problem)) }
	a.Freeze()
	defer a.release()
	if a.Applied, err = readApplied(a.reader(), x.shard); err != nil {
		a.Reportf("%v", err)
		a.Applied = x.applied
	}
	if a.Applied != x.applied {
		a.Reportf("the state is at %+v, memory at %+v", a.Applied, x.applied)
	}
	if rows, err = a.verifyRows(); err != nil {
		return rows, err
	}
	for _, check := range []func() error{a.verifyCache, a.verifyFresh} {
		if err := check(); err != nil {
			return rows, fmt.Errorf("shard %d: %w", x.shard, err)
		}
	}
	for id, m := range x.machines {
		if v, ok := m.(Verifier); ok {
			a.machine = MachineID(id)
			if err := v.Verify(a); err != nil {
				return rows, fmt.Errorf("shard %d: machine %d (%s): %w", x.shard, id, x.table.byID[id].Name, err)
			}
		}
	}
	return rows, nil
}

// Reportf reports a problem.
func (a *Audit) Reportf(format string, args ...any) { a.report(fmt.Sprintf(format, args...)) }

// Names returns the names of the shard's namespaces by number, "" for one whose row cannot be read.
func (a *Audit) Names() []string {
	names := make([]string, len(a.namespaces))
	for i, ns := range a.namespaces {
		if ns != nil {
			names[i] = ns.name
		}
	}
	return names
}

// Counted returns a counter of the machine for a namespace, as stored in its row. known is false if
// the row cannot be read.
func (a *Audit) Counted(id uint32, c Counter) (n int64, known bool) {
	if int(id) >= len(a.namespaces) || a.namespaces[id] == nil {
		return 0, false
	}
	return a.namespaces[id].counts[a.x.table.base[a.machine]+int(c)], true
}

// Scan calls f for the machine's rows with lower <= key < upper, in order; upper nil means no upper
// bound. The slices are valid during the call.
func (a *Audit) Scan(lower, upper []byte, f func(k, value []byte) error) error {
	hi := a.x.rowKey(nil, a.machine+1)
	if upper != nil {
		hi = append(a.x.rowKey(nil, a.machine), upper...)
	}
	lo := append(a.x.rowKey(nil, a.machine), lower...)
	return a.scan(lo, hi, func(k, value []byte) error { return f(k[rowPrefix:], value) })
}

// UnknownRows reports the machine's rows that are of none of its kinds, which are in ascending
// order.
func (a *Audit) UnknownRows(machine, kinds string) error {
	lower := []byte(nil)
	for i := 0; i <= len(kinds); i++ {
		var upper []byte
		if i < len(kinds) {
			upper = []byte{kinds[i]}
		}
		if err := a.Scan(lower, upper, func(k, _ []byte) error {
			a.Reportf("%s: row %x is of an unknown kind", machine, k)
			return nil
		}); err != nil {
			return err
		}
		if i < len(kinds) {
			lower = []byte{kinds[i] + 1}
		}
	}
	return nil
}

// Tick checks the context occasionally and returns its error. Loops over rows that do not use Scan
// call it for each row.
func (a *Audit) Tick() error {
	const every = 1024
	if a.scanned++; a.scanned%every != 0 {
		return a.fails()
	}
	return a.ctx.Err()
}

func (a *Audit) scan(lower, upper []byte, f func(k, value []byte) error) error {
	it, err := a.reader().NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			err = f(it.Key(), value)
		}
		if err == nil {
			err = a.Tick()
		}
	}
	if closeErr := it.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("read state: %w", closeErr)
	}
	return err
}

// HasTimer reports whether the machine has a timer with the due time, namespace and token.
func (a *Audit) HasTimer(due int64, ns uint32, token []byte) (bool, error) {
	if err := a.fails(); err != nil {
		return false, err
	}
	_, ok, err := a.getRow(timerRow(a.rowKey(machineEngine), timer{due, a.machine, ns, token}))
	return ok, err
}

// Timers calls f for every timer of the machine, in order of due time. The token is valid during
// the call.
func (a *Audit) Timers(f func(due int64, ns uint32, token []byte) error) error {
	lower := append(a.x.rowKey(nil, machineEngine), 't')
	upper := append(a.x.rowKey(nil, machineEngine), 't'+1)
	return a.scan(lower, upper, func(k, _ []byte) error {
		t, err := parseTimer(k[rowPrefix:])
		if err != nil || t.machine != a.machine {
			return nil // reported with the engine's rows, or not ours
		}
		return f(t.due, t.ns, t.token)
	})
}

// verifyRows reads every row of the shard once. It checks the engine's own rows in full, and only
// the owner of the others.
func (a *Audit) verifyRows() (rows int64, err error) {
	own := &ownRows{Audit: a, lanes: make(map[lane]backlog), firstDue: NoTimer}
	foreign := make(map[MachineID]int)
	lower, _ := Bounds(a.x.shard)
	upper := append(bytes.Clone(lower), bytes.Repeat([]byte{0xff}, rowPrefix)...)
	err = a.scan(lower, upper, func(k, value []byte) error {
		rows++
		switch id, short := machineOf(k); {
		case short:
			a.Reportf("row %x is too short", k)
		case id == machineEngine:
			own.row(k[rowPrefix:], value)
		case a.x.machine(id) == nil:
			foreign[id]++
		}
		return nil
	})
	if err != nil {
		return rows, fmt.Errorf("shard %d: %w", a.x.shard, err)
	}
	for id := range MachineID(maxMachines) {
		if foreign[id] > 0 {
			a.Reportf("%d rows of machine %d, which is unknown to this program", foreign[id], id)
			delete(foreign, id)
		}
	}
	for id, n := range foreign {
		a.Reportf("%d rows of machine %d, which cannot exist", n, id)
	}
	own.end(rows)
	return rows, nil
}

func machineOf(k []byte) (id MachineID, short bool) {
	if len(k) <= rowPrefix {
		return 0, true
	}
	return MachineID(k[rowPrefix-1]), false
}

// ownRows checks the engine's own rows. They come in order of kind, namespaces before the rows that
// name them.
type ownRows struct {
	*Audit
	applied  bool
	names    map[string]uint32
	lanes    map[lane]backlog
	last     lane   // of the last message
	index    uint64 // raft index of the last message
	firstDue int64
}

func (o *ownRows) row(k, value []byte) {
	switch {
	case k[0] == 'a' && len(k) == 1:
		o.applied = true // decoded before all others
	case k[0] == 'n' && len(k) == 5:
		o.namespace(binary.BigEndian.Uint32(k[1:]), value)
	case k[0] == 'o' && len(k) == outboxRowBytes:
		o.message(k, value)
	case k[0] == 's' && len(k) == 3:
		o.received(ShardID(binary.BigEndian.Uint16(k[1:])), value)
	case k[0] == 't' && len(k) >= 14:
		o.timer(k, value)
	default:
		o.Reportf("row %x is of an unknown kind", k)
	}
}

func (o *ownRows) namespace(id uint32, value []byte) {
	if id >= MaxNamespaces {
		o.Reportf("namespace %d: numbers end at %d", id, MaxNamespaces-1)
		return
	}
	if missing := int(id) - len(o.namespaces); missing > 0 {
		o.Reportf("%d namespaces before number %d have no row", missing, id)
		o.namespaces = append(o.namespaces, make([]*namespace, missing)...)
	}
	ns, err := o.x.table.decodeNamespace(value)
	o.namespaces = append(o.namespaces, ns)
	if err != nil {
		o.Reportf("namespace %d: %v", id, err)
		return
	}
	ns.id = id
	if err := CheckName("namespace", ns.name); err != nil {
		o.Reportf("namespace %d: %v", id, err)
	}
	if home := HomeShard(ns.name, o.x.shards); !ns.spread && home != o.x.shard {
		o.Reportf("namespace %d, %q, belongs to shard %d", id, ns.name, home)
	}
	if ns.createdAt > o.Applied.Stamp {
		o.Reportf("namespace %d, %q, was created at %d, but the state ends at %d", id, ns.name, ns.createdAt, o.Applied.Stamp)
	}
	for c, n := range ns.counts {
		if n < 0 {
			o.Reportf("namespace %d, %q: %s is %d", id, ns.name, o.x.table.counterName(c), n)
		}
	}
	o.compare(ns)
}

// compare compares a namespace's row with what the executor has in memory.
func (o *ownRows) compare(ns *namespace) {
	if o.names == nil {
		o.names = make(map[string]uint32)
	}
	if other, twice := o.names[ns.name]; twice {
		o.Reportf("namespaces %d and %d are both %q", other, ns.id, ns.name)
	}
	o.names[ns.name] = ns.id
	known := o.x.dir.get(ns.id)
	if known == nil || known.name != ns.name || known.spread != ns.spread || known.createdAt != ns.createdAt ||
		!slices.Equal(known.counts, ns.counts) {
		o.Reportf("namespace %d, %q: memory differs from the row", ns.id, ns.name)
	}
}

func (o *ownRows) message(k, value []byte) {
	l, number, err := parseOutboxRow(k)
	b := o.lanes[l]
	if b.count == 0 {
		b.first = number
	}
	o.lanes[l] = backlog{b.first, b.count + 1, b.bytes + int64(len(value))}
	m, storedErr := decodeStored(value)
	cmd, commandErr := DecodeCommand(m.command)
	if err = cmp.Or(err, storedErr, commandErr); err == nil {
		err = cmp.Or(o.x.table.sent(cmd, FromShards), CheckName("namespace", cmd.Namespace))
	}
	target := l.target
	switch {
	case err != nil:
		o.Reportf("message %d for shard %d: %v", number, target, err)
	case int(target) >= o.x.shards:
		o.Reportf("message %d for shard %d: there are %d shards", number, target, o.x.shards)
	case !cmd.Spread && HomeShard(cmd.Namespace, o.x.shards) != target:
		o.Reportf("message %d for shard %d: its namespace %q is in shard %d", number, target, cmd.Namespace,
			HomeShard(cmd.Namespace, o.x.shards))
	case o.x.machine(l.machine) == nil || int(l.ns) >= len(o.namespaces):
		o.Reportf("message %d for shard %d: it comes from machine %d, namespace %d", number, target, l.machine, l.ns)
	case number == 0 || number > o.Applied.LSN:
		o.Reportf("message %d for shard %d: the shard's last LSN is %d", number, target, o.Applied.LSN)
	case m.index == 0 || m.index > o.Applied.Index:
		o.Reportf("message %d for shard %d: was sent by entry %d, the last one is %d", number, target, m.index, o.Applied.Index)
	case o.last == l && m.index < o.index:
		o.Reportf("message %d for shard %d: was sent by entry %d, the one before by entry %d", number, target, m.index, o.index)
	}
	o.last, o.index = l, m.index
}

func (o *ownRows) received(sender ShardID, value []byte) {
	if _, err := decodeReceiptRow(value); err != nil {
		o.Reportf("row of deliveries of shard %d: %v", sender, err)
	}
	if int(sender) >= o.x.shards {
		o.Reportf("row of deliveries of shard %d: there are %d shards", sender, o.x.shards)
	}
}

func (o *ownRows) timer(k, value []byte) {
	t, err := parseTimer(k)
	switch {
	case err != nil:
		o.Reportf("%v", err)
	case o.x.machine(t.machine) == nil:
		o.Reportf("timer %x of machine %d, which is unknown to this program", k, t.machine)
	case int(t.ns) >= len(o.namespaces):
		o.Reportf("timer %x of namespace %d, but there are only %d", k, t.ns, len(o.namespaces))
	case len(value) > 0:
		o.Reportf("timer %x holds %d bytes", k, len(value))
	}
	o.firstDue = min(o.firstDue, t.due)
}

// end compares the indexes in memory with the rows.
func (o *ownRows) end(rows int64) {
	if !o.applied && rows > 0 {
		o.Reportf("the state has no row with its applied position")
	}
	if memory := len(o.x.dir.byID); memory != len(o.namespaces) {
		o.Reportf("%d namespaces have rows, memory has %d", len(o.namespaces), memory)
	}
	if next := o.x.timers.next; next > o.firstDue || o.x.NextDue() != next {
		o.Reportf("the first timer is due at %d, memory waits until %d, and its leader until %d", o.firstDue, next, o.x.NextDue())
	}
	o.compareOutbox()
}

// compareOutbox compares the waiting messages with the index in memory. A lane may begin before its
// first message.
func (o *ownRows) compareOutbox() {
	known := o.x.outbox.lanes
	if len(known) != len(o.lanes) {
		o.Reportf("messages wait in %d lanes, memory has %d", len(o.lanes), len(known))
	}
	for l, b := range o.lanes {
		if k := known[l]; k.first > b.first || k.count != b.count || k.bytes != b.bytes {
			o.Reportf("in lane %+v %+v waits, in memory %+v", l, b, k)
		}
	}
}

// VerifyPairs reports where one shard has received messages of another that the other has not sent.
// It takes all shards of a node with complete state, in order.
func VerifyPairs(all []*Executor, report func(problem string)) error {
	for _, receiver := range all {
		for _, sender := range all {
			row, ok, err := getRow(receiver.committed.db, receiptRow(receiver.rowKey(nil, machineEngine), sender.shard))
			if err != nil {
				return err
			}
			r, err := decodeReceiptRow(row)
			if !ok || err != nil {
				continue // reported with the rows of the receiver
			}
			for _, o := range r.outcomes {
				if o.upTo > sender.applied.LSN {
					report(fmt.Sprintf("shard %d: has received message %d of shard %d, whose last LSN is %d", receiver.shard, o.upTo,
						sender.shard, sender.applied.LSN))
				}
			}
		}
	}
	return nil
}
