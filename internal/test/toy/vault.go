package toy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// The second machine: vaults, which are filled from counters in other shards and emptied by a duty.
// It uses the features that the first one does not: follow-ups, replies, lanes, temporary and
// definite refusals, and duties. An amount taken from a counter is in a shipment until the vault
// has accepted or refused it.

// The kinds of commands for vaults.
const (
	Ship uint8 = iota + 1 // takes Delta from the counter Name and sends it to the vault Target
	// sent by Ship: ErrBusy if the vault is too full, ErrConflict if it is closed or its counter
	// cannot pay the fee
	Store
	Turn    // closes the vault Name if Delta is 1, opens it if it is 0
	Release // sends Empty to the vault Target, from the shard of the counter Name
	Empty   // sent by Release: empties a vault into its counter
	Sweep   // proposed by the duty: empties a vault that is known to hold Delta, in the term Delay
)

// VaultCapacity is the capacity of a vault.
const VaultCapacity = 200

// Fee is the amount that the counter of a vault pays for a deposit.
const Fee = 1

// sweepAfter is how long a vault keeps its contents, ms.
const sweepAfter = 50

// Locked reports whether the duty skips a vault.
func Locked(vault string) bool { return strings.HasPrefix(vault, "{lock") }

const (
	countVaults engine.Counter = iota
	countShipments
)

// VaultPrimitive returns the primitive that provides vaults, for use beside Primitive.
func VaultPrimitive() engine.Primitive {
	return engine.Primitive{
		ID: engine.MachineTest2, Name: "vault", New: func() engine.Machine { return vaults{} },
		Commands: []engine.CommandType{
			{Kind: Ship, Name: "ship", From: engine.FromUsers, Admit: admit},
			{Kind: Store, Name: "store", From: engine.FromShards},
			{Kind: Turn, Name: "turn", From: engine.FromUsers, Admit: admit},
			{Kind: Release, Name: "release", From: engine.FromUsers, Admit: admit},
			{Kind: Empty, Name: "empty", From: engine.FromShards},
			{Kind: Sweep, Name: "sweep", From: engine.FromLeaders},
		},
		Queries: []engine.QueryType{engine.QueryRow(queryVaults, "vaults", vaults.sum)},
		Counters: []engine.CounterType{
			{Counter: countVaults, Name: "vaults", Field: func(c *engine.Counts) *int64 { return &c.Actions }},
			{Counter: countShipments, Name: "shipments", Field: func(c *engine.Counts) *int64 { return &c.Jobs }},
		},
	}
}

// ToVaults returns the command for the vaults machine.
func (c Command) ToVaults(ns string) engine.Command {
	cmd := c.In(ns)
	cmd.Machine = engine.MachineTest2
	return cmd
}

type vaults struct{}

func (vaults) Restore(*engine.View) error    { return nil }
func (vaults) OnTimer(*engine.Tx, []byte)    { panic("vault: a timer") }
func (vaults) Duties() []engine.Duty         { return []engine.Duty{{Name: "sweep", Run: sweep}} }
func deposits() engine.Topic                 { return engine.TopicOf(engine.MachineTest2, "", []byte("deposits")) }
func vaultRow(ns uint32, name string) []byte { return append(rowOf('v', ns), name...) }
func rowOf(kind byte, ns uint32) []byte      { return binary.BigEndian.AppendUint32([]byte{kind}, ns) }
func shipmentRow(ns uint32, id uint64) []byte {
	return binary.BigEndian.AppendUint64(rowOf('t', ns), id)
}

// vault is a row. An emptied vault has a row only while it is closed.
type vault struct {
	held   int64
	since  int64 // ms, of the oldest content
	closed bool
}

func readVault(b []byte) (v vault) {
	r := codec.NewReader(b)
	v = vault{r.Varint(), r.Varint(), r.Bool()}
	if err := r.Done(); err != nil {
		panic(err)
	}
	return v
}

func getVault(tx *engine.Tx, name string) (v vault, ok bool) {
	b, ok := tx.Get(vaultRow(tx.Namespace(), name))
	if ok {
		v = readVault(b)
	}
	return v, ok
}

