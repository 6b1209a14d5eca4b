package dashboard

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
)

var queueWorkRoutes = []route{
	endpoint("PUT /api/v1/queues/:name", (*handler).configureQueue, "Set all settings of a queue, which is created if it does not exist."),
	endpoint("DELETE /api/v1/queues/:name", (*handler).deleteQueue, "Delete a queue. One with messages requires force=true."),
	endpoint("POST /api/v1/queues/:name/batch", (*handler).enqueueBatch,
		"Enqueue up to 1,000 messages, all or none. The body may also have one message in each line (application/x-ndjson)."),
	endpoint("POST /api/v1/queues/:name/dequeue", (*handler).dequeue, "Lease messages."),
	endpoint("POST /api/v1/queues/:name/ack", (*handler).ackMessages, "Acknowledge messages, all or none."),
	endpoint("POST /api/v1/queues/:name/nack", (*handler).nackMessages, "Return messages for another delivery, all or none."),
	endpoint("POST /api/v1/queues/:name/extend", (*handler).extendMessage, "Extend the lease of a message."),
	endpoint("POST /api/v1/queues/:name/release", (*handler).releaseMessages, "Return messages as if they had not been delivered."),
	endpoint("PUT /api/v1/queues/:name/pause", (*handler).pauseQueue, "Pause deliveries."),
	endpoint("PUT /api/v1/queues/:name/resume", (*handler).resumeQueue, "Resume deliveries."),
	endpoint("POST /api/v1/queues/:name/dlq/redrive", (*handler).redrive, "Requeue all dead letters, or those that contain a text."),
}

// queueDone is the response to an operation on a queue.
type queueDone struct {
	OK    bool   `json:"ok"`
	Queue string `json:"queue"`
}

// queueSettings has the settings of a queue as queue.Settings has them.
type queueSettings struct {
	queueRequest
	settings queue.Settings
}

func (q *queueSettings) parse(in *input) {
	q.queueRequest.parse(in)
	readFields(in, &q.settings, queueSettingsFields)
}

func queueSettingsFields(s *queue.Settings, f *codec.Fields) {
	f.Count("max_len", &s.MaxLen)
	f.Count("max_bytes", &s.MaxBytes)
	f.Int("max_attempts", &s.MaxAttempts)
	f.Duration("backoff_min_ms", &s.BackoffMin)
	f.Duration("backoff_max_ms", &s.BackoffMax)
	f.Duration("dead_retention_ms", &s.DeadRetention)
	f.Duration("dedup_window_ms", &s.DedupWindow)
}

func (h *handler) configureQueue(ctx context.Context, q queueSettings) (queueDone, error) {
	err := h.backend.Queue(q.namespace).Configure(ctx, q.name, q.settings)
	return queueDone{true, q.name}, err
}

// deleteQueueRequest names a queue to delete, with force also with messages.
type deleteQueueRequest struct {
	queueRequest
	force bool
}

func (q *deleteQueueRequest) parse(in *input) {
	q.queueRequest.parse(in)
	q.force = in.boolean("force")
}

func (h *handler) deleteQueue(ctx context.Context, q deleteQueueRequest) (queueDone, error) {
	store := h.backend.Queue(q.namespace)
	if !q.force {
		s, err := store.Get(ctx, q.name)
		if err != nil {
			return queueDone{}, err
		}
		if n := s.Ready + s.Delayed + s.Inflight + s.Dead; n > 0 {
			return queueDone{}, unlessForced(engine.Errorf(engine.ErrConflict, "queue %q holds %s", q.name, counted(n, "message")))
		}
	}
	return queueDone{true, q.name}, store.Delete(ctx, q.name)
}

// newMessage is a message to enqueue.
type newMessage struct {
	payload     []byte
	priority    int
	delay       time.Duration
	dedup       string
	headers     map[string]string
	maxAttempts int
}

