package shard

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
)

// TestAdmission: a proposal enters unless the queue is full, or its namespace has used up its
// share. What is refused is not counted.
func TestAdmission(t *testing.T) {
	noLeaks(t)
	c := config(vfs.NewMem())
	c.Shards, c.QueueBytes = 1, 1000
	s := openStepped(t, c)
	defer func() { must(t, s.Close()) }()
	a := &s.host.shards[0].admission
	for _, c := range []struct {
		own, ownBytes int64 // of the namespace
		n, bytes      int64 // of all
		size          int64
		namespace     string
		closing       bool
		want          error
	}{
		{0, 0, 0, 0, 10, "n", false, nil},
		{0, 0, 0, 0, 10, "n", true, engine.ErrClosed},
		{12_287, 0, 12_287, 0, 10, "n", false, nil}, // three quarters
		{12_288, 0, 12_288, 0, 10, "n", false, engine.ErrBusy},
		{12_288, 0, 12_288, 0, 10, "", false, nil},
		{2, 0, maxQueued - 1, 0, 10, "n", false, nil},
		{3, 0, maxQueued - 1, 0, 10, "n", false, engine.ErrBusy},
		{0, 0, maxQueued, 0, 10, "n", false, engine.ErrBusy},
		{0, 0, maxQueued - 1, 0, 10, "", false, nil},
		{0, 0, maxQueued, 0, 10, "", false, engine.ErrBusy},
		{1, 747, 1, 747, 10, "n", false, nil},
		{1, 748, 1, 748, 10, "n", false, engine.ErrBusy},
		{1, 748, 1, 748, 10, "", false, nil},
		{1, 20, 5, 990, 10, "n", false, nil},
		{1, 21, 5, 990, 10, "n", false, engine.ErrBusy},
		{0, 0, 5, 991, 10, "n", false, engine.ErrBusy},
		{0, 0, 5, 990, 10, "", false, nil},
		{0, 0, 5, 991, 10, "", false, engine.ErrBusy},
		{0, 0, 0, 0, 5000, "n", false, nil}, // alone it may be larger
		{0, 0, 0, 0, 5000, "", false, nil},
		{0, 0, 1, 1, 5000, "", false, engine.ErrBusy},
	} {
		p := &proposal{namespace: c.namespace, share: a.shareOf(c.namespace), size: c.size}
		p.share.proposals.Store(c.own)
		p.share.bytes.Store(c.ownBytes)
		a.queued.Store(c.n)
		a.bytes.Store(c.bytes)
		s.host.closing.Store(c.closing)
		err := a.enter(p)
		s.host.closing.Store(false)
		counted, bytes := int64(1), c.size
		if c.want != nil {
			counted, bytes = 0, 0
		}
		if !errors.Is(err, c.want) || a.queued.Load() != c.n+counted || a.bytes.Load() != c.bytes+bytes ||
			p.share.proposals.Load() != c.own+counted || p.share.bytes.Load() != c.ownBytes+bytes {
			t.Errorf("%+v: %v; %d and %d bytes are counted", c, err, a.queued.Load()-c.n, a.bytes.Load()-c.bytes)
		}
		p.share.proposals.Store(0)
		p.share.bytes.Store(0)
		a.queued.Store(0)
		a.bytes.Store(0)
	}
}

// TestCloseWithoutSpace: closing gives up a flush that waits for space, and the marks at the ends
// of log and state, but no other failure.
func TestCloseWithoutSpace(t *testing.T) {
	noLeaks(t)
	s := openStepped(t, config(vfs.NewMem()))
	h := s.host
	flushes := func() int64 { return h.db.Metrics().Flush.Count }
	before := flushes()
	h.space.flush.waiting.Store(1)
	if err := h.flushState(); err != nil || flushes() != before {
		t.Errorf("with a flush that waits: %v, %d flushes", err, flushes()-before)
	}
	h.space.flush.waiting.Store(0)
	if err := h.flushState(); err != nil || flushes() != before+1 {
		t.Errorf("without one: %v, %d flushes", err, flushes()-before)
	}
	other := errors.New("a disk")
	for err, want := range map[error]error{nil: nil, errReserved: nil, other: other} {
		if got := h.unlessFull("mark", err); got != want {
			t.Errorf("%v becomes %v, want %v", err, got, want)
		}
	}
	must(t, s.Close())
}
