package stream

import (
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// Kinds of commands; the numbers are part of the log's format.
const (
	kindCreate uint8 = iota + 1
	kindSetRetention
	kindAppend
	kindTrim
	kindDelete
	kindCheckLast
	kindAdopt // from a stream's home to other shards: the current record
	kindDrop  // from a stream's home to other shards: the stream was deleted
	kindCreateGroup
	kindDeleteGroup
	kindReadGroup
	kindAck
	kindNack
	kindExtend
	kindLeave
	kindSeek
	kindHold       // requests the right to consume an exclusive group
	kindAdoptGroup // from a stream's home to other shards
	kindDropGroup  // from a stream's home to other shards
	kindFollow     // from a stream's home to other shards: the active consumer of an exclusive group
	kindMiss       // from the leader: consumers that stopped sending heartbeats; see attendance

	kindRelay     = protocol.KindRelaySubscription
	kindSubscribe = protocol.KindSubscribe
	kindPush      = kindSubscribe + 1 // from the leader: deliver due batches
	kindEnd       = protocol.KindBatchEnd
	kindWant      = kindEnd + 1 // to the stream's home: request permission to deliver a batch
	kindGrant     = kindEnd + 2 // the home's answer to kindWant

	kindForward = protocol.KindAppendMany // append from another machine, to all partitions

	kindConfigureGroup = kindForward + 1
)

// The commands of streams; those of groups are in groupcommand.go.
var (
	createStream = &engine.CommandRow[*session, createBody, engine.Nothing]{
		Kind: kindCreate, Name: "create", From: engine.FromUsers | engine.FromShards | engine.FromMachines,
		Body: (*createBody).code, Run: (*session).create,
	}
	setRetention = &engine.CommandRow[*session, retentionBody, engine.Nothing]{
		Kind: kindSetRetention, Name: "set retention", From: engine.FromUsers,
		Body: (*retentionBody).code, Run: (*session).setRetention,
	}
	appendMessages = &engine.CommandRow[*session, appendBody, []Appended]{
		Kind: kindAppend, Name: "append", From: engine.FromUsers | engine.FromShards | engine.FromMachines,
		Body: (*appendBody).code, Limit: (*appendBody).limit, Payload: (*appendBody).payload, Size: (*appendBody).size,
		Encoded: (*session).append, Result: codeAppended,
	}
	trimStream = &engine.CommandRow[*session, trimBody, int64]{
		Kind: kindTrim, Name: "trim", From: engine.FromUsers, Shrinks: true,
		Body: (*trimBody).code, Apply: (*session).trim, Result: func(n *int64, f *codec.Fields) { f.Varint("removed", n) },
	}
	deleteStream = &engine.CommandRow[*session, deleteBody, engine.Nothing]{
		Kind: kindDelete, Name: "delete", From: engine.FromUsers, Shrinks: true,
		Body: (*deleteBody).code, Run: (*session).delete,
	}
	checkLast = &engine.CommandRow[*session, lastBody, engine.Nothing]{
		Kind: kindCheckLast, Name: "check last", From: engine.FromUsers, Shrinks: true,
		Body: (*lastBody).code, Run: (*session).checkLast,
	}
	adopt = &engine.CommandRow[*session, target, engine.Nothing]{
		Kind: kindAdopt, Name: "adopt", From: engine.FromShards,
		Body: (*target).code, Run: (*session).adopt,
	}
	drop = &engine.CommandRow[*session, target, engine.Nothing]{
		Kind: kindDrop, Name: "drop", From: engine.FromShards, Shrinks: true,
		Body: (*target).code, Run: (*session).drop,
	}
	forward = &engine.CommandRow[*session, appendBody, engine.Nothing]{
		Kind: kindForward, Name: "pour", From: engine.FromShards | engine.FromMachines,
		Body: (*appendBody).code, Encoded: (*session).forward,
	}
)

var commands = engine.Declare(engine.MachineStream, "stream", checkName,
	createStream, setRetention, appendMessages, trimStream, deleteStream, checkLast, adopt, drop,
	createGroup, deleteGroup, readGroup, ack, nack, extend, leave, seek, hold, adoptGroup, dropGroup, follow, miss,
	engine.RawRow[*session]{Kind: kindRelay, Name: "relay subscription", From: engine.FromShards, AtHome: true, Shrinks: true},
	engine.RawRow[*session]{Kind: kindSubscribe, Name: "subscribe", From: engine.FromShards | engine.FromMachines, Shrinks: true},
	engine.RawRow[*session]{Kind: kindPush, Name: "push", From: engine.FromLeaders},
	engine.RawRow[*session]{Kind: kindEnd, Name: "end of a batch", From: engine.FromShards | engine.FromMachines, Shrinks: true},
	engine.RawRow[*session]{Kind: kindWant, Name: "want a batch", From: engine.FromShards, Shrinks: true},
	engine.RawRow[*session]{Kind: kindGrant, Name: "grant a batch", From: engine.FromShards, Shrinks: true},
	forward, configureGroup)

func checkName(name string) error { return engine.CheckName("stream", name) }

// turn spreads messages without a key over the partitions if the sender must choose the partition.
var turn atomic.Uint64

// target starts every body: a byte that is 0 in the stream's home, otherwise 1 and the spec.
type target struct{ spec *spec }

// spec is the record of a stream, for shards other than its home.
type spec struct {
	id         uint64 // LSN of its creation at home; a later stream of the same name has a greater one
	version    uint64 // of the policy
	partitions int
	policy     policy
}

func (t *target) code(f *codec.Fields) { codeOptional(f, "spec", &t.spec, (*spec).fields) }

func (s *spec) fields(f *codec.Fields) {
	f.Uvarint("id", &s.id)
	f.Uvarint("version", &s.version)
	codePartitions(f, &s.partitions)
	codec.Object(f, "retention", &s.policy, (*policy).code)
}

func codePartitions(f *codec.Fields, n *int) {
	codeCount(f, "partitions", n, codec.Range{Min: 1, Max: MaxPartitions})
}

// codeOptional codes a record that may be absent.
func codeOptional[T any](f *codec.Fields, name string, v **T, code func(*T, *codec.Fields)) {
	there := *v != nil
	c := f.Binary()
	if c != nil {
		c.Bool(&there)
	} else {
		there = f.Given(name, there)
	}
	switch {
	case !there:
		*v = nil
	case f.Parsing() || c != nil && c.Reading() || *v == nil:
		*v = new(T)
		fallthrough
	default:
		codec.Object(f, name, *v, code)
	}
}

// codeCount is Count for other integer types.
func codeCount[T int | uint64](f *codec.Fields, name string, v *T, within ...codec.Range) {
	n := int64(*v)
	if f.Count(name, &n, within...); T(n) != *v {
		*v = T(n)
	}
}

// policy is the stored form of a Retention.
type policy struct {
	maxAge   int64 // ms
	maxLen   uint64
	maxBytes uint64
}

func (r Retention) policy() policy {
	return policy{millis(r.MaxAge), uint64(r.MaxLen), uint64(r.MaxBytes)}
}

func (p policy) retention() Retention {
	return Retention{saturated(p.maxAge), int64(p.maxLen), int64(p.maxBytes)}
}

func (p *policy) code(f *codec.Fields) {
	f.Millis("max_age_ms", &p.maxAge, codec.Range{Max: maxAgeMillis})
	codeCount(f, "max_len", &p.maxLen, codec.Range{Max: math.MaxInt64})
	codeCount(f, "max_bytes", &p.maxBytes, codec.Range{Max: math.MaxInt64})
}

func (p policy) append(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, uint64(p.maxAge)), p.maxLen), p.maxBytes)
}

