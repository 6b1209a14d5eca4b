package dashboard

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
)

var streamWorkRoutes = []route{
	endpoint("PUT /api/v1/streams/:name", (*handler).putStream,
		"Create a stream, or change the retention of an existing one. Its number of partitions cannot change."),
	endpoint("POST /api/v1/streams/:name/messages", (*handler).appendMessages,
		"Append up to 10,000 messages, all or none. The body may also have one message in each line (application/x-ndjson), or be "+
			"the payload of one message (application/octet-stream), whose key is a parameter."),
	endpoint("GET /api/v1/streams/:name/records", (*handler).streamRecords,
		"Read records in the order of their IDs. With wait_ms it waits for the first one; next continues after the last one. With "+
			"Accept: text/event-stream it follows the stream: each record is an event, and the header Last-Event-ID continues."),
}

// putStreamRequest has the settings of a stream. The retention is nil if it is absent.
type putStreamRequest struct {
	streamRequest
	partitions int
	retention  *stream.Retention
}

func (q *putStreamRequest) parse(in *input) {
	q.streamRequest.parse(in)
	readFields(in, q, (*putStreamRequest).fields)
}

func (q *putStreamRequest) fields(f *codec.Fields) {
	f.Int("partitions", &q.partitions, codec.Range{Min: 1, Max: stream.MaxPartitions, Optional: true})
	if !f.Given("retention", q.retention != nil) {
		return
	}
	if q.retention == nil {
		q.retention = new(stream.Retention)
	}
	codec.Object(f, "retention", q.retention, retentionFields)
}

func retentionFields(r *stream.Retention, f *codec.Fields) {
	f.Duration("max_age_ms", &r.MaxAge, codec.Range{Max: ttlSeconds.max * 1000})
	f.Count("max_len", &r.MaxLen, codec.Range{Max: math.MaxInt64})
	f.Count("max_bytes", &r.MaxBytes, codec.Range{Max: math.MaxInt64})
}

// streamPut is the response to PUT.
type streamPut struct {
	OK      bool   `json:"ok"`
	Stream  string `json:"stream"`
	Created bool   `json:"created"`
}

func (h *handler) putStream(ctx context.Context, q putStreamRequest) (streamPut, error) {
	store := h.backend.Stream(q.namespace)
	var opts []stream.CreateOption
	if q.partitions > 0 {
		opts = append(opts, stream.Partitions(q.partitions))
	}
	if r := q.retention; r != nil {
		if r.MaxAge > 0 {
			opts = append(opts, stream.MaxAge(r.MaxAge))
		}
		if r.MaxLen > 0 {
			opts = append(opts, stream.MaxLen(r.MaxLen))
		}
		if r.MaxBytes > 0 {
			opts = append(opts, stream.MaxBytes(r.MaxBytes))
		}
	}
	err := store.Create(ctx, q.name, opts...)
	if !errors.Is(err, engine.ErrExists) {
		return streamPut{OK: err == nil, Stream: q.name, Created: true}, err
	}
	stats, err := store.Get(ctx, q.name)
	if err != nil {
		return streamPut{}, err
	}
	if n := len(stats.Partitions); q.partitions > 0 && q.partitions != n {
		return streamPut{}, engine.Errorf(engine.ErrConflict, "stream %q has %d partitions, which cannot become %d", q.name, n,
			q.partitions)
	}
	if q.retention != nil {
		err = store.SetRetention(ctx, q.name, *q.retention)
	}
	return streamPut{OK: true, Stream: q.name}, err
}

// sentMessage is a message to append.
type sentMessage struct {
	key     []byte
	payload []byte
	headers map[string]string
}

func (m *sentMessage) fields(f *codec.Fields) {
	need(f, "payload")
	f.Blob("key", &m.key)
	f.Blob("payload", &m.payload)
	engine.CodePairMap(f, "headers", &m.headers)
}

// appendRequest has the messages of an append.
type appendRequest struct {
	streamRequest
	messages []sentMessage
	producing
	encoding encoding
}

// producing numbers the appends of a producer, so that a repeated one has no effect.
type producing struct {
	dedup    bool
	producer string
	sequence uint64
}

