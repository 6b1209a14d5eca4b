package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
)

var queueRoutes = []route{
	endpoint("GET /api/v1/queues", (*handler).queues, "List the queues of a namespace."),
	endpoint("GET /api/v1/queues/:name", (*handler).queue, "Get a queue."),
	endpoint("POST /api/v1/queues/:name", (*handler).enqueue, "Enqueue a message. The body is its payload."),
	endpoint("GET /api/v1/queues/:name/messages", (*handler).queueMessages, "List the messages of a queue, most urgent first."),
	endpoint("GET /api/v1/queues/:name/messages/:seq", (*handler).queueMessage, "Get a message in any state."),
	endpoint("DELETE /api/v1/queues/:name/messages/:seq", (*handler).deleteMessage, "Delete a message that is not leased."),
	endpoint("POST /api/v1/queues/:name/purge", (*handler).purge, "Remove all messages except dead letters."),
	endpoint("GET /api/v1/queues/:name/dlq", (*handler).deadLetters, "List the dead letters of a queue."),
	endpoint("POST /api/v1/queues/:name/dlq/:seq/requeue", (*handler).requeueDead, "Requeue a dead letter."),
	endpoint("DELETE /api/v1/queues/:name/dlq/:seq", (*handler).deleteDead, "Delete a dead letter."),
}

// queueSummary is an item of a listing of queues, and the body of /queues/:name.
type queueSummary struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Ready     int64  `json:"ready"` // messages in the state ready, including delayed ones
	Inflight  int64  `json:"inflight"`
	Pending   int64  `json:"pending"`   // the same as ready
	Available int64  `json:"available"` // of these, available for delivery now
	Enqueued  int64  `json:"enqueued"`
	Dequeued  int64  `json:"dequeued"` // deliveries
	DLQCount  int64  `json:"dlq_count"`
}

func summarizeQueue(namespace string, s queue.Stats) queueSummary {
	return queueSummary{
		Name:      s.Name,
		Namespace: namespace,
		Ready:     s.Ready + s.Delayed,
		Inflight:  s.Inflight,
		Pending:   s.Ready + s.Delayed,
		Available: s.Ready,
		Enqueued:  s.Enqueued,
		Dequeued:  s.Dequeued,
		DLQCount:  s.Dead,
	}
}

func (h *handler) queues(ctx context.Context, q listRequest) (listing[queueSummary], error) {
	if err := q.exists(ctx, h); err != nil {
		return listing[queueSummary]{}, err
	}
	page := func(after string, n int) ([]queue.Stats, string, error) {
		page, err := h.backend.Queue(q.namespace).Page(ctx, queue.Limit(n), queue.Cursor(after))
		return page.Items, page.Cursor, err
	}
	return collect(q.after, q.limit, page, func(s queue.Stats) queueSummary { return summarizeQueue(q.namespace, s) }, nil)
}

// queueRequest names a queue.
type queueRequest struct{ namespace, name string }

func (q *queueRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.name = in.segment("name")
}

func (h *handler) queue(ctx context.Context, q queueRequest) (queueSummary, error) {
	s, err := h.backend.Queue(q.namespace).Get(ctx, q.name)
	if err != nil {
		return queueSummary{}, err
	}
	return summarizeQueue(q.namespace, s), nil
}

var (
	priorities  = span{absent: queue.DefaultPriority, min: 0, max: queue.MaxPriority}
	delayMillis = span{absent: 0, min: 0, max: ttlSeconds.max * 1000}
)

// enqueueRequest is a message: the body is its payload.
type enqueueRequest struct {
	queueRequest
	priority int
	delay    time.Duration
	dedup    string
	payload  []byte
}

func (q *enqueueRequest) parse(in *input) {
	q.queueRequest.parse(in)
	q.priority = int(in.integer("priority", priorities))
	q.delay = time.Duration(in.integer("delay_ms", delayMillis)) * time.Millisecond
	q.dedup = in.idempotencyKey()
	in.reads(octetStream)
	q.payload = in.payload(in.encoding())
}

