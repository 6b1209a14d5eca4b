package stream

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/feed"
	"github.com/floedb/floe/internal/push"
)

// Kinds of commands; the numbers are part of the log's format.
const (
	kindCreate uint8 = iota + 1
	kindSetRetention
	kindAppend
	kindTrim
	kindDelete
	kindCheckLast
	kindAdopt // sent by a stream's home to other shards: what the record says now
	kindDrop  // likewise: the stream has been deleted
	kindCreateGroup
	kindDeleteGroup
	kindReadGroup
	kindAck
	kindNack
	kindExtend
	kindLeave
	kindSeek
	kindHold       // asks for the right to consume an exclusive group
	kindAdoptGroup // sent by a stream's home to other shards
	kindDropGroup  // likewise
	kindFollow     // likewise: who has become the consumer of an exclusive group
	kindMiss       // of the leader: consumers that are there no more, see attendance

	kindRelay     = push.KindRelay // of pushes: see there
	kindSubscribe = push.KindSubscribe
	kindPush      = kindSubscribe + 1 // of the leader: what is due of pushes
	kindEnd       = push.KindEnd
	kindWant      = kindEnd + 1 // sent to the stream's home: a shard wants to hand out a batch, of a limited number
	kindGrant     = kindEnd + 2 // its answer

	kindPour = feed.KindPour // the body is that of append: of other machines, for all partitions

	kindConfigureGroup = kindPour + 1
)

// turn spreads messages without a key over the partitions where the sender has to choose one.
var turn atomic.Uint64

// Command bodies all begin with the name of the stream (uvarint length, bytes) and a spec: u8, 0 in the shard that has the stream's record, else 1
// and the spec's fields. Then follows:
//
//	create:        partitions uvarint | retention
//	set retention: retention
//	append:        partition + 1 uvarint (0: by key, or in turn) | expect u8 | last id, if expect | producer (length, bytes; empty: none) | its sequence
//	               number uvarint, if there is one | messages uvarint | message (uvarint length, bytes) ...
//	trim:          bound u8 (0 length, 1 age, 2 id, 3 bytes) | length, age in ms or bytes uvarint, or id | dry run u8
//	delete:        force u8
//	check last:    partition uvarint | id
//	adopt, drop:   nothing
//	of groups:     see groupCommand
//
//	retention: max age ms uvarint | max length uvarint | max bytes uvarint
//	id:        ms uvarint | sequence uvarint
//	message:   key (length, bytes) | headers uvarint | name, value (length, bytes) ... in order of names | payload
type command struct {
	name   string
	spec   *spec
	append appendCommand
	trim   trimCommand

	partitions int
	retention  policy
	force      bool
	partition  int
	id         ID
	group      groupCommand
}

type appendCommand struct {
	options  appendOptions
	messages [][]byte
}

type trimCommand struct {
	bound  trimBound
	n      uint64 // length, age or bytes
	before ID
	dryRun bool
}

type trimBound uint8

const (
	trimToLen trimBound = iota
	trimToAge
	trimToID
	trimToBytes
	numTrimBounds
)

// policy is a Retention as it is stored.
type policy struct {
	maxAge   int64 // ms
	maxLen   uint64
	maxBytes uint64
}

func (r Retention) policy() policy {
	return policy{max(millis(r.MaxAge), 0), uint64(max(r.MaxLen, 0)), uint64(max(r.MaxBytes, 0))}
}

func (p policy) retention() Retention {
	return Retention{saturated(p.maxAge), int64(p.maxLen), int64(p.maxBytes)}
}

func (p policy) append(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, uint64(p.maxAge)), p.maxLen), p.maxBytes)
}

func readPolicy(r *codec.Reader) policy { return policy{int64(r.Uvarint()), r.Uvarint(), r.Uvarint()} }

// check refuses bounds that can not be calculated with.
func (p policy) check() error {
	return cmp.Or(within("max age in ms", uint64(p.maxAge), 0, uint64(maxAgeMillis)), within("max len", p.maxLen, 0, math.MaxInt64), within("max bytes", p.maxBytes, 0, math.MaxInt64))
}

// maxAgeMillis is what a time.Duration can hold, rounded up.
const maxAgeMillis = math.MaxInt64/int64(time.Millisecond) + 1

// saturated returns a duration of so many ms, or the longest one.
func saturated(millis int64) time.Duration {
	if millis > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return duration(millis)
}

func (id ID) append(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, uint64(id.Millis)), id.Seq)
}

func readID(r *codec.Reader) ID { return ID{int64(r.Uvarint()), r.Uvarint()} }

// spec is what the record of a stream says, for shards that do not have it.
type spec struct {
	id         uint64 // LSN of its creation at home: of two streams of one name the later has the greater one
	version    uint64 // of the policy
	partitions int
	policy     policy
}

