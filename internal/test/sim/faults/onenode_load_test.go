package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/toy"
	"github.com/floedb/floe/internal/test/workload"
	"github.com/floedb/floe/kv"
)

// rigLoad executes random client acts and notes their effects in a ledger. It predicts every
// outcome.
type rigLoad struct {
	rng    *rand.Rand
	rig    *rig
	ledger *rigLedger
	clock  *rigClock
	faulty bool         // a call may fail without being refused
	onAck  func() error // called at every acknowledgement; may be nil

	number        int // number of acts so far: makes values unique
	acks, refused int
}

// wrongOutcome is an outcome that no fault explains.
type wrongOutcome struct{ what string }

func (e *wrongOutcome) Error() string { return e.what }

// setUp creates the spread namespaces, unless an earlier process of the node has.
func (w *rigLoad) setUp() error {
	for _, ns := range []string{nsWide, nsToys, nsVaults, nsProbe} {
		_, err := w.rig.Propose(context.Background(), engine.HomeShard(ns, rigShards), engine.CreateNamespace(ns, true))
		if err != nil && !errors.Is(err, engine.ErrExists) {
			return err
		}
	}
	return nil
}

// step executes one act, and sometimes lets time pass or delivers messages.
func (w *rigLoad) step() error {
	w.number++
	acts := []func() error{
		w.put, w.put, w.put, w.putIf, w.putIf, w.delete, w.incr, w.incr, w.touch, w.transaction, w.transaction, w.refusedTransaction,
		w.toyAdd, w.toyAdd, w.toySend, w.toySend, w.mixed, w.mixed, w.mixed, w.burst, w.payIn, w.payIn, w.vault, w.vault, w.vault,
	}
	if err := acts[w.rng.IntN(len(acts))](); err != nil {
		return err
	}
	switch w.rng.IntN(8) {
	case 0:
		w.clock.ms += w.rng.Int64N(400)
	case 1:
		return w.rig.settle()
	}
	return nil
}

// do carries out the issued act in a shard. refusal is the predicted outcome, nil for success. run
// returns the assigned revision, 0 if unknown.
func (w *rigLoad) do(id engine.ShardID, refusal error, run func() (uint64, error)) error {
	s := &w.ledger.shards[id]
	before := int(s.issued.Load())
	w.ledger.issued()
	revision, err := run()
	switch {
	case err == nil && refusal == nil:
		return w.ack(id, revision)
	case errors.Is(err, engine.ErrUnknownOutcome), w.faulty && errors.Is(err, errParked):
		return err
	case refusal != nil && errors.Is(err, refusal):
		w.refused++
		return nil
	case err != nil && w.faulty:
		for _, a := range s.acts[before:] {
			a.void = true
		}
		return err
	}
	return &wrongOutcome{fmt.Sprintf("act %d: outcome %v, want %v", w.number, err, refusal)}
}

func (w *rigLoad) ack(id engine.ShardID, revision uint64) error {
	w.ledger.acked(id)
	w.acks++
	if revision > 0 {
		if err := w.ledger.newRevision(id, revision); err != nil {
			return &wrongOutcome{err.Error()}
		}
	}
	if w.onAck != nil {
		return w.onAck()
	}
	return nil
}

// value returns a unique value.
func (w *rigLoad) value() string {
	return fmt.Sprintf("value %d %s", w.number, strings.Repeat("x", w.rng.IntN(300)))
}

// key chooses a namespace and a key for plain values.
func (w *rigLoad) key() (ns, key string) {
	if w.rng.IntN(3) == 0 {
		return nsSolo, "key " + strconv.Itoa(w.rng.IntN(10))
	}
	return nsWide, "key " + strconv.Itoa(w.rng.IntN(20))
}

func (w *rigLoad) now(name string) (rigVersion, bool) { return w.ledger.now(name, w.clock.ms) }

// write issues an act that sets a key to a new value.
func (w *rigLoad) write(name string, v rigVersion) engine.ShardID {
	id := rigShardOf(name)
	v.act = w.ledger.issue(id, "act %d: %s = %.20q", w.number, name, v.value)
	w.ledger.set(name, v)
	return id
}