// queueSeq is the response to an operation on one message.
type queueSeq struct {
	OK    bool   `json:"ok"`
	Queue string `json:"queue"`
	Seq   uint64 `json:"seq"`
}

func (h *handler) enqueue(ctx context.Context, q enqueueRequest) (queueSeq, error) {
	opts := []queue.EnqueueOption{queue.Priority(q.priority), queue.Delay(q.delay)}
	if q.dedup != "" {
		opts = append(opts, queue.DedupKey(q.dedup))
	}
	added, err := h.backend.Queue(q.namespace).Enqueue(ctx, q.name, q.payload, opts...)
	if err != nil {
		return queueSeq{}, err
	}
	return queueSeq{OK: true, Queue: q.name, Seq: added.Seq}, nil
}

// queueMessagesRequest asks for limit messages after a position, written as "<priority>-<seq>".
type queueMessagesRequest struct {
	queueRequest
	after string
	limit int
	shown
}

// shown defines how a listing shows payloads.
type shown struct {
	encoding encoding
	most     int // maximum bytes of each; 0: all
}

func (s *shown) parse(in *input) {
	s.encoding = in.encoding()
	s.most = in.maxPayload()
}

// payload returns a payload in the form of the listing.
func (s shown) payload(payload []byte) string {
	return s.encoding.encoded(string(beginning(payload, s.most)))
}

func (q *queueMessagesRequest) parse(in *input) {
	q.queueRequest.parse(in)
	q.after = in.place("after")
	q.limit = int(in.integer("limit", pageLimit))
	q.shown.parse(in)
}

// place returns a parameter with the priority and seq of a message, "" if it is missing.
func (in *input) place(name string) string {
	value, given := in.param(name)
	if !given {
		return ""
	}
	priority, seq, _ := strings.Cut(value, "-")
	p, ok := priorities.parse(priority)
	n, okay := seqs.parse(seq)
	if !ok || !okay {
		in.invalid("parameter %s is %.64q, it takes priority and seq of a message, such as 100-17", in.called(name), value)
	}
	return fmt.Sprintf("%d-%d", p, n)
}

// queueMessage is a message in a listing.
type queueMessage struct {
	Seq                  uint64 `json:"seq"`
	Priority             int    `json:"priority"`
	State                string `json:"state"` // ready (also if delayed), leased or dlq
	Attempts             int    `json:"attempts"`
	LeaseRemainingMillis int64  `json:"lease_remaining_ms"` // of a delayed message: until it can be delivered
	Size                 int    `json:"size"`               // bytes of the payload
	Payload              string `json:"payload"`
}

// messageStates are the names of states in the API, which has no state for delayed messages.
var messageStates = map[queue.State]string{queue.Ready: "ready", queue.Delayed: "ready", queue.Leased: "leased", queue.Dead: "dlq"}

// queueMessage returns a message with its payload.
func (s shown) queueMessage(m queue.Message, now time.Time) queueMessage {
	return queueMessage{
		Seq:                  m.Seq,
		Priority:             m.Priority,
		State:                messageStates[m.State],
		Attempts:             m.Attempts,
		LeaseRemainingMillis: remainingMillis(m, now),
		Size:                 m.Size,
		Payload:              s.payload(m.Payload),
	}
}

// queueMessages lists messages with their payloads.
func (s shown) queueMessages(after string, limit int, page func(after string, n int) (queue.Page[queue.Message], error),
	now time.Time) (listing[queueMessage], error) {
	convert := func(m queue.Message) queueMessage { return s.queueMessage(m, now) }
	return collect(after, limit, func(after string, n int) ([]queue.Message, string, error) {
		page, err := page(after, n)
		return page.Items, page.Cursor, err
	}, convert, func(m queue.Message) int { return len(beginning(m.Payload, s.most)) })
}

