package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/codec"
)

// Version is the version of the protocol.
const Version = 3

// versionHeader holds the node's version in each response. The paths contain it too, so that no
// version reads the frames of another.
const versionHeader = "Floe-Protocol"

// Paths of the streams.
const (
	pathDoor     = "/floe/3/door"
	pathRaft     = "/floe/3/raft"
	pathPulse    = "/floe/3/pulse"
	pathSnapshot = "/floe/3/snapshot"
)

// A frame is
//
//	kind u8 | length u32 | CRC-32C of the payload u32 | CRC-32C of the head up to here u32 | payload
//
// with integers in little-endian. The checksum of TCP misses about one in ten thousand damaged
// packets, and raft relies on every bit of a message. The head has its own checksum, because with a
// damaged length the receiver would wait for bytes that never arrive.
//
// At a door a message of more than smallFrame bytes is sent in parts, between which small frames
// pass; see lane.go.
const (
	frameHead = 13

	// maxRequest bounds the rest of a frame other than a value or a transaction: key, namespace,
	// conditions.
	maxRequest = 8 << 20
	// maxAnswer bounds an answer. A page has 4 MiB of values and one more, an answer without pages
	// is limited by engine.MaxAnswerBytes, and the result of a command by engine.MaxCommandBytes.
	maxAnswer = 160 << 20
	// maxHello has room for a handshake with many members.
	maxHello = 64 << 10
	// maxRaft bounds a raft message: the limit of raft's batches, and one large command.
	maxRaft = 64 << 20
)