func (s *spec) append(b []byte) []byte {
	if s == nil {
		return append(b, 0)
	}
	b = codec.AppendUvarint(append(b, 1), s.id)
	b = codec.AppendUvarint(b, s.version)
	b = codec.AppendUvarint(b, uint64(s.partitions))
	return s.policy.append(b)
}

// within refuses a number of a command that is out of its limits.
func within(what string, n, least, most uint64) error {
	if n < least || n > most {
		return engine.Errorf(ErrInvalid, "stream: %s %d is not in %d-%d", what, n, least, most)
	}
	return nil
}

// bounds keeps the first number of a command that is out of its limits.
type bounds struct{ err error }

func (b *bounds) check(err error) { b.err = cmp.Or(b.err, err) }

// count reads a number.
func (b *bounds) count(r *codec.Reader, what string, least, most uint64) int {
	n := r.Uvarint()
	b.check(within(what, n, least, most))
	return int(min(n, most))
}

// spec reads a spec.
func (b *bounds) spec(r *codec.Reader) *spec {
	if !r.Bool() {
		return nil
	}
	s := &spec{id: r.Uvarint(), version: r.Uvarint(), partitions: b.count(r, "number of partitions", 1, MaxPartitions), policy: readPolicy(r)}
	b.check(s.policy.check())
	return s
}

// readCount reads an integer up to limit; others are read as -1.
func readCount(r *codec.Reader, limit uint64) int {
	n := r.Uvarint()
	if n > limit {
		return -1
	}
	return int(n)
}

func op(kind uint8, name string, sp *spec, err error, body []byte) engine.Op {
	op := beginOp(kind, name, sp, err, len(body))
	op.Command.Body = append(op.Command.Body, body...)
	return op
}

// beginOp returns an operation whose body is to be continued with so many bytes.
func beginOp(kind uint8, name string, sp *spec, err error, room int) engine.Op {
	if err == nil {
		err = engine.CheckName("stream", name)
	}
	b := sp.append(codec.AppendString(make([]byte, 0, len(name)+room+32), name))
	return engine.Op{Command: engine.Command{Machine: engine.MachineStream, Kind: kind, Body: b}, Route: name, Err: err}
}

// at returns the operation for another shard than that of the stream's name.
func at(op engine.Op, route string) engine.Op {
	op.Route = route
	return op
}

// CreateOp is Create as an operation of a transaction.
func CreateOp(name string, opts ...CreateOption) Op {
	o := createOptionsOf(opts)
	return Op{engine.Hide(op(kindCreate, name, nil, o.err, o.retention.policy().append(codec.AppendUvarint(nil, uint64(max(o.partitions, 0))))))}
}

// SetRetentionOp is SetRetention as an operation of a transaction.
func SetRetentionOp(name string, r Retention) Op {
	return Op{engine.Hide(op(kindSetRetention, name, nil, checkRetention(r), r.policy().append(nil)))}
}

// AppendOp is Append as an operation of a transaction; its value in the result is an Appended. In a spread namespace the stream has to have a {tag} or one
// partition.
func AppendOp(name string, msg Message, opts ...AppendOption) Op {
	op := appendOp(name, []Message{msg}, appendOptionsOf(opts), nil)
	op.Decode = func(b []byte) (any, error) {
		all, err := decodeAppended(b)
		if err != nil {
			return nil, err
		}
		return all[0], nil
	}
	return Op{engine.Hide(op)}
}

// AppendManyOp is AppendMany as an operation of a transaction; its value in the result is an []Appended.
func AppendManyOp(name string, msgs []Message, opts ...AppendOption) Op {
	return Op{engine.Hide(appendOp(name, msgs, appendOptionsOf(opts), nil))}
}

func appendOp(name string, msgs []Message, o appendOptions, sp *spec) engine.Op {
	err := firstError(o.err, checkMessages(msgs))
	if err != nil {
		return op(kindAppend, name, sp, err, nil)
	}
	return uncheckedAppendOp(name, msgs, o, sp)
}

// uncheckedAppendOp is appendOp for messages that may be a little larger than what users may send.
func uncheckedAppendOp(name string, msgs []Message, o appendOptions, sp *spec) engine.Op {
	size, largest := 0, 0
	for i := range msgs {
		size += msgs[i].encodedSize() + binary.MaxVarintLen32
		largest = max(largest, len(msgs[i].Payload))
	}
	op := beginOp(kindAppend, name, sp, nil, size+len(o.producer)+64)
	b := codec.AppendUvarint(op.Command.Body, uint64(o.partition))
	if b = codec.AppendBool(b, o.expect); o.expect {
		b = o.lastID.append(b)
	}
	if b = codec.AppendString(b, o.producer); o.producer != "" {
		b = codec.AppendUvarint(b, o.sequence)
	}
	b = codec.AppendUvarint(b, uint64(len(msgs)))
	for i := range msgs {
		b = msgs[i].append(codec.AppendUvarint(b, uint64(msgs[i].encodedSize())))
	}
	op.Command.Body, op.Payload, op.Decode = b, largest, decodeAppendedAny
	return op
}

