package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/kv"
)

// openings measures floe.Open on the directories that prepare returns, and checks the number of
// keys after each.
func (b *bench) openings(keys int, prepare func() (string, error)) (result, error) {
	var times []float64
	for i := range b.settings.rounds {
		dir, err := prepare()
		if err != nil {
			return result{}, err
		}
		start := time.Now()
		n, err := floe.Open(floe.Config{DataDir: dir})
		took := time.Since(start)
		if err != nil {
			return result{}, err
		}
		if err := errors.Join(holds(n, keys), n.Close()); err != nil {
			return result{}, err
		}
		b.log("  round %d: %v", i+1, short(took))
		times = append(times, took.Seconds()*1000)
	}
	return result{value: median(times)}, nil
}

func holds(n *floe.Node, keys int) error {
	if keys == 0 {
		return nil
	}
	info, err := n.Namespaces().Get(context.Background(), namespace)
	if err == nil && info.Counts.Keys != int64(keys) {
		err = fmt.Errorf("the opened node has %d keys, want %d", info.Counts.Keys, keys)
	}
	return err
}

// openEmpty opens nodes on new directories.
type openEmpty struct{}

func (openEmpty) measure(b *bench) (result, error) {
	parent, err := os.MkdirTemp(b.dir, "empty-")
	if err != nil {
		return result{}, err
	}
	n := 0
	res, err := b.openings(0, func() (string, error) {
		n++
		return filepath.Join(parent, strconv.Itoa(n)), nil
	})
	return res, errors.Join(err, b.remove(parent))
}

// openStored opens a cleanly closed node with many keys.
type openStored struct{ prepared func() (string, error) }

func (o openStored) measure(b *bench) (result, error) { return b.openings(b.settings.keys, o.prepared) }

// openReplay opens copies of a directory whose state has nothing of its log: the worst case of a
// crash.
type openReplay struct{}

func (openReplay) measure(b *bench) (result, error) {
	parent, err := os.MkdirTemp(b.dir, "replay-")
	if err != nil {
		return result{}, err
	}
	image := filepath.Join(parent, "image")
	if err := b.crashImage(filepath.Join(parent, "node"), image); err != nil {
		return result{}, errors.Join(err, b.remove(parent))
	}
	n := 0
	res, err := b.openings(b.settings.tail, func() (string, error) {
		n++
		dir := filepath.Join(parent, strconv.Itoa(n))
		err := os.CopyFS(dir, os.DirFS(image))
		b.sync()
		return dir, err
	})
	return res, errors.Join(err, b.remove(parent))
}

// crashImage copies the directory of a running node after many single puts. They are in its log,
// but not in its state, because its memory table holds all of them.
func (b *bench) crashImage(dir, image string) error {
	host, err := shard.Open(shard.Config{
		Dir: dir, Durability: shard.Async, MemTableBytes: 2 << 30, MaxLogBytes: 1 << 40, Primitives: primitive.All(),
	})
	if err != nil {
		return err
	}
	b.log("writing a log of %d commands", b.settings.tail)
	router := engine.NewRouter(host)
	store := engine.StoreOf[kv.Store](router, namespace, host.MaxValue())
	err = engine.NewNamespaces(router).Create(context.Background(), namespace, true)
	if err == nil {
		l := load{callers: 256, last: time.Hour, sample: 1, calls: int64(b.settings.tail)}
		_, err = l.run(&subject{ops: 1, call: func(w *worker) error {
			_, err := store.Put(context.Background(), w.keys.take(), b.values.cut(w.rng))
			return err
		}}, l.workers(b.seed))
	}
	if err == nil {
		err = os.CopyFS(image, os.DirFS(dir))
	}
	if tables, _ := filepath.Glob(filepath.Join(stateDir(image), "*.sst")); len(tables) > 0 {
		err = errors.Join(err, fmt.Errorf("the state has %d tables, want none: not all commands would be replayed", len(tables)))
	}
	return errors.Join(err, host.Close(), os.RemoveAll(dir))
}

// memory measures the resident memory of an idle process that has opened an empty node on disk.
type memory struct{}

// idleTime is how long a node has been idle when its memory is measured.
const idleTime = 2 * time.Second

func (memory) measure(b *bench) (res result, err error) {
	dir, err := os.MkdirTemp(b.dir, "idle-")
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	child, err := startChild(idleFlag, dir)
	if err != nil {
		return res, err
	}
	<-time.After(idleTime)
	res.value, err = residentMiB(child.cmd.Process.Pid)
	return res, errors.Join(err, child.end())
}

func residentMiB(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	kib, err := field(string(status), "VmRSS")
	return float64(kib) / 1024, err
}

// field returns the number after "name:" in a file of /proc.
func field(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, name+":"); found {
			number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			return strconv.ParseInt(number, 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s", name)
}

// allocs counts the process's allocations per call, in all goroutines, while nothing else is
// measured.
type allocs struct {
	callers int
	reads   bool
}

func (a allocs) measure(b *bench) (result, error) {
	s := setup{shards: 1}
	l := load{callers: a.callers, last: time.Minute, calls: int64(a.callers) * b.settings.counted, sample: 1 << 30}
	open := b.puts(s)
	if a.reads {
		open, l.existing = b.gets(s, b.stored(b.settings.hot), b.heat), b.settings.hot
	}
	f, err := b.round(open, l)
	return result{value: f.allocs}, err
}
