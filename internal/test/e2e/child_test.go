package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/kv"
)

// childEnv makes the test binary run as a child with the order in the variable. It runs until it is
// killed, or until its standard input ends; in that case it closes its node.
const childEnv = "FLOE_EXERCISE_CHILD"

// order is the task of a child.
type order struct {
	Dir      string
	Async    bool
	Interval time.Duration // between two syncs of an Async child
	Small    bool          // tiny memtables and segments: constant flushes, compactions and truncation
	Life     int           // number of the child among those on a directory
	Fill     bool          // only fill the disk, see child.fill
}

// A child reports events in lines with these first words.
const (
	saysOpening = "opening"
	saysOpen    = "open"
	saysAck     = "ack"     // writer, position, revision: committed
	saysSaw     = "saw"     // writer, position, revision: shown by a watch
	saysSpace   = "space"   // name: a namespace was created
	saysSyncing = "syncing" // the log is about to be synced
	saysSynced  = "synced"
	saysTick    = "tick" // tickTime of the child's life has passed
	saysClosing = "closing"
	saysClosed  = "closed"
)

// tickTime is the interval at which a child reports that it is alive.
const tickTime = 5 * time.Millisecond

// child is a node under load in a process of its own.
type child struct {
	order
	store   *kv.Store
	commit  func(ctx context.Context, ops ...floe.Op) (kv.TxnResult, error)
	create  func(ctx context.Context, name string, spread bool) error
	close   func() error
	closing atomic.Bool

	mu sync.Mutex // guards standard output
}

func runChild(text string) {
	var c child
	if err := c.run(text); err != nil {
		c.say("error", err)
	}
}

// say is called after the reported event, so that a parent reads events in order.
func (c *child) say(words ...any) {
	line := fmt.Sprintln(words...)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = os.Stdout.WriteString(line) // without a parent nothing reads it
}

func (c *child) run(text string) error {
	if err := json.Unmarshal([]byte(text), &c.order); err != nil {
		return err
	}
	c.say(saysOpening)
	if c.Fill {
		return c.fill()
	}
	if err := c.open(); err != nil {
		return err
	}
	c.say(saysOpen)
	go c.tick()
	ctx := context.Background()
	if err := c.create(ctx, space, true); err != nil && !errors.Is(err, floe.ErrExists) {
		return err
	}
	go c.loop(c.watch)
	for w := range writers {
		go c.loop(func(ctx context.Context) error { return c.write(ctx, w) })
	}
	go c.loop(c.createOne)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	c.closing.Store(true)
	c.say(saysClosing)
	if err := c.close(); err != nil {
		return err
	}
	c.say(saysClosed)
	return nil
}

// loop runs f until the node ends or f returns an error.
func (c *child) loop(f func(context.Context) error) {
	if err := f(context.Background()); err != nil && !c.closing.Load() {
		c.say("error", err)
	}
}

func (c *child) open() error {
	durability := shard.Sync
	if c.Async {
		durability = shard.Async
	}
	if !c.Small && !c.Async {
		node, err := floe.Open(floe.Config{DataDir: c.Dir, Shards: shards})
		if err != nil {
			return err
		}
		c.store, c.create, c.close = node.KV(space), creator(node), node.Close
		c.commit = func(ctx context.Context, ops ...floe.Op) (kv.TxnResult, error) {
			return node.Txn(space).Do(ops...).Commit(ctx)
		}
		return nil
	}
	config := shard.Config{
		Dir: c.Dir, Shards: shards, Durability: durability, SyncInterval: c.Interval,
		Primitives: primitive.All(), FS: &toldFS{vfs.Default, c},
	}
	if c.Small {
		config.MemTableBytes, config.SegmentBytes, config.MaxLogBytes = 256<<10, 64<<10, 1<<20
	}
	host, err := shard.Open(config)
	if err != nil {
		return err
	}
	router := engine.NewRouter(host)
	c.store, c.create, c.close = engine.StoreOf[kv.Store](router, space, host.MaxValue()), engine.NewNamespaces(router).Create, host.Close
	c.commit = func(ctx context.Context, ops ...floe.Op) (kv.TxnResult, error) {
		txn := engine.NewTxn(router, space, host.MaxValue())
		for _, op := range ops {
			txn.Do(op)
		}
		return txn.Commit(ctx)
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

func (c *child) tick() {
	for range time.Tick(tickTime) {
		c.say(saysTick)
	}
}

// write executes the steps of a writer after its position, and reports acknowledged ones.
func (c *child) write(ctx context.Context, w int) error {
	n := 0
	e, err := c.store.Get(ctx, positionKey(w))
	if err == nil {
		n, err = strconv.Atoi(string(e.Value))
	}
	if err != nil && !errors.Is(err, floe.ErrNotFound) {
		return err
	}
	for {
		n++
		exists, err := c.store.Exists(ctx, stepKey(w, n))
		if err != nil {
			return err
		}
		position := kv.PutOp(positionKey(w), []byte(strconv.Itoa(n)))
		res, err := c.commit(ctx, step(w, n, exists), position)
		if err != nil {
			return err
		}
		written, err := position.Result(res)
		if err != nil {
			return err
		}
		c.say(saysAck, w, n, written.Revision)
	}
}

// createOne creates one namespace per life, of its own and not spread, as a first write would.
func (c *child) createOne(ctx context.Context) error {
	name := fmt.Sprintf("life-%d", c.Life)
	if err := c.create(ctx, name, false); err != nil {
		return err
	}
	c.say(saysSpace, name)
	return nil
}

// watch watches the positions and reports them. A watched position must survive a crash just as an
// acknowledged one.
func (c *child) watch(ctx context.Context) error {
	versions := make(map[string]uint64)
	for e, err := range c.store.Watch(ctx, positionPrefix) {
		if err != nil {
			return err
		}
		if e.Type == kv.EventCompacted {
			clear(versions)
			continue
		}
		if last := versions[e.Key]; last != 0 && e.Version != last+1 {
			return fmt.Errorf("watch: %s at version %d follows version %d", e.Key, e.Version, last)
		}
		versions[e.Key] = e.Version
		var w, n int
		if _, err := fmt.Sscanf(e.Key+" "+string(e.Value), positionPrefix+"{%d} %d", &w, &n); err != nil {
			return fmt.Errorf("watch: %s = %q: %w", e.Key, e.Value, err)
		}
		c.say(saysSaw, w, n, e.Revision)
	}
	return nil
}

// toldFS reports when the log of an Async child is synced: earlier acknowledged writes must survive
// a later power failure.
type toldFS struct {
	vfs.FS
	child *child
}

// Unwrap returns the file system below.
func (f *toldFS) Unwrap() vfs.FS { return f.FS }

func (f *toldFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(name)(f.FS.Create(name, c))
}

func (f *toldFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.file(name)(f.FS.OpenReadWrite(name, c, opts...))
}

func (f *toldFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(newname)(f.FS.ReuseForWrite(oldname, newname, c))
}

// file wraps the segments of the log. Its other files hold nothing that has been acknowledged.
func (f *toldFS) file(name string) func(vfs.File, error) (vfs.File, error) {
	return func(file vfs.File, err error) (vfs.File, error) {
		if err != nil || filepath.Ext(name) != ".ual" {
			return file, err
		}
		return &toldFile{file, f.child}, nil
	}
}

type toldFile struct {
	vfs.File
	child *child
}

func (f *toldFile) SyncData() error {
	f.child.say(saysSyncing)
	err := f.File.SyncData()
	if err == nil {
		f.child.say(saysSynced)
	}
	return err
}
