package stream

import (
	"cmp"
	"context"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/engine"
)

// Limits.
const (
	MaxPartitions          = 1024
	MaxKeyBytes            = 4096
	MaxHeaderBytes         = 64 << 10 // total size of a message's header names and values
	MaxBatch               = 10_000   // messages of one AppendMany
	MaxBatchBytes          = 4 << 20  // of one AppendMany, unless it is a single message
	DefaultMaxPayloadBytes = 1 << 20
)

// The errors of the store; the same values as in package floe.
var (
	ErrNotFound = engine.ErrNotFound // the stream or the consumer group does not exist
	ErrConflict = engine.ErrConflict // a condition does not hold, a *ConflictError
	ErrExists   = engine.ErrExists   // a stream or group of that name already exists
	ErrInvalid  = engine.ErrInvalid  // an argument is malformed or out of range
	ErrBusy     = engine.ErrBusy     // a group has too many members or pending records
)

// Message is a message to append.
type Message struct {
	Key     string // arbitrary bytes, up to 4096; messages with the same key are in one partition, in order. "" means none
	Payload []byte
	Headers map[string]string // up to 64 KiB
}

// Record is a message in a stream. The caller may keep it.
type Record struct {
	Message
	ID        ID
	Partition int
	Offset    uint64 // counts the records of the partition from 1, without gaps
	LSN       uint64 // log sequence number of the append in its shard
}

// Ref identifies a record of a stream, or a delivery of it to a consumer.
type Ref struct {
	Partition int
	Offset    uint64
	Attempt   int // 0 matches any delivery

	// Generation differs between deliveries before and after Seek, and between groups of the same
	// name, so that a late acknowledgement does not settle a later delivery. 0 matches any.
	Generation uint64
}

// compare orders refs by position, regardless of their delivery.
func (r Ref) compare(o Ref) int {
	return cmp.Or(cmp.Compare(r.Partition, o.Partition), cmp.Compare(r.Offset, o.Offset))
}

// Appended is the position of an appended message.
type Appended struct {
	ID        ID
	Partition int
	Offset    uint64
	LSN       uint64
	Duplicate bool // it had already been appended, see Dedup
}

// Store holds the streams of one namespace. It is cheap to make, safe for concurrent use and needs
// no Close.
type Store struct{ scope engine.Scope }

// Namespace returns the namespace of the store.
func (s *Store) Namespace() string { return s.scope.Namespace() }

// Create creates a stream. The first append also creates one, with one partition and no retention.
//
// Options: Partitions, MaxAge, MaxLen, MaxBytes. Errors: ErrExists; ErrInvalid for a name that is
// not 1-255 bytes of UTF-8 without control characters, for partitions outside 1-1024, and for a
// retention that is not positive.
func (s *Store) Create(ctx context.Context, name string, opts ...CreateOption) error {
	_, err := s.propose(ctx, engine.OpOf(CreateOp(name, opts...)))
	return err
}

// SetRetention changes the stream's retention; records beyond it are removed soon. The zero
// Retention keeps all records.
//
// Errors: ErrNotFound; ErrInvalid for a negative bound.
func (s *Store) SetRetention(ctx context.Context, name string, r Retention) error {
	_, err := s.propose(ctx, engine.OpOf(SetRetentionOp(name, r)))
	return err
}

// Append adds a message to the end of a stream, which it creates if it does not exist. It uses the
// requested partition, or that of the message's key. If neither is given, the partitions take
// turns. When Append returns nil, the record is committed (see floe.Config.Durability) and visible
// to every reader. After a ctx error or ErrUnknownOutcome it may or may not have been appended; an
// append with Dedup can be repeated.
//
// Options: Partition, Dedup, IfLastID. Errors: *ConflictError; ErrInvalid for a message beyond the
// limits or a partition that does not exist.
func (s *Store) Append(ctx context.Context, name string, msg Message, opts ...AppendOption) (Appended, error) {
	all, err := s.AppendMany(ctx, name, []Message{msg}, opts...)
	if err != nil {
		return Appended{}, err
	}
	return all[0], nil
}