func (m *newMessage) fields(f *codec.Fields) {
	if f.Parsing() {
		m.priority = queue.DefaultPriority
	}
	need(f, "payload")
	f.Blob("payload", &m.payload)
	f.Int("priority", &m.priority, codec.Range{Max: queue.MaxPriority})
	f.Duration("delay_ms", &m.delay, codec.Range{Max: delayMillis.max})
	f.Text("dedup_key", &m.dedup, codec.Range{Max: queue.MaxDedupKeyBytes})
	engine.CodePairMap(f, "headers", &m.headers)
	f.Int("max_attempts", &m.maxAttempts, codec.Range{Min: 1, Max: queue.MaxAttemptsLimit, Optional: true})
}

func (m *newMessage) message() queue.NewMessage {
	opts := []queue.EnqueueOption{queue.Priority(m.priority), queue.Delay(m.delay)}
	if m.dedup != "" {
		opts = append(opts, queue.DedupKey(m.dedup))
	}
	if len(m.headers) > 0 {
		opts = append(opts, queue.Headers(m.headers))
	}
	if m.maxAttempts > 0 {
		opts = append(opts, queue.MaxAttempts(m.maxAttempts))
	}
	return queue.NewMessage{Payload: m.payload, Options: opts}
}

// enqueueManyRequest has the messages of a batch.
type enqueueManyRequest struct {
	queueRequest
	messages []newMessage
}

func (q *enqueueManyRequest) parse(in *input) {
	q.queueRequest.parse(in)
	if in.contentType() == jsonLines {
		readLines(in, &q.messages, queue.MaxBatch, (*newMessage).fields)
	} else {
		readFields(in, q, (*enqueueManyRequest).fields)
	}
	key, encoding := in.idempotencyKey(), in.encoding()
	for i := range q.messages {
		m := &q.messages[i]
		in.check(encoding.decodeHeaders(m.headers))
		if key != "" && m.dedup != "" {
			in.invalid("the header Idempotency-Key and the member dedup_key of a message exclude each other")
		}
		if key != "" {
			m.dedup = dedupKey(key, i)
		}
	}
}

// dedupKey returns the dedup key of a message in a batch with an idempotency key. It differs from
// the keys that clients choose for single messages.
func dedupKey(key string, i int) string {
	return fmt.Sprintf("batch/%x/%d", sha256.Sum256([]byte(key)), i)
}

func (q *enqueueManyRequest) fields(f *codec.Fields) {
	need(f, "messages")
	codec.ListOf(f, "messages", &q.messages, (*newMessage).fields, codec.Range{Min: 1, Max: queue.MaxBatch})
}

// enqueuedBatch has the number of each message of a batch, and the indices of those whose dedup_key
// was used before: they have the number of the earlier message.
type enqueuedBatch struct {
	Seqs       []uint64 `json:"seqs"`
	Duplicates []int    `json:"duplicates"`
}

func (h *handler) enqueueBatch(ctx context.Context, q enqueueManyRequest) (enqueuedBatch, error) {
	messages := make([]queue.NewMessage, len(q.messages))
	for i := range q.messages {
		messages[i] = q.messages[i].message()
	}
	added, err := h.backend.Queue(q.namespace).EnqueueMany(ctx, q.name, messages)
	if err != nil {
		return enqueuedBatch{}, err
	}
	batch := enqueuedBatch{make([]uint64, len(added)), []int{}}
	for i, m := range added {
		if batch.Seqs[i] = m.Seq; m.Duplicate {
			batch.Duplicates = append(batch.Duplicates, i)
		}
	}
	return batch, nil
}

// leaseRange is the range of lease_ms.
var leaseRange = codec.Range{Min: 1, Max: ttlSeconds.max * 1000}

// defaultLease is the duration of a lease if the request names none.
const defaultLease = 30 * time.Second

// dequeueRequest leases up to max messages.
type dequeueRequest struct {
	queueRequest
	wait
	max      int
	lease    time.Duration
	encoding encoding
}

