package queue

import (
	"context"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// DefaultMaxPayloadBytes is the default maximum length of a payload.
const DefaultMaxPayloadBytes = 1 << 20

// MaxBatch is the maximum number of messages that EnqueueMany, Dequeue and Ack take in one call.
const MaxBatch = 1000

// MaxBatchBytes bounds a batch of more than one message in EnqueueMany and Dequeue: payloads and
// headers, plus 16 bytes for each message.
const MaxBatchBytes = 4 << 20

// The errors of the store; the same values as in package floe.
var (
	ErrNotFound = engine.ErrNotFound // the queue or the message does not exist
	ErrConflict = engine.ErrConflict // the lease of a receipt has ended, a *ReceiptError; or the message to delete is leased
	ErrInvalid  = engine.ErrInvalid  // an argument is malformed or exceeds its limits
	ErrBusy     = engine.ErrBusy     // the queue is bounded and full, or too many messages are leased
)

// Enqueued is the result of enqueueing a message.
type Enqueued struct {
	Seq       uint64 // its number in the queue, as used by Messages and DeadLetters
	LSN       uint64 // log sequence number of the call
	Duplicate bool   // its DedupKey was used before; Seq is that of the earlier message
}

// State is the state of a message.
type State uint8

// The states of a message.
const (
	Ready   State = iota + 1 // can be delivered
	Delayed                  // will be ready at AvailableAt
	Leased                   // delivered, until LeaseUntil
	Dead                     // a dead letter
)

var stateNames = [...]string{Ready: "ready", Delayed: "delayed", Leased: "leased", Dead: "dead"}

// String returns the state's name: ready, delayed, leased or dead.
func (s State) String() string {
	if s < Ready || s > Dead {
		return "unknown"
	}
	return stateNames[s]
}

// Message is a message of a queue. Its bytes belong to the caller; the payloads of one call share
// memory.
type Message struct {
	Queue       string
	Seq         uint64
	Priority    int
	Payload     []byte
	Headers     map[string]string // see the option Headers; nil if it has none
	State       State
	Attempts    int // deliveries so far, this one included
	MaxAttempts int // number of deliveries without an Ack after which it becomes a dead letter
	EnqueuedAt  time.Time
	LeaseUntil  time.Time // of a leased message
	AvailableAt time.Time // of a delayed message
	DiedAt      time.Time // of a dead letter
	LastError   string    // reason of the last Nack, or "lease expired"
	Receipt     Receipt   // what Dequeue returns and Ack takes; "" elsewhere
	Size        int       // bytes of the payload, which listings may omit
}

// Settings are the settings of a queue. The zero value is that of a queue that was never
// configured.
type Settings struct {
	// MaxLen is the maximum number of messages in the queue, not counting dead letters. Beyond it,
	// Enqueue returns ErrBusy. 0 means no limit.
	MaxLen int64
	// MaxBytes bounds the payloads and headers of these messages, in bytes. 0 means no limit.
	MaxBytes int64
	// MaxAttempts is the number of deliveries before a message becomes a dead letter, unless the
	// message sets its own: 1 to 1,000,000. 0 means 5.
	MaxAttempts int
	// BackoffMin is the delay before the second delivery of a message, unless its consumer sets
	// one. It doubles before each further delivery. 0 means 1 s, or BackoffMax if that is shorter;
	// negative (NoBackoff) means no delay.
	BackoffMin time.Duration
	// BackoffMax is the maximum delay. 0 means 5 min, or BackoffMin if that is longer.
	BackoffMax time.Duration
	// DeadRetention is how long dead letters are kept. 0 means forever.
	DeadRetention time.Duration
	// DedupWindow is how long a DedupKey is remembered. 0 means 1 h.
	DedupWindow time.Duration
}

// NoBackoff is the BackoffMin of a queue that redelivers messages without delay.
const NoBackoff time.Duration = -1

// Stats are the number of messages in a queue, by state, and totals since its creation:
//
//	Enqueued = Ready + Delayed + Inflight + Dead + Acked + Purged + Discarded
type Stats struct {
	Name      string
	CreatedAt time.Time
	Paused    bool
	Settings  Settings // with the defaults filled in

	Ready    int64 // messages that can be delivered now
	Delayed  int64 // messages that are not yet due
	Inflight int64 // messages that are leased
	Dead     int64 // dead letters
	Bytes    int64 // payloads and headers of all but the dead letters

	Enqueued   int64 // total messages enqueued
	Duplicates int64 // total messages not enqueued, because of their DedupKey
	Dequeued   int64 // deliveries
	Acked      int64
	Expired    int64 // leases that expired
	Purged     int64 // messages removed by Purge or Messages.Delete
	Discarded  int64 // dead letters that were deleted, or whose retention ended
}

// Store holds the queues of one namespace. It is cheap to make, safe for concurrent use and needs
// no Close.
type Store struct{ scope engine.Scope }

// Namespace returns the namespace of the store.
func (s *Store) Namespace() string { return s.scope.Namespace() }

// Configure sets all settings of a queue, which is created if it does not exist. Messages already
// in the queue stay, even beyond a new limit. They keep the MaxAttempts and the dedup window with
// which they were enqueued.
//
// Errors: ErrInvalid naming the field out of range.
func (s *Store) Configure(ctx context.Context, name string, settings Settings) error {
	_, err := engine.Propose(ctx, &s.scope, configureOp(name, settings), configure.Decode)
	return err
}

// Enqueue adds a message to a queue, which is created if it does not exist. payload may be reused
// on return. When Enqueue returns nil, the message is committed (see floe.Config.Durability) and
// will be delivered at least once. After a ctx error or ErrUnknownOutcome it may or may not have
// been added. With a DedupKey the call can safely be repeated.
//
// Options: Priority, Delay, DedupKey, MaxAttempts, Headers. Errors: ErrInvalid for a name that is
// not 1-255 bytes of UTF-8 without control characters, a payload over the limit, options out of
// range; ErrBusy if the queue is bounded and full, or if the message would exceed its limits even
// in an empty queue.
func (s *Store) Enqueue(ctx context.Context, name string, payload []byte, opts ...EnqueueOption) (Enqueued, error) {
	return engine.Propose(ctx, &s.scope, enqueueOne(name, payload, opts), decodeEnqueued)
}

// NewMessage is a message for EnqueueMany.
type NewMessage struct {
	Payload []byte
	Options []EnqueueOption // as for Enqueue
}

// EnqueueMany adds up to 1,000 messages, of 4 MiB in total, to a queue: all of them, in order, or
// none. The results are in the same order.
//
// Errors: those of Enqueue.
func (s *Store) EnqueueMany(ctx context.Context, name string, messages []NewMessage) ([]Enqueued, error) {
	return engine.Propose(ctx, &s.scope, enqueueMany(name, messages), decodeEnqueuedMany)
}

// Dequeue leases messages in order of Priority, lowest first, and within a priority in the order in
// which they were enqueued. No other consumer gets them until their leases end by Ack, which
// removes them, by Nack, or by expiry. After a Nack or an expiry they return to their old place
// after a back-off, or become dead letters if that was their last attempt.
//
// If no message is ready, including when the queue is paused or does not exist, Dequeue waits up to
// Wait. If that time passes, it returns an empty result and no error. After a ctx error or
// ErrUnknownOutcome, messages may have been leased; they return to the queue when their leases end.
//
// Options: Max (1), Lease (30 s), Wait (0). Errors: ErrInvalid for options out of range, ErrBusy if
// 1,000,000 messages are leased in the shard.
func (s *Store) Dequeue(ctx context.Context, name string, opts ...DequeueOption) ([]Message, error) {
	return s.dequeue(ctx, name, opts)
}

// Ack acknowledges up to 1,000 messages. It removes all of them or none, and returns the number
// removed.
//
// Errors: *ReceiptError, which is ErrConflict, for the first receipt whose lease has ended;
// ErrNotFound if the queue does not exist; ErrInvalid for no receipts or more than 1,000, an
// invalid receipt, or a duplicate.
func (s *Store) Ack(ctx context.Context, name string, receipts ...Receipt) (acked int, err error) {
	_, err = ack.Send(ctx, &s.scope, name, func(b *receiptsBody) error { return b.parse(receipts) })
	return counted(receipts, err)
}

// Nack returns up to 1,000 messages to the queue: all of them or none. Each returns to its old
// place after a back-off, or becomes a dead letter if that was its last attempt. Nack returns the
// number of messages.
//
// Options: Delay, instead of the back-off; ToDLQ; Reason. Errors: those of Ack; ErrInvalid for
// options out of range.
func (s *Store) Nack(ctx context.Context, name string, receipts []Receipt, opts ...NackOption) (nacked int, err error) {
	_, err = engine.Propose(ctx, &s.scope, nackOp(name, receipts, opts), nack.Decode)
	return counted(receipts, err)
}

// counted returns the result of an operation on all receipts or none.
func counted(receipts []Receipt, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(receipts), nil
}

// Extend makes a lease expire the given time from now, and returns when it expires. The receipt
// stays valid.
//
// Errors: *ReceiptError, which is ErrConflict, if the lease has ended; ErrNotFound if the queue
// does not exist; ErrInvalid for a time that is not positive.
func (s *Store) Extend(ctx context.Context, name string, receipt Receipt, lease time.Duration) (until time.Time, err error) {
	return engine.Propose(ctx, &s.scope, extendOp(name, receipt, lease), extend.Decode)
}

// Release returns messages to the queue as if they had not been delivered. They are ready again at
// once, in their old places, and the delivery does not count as an attempt. It is meant for
// messages that a consumer has dequeued but not started. It takes up to 1,000 receipts and skips
// those whose leases have ended. It returns the number of messages released.
//
// Errors: ErrNotFound if the queue does not exist; ErrInvalid for a malformed receipt.
func (s *Store) Release(ctx context.Context, name string, receipts ...Receipt) (released int64, err error) {
	return release.Send(ctx, &s.scope, name, func(b *receiptsBody) error { return b.parse(receipts) })
}

// Pause stops deliveries: Dequeue waits and gets no messages. All other operations still work.
// Errors: ErrNotFound.
func (s *Store) Pause(ctx context.Context, name string) error {
	_, err := pause.Do(ctx, &s.scope, name, pauseBody{true}, nil)
	return err
}

// Resume resumes a paused queue. Errors: ErrNotFound.
func (s *Store) Resume(ctx context.Context, name string) error {
	_, err := pause.Do(ctx, &s.scope, name, pauseBody{false}, nil)
	return err
}

// Purge removes all messages except dead letters, including leased and delayed ones, and returns
// their number. Its duration hardly depends on that number. Errors: ErrNotFound.
func (s *Store) Purge(ctx context.Context, name string) (purged int64, err error) {
	return purge.Do(ctx, &s.scope, name, engine.Nothing{}, nil)
}

// Delete removes a queue with all its messages, dead letters, dedup keys and settings. Errors:
// ErrNotFound.
func (s *Store) Delete(ctx context.Context, name string) error {
	_, err := remove.Do(ctx, &s.scope, name, engine.Nothing{}, nil)
	return err
}

func checkName(name string) error { return engine.CheckName("queue", name) }

func notFound(name string) error { return engine.Errorf(ErrNotFound, "queue %q not found", name) }
