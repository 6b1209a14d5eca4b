package shard

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// slowFS delays every write to the log and every fsync.
type slowFS struct {
	vfs.FS
	delay atomic.Int64
	hang  chan struct{} // if the delay is negative, operations wait until it is closed
}

func (s *slowFS) wait() {
	switch delay := time.Duration(s.delay.Load()); {
	case delay < 0:
		<-s.hang
	case delay > 0:
		<-time.After(delay)
	}
}

func (s *slowFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, c)
	return &slowFile{f, s}, err
}

func (s *slowFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.ReuseForWrite(oldname, newname, c)
	return &slowFile{f, s}, err
}

type slowFile struct {
	vfs.File
	fs *slowFS
}

func (f *slowFile) Sync() error {
	f.fs.wait()
	return f.File.Sync()
}

func (f *slowFile) SyncData() error {
	f.fs.wait()
	return f.File.SyncData()
}

// TestSlowDisk checks that a write is acknowledged however slow the disk is, up to the time when it
// counts as stuck. The node must report it.
func TestSlowDisk(t *testing.T) {
	for _, c := range []struct {
		delay time.Duration
		slow  int64
	}{{100 * time.Millisecond, 0}, {3 * time.Second, 1}, {19 * time.Second, 1}} {
		t.Run(c.delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log lockedLog
				slow := &slowFS{FS: vfs.NewMem()}
				cfg := config(slow)
				cfg.Logger = log.logger()
				h := open(t, cfg)
				// The log writer's remaining work after the open must be done first: it would wait
				// for a mutex. In a bubble time stands still while any goroutine waits for a mutex,
				// even for the one that holds it.
				synctest.Wait()
				slow.delay.Store(int64(c.delay))
				start := time.Now()
				if _, err := h.Propose(t.Context(), 0, toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In(homed(0))); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took < c.delay || took > c.delay+time.Second {
					t.Errorf("the write took %v on a disk that takes %v", took, c.delay)
				}
				slow.delay.Store(0)
				if st := stats(t, h); st.Disk.Slow != c.slow || st.State != "ok" {
					t.Errorf("%d slow operations in state %q, want %d in state ok", st.Disk.Slow, st.State, c.slow)
				}
				if got := int64(log.count("disk: slow\"")); got != c.slow {
					t.Errorf("%d warnings, want %d:\n%s", got, c.slow, log.text())
				}
				closeHost(t, h)
			})
		})
	}
}

// TestStuckDisk checks that a node with a disk that does not respond fails instead of blocking its
// callers.
func TestStuckDisk(t *testing.T) {
	slow := &slowFS{FS: vfs.NewMem(), hang: make(chan struct{})}
	c := config(slow)
	c.SlowDisk, c.StuckDisk = 10*time.Millisecond, 100*time.Millisecond
	h := open(t, c)
	slow.delay.Store(-1)
	_, err := h.Propose(context.Background(), 0, toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In(homed(0)))
	if !errors.Is(err, engine.ErrUnknownOutcome) || !strings.Contains(err.Error(), "the disk has not answered for 100ms") {
		t.Errorf("Propose on a disk that hangs = %v, want ErrUnknownOutcome with the reason", err)
	}
	if st := stats(t, h); st.State != "failed" {
		t.Errorf("state %q, want failed", st.State)
	}
	close(slow.hang)
	if err := h.Close(); err == nil {
		t.Error("Close of a failed node = nil, want the failure")
	}
}