func putVault(tx *engine.Tx, name string, v vault) {
	k := vaultRow(tx.Namespace(), name)
	_, was := tx.Get(k)
	is := v.held > 0 || v.closed
	switch {
	case is && !was:
		tx.Count(countVaults, 1)
	case was && !is:
		tx.Count(countVaults, -1)
		tx.Delete(k)
	}
	if is {
		tx.Set(k, codec.AppendBool(codec.AppendVarint(codec.AppendVarint(nil, v.held), v.since), v.closed))
	}
}

func (vaults) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	c, err := Decode(cmd)
	if err != nil {
		return nil, err
	}
	switch cmd.Kind {
	case Ship:
		ship(tx, c)
		return nil, nil
	case Store:
		return nil, store(tx, c)
	case Turn:
		v, _ := getVault(tx, c.Name)
		v.closed = c.Delta == 1
		putVault(tx, c.Name, v)
		return nil, nil
	case Release:
		tx.Send(engine.Message{Command: c.sent(tx, Empty), Name: c.Target, Lane: lane(c.Target) + 1})
		return nil, nil
	case Empty:
		v, _ := getVault(tx, c.Target)
		empty(tx, c.Target, v)
		return nil, nil
	}
	return nil, swept(tx, c)
}

// ship sends the shipment first and then takes it from the counter. If that is refused, nothing of
// the shipment remains.
func ship(tx *engine.Tx, c Command) {
	id := uint64(tx.LSN())
	tx.Insert(shipmentRow(tx.Namespace(), id), codec.AppendString(codec.AppendVarint(nil, c.Delta), c.Name))
	tx.Count(countShipments, 1)
	token := binary.BigEndian.AppendUint64(nil, id)
	tx.Send(engine.Message{Command: c.sent(tx, Store), Name: c.Target, Lane: lane(c.Target), Token: token, Reply: true})
	tx.Then(change(tx, c.Name, -c.Delta))
}

func (c Command) sent(tx *engine.Tx, kind uint8) engine.Command {
	cmd := Command{Kind: kind, Delta: c.Delta, Target: c.Target}.ToVaults(tx.NamespaceName())
	cmd.Spread = tx.Spread()
	return cmd
}

func change(tx *engine.Tx, counter string, delta int64) engine.Command {
	return Command{Kind: Add, Name: counter, Delta: delta}.In(tx.NamespaceName())
}

// lane returns the lane to a vault; the next number is the lane of the messages that empty it.
func lane(vault string) uint64 { return 2 * uint64(len(vault)+int(vault[len(vault)-2])) }

func store(tx *engine.Tx, c Command) error {
	v, _ := getVault(tx, c.Target)
	switch {
	case v.closed:
		return engine.Errorf(engine.ErrConflict, "vault %q is closed", c.Target)
	case v.held+c.Delta > VaultCapacity:
		return engine.Errorf(engine.ErrBusy, "vault %q holds %d, %d do not fit", c.Target, v.held, c.Delta)
	}
	if v.held == 0 {
		v.since = tx.Now()
	}
	v.held += c.Delta + Fee
	putVault(tx, c.Target, v)
	tx.Then(change(tx, c.Target, -Fee))
	tx.Notify(deposits(), -1)
	return nil
}

func empty(tx *engine.Tx, name string, v vault) {
	if v.held > 0 {
		tx.Then(change(tx, name, v.held))
	}
	v.held = 0
	putVault(tx, name, v)
}

// OnReply ends a shipment. It is called once.
func (vaults) OnReply(tx *engine.Tx, r engine.Reply) {
	if len(r.Token) == 0 {
		panic(fmt.Sprintf("vault: Empty was refused: %v", r.Err))
	}
	id := binary.BigEndian.Uint64(r.Token)
	b, ok := tx.Get(shipmentRow(tx.Namespace(), id))
	if !ok {
		panic(fmt.Sprintf("vault: told of shipment %d, which has ended: %v", id, r.Err))
	}
	delta, from := readShipment(b)
	tx.Delete(shipmentRow(tx.Namespace(), id))
	tx.Count(countShipments, -1)
	if r.Err != nil {
		tx.Then(change(tx, from, delta))
	}
}

