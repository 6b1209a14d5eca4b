package shard

import "time"

// Stats holds statistics of a node.
type Stats struct {
	Version string
	Node    uint64    // that reports these
	Now     time.Time // by its clock
	Started time.Time
	// "ok"; "no quorum" if it cannot write to some shard; "replicas differ" if a shard has stopped
	// for that reason; "failed"
	State      string
	Durability string // "sync" or "async", as in effect
	Commands   int64  // reads and writes, including those before restarts
	Rate       int64  // reads and writes a second, over the last 10 s
	Waiting    int    // waiting queries: long polls and watches
	Port       Traffic
	Disk       DiskStats
	Nodes      []NodeStats
	Shards     []ShardStats
}

// Traffic is the traffic of the port for clients and other nodes; zero if the node does not listen.
type Traffic struct {
	Connections   int   // opened by clients and other nodes
	BytesReceived int64 // as received; see AddTraffic
	BytesSent     int64
}

// DiskStats describes the disk of the data directory. The bytes are 0 in memory, and if the file
// system does not report them.
type DiskStats struct {
	ReadOnly     bool  // the disk is full: commands that take space are refused
	FreeBytes    int64 // at the last check, at most a second ago
	MinFreeBytes int64 // with less free the node is read-only, up to one and a half times as much
	Full         int64 // operations that found no space since the start
	Slow         int64 // writes and fsyncs that took longer than 2 s since the start
}

// NodeStats describes a member of the cluster as this node sees it.
type NodeStats struct {
	ID      string
	Addr    string // address for clients and other nodes, "" if it does not listen
	Status  string // "healthy", "read-only", "unhealthy"
	Role    string // "active"
	Problem string // its fault, or why it and the reporting node cannot reach each other; "" if none
}

// ShardStats describes this node's replica of a shard.
type ShardStats struct {
	ID      int
	Leader  uint64 // leader node; 0: unknown
	Term    uint64
	Commit  uint64 // last raft index known to be committed
	Applied uint64 // last raft index visible to queries
	LSN     uint64
	Queued  int    // proposals waiting
	Waiting int    // queries waiting
	Problem string // why it has stopped on this node, or ""
}
