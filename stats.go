package floe

import (
	"time"

	"github.com/floedb/floe/internal/shard"
)

// Stats are figures about a node, and the cluster as the node sees it.
type Stats struct {
	Version    string
	Node       uint64    // that says this
	Now        time.Time // by its clock
	Started    time.Time
	State      NodeState
	Durability Durability // a node of a cluster is always Sync
	Commands   int64      // reads and writes, those before restarts too: see Traffic
	Rate       int64      // reads and writes a second, over the last 10 s
	Waiting    int        // queries that wait: long polls and watches
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
	StateNoQuorum       NodeState = "no quorum"       // there is a shard to which the node can not write, itself or through its leader
	StateReplicasDiffer NodeState = "replicas differ" // a shard is stopped on the node because its replica differs from the others
	StateFailed         NodeState = "failed"
)

// Traffic is what goes over the port for clients and other nodes, and over the dashboards of the
// node (there the bodies of requests and answers). Counts go on after a restart; a node that is
// killed may lose those of its last five minutes, and one in memory begins at zero.
type Traffic struct {
	Connections   int   // that others have opened
	BytesReceived int64 // as they came
	BytesSent     int64
}

// DiskStats describe the disk under a node's data directory. The bytes are 0 in memory, and where
// the file system does not tell them.
type DiskStats struct {
	ReadOnly     bool  // the disk is full: what takes space is ErrReadOnly
	FreeBytes    int64 // at the last look, at most a second ago
	MinFreeBytes int64 // with less free the node is read-only, up to one and a half times as much
	Full         int64 // operations that have found no space since the start
	Slow         int64 // writes and fsyncs that took longer than 2 s since the start
}

// NodeStats describe a node of the cluster as the node that was asked sees it.
type NodeStats struct {
	ID      string
	Addr    string // where clients and the other nodes reach it, "" if it does not listen
	Status  NodeStatus
	Role    NodeRole
	Problem string // what is wrong with it, or keeps it and the node that was asked from reaching each other; "" if nothing
}

// NodeStatus is the status of a node, as the node that was asked sees it.
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

// ShardStats describe the node's replica of a shard.
type ShardStats struct {
	ID      int
	Leader  uint64 // node, 0: none known
	Term    uint64 // of raft
	Commit  uint64 // index of the log up to which the node knows it to be committed
	Applied uint64 // index of the log up to which reads see it
	LSN     uint64 // of the last change that reads see
	Queued  int    // proposals waiting
	Waiting int    // queries waiting
	Problem string // why it is stopped on this node, "" if it is not: only stale reads see it then
}

// Rates are what a node has done in each of the last seconds, the oldest first: up to 300, all
// slices of one length.
type Rates struct {
	Commands      []int64 // reads and writes
	BytesReceived []int64 // over the port for clients and other nodes
	BytesSent     []int64
}

// AddTraffic adds bytes to Stats.Port that have gone over another port of the program. The
// dashboard does so for what it serves.
func (n *Node) AddTraffic(received, sent int64) { n.host.AddTraffic(received, sent) }

// Rates returns what the node has done in each second of the last five minutes.
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
