package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

// setup describes the node that a row measures.
type setup struct {
	shards     int
	durability floe.Durability
	fsync      time.Duration // added to each sync
	cacheBytes int64
	together   bool // the namespace is in one shard, whatever the number of shards
	client     bool // called through a connection
	nodes      int  // number of cluster nodes; 0: a single node
	processes  bool // each further node runs in its own process
}

// node is a floe node with one namespace, which is spread if there are several shards. A node with
// a slower disk has only keys and queues, a node behind a connection has streams too, and a cluster
// has only keys.
type node struct {
	store   *kv.Store
	queues  *queue.Store
	streams *stream.Store
	series  *ts.Store
	actions *action.Store
	flows   *workflow.Store
	jobs    *processing.Store
	commit  commit
	close   func() error
}

const namespace = "bench"

// commit commits a transaction in the namespace.
type commit func(ctx context.Context, conditions []floe.Condition, ops ...floe.Op) error

func commitTo(db floe.DB) commit {
	return func(ctx context.Context, conditions []floe.Condition, ops ...floe.Op) error {
		_, err := db.Txn(namespace).If(conditions...).Do(ops...).Commit(ctx)
		return err
	}
}

// open opens a node as a user does, except for a slower disk.
func (s setup) open(dir string) (*node, error) {
	switch {
	case s.fsync > 0:
		return s.openSlow(dir)
	case s.client:
		return s.openClient(dir)
	case s.nodes > 0:
		return s.openCluster(dir)
	}
	n, err := floe.Open(floe.Config{DataDir: dir, Shards: s.shards, Durability: s.durability, CacheSize: s.cacheBytes})
	if err != nil {
		return nil, err
	}
	opened := &node{
		store: n.KV(namespace), queues: n.Queue(namespace), streams: n.Stream(namespace), series: n.TS(namespace),
		actions: n.Action(namespace),
		flows:   n.Workflow(namespace), jobs: n.Processing(namespace),
		commit: commitTo(n), close: n.Close,
	}
	return opened, s.create(creator(n))
}

func (s setup) openSlow(dir string) (*node, error) {
	host, err := shard.Open(shard.Config{
		Dir: dir, Shards: s.shards, Durability: shard.Durability(s.durability), CacheBytes: s.cacheBytes,
		FS: newFS(s.fsync), Primitives: primitive.All(),
	})
	if err != nil {
		return nil, err
	}
	router := engine.NewRouter(host)
	opened := &node{
		store:  engine.StoreOf[kv.Store](router, namespace, host.MaxValue()),
		queues: engine.StoreOf[queue.Store](router, namespace, host.MaxValue()),
		commit: func(ctx context.Context, conditions []floe.Condition, ops ...floe.Op) error {
			txn := engine.NewTxn(router, namespace, host.MaxValue())
			for _, c := range conditions {
				txn.If(c)
			}
			for _, op := range ops {
				txn.Do(op)
			}
			_, err := txn.Commit(ctx)
			return err
		},
		close: host.Close,
	}
	return opened, s.create(engine.NewNamespaces(router).Create)
}

// create creates the namespace unless it exists.
func (s setup) create(create func(ctx context.Context, name string, spread bool) error) error {
	if err := create(context.Background(), namespace, s.shards > 1 && !s.together); !errors.Is(err, floe.ErrExists) {
		return err
	}
	return nil
}

func creator(db floe.DB) func(ctx context.Context, name string, spread bool) error {
	return func(ctx context.Context, name string, spread bool) error {
		if spread {
			return db.Namespaces().Create(ctx, name, floe.Spread())
		}
		return db.Namespaces().Create(ctx, name)
	}
}

// puts returns floe's side: puts of new keys.
func (b *bench) puts(s setup) side {
	return func(dir string) (*subject, error) {
		n, err := s.open(dir)
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		return &subject{
			ops: 1, bytes: keyBytes + valueBytes, close: n.close,
			call: func(w *worker) error {
				_, err := n.store.Put(ctx, w.keys.take(), b.values.cut(w.rng))
				return err
			},
		}, nil
	}
}

// A transaction is a comparison and puts. Their keys are a tag and one to four letters.
const (
	txnOps   = 5
	tagBytes = keyBytes + 2
	txnBytes = (txnOps-1)*(tagBytes+valueBytes) + 1 + 2 + 3 + 4
)

// txns returns floe's side: transactions over new keys, which a common tag keeps in one shard.
func (b *bench) txns(s setup) side {
	return func(dir string) (*subject, error) {
		n, err := s.open(dir)
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		return &subject{
			ops: txnOps, bytes: txnBytes, close: n.close,
			call: func(w *worker) error {
				key := "{" + w.keys.take() + "}abcd"
				ops := make([]floe.Op, txnOps-1)
				for i := range ops {
					ops[i] = kv.PutOp(key[:tagBytes+1+i], b.values.cut(w.rng))
				}
				return n.commit(ctx, []floe.Condition{kv.Absent(key[:tagBytes])}, ops...)
			},
		}, nil
	}
}

// gets returns floe's side: reads of existing keys in a prepared directory, after warm.
func (b *bench) gets(s setup, prepared func() (string, error), warm func(*kv.Store) error) side {
	return func(string) (*subject, error) {
		dir, err := prepared()
		if err != nil {
			return nil, err
		}
		n, err := s.open(dir)
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		return &subject{
			ops: 1, close: n.close, warm: func() error { return warm(n.store) },
			call: func(w *worker) error {
				e, err := n.store.GetInto(ctx, w.pick(), w.buf)
				if err == nil && len(e.Value) != valueBytes {
					err = fmt.Errorf("get: a value of %d bytes, want %d", len(e.Value), valueBytes)
				}
				return err
			},
		}, nil
	}
}

// drain reads all keys once to cache them.
func drain(s *kv.Store) error {
	for _, err := range s.All(context.Background(), kv.Limit(kv.MaxPageItems)) {
		if err != nil {
			return err
		}
	}
	return nil
}

// heat reads the hot keys until floe treats them as hot.
func (b *bench) heat(s *kv.Store) error {
	for range 5 {
		for i := range uint64(b.settings.hot) {
			if _, err := s.Get(context.Background(), keyOf(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// scanned is the number of rows that a scan returns.
const scanned = 100

// scans returns floe's side: reads of pages that start after existing keys.
func (b *bench) scans(s setup, prepared func() (string, error)) side {
	return func(string) (*subject, error) {
		dir, err := prepared()
		if err != nil {
			return nil, err
		}
		n, err := s.open(dir)
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		return &subject{
			ops: 1, close: n.close, warm: func() error { return drain(n.store) },
			call: func(w *worker) error {
				_, err := n.store.PageInto(ctx, &w.page, kv.After(w.pick()), kv.Limit(scanned))
				return err
			},
		}, nil
	}
}
