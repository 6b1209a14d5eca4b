package floe

import (
	"time"

	"github.com/floedb/floe/internal/shard"
)

// Stats are figures about a node, and about the cluster as the node sees it.
type Stats struct {
	Version    string
	Node       uint64    // ID of the node
	Now        time.Time // by the node's clock
	Started    time.Time
	State      NodeState
	Durability Durability // always Sync on a node of a cluster
	Commands   int64      // total reads and writes, including before restarts: see Traffic
	Rate       int64      // reads and writes a second, over the last 10 s
	Waiting    int        // waiting queries: long polls and watches
	Port       Traffic
	Disk       DiskStats
	Nodes      []NodeStats
	Shards     []ShardStats
}

// NodeState is the state of a node, as the node sees it.
type NodeState string

// The states of a node.
const (
	StateOK             NodeState = "ok"
	StateNoQuorum       NodeState = "no quorum"       // the node cannot write to a shard, itself or through its leader
	StateReplicasDiffer NodeState = "replicas differ" // a shard is stopped on the node because its replica differs from the others
	StateFailed         NodeState = "failed"
)

// Traffic counts the bytes at the port for clients and other nodes, and the bodies of requests and
// responses at the node's dashboards. Counts survive a restart; a node that is killed may lose its
// last five minutes, and an in-memory node starts at zero.
type Traffic struct {
	Connections   int   // opened by others
	BytesReceived int64 // as they came
	BytesSent     int64
}

// DiskStats describes the disk of a node's data directory. The bytes are 0 for an in-memory node,
// and if the file system does not report them.
type DiskStats struct {
	ReadOnly     bool  // the disk is full: operations that take space fail with ErrReadOnly
	FreeBytes    int64 // at the last check, at most a second ago
	MinFreeBytes int64 // with less free space the node becomes read-only, until one and a half times as much is free
	Full         int64 // operations since the start that found no space
	Slow         int64 // writes and fsyncs since the start that took longer than 2 s
}

// NodeStats describes a node of the cluster as the answering node sees it.
type NodeStats struct {
	ID      string
	Addr    string // where clients and the other nodes reach it, "" if it does not listen
	Status  NodeStatus
	Role    NodeRole
	Problem string // what is wrong with it, or keeps it and the node that was asked from reaching each other; "" if nothing
}

// NodeStatus is the status of a node as the answering node sees it.
type NodeStatus string

// The statuses of a node.
const (
	StatusHealthy   NodeStatus = "healthy"
	StatusReadOnly  NodeStatus = "read-only" // its disk is full
	StatusUnhealthy NodeStatus = "unhealthy"
)

// NodeRole is the role of a node in its cluster.
type NodeRole string

// NodeActive is the role of a node that has a replica of each shard.
const NodeActive NodeRole = "active"

// ShardStats describes the node's replica of a shard.
type ShardStats struct {
	ID      int
	Leader  uint64 // node ID, 0: none known
	Term    uint64 // of raft
	Commit  uint64 // index of the log up to which the node has it as committed
	Applied uint64 // index of the log up to which reads see it
	LSN     uint64 // of the last change that reads see
	Queued  int    // proposals waiting
	Waiting int    // queries waiting
	Problem string // why it is stopped on this node, "" if it is not: only stale reads see it then
}

// Rates are the node's figures for each second of the last five minutes, oldest first. All slices
// have the same length, at most 300.
type Rates struct {
	Commands      []int64 // reads and writes
	BytesReceived []int64 // over the port for clients and other nodes
	BytesSent     []int64
}

// AddTraffic adds bytes that another port of the program has transferred to Stats.Port. The
// dashboard calls it for the requests it serves.
func (n *Node) AddTraffic(received, sent int64) { n.host.AddTraffic(received, sent) }

// Rates returns the node's figures for each second of the last five minutes.
func (n *Node) Rates() Rates {
	commands, received, sent := n.host.Rates()
	return Rates{Commands: commands, BytesReceived: received, BytesSent: sent}
}

func newStats(s shard.Stats) Stats {
	all := Stats{
		Version: s.Version, Node: s.Node, Now: s.Now, Started: s.Started, State: NodeState(s.State), Commands: s.Commands, Rate: s.Rate,
		Waiting: s.Waiting,
		Port:    Traffic(s.Port), Disk: DiskStats(s.Disk),
	}
	if s.Durability == Async.String() {
		all.Durability = Async
	}
	for _, n := range s.Nodes {
		all.Nodes = append(all.Nodes, NodeStats{ID: n.ID, Addr: n.Addr, Status: NodeStatus(n.Status), Role: NodeRole(n.Role),
			Problem: n.Problem})
	}
	for _, sh := range s.Shards {
		all.Shards = append(all.Shards, ShardStats(sh))
	}
	return all
}
