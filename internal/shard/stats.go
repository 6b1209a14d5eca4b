package shard

import "time"

// Stats are figures about a node.
type Stats struct {
	Version string
	Node    uint64    // that says this
	Now     time.Time // by its clock
	Started time.Time
	// "ok", "no quorum" if there is a shard to which it can not write, "replicas differ" if one has
	// stopped for that, "failed"
	State      string
	Durability string // "sync", "async": what it does
	Commands   int64  // reads and writes, those before restarts too
	Rate       int64  // reads and writes a second, over the last 10 s
	Waiting    int    // queries that wait: long polls and watches
	Port       Traffic
	Disk       DiskStats
	Nodes      []NodeStats
	Shards     []ShardStats
}

// Traffic is what goes over the port for clients and other nodes, zero if the node does not listen.
type Traffic struct {
	Connections   int   // that others have opened
	BytesReceived int64 // as they came; see AddTraffic
	BytesSent     int64
}

// DiskStats describe the disk under the data directory. The bytes are 0 in memory, and where the
// file system does not tell them.
type DiskStats struct {
	ReadOnly     bool  // the disk is full: commands that take space are refused
	FreeBytes    int64 // at the last look, at most a second ago
	MinFreeBytes int64 // with less free the node is read-only, up to one and a half times as much
	Full         int64 // operations that have found no space since the start
	Slow         int64 // writes and fsyncs that took longer than 2 s since the start
}

// NodeStats describe a member of the cluster as this node sees it.
type NodeStats struct {
	ID      string
	Addr    string // where clients and the other nodes reach it, "" if it does not listen
	Status  string // "healthy", "read-only", "unhealthy"
	Role    string // "active"
	Problem string // what is wrong with it, or keeps it and the node that says this from reaching each other; "" if nothing
}

// ShardStats describe this node's replica of a shard.
type ShardStats struct {
	ID      int
	Leader  uint64 // node, 0: none known
	Term    uint64
	Commit  uint64 // raft index up to which this node knows the log to be committed
	Applied uint64 // raft index up to which queries see it
	LSN     uint64
	Queued  int    // proposals waiting
	Waiting int    // queries waiting
	Problem string // why it has stopped on this node, "" if it has not
}
