package stream

import (
	"math"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// CreateOption is an option of Create.
type CreateOption interface{ applyCreate(*createOptions) }

type createOptions struct {
	partitions int
	retention  Retention
	err        error
}

type createOption func(*createOptions)

func (f createOption) applyCreate(o *createOptions) { f(o) }

// Partitions sets the number of partitions, 1 to 1024; it cannot change later. The default is 1.
func Partitions(n int) CreateOption { return createOption(func(o *createOptions) { o.partitions = n }) }

func createOptionsOf(opts []CreateOption) createOptions {
	o := createOptions{partitions: 1}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyCreate(&o)
	}
	return o
}

func checkRetention(r Retention) error {
	if r.MaxAge < 0 || r.MaxAge > 0 && r.MaxAge < time.Millisecond {
		return engine.Errorf(ErrInvalid, "stream: max age %v is less than a millisecond", r.MaxAge)
	}
	return nil
}

// AgeOption is the option of MaxAge; Create and Trim accept it.
type AgeOption struct{ age time.Duration }

// MaxAge limits the age of records; the minimum is 1 ms.
func MaxAge(d time.Duration) AgeOption { return AgeOption{d} }

func (a AgeOption) check() error {
	if a.age < time.Millisecond {
		return engine.Errorf(ErrInvalid, "stream: max age %v is less than a millisecond", a.age)
	}
	return nil
}

func (a AgeOption) applyCreate(o *createOptions) {
	o.retention.MaxAge, o.err = a.age, firstError(o.err, a.check())
}

func (a AgeOption) applyTrim(o *trimOptions) {
	o.maxAge, o.err = a.age, firstError(o.err, a.check())
}

// LengthOption is the option of MaxLen; Create and Trim accept it.
type LengthOption struct{ records int64 }

// MaxLen limits the number of records in each partition. Trim also accepts 0, which removes all.
func MaxLen(records int64) LengthOption { return LengthOption{records} }

func (l LengthOption) applyCreate(o *createOptions) {
	o.retention.MaxLen = l.records
	if l.records < 1 {
		o.err = firstError(o.err, engine.Errorf(ErrInvalid, "stream: max length %d is not positive", l.records))
	}
}

func (l LengthOption) applyTrim(o *trimOptions) { o.maxLen, o.byLen = l.records, true }

// BytesOption is the option of MaxBytes; Create and Trim accept it.
type BytesOption struct{ bytes int64 }

// MaxBytes limits the bytes of records in each partition, as Stats count them: see Retention. The
// newest record is always kept, except that Trim also accepts 0, which removes all.
func MaxBytes(bytes int64) BytesOption { return BytesOption{bytes} }

func (b BytesOption) applyCreate(o *createOptions) {
	o.retention.MaxBytes = b.bytes
	if b.bytes < 1 {
		o.err = firstError(o.err, engine.Errorf(ErrInvalid, "stream: max bytes %d is not positive", b.bytes))
	}
}

func (b BytesOption) applyTrim(o *trimOptions) { o.maxBytes, o.byBytes = b.bytes, true }

func firstError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// TrimOption is an option of Trim.
type TrimOption interface{ applyTrim(*trimOptions) }

type trimOptions struct {
	byLen    bool
	maxLen   int64
	byBytes  bool
	maxBytes int64
	maxAge   time.Duration
	before   ID
	dryRun   bool
	err      error
}

type trimOption func(*trimOptions)

func (f trimOption) applyTrim(o *trimOptions) { f(o) }

// Before removes the records before an ID.
func Before(id ID) TrimOption { return trimOption(func(o *trimOptions) { o.before = id }) }

// DryRun makes Trim return the number of records it would remove, without removing them.
func DryRun() TrimOption { return trimOption(func(o *trimOptions) { o.dryRun = true }) }

func trimOptionsOf(opts []TrimOption) trimOptions {
	var o trimOptions
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyTrim(&o)
	}
	if o.err == nil && !o.byLen && !o.byBytes && o.maxAge == 0 && o.before.IsZero() {
		o.err = engine.Errorf(ErrInvalid, "stream: trim has no bound, expected a length, bytes, an age or an id")
	}
	return o
}

// DeleteOption is an option of Delete.
type DeleteOption interface{ applyDelete(*deleteOptions) }

type deleteOptions struct {
	force bool
	err   error
}

type deleteOption func(*deleteOptions)

func (f deleteOption) applyDelete(o *deleteOptions) { f(o) }

// Force deletes a stream even if it holds records.
func Force() DeleteOption { return deleteOption(func(o *deleteOptions) { o.force = true }) }

func deleteOptionsOf(opts []DeleteOption) (o deleteOptions) {
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyDelete(&o)
	}
	return o
}

// AppendOption is an option of Append.
type AppendOption interface{ applyAppend(*appendOptions) }

type appendOptions struct {
	partition int // partition plus 1; 0: not given
	producer  string
	sequence  uint64
	expect    bool
	lastID    ID
	err       error
}

func (o *appendOptions) conditional() bool { return o.producer != "" || o.expect }

// unkeyed returns the partition of messages without a key if the sender must choose it. With a
// producer it depends on the producer's name, so that a repeat goes to the same partition.
func (o *appendOptions) unkeyed(partitions int) int {
	if o.producer != "" {
		return partitionOf(o.producer, 0, 0, partitions)
	}
	return int(turn.Add(1) % uint64(partitions))
}

type appendOption func(*appendOptions)

func (f appendOption) applyAppend(o *appendOptions) { f(o) }

