package e2e

import (
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/test/machinetest"
)

// journal collects log lines of level warning and above.
type journal struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) has(text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.b.String(), text)
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// TestMisconfiguredNode: a node that receives the others' messages but cannot send to them is
// unhealthy and gives the reason; so do the others. Formerly it reported "ok".
func TestMisconfiguredNode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change      func(*testing.T, *floe.Config)
		here, there string // what node 3 and node 1 report about each other
	}{
		"wrong addresses": {func(t *testing.T, c *floe.Config) {
			c.Peers[0].Addr, c.Peers[1].Addr = machinetest.FreeAddr(t), machinetest.FreeAddr(t)
		}, "connection refused", "no heartbeat from it"},
		"swapped addresses": {func(_ *testing.T, c *floe.Config) {
			c.Peers[0].Addr, c.Peers[1].Addr = c.Peers[1].Addr, c.Peers[0].Addr
		}, "this is node 2, not 1", "this is node 1, not 2"},
		"another secret": {func(_ *testing.T, c *floe.Config) {
			c.Secret = []byte("the secret of somebody else")
		}, "does not have this cluster's secret", "does not have this cluster's secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var peers []floe.Peer
			for i := range 3 {
				peers = append(peers, floe.Peer{ID: uint64(i + 1), Addr: machinetest.FreeAddr(t)})
			}
			var nodes []*floe.Node
			logs := make([]journal, 3)
			for i, p := range peers {
				conf := floe.Config{Shards: 2, Listen: p.Addr, NodeID: p.ID, Peers: append([]floe.Peer(nil), peers...),
					Secret: []byte(secret), Logger: logs[i].logger()}
				if i == 2 {
					c.change(t, &conf)
				}
				n, err := floe.Open(conf)
				if err != nil {
					t.Fatal(err)
				}
				defer n.Close()
				nodes = append(nodes, n)
			}
			problem := func(from, of int) (state, text string) {
				s, err := nodes[from].Stats(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return string(s.State), s.Nodes[of].Problem
			}
			await(t, "what is wrong to be told", func() bool {
				state, here := problem(2, 0)
				other, there := problem(0, 2)
				return state == "no quorum" && other == "ok" && strings.Contains(here, c.here) && strings.Contains(there, c.there) &&
					logs[2].has(c.here) && logs[0].has(c.there)
			})
		})
	}
}