func (w *rigLoad) put() error {
	ns, key := w.key()
	name, v := ns+"/"+key, rigVersion{value: w.value()}
	var opts []kv.PutOption
	if w.rng.IntN(5) == 0 {
		ttl := 1 + w.rng.Int64N(1500)
		v.expires = w.clock.ms + ttl
		opts = append(opts, kv.TTL(time.Duration(ttl)*time.Millisecond))
	}
	return w.do(w.write(name, v), nil, func() (uint64, error) { return w.putNow(ns, key, v.value, opts...) })
}

// putNow puts and notes the revision with the key's latest value.
func (w *rigLoad) putNow(ns, key, value string, opts ...kv.PutOption) (uint64, error) {
	written, err := w.rig.store(ns).Put(context.Background(), key, []byte(value), opts...)
	if err == nil {
		*w.ledger.revision(ns + "/" + key) = written.Revision
	}
	return written.Revision, err
}

// putIf puts on a condition that may or may not hold.
func (w *rigLoad) putIf() error {
	ns, key := w.key()
	name, value := ns+"/"+key, w.value()
	cur, exists := w.now(name)
	var holds bool
	var cond kv.PutOption
	switch w.rng.IntN(3) {
	case 0:
		holds, cond = !exists, kv.IfAbsent()
	case 1:
		holds, cond = exists && cur.revision != 0, kv.IfRevision(max(cur.revision, 1))
	default:
		holds, cond = false, kv.IfRevision(w.ledger.shards[rigShardOf(name)].highest.Load()+1000)
	}
	if !holds {
		return w.do(rigShardOf(name), kv.ErrConflict, func() (uint64, error) {
			_, err := w.rig.store(ns).Put(context.Background(), key, []byte(value), cond)
			return 0, err
		})
	}
	return w.do(w.write(name, rigVersion{value: value}), nil, func() (uint64, error) { return w.putNow(ns, key, value, cond) })
}

func (w *rigLoad) delete() error {
	ns, key := w.key()
	name := ns + "/" + key
	remove := func() (uint64, error) {
		written, err := w.rig.store(ns).Delete(context.Background(), key)
		return written.Revision, err
	}
	if _, exists := w.now(name); !exists {
		return w.do(rigShardOf(name), kv.ErrNotFound, remove)
	}
	return w.do(w.write(name, rigVersion{gone: true}), nil, remove)
}

func (w *rigLoad) incr() error {
	key, delta := "number "+strconv.Itoa(w.rng.IntN(4)), 1+w.rng.Int64N(1<<30)
	name := nsWide + "/" + key
	cur, exists := w.now(name)
	sum := delta
	if exists {
		sum += rigDecimal(cur.value)
	}
	if w.rng.IntN(6) == 0 {
		return w.do(rigShardOf(name), kv.ErrConflict, func() (uint64, error) {
			_, err := w.rig.store(nsWide).Incr(context.Background(), key, delta, kv.Max(sum-1))
			return 0, err
		})
	}
	return w.do(w.write(name, rigVersion{value: strconv.FormatInt(sum, 10)}), nil, func() (uint64, error) {
		got, err := w.rig.store(nsWide).Incr(context.Background(), key, delta)
		if err == nil && got.Value != sum {
			return 0, &wrongOutcome{fmt.Sprintf("act %d: Incr(%s, %d) = %d, want %d", w.number, key, delta, got.Value, sum)}
		}
		return 0, err
	})
}

// touch changes when a key expires, and a second key. The effects of an act must be visible at
// once; otherwise it would be unknown whether a crash has taken it back.
func (w *rigLoad) touch() error {
	key := "key " + strconv.Itoa(w.rng.IntN(10))
	name, mark, ttl := nsSolo+"/"+key, nsSolo+"/touched", 1+w.rng.Int64N(1500)
	v := rigVersion{value: w.value()}
	touch := func() (uint64, error) {
		_, err := engine.NewTxn(w.rig.router, nsSolo, math.MaxInt32).
			Do(kv.TouchOp(key, time.Duration(ttl)*time.Millisecond), kv.PutOp("touched", []byte(v.value))).Commit(context.Background())
		return 0, err
	}
	cur, exists := w.now(name)
	if !exists {
		return w.do(rigShardOf(name), kv.ErrNotFound, touch)
	}
	cur.expires = w.clock.ms + ttl
	id := w.write(name, cur)
	v.act = w.ledger.rows[name][len(w.ledger.rows[name])-1].act
	w.ledger.set(mark, v)
	return w.do(id, nil, touch)
}