// Dedup makes an append safe to repeat. The sequence numbers of a producer, a name of 1-255 bytes,
// must increase. A repeat of one of its last 8 appends appends nothing and returns the result of
// the first; a repeat of an earlier one fails with a *ConflictError. A producer is forgotten 24
// hours after its last append.
func Dedup(producer string, sequence uint64) AppendOption {
	return appendOption(func(o *appendOptions) {
		o.producer, o.sequence = producer, sequence
		o.err = firstError(o.err, engine.CheckName("producer", producer))
	})
}

// IfLastID appends only if id is the ID of the last record ever appended to the partition. The zero
// ID means that no record was ever appended. All messages must be for the same partition.
func IfLastID(id ID) AppendOption {
	return appendOption(func(o *appendOptions) { o.expect, o.lastID = true, id })
}

func appendOptionsOf(opts []AppendOption) (o appendOptions) {
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyAppend(&o)
	}
	return o
}

// PartitionOption is the option of Partition; Append, Read, Follow and Seek accept it.
type PartitionOption struct{ partition int }

// Partition appends to one partition, reads from it, or moves a group's cursor in it. Partitions
// are numbered from 0.
func Partition(p int) PartitionOption { return PartitionOption{p} }

func (p PartitionOption) check() error {
	if p.partition < 0 || p.partition >= MaxPartitions {
		return engine.Errorf(ErrInvalid, "stream: partition %d is not in 0-%d", p.partition, MaxPartitions-1)
	}
	return nil
}

func (p PartitionOption) applyAppend(o *appendOptions) {
	o.partition, o.err = p.partition+1, firstError(o.err, p.check())
}

func (p PartitionOption) applyRead(o *readOptions) {
	o.partition, o.err = p.partition+1, firstError(o.err, p.check())
}

func (p PartitionOption) applyFollow(o *readOptions) { p.applyRead(o) }

// ReadOption is an option of Read.
type ReadOption interface{ applyRead(*readOptions) }

// FollowOption is an option of Follow.
type FollowOption interface{ applyFollow(*readOptions) }

type readOptions struct {
	partition int // partition plus 1; 0: all
	start     start
	end       ID // of the last record to read; zero: no end
	limit     int
	wait      time.Duration
	err       error
}

// start is a start position.
type start struct {
	kind startKind
	id   ID
}

type startKind uint8

const (
	startFirst startKind = iota // the oldest record
	startAt                     // the first record with this ID or a later one
	startTail                   // limit records before the end
	startEnd                    // after the last record
	numStarts
)

// StartOption is a start position; Read, Follow and Groups.Create accept it.
type StartOption struct{ start start }

// From begins with the record with the given ID, or with the next one if no record has that ID.
func From(id ID) StartOption { return StartOption{start{startAt, id}} }

// After begins with the first record after the given ID.
func After(id ID) StartOption { return StartOption{start{startAt, id.next()}} }

// FromTime begins with the first record appended at t or later. A time outside the years 1970 to
// 292278994 is replaced by the nearest one within them.
func FromTime(t time.Time) StartOption {
	return StartOption{start{startAt, ID{Millis: millisAt(t)}}}
}

// millisAt returns the milliseconds of a time, or the nearest ones that an ID can have.
// time.Time.UnixMilli is undefined for times further away.
func millisAt(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < 0:
		return 0
	case s >= math.MaxInt64/1000:
		return math.MaxInt64
	}
	return t.UnixMilli()
}

// FromBeginning begins with the oldest record. This is the default.
func FromBeginning() StartOption { return StartOption{} }

func (s StartOption) applyRead(o *readOptions)   { o.start = s.start }
func (s StartOption) applyFollow(o *readOptions) { o.start = s.start }

type readOption func(*readOptions)

func (f readOption) applyRead(o *readOptions) { f(o) }

// Tail reads the last records of the stream, up to Limit, oldest first.
func Tail() ReadOption { return readOption(func(o *readOptions) { o.start = start{kind: startTail} }) }

// Until ends the read with the record of the given ID. No record has the zero ID, so Until(ID{})
// reads nothing.
func Until(id ID) ReadOption {
	if id.IsZero() {
		id = beforeAll
	}
	return readOption(func(o *readOptions) { o.end = id })
}

// beforeAll is smaller than the ID of any record.
var beforeAll = ID{Millis: -1}

// UntilTime reads no record appended after t. Before 1970 it reads nothing.
func UntilTime(t time.Time) ReadOption {
	if t.Unix() < 0 {
		return Until(beforeAll)
	}
	return Until(ID{millisAt(t), math.MaxUint64})
}

// NewOption is the option of FromEnd; Follow and Groups.Create accept it.
type NewOption struct{}

// FromEnd begins after the last record: existing records are skipped.
func FromEnd() NewOption { return NewOption{} }

func (NewOption) applyFollow(o *readOptions) { o.start = start{kind: startEnd} }

// LimitOption is the option of Limit; all reads and listings accept it.
type LimitOption struct{ limitOption }

// Limit sets the maximum number of records of a read or items on a page, 1 to 1000; the default is
// 100. Iterators over listings read pages of this size.
func Limit(n int) LimitOption { return LimitOption{engine.Limit(n)} }

func (l LimitOption) applyRead(o *readOptions) {
	o.limit = engine.LimitIn(l.limitOption)
	o.err = firstError(o.err, engine.CheckLimit(o.limit))
}

// WaitOption is the option of Wait; Read and ReadGroup accept it.
type WaitOption struct{ d time.Duration }

// Wait waits up to d for a record if none is available. If the wait times out, the result is empty
// and the error nil.
func Wait(d time.Duration) WaitOption { return WaitOption{d} }

func (w WaitOption) check() error {
	if w.d < 0 {
		return engine.Errorf(ErrInvalid, "stream: wait of %v is negative", w.d)
	}
	return nil
}

func (w WaitOption) applyRead(o *readOptions) { o.wait, o.err = w.d, firstError(o.err, w.check()) }