func (p *producing) fields(f *codec.Fields) {
	if p.dedup = f.Given("dedup", p.dedup); p.dedup {
		codec.Object(f, "dedup", p, (*producing).dedupFields)
	}
}

func (p *producing) dedupFields(f *codec.Fields) {
	need(f, "producer")
	need(f, "sequence")
	f.Text("producer", &p.producer, codec.Range{Min: 1, Max: 255})
	f.Uvarint("sequence", &p.sequence)
}

func (p *producing) options() (opts []stream.AppendOption) {
	if p.dedup {
		opts = append(opts, stream.Dedup(p.producer, p.sequence))
	}
	return opts
}

// idempotentAppend is the sequence number of an append whose producer is an idempotency key: it is
// the only one.
const idempotentAppend = 1

func (q *appendRequest) parse(in *input) {
	q.streamRequest.parse(in)
	q.encoding = in.encoding()
	key, payload := in.text("key"), false
	switch in.contentType() {
	case jsonLines:
		readLines(in, &q.messages, stream.MaxBatch, (*sentMessage).fields)
	case octetStream:
		payload = true
		in.reads(octetStream)
		body, err := q.encoding.decoded("body", string(in.content()))
		in.check(err)
		q.messages = []sentMessage{{key: []byte(key), payload: []byte(body)}}
	default:
		readFields(in, q, (*appendRequest).fields)
	}
	if key != "" && !payload {
		in.invalid("parameter key is for a body of the type %s", octetStream)
	}
	for i := range q.messages {
		in.check(q.encoding.decodeHeaders(q.messages[i].headers))
	}
	if len(in.headerValues("Idempotency-Key")) == 0 {
		return
	}
	if q.dedup {
		in.invalid("the header Idempotency-Key and the member dedup of the body exclude each other")
	}
	q.dedup, q.producer, q.sequence = true, in.idempotencyKey(), idempotentAppend
}

func (q *appendRequest) fields(f *codec.Fields) {
	need(f, "messages")
	codec.ListOf(f, "messages", &q.messages, (*sentMessage).fields, codec.Range{Min: 1, Max: stream.MaxBatch})
	q.producing.fields(f)
}

// appendedIDs has the ID of each message of an append.
type appendedIDs struct {
	IDs []string `json:"ids"`
}

func (h *handler) appendMessages(ctx context.Context, q appendRequest) (appendedIDs, error) {
	messages := make([]stream.Message, len(q.messages))
	for i, m := range q.messages {
		messages[i] = stream.Message{Key: string(m.key), Payload: m.payload, Headers: m.headers}
	}
	added, err := h.backend.Stream(q.namespace).AppendMany(ctx, q.name, messages, q.options()...)
	if err != nil {
		return appendedIDs{}, err
	}
	ids := appendedIDs{make([]string, len(added))}
	for i, a := range added {
		ids.IDs[i] = a.ID.String()
	}
	return ids, nil
}

// recordsRequest reads limit records from a position on.
type recordsRequest struct {
	streamRequest
	wait
	encoding encoding
	start    string // the position before the first record
	options  []stream.ReadOption
	follows  bool // as events
	follow   []stream.FollowOption
}

func (q *recordsRequest) parse(in *input) {
	q.streamRequest.parse(in)
	q.wait.parameter(in)
	q.encoding = in.encoding()
	q.options = []stream.ReadOption{stream.Limit(int(in.integer("limit", pageLimit)))}
	if p := in.optional("partition", partitions); p != nil {
		part := stream.Partition(int(*p))
		q.options, q.follow = append(q.options, part), append(q.follow, part)
	}
	q.start = stream.ID{}.String()
	id, after := stream.ID{}, false
	if in.text("after") != "" {
		id, after = in.recordID("after")
	}
	from := in.optional("from_ms", times)
	if after && from != nil {
		in.invalid("parameters after and from_ms exclude each other")
	}
	if q.follows = in.wantsEvents(); q.follows {
		if in.query["limit"] != nil {
			in.invalid("parameter limit does not apply to events, which have no end")
		}
		id, after = in.resume(id, after)
	}
	switch {
	case after:
		start := stream.After(id)
		q.options, q.follow, q.start = append(q.options, start), append(q.follow, start), id.String()
	case from != nil:
		q.start = stream.ID{Millis: max(*from, 1) - 1, Seq: math.MaxUint64}.String() // the last one before
		start := stream.FromTime(time.UnixMilli(*from))
		q.options, q.follow = append(q.options, start), append(q.follow, start)
	}
}

