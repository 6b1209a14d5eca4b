package transport

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

func frameOf(b []byte) []byte {
	return appendFrame(nil, wholeFrame, func(dst []byte) []byte { return append(dst, b...) })
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

func FuzzInbox(f *testing.F) {
	f.Add(frameOf([]byte("small")))
	f.Add(append(partsOf(make([]byte, 2*smallFrame+1)), frameOf(nil)...))
	f.Add(append(partsOf([]byte("large"))[:frameHead], partsOf(make([]byte, smallFrame))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 20
		taken := 0
		in := inbox{wire: &wire{r: newReader(bytes.NewReader(b))}, out: newOutbox(limit), limit: limit, admit: func(n int) (func(), error) {
			taken += n
			return func() { taken -= n }, nil
		}}
		read := 0
		for {
			m, _, release, err := in.next()
			if err != nil {
				break
			}
			release()
			read += len(m)
		}
		if in.end(); taken != 0 || read > len(b) {
			t.Errorf("%x is read as %d bytes, and %d are not given back", b, read, taken)
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
	self := shard.Introduction{
		Identity: shard.Identity{Node: 1, Directory: "d", Boot: 3, Run: "r"}, Cluster: "c",
		Shown: []shard.Shown{{Node: 2, Runs: []string{"p", "q"}}},
		Met: []shard.Meeting{{Identity: shard.Identity{Node: 3, Directory: "e", Boot: 1, Run: "s"},
			Shown: []shard.Shown{{Node: 2, Runs: []string{"t"}}}}},
	}
	h := hello{version: 1, role: roleNode, to: 2, identity: self, shards: 4, nonce: make([]byte, nonceBytes)}
	w := welcome{identity: self, shards: 4, maxValue: 1 << 20, members: testMembers, nonce: h.nonce, proof: []byte("proof")}
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

// TestLanes sends messages of all sizes at once: those of a lane arrive in order, and small ones do
// not wait for large ones.
func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		out := newOutbox(maxWaiting)
		var sent [2][][]byte
		for i, size := range []int{10 * smallFrame, 0, smallFrame + 1, 1, smallFrame, maxWindow * smallFrame, 1, 3 * smallFrame} {
			m, lane := bytes.Repeat([]byte{byte(i)}, size), 0
			appendTo := func(dst []byte) []byte { return append(dst, m...) }
			send := func() error { return out.send(appendTo) }
			if isLarge(size) {
				lane, send = 1, func() error { return out.sendLarge(size, appendTo) }
			}
			if err := send(); err != nil {
				t.Fatal(err)
			}
			sent[lane] = append(sent[lane], m)
		}
		go func() { _ = out.run(&wire{w: w, flush: func() error { return nil }, abort: func() { w.Close() }}) }()
		back := newOutbox(maxWaiting) // of the other end, which returns its confirmations at once
		in := inbox{wire: &wire{r: newReader(r)}, out: back, limit: maxAnswer}
		confirmed := make(chan struct{})
		go func() {
			defer close(confirmed)
			for range back.wake {
				b, over, _ := back.take()
				for range len(b) / frameHead {
					if !out.confirmed() {
						t.Error("more parts are confirmed than were sent")
					}
				}
				if over {
					return
				}
			}
		}()
		var got [2][][]byte
		for len(got[0])+len(got[1]) < len(sent[0])+len(sent[1]) {
			m, large, _, err := in.next()
			if err != nil {
				t.Fatal(err)
			}
			if lane := map[bool]int{true: 1}[large]; lane == 1 && len(got[0]) < len(sent[0]) {
				t.Errorf("a message of %d bytes comes before %d small ones", len(m), len(sent[0])-len(got[0]))
			} else {
				got[lane] = append(got[lane], m)
			}
		}
		for lane := range sent {
			if !slices.EqualFunc(got[lane], sent[lane], bytes.Equal) {
				t.Errorf("the messages of lane %d are not those that were sent, in order", lane)
			}
		}
		back.end(nil)
		<-confirmed
		out.end(nil)
	})
}

// TestDamagedFrame flips each bit of a frame, and truncates it at every length.
func TestDamagedFrame(t *testing.T) {
	good := frameOf([]byte("what was said"))
	starved := errors.New("nothing more comes") // on a stream, more data would be awaited
	for i := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		b, err := readFrame(newReader(io.MultiReader(bytes.NewReader(bad), iotest.ErrReader(starved))), nil, maxHello)
		if !errors.Is(err, errFrame) || errors.Is(err, starved) {
			t.Errorf("with bit %d flipped it is read as %q, %v, want a malformed frame", i, b, err)
		}
	}
	for n := range good {
		if b, err := readFrame(newReader(bytes.NewReader(good[:n])), nil, maxHello); err == nil {
			t.Errorf("cut to %d bytes it is read as %q", n, b)
		}
	}
}
