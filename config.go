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

// Durability determines when a write is acknowledged.
type Durability uint8

// Durability levels.
const (
	// Sync acknowledges a write when it is fsynced on a quorum: no acknowledged write is lost, not
	// even in a power failure of all nodes.
	Sync Durability = 0
	// Async acknowledges a write when it is written to the log, and fsyncs within
	// Config.SyncInterval. A crash of the process loses no acknowledged write; a power failure
	// loses at most the last interval.
	//
	// Async is for a single node. A message between shards is delivered when it is fsynced, and all
	// shards share one log. A power failure that undoes a delivery therefore also undoes the
	// sender's removal of the message, so delivery stays exactly-once. With a log per node, a power
	// failure could undo only one of the two: the delivery at the target, or the acknowledgement at
	// the sender. The message would then be applied twice or never. A cluster therefore always uses
	// Sync, and logs a message if Async was configured.
	Async Durability = 1
)

// String returns "sync" or "async".
func (d Durability) String() string { return shard.Durability(d).String() }

// Config configures a node. The zero value is an in-memory node.
type Config struct {
	// DataDir is the directory of the node, created if missing and locked while the node is open.
	// "" keeps everything in memory, for tests.
	DataDir string
	// Shards is the number of shards, 1 to 256. It is fixed when the directory is created. 0 means
	// the directory's number, or 4 for a new directory.
	Shards int
	// Durability is Sync by default.
	Durability Durability
	// SyncInterval is the maximum delay until an Async write is fsynced. 0 means 100 ms.
	SyncInterval time.Duration
	// ClockCatchUp is the largest lead of a single node's time over its clock that the node
	// corrects. Such a lead remains if the node once ran with a clock that was ahead. Time never
	// goes back. It runs at half speed until the clock has caught up, so timeouts take twice as
	// long. With a larger lead, time runs as fast as the clock and keeps the lead. 0 means 7 days.
	ClockCatchUp time.Duration
	// CacheSize is the memory for cached blocks of the state, in bytes. 0 means 256 MiB with a
	// DataDir and 16 MiB without.
	CacheSize int64
	// Memory is the memory budget of the node in bytes, at least 64 MiB. Caches, queues,
	// connections and calls each get a share; requests beyond a share are rejected with ErrBusy. It
	// does not bound the host program: see runtime/debug.SetMemoryLimit. 0 means no budget: each
	// then has its own bound, and together they can take a few gigabytes.
	Memory int64
	// MaxConnections is the maximum number of open connections from clients and other nodes. 0
	// means as many as Memory allows, or 10,000.
	MaxConnections int
	// MaxInFlight is the maximum number of client calls in flight. MaxWaiting is the maximum number
	// of calls that wait for an event, which are counted separately. Further calls are ErrBusy. 0
	// means as many as Memory allows, or 65,536 and 100,000.
	MaxInFlight, MaxWaiting int
	// MaxValueSize is the largest value or payload in bytes, at most 16 MiB. 0 means 1 MiB.
	MaxValueSize int
	// Listen is the address, host:port, for clients and for the other nodes of a cluster. "" means
	// none; in a cluster, the node's address in Peers.
	Listen string
	// NodeID is the ID of this node in Peers, not 0.
	NodeID uint64
	// Peers are the nodes of a cluster, including this one: usually 3 or 5, at most 7. They are
	// fixed when the directory is created. nil or one peer means a single node: it needs no Secret,
	// and other nodes cannot join it later.
	Peers []Peer
	// Secret authenticates the nodes of a cluster to each other. It has at least 16 bytes and is
	// the same on all nodes.
	Secret []byte
	// TLS encrypts connections to Listen and those the node opens to others: Certificates, RootCAs,
	// ClientCAs. nil means clear text.
	TLS *tls.Config
	// Insecure gives clients on other machines full access while there is no key store. Otherwise
	// they are refused with ErrUnauthorized until one exists, unless TLS requires client
	// certificates (RequireAndVerifyClientCert). Clients on this machine and the other nodes of the
	// cluster are not affected.
	Insecure bool
	// Funcs are the Go functions that operators of stream-processing jobs call by name, see
	// processing.Func. All nodes of a cluster should have the same ones.
	Funcs map[string]processing.Func
	// Logger receives changes of state and background failures, not requests. nil means no log.
	// Records about another node have its ID in the attribute "node".
	Logger *slog.Logger
}

// check returns an ErrInvalid that names every bad field. It also sets the default of Listen.
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

// limits returns the resource limits of the node.
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
		c.Logger.Warn("the limit of open files (ulimit -n) is low: fewer connections are accepted", "open_files", files, "connections",
			l.Connections)
	}
	return &l
}

// Peer is a node of a cluster.
type Peer struct {
	ID   uint64 // not 0, unique in the cluster, never reused for another node
	Addr string // host:port at which clients and other nodes reach it
}

func members(peers []Peer) []transport.Member {
	var all []transport.Member
	for _, p := range peers {
		all = append(all, transport.Member(p))
	}
	return all
}

// clusterFaults returns the errors in the cluster fields.
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
			bad = append(bad, fmt.Errorf("peer id %d is 0 or a duplicate", p.ID))
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

// isHostPort reports whether an address has the form required for listening and dialing.
func isHostPort(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}
