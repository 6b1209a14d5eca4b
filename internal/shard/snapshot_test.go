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