func readPolicy(r *codec.Reader) policy { return policy{int64(r.Uvarint()), r.Uvarint(), r.Uvarint()} }

// check returns an error for a bound that would overflow.
func (p policy) check() error { return codec.CheckFields(&p, true, (*policy).code) }

// maxAgeMillis is the longest time.Duration in ms, rounded up.
const maxAgeMillis = math.MaxInt64/int64(time.Millisecond) + 1

// saturated converts milliseconds to a duration, up to the longest one.
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

// code codes an ID, which is a string in JSON.
func (id *ID) code(f *codec.Fields, name string) {
	if c := f.Binary(); c != nil {
		c.Embed(id.append, func(r *codec.Reader) { *id = readID(r) })
	} else if !f.Checking() {
		f.Token(name, id.token, func(text string) (err error) {
			*id, err = parseToken(text)
			return err
		})
	}
}

// token is String for any ID: it formats negative milliseconds as an unsigned number, as a command
// encodes them.
func (id ID) token() string {
	return strconv.FormatUint(uint64(id.Millis), 10) + "-" + strconv.FormatUint(id.Seq, 10)
}

func parseToken(text string) (ID, error) {
	millis, seq, _ := strings.Cut(text, "-")
	if n, err := strconv.ParseUint(millis, 10, 64); err == nil && n > math.MaxInt64 {
		id, err := ParseID("0-" + seq)
		return ID{int64(n), id.Seq}, err
	}
	return ParseID(text)
}

// at routes an operation to a shard other than that of the stream's name.
func at(op engine.Op, route string) engine.Op {
	op.Route = route
	return op
}

// sent returns a command that a shard sends to another one.
func sent[B any](tx *engine.Tx, kind uint8, name string, b *B, code func(*B, *codec.Fields), size int) engine.Command {
	cmd := engine.NewCommand(engine.MachineStream, kind, name, b, code, size)
	cmd.Namespace, cmd.Spread = tx.NamespaceName(), tx.Spread()
	return cmd
}

