package peer

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

func frameOf(b []byte) []byte {
	return appendFrame(nil, func(dst []byte) []byte { return append(dst, b...) })
}

func FuzzFrame(f *testing.F) {
	f.Add(frameOf([]byte("payload")))
	f.Add([]byte{0xff, 0xff, 0xff, 0x7f, 1, 2, 3, 4, 5})
	f.Add(append(frameOf([]byte("payload"))[:frameHead], "Payload"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 20
		got, err := readFrame(newReader(bytes.NewReader(b)), nil, limit)
		if err == nil && !bytes.HasPrefix(b, frameOf(got)) {
			t.Errorf("%x is read as a frame of %x", b, got)
		}
		if err == nil && cap(got) > 2*len(b)+1<<20 {
			t.Errorf("%d bytes take %d", len(b), cap(got))
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add((&request{kind: askQuery, id: 7, flags: flagStale, shard: 3, body: []byte("b")}).appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := decodeRequest(b)
		if err == nil && !bytes.Equal(q.appendTo(nil), b) {
			t.Errorf("%x is read as %+v", b, q)
		}
		a, err := decodeAnswer(b)
		if err == nil && !bytes.Equal(a.appendTo(nil), b) {
			t.Errorf("%x is read as %+v", b, a)
		}
	})
}

func FuzzTake(f *testing.F) {
	cmd := engine.Command{Machine: 3, Kind: 4, Namespace: "n", Body: []byte("b")}
	f.Add(appendTake(nil, engine.Take{Command: cmd}))
	f.Add(appendTake(nil, engine.Take{Command: cmd, Wait: time.Hour, Waited: time.Microsecond}))
	f.Add(appendTake(nil, engine.Take{Command: cmd, Wait: maxTakeWait + time.Microsecond}))
	f.Fuzz(func(t *testing.T, b []byte) {
		take, err := decodeTake(b)
		switch {
		case err != nil && !errors.Is(err, engine.ErrInvalid):
			t.Errorf("%x: %v is no refusal", b, err)
		case err == nil && (take.Wait < 0 || take.Wait > maxTakeWait || take.Waited < 0 || take.Waited > maxTakeWait):
			t.Errorf("%x waits for %v and has waited for %v", b, take.Wait, take.Waited)
		case err == nil && !bytes.Equal(appendTake(nil, take), b):
			t.Errorf("%x is read as %+v", b, take)
		}
	})
}

func FuzzHandshake(f *testing.F) {
	h := hello{version: 1, role: roleNode, to: 2, identity: shard.Identity{Node: 1, Directory: "d", Boot: 3, Run: "r"}, past: []string{"p", "q"}, shards: 4, cluster: "c", nonce: make([]byte, nonceBytes)}
	w := welcome{identity: h.identity, shards: 4, cluster: "c", maxValue: 1 << 20, members: testMembers, nonce: h.nonce, proof: []byte("proof")}
	f.Add(encoded(h.code))
	f.Add(encoded(w.code))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h hello
		if decoded("hello", b, h.code) == nil && !bytes.Equal(encoded(h.code), b) {
			t.Errorf("%x is read as %+v", b, h)
		}
		var w welcome
		if decoded("welcome", b, w.code) == nil && !bytes.Equal(encoded(w.code), b) {
			t.Errorf("%x is read as %+v", b, w)
		}
	})
}

func FuzzMessage(f *testing.F) {
	m := &raftpb.Message{
		Type: raftpb.MsgApp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(5)), Index: new(uint64(8)),
		Entries: []*raftpb.Entry{{Term: new(uint64(5)), Index: new(uint64(9)), Data: []byte("d")}},
	}
	b, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(codec.AppendUvarint(nil, 1), b...))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, m, err := decodeMessage(b, 2, 1)
		if err == nil && (m.GetFrom() != 2 || m.GetTo() != 1 || m.GetType() == raftpb.MsgSnap || m.GetType() == raftpb.MsgHup) {
			t.Errorf("%x is taken as %v", b, m)
		}
	})
}

func TestMessagesArriveAsTheyWere(t *testing.T) {
	q := request{kind: askPropose, id: 1 << 40, flags: flagDirect, shard: 255, body: []byte("body")}
	got, err := decodeRequest(q.appendTo(nil))
	if err != nil || !reflect.DeepEqual(got, q) {
		t.Errorf("%+v arrives as %+v, %v", q, got, err)
	}
	a := answer{id: 5, refused: true, body: []byte("body")}
	if got, err := decodeAnswer(a.appendTo(nil)); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v arrives as %+v, %v", a, got, err)
	}
}

// TestDamagedFrame flips each bit of a frame, and cuts it anywhere.
func TestDamagedFrame(t *testing.T) {
	good := frameOf([]byte("what was said"))
	for i := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if b, err := readFrame(newReader(bytes.NewReader(bad)), nil, maxHello); err == nil {
			t.Errorf("with bit %d flipped it is read as %q", i, b)
		}
	}
	for n := range good {
		if b, err := readFrame(newReader(bytes.NewReader(good[:n])), nil, maxHello); err == nil {
			t.Errorf("cut to %d bytes it is read as %q", n, b)
		}
	}
}
