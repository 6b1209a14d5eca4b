package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/engine"
)

// Limits.
const (
	MaxPartitions          = 1024
	MaxKeyBytes            = 4096
	MaxHeaderBytes         = 64 << 10 // names and values of a message together
	MaxBatch               = 10_000   // messages of one AppendMany
	MaxBatchBytes          = 4 << 20  // of one AppendMany, unless it is a single message
	DefaultMaxPayloadBytes = 1 << 20
)

// The errors of the store; the same values as in package floe.
var (
	ErrNotFound = engine.ErrNotFound
	ErrConflict = engine.ErrConflict
	ErrExists   = engine.ErrExists
	ErrInvalid  = engine.ErrInvalid
)

// Message is what is appended.
type Message struct {
	Key     string // arbitrary bytes, up to 4096; messages with one key are in one partition, in order. "" means none
	Payload []byte
	Headers map[string]string // up to 64 KiB
}

// Record is a message in a stream. It is the caller's to keep.
type Record struct {
	Message
	ID        ID
	Partition int
	Offset    uint64 // counts the records of the partition from 1, without gaps
	LSN       uint64 // log sequence number of the append in its shard
}

// Ref names a record of a stream, and a delivery of it to a consumer.
type Ref struct {
	Partition int
	Offset    uint64
	Attempt   int // 0: whichever delivery it is
}

// Appended says where a message has got to.
type Appended struct {
	ID        ID
	Partition int
	Offset    uint64
	LSN       uint64
	Duplicate bool // it had been appended before, see Dedup
}

// Store holds the streams of one namespace. It is cheap to make, safe for concurrent use and needs no Close.
type Store struct {
	router     *engine.Router
	namespace  string
	maxPayload int
}

// New returns the store of a namespace behind a router; hosts call floe.Node.Stream instead. maxPayloadBytes of 0 means
// DefaultMaxPayloadBytes.
func New(router *engine.Router, namespace string, maxPayloadBytes int) *Store {
	if maxPayloadBytes == 0 {
		maxPayloadBytes = DefaultMaxPayloadBytes
	}
	return &Store{router: router, namespace: namespace, maxPayload: maxPayloadBytes}
}

// Namespace returns the namespace of the store.
func (s *Store) Namespace() string { return s.namespace }

// Create makes a stream. A first append makes one too, with one partition and no retention.
//
// Options: Partitions, MaxAge, MaxLen. Errors: ErrExists; ErrInvalid for a name that is not 1-255 bytes of UTF-8 without control characters,
// for partitions that are not 1-1024, and for a retention that is not positive.
func (s *Store) Create(ctx context.Context, name string, opts ...CreateOption) error {
	_, err := s.propose(ctx, CreateOp(name, opts...))
	return err
}

// SetRetention changes how long the stream keeps its records; what is beyond goes soon. The zero Retention keeps them all.
//
// Errors: ErrNotFound; ErrInvalid for a negative bound.
func (s *Store) SetRetention(ctx context.Context, name string, r Retention) error {
	_, err := s.propose(ctx, SetRetentionOp(name, r))
	return err
}

// Append adds a message to the end of a stream, which it creates if there is none. The partition is the one asked for, else that of the
// message's key, else one after the other. When Append returns nil, the record is committed (see floe.Config.Durability) and visible to every
// reader. After a ctx error or ErrUnknownOutcome it may or may not have been appended: an append with Dedup can be repeated.
//
// Options: Partition, Dedup, IfLastID. Errors: *ConflictError; ErrInvalid for a message beyond the limits or a partition that there is not.
func (s *Store) Append(ctx context.Context, name string, msg Message, opts ...AppendOption) (Appended, error) {
	all, err := s.AppendMany(ctx, name, []Message{msg}, opts...)
	if err != nil {
		return Appended{}, err
	}
	return all[0], nil
}