func decodeAppendedAny(b []byte) (any, error) { return decodeAppended(b) }

func checkMessages(msgs []Message) error {
	if n := len(msgs); n < 1 || n > MaxBatch {
		return engine.Errorf(ErrInvalid, "stream: %d messages are not in 1-%d", n, MaxBatch)
	}
	size := 0
	for i := range msgs {
		m := &msgs[i]
		if len(m.Key) > MaxKeyBytes {
			return engine.Errorf(ErrInvalid, "stream: key of %d bytes exceeds %d", len(m.Key), MaxKeyBytes)
		}
		if err := engine.CheckHeaders("stream", m.Headers); err != nil {
			return err
		}
		size += m.size()
	}
	if size > MaxBatchBytes && len(msgs) > 1 {
		return engine.Errorf(ErrInvalid, "stream: %d messages of %d bytes exceed %d", len(msgs), size, MaxBatchBytes)
	}
	return nil
}

// size returns the bytes of key, headers and payload.
func (m *Message) size() int {
	n := len(m.Key) + len(m.Payload)
	for name, value := range m.Headers {
		n += len(name) + len(value)
	}
	return n
}

// encodedSize returns how many bytes append appends.
func (m *Message) encodedSize() int {
	n := sizeOf(len(m.Key)) + sizeOf(len(m.Headers)) + m.size()
	for name, value := range m.Headers {
		n += sizeOf(len(name)) + sizeOf(len(value))
	}
	return n
}

// sizeOf returns how many bytes a length takes.
func sizeOf(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }

func (m *Message) append(b []byte) []byte {
	b = codec.AppendString(b, m.Key)
	b = codec.AppendUvarint(b, uint64(len(m.Headers)))
	if len(m.Headers) > 0 {
		for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
			b = codec.AppendString(codec.AppendString(b, name), m.Headers[name])
		}
	}
	return append(b, m.Payload...)
}

// read fills in the message, whose payload aliases b.
func (m *Message) read(b []byte) error {
	r := codec.NewReader(b)
	m.Key = r.String()
	if n := readCount(&r, MaxHeaderBytes); n > 0 {
		m.Headers = make(map[string]string)
		for range n {
			name := r.String()
			m.Headers[name] = r.String()
			if r.Err() != nil {
				break
			}
		}
	} else if n < 0 {
		return engine.Errorf(ErrInvalid, "stream: message with too many headers")
	}
	m.Payload = r.Rest()
	return r.Err()
}

func trimOp(name string, o trimOptions, sp *spec) engine.Op {
	var b []byte
	switch {
	case o.byLen:
		b = codec.AppendUvarint([]byte{byte(trimToLen)}, uint64(max(o.maxLen, 0)))
	case o.byBytes:
		b = codec.AppendUvarint([]byte{byte(trimToBytes)}, uint64(max(o.maxBytes, 0)))
	case o.maxAge > 0:
		b = codec.AppendUvarint([]byte{byte(trimToAge)}, uint64(Retention{MaxAge: o.maxAge}.policy().maxAge))
	default:
		b = o.before.append([]byte{byte(trimToID)})
	}
	op := op(kindTrim, name, sp, o.err, codec.AppendBool(b, o.dryRun))
	op.Decode = func(b []byte) (any, error) { return decodeCount(b) }
	return op
}

// TrimOp is Trim as an operation of a transaction; its value in the result is the int64 number of records removed.
func TrimOp(name string, opts ...TrimOption) Op {
	return Op{engine.Hide(trimOp(name, trimOptionsOf(opts), nil))}
}

// DeleteOp is Delete as an operation of a transaction.
func DeleteOp(name string, opts ...DeleteOption) Op {
	o := deleteOptionsOf(opts)
	return Op{engine.Hide(op(kindDelete, name, nil, o.err, codec.AppendBool(nil, o.force)))}
}

// LastIDIs holds if the last record that the partition has ever had is the one with this ID; the zero ID means that there never was one, or that the stream does
// not exist.
func LastIDIs(name string, partition int, id ID) Condition {
	b := id.append(codec.AppendUvarint(nil, uint64(max(partition, 0))))
	return Condition{engine.HideCondition(op(kindCheckLast, name, nil, PartitionOption{partition}.check(), b))}
}

