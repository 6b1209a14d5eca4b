package main

import (
	"fmt"
	"hash/maphash"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/shard"
)

// groupCommit is the physical limit of a durable write, L1. Callers add their bytes to a batch. The
// first caller of each batch writes and syncs it when the previous batch is done. A caller returns
// when its bytes are synced.
//
// After a batch, all its callers return at once. The first of them yields to the others before it
// closes its batch, so that batches are as large as possible. Without that, the limit is 20 % lower
// at 64 callers and the same at 1 and 256.
type groupCommit struct {
	file vfs.File
	size int64 // size at which writing wraps to the start of the file; 0: the file grows

	disk sync.Mutex // held while writing and syncing
	at   int64

	mu    sync.Mutex // guards next and spare; no I/O under it
	next  *batch
	spare []byte
}

type batch struct {
	buf  []byte
	done chan struct{}
	err  error
}

func newGroupCommit(file vfs.File) *groupCommit {
	return &groupCommit{file: file, next: &batch{done: make(chan struct{})}}
}

func (g *groupCommit) append(p []byte) error {
	g.mu.Lock()
	b := g.next
	first := len(b.buf) == 0
	b.buf = append(b.buf, p...)
	g.mu.Unlock()
	if !first {
		<-b.done
		return b.err
	}
	g.disk.Lock()
	defer g.disk.Unlock()
	runtime.Gosched()
	g.mu.Lock()
	g.next = &batch{buf: g.spare[:0], done: make(chan struct{})}
	g.spare = nil
	g.mu.Unlock()
	b.err = g.write(b.buf)
	g.mu.Lock()
	g.spare = b.buf
	g.mu.Unlock()
	close(b.done)
	return b.err
}

func (g *groupCommit) write(p []byte) error {
	var err error
	if g.size == 0 {
		_, err = g.file.Write(p)
	} else {
		if g.at+int64(len(p)) > g.size {
			g.at = 0
		}
		_, err = g.file.WriteAt(p, g.at)
		g.at += int64(len(p))
	}
	if err != nil {
		return err
	}
	return g.file.SyncData()
}

// recycledBytes is the size of floe's segments.
const recycledBytes = 64 << 20

// bareFile is L1 on a growing file, like a log that creates a new file for each segment.
func (b *bench) bareFile(delay time.Duration) side {
	return func(dir string) (*subject, error) {
		f, err := newFS(delay).Create(filepath.Join(dir, "segment"), vfs.WriteCategoryUnspecified)
		if err != nil {
			return nil, err
		}
		return b.appends(newGroupCommit(f)), nil
	}
}

// recycledFile is L1 on a file whose existing blocks are overwritten: only data must reach the
// disk.
func (b *bench) recycledFile(delay time.Duration) side {
	return func(dir string) (*subject, error) {
		f, err := newFS(delay).OpenReadWrite(filepath.Join(dir, "segment"), vfs.WriteCategoryUnspecified)
		if err != nil {
			return nil, err
		}
		for at := int64(0); at < recycledBytes; at += int64(len(b.values)) {
			if _, err := f.WriteAt(b.values, at); err != nil {
				return nil, err
			}
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		g := newGroupCommit(f)
		g.size = recycledBytes
		return b.appends(g), nil
	}
}

func (b *bench) appends(g *groupCommit) *subject {
	return &subject{
		ops: 1, bytes: valueBytes, close: g.file.Close,
		call: func(w *worker) error { return g.append(b.values.cut(w.rng)) },
	}
}

// barePebble is L2: each caller commits a batch of one row to a database configured like floe's
// state, without a log.
func (b *bench) barePebble() side {
	return func(dir string) (*subject, error) {
		db, err := openPebble(dir, 0)
		if err != nil {
			return nil, err
		}
		return &subject{
			ops: 1, bytes: keyBytes + valueBytes, close: db.Close,
			call: func(w *worker) error {
				batch := db.NewBatch()
				var key [keyBytes]byte
				if err := batch.Set(append(key[:0], w.keys.take()...), b.values.cut(w.rng), nil); err != nil {
					return err
				}
				if err := batch.Commit(pebble.NoSync); err != nil {
					return err
				}
				return batch.Close()
			},
		}, nil
	}
}

// openPebble opens a database with the options of floe's state.
func openPebble(dir string, cacheBytes int64) (*pebble.DB, error) {
	opts := shard.Config{CacheBytes: cacheBytes}.StateOptions()
	opts.Logger = quiet{}
	return pebble.Open(dir, opts)
}

// quiet discards Pebble's messages, except fatal errors, which panic.
type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// lockedMap is L3: a Go map behind striped locks, the fastest way for many callers to share data
// without copying.
type lockedMap struct {
	seed    maphash.Seed
	stripes [256]struct {
		sync.RWMutex
		rows map[string][]byte
		_    [24]byte // a stripe fills a cache line
	}
}

func newLockedMap() *lockedMap { return &lockedMap{seed: maphash.MakeSeed()} }

func (m *lockedMap) get(key string) ([]byte, bool) {
	s := &m.stripes[maphash.String(m.seed, key)%uint64(len(m.stripes))]
	s.RLock()
	v, ok := s.rows[key]
	s.RUnlock()
	return v, ok
}

func (m *lockedMap) put(key string, value []byte) {
	s := &m.stripes[maphash.String(m.seed, key)%uint64(len(m.stripes))]
	s.Lock()
	if s.rows == nil {
		s.rows = make(map[string][]byte)
	}
	s.rows[key] = value
	s.Unlock()
}
