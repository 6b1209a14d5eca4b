package ts

import (
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// member is a series as its shard knows it. It does not change.
type member struct {
	key         string // by which the cache finds it: measurement and tags as the caller writes them
	measurement string
	shard       engine.ShardID
	inc         incarnation
	id          seriesID
	fingerprint uint64
}

// cache remembers the series that are written through a Store, so that what is written again and
// again need not be looked for. What it says may be out of date: the fingerprints that go with each
// write tell.
type cache struct {
	mu         sync.Mutex // guards all below; nothing waits under it
	young, old map[string]*member
	bytes      int // of young
	refused    refusals
}

// Bounds of the cache: half of them young.
const (
	maxCacheBytes = 64 << 20
	memberBytes   = 160 // of one, beside its key
)

// refusals are new series for which there was no room, by their keys. For a second they are not
// looked for again, so that a flood of them costs no query; a write it never costs.
type refusals struct {
	since time.Time
	keys  map[string]*LimitError
}

const (
	refusedFor = time.Second
	maxRefused = 100_000 // beyond it they are looked for again
)

func newCache() *cache {
	return &cache{young: make(map[string]*member)}
}

// get returns the series of a key, nil if it is not remembered.
func (c *cache) get(key []byte) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.young[string(key)]; m != nil {
		return m
	}
	m := c.old[string(key)]
	if m != nil {
		c.add(m)
	}
	return m
}

// put remembers series.
func (c *cache) put(all []*member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range all {
		c.add(m)
	}
}

func (c *cache) add(m *member) {
	if c.bytes > maxCacheBytes/2 {
		c.old, c.young, c.bytes = c.young, make(map[string]*member), 0
	}
	c.young[m.key] = m
	c.bytes += memberBytes + len(m.key)
}

// forget makes series that are not what they were unknown.
func (c *cache) forget(keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		delete(c.young, k)
		delete(c.old, k)
	}
}

// refuse remembers that there was no room for a series.
func (c *cache) refuse(key string, e *LimitError, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.refused
	if r.keys == nil || now.Sub(r.since) >= refusedFor || len(r.keys) == maxRefused {
		*r = refusals{now, make(map[string]*LimitError)}
	}
	r.keys[key] = e
}

// refusal returns why a series has just been refused, nil if it has not.
func (c *cache) refusal(key string, now time.Time) *LimitError {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.refused.since) >= refusedFor {
		return nil
	}
	return c.refused.keys[key]
}
