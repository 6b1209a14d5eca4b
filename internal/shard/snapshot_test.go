package shard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// exported returns the snapshot of shard 0 of a host with some rows.
func exported(t testing.TB, counters int) []byte {
	t.Helper()
	h, err := Open(config(vfs.NewMem()))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for i := range counters {
		cmd := toy.Command{Kind: toy.Add, Name: fmt.Sprintf("counter-%d", i), Delta: 1}.In(homed(0))
		if _, err := h.Propose(context.Background(), 0, cmd); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	rows, _, err := h.shards[0].stateRows()
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if err := writeSnapshot(&b, rows); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDamagedSnapshotIsRefused(t *testing.T) {
	good := exported(t, 3000)
	rows := 0
	if err := readSnapshot(bytes.NewReader(good), 0, func(k, v []byte) error { rows++; return nil }); err != nil || rows < 3000 {
		t.Fatalf("reading the undamaged snapshot: %d rows, %v", rows, err)
	}
	none := func(k, v []byte) error { return nil }
	for i := 0; i < len(good); i += 1 + len(good)/500 {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if err := readSnapshot(bytes.NewReader(bad), 0, none); !errors.Is(err, errSnapshot) {
			t.Errorf("bit flipped in byte %d: %v, want errSnapshot", i, err)
		}
		if err := readSnapshot(bytes.NewReader(good[:i]), 0, none); !errors.Is(err, errSnapshot) {
			t.Errorf("cut to %d bytes: %v, want errSnapshot", i, err)
		}
	}
	if err := readSnapshot(bytes.NewReader(good), 1, none); !errors.Is(err, errSnapshot) {
		t.Errorf("read as another shard's: %v, want errSnapshot", err)
	}
	stop := errors.New("stop")
	if err := readSnapshot(bytes.NewReader(good), 0, func(k, v []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the receiver's error became %v", err)
	}
}

// TestForgedSnapshotIsRefused uses streams with valid checksums.
func TestForgedSnapshotIsRefused(t *testing.T) {
	lower, _ := engine.Bounds(0)
	row := func(name string) []byte {
		return codec.AppendBytes(codec.AppendBytes(nil, append(slices.Clone(lower), name...)), []byte("v"))
	}
	a, b := row("a"), row("b")
	for name, c := range map[string]struct {
		blocks [][]byte
		rows   uint64 // as stated at the end
		want   string
	}{
		"nothing wrong": {[][]byte{append(slices.Clone(a), b...)}, 2, ""},
		"lost block":    {[][]byte{a}, 2, "1 rows, its end says 2"},
		"out of order":  {[][]byte{b, a}, 2, "out of order"},
		"twice":         {[][]byte{a, a}, 2, "out of order"},
		"half a row":    {[][]byte{a, b[:len(b)-1]}, 2, "malformed snapshot"},
	} {
		var stream bytes.Buffer
		w := bufio.NewWriter(&stream)
		w.WriteString(snapshotMagic)
		for _, block := range c.blocks {
			writeBlock(w, uint32(len(block)), block)
		}
		writeBlock(w, 0, binary.LittleEndian.AppendUint64(nil, c.rows))
		must(t, w.Flush())
		err := readSnapshot(&stream, 0, func(k, v []byte) error { return nil })
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, errSnapshot) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	huge := binary.LittleEndian.AppendUint32([]byte(snapshotMagic), maxSnapshotBlock+1)
	if err := readSnapshot(bytes.NewReader(append(huge, make([]byte, 4)...)), 0, nil); !errors.Is(err, errSnapshot) ||
		!strings.Contains(err.Error(), "block of 67108865 bytes") {
		t.Errorf("a block that is too large: %v, want errSnapshot that tells its size", err)
	}
}

// TestBrokenSnapshotStreamLeavesNothing checks that a truncated stream changes neither the state
// nor the directory.
func TestBrokenSnapshotStreamLeavesNothing(t *testing.T) {
	noLeaks(t)
	good := exported(t, 3000)
	fsys := vfs.NewMem()
	h := open(t, config(fsys))
	defer closeHost(t, h)
	msg := &raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: &raftpb.Snapshot{
		Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(900)), Term: new(uint64(9)),
			ConfState: &raftpb.ConfState{Voters: []uint64{1}}},
	}}
	before, err := fsys.List("node/state")
	must(t, err)
	if err := h.ReceiveSnapshot(0, msg, io.LimitReader(bytes.NewReader(good), int64(len(good)/2))); !errors.Is(err, errSnapshot) {
		t.Errorf("ReceiveSnapshot of half a stream = %v, want errSnapshot", err)
	}
	if err := h.ReceiveSnapshot(7, msg, bytes.NewReader(good)); err == nil {
		t.Error("ReceiveSnapshot for an unknown shard = nil, want an error")
	}
	after, err := fsys.List("node/state")
	must(t, err)
	if len(after) != len(before) {
		t.Errorf("files %v, were %v", after, before)
	}
	if _, err := h.Propose(context.Background(), 0, engine.Skip(0)); err != nil {
		t.Errorf("Propose after a broken snapshot: %v", err)
	}
}