// transaction changes two keys, a number and the other primitives of one tag, all or none.
func (w *rigLoad) transaction() error {
	tag := "{tag " + strconv.Itoa(w.rng.IntN(4)) + "}"
	a, b, n := nsWide+"/"+tag+"a", nsWide+"/"+tag+"b", nsWide+"/"+tag+"n"
	cur, exists := w.now(a)
	cond := kv.Absent(tag + "a")
	if exists {
		cond = kv.RevisionIs(tag+"a", cur.revision)
	}
	sum := int64(w.number)
	if v, ok := w.now(n); ok {
		sum += rigDecimal(v.value)
	}
	one := rigVersion{value: w.value()}
	id := w.write(a, one)
	act := w.ledger.shards[id].acts[len(w.ledger.shards[id].acts)-1]
	other := rigVersion{act: act, value: w.value() + " too"}
	w.ledger.set(b, other)
	w.ledger.set(n, rigVersion{act: act, value: strconv.FormatInt(sum, 10)})
	return w.do(id, nil, func() (uint64, error) {
		res, err := engine.NewTxn(w.rig.router, nsWide, math.MaxInt32).If(cond).
			Do(kv.PutOp(tag+"a", []byte(one.value)), kv.PutOp(tag+"b", []byte(other.value)), kv.IncrOp(tag+"n", int64(w.number))).
			Do(w.others(tag)...).
			Commit(context.Background())
		if err != nil {
			return 0, err
		}
		first, second := res.Values[0].(kv.Written).Revision, res.Values[1].(kv.Written).Revision
		*w.ledger.revision(a), *w.ledger.revision(b) = first, second
		return second, w.ledger.newRevision(id, first)
	})
}

// others returns operations of the other primitives, for the same transaction.
func (w *rigLoad) others(tag string) []engine.Operation {
	return workload.Tallied(w.rng, tag, func() []byte { return []byte(w.value()) })
}

// checkOthers compares, for each tag, the number of transactions that used the other primitives
// with the number of writes of its key.
func checkOthers(r *rig) error {
	for i := range 4 {
		tag := "{tag " + strconv.Itoa(i) + "}"
		e, err := r.store(nsWide).Get(context.Background(), tag+"a")
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return err
		}
		for _, tally := range workload.Tallies {
			n, err := tally.Count(context.Background(), r.router, nsWide, tag)
			if err != nil {
				return err
			}
			if uint64(n) != e.Version {
				return fmt.Errorf("%d transactions of %s have written its key, %d its %s", e.Version, tag, n, tally.Name)
			}
		}
	}
	return nil
}

// refusedTransaction fails with its last operation, so that the first must be rolled back.
func (w *rigLoad) refusedTransaction() error {
	tag := "{tag " + strconv.Itoa(w.rng.IntN(4)) + "}"
	return w.do(engine.NameShard(nsWide, tag, rigShards), kv.ErrNotFound, func() (uint64, error) {
		_, err := engine.NewTxn(w.rig.router, nsWide, math.MaxInt32).
			Do(w.others(tag)...).
			Do(kv.PutOp(tag+"a", []byte("refused")), kv.PutOp(tag+"new", []byte("refused")), kv.DeleteOp(tag+"never")).
			Commit(context.Background())
		return 0, err
	})
}

func (w *rigLoad) toy(c toy.Command, refusal error, id engine.ShardID) error {
	cmd := c.In(nsToys)
	cmd.Spread = true
	return w.do(id, refusal, func() (uint64, error) {
		_, err := w.rig.Propose(context.Background(), id, cmd)
		return 0, err
	})
}

// purse chooses a counter that receives payments and pays others.
func (w *rigLoad) purse() (name string, id engine.ShardID) {
	name = "{from " + strconv.Itoa(w.rng.IntN(4)) + "}"
	return name, engine.NameShard(nsToys, name, rigShards)
}

func (w *rigLoad) toyAdd() error {
	name, id := w.purse()
	delta := 1 + w.rng.Int64N(1<<30)
	a := w.ledger.issue(id, "act %d: add %d to %s", w.number, delta, name)
	w.ledger.credit(name, rigEntry{act: a, delta: delta})
	return w.toy(toy.Command{Kind: toy.Add, Name: name, Delta: delta}, nil, id)
}

func (w *rigLoad) balance(name string) int64 {
	return w.ledger.counter(name, [rigShards]int{1 << 62, 1 << 62, 1 << 62}, w.clock.ms)
}

