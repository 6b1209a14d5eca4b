package shard

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
)

// crampedFS refuses to open a file while the process has too many open.
type crampedFS struct {
	vfs.FS
	cramped atomic.Bool
	refused atomic.Int64
}

func (f *crampedFS) refuse(name string) error {
	if !f.cramped.Load() {
		return nil
	}
	f.refused.Add(1)
	return &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
}

func (f *crampedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.refuse(name); err != nil {
		return nil, err
	}
	return f.FS.Create(name, c)
}

func (f *crampedFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := f.refuse(name); err != nil {
		return nil, err
	}
	return f.FS.Open(name, opts...)
}

func (f *crampedFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := f.refuse(name); err != nil {
		return nil, err
	}
	return f.FS.OpenReadWrite(name, c, opts...)
}

func (f *crampedFS) OpenDir(name string) (vfs.File, error) {
	if err := f.refuse(name); err != nil {
		return nil, err
	}
	return f.FS.OpenDir(name)
}

func (f *crampedFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.refuse(name); err != nil {
		return nil, err
	}
	return f.FS.ReuseForWrite(old, name, c)
}

// TestNoDescriptor: a node that cannot open further files becomes read-only, as on a full disk. It
// accepts writes again as soon as it can open files: it does not fail permanently.
func TestNoDescriptor(t *testing.T) {
	noLeaks(t)
	s := seed(t)
	cramped := &crampedFS{FS: newSmallFS(vfs.NewCrashableMem(), 64<<20)}
	var log lockedLog
	c := smallConfig(cramped)
	c.Logger = log.logger()
	f := &filler{t: t, rng: rand.New(rand.NewPCG(s, 15)), want: make(map[string][]byte)}
	f.attach(open(t, c))
	for range 3 {
		for range 20 {
			err := f.put()
			if errors.Is(err, engine.ErrReadOnly) { // see writable
				f.writable()
			} else if err != nil {
				t.Fatal(err)
			}
		}
		before := cramped.refused.Load()
		cramped.cramped.Store(true)
		for late := time.Now().Add(10 * time.Second); cramped.refused.Load() == before && time.Now().Before(late); {
			f.try()
		}
		f.try()
		if err := f.host.Err(); err != nil {
			t.Fatalf("the node has failed: %v", err)
		}
		cramped.cramped.Store(false)
		f.writable()
		f.check("with descriptors again")
	}
	closeHost(t, f.host)
	if text := log.text(); !strings.Contains(text, "too many open files") {
		t.Errorf("the log does not say why:\n%s", text)
	}
}