func (q *dequeueRequest) parse(in *input) {
	q.queueRequest.parse(in)
	q.wait.parse(in)
	q.encoding = in.encoding()
	q.max, q.lease = 1, defaultLease
	readFields(in, q, (*dequeueRequest).fields)
}

func (q *dequeueRequest) fields(f *codec.Fields) {
	f.Int("max", &q.max, codec.Range{Min: 1, Max: queue.MaxBatch})
	f.Duration("lease_ms", &q.lease, leaseRange)
	q.wait.fields(f)
}

// leasedMessages is the response to dequeue; it is empty if no message was ready.
type leasedMessages struct {
	Messages []leasedMessage `json:"messages"`
}

type leasedMessage struct {
	Receipt           string            `json:"receipt"`
	Seq               uint64            `json:"seq"`
	Attempt           int               `json:"attempt"` // 1 for the first delivery
	Priority          int               `json:"priority"`
	Payload           string            `json:"payload"`
	Headers           map[string]string `json:"headers"`
	LeasedUntilMillis int64             `json:"leased_until_ms"`
}

func (h *handler) dequeue(ctx context.Context, q dequeueRequest) (leasedMessages, error) {
	store := h.backend.Queue(q.namespace)
	messages, err := patiently(ctx, q.wait, func(ctx context.Context, wait time.Duration) ([]queue.Message, error) {
		return store.Dequeue(ctx, q.name, queue.Max(q.max), queue.Lease(q.lease), queue.Wait(wait))
	})
	return q.encoding.leased(messages), err
}

func (e encoding) leased(messages []queue.Message) leasedMessages {
	leased := leasedMessages{make([]leasedMessage, len(messages))}
	for i, m := range messages {
		leased.Messages[i] = leasedMessage{
			Receipt: string(m.Receipt), Seq: m.Seq, Attempt: m.Attempts, Priority: m.Priority,
			Payload: e.encoded(string(m.Payload)), Headers: e.headers(m.Headers),
			LeasedUntilMillis: m.LeaseUntil.UnixMilli(),
		}
	}
	return leased
}

// receiptsRequest names messages by their receipts.
type receiptsRequest struct {
	queueRequest
	receipts []string
}

func (q *receiptsRequest) parse(in *input) {
	q.queueRequest.parse(in)
	readFields(in, q, (*receiptsRequest).fields)
}

func (q *receiptsRequest) fields(f *codec.Fields) { texts(f, "receipts", &q.receipts, queue.MaxBatch) }

func (q *receiptsRequest) list() []queue.Receipt { return receiptsOf(q.receipts) }

func receiptsOf(texts []string) []queue.Receipt {
	receipts := make([]queue.Receipt, len(texts))
	for i, text := range texts {
		receipts[i] = queue.Receipt(text)
	}
	return receipts
}

// ackedCount is the response to ack, of queues and of groups.
type ackedCount struct {
	Acked int `json:"acked"`
}

func (h *handler) ackMessages(ctx context.Context, q receiptsRequest) (ackedCount, error) {
	n, err := h.backend.Queue(q.namespace).Ack(ctx, q.name, q.list()...)
	return ackedCount{n}, err
}

type releasedCount struct {
	Released int64 `json:"released"`
}

func (h *handler) releaseMessages(ctx context.Context, q receiptsRequest) (releasedCount, error) {
	n, err := h.backend.Queue(q.namespace).Release(ctx, q.name, q.list()...)
	return releasedCount{n}, err
}

// nackRequest returns messages, named by one receipt or by several.
type nackRequest struct {
	queueRequest
	nacking
	receipt  string
	receipts []string
}

func (q *nackRequest) parse(in *input) {
	q.queueRequest.parse(in)
	q.longest = delayMillis.max
	readFields(in, q, (*nackRequest).fields)
	if in.err == nil && (q.receipt == "") == (len(q.receipts) == 0) {
		in.invalid("body: it takes either receipt or receipts")
	}
}

func (q *nackRequest) fields(f *codec.Fields) {
	f.Text("receipt", &q.receipt)
	codec.ListOf(f, "receipts", &q.receipts, codec.Text, codec.Range{Max: queue.MaxBatch})
	q.nacking.fields(f)
}

