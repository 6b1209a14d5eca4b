package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe"
)

// network returns the rows of clients and of clusters. Clients, nodes and callers share the
// processors.
func (b *bench) network() (rows []row) {
	one := setup{shards: 1}
	for _, callers := range []int{1, 64, 256} {
		rows = append(rows, row{
			name: fmt.Sprintf("client/put/%d", callers), against: limitEmbedded, bar: clientBar(callers),
			work: duel{load: b.writes(callers), floe: b.puts(setup{shards: 1, client: true}), limit: b.puts(one)},
		})
	}
	for _, callers := range []int{1, 64, 256} {
		l := load{callers: callers, last: b.settings.last, sample: 1, existing: b.settings.hot}
		hot := b.stored(b.settings.hot)
		rows = append(rows, row{
			name: fmt.Sprintf("client/get/%d", callers), against: limitEmbedded, bar: clientBar(callers),
			work: duel{load: l, floe: b.gets(setup{shards: 1, client: true}, hot, b.heat), limit: b.gets(one, hot, b.heat)},
		})
	}
	rows = append(rows, row{
		name: "client/put/1/over L5", bar: 150, unit: "µs", absolute: true,
		work: overLatency{duel{load: b.writes(1), floe: b.puts(setup{shards: 1, client: true}), limit: b.bareFile(0)}},
	})
	for _, callers := range []int{64, 256} {
		bar := 0.0
		if callers == 64 {
			bar = 0.35
		}
		rows = append(rows, row{
			name: fmt.Sprintf("cluster/put/%d", callers), against: limitOne, bar: bar,
			work: duel{load: b.writes(callers), floe: b.puts(setup{shards: 1, nodes: 3}), limit: b.puts(one)},
		}, row{
			name: fmt.Sprintf("cluster/put/%d/processes", callers), against: limitOne, bar: bar,
			work: duel{load: b.writes(callers), floe: b.puts(setup{shards: 1, nodes: 3, processes: true}), limit: b.puts(one)},
		}, row{
			name: fmt.Sprintf("threefold/%d", callers), against: limitL1,
			work: duel{load: b.writes(callers), floe: b.threeFiles(), limit: b.bareFile(0)},
		})
	}
	return rows
}

// clientBar is the bar for throughput. One caller is limited by latency, which has its own bar.
func clientBar(callers int) float64 {
	if callers == 64 {
		return 0.5
	}
	return 0
}

// overLatency measures the difference in median latency between floe and its limit.
type overLatency struct{ duel }

func (o overLatency) measure(b *bench) (result, error) {
	res, err := o.duel.measure(b)
	res.value = float64(res.p50-res.limit.p50) / float64(time.Microsecond)
	return res, err
}

// openClient opens a node, and a client that calls it through a loopback connection.
func (s setup) openClient(dir string) (*node, error) {
	n, err := floe.Open(floe.Config{DataDir: dir, Shards: s.shards, Listen: loopback})
	if err != nil {
		return nil, err
	}
	c, err := floe.Dial(context.Background(), []string{n.Addr().String()})
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	opened := &node{store: c.KV(namespace), queues: c.Queue(namespace), streams: c.Stream(namespace), commit: commitTo(c),
		close: func() error { return errors.Join(c.Close(), n.Close()) }}
	return opened, s.create(creator(c))
}

const loopback = "127.0.0.1:0"

// openCluster opens the nodes of a cluster on one disk. Calls go to the first node, which leads.
func (s setup) openCluster(dir string) (_ *node, err error) {
	members, err := s.members(dir)
	if err != nil {
		return nil, err
	}
	var closers []func() error
	closeAll := func() (err error) {
		for _, end := range closers {
			err = errors.Join(err, end())
		}
		return err
	}
	var first *floe.Node
	for _, m := range slices.Backward(members) {
		if s.processes && m.ID != 1 {
			var other *child
			if other, err = startMember(m); err == nil {
				closers = append(closers, other.end)
			}
		} else if first, err = floe.Open(m.config()); err == nil {
			closers = append(closers, first.Close)
		}
		if err != nil {
			return nil, errors.Join(err, closeAll())
		}
	}
	opened := &node{store: first.KV(namespace), commit: commitTo(first), close: closeAll}
	return opened, errors.Join(leads(first), s.create(creator(first)))
}

// members returns the configurations of the nodes of a cluster.
func (s setup) members(dir string) (all []membership, err error) {
	var peers []floe.Peer
	for i := range s.nodes {
		l, err := net.Listen("tcp", loopback)
		if err != nil {
			return nil, err
		}
		peers = append(peers, floe.Peer{ID: uint64(i + 1), Addr: l.Addr().String()})
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	for i, p := range peers {
		all = append(all, membership{filepath.Join(dir, strconv.Itoa(i)), p.ID, s.shards, peers, []byte("a secret of the bench")})
	}
	return all, nil
}

// leads waits until the first node leads the first shard. It then stays the leader: leaders are
// spread soon after a start.
func leads(n *floe.Node) error {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-poll.C {
		stats, err := n.Stats(context.Background())
		if err != nil {
			return err
		}
		if stats.Shards[0].Leader == 1 {
			return nil
		}
	}
	return errors.New("the first node does not lead after a minute")
}

// threeFiles is L1 as for three nodes on one disk: appended bytes go to three files, and are
// durable when all files are synced.
func (b *bench) threeFiles() side {
	return func(dir string) (*subject, error) {
		var all copies
		for i := range 3 {
			f, err := newFS(0).Create(filepath.Join(dir, strconv.Itoa(i)), vfs.WriteCategoryUnspecified)
			if err != nil {
				return nil, errors.Join(err, all.Close())
			}
			all.files = append(all.files, f)
		}
		return b.appends(newGroupCommit(&all)), nil
	}
}

// copies is a file that writes to several files.
type copies struct {
	vfs.File // nil: only the methods below are called
	files    []vfs.File
}

func (c *copies) Write(p []byte) (n int, err error) {
	for _, f := range c.files {
		if n, err = f.Write(p); err != nil {
			return n, err
		}
	}
	return n, nil
}

// SyncData syncs all files concurrently.
func (c *copies) SyncData() error {
	errs := make([]error, len(c.files))
	var done sync.WaitGroup
	for i, f := range c.files {
		done.Go(func() { errs[i] = f.SyncData() })
	}
	done.Wait()
	return errors.Join(errs...)
}

func (c *copies) Close() (err error) {
	for _, f := range c.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
