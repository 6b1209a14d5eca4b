package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

const (
	diskBytes   = 64 << 20
	diskRounds  = 5
	diskWriters = 8
	diskSpace   = "disk"
	diskGets    = 50 // at every check
	resumedKey  = "resumed"

	// diskReserve is the maximum size of a flush of the memory.
	diskReserve = 512 << 10
)

// tmpfs is a small in-memory file system.
type tmpfs struct {
	t    *testing.T
	root string
}

func newTmpfs(t *testing.T, bytes int) *tmpfs {
	t.Helper()
	needPrivileges(t, missingToMount())
	sweepExt4(t)
	base, err := os.MkdirTemp("", fmt.Sprint(ext4Prefix, os.Getpid(), "-"))
	if err != nil {
		t.Fatal(err)
	}
	d := &tmpfs{t, filepath.Join(base, "root")}
	t.Cleanup(func() { removeExt4(t, base) })
	if err := errors.Join(os.Mkdir(d.root, 0o700), syscall.Mount("floe", d.root, "tmpfs", 0, fmt.Sprint("size=", bytes))); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *tmpfs) free() int64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.root, &s); err != nil {
		d.t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize
}

func (d *tmpfs) hog() string { return filepath.Join(d.root, "hog") }

// take uses n bytes, or all remaining ones if there are fewer.
func (d *tmpfs) take(n int64) {
	d.t.Helper()
	f, err := os.OpenFile(d.hog(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	for block := make([]byte, 64<<10); err == nil && n > 0; n -= int64(len(block)) {
		_, err = f.Write(block[:min(n, int64(len(block)))])
	}
	if closeErr := f.Close(); closeErr != nil || err != nil && !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatal(err, closeErr)
	}
}

// hold keeps using all space beyond n free bytes, until the returned function is called. Other
// programs want space too, and compactions free some.
func (d *tmpfs) hold(n int64) (stop func()) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.Tick(5 * time.Millisecond); ctx.Err() == nil; <-tick {
			d.take(d.free() - n)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	d.t.Cleanup(stop)
	return stop
}

// giveBack removes the files written by take.
func (d *tmpfs) giveBack() {
	if err := os.Remove(d.hog()); err != nil {
		d.t.Fatal(err)
	}
}

// diskKey names the n-th key of a writer in a round. diskValue is its value, which is
// incompressible and derived from the key.
func diskKey(round, w, n int) string { return fmt.Sprintf("%d/%d/%06d", round, w, n) }

func diskValue(key string) []byte {
	seed := [32]byte{}
	copy(seed[:], key)
	rng := rand.NewChaCha8(seed)
	value := make([]byte, rng.Uint64()%(16<<10))
	_, _ = rng.Read(value) // never fails
	return value
}

// fillDisk writes with all writers until the node refuses, and calls acked for every key.
func fillDisk(store *kv.Store, round int, acked func(key string)) error {
	errs := make([]error, diskWriters)
	var all sync.WaitGroup
	for w := range diskWriters {
		all.Go(func() {
			for n := 0; errs[w] == nil; n++ {
				key := diskKey(round, w, n)
				if _, errs[w] = store.Put(context.Background(), key, diskValue(key)); errs[w] == nil {
					acked(key)
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if !errors.Is(err, floe.ErrReadOnly) {
			return fmt.Errorf("put on a disk that fills up: %w", err)
		}
	}
	return nil
}

// fill is the task of a child on a disk: it fills the disk again and again, until it is killed.
func (c *child) fill() error {
	node, err := floe.Open(floe.Config{DataDir: c.Dir})
	if err != nil {
		return err
	}
	c.say(saysOpen)
	for full := false; ; full = true {
		if err := fillDisk(node.KV(diskSpace), c.Life, func(key string) { c.say(saysSpace, key) }); err != nil {
			return err
		}
		if !full {
			c.say(saysClosing)
		}
	}
}

// diskLoad records the acknowledged writes.
type diskLoad struct {
	t    *testing.T
	node *floe.Node
	mu   sync.Mutex      // guards want
	want map[string]bool // false: deleted
}

func (l *diskLoad) acked(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want[key] = true
}

func (l *diskLoad) open(dir string) {
	l.t.Helper()
	node, err := floe.Open(floe.Config{DataDir: dir})
	if err != nil {
		l.t.Fatalf("open: %v", err)
	}
	l.node = node
	l.t.Cleanup(func() { _ = node.Close() }) // a failed test would leave it open on a disk that is removed
}

func (l *diskLoad) store() *kv.Store { return l.node.KV(diskSpace) }

// check reads every key in a scan, and only some with Get. With -race Pebble records the stack at
// every table that a Get reads, and without space for compactions there are hundreds.
func (l *diskLoad) check(when string) {
	l.t.Helper()
	missing := maps.Clone(l.want)
	for it, err := range l.store().All(l.t.Context()) {
		switch there, known := l.want[it.Key]; {
		case err != nil:
			l.t.Fatalf("%s: listing: %v", when, err)
		case it.Key == resumedKey:
		case known && !there:
			l.t.Fatalf("%s: scan returns %s, want it deleted", when, it.Key)
		case !bytes.Equal(it.Value, diskValue(it.Key)):
			l.t.Fatalf("%s: scan returns %s with %d other bytes than were written", when, it.Key, len(it.Value))
		}
		delete(missing, it.Key)
	}
	for key, there := range missing {
		if there {
			l.t.Fatalf("%s: scan does not return %s, which was acknowledged", when, key)
		}
	}
	left := diskGets
	for key, there := range l.want {
		e, err := l.store().Get(l.t.Context(), key)
		switch {
		case there && (err != nil || !bytes.Equal(e.Value, diskValue(key))):
			l.t.Fatalf("%s: %s has %d bytes, %v; want what was acknowledged", when, key, len(e.Value), err)
		case !there && !errors.Is(err, floe.ErrNotFound):
			l.t.Fatalf("%s: %s: %v, want it deleted", when, key, err)
		}
		if left--; left == 0 {
			break
		}
	}
}

// readOnly checks the answers of a node with a full disk. Compactions may free so much that it
// briefly writes again, before the space is used up.
func (l *diskLoad) readOnly() {
	l.t.Helper()
	for attempt := 0; ; attempt++ {
		l.await(func(s floe.Stats) bool { return s.Disk.ReadOnly })
		err := l.refusals()
		if err == nil {
			return
		}
		if attempt == 4 {
			l.t.Fatal(err)
		}
	}
}

func (l *diskLoad) refusals() error {
	if _, err := l.store().Put(l.t.Context(), "more", nil); !errors.Is(err, floe.ErrReadOnly) {
		return fmt.Errorf("put on a full disk: %v, want ErrReadOnly", err)
	}
	h := dashboard.New(l.node, dashboard.Options{})
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body)))
		return w
	}
	if w := ask("GET", "/health", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"status":"ok","read_only":true`) {
		return fmt.Errorf("GET /health on a full disk = %d %s, want 200 and read_only", w.Code, w.Body)
	}
	if w := ask("GET", "/api/v1/cluster/stats", ""); !strings.Contains(w.Body.String(), `"status":"read-only"`) {
		return fmt.Errorf("cluster stats on a full disk: %s, want a node that is read-only", w.Body)
	}
	if w := ask("PUT", "/api/v1/kv/namespaces/disk/keys/more", `{"value":"x"}`); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		return fmt.Errorf("PUT on a full disk = %d %s, Retry-After %q; want 503 and when", w.Code, w.Body, w.Header().Get("Retry-After"))
	}
	return nil
}

// deletes deletes n keys, or fewer if other programs have used the reserve for deletes.
func (l *diskLoad) deletes(disk *tmpfs, n int) {
	l.t.Helper()
	for key, there := range l.want {
		if n == 0 {
			return
		}
		if !there {
			continue
		}
		_, err := l.store().Delete(l.t.Context(), key)
		if errors.Is(err, floe.ErrReadOnly) && disk.free() < diskReserve {
			l.t.Logf("no more deletes: %v", err)
			return
		}
		if err != nil {
			l.t.Fatalf("delete on a full disk: %v", err)
		}
		l.want[key] = false
		n--
	}
}

// await waits until the node's statistics are as wanted.
func (l *diskLoad) await(ok func(floe.Stats) bool) {
	l.t.Helper()
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		st, err := l.node.Stats(l.t.Context())
		if err != nil {
			l.t.Fatalf("the disk is %+v, %v", st.Disk, err)
		}
		if ok(st) {
			return
		}
	}
}

// resume waits until the node accepts writes again and returns how long that took.
func (l *diskLoad) resume() time.Duration {
	l.t.Helper()
	start := time.Now()
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		_, err := l.store().Put(l.t.Context(), resumedKey, nil)
		took := time.Since(start)
		if err == nil {
			return took
		}
		if !errors.Is(err, floe.ErrReadOnly) {
			l.t.Fatalf("%v after there is space again: %v", took, err)
		}
	}
}

// TestDisk repeatedly fills a real file system of 64 MiB under load, by writes of the node and of
// others. It does so in this process and in one that is killed on the full disk and restarts there.
// Nothing acknowledged may be lost, and reads and deletes must always work. With free space the
// node must accept writes again without help.
func TestDisk(t *testing.T) {
	t.Parallel()
	disk := newTmpfs(t, diskBytes)
	p := &parent{t: t, rng: rand.New(rand.NewPCG(machinetest.Seed(t), 3))}
	dir := filepath.Join(disk.root, "data")
	l := &diskLoad{t: t, want: make(map[string]bool)}
	started := time.Now()
	var slowest time.Duration
	for round := range diskRounds {
		// The node's data grows by about 10 MiB a round.
		disk.take(int64(diskRounds-round) * 10 << 20)
		if round%2 == 0 {
			if l.node == nil {
				l.open(dir)
			}
			if err := fillDisk(l.store(), round, l.acked); err != nil {
				t.Fatal(err)
			}
		} else {
			l.close()
			l.killFull(p, dir, round)
			if p.rng.IntN(2) == 0 {
				disk.take(diskBytes) // to the last byte
			}
			l.open(dir)
		}
		left := disk.free()
		stop := disk.hold(min(left, 1<<20)) // compactions may have freed some already
		l.check(fmt.Sprintf("round %d, full", round))
		l.readOnly()
		if left > 0 { // otherwise the reserve that they need is used up
			l.deletes(disk, 10)
		}
		stop()
		disk.giveBack()
		took := l.resume()
		slowest = max(slowest, took)
		st, err := l.node.Stats(t.Context())
		if err != nil || st.Disk.ReadOnly {
			t.Errorf("round %d: disk %+v, %v; want no more read-only", round, st.Disk, err)
		}
		t.Logf("round %d: %d keys, %d bytes left when full, wrote again after %v", round, len(l.want), left, took)
	}
	l.check("in the end")
	l.close()
	l.open(dir)
	l.check("after opening again")
	l.close()
	t.Logf("filled %d times in %v, %d keys acknowledged, slowest resume %v", diskRounds, time.Since(started).Round(time.Millisecond),
		len(l.want), slowest)
	if len(l.want) < 1000 {
		t.Errorf("%d keys acknowledged, want at least 1000: the disk has not been filled", len(l.want))
	}
}

func (l *diskLoad) close() {
	l.t.Helper()
	if err := l.node.Close(); err != nil {
		l.t.Fatalf("close: %v", err)
	}
	l.node = nil
}

// killFull lets a child fill the disk and kills it there.
func (l *diskLoad) killFull(p *parent, dir string, round int) {
	l.t.Helper()
	for _, s := range p.kill(order{Dir: dir, Fill: true, Life: round}, whenFull) {
		if s.what == saysSpace {
			l.acked(s.name)
		}
	}
}
