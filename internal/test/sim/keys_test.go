package sim

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/kv"
)

// keyClient reads and writes single keys.
type keyClient struct {
	*client
	stores  map[string]*kv.Store
	history *check.History
	wrote   int
	seen    map[string]uint64 // key -> a past revision
}

func newKeyClient(c *client) *keyClient {
	return &keyClient{
		client: c, history: c.sim.verdict.history, seen: make(map[string]uint64),
		stores: map[string]*kv.Store{plain: engine.StoreOf[kv.Store](c.router, plain, maxValue),
			spread: engine.StoreOf[kv.Store](c.router, spread, maxValue)},
	}
}

func (c *keyClient) work() {
	for c.working() {
		c.sim.issued++
		ns := []string{plain, spread}[c.sim.rng.IntN(2)]
		c.act(c.stores[ns], c.sim.rng.IntN(100))
	}
}

func (c *keyClient) act(store *kv.Store, r int) {
	register, number := c.key(store, "k"), c.key(store, "n")
	switch {
	case r < 35:
		c.get(store, []string{register, number}[r%2])
	case r < 55:
		c.put(store, register)
	case r < 65:
		c.cas(store, register)
	case r < 72:
		c.delete(store, []string{register, number}[r%2])
	case r < 86:
		c.incr(store, number)
	case r < 93:
		c.txn(store, register, number)
	default:
		c.expire(store)
	}
}

// key returns a key; a history takes a limited number of operations per key.
func (c *keyClient) key(store *kv.Store, kind string) string {
	k := fmt.Sprintf("%s%d", kind, c.sim.rng.IntN(c.sim.plan.keys))
	v := c.sim.verdict
	name := store.Namespace() + "/" + k
	v.uses[name]++
	return fmt.Sprintf("%s.%d", k, v.uses[name]/(check.MaxOperations-50))
}

// value returns a unique value.
func (c *keyClient) value() string {
	c.wrote++
	size := c.sim.rng.IntN(20)
	if c.sim.rng.IntN(10) == 0 {
		size = c.sim.rng.IntN(3000)
	}
	return fmt.Sprintf("%d-%d%s", c.id, c.wrote, strings.Repeat(".", size))
}

// invoke begins an operation in the history.
func (c *keyClient) invoke(store *kv.Store, op check.Op) *check.Pending {
	op.Client = c.id
	op.Key = store.Namespace() + "/" + op.Key
	c.sim.verdict.names[op.Key] = true
	return c.history.Invoke(int64(c.sim.now), op)
}

// end ends an operation in the history.
func (c *keyClient) end(p *check.Pending, err error, r check.Result) {
	switch now := int64(c.sim.now); {
	case err == nil:
		p.Done(now, r)
	case c.ended || errors.Is(err, engine.ErrUnknownOutcome):
		p.Unknown(now)
	default:
		p.Refused(now, err)
	}
	c.sim.verdict.note(err)
}

func (c *keyClient) get(store *kv.Store, k string) {
	p := c.invoke(store, check.Op{Kind: check.Get, Key: k})
	e, err := store.Get(ctx, k)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		p.Done(int64(c.sim.now), check.Result{})
	case err != nil:
		p.Unknown(int64(c.sim.now))
	default:
		c.seen[k] = e.Revision
		p.Done(int64(c.sim.now), check.Result{Found: true, Value: string(e.Value), Revision: e.Revision})
	}
}

func (c *keyClient) put(store *kv.Store, k string) {
	v := c.value()
	p := c.invoke(store, check.Op{Kind: check.Put, Key: k, Value: v})
	w, err := store.Put(ctx, k, []byte(v))
	c.written(store, kv.Event{Type: kv.EventPut, Key: k, Value: []byte(v), Revision: w.Revision}, err)
	c.end(p, err, check.Result{Revision: w.Revision})
}

