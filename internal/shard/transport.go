package shard

import (
	"io"

	"go.etcd.io/raft/v3/raftpb"
)

// Transport carries raft messages and snapshots to other nodes. Messages may be lost, delayed,
// repeated and reordered, but are not altered.
type Transport interface {
	// Send sends messages of a shard, each to the node that it names. It does not wait.
	Send(shard uint16, msgs []*raftpb.Message)
	// SendSnapshot streams body with the message that announces it and calls done once, with nil
	// when the receiver has accepted all of it. It does not wait, and closes body.
	SendSnapshot(shard uint16, msg *raftpb.Message, body io.ReadCloser, done func(error))
}

// Receiver receives messages from a Transport. A Host is one.
type Receiver interface {
	// Receive processes messages for a shard.
	Receive(shard uint16, msgs []*raftpb.Message)
	// ReceiveSnapshot reads body to its end and processes the message that announced it.
	ReceiveSnapshot(shard uint16, msg *raftpb.Message, body io.Reader) error
}
