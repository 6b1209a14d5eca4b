package action_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/test/machinetest"
)

// trio returns a cluster of three nodes in this process.
func trio(t *testing.T) []*floe.Node {
	t.Helper()
	var peers []floe.Peer
	for i := range 3 {
		peers = append(peers, floe.Peer{ID: uint64(i + 1), Addr: machinetest.FreeAddr(t)})
	}
	nodes := make([]*floe.Node, len(peers))
	errs := make([]error, len(peers))
	var all sync.WaitGroup
	for i, p := range peers {
		all.Go(func() {
			nodes[i], errs[i] = floe.Open(floe.Config{Shards: 2, Listen: p.Addr, NodeID: p.ID, Peers: peers,
				Secret: []byte("a secret of more than 16 bytes")})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, n := range nodes {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return nodes
}

// TestClusterOfWorkers: workers of a client and of the nodes carry out all runs, although a leading
// node closes meanwhile. Stores that read any replica have ordinary workers.
func TestClusterOfWorkers(t *testing.T) {
	nodes := trio(t)
	client, err := floe.Dial(short(t), []string{nodes[0].Addr().String(), nodes[1].Addr().String(), nodes[2].Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if err := client.Namespaces().Create(short(t), "n", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	s := client.Action("n")
	if _, err := s.Register(short(t), "a", action.Backoff(0, 0)); err != nil {
		t.Fatal(err)
	}
	for i, store := range []*action.Store{s, client.Action("n", floe.Stale()), nodes[1].Action("n"), nodes[2].Action("n", floe.Stale())} {
		working(t, store.Worker(action.WorkerConfig{ID: fmt.Sprint("w", i), Concurrency: 2}).Handle("a",
			func(context.Context, *action.Task) (any, error) {
				return i, nil
			}))
	}
	listed(t, s, func(all []action.WorkerInfo) bool { return len(all) == 4 })
	var all sync.WaitGroup
	for i := range 100 {
		if i == 50 {
			all.Go(func() {
				if err := nodes[0].Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Go(func() {
			ctx := short(t)
			key := action.IdempotencyKey(fmt.Sprint(i))
			for {
				r, err := s.InvokeAndWait(ctx, "a", nil, key)
				if err == nil && r.Status == action.Completed {
					return
				}
				if err == nil || !errors.Is(err, floe.ErrUnavailable) {
					t.Errorf("run %d is %+v, %v", i, r, err)
					return
				}
			}
		})
	}
	all.Wait()
	info, err := s.Get(short(t), "a")
	if err != nil || info.Runs.Completed != 100 || info.Runs.Total != 100 {
		t.Errorf("the action is %+v, %v", info, err)
	}
}