// AppendMany is Append for several messages; those without a key share a partition. Either all
// messages are appended or none. In a spread namespace that holds for each partition. If some fail,
// AppendMany returns an error and the results, in which the failed messages have no ID.
func (s *Store) AppendMany(ctx context.Context, name string, msgs []Message, opts ...AppendOption) ([]Appended, error) {
	op := appendOp(name, msgs, appendOptionsOf(opts), nil)
	if spread, err := s.scattered(ctx, name); err != nil {
		return nil, err
	} else if spread && op.Err == nil {
		return s.appendScattered(ctx, name, msgs, appendOptionsOf(opts))
	}
	out, err := s.propose(ctx, op)
	if err != nil {
		return nil, err
	}
	return out.([]Appended), nil
}

// Trim removes the oldest records of every partition and returns their number. It removes those
// beyond the newest MaxLen records or MaxBytes bytes of each partition, those older than MaxAge, or
// those before an ID (Before). If several options are given, only the first of MaxLen, MaxBytes,
// MaxAge and Before applies. Consumer groups skip trimmed records that they have not received. With
// DryRun nothing is removed.
//
// Errors: ErrNotFound; ErrInvalid without a bound.
func (s *Store) Trim(ctx context.Context, name string, opts ...TrimOption) (removed int64, err error) {
	o := trimOptionsOf(opts)
	parts, err := s.parts(ctx, name)
	if err != nil {
		return 0, err
	}
	for _, p := range parts {
		out, err := s.propose(ctx, at(trimOp(name, o, p.spec), p.route))
		if err != nil {
			return removed, err
		}
		removed += out.(int64)
	}
	return removed, nil
}

// Delete removes a stream and its consumer groups. Errors: ErrNotFound; *ConflictError if it holds
// records and Force is not given.
func (s *Store) Delete(ctx context.Context, name string, opts ...DeleteOption) error {
	o := deleteOptionsOf(opts)
	if o.err != nil {
		return o.err
	}
	if spread, err := s.scattered(ctx, name); err != nil {
		return err
	} else if spread && !o.force {
		info, err := s.Get(ctx, name)
		if err != nil {
			return err
		}
		if n := info.Records(); n > 0 {
			return notEmpty(name, n)
		}
	}
	_, err := s.propose(ctx, engine.OpOf(DeleteOp(name, opts...)))
	return err
}

// ConflictError reports a condition that does not hold. It is ErrConflict.
type ConflictError struct {
	Stream    string
	Partition int    // -1 if the error is not about a partition
	LastID    ID     // of the last record of the partition
	Reason    string // such as "last id 5-0, want 4-0"
}

func (e *ConflictError) Error() string { return engine.Text("stream %q: %s", e.Stream, e.Reason) }

// Unwrap returns ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }

func notEmpty(name string, records int64) error {
	return &ConflictError{Stream: name, Partition: -1, Reason: fmt.Sprintf("it has %d records; deleting it requires force", records)}
}

func noSuchPartition(name string, partitions, p int) error {
	return engine.Errorf(ErrInvalid, "stream %q has %d partitions, no partition %d", name, partitions, p)
}

func notFound(name string) error { return engine.Errorf(ErrNotFound, "stream %q not found", name) }

// propose proposes one operation of the store and returns its result.
func (s *Store) propose(ctx context.Context, op engine.Op) (any, error) {
	decode := op.Decode
	if decode == nil {
		decode = func([]byte) (any, error) { return nil, nil }
	}
	return engine.Propose(ctx, &s.scope, op, decode)
}

// partitionOf returns the partition of a message: asked is the requested partition plus 1, or 0 if
// none is requested.
func partitionOf[K string | []byte](key K, asked, unkeyed, partitions int) int {
	switch {
	case asked > 0:
		return asked - 1
	case partitions == 1:
		return 0
	case len(key) > 0:
		return int(xxhash.Sum64([]byte(key)) % uint64(partitions))
	}
	return unkeyed
}
