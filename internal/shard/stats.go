package shard

import "time"

// Stats are figures about a node.
type Stats struct {
	Version  string
	Started  time.Time
	State    string // "ok", "no quorum", "failed"
	Commands int64  // reads and writes since the start
	Rate     int64  // reads and writes a second, over the last 10 s
	Waiting  int    // queries that wait: long polls and watches
	Nodes    []NodeStats
	Shards   []ShardStats
}

// NodeStats describe a member of the cluster as this node sees it.
type NodeStats struct {
	ID     string
	Status string // "healthy", "unhealthy"
	Role   string // "active"
}

// ShardStats describe this node's replica of a shard.
type ShardStats struct {
	ID      int
	Leader  uint64 // node, 0: none known
	Term    uint64
	Applied uint64 // raft index
	LSN     uint64
	Queued  int // proposals waiting
	Waiting int // queries waiting
}
