package shard

import (
	"encoding/binary"
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// toy is a machine of named counters that uses every ability of the engine: rows, counts, timers, the outbox, topics.
//
//	add    name, delta: changes a counter, refuses to go below zero
//	later  name, delta, delay ms: adds delta after a delay
//	send   name, delta, target name: takes delta from one counter and sends it to another, in whatever shard that is
type toy struct{}

const (
	toyAdd uint8 = iota + 1
	toyLater
	toySend
	toyPanic
)

func newToy() engine.Machine { return toy{} }

func (toy) ID() engine.MachineID       { return engine.MachineTest }
func (toy) Kinds() uint8               { return toyPanic }
func (toy) Restore(*engine.View) error { return nil }

type toyCommand struct {
	kind   uint8
	name   string
	delta  int64
	delay  int64
	target string
}

func (c toyCommand) command(ns string) engine.Command {
	b := codec.AppendString(nil, c.name)
	b = codec.AppendVarint(b, c.delta)
	b = codec.AppendVarint(b, c.delay)
	b = codec.AppendString(b, c.target)
	return engine.Command{Machine: engine.MachineTest, Kind: c.kind, Namespace: ns, Body: b}
}

func (toy) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	r := codec.NewReader(cmd.Body)
	c := toyCommand{kind: cmd.Kind, name: r.String(), delta: r.Varint(), delay: r.Varint(), target: r.String()}
	if err := r.Done(); err != nil {
		return nil, engine.Errorf(engine.ErrInvalid, "toy: %v", err)
	}
	switch cmd.Kind {
	case toyAdd:
		return add(tx, c.name, c.delta)
	case toyLater:
		token := codec.AppendVarint(codec.AppendString(nil, c.name), c.delta)
		tx.Schedule(tx.Now()+c.delay, codec.AppendUvarint(token, uint64(tx.LSN())))
		return nil, nil
	case toySend:
		if _, err := add(tx, c.name, -c.delta); err != nil {
			return nil, err
		}
		credit := toyCommand{kind: toyAdd, name: c.target, delta: c.delta}.command(tx.NamespaceName())
		credit.Spread = tx.Spread()
		tx.Send(credit, c.target)
		return nil, nil
	}
	panic("toy: told to panic")
}

func add(tx *engine.Tx, name string, delta int64) ([]byte, error) {
	k := toyKey(tx.Namespace(), name)
	var v int64
	if b, ok := tx.Get(k); ok {
		v = int64(binary.BigEndian.Uint64(b))
	} else {
		tx.Count(engine.CountKeys, 1)
	}
	if v += delta; v < 0 {
		return nil, engine.Errorf(engine.ErrConflict, "toy: counter %q would be %d", name, v)
	}
	tx.Set(k, binary.BigEndian.AppendUint64(nil, uint64(v)))
	tx.Notify(engine.TopicOf(engine.MachineTest, tx.NamespaceName(), []byte(name)), -1)
	return codec.AppendVarint(nil, v), nil
}

func toyKey(ns uint32, name string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, ns), name...)
}

func (toy) OnTimer(tx *engine.Tx, token []byte) {
	r := codec.NewReader(token)
	name, delta := r.String(), r.Varint()
	if _, err := add(tx, name, delta); err != nil {
		panic(err)
	}
}

// toyQuery waits until a counter is at least min.
type toyQuery struct {
	namespace string
	name      string
	min       int64

	value int64
}

func (*toyQuery) Machine() engine.MachineID { return engine.MachineTest }

// toySum adds up all counters of a namespace in a shard.
type toySum struct {
	namespace string

	sum, count int64
}

func (*toySum) Machine() engine.MachineID { return engine.MachineTest }

func (toy) Query(v *engine.View, q engine.Query) error {
	switch q := q.(type) {
	case *toyQuery:
		if q.min > 0 {
			if err := v.WaitOn(engine.TopicOf(engine.MachineTest, q.namespace, []byte(q.name))); err != nil {
				return err
			}
		}
		if ns, ok := v.Namespace(q.namespace); ok {
			b, ok, err := v.Get(toyKey(ns, q.name))
			if err != nil {
				return err
			}
			if ok {
				q.value = int64(binary.BigEndian.Uint64(b))
			}
		}
		if q.value < q.min {
			return engine.ErrWait
		}
		return nil
	case *toySum:
		ns, ok := v.Namespace(q.namespace)
		if !ok {
			return nil
		}
		it, err := v.Iter(toyKey(ns, ""), toyKey(ns+1, ""))
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			q.sum += int64(binary.BigEndian.Uint64(it.Value()))
			q.count++
		}
		return it.Close()
	}
	return fmt.Errorf("toy: unknown query %T", q)
}
