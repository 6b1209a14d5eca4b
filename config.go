package floe

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/floedb/floe/internal/budget"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/transport"
	"github.com/floedb/floe/stream/processing"
)

// Durability says when a write is acknowledged.
type Durability uint8

// The durabilities.
const (
	// Sync acknowledges what has been fsynced on a quorum: nothing acknowledged is lost, not even
	// in a power failure of all nodes.
	Sync Durability = 0
	// Async acknowledges what has been written, and fsyncs within Config.SyncInterval: a crash of
	// the process loses nothing that was acknowledged, a power failure at most the last interval.
	// It is for a node alone: what one shard sends another is delivered when it is fsynced, and all
	// shards share one log, so a power failure that takes a delivery back takes back what the
	// sender has forgotten because of it, and exactly once holds. On nodes with logs of their own
	// it would not: there the target could lose that it has applied a message, or the sender that
	// it has been told, and a message would be applied twice or never. So a cluster is always Sync,
	// and says so in its log when Async was asked for.
	Async Durability = 1
)

// String returns "sync" or "async".
func (d Durability) String() string { return shard.Durability(d).String() }

// Config says how to open a node. The zero value is a node in memory.
type Config struct {
	// DataDir is the directory of the node, created when missing and locked while the node is open.
	// "" keeps everything in memory, for tests.
	DataDir string
	// Shards is the number of shards, 1 to 256. It is fixed when the directory is created: 0 takes
	// what is there, or 4.
	Shards int
	// Durability is Sync unless set to Async.
	Durability Durability
	// SyncInterval is how late an Async write may be fsynced. 0 means 100 ms.
	SyncInterval time.Duration
	// ClockCatchUp is how far the time of a node that is alone may be ahead of its clock, because
	// it once ran with a clock that was ahead, to be slowed: time never goes back, but runs at half
	// speed, so that timeouts take twice as long, until the clock has caught up. With a larger lead
	// it runs as fast as the clock and keeps the lead. 0 means 7 days.
	ClockCatchUp time.Duration
	// CacheSize is the memory for cached blocks of the state, in bytes. 0 means 256 MiB with a
	// DataDir and 16 MiB without.
	CacheSize int64
	// Memory is what the node may take in all, in bytes, at least 64 MiB: caches, queues,
	// connections and calls get their parts of it, and what is beyond a part is ErrBusy. It does
	// not bound the program around the node: see runtime/debug.SetMemoryLimit. 0 means no budget:
	// each part has its own bound then, and all of them used up at once take a few gigabytes.
	Memory int64
	// MaxConnections is how many connections clients and other nodes may have open. 0 means as many
	// as Memory allows, or 10,000.
	MaxConnections int
	// MaxInFlight is how many calls of clients may be under way, and MaxWaiting how many may wait
	// for something to happen beside them; more are ErrBusy. 0 means as many as Memory allows, or
	// 65,536 and 100,000.
	MaxInFlight, MaxWaiting int
	// MaxValueSize is the largest value or payload in bytes, at most 16 MiB. 0 means 1 MiB.
	MaxValueSize int
	// Listen is the address, host:port, for clients and for the other nodes of a cluster. "" means
	// none; in a cluster, the node's own of Peers.
	Listen string
	// NodeID is the node's own of Peers, not 0.
	NodeID uint64
	// Peers are the nodes of a cluster, this one too: 3 or 5 as a rule, 7 at most. They are fixed
	// when the directory is created. nil is a node alone, and so is a cluster of one: it needs no
	// Secret, and others can not join it later.
	Peers []Peer
	// Secret is what the nodes of a cluster know each other by, at least 16 bytes, the same for
	// all.
	Secret []byte
	// TLS encrypts Listen, and what the node itself opens to others: Certificates, RootCAs,
	// ClientCAs. nil means clear text.
	TLS *tls.Config
	// Insecure lets clients of other machines do everything while there is no key store. Without it
	// they are refused with ErrUnauthorized until then, unless TLS demands certificates of them
	// (RequireAndVerifyClientCert). Clients of this machine and the other nodes of the cluster are
	// not concerned.
	Insecure bool
	// Funcs are the Go functions that operators of stream-processing jobs call by their names, see
	// processing.Func. In a cluster all nodes should have the same.
	Funcs map[string]processing.Func
	// Logger hears of changes of state and background failures, not of requests. nil means no log.
	Logger *slog.Logger
}

