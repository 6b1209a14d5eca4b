package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/floedb/floe"
)

// fixedKeys returns the number of keys that the rows overwrite at random: the usual case of a
// key-value store.
func (s settings) fixedKeys() int { return min(100_000, s.keys) }

const (
	limitRedis = "Redis, appendfsync always,"
	limitBolt  = "bbolt"
)

// overwrites returns the rows over a fixed set of keys in one namespace, which is in one of 16
// shards.
func (b *bench) overwrites() (rows []row) {
	s := setup{shards: 16, together: true}
	for _, p := range []struct {
		callers int
		bar     float64
	}{{1, 0.90}, {64, 0.55}, {256, 0.35}} {
		l := b.writes(p.callers)
		l.existing = b.settings.fixedKeys()
		rows = append(rows, row{
			name: fmt.Sprintf("overwrite/%d", p.callers), against: limitL1, bar: p.bar, short: p.callers > 1,
			work: duel{load: l, floe: b.overwriting(s), limit: b.bareFile(0)},
		}, b.overRedis(p.callers, duel{load: l, floe: b.overwriting(s), limit: b.redis(p.callers)}))
	}
	l := load{callers: runtime.GOMAXPROCS(0), last: b.settings.last, sample: perSample, existing: b.settings.fixedKeys()}
	rows = append(rows, row{
		name: "overwrite/get", against: limitL3, short: true,
		work: duel{load: l, floe: b.freshGets(s), limit: b.mapGets(b.settings.fixedKeys())},
	}, row{
		name: "overwrite/get/bbolt", against: limitBolt, bar: 2,
		work: duel{load: l, floe: b.freshGets(s), limit: b.boltGets(l)},
	})
	l.sample = 1
	over := b.overwritten()
	return append(rows, row{
		name: "overwrite/scan/100", against: limitBare, bar: 0.6,
		work: duel{load: l, floe: b.scans(setup{shards: 1, cacheBytes: bigCache}, over), limit: b.bareScans(bigCache, over)},
	})
}

// overRedis returns the row that compares with Redis, or a row that reports that Redis is missing.
func (b *bench) overRedis(callers int, d duel) row {
	r := row{name: fmt.Sprintf("overwrite/%d/redis", callers), against: limitRedis, bar: 1.5, work: d}
	if _, err := exec.LookPath("redis-server"); err != nil {
		r.against, r.bar, r.work = limitRedis+" not measured: no redis-server on the PATH,", 0, nothing{}
	}
	return r
}

// nothing is the work of a row that cannot be measured on this machine.
type nothing struct{}

func (nothing) measure(*bench) (result, error) { return result{}, nil }

// overwriting returns floe's side: puts of existing keys.
func (b *bench) overwriting(s setup) side {
	return func(dir string) (*subject, error) {
		n, err := s.open(dir)
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		return &subject{
			ops: 1, bytes: keyBytes + valueBytes, close: n.close, warm: func() error { return b.fill(n, b.settings.fixedKeys()) },
			call: func(w *worker) error {
				_, err := n.store.Put(ctx, w.pick(), b.values.cut(w.rng))
				return err
			},
		}, nil
	}
}

// freshGets returns floe's side: reads of existing keys with a new handle for each call, as in
// floe's documentation.
func (b *bench) freshGets(s setup) side {
	return func(dir string) (*subject, error) {
		db, err := floe.Open(floe.Config{DataDir: dir, Shards: s.shards})
		if err != nil {
			return nil, err
		}
		n := &node{store: db.KV(namespace), commit: commitTo(db), close: db.Close}
		ctx := context.Background()
		return &subject{
			ops: 1, close: n.close, warm: func() error {
				return errors.Join(b.fill(n, b.settings.fixedKeys()), heatAll(n, b.settings.fixedKeys()))
			},
			call: func(w *worker) error {
				_, err := db.KV(namespace).Get(ctx, w.pick())
				return err
			},
		}, nil
	}
}

// heatAll reads the first n keys until floe treats them as hot.
func heatAll(node *node, n int) error {
	for range 5 {
		for i := range uint64(n) {
			if _, err := node.store.Get(context.Background(), keyOf(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// overwritten returns a directory that a node has filled with a few keys, each overwritten 50
// times.
func (b *bench) overwritten() func() (string, error) {
	const times = 50
	keys := max(b.settings.fixedKeys()/10, 1)
	return sync.OnceValues(func() (string, error) {
		dir := filepath.Join(b.dir, "overwritten")
		n, err := setup{shards: 1, durability: floe.Async}.open(dir)
		if err != nil {
			return "", err
		}
		b.log("overwriting %d keys %d times", keys, times)
		for range times + 1 {
			if err := b.fill(n, keys); err != nil {
				return "", errors.Join(err, n.close())
			}
		}
		if err := n.close(); err != nil {
			return "", err
		}
		return dir, settle(dir)
	})
}