// Kinds of frames.
const (
	wholeFrame byte = iota + 1
	partFrame       // a part of a large message
	gotFrame        // a part has arrived; no payload
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errFrame is matched by every defect of a stream's frames.
var errFrame = errors.New("malformed frame")

// readFrame reads a whole frame of up to limit bytes into buf[:0], which grows as bytes arrive.
func readFrame(r *bufio.Reader, buf []byte, limit int) ([]byte, error) {
	kind, b, err := (&wire{r: r}).readFrame(buf, limit)
	if err == nil && kind != wholeFrame {
		return nil, fmt.Errorf("%w: of kind %d", errFrame, kind)
	}
	return b, err
}

// readFrame waits for a frame of up to limit bytes and reads it into buf[:0], which grows as bytes
// arrive. Once the frame has begun, the stream is aborted if less than readStep of it arrives
// within writeTimeout.
func (s *wire) readFrame(buf []byte, limit int) (kind byte, b []byte, err error) {
	if _, err := s.r.Peek(1); err != nil {
		return 0, nil, err
	}
	s.hurry()
	defer s.rest()
	head, err := s.r.Peek(frameHead)
	if err != nil {
		return 0, nil, err
	}
	if got, want := crc32.Checksum(head[:9], castagnoli), binary.LittleEndian.Uint32(head[9:]); got != want {
		return 0, nil, fmt.Errorf("%w: checksum %08x of its head is not %08x: damaged in transit", errFrame, got, want)
	}
	kind = head[0]
	n, sum := int(binary.LittleEndian.Uint32(head[1:])), binary.LittleEndian.Uint32(head[5:])
	if n > limit {
		return 0, nil, fmt.Errorf("%w: %d bytes, the limit is %d", errFrame, n, limit)
	}
	if _, err := s.r.Discard(frameHead); err != nil {
		return 0, nil, err
	}
	b = buf[:0]
	for len(b) < n {
		at := len(b)
		b = grow(b, min(n-at, readStep), n)
		if _, err := io.ReadFull(s.r, b[at:]); err != nil {
			return 0, nil, fmt.Errorf("%w: truncated after %d of %d bytes: %w", errFrame, at, n, err)
		}
		s.hurry()
	}
	if got := crc32.Checksum(b, castagnoli); got != sum {
		return 0, nil, fmt.Errorf("%w: checksum %08x of %d bytes is not %08x: damaged in transit", errFrame, got, n, sum)
	}
	return kind, b, nil
}

// readStep is the number of bytes of a frame for which memory is allocated at a time.
const readStep = 64 << 10

// grow makes b longer by more bytes. Its capacity grows with its length up to n, the claimed final
// length, which is not trusted before the bytes have arrived.
func grow(b []byte, more, n int) []byte {
	if cap(b)-len(b) < more {
		b = append(make([]byte, 0, min(max(2*cap(b), len(b)+more), n)), b...)
	}
	return b[:len(b)+more]
}

// appendFrame appends a frame with the payload that payload appends.
func appendFrame(dst []byte, kind byte, payload func([]byte) []byte) []byte {
	at := len(dst)
	dst = payload(append(dst, make([]byte, frameHead)...))
	head, sent := dst[at:at+frameHead], dst[at+frameHead:]
	head[0] = kind
	binary.LittleEndian.PutUint32(head[1:], uint32(len(sent)))
	binary.LittleEndian.PutUint32(head[5:], crc32.Checksum(sent, castagnoli))
	binary.LittleEndian.PutUint32(head[9:], crc32.Checksum(head[:9], castagnoli))
	return dst
}

// Kinds of requests at a door.
const (
	askPropose uint8 = iota + 1
	askQuery
	askCancel // cancels an earlier request, which is still answered; not answered itself
	askStats
	askTake
)

// Flags of a request.
const (
	flagDirect  = 1 << iota // only if the node leads the shard; else it forwards the request, once
	flagStale               // a query that any replica may answer
	flagLasting             // it waits for an event, see engine.Lasting
	flagLingers             // a take answered with its outcome even if cancelled, see engine.Lingering
)

// request is a frame to a door:
//
//	kind u8 | id uvarint | flags u8 | shard uvarint | command, query or take
//
// A request for stats has a node instead of a shard; 0 is the called node.
type request struct {
	kind  uint8
	id    uint64
	flags uint8
	shard uint64
	body  []byte // aliases the frame

	space uint64 // not sent: see namespace
	trip  *trip  // not sent; nil: not tracked
}

func (q *request) appendTo(dst []byte) []byte {
	dst = codec.AppendUvarint(append(dst, q.kind), q.id)
	return append(codec.AppendUvarint(append(dst, q.flags), q.shard), q.body...)
}

func decodeRequest(b []byte) (q request, err error) {
	r := codec.NewReader(b)
	q = request{kind: r.Byte(), id: r.Uvarint(), flags: r.Byte(), shard: r.Uvarint(), body: r.Rest()}
	if err := r.Err(); err != nil {
		return q, fmt.Errorf("%w: request: %w", errFrame, err)
	}
	if q.kind < askPropose || q.kind > askTake {
		return q, fmt.Errorf("%w: request of kind %d", errFrame, q.kind)
	}
	return q, nil
}

// namespace returns the hash of the name of a request's namespace, if it can be found before
// decoding. Most queries begin with it.
func (q *request) namespace() uint64 {
	r := codec.NewReader(q.body)
	head := 4 // of a command, before the name
	switch q.kind {
	case askQuery:
		head = 2
	case askTake:
		r.Uvarint()
		r.Uvarint()
	case askPropose:
	default:
		return 0
	}
	for range head {
		r.Byte()
	}
	return xxhash.Sum64(r.Bytes())
}

// answer is a frame from a door:
//
//	id uvarint | refused u8 | result, or error as of engine.Wire
//
// The one with id 0 is the good-bye: ids (uvarints) of the last small and the last large request
// that is answered.
type answer struct {
	id      uint64
	refused bool
	body    []byte // aliases the frame
	untaken bool   // not received: the request was not read
}

func (a *answer) appendTo(dst []byte) []byte {
	return append(codec.AppendBool(codec.AppendUvarint(dst, a.id), a.refused), a.body...)
}

func decodeAnswer(b []byte) (a answer, err error) {
	r := codec.NewReader(b)
	a = answer{id: r.Uvarint(), refused: r.Bool(), body: r.Rest()}
	if err := r.Err(); err != nil {
		return a, fmt.Errorf("%w: answer: %w", errFrame, err)
	}
	return a, nil
}