// check returns ErrInvalid naming every bad field, and makes Listen what it is by default.
func (c *Config) check() error {
	shards := shard.Config{Shards: c.Shards, Durability: shard.Durability(c.Durability), SyncInterval: c.SyncInterval,
		CatchUp: c.ClockCatchUp, CacheBytes: c.CacheSize, MaxValue: c.MaxValueSize}
	bad := append(shards.Faults(), c.clusterFaults()...)
	if c.Memory != 0 && c.Memory < budget.Least {
		bad = append(bad, fmt.Errorf("memory %d is neither 0 nor at least %d bytes", c.Memory, budget.Least))
	}
	for _, field := range []struct {
		name  string
		value int
	}{{"connections", c.MaxConnections}, {"calls in flight", c.MaxInFlight}, {"waiting calls", c.MaxWaiting}} {
		if field.value < 0 {
			bad = append(bad, fmt.Errorf("maximum of %s %d is negative", field.name, field.value))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Funcs)) {
		if err := engine.CheckName("function", name); err != nil {
			bad = append(bad, err)
		} else if c.Funcs[name] == nil {
			bad = append(bad, fmt.Errorf("function %q is nil", name))
		}
	}
	if c.Listen != "" && !isHostPort(c.Listen) {
		bad = append(bad, fmt.Errorf("listen address %q is not host:port", c.Listen))
	}
	if len(bad) > 0 {
		return engine.Errorf(ErrInvalid, "floe: configuration: %v", errors.Join(bad...))
	}
	if c.Listen == "" {
		for _, p := range c.Peers {
			if p.ID == c.NodeID {
				c.Listen = p.Addr
			}
		}
	}
	return nil
}

// limits returns what the node bounds itself by.
func (c *Config) limits() *budget.Limits {
	l := budget.Default()
	if c.Memory > 0 {
		shards := c.Shards
		if shards == 0 {
			shards = shard.DefaultShards
		}
		l = budget.Divide(c.Memory, shards)
	}
	if c.CacheSize > 0 {
		l.Cache = c.CacheSize
	}
	for _, set := range []struct {
		limit *int
		to    int
	}{{&l.Connections, c.MaxConnections}, {&l.Calls, c.MaxInFlight}, {&l.Waits, c.MaxWaiting}} {
		if set.to > 0 {
			*set.limit = set.to
		}
	}
	if files := budget.Files(); c.Listen != "" && l.FitFiles(files) && c.Logger != nil {
		c.Logger.Warn("the limit of open files (ulimit -n) is low: fewer connections are taken", "open_files", files, "connections",
			l.Connections)
	}
	return &l
}

// Peer is a node of a cluster.
type Peer struct {
	ID   uint64 // not 0, different for each node, and never given to another one
	Addr string // where the other nodes and clients reach it, host:port
}

func members(peers []Peer) []transport.Member {
	var all []transport.Member
	for _, p := range peers {
		all = append(all, transport.Member(p))
	}
	return all
}

// clusterFaults returns what is wrong with the fields for a cluster.
func (c *Config) clusterFaults() (bad []error) {
	if len(c.Peers) == 0 {
		if c.NodeID > 1 {
			bad = append(bad, fmt.Errorf("node id %d without peers", c.NodeID))
		}
		return bad
	}
	ids := make(map[uint64]bool)
	for _, p := range c.Peers {
		if p.ID == 0 || ids[p.ID] {
			bad = append(bad, fmt.Errorf("peer id %d is 0 or there twice", p.ID))
		}
		if !isHostPort(p.Addr) {
			bad = append(bad, fmt.Errorf("address %q of peer %d is not host:port", p.Addr, p.ID))
		}
		ids[p.ID] = true
	}
	if !ids[c.NodeID] {
		bad = append(bad, fmt.Errorf("node id %d is not among the peers", c.NodeID))
	}
	if n := len(c.Peers); n > maxPeers {
		bad = append(bad, fmt.Errorf("%d peers exceed %d", n, maxPeers))
	}
	if n := len(c.Secret); n < minSecret && len(c.Peers) > 1 {
		bad = append(bad, fmt.Errorf("secret of %d bytes is shorter than %d", n, minSecret))
	}
	return bad
}

const (
	maxPeers  = 7
	minSecret = 16
)

// isHostPort reports whether one can listen at an address, or dial it, for all that its form says.
func isHostPort(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}
