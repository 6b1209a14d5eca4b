package ts

import (
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// member is a series as known by its shard. It is immutable.
type member struct {
	key         string // key in the cache: measurement and tags as written by the caller
	measurement string
	shard       engine.ShardID
	inc         incarnation
	id          seriesID
	fingerprint uint64
}

// cache holds the series written through a Store, so that repeated writes need no lookup. It may be
// stale, which the shard detects by the fingerprints in each write.
type cache struct {
	mu         sync.Mutex // guards the fields below; no waiting under it
	young, old map[string]*member
	bytes      int // of young
	refused    refusals
}

// Bounds of the cache. The young half is limited to half of each.
const (
	maxCacheBytes = 64 << 20
	memberBytes   = 160 // of one, in addition to its key
)

// refusals are new series refused for lack of room, by key. They are not looked up again for a
// second, so a flood of them causes no queries. They never cause a write.
type refusals struct {
	since time.Time
	keys  map[string]*LimitError
}

const (
	refusedFor = time.Second
	maxRefused = 100_000 // beyond it they are looked up again
)

func newCache() *cache {
	return &cache{young: make(map[string]*member)}
}

// get returns the series of a key, nil if it is not cached.
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

// put caches series.
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

// forget removes stale series.
func (c *cache) forget(keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		delete(c.young, k)
		delete(c.old, k)
	}
}

// refuse records that there was no room for a series.
func (c *cache) refuse(key string, e *LimitError, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.refused
	if r.keys == nil || now.Sub(r.since) >= refusedFor || len(r.keys) == maxRefused {
		*r = refusals{now, make(map[string]*LimitError)}
	}
	r.keys[key] = e
}

// refusal returns why a series was recently refused, nil if it was not.
func (c *cache) refusal(key string, now time.Time) *LimitError {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.refused.since) >= refusedFor {
		return nil
	}
	return c.refused.keys[key]
}