// resume returns the position in the header Last-Event-ID, which a client adds to the request with
// which it began, else the given one.
func (in *input) resume(id stream.ID, given bool) (stream.ID, bool) {
	text := in.header("Last-Event-ID")
	if text == "" {
		return id, given
	}
	id, err := stream.ParseID(text)
	if err != nil {
		in.invalid("header Last-Event-ID is %.64q, it takes the id of a message, such as 1763740800000-0", text)
	}
	return id, true
}

// readRecords are records, and the position after which the next request continues, also if there
// are none.
type readRecords struct {
	Records []streamRecord `json:"records"`
	Next    string         `json:"next"`
	follow  func(ctx context.Context) iter.Seq2[event, error]
}

func (r readRecords) events() func(ctx context.Context) iter.Seq2[event, error] { return r.follow }

// streamRecord is a record. Key, payload and header values use the requested encoding.
type streamRecord struct {
	ID        string            `json:"id"`
	Partition int               `json:"partition"`
	Key       string            `json:"key"`
	Headers   map[string]string `json:"headers"`
	Payload   string            `json:"payload"`
	AtMillis  int64             `json:"at_ms"`
}

func (e encoding) record(r stream.Record) streamRecord {
	return streamRecord{
		ID: r.ID.String(), Partition: r.Partition, Key: e.encoded(r.Key), Headers: e.headers(r.Headers),
		Payload: e.encoded(string(r.Payload)), AtMillis: r.ID.Millis,
	}
}

func (h *handler) streamRecords(ctx context.Context, q recordsRequest) (readRecords, error) {
	store := h.backend.Stream(q.namespace)
	if q.follows {
		return readRecords{follow: func(ctx context.Context) iter.Seq2[event, error] {
			return converted(store.Follow(ctx, q.name, q.follow...), func(r stream.Record) event {
				return event{r.ID.String(), q.encoding.record(r)}
			})
		}}, nil
	}
	records, err := patiently(ctx, q.wait, func(ctx context.Context, wait time.Duration) ([]stream.Record, error) {
		if wait == 0 {
			return store.Read(ctx, q.name, q.options...)
		}
		return store.Read(ctx, q.name, append(q.options, stream.Wait(wait))...)
	})
	if err != nil {
		return readRecords{}, err
	}
	read := readRecords{Records: make([]streamRecord, len(records)), Next: q.start}
	for i, r := range records {
		read.Records[i] = q.encoding.record(r)
		read.Next = r.ID.String()
	}
	return read, nil
}

// formatRef returns the text of a delivery of a record to a member of a group: its partition,
// offset, attempt and generation, and a checksum of what it belongs to, so that it is refused
// elsewhere.
func (q *groupRequest) formatRef(r stream.Ref) string {
	return fmt.Sprintf("%d-%d-%d-%d-%08x", r.Partition, r.Offset, r.Attempt, r.Generation, q.checksum())
}

func (q *groupRequest) checksum() uint32 { return refChecksum(q.namespace, q.name, q.group) }

func refChecksum(namespace, name, group string) uint32 {
	return crc32.ChecksumIEEE(fmt.Appendf(nil, "%q %q %q", namespace, name, group))
}

// parseRef parses a ref of a group with the checksum.
func parseRef(text string, checksum uint32) (r stream.Ref, err error) {
	var sum uint32
	_, err = fmt.Sscanf(text, "%d-%d-%d-%d-%x", &r.Partition, &r.Offset, &r.Attempt, &r.Generation, &sum)
	formatted := fmt.Sprintf("%d-%d-%d-%d-%08x", r.Partition, r.Offset, r.Attempt, r.Generation, sum)
	switch {
	case err != nil || formatted != text || r.Attempt == 0 || r.Generation == 0: // 0 would match any delivery
		return r, engine.Errorf(engine.ErrInvalid, "ref %.64q is malformed: send back what a read of the group returned", text)
	case sum != checksum:
		return r, engine.Errorf(engine.ErrInvalid, "ref %.64q belongs to another consumer group", text)
	}
	return r, nil
}