func FuzzSnapshot(f *testing.F) {
	good := exported(f, 5)
	f.Add(good)
	f.Add(good[:20])
	f.Add([]byte(snapshotMagic + "\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rows := 0
		err := readSnapshot(bytes.NewReader(b), 0, func(k, v []byte) error { rows++; return nil })
		if err != nil && !errors.Is(err, errSnapshot) {
			t.Errorf("readSnapshot = %v, want errSnapshot", err)
		}
	})
}

func FuzzFormat(f *testing.F) {
	f.Add([]byte(`{"floe_format":1,"shards":4,"node_id":1,"voters":[1]}`))
	f.Add([]byte(`{"floe_format":3}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys := vfs.NewMem()
		must(t, writeFile(fsys, "FORMAT", b))
		if got, err := readFormat(fsys, ""); err == nil &&
			(got.Shards < 1 || got.Shards > MaxShards || got.Version < oldestFormat || got.Version > FormatVersion) {
			t.Errorf("readFormat(%q) = %+v", b, got)
		}
	})
}

// reading is a transport that reads snapshots to their end.
type reading struct{ nowhere }

func (reading) SendSnapshot(_ uint16, _ *raftpb.Message, body io.ReadCloser, done func(error)) {
	_, err := io.Copy(io.Discard, body)
	done(errors.Join(err, body.Close()))
}

// TestExports: states for followers are bounded in number, each is sent once, and those that no
// follower has fetched are released when the host closes.
func TestExports(t *testing.T) {
	noLeaks(t)
	c := config(vfs.NewMem())
	c.Shards, c.Transport = 1, reading{}
	st := openStepped(t, c)
	s := st.host.shards[0]
	names := make(map[string]bool)
	for range maxExports {
		snap, err := s.prepareExport()
		must(t, err)
		if m := snap.GetMetadata(); m.GetIndex() != st.State(0).Applied.Index || m.GetTerm() != st.State(0).Applied.Term ||
			!slices.Equal(m.GetConfState().GetVoters(), []uint64{1}) {
			t.Errorf("the announcement is %v", snap)
		}
		names[string(snap.GetData())] = true
	}
	if _, err := s.prepareExport(); !errors.Is(err, raft.ErrSnapshotTemporarilyUnavailable) || len(names) != maxExports {
		t.Errorf("one more than %d: %v; %d names", maxExports, err, len(names))
	}
	send := func(what string, data []byte, ok bool) {
		t.Helper()
		s.mail.take(input{})
		s.sendSnapshot(&raftpb.Message{To: new(uint64(9)), Snapshot: &raftpb.Snapshot{Data: data}})
		if got := s.mail.take(input{}).reports; len(got) != 1 || got[0] != (snapshotReport{9, ok}) {
			t.Errorf("%s: reports %v, want %t", what, got, ok)
		}
	}
	id := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	send("no export", nil, false)
	send("too short", id(3)[:7], false)
	send("too long", append(id(3), 0), false)
	send("unknown", id(0), false)
	send("known", id(3), true)
	send("sent before", id(3), false)
	if _, err := s.prepareExport(); err != nil {
		t.Errorf("with one sent there is no room: %v", err)
	}
	must(t, st.Close()) // Pebble reports iterators that are left
}

// TestReceiveSnapshotRefuses: the receiver refuses snapshots of unknown shards, malformed ones, and
// all when it has closed.
func TestReceiveSnapshotRefuses(t *testing.T) {
	noLeaks(t)
	h := open(t, config(vfs.NewMem()))
	announced := &raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: &raftpb.Snapshot{
		Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(50)), Term: new(uint64(1))}}}
	receive := func(id uint16, m *raftpb.Message) string {
		err := h.ReceiveSnapshot(id, m, strings.NewReader("x"))
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for name, c := range map[string]struct {
		id   uint16
		m    *raftpb.Message
		want string
	}{
		"no such shard": {2, announced, "unknown shard 2"},
		"no snapshot":   {1, &raftpb.Message{Type: raftpb.MsgSnap.Enum()}, "unknown shard 1"},
		"malformed":     {1, announced, "shard 1: receive snapshot: malformed snapshot"},
	} {
		if got := receive(c.id, c.m); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %q", name, got, c.want)
		}
	}
	if left, err := h.fs.List(h.stateDir); err != nil || slices.ContainsFunc(left,
		func(name string) bool { return strings.HasPrefix(name, spoolPrefix) }) {
		t.Errorf("files %v are left, %v", left, err)
	}
	closeHost(t, h)
	if got := receive(1, announced); !strings.Contains(got, "closed") {
		t.Errorf("a closed host: %s", got)
	}
}
