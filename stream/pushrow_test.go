package stream

import (
	"bytes"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/protocol"
)

// FuzzPushRows: every row, command and key that a push decoder accepts is encoded to the same
// bytes.
func FuzzPushRows(f *testing.F) {
	wanted := protocol.Subscription{Subscriber: protocol.Subscriber{Machine: 6, Command: 9, Namespace: "n", Name: "wf"}, Revision: 3,
		Stream: "orders", Group: "wf", Mode: 1, Latest: true, Batch: 10, Wait: 5000, Most: 2}
	row := pushRow{
		Subscription: wanted, id: 7, stream: 9, made: true, due: never, active: 2, numbers: 12, waiting: []uint64{1,
			4}, credits: []credit{{7, 11}, {8, 1}},
		asked: true, sent: 1, delivered: 5, repeated: 6, refused: 7, records: 8, note: "no such workflow",
	}
	token := protocol.BatchToken{Namespace: "n", Spread: true, Stream: "orders", Key: "k", ID: 7, Number: 11}
	f.Add(uint8(0), codec.Encode(nil, &row, (*pushRow).code))
	f.Add(uint8(1), codec.Encode(nil, &wanted, (*protocol.Subscription).Code))
	f.Add(uint8(2), codec.Encode(nil, &token, (*protocol.BatchToken).Code))
	f.Add(uint8(3), codec.Encode(nil, &creditCommand{token, 5}, (*creditCommand).code))
	f.Add(uint8(4), pushDueKey(-5, 1<<24, "or\x00ders", "k"))
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		switch kind % 5 {
		case 0:
			sameAgain(t, b, (*pushRow).code)
		case 1:
			sameAgain(t, b, (*protocol.Subscription).Code)
		case 2:
			sameAgain(t, b, (*protocol.BatchToken).Code)
		case 3:
			sameAgain(t, b, (*creditCommand).code)
		default:
			due, ns, stream, subscriber, ok := parsePushDue(b)
			if back := pushDueKey(due, ns, stream, subscriber); ok && !bytes.Equal(back[1:], b[1:]) {
				t.Errorf("read the key %x, wrote back %x", b, back)
			}
		}
	})
}

func sameAgain[T any](t *testing.T, b []byte, code func(*T, *codec.Coder)) {
	t.Helper()
	v, err := codec.Decode(b, code)
	if err != nil {
		return
	}
	if back := codec.Encode(nil, &v, code); !bytes.Equal(back, b) {
		t.Errorf("%T: read %x, wrote back %x", v, b, back)
	}
}