// AppendMany is Append for several messages; those without a key share a partition. All of them are appended or none, except in a spread
// namespace, where that holds for each partition: if some fail, the error comes with the result, in which those have no ID.
func (s *Store) AppendMany(ctx context.Context, name string, msgs []Message, opts ...AppendOption) ([]Appended, error) {
	op := AppendManyOp(name, msgs, opts...)
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

// Trim removes records from the front of every partition and returns how many: those beyond the newest ones that MaxLen names, for each partition, those
// older than MaxAge, or those before an ID (Before). With several bounds MaxLen counts, else MaxAge. Consumer groups that have
// not had them go on behind them. With DryRun nothing is removed.
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

// Delete removes a stream with its consumer groups. Errors: ErrNotFound; *ConflictError if it holds records and Force is not given.
func (s *Store) Delete(ctx context.Context, name string, opts ...DeleteOption) error {
	o := deleteOptionsOf(opts)
	if spread, err := s.scattered(ctx, name); err != nil {
		return err
	} else if spread && !o.force {
		info, err := s.Info(ctx, name)
		if err != nil {
			return err
		}
		if n := info.Records(); n > 0 {
			return notEmpty(name, n)
		}
	}
	_, err := s.propose(ctx, DeleteOp(name, opts...))
	return err
}

// ConflictError is the ErrConflict of a condition that does not hold.
type ConflictError struct {
	Stream    string
	Partition int    // -1: not about one
	LastID    ID     // of the last record of the partition
	Reason    string // such as "last id 5-0, want 4-0"
}

func (e *ConflictError) Error() string { return fmt.Sprintf("stream %q: %s", e.Stream, e.Reason) }

// Unwrap returns ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }

func notEmpty(name string, records int64) error {
	return &ConflictError{Stream: name, Partition: -1, Reason: fmt.Sprintf("it holds %d records and is deleted only by force", records)}
}

func notFound(name string) error { return engine.Errorf(ErrNotFound, "stream %q not found", name) }

// propose sends one operation of the store and returns its result.
func (s *Store) propose(ctx context.Context, op engine.Op) (any, error) {
	cmd, err := op.Limit(s.maxPayload)
	if err != nil {
		return nil, err
	}
	if err := engine.CheckWritable(s.namespace); err != nil {
		return nil, err
	}
	cmd.Namespace = s.namespace
	result, err := s.router.Propose(ctx, op.Route, cmd)
	if err != nil || op.Decode == nil {
		return nil, err
	}
	return op.Decode(result)
}

// In a spread namespace the partitions of a stream are in the shards of their routes, the first one with the stream's record in the shard of
// its name, which is the stream's home. Other shards learn what the record says from the commands that come there, as a spec.

// route returns the name that places a partition.
func route(name string, partition int) string {
	if partition == 0 || engine.Tagged(name) {
		return name
	}
	return fmt.Sprintf("%s/%d", name, partition)
}

// part is what one shard has of a stream.
type part struct {
	route      string
	spec       *spec // nil: the shard has the stream's record
	partitions []int // nil: all
}

// scattered reports whether the partitions of a stream may be in several shards.
func (s *Store) scattered(ctx context.Context, name string) (bool, error) {
	if engine.Tagged(name) {
		return false, nil
	}
	return s.router.Spread(ctx, s.namespace)
}

// parts returns where the partitions of a stream are, the home first. Errors: ErrNotFound, but only if it is scattered.
func (s *Store) parts(ctx context.Context, name string) ([]part, error) {
	spread, err := s.scattered(ctx, name)
	if err != nil || !spread {
		return []part{{route: name}}, err
	}
	sp, err := s.spec(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.partsOf(name, sp), nil
}

func (s *Store) partsOf(name string, sp *spec) (parts []part) {
	at := make(map[engine.ShardID]int)
	for p := range sp.partitions {
		r := route(name, p)
		shard := engine.NameShard(s.namespace, r, s.router.Door().Shards())
		i, known := at[shard]
		if !known {
			i = len(parts)
			at[shard] = i
			parts = append(parts, part{route: r, spec: sp})
		}
		parts[i].partitions = append(parts[i].partitions, p)
	}
	return parts
}

// spec asks a stream's home for its record.
func (s *Store) spec(ctx context.Context, name string) (*spec, error) {
	q := specQuery{namespace: s.namespace, stream: name}
	if err := s.router.Query(ctx, s.namespace, name, &q); err != nil {
		return nil, err
	}
	if !q.found {
		return nil, notFound(name)
	}
	return &q.spec, nil
}

// appendScattered is AppendMany where partitions are in several shards.
func (s *Store) appendScattered(ctx context.Context, name string, msgs []Message, o appendOptions) ([]Appended, error) {
	sp, err := s.spec(ctx, name)
	if errors.Is(err, ErrNotFound) {
		if err := s.Create(ctx, name); err != nil && !errors.Is(err, ErrExists) {
			return nil, err
		}
		sp, err = s.spec(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	byPartition := make(map[int][]int)
	var order []int
	unkeyed := o.unkeyed(sp.partitions)
	for i := range msgs {
		p := partitionOf(msgs[i].Key, o.partition, unkeyed, sp.partitions)
		if byPartition[p] == nil {
			order = append(order, p)
		}
		byPartition[p] = append(byPartition[p], i)
	}
	if o.conditional() && len(order) > 1 {
		return nil, engine.Errorf(ErrInvalid, "stream %q: the messages are for %d partitions, and Dedup and IfLastID take one in a spread namespace", name, len(order))
	}
	results := make([]Appended, len(msgs))
	var failed error
	for _, p := range order {
		batch := make([]Message, len(byPartition[p]))
		for j, i := range byPartition[p] {
			batch[j] = msgs[i]
		}
		one := o
		one.partition = p + 1
		out, err := s.propose(ctx, at(appendOp(name, batch, one, sp), route(name, p)))
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("partition %d: %w", p, err))
			continue
		}
		for j, i := range byPartition[p] {
			results[i] = out.([]Appended)[j]
		}
	}
	if failed != nil && len(order) == 1 {
		return nil, failed
	}
	return results, failed
}

// partitionOf returns the partition of a message: asked is one more than the one asked for, 0 if none is.
func partitionOf(key string, asked, unkeyed, partitions int) int {
	switch {
	case asked > 0:
		return asked - 1
	case key != "":
		return int(xxhash.Sum64String(key) % uint64(partitions))
	}
	return unkeyed
}

// Retention says what a stream keeps; 0 means no bound.
type Retention struct {
	MaxAge time.Duration // records older than that go, within a second or a hundredth of it
	MaxLen int64         // records of each partition beyond the newest so many go
}

// String returns the policy as words, such as "7d, 10000 records", or "∞" if there is none.
func (r Retention) String() string {
	switch {
	case r.MaxAge > 0 && r.MaxLen > 0:
		return fmt.Sprintf("%s, %d records", shortDuration(r.MaxAge), r.MaxLen)
	case r.MaxAge > 0:
		return shortDuration(r.MaxAge)
	case r.MaxLen > 0:
		return fmt.Sprintf("%d records", r.MaxLen)
	}
	return "∞"
}

// shortDuration writes whole days, hours, minutes and seconds with one unit: 7d, 36h.
func shortDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return d.String()
}