// remainingMillis returns the remaining time of a message's lease or delay.
func remainingMillis(m queue.Message, now time.Time) int64 {
	switch m.State {
	case queue.Leased:
		return max(0, m.LeaseUntil.Sub(now).Milliseconds())
	case queue.Delayed:
		return max(0, m.AvailableAt.Sub(now).Milliseconds())
	}
	return 0
}

func (h *handler) queueMessages(ctx context.Context, q queueMessagesRequest) (listing[queueMessage], error) {
	return q.shown.queueMessages(q.after, q.limit, func(after string, n int) (queue.Page[queue.Message], error) {
		return h.backend.Queue(q.namespace).Messages(q.name).Page(ctx, queue.Limit(n), queue.Cursor(after))
	}, h.now())
}

// deadLettersRequest asks for limit dead letters after a seq.
type deadLettersRequest struct {
	queueRequest
	after string
	limit int
	shown
}

func (q *deadLettersRequest) parse(in *input) {
	q.queueRequest.parse(in)
	q.after = strconv.FormatInt(in.integer("after", span{absent: 0, min: 0, max: seqs.max}), 10)
	q.limit = in.listLimit()
	q.shown.parse(in)
}

func (h *handler) deadLetters(ctx context.Context, q deadLettersRequest) (listing[queueMessage], error) {
	return q.shown.queueMessages(q.after, q.limit, func(after string, n int) (queue.Page[queue.Message], error) {
		return h.backend.Queue(q.namespace).DeadLetters(q.name).Page(ctx, queue.Limit(n), queue.Cursor(after))
	}, h.now())
}

// queuePurged is the response to a purge.
type queuePurged struct {
	OK     bool  `json:"ok"`
	Purged int64 `json:"purged"`
}

func (h *handler) purge(ctx context.Context, q queueRequest) (queuePurged, error) {
	purged, err := h.backend.Queue(q.namespace).Purge(ctx, q.name)
	if err != nil {
		return queuePurged{}, err
	}
	return queuePurged{OK: true, Purged: purged}, nil
}

// seqs is the range of a message's seq.
var seqs = span{min: 1, max: math.MaxInt64}

// seqRequest names a message.
type seqRequest struct {
	queueRequest
	seq uint64
}

func (q *seqRequest) parse(in *input) {
	q.queueRequest.parse(in)
	q.seq = uint64(in.number("seq", seqs))
}

// queueMessageRequest asks for a message.
type queueMessageRequest struct {
	seqRequest
	shown
}

func (q *queueMessageRequest) parse(in *input) {
	q.seqRequest.parse(in)
	q.shown.parse(in)
}

func (h *handler) queueMessage(ctx context.Context, q queueMessageRequest) (queueMessage, error) {
	m, err := h.backend.Queue(q.namespace).Messages(q.name).Get(ctx, q.seq)
	if err != nil {
		return queueMessage{}, err
	}
	return q.shown.queueMessage(m, h.now()), nil
}

func (h *handler) deleteMessage(ctx context.Context, q seqRequest) (queueSeq, error) {
	if err := h.backend.Queue(q.namespace).Messages(q.name).Delete(ctx, q.seq); err != nil {
		return queueSeq{}, err
	}
	return queueSeq{OK: true, Queue: q.name, Seq: q.seq}, nil
}

func (h *handler) requeueDead(ctx context.Context, q seqRequest) (queueSeq, error) {
	if err := h.backend.Queue(q.namespace).DeadLetters(q.name).Requeue(ctx, q.seq); err != nil {
		return queueSeq{}, err
	}
	return queueSeq{OK: true, Queue: q.name, Seq: q.seq}, nil
}

func (h *handler) deleteDead(ctx context.Context, q seqRequest) (queueSeq, error) {
	if err := h.backend.Queue(q.namespace).DeadLetters(q.name).Delete(ctx, q.seq); err != nil {
		return queueSeq{}, err
	}
	return queueSeq{OK: true, Queue: q.name, Seq: q.seq}, nil
}

