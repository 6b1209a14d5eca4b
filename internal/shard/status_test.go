package shard

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

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