func (w *rigLoad) toySend() error {
	name, id := w.purse()
	c := toy.Command{Kind: toy.Send, Name: name, Target: "to:" + strconv.Itoa(w.rng.IntN(4)), Delta: 1 + w.rng.Int64N(1<<28)}
	if have := w.balance(name); have < c.Delta {
		c.Delta = have + 1
		return w.toy(c, engine.ErrConflict, id)
	}
	a := w.ledger.issue(id, "act %d: send %d from %s to %s", w.number, c.Delta, name, c.Target)
	w.ledger.credit(name, rigEntry{act: a, delta: -c.Delta})
	w.ledger.credit(c.Target, rigEntry{act: a, delta: c.Delta})
	return w.toy(c, nil, id)
}

// mixed is a transaction of two machines: it pays in, sends some of that on, sets a timer and puts
// a key.
func (w *rigLoad) mixed() error {
	name, id := w.purse()
	pay, part, delay := 2+w.rng.Int64N(1<<30), int64(1), 1+w.rng.Int64N(2000)
	target, late, row := "to:"+strconv.Itoa(w.rng.IntN(4)), name+"late", nsToys+"/"+name+"row"
	v := rigVersion{value: w.value()}
	w.write(row, v)
	acts := w.ledger.shards[id].acts
	a := acts[len(acts)-1]
	w.ledger.credit(name, rigEntry{act: a, delta: pay - part})
	w.ledger.credit(target, rigEntry{act: a, delta: part})
	w.ledger.credit(late, rigEntry{act: a, delta: pay, due: w.clock.ms + delay})
	return w.do(id, nil, func() (uint64, error) {
		_, err := engine.NewTxn(w.rig.router, nsToys, math.MaxInt32).Do(
			toy.Command{Kind: toy.Add, Name: name, Delta: pay}.Op(),
			rigQuiet(toy.Command{Kind: toy.Send, Name: name, Target: target, Delta: part}.Op()),
			rigQuiet(toy.Command{Kind: toy.Later, Name: late, Delta: pay, Delay: delay}.Op()),
			kv.PutOp(name+"row", []byte(v.value)),
		).Commit(context.Background())
		return 0, err
	})
}

// rigQuiet returns an operation whose result is empty.
func rigQuiet(op engine.Op) engine.Op {
	op.Decode = nil
	return op
}

// burst proposes several commands to each shard at once: they share entries and writes of the log.
func (w *rigLoad) burst() error {
	type command struct {
		id     engine.ShardID
		ticket *shard.Ticket
	}
	var open []command
	var before [rigShards]int
	for i := range before {
		before[i] = len(w.ledger.shards[i].acts)
	}
	for range 6 {
		w.number++
		key := "burst " + strconv.Itoa(w.number%12)
		v := rigVersion{value: w.value()}
		id := w.write(nsWide+"/"+key, v)
		cmd := engine.OpOf(kv.PutOp(key, []byte(v.value))).Command
		cmd.Namespace, cmd.Spread = nsWide, true
		w.ledger.issued()
		ticket, err := w.rig.stepper.Submit(id, cmd)
		if err != nil {
			return err
		}
		open = append(open, command{id, ticket})
	}
	var outcomes [rigShards]struct{ open, ok int }
	for _, c := range open {
		outcomes[c.id].open++
	}
	var failed error
	for n := 0; n < 20 && failed == nil && len(open) > 0; n++ {
		for id := range engine.ShardID(rigShards) {
			if failed = w.rig.turn(id); failed != nil {
				break
			}
		}
		open = slices.DeleteFunc(open, func(c command) bool {
			o, known := c.ticket.Outcome()
			if known && o.Err == nil {
				outcomes[c.id].ok++
			}
			return known
		})
	}
	for id, o := range outcomes {
		if o.ok < o.open {
			failed = errors.Join(failed, fmt.Errorf("shard %d: %d of %d known", id, o.ok, o.open))
		} else if err := w.ackBurst(engine.ShardID(id), before); err != nil {
			return err
		}
	}
	if failed != nil {
		return engine.Errorf(engine.ErrUnknownOutcome, "outcome unknown: act %d: burst: %v", w.number, failed)
	}
	return nil
}

// ackBurst acknowledges the acts of a shard from the given count on.
func (w *rigLoad) ackBurst(id engine.ShardID, before [rigShards]int) error {
	for range w.ledger.shards[id].acts[before[id]:] {
		if err := w.ack(id, 0); err != nil {
			return err
		}
	}
	return nil
}
