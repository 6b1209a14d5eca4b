package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/kv"
)

// stored returns a directory that a node has filled with the first n keys. It is created once and
// shared by all rows that read it.
func (b *bench) stored(n int) func() (string, error) {
	if b.prepared == nil {
		b.prepared = make(map[int]func() (string, error))
	}
	if b.prepared[n] == nil {
		b.prepared[n] = sync.OnceValues(func() (string, error) { return b.store(n) })
	}
	return b.prepared[n]
}

func (b *bench) store(n int) (string, error) {
	dir := filepath.Join(b.dir, fmt.Sprintf("stored-%d", n))
	b.log("storing %d keys", n)
	s := setup{shards: 1, durability: floe.Async}
	node, err := s.open(dir)
	if err != nil {
		return "", err
	}
	if err := errors.Join(b.fill(node, n), node.close()); err != nil {
		return "", err
	}
	return dir, settle(dir)
}

// fill stores the first n keys in transactions, which are faster than single puts.
func (b *bench) fill(node *node, n int) error {
	const writers, perTxn = 4, 500
	errs := make(chan error, writers)
	for id := range writers {
		go func() {
			w := load{callers: writers}.workers(b.seed)[id]
			for first := id * perTxn; first < n; first += writers * perTxn {
				var ops []floe.Op
				for i := first; i < min(first+perTxn, n); i++ {
					ops = append(ops, kv.PutOp(keyOf(uint64(i)), b.values.cut(w.rng)))
				}
				if err := node.commit(context.Background(), nil, ops...); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var all []error
	for range writers {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// settle waits until the compactions of a closed node's state have ended, so that all sides read
// the same tables.
func settle(dir string) error {
	db, err := openPebble(stateDir(dir), 0)
	if err != nil {
		return err
	}
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for quietFor := 0; quietFor < 5; quietFor++ {
		<-poll.C
		if m := db.Metrics(); m.Compact.NumInProgress > 0 {
			quietFor = 0
		}
	}
	return db.Close()
}

func stateDir(dir string) string { return filepath.Join(dir, "state") }

// bare is the state of a node, opened without the node.
type bare struct {
	db     *pebble.DB
	prefix []byte // prefix of the rows that hold the keys' values
}

func openBare(dir string, cacheBytes int64) (*bare, error) {
	db, err := openPebble(stateDir(dir), cacheBytes)
	if err != nil {
		return nil, err
	}
	o := &bare{db: db}
	if err := o.find(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return o, nil
}

// find reads all rows, which also caches them, and finds the prefix in the row of the first key.
func (o *bare) find() error {
	it, err := o.db.NewIter(nil)
	if err != nil {
		return err
	}
	first := []byte(keyOf(0))
	for ok := it.First(); ok; ok = it.Next() {
		if prefix, found := bytes.CutSuffix(it.Key(), first); found {
			o.prefix = bytes.Clone(prefix)
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	if o.prefix == nil {
		return fmt.Errorf("no row of the state ends with the key %s", first)
	}
	return nil
}

// bareGets is a bare Pebble Get of the rows that floe reads.
func (b *bench) bareGets(cacheBytes int64, prepared func() (string, error)) side {
	return b.bareSide(cacheBytes, prepared, func(o *bare) func(w *worker) error {
		return func(w *worker) error {
			var buf [64]byte
			v, closer, err := o.db.Get(append(append(buf[:0], o.prefix...), w.pick()...))
			if err != nil {
				return err
			}
			if len(v) < valueBytes {
				err = fmt.Errorf("get: a row of %d bytes, want at least %d", len(v), valueBytes)
			}
			return errors.Join(err, closer.Close())
		}
	})
}

// bareScans is a bare Pebble iterator over the rows that floe returns.
func (b *bench) bareScans(cacheBytes int64, prepared func() (string, error)) side {
	return b.bareSide(cacheBytes, prepared, func(o *bare) func(w *worker) error {
		return func(w *worker) error {
			lower := append(append(bytes.Clone(o.prefix), w.pick()...), 0)
			it, err := o.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: key.PrefixEnd(o.prefix)})
			if err != nil {
				return err
			}
			n := 0
			for ok := it.First(); ok && n < scanned; ok = it.Next() {
				n += min(1, len(it.Key())*len(it.Value()))
			}
			return it.Close()
		}
	})
}

func (b *bench) bareSide(cacheBytes int64, prepared func() (string, error), call func(o *bare) func(w *worker) error) side {
	return func(string) (*subject, error) {
		dir, err := prepared()
		if err != nil {
			return nil, err
		}
		o, err := openBare(dir, cacheBytes)
		if err != nil {
			return nil, err
		}
		return &subject{ops: 1, call: call(o), close: o.db.Close}, nil
	}
}

// mapGets is L3: reads of the keys in memory.
func (b *bench) mapGets(n int) side {
	return func(string) (*subject, error) {
		m := newLockedMap()
		for i := range n {
			m.put(keyOf(uint64(i)), b.values[i*valueBytes%(len(b.values)-valueBytes):][:valueBytes])
		}
		return &subject{
			ops: 1, close: func() error { return nil },
			call: func(w *worker) error {
				if v, ok := m.get(w.pick()); !ok || len(v) != valueBytes {
					return errors.New("get: not in the map")
				}
				return nil
			},
		}, nil
	}
}