func decodeCommand(kind uint8, b []byte) (c command, err error) {
	r := codec.NewReader(b)
	c.name = r.String()
	var in bounds
	c.spec = in.spec(&r)
	switch kind {
	case kindCreate:
		c.partitions = in.count(&r, "number of partitions", 1, MaxPartitions)
		c.retention = readPolicy(&r)
		in.check(c.retention.check())
	case kindSetRetention:
		c.retention = readPolicy(&r)
		in.check(c.retention.check())
	case kindAppend, kindPour:
		c.append.read(&r, &in)
	case kindTrim:
		c.trim.bound = trimBound(r.Byte())
		if c.trim.bound == trimToID {
			c.trim.before = readID(&r)
		} else {
			c.trim.n = r.Uvarint()
		}
		c.trim.dryRun = r.Bool()
		most := uint64(math.MaxInt64)
		if c.trim.bound == trimToAge {
			most = uint64(maxAgeMillis)
		}
		in.check(cmp.Or(within("kind of bound", uint64(c.trim.bound), 0, uint64(numTrimBounds-1)), within("bound", c.trim.n, 0, most)))
	case kindDelete:
		c.force = r.Bool()
	case kindCheckLast:
		c.partition, c.id = in.count(&r, "partition", 0, MaxPartitions-1), readID(&r)
	case kindAdopt, kindDrop:
	default:
		c.group.read(kind, &r, &in)
	}
	if err := r.Done(); err != nil {
		return c, engine.Errorf(engine.ErrMalformed, "stream: command: %v", err)
	}
	if in.err != nil {
		return c, in.err
	}
	if err := engine.CheckName("stream", c.name); err != nil || !isGroupKind(kind) {
		return c, err
	}
	if err := engine.CheckName("consumer group", c.group.group); err != nil {
		return c, err
	}
	switch kind {
	case kindReadGroup, kindLeave, kindHold:
		return c, engine.CheckName("consumer", c.group.consumer)
	}
	return c, nil
}

func (a *appendCommand) read(r *codec.Reader, in *bounds) {
	a.options.partition = in.count(r, "partition", 0, MaxPartitions)
	if a.options.expect = r.Bool(); a.options.expect {
		a.options.lastID = readID(r)
	}
	if a.options.producer = r.String(); a.options.producer != "" {
		a.options.sequence = r.Uvarint()
	}
	n := in.count(r, "number of messages", 1, MaxBatch)
	a.messages = make([][]byte, min(n, r.Len()+1)) // one more than there can be is an error of the reader
	for i := range a.messages {
		a.messages[i] = r.Bytes()
	}
}

// check refuses messages that appendOp would not have made.
func (a *appendCommand) check(maxPayload int) error {
	msgs := make([]Message, len(a.messages))
	for i, b := range a.messages {
		if err := msgs[i].read(b); err != nil {
			return engine.Errorf(ErrInvalid, "stream: message: %v", err)
		}
		if string(msgs[i].append(nil)) != string(b) {
			return engine.Errorf(ErrInvalid, "stream: message with headers out of order")
		}
		if err := engine.CheckPayload(len(msgs[i].Payload), maxPayload); err != nil {
			return err
		}
	}
	if p := a.options.producer; p != "" {
		if err := engine.CheckName("producer", p); err != nil {
			return err
		}
	}
	return checkMessages(msgs)
}

// Results of append: LSN uvarint | duplicate u8 | count uvarint | partition, id, offset (uvarints) ... They also stand in the rows of producers.
func encodeAppended(all []Appended) []byte {
	b := make([]byte, 0, 16+len(all)*12)
	b = codec.AppendBool(codec.AppendUvarint(b, all[0].LSN), all[0].Duplicate)
	b = codec.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		b = codec.AppendUvarint(b, uint64(all[i].Partition))
		b = codec.AppendUvarint(all[i].ID.append(b), all[i].Offset)
	}
	return b
}

func decodeAppended(b []byte) ([]Appended, error) {
	r := codec.NewReader(b)
	lsn, duplicate := r.Uvarint(), r.Bool()
	n := readCount(&r, MaxBatch)
	if n < 1 {
		return nil, engine.Errorf(engine.ErrUnavailable, "stream: result of an append makes no sense")
	}
	all := make([]Appended, n)
	for i := range all {
		all[i] = Appended{Partition: int(r.Uvarint()), ID: readID(&r), Offset: r.Uvarint(), LSN: lsn, Duplicate: duplicate}
	}
	return all, r.Done()
}

func decodeCount(b []byte) (int64, error) {
	r := codec.NewReader(b)
	n := r.Varint()
	return n, r.Done()
}