func readShipment(b []byte) (delta int64, from string) {
	r := codec.NewReader(b)
	delta, from = r.Varint(), r.String()
	if err := r.Done(); err != nil {
		panic(err)
	}
	return delta, from
}

// sweep is the duty: it empties vaults some time after a deposit.
func sweep(ctx context.Context, lead *engine.Lead) error {
	for {
		var found Command
		var ns string
		err := lead.View(ctx, func(v *engine.View) (err error) {
			found, ns, err = sweepable(v)
			return err
		})
		if err != nil {
			return err
		}
		found.Delay = int64(lead.Term())
		cmd := found.ToVaults(ns)
		cmd.Spread = true
		if _, err := lead.Propose(ctx, cmd); err != nil && !errors.Is(err, engine.ErrConflict) {
			return err
		}
	}
}

// sweepable returns the command that sweeps a vault of VaultNamespace, which is spread.
func sweepable(v *engine.View) (c Command, ns string, err error) {
	if err := v.WaitOn(deposits()); err != nil {
		return c, "", err
	}
	id, ok := v.Namespace(VaultNamespace)
	if !ok {
		return c, "", engine.ErrWait // no deposit without it
	}
	it, err := v.Iter(rowOf('v', id), rowOf('v', id+1))
	if err != nil {
		return c, "", err
	}
	for ok := it.First(); ok; ok = it.Next() {
		name, held := string(it.Key()[5:]), readVault(it.Value())
		switch {
		case held.held == 0 || Locked(name):
		case held.since+sweepAfter > v.Now():
			v.WakeAt(held.since + sweepAfter)
		default:
			return Command{Kind: Sweep, Name: name, Delta: held.held}, VaultNamespace, it.Close()
		}
	}
	if err := it.Close(); err != nil {
		return c, "", err
	}
	return c, "", engine.ErrWait
}

// VaultNamespace is the only namespace whose vaults are swept.
const VaultNamespace = "toys"

// swept empties a vault if nothing in it has changed since the duty read it.
func swept(tx *engine.Tx, c Command) error {
	if uint64(c.Delay) != tx.Term() {
		panic(fmt.Sprintf("vault: a duty of term %d in term %d", c.Delay, tx.Term()))
	}
	v, _ := getVault(tx, c.Name)
	if v.held != c.Delta || v.held == 0 {
		return engine.Errorf(engine.ErrConflict, "vault %q holds %d, not %d", c.Name, v.held, c.Delta)
	}
	empty(tx, c.Name, v)
	return nil
}

// Vaults sums the contents of the vaults of a namespace in a shard, and the shipments to other
// shards.
type Vaults struct {
	Namespace string

	Held, Vaults, Shipped, Shipments int64 // results
}

const queryVaults uint8 = 1

// Machine returns engine.MachineTest2.
func (*Vaults) Machine() engine.MachineID { return engine.MachineTest2 }

// Kind distinguishes the query from others.
func (*Vaults) Kind() uint8 { return queryVaults }

// Arguments codes the arguments of the query.
func (q *Vaults) Arguments(f *codec.Fields) {
	f.Namespace(&q.Namespace)
}

// Results codes the results.
func (q *Vaults) Results(f *codec.Fields) {
	f.Varint("held", &q.Held)
	f.Varint("vaults", &q.Vaults)
	f.Varint("shipped", &q.Shipped)
	f.Varint("shipments", &q.Shipments)
}

func (vaults) sum(v *engine.View, sum *Vaults) error {
	ns, ok := v.Namespace(sum.Namespace)
	if !ok {
		return nil
	}
	v.Freeze()
	each := func(kind byte, f func(value []byte)) error {
		it, err := v.Iter(rowOf(kind, ns), rowOf(kind, ns+1))
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			f(it.Value())
		}
		return it.Close()
	}
	return errors.Join(
		each('v', func(b []byte) { sum.Held, sum.Vaults = sum.Held+readVault(b).held, sum.Vaults+1 }),
		each('t', func(b []byte) {
			delta, _ := readShipment(b)
			sum.Shipped, sum.Shipments = sum.Shipped+delta, sum.Shipments+1
		}))
}
