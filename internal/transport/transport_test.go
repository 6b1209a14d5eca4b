package transport

import (
	"errors"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/floedb/floe/internal/codec"
)

// TestMessageTypes decodes a message of every raft type: types that raft only sends to itself, or
// cannot handle, are rejected from other nodes.
func TestMessageTypes(t *testing.T) {
	fromOthers := map[raftpb.MessageType]bool{
		raftpb.MsgApp: true, raftpb.MsgAppResp: true, raftpb.MsgVote: true, raftpb.MsgVoteResp: true, raftpb.MsgPreVote: true,
		raftpb.MsgPreVoteResp: true, raftpb.MsgHeartbeat: true, raftpb.MsgHeartbeatResp: true, raftpb.MsgTimeoutNow: true,
		raftpb.MsgTransferLeader: true,
		raftpb.MsgReadIndex:      true, // and is dropped
	}
	for k, name := range raftpb.MessageType_name {
		kind := raftpb.MessageType(k)
		if err := decodeBack(t, &raftpb.Message{Type: kind.Enum()}); (err == nil) != fromOthers[kind] {
			t.Errorf("%s: %v, want it taken: %v", name, err, fromOthers[kind])
		}
	}
	entry := func(index uint64) *raftpb.Entry { return &raftpb.Entry{Index: new(index), Term: new(uint64(1))} }
	for name, c := range map[string]struct {
		m    *raftpb.Message
		want bool
	}{
		"unknown type": {&raftpb.Message{Type: raftpb.MessageType(99).Enum()}, false},
		"entries in order": {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(4)),
			Entries: []*raftpb.Entry{entry(5), entry(6)}}, true},
		"a hole before them": {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(4)),
			Entries: []*raftpb.Entry{entry(6)}}, false},
		"a hole between them": {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(4)),
			Entries: []*raftpb.Entry{entry(5), entry(7)}}, false},
		"twice the same": {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(4)),
			Entries: []*raftpb.Entry{entry(5), entry(5)}}, false},
		"index beyond all": {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(^uint64(0)),
			Entries: []*raftpb.Entry{entry(1)}}, false},
		"answer about a read":      {&raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Context: make([]byte, 8)}, true},
		"answer about half a read": {&raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Context: make([]byte, 7)}, false},
		"answer about a long read": {&raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Context: make([]byte, 9)}, false},
		"snapshot with other words": {&raftpb.Message{Type: raftpb.MsgApp.Enum(),
			Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(3))}}}, false},
	} {
		if err := decodeBack(t, c.m); (err == nil) != c.want {
			t.Errorf("%s: %v, want it taken: %v", name, err, c.want)
		}
	}
}

// decodeBack decodes a message of node 2 for node 1.
func decodeBack(t *testing.T, m *raftpb.Message) error {
	t.Helper()
	m.From, m.To = new(uint64(2)), new(uint64(1))
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = decodeMessage(append(codec.AppendUvarint(nil, 0), b...), 2, 1)
	if err != nil && !errors.Is(err, errFrame) {
		t.Errorf("%v is no errFrame", err)
	}
	return err
}
