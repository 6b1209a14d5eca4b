package shard

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// TestAsyncInACluster: a cluster node configured as async is sync, and says so in its log and its
// status; it used to report nothing.
func TestAsyncInACluster(t *testing.T) {
	var log bytes.Buffer
	h, err := Open(Config{
		Dir: "node", FS: vfs.NewMem(), Shards: 1, Voters: []uint64{1, 2, 3}, Durability: Async,
		Primitives: []engine.Primitive{toy.Primitive()},
		Logger:     slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), manual: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	s, err := h.Stats()
	if err != nil || s.Durability != "sync" || s.Nodes[0].Problem != asyncUnmet {
		t.Errorf("Stats = %+v, %v, want sync and why", s, err)
	}
	if !strings.Contains(log.String(), asyncUnmet) {
		t.Errorf("the log says\n%s", &log)
	}
}

// TestStats: the state of a node and of each member, as one of them sees it.
func TestStats(t *testing.T) {
	p := newSteppedPair(t)
	h := p.leader().host
	s := h.shards[0]
	problems, away := map[uint64]string{}, map[uint64]bool{}
	h.cfg.Problem = func(id uint64) string { return problems[id] }
	h.cfg.Alive = func(id uint64) bool { return !away[id] }
	for name, c := range map[string]struct {
		change func()
		state  string
		nodes  string
	}{
		"all is well":    {func() {}, "ok", "[healthy: healthy: healthy:]"},
		"unreachable":    {func() { problems[2] = "no route" }, "ok", "[healthy: unhealthy:no route healthy:]"},
		"away":           {func() { away[3] = true }, "ok", "[healthy: healthy: unhealthy:]"},
		"disk is full":   {func() { h.space.level.Store(low) }, "ok", "[read-only: healthy: healthy:]"},
		"no leader":      {func() { s.role.leader.Store(0) }, "no quorum", "[unhealthy: healthy: healthy:]"},
		"another leads":  {func() { s.role.leader.Store(2) }, "ok", "[healthy: healthy: healthy:]"},
		"another, alone": {func() { s.role.leader.Store(2); problems[3] = "no route" }, "ok", "[healthy: healthy: unhealthy:no route]"},
		"out of reach": {func() { s.role.leader.Store(2); problems[2] = "no route" }, "no quorum",
			"[unhealthy: unhealthy:no route healthy:]"},
		"async": {func() { h.cfg.asyncUnmet = true }, "ok", "[healthy:" + asyncUnmet + " healthy: healthy:]"},
		"differs": {func() { s.role.halted.Store(&haltedError{0, "stopped"}) }, "replicas differ",
			"[unhealthy:shard 0 is stopped: stopped healthy: healthy:]"},
	} {
		c.change()
		st, err := h.Stats()
		must(t, err)
		var nodes []string
		for _, n := range st.Nodes {
			nodes = append(nodes, n.Status+":"+n.Problem)
		}
		if got := fmt.Sprint(nodes); got != c.nodes || st.State != c.state || st.Node != 1 {
			t.Errorf("%s: %s, nodes %s; want %s, %s", name, st.State, got, c.state, c.nodes)
		}
		clear(problems)
		clear(away)
		h.space.level.Store(plenty)
		h.cfg.asyncUnmet = false
		s.role.leader.Store(1)
		s.role.halted.Store(nil)
	}
	st, err := h.Stats()
	must(t, err)
	if sh, now := st.Shards[0], p.leader().State(0); len(st.Shards) != 1 || sh.Leader != 1 || sh.Term != now.Term ||
		sh.Applied != now.Applied.Index || sh.LSN != uint64(now.Applied.LSN) || sh.Commit != sh.Applied ||
		sh.Queued != 0 || sh.Waiting != 0 || st.Waiting != 0 || st.Durability != "sync" || !st.Now.Equal(time.UnixMilli(p.clock.Wall())) {
		t.Errorf("the shard is %+v of %+v, want %+v", sh, st, now)
	}
	// An entry that is committed, and not applied yet.
	_, err = p.leader().Submit(0, engine.Skip(0))
	must(t, err)
	for range 4 {
		for _, st := range p.steppers {
			st.Step(0, 0)
			must(t, st.WriteLog())
		}
	}
	if st, err = h.Stats(); err != nil || st.Shards[0].Commit != st.Shards[0].Applied+1 || st.Shards[0].Queued != 1 {
		t.Errorf("with an entry that is committed: %+v, %v", st.Shards[0], err)
	}
	p.until("it is applied", func() bool { return s.admission.queued.Load() == 0 })
}
