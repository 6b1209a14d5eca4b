package toy

import (
	"encoding/binary"
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// The kinds of commands.
const (
	Add   uint8 = iota + 1 // changes the counter Name by Delta; refused if it would go below zero
	Later                  // adds Delta to Name after Delay
	Send                   // takes Delta from Name and sends it to Target, in any shard
	Panic                  // panics
	Clear                  // removes the counters from Name to Target, Target excluded
)

// machine holds named counters.
type machine struct{}

func (machine) Restore(*engine.View) error { return nil }

// Command is a command of the machine.
type Command struct {
	Kind   uint8
	Name   string
	Delta  int64
	Delay  int64 // ms
	Target string
}

// In returns the command for a namespace.
func (c Command) In(ns string) engine.Command {
	b := codec.AppendString(nil, c.Name)
	b = codec.AppendVarint(b, c.Delta)
	b = codec.AppendVarint(b, c.Delay)
	b = codec.AppendString(b, c.Target)
	return engine.Command{Machine: engine.MachineTest, Kind: c.Kind, Namespace: ns, Body: b}
}

// Op returns the command as an operation of a transaction; its value in the result is the counter.
func (c Command) Op() engine.Op {
	return engine.Op{Command: c.In(""), Route: c.Name, Decode: func(b []byte) (any, error) {
		r := codec.NewReader(b)
		v := r.Varint()
		return v, r.Done()
	}}
}

// Decode is the inverse of Command.In.
func Decode(cmd engine.Command) (Command, error) {
	r := codec.NewReader(cmd.Body)
	c := Command{Kind: cmd.Kind, Name: r.String(), Delta: r.Varint(), Delay: r.Varint(), Target: r.String()}
	if err := r.Done(); err != nil {
		return Command{}, engine.Errorf(engine.ErrMalformed, "toy: %v", err)
	}
	return c, nil
}

func (machine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	c, err := Decode(cmd)
	if err != nil {
		return nil, err
	}
	switch cmd.Kind {
	case Add:
		return add(tx, c.Name, c.Delta)
	case Later:
		token := codec.AppendVarint(codec.AppendString(nil, c.Name), c.Delta)
		tx.Schedule(tx.Now()+c.Delay, codec.AppendUvarint(token, uint64(tx.LSN())))
		return nil, nil
	case Send:
		if _, err := add(tx, c.Name, -c.Delta); err != nil {
			return nil, err
		}
		credit := Command{Kind: Add, Name: c.Target, Delta: c.Delta}.In(tx.NamespaceName())
		credit.Spread = tx.Spread()
		tx.Send(engine.Message{Command: credit, Name: c.Target})
		return nil, nil
	case Clear:
		tx.DeleteRange(row(tx.Namespace(), c.Name), row(tx.Namespace(), c.Target))
		return nil, nil
	}
	panic("toy: told to panic")
}

func add(tx *engine.Tx, name string, delta int64) ([]byte, error) {
	k := row(tx.Namespace(), name)
	var v int64
	if b, ok := tx.Get(k); ok {
		v = int64(binary.BigEndian.Uint64(b))
	} else {
		tx.Count(countCounters, 1)
	}
	if v += delta; v < 0 {
		return nil, engine.Errorf(engine.ErrConflict, "toy: counter %q would be %d", name, v)
	}
	tx.Set(k, binary.BigEndian.AppendUint64(nil, uint64(v)))
	tx.Notify(engine.TopicOf(engine.MachineTest, tx.NamespaceName(), []byte(name)), -1)
	return codec.AppendVarint(nil, v), nil
}

func row(ns uint32, name string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, ns), name...)
}

// OnReply must not be called, because Send's messages are never refused.
func (machine) OnReply(_ *engine.Tx, r engine.Reply) { panic(fmt.Sprintf("toy: reply %+v", r)) }

func (machine) OnTimer(tx *engine.Tx, token []byte) {
	r := codec.NewReader(token)
	name, delta := r.String(), r.Varint()
	if _, err := add(tx, name, delta); err != nil {
		panic(err)
	}
}

// Counter queries the value of a counter, waiting until it is at least Min.
type Counter struct {
	Namespace string
	Name      string
	Min       int64

	Value int64 // result
}

// Machine returns engine.MachineTest.
func (*Counter) Machine() engine.MachineID { return engine.MachineTest }

// Sum adds up all counters of a namespace in a shard.
type Sum struct {
	Namespace string

	Sum, Count int64 // results
}

// Machine returns engine.MachineTest.
func (*Sum) Machine() engine.MachineID { return engine.MachineTest }

func (machine) counter(v *engine.View, q *Counter) error {
	if q.Min > 0 {
		if err := v.WaitOn(engine.TopicOf(engine.MachineTest, q.Namespace, []byte(q.Name))); err != nil {
			return err
		}
	}
	if ns, ok := v.Namespace(q.Namespace); ok {
		b, ok, err := v.Get(row(ns, q.Name))
		if err != nil {
			return err
		}
		if ok {
			q.Value = int64(binary.BigEndian.Uint64(b))
		}
	}
	if q.Value < q.Min {
		return engine.ErrWait
	}
	return nil
}

func (machine) sum(v *engine.View, q *Sum) error {
	ns, ok := v.Namespace(q.Namespace)
	if !ok {
		return nil
	}
	it, err := v.Iter(row(ns, ""), row(ns+1, ""))
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		q.Sum += int64(binary.BigEndian.Uint64(it.Value()))
		q.Count++
	}
	return it.Close()
}