// queueState is the body of /console/queues/:name: the fields missing in the specified summary.
type queueState struct {
	Name          string       `json:"name"`
	Paused        bool         `json:"paused"`
	MaxLen        int64        `json:"max_len"`   // 0: no limit
	MaxBytes      int64        `json:"max_bytes"` // 0: no limit
	MaxAttempts   int          `json:"max_attempts"`
	BackoffMin    int64        `json:"backoff_min_ms"`
	BackoffMax    int64        `json:"backoff_max_ms"`
	DeadRetention int64        `json:"dead_retention_ms"` // 0: no limit
	DedupWindow   int64        `json:"dedup_window_ms"`
	Dead          []deadLetter `json:"dead"`      // the first 1,000
	Reasons       []deadReason `json:"reasons"`   // dead-letter reasons of these, the most frequent first
	Truncated     bool         `json:"truncated"` // there are more
}

// deadLetter is a dead letter with its reason.
type deadLetter struct {
	Seq    uint64 `json:"seq"`
	Reason string `json:"reason"`
	DiedAt int64  `json:"died_at"` // ms
}

// deadReason is a dead-letter reason with its number of messages.
type deadReason struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

func (h *handler) queueState(ctx context.Context, q queueRequest) (queueState, error) {
	store := h.backend.Queue(q.namespace)
	s, err := store.Get(ctx, q.name)
	if err != nil {
		return queueState{}, err
	}
	set := s.Settings
	state := queueState{Name: s.Name, Paused: s.Paused, MaxLen: set.MaxLen, MaxBytes: set.MaxBytes, MaxAttempts: set.MaxAttempts,
		BackoffMin: set.BackoffMin.Milliseconds(), BackoffMax: set.BackoffMax.Milliseconds(),
		DeadRetention: set.DeadRetention.Milliseconds(), DedupWindow: set.DedupWindow.Milliseconds(),
		Dead: []deadLetter{}, Reasons: []deadReason{}}
	if s.Dead == 0 {
		return state, nil
	}
	page, err := store.DeadLetters(q.name).Page(ctx, queue.Limit(queue.MaxPageItems), queue.NoPayload())
	if err != nil {
		return queueState{}, err
	}
	state.Truncated = page.Cursor != ""
	for _, m := range page.Items {
		state.Dead = append(state.Dead, deadLetter{m.Seq, m.LastError, m.DiedAt.UnixMilli()})
		i := slices.IndexFunc(state.Reasons, func(r deadReason) bool { return r.Reason == m.LastError })
		if i < 0 {
			i = len(state.Reasons)
			state.Reasons = append(state.Reasons, deadReason{Reason: m.LastError})
		}
		state.Reasons[i].Count++
	}
	slices.SortStableFunc(state.Reasons, func(a, b deadReason) int { return cmp.Compare(b.Count, a.Count) })
	return state, nil
}

func (h *handler) checkQueues(ctx context.Context, ns string, add func(finding)) (bool, error) {
	page, err := h.backend.Queue(ns).Page(ctx, queue.Limit(mostChecked))
	for _, q := range page.Items {
		if q.Dead > 0 {
			add(finding{Kind: "queue", Name: q.Name, Of: "dlq", Severity: "crit", Count: q.Dead,
				Text: counted(q.Dead, "dead letter")})
		}
		if waiting := q.Ready + q.Delayed; q.Paused && waiting > 0 {
			add(finding{Kind: "queue", Name: q.Name, Severity: "warn", Count: waiting,
				Text: "paused, " + counted(waiting, "message") + " waiting"})
		}
		if most := q.Settings.MaxLen; most > 0 && q.Ready+q.Delayed+q.Inflight >= most {
			add(finding{Kind: "queue", Name: q.Name, Severity: "crit", Count: most, Text: "full: " + counted(most, "message")})
		}
	}
	return page.Cursor != "", err
}

func (b staleBackend) Queue(ns string, _ ...floe.AccessOption) *queue.Store {
	return b.DB.Queue(ns, floe.Stale())
}