// createBody creates a stream.
type createBody struct {
	target
	partitions int
	retention  policy
}

func (b *createBody) code(f *codec.Fields) {
	if f.Parsing() {
		b.partitions = 1
	}
	b.target.code(f)
	codePartitions(f, &b.partitions)
	codec.Object(f, "retention", &b.retention, (*policy).code)
}

// CreateOp is Create as an operation of a transaction.
func CreateOp(name string, opts ...CreateOption) Op {
	o := createOptionsOf(opts)
	return Op{engine.Hide(createStream.Op(name, createBody{partitions: o.partitions, retention: o.retention.policy()}, o.err))}
}

// retentionBody changes a stream's retention.
type retentionBody struct {
	target
	retention policy
}

func (b *retentionBody) code(f *codec.Fields) {
	b.target.code(f)
	codec.Object(f, "retention", &b.retention, (*policy).code)
}

// SetRetentionOp is SetRetention as an operation of a transaction.
func SetRetentionOp(name string, r Retention) Op {
	return Op{engine.Hide(setRetention.Op(name, retentionBody{retention: r.policy()}, checkRetention(r)))}
}

// trimBody removes a stream's oldest records.
type trimBody struct {
	target
	bound  trimBound
	n      int64 // length, age in ms or bytes
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

var trimBounds = [numTrimBounds]string{trimToLen: "max_len", trimToAge: "max_age_ms", trimToID: "before", trimToBytes: "max_bytes"}

func (b *trimBody) code(f *codec.Fields) {
	b.target.code(f)
	switch c := f.Binary(); {
	case c != nil:
		c.Byte((*byte)(&b.bound))
		b.codeBound(f)
	case f.Checking():
		if b.bound >= numTrimBounds {
			f.Refuse(engine.Errorf(ErrInvalid, "stream: trim bound %d is not in 0-%d", b.bound, numTrimBounds-1))
			return
		}
		b.codeBound(f)
	default:
		given := 0
		for bound, name := range trimBounds {
			if f.Given(name, int(b.bound) == bound) {
				b.bound = trimBound(bound)
				b.codeBound(f)
				given++
			}
		}
		if given != 1 {
			f.Refuse(engine.Errorf(ErrInvalid, "stream: trim has %d bounds, expected one of %s", given, strings.Join(trimBounds[:], ", ")))
		}
	}
	f.Bool("dry_run", &b.dryRun)
}

func (b *trimBody) codeBound(f *codec.Fields) {
	switch b.bound {
	case trimToID:
		b.before.code(f, "before")
	case trimToAge:
		f.Millis("max_age_ms", &b.n, codec.Range{Max: maxAgeMillis})
	case trimToLen:
		f.Count("max_len", &b.n, codec.Range{Max: math.MaxInt64})
	default:
		f.Count("max_bytes", &b.n, codec.Range{Max: math.MaxInt64})
	}
}

func trimOp(name string, o trimOptions, sp *spec) engine.Op {
	return trimStream.Make(name, func(b *trimBody) error {
		b.spec, b.dryRun = sp, o.dryRun
		switch {
		case o.byLen:
			b.bound, b.n = trimToLen, o.maxLen
		case o.byBytes:
			b.bound, b.n = trimToBytes, o.maxBytes
		case o.maxAge > 0:
			b.bound, b.n = trimToAge, millis(o.maxAge)
		default:
			b.bound, b.before = trimToID, o.before
		}
		return o.err
	})
}

// TrimOp is Trim as an operation of a transaction. It returns the number of records removed.
func TrimOp(name string, opts ...TrimOption) OpOf[int64] {
	return opOf[int64](trimOp(name, trimOptionsOf(opts), nil))
}

// deleteBody removes a stream.
type deleteBody struct {
	target
	force bool
}

func (b *deleteBody) code(f *codec.Fields) {
	b.target.code(f)
	f.Bool("force", &b.force)
}

// DeleteOp is Delete as an operation of a transaction.
func DeleteOp(name string, opts ...DeleteOption) Op {
	o := deleteOptionsOf(opts)
	return Op{engine.Hide(deleteStream.Op(name, deleteBody{force: o.force}, o.err))}
}

// lastBody checks the last ID of a partition.
type lastBody struct {
	target
	partition int
	id        ID
}

func (b *lastBody) code(f *codec.Fields) {
	b.target.code(f)
	codeCount(f, "partition", &b.partition, codec.Range{Max: MaxPartitions - 1})
	b.id.code(f, "id")
}

// LastIDIs holds if id is the ID of the last record appended to the partition. The zero ID means
// that no record was appended or the stream does not exist.
func LastIDIs(name string, partition int, id ID) Condition {
	return Condition{engine.HideCondition(checkLast.Op(name, lastBody{partition: partition, id: id}, nil))}
}