func (c *keyClient) cas(store *kv.Store, k string) {
	v, at := c.value(), c.seen[k]
	p := c.invoke(store, check.Op{Kind: check.CAS, Key: k, Value: v, Revision: at})
	w, err := store.Put(ctx, k, []byte(v), kv.IfRevision(at))
	c.written(store, kv.Event{Type: kv.EventPut, Key: k, Value: []byte(v), Revision: w.Revision}, err)
	c.end(p, err, check.Result{Revision: w.Revision})
}

func (c *keyClient) delete(store *kv.Store, k string) {
	p := c.invoke(store, check.Op{Kind: check.Delete, Key: k})
	w, err := store.Delete(ctx, k)
	c.written(store, kv.Event{Type: kv.EventDelete, Key: k, Revision: w.Revision}, err)
	c.end(p, err, check.Result{Revision: w.Revision})
}

func (c *keyClient) incr(store *kv.Store, k string) {
	delta := c.sim.rng.Int64N(9) - 4
	p := c.invoke(store, check.Op{Kind: check.Incr, Key: k, Delta: delta})
	n, err := store.Incr(ctx, k, delta)
	c.end(p, err, check.Result{Number: n.Value})
}

// txn writes two keys at once. Half of the transactions are refused because of their last
// operation, and must then have no effect.
func (c *keyClient) txn(store *kv.Store, register, number string) {
	if engine.NameShard(spread, register, c.Shards()) != engine.NameShard(spread, number, c.Shards()) && store.Namespace() == spread {
		return
	}
	v, fails := c.value(), c.sim.rng.IntN(2) == 0
	put := c.invoke(store, check.Op{Kind: check.Put, Key: register, Value: v})
	incr := c.invoke(store, check.Op{Kind: check.Incr, Key: number, Delta: 1})
	ops := []engine.Operation{kv.PutOp(register, []byte(v)), kv.IncrOp(number, 1)}
	if fails {
		ops = append(ops, kv.IncrOp(number, 1, kv.Max(-1<<40)))
	}
	res, err := engine.NewTxn(c.router, store.Namespace(), maxValue).Do(ops...).Commit(ctx)
	if err == nil && fails {
		c.sim.failf("a transaction with an operation that cannot succeed was committed")
	}
	e := kv.Event{Type: kv.EventPut, Key: register, Value: []byte(v)}
	if err != nil {
		c.written(store, e, err)
		c.end(put, err, check.Result{})
		c.end(incr, err, check.Result{})
		return
	}
	e.Revision = res.Values[0].(kv.Written).Revision
	c.written(store, e, nil)
	c.end(put, nil, check.Result{Revision: e.Revision})
	c.end(incr, nil, check.Result{Number: res.Values[1].(kv.Counted).Value})
}

// written notes a change of a key that was acknowledged, or may have happened.
func (c *keyClient) written(store *kv.Store, e kv.Event, err error) {
	v := c.sim.verdict
	switch told := store.Namespace() == plain && strings.HasPrefix(e.Key, watched); {
	case err == nil:
		c.seen[e.Key] = e.Revision
		v.acknowledged(store.Namespace(), e)
		if told {
			v.watch.Committed(e)
		}
	case told && errors.Is(err, engine.ErrUnknownOutcome):
		v.watch.Possible(e)
	}
}

// expire writes a key that must be gone at the end of the run, unless its timer is lost.
func (c *keyClient) expire(store *kv.Store) {
	k := fmt.Sprintf("t%d", c.sim.rng.IntN(c.sim.plan.keys))
	ttl := time.Duration(1 + c.sim.rng.Int64N(int64(time.Second)))
	c.sim.verdict.mortal[[2]string{store.Namespace(), k}] = true
	var err error
	if c.sim.rng.IntN(3) == 0 {
		err = store.Touch(ctx, k, ttl)
	} else {
		_, err = store.Put(ctx, k, []byte(c.value()), kv.TTL(ttl))
	}
	c.sim.verdict.note(err)
}