// nacking says what happens to what is returned.
type nacking struct {
	longest int64 // maximum of delay, ms
	delayed bool  // by delay; otherwise by the back-off
	delay   time.Duration
	reason  string
	toDLQ   bool
}

func (n *nacking) fields(f *codec.Fields) {
	if n.delayed = f.Given("delay_ms", n.delayed); n.delayed {
		f.Duration("delay_ms", &n.delay, codec.Range{Max: n.longest})
	}
	f.Text("reason", &n.reason)
	f.Bool("to_dlq", &n.toDLQ)
}

func (n *nacking) ofQueue() []queue.NackOption {
	opts := []queue.NackOption{queue.Reason(n.reason)}
	if n.delayed {
		opts = append(opts, queue.Delay(n.delay))
	}
	if n.toDLQ {
		opts = append(opts, queue.ToDLQ())
	}
	return opts
}

// nackedCount is the response to nack, of queues and of groups.
type nackedCount struct {
	Nacked int `json:"nacked"`
}

func (h *handler) nackMessages(ctx context.Context, q nackRequest) (nackedCount, error) {
	receipts := q.receipts
	if q.receipt != "" {
		receipts = []string{q.receipt}
	}
	n, err := h.backend.Queue(q.namespace).Nack(ctx, q.name, receiptsOf(receipts), q.ofQueue()...)
	return nackedCount{n}, err
}

// extendMessageRequest extends the lease of a message to lease_ms from now.
type extendMessageRequest struct {
	queueRequest
	receipt string
	lease   time.Duration
}

func (q *extendMessageRequest) parse(in *input) {
	q.queueRequest.parse(in)
	q.lease = defaultLease
	readFields(in, q, (*extendMessageRequest).fields)
}

func (q *extendMessageRequest) fields(f *codec.Fields) {
	need(f, "receipt")
	f.Text("receipt", &q.receipt)
	f.Duration("lease_ms", &q.lease, leaseRange)
}

type extendedLease struct {
	LeasedUntilMillis int64 `json:"leased_until_ms"`
}

func (h *handler) extendMessage(ctx context.Context, q extendMessageRequest) (extendedLease, error) {
	until, err := h.backend.Queue(q.namespace).Extend(ctx, q.name, queue.Receipt(q.receipt), q.lease)
	return extendedLease{until.UnixMilli()}, err
}

// queuePaused is the response to pause and resume.
type queuePaused struct {
	OK     bool   `json:"ok"`
	Queue  string `json:"queue"`
	Paused bool   `json:"paused"`
}

func (h *handler) pauseQueue(ctx context.Context, q queueRequest) (queuePaused, error) {
	err := h.backend.Queue(q.namespace).Pause(ctx, q.name)
	return queuePaused{true, q.name, true}, err
}

func (h *handler) resumeQueue(ctx context.Context, q queueRequest) (queuePaused, error) {
	err := h.backend.Queue(q.namespace).Resume(ctx, q.name)
	return queuePaused{true, q.name, false}, err
}

// redriveRequest selects dead letters; an empty text selects all.
type redriveRequest struct {
	queueRequest
	contains string
}

func (q *redriveRequest) parse(in *input) {
	q.queueRequest.parse(in)
	readFields(in, q, (*redriveRequest).fields)
}

func (q *redriveRequest) fields(f *codec.Fields) {
	f.Text("contains", &q.contains, codec.Range{Max: queue.MaxFilterBytes})
}

type requeuedCount struct {
	Requeued int64 `json:"requeued"`
}

func (h *handler) redrive(ctx context.Context, q redriveRequest) (requeuedCount, error) {
	var opts []queue.FilterOption
	if q.contains != "" {
		opts = append(opts, queue.Contains(q.contains))
	}
	n, err := h.backend.Queue(q.namespace).DeadLetters(q.name).RequeueAll(ctx, opts...)
	return requeuedCount{n}, err
}
