package dashboard

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
)

var streamRoutes = []route{
	endpoint("GET /api/v1/streams", (*handler).streams, "List the streams of a namespace."),
	endpoint("GET /api/v1/streams/:name", (*handler).stream, "Get a stream with its partitions and consumer groups."),
	endpoint("DELETE /api/v1/streams/:name", (*handler).deleteStream, "Delete a stream. One with records requires force=true."),
	endpoint("GET /api/v1/streams/:name/messages", (*handler).streamMessages, "List the messages of a stream, newest last."),
	endpoint("GET /api/v1/console/streams/:name/activity", (*handler).streamActivity, "Get the number of appended messages over time."),
	endpoint("POST /api/v1/streams/:name/trim", (*handler).trim, "Remove the oldest messages of each partition."),
}

// streamSummary is an item of a listing of streams.
type streamSummary struct {
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
	Partitions int    `json:"partitions"`
	IngestRate int64  `json:"ingest_rate"` // records ever appended
	Reads      int64  `json:"reads"`       // records read
	Retention  string `json:"retention"`
}

func summarizeStream(namespace string, s stream.Stats) streamSummary {
	return streamSummary{
		Name:       s.Name,
		Namespace:  namespace,
		Partitions: len(s.Partitions),
		IngestRate: s.Appended,
		Reads:      s.Reads,
		Retention:  s.Retention.String(),
	}
}

func (h *handler) streams(ctx context.Context, q listRequest) (listing[streamSummary], error) {
	if err := q.exists(ctx, h); err != nil {
		return listing[streamSummary]{}, err
	}
	page := func(after string, n int) ([]stream.Stats, string, error) {
		page, err := h.backend.Stream(q.namespace).Page(ctx, stream.Limit(n), stream.Cursor(after))
		return page.Items, page.Cursor, err
	}
	return collect(q.after, q.limit, page, func(s stream.Stats) streamSummary { return summarizeStream(q.namespace, s) }, nil)
}

// streamRequest names a stream.
type streamRequest struct{ namespace, name string }

func (q *streamRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.name = in.segment("name")
}

// streamDetail is the body of /streams/:name. Its partitions replace their number in the summary.
type streamDetail struct {
	streamSummary
	Partitions     []streamPartition `json:"partitions"`
	ConsumerGroups []consumerGroup   `json:"consumer_groups"`
}

type streamPartition struct {
	ID      int    `json:"id"`
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"`
	FirstID string `json:"first_id"` // 0-0 if it has no records
	LastID  string `json:"last_id"`  // of the last record ever, 0-0 if there was none
	Leader  string `json:"leader"`   // node id, "" if there is no leader at the moment
}

// consumerGroup is a group of a stream in the stream's detail.
type consumerGroup struct {
	Name          string            `json:"name"`
	Mode          string            `json:"mode"`
	Members       int               `json:"members"`
	Pending       int               `json:"pending"`
	Lag           int64             `json:"lag"`
	LastDelivered map[string]string `json:"last_delivered"` // by partition; 0-0 if none
}

func (h *handler) stream(ctx context.Context, q streamRequest) (streamDetail, error) {
	store := h.backend.Stream(q.namespace)
	stats, err := store.Get(ctx, q.name)
	if err != nil {
		return streamDetail{}, err
	}
	node, err := h.backend.Stats(ctx)
	if err != nil {
		return streamDetail{}, err
	}
	leaders := make(map[int]string)
	for _, shard := range node.Shards {
		if shard.Leader != 0 {
			leaders[shard.ID] = strconv.FormatUint(shard.Leader, 10)
		}
	}
	detail := streamDetail{streamSummary: summarizeStream(q.namespace, stats), Partitions: []streamPartition{},
		ConsumerGroups: []consumerGroup{}}
	for _, p := range stats.Partitions {
		detail.Partitions = append(detail.Partitions, streamPartition{
			ID: p.Partition, Records: p.Records, Bytes: p.Bytes, FirstID: p.FirstID.String(), LastID: p.LastID.String(),
			Leader: leaders[p.Shard],
		})
	}
	for g, err := range store.Groups(q.name).All(ctx) {
		if err != nil {
			return streamDetail{}, err
		}
		detail.ConsumerGroups = append(detail.ConsumerGroups, summarizeGroup(&g))
	}
	return detail, nil
}

func summarizeGroup(g *stream.GroupStats) consumerGroup {
	delivered := make(map[string]string, len(g.Cursors))
	for _, c := range g.Cursors {
		delivered[strconv.Itoa(c.Partition)] = c.LastDelivered.String()
	}
	return consumerGroup{
		Name: g.Name, Mode: g.Mode.String(), Members: len(g.Members), Pending: g.Pending(), Lag: g.Lag(), LastDelivered: delivered,
	}
}

// streamMessagesRequest asks for limit messages: from an ID, after one, the last ones, or the first
// ones.
type streamMessagesRequest struct {
	streamRequest
	shown
	fieldsAsked
	limit     int
	partition *int64              // nil: all
	options   []stream.ReadOption // where to start
}

// partitions is the range of a partition's number.
var partitions = span{min: 0, max: stream.MaxPartitions - 1}

func (q *streamMessagesRequest) parse(in *input) {
	q.streamRequest.parse(in)
	q.shown.parse(in)
	q.limit = int(in.integer("limit", pageLimit))
	q.fieldsAsked.parse(in)
	q.options = []stream.ReadOption{stream.Limit(q.limit)}
	if q.partition = in.optional("partition", partitions); q.partition != nil {
		q.options = append(q.options, stream.Partition(int(*q.partition)))
	}
	starts := 0
	if id, given := in.recordID("from"); given {
		q.options = append(q.options, stream.From(id))
		starts++
	}
	if id, given := in.recordID("after"); given {
		q.options = append(q.options, stream.After(id))
		starts++
	}
	if in.boolean("tail") {
		q.options = append(q.options, stream.Tail())
		starts++
	}
	if starts > 1 {
		in.invalid("parameters from, after and tail exclude each other")
	}
}

// recordID returns a parameter with the ID of a record.
func (in *input) recordID(name string) (id stream.ID, given bool) {
	value, given := in.param(name)
	if !given {
		return id, false
	}
	id, err := stream.ParseID(value)
	if err != nil {
		in.invalid("parameter %s is %.64q, it takes the id of a message, such as 1763740800000-0", in.called(name), value)
	}
	return id, true
}

// streamMessage is a record in a listing. Key, payload and header values use the requested
// encoding; header names are text. Partition, key and headers are included with fields=all.
type streamMessage struct {
	IDMillis  int64             `json:"id_ms"`
	IDSeq     uint64            `json:"id_seq"`
	UALIndex  uint64            `json:"ual_index"` // log sequence number of the append
	Size      int               `json:"size"`      // bytes of the payload
	Payload   string            `json:"payload"`
	Partition *int              `json:"partition,omitempty"`
	Key       *string           `json:"key,omitempty"`
	Headers   map[string]string `json:"headers,omitzero"`
}

func (h *handler) streamMessages(ctx context.Context, q streamMessagesRequest) (listing[streamMessage], error) {
	store := h.backend.Stream(q.namespace)
	records, err := store.Read(ctx, q.name, q.options...)
	if err != nil {
		return listing[streamMessage]{}, err
	}
	messages := listing[streamMessage]{items: make([]streamMessage, 0, len(records))}
	for _, r := range records {
		m := streamMessage{IDMillis: r.ID.Millis, IDSeq: r.ID.Seq, UALIndex: r.LSN, Size: len(r.Payload), Payload: q.payload(r.Payload)}
		if q.all {
			m.Partition, m.Key, m.Headers = &r.Partition, new(q.encoding.encoded(r.Key)), q.encoding.headers(r.Headers)
		}
		messages.items = append(messages.items, m)
	}
	if len(records) == 0 {
		return messages, nil
	}
	last := records[len(records)-1].ID
	stats, err := store.Get(ctx, q.name)
	if errors.Is(err, stream.ErrNotFound) { // deleted meanwhile
		return messages, nil
	}
	if q.goesOn(&stats, last) {
		messages.after = last.String()
	}
	return messages, err
}

// goesOn reports whether the stream has requested messages after last. It uses the stream's
// statistics, because another read would be counted as one.
func (q *streamMessagesRequest) goesOn(stats *stream.Stats, last stream.ID) bool {
	return slices.ContainsFunc(stats.Partitions, func(p stream.PartitionStats) bool {
		asked := q.partition == nil || *q.partition == int64(p.Partition)
		return asked && p.Records > 0 && p.LastID.Compare(last) > 0
	})
}

// activityRequest asks for the records appended between two times, divided into parts.
type activityRequest struct {
	streamRequest
	span stream.ActivitySpan
}

func (q *activityRequest) parse(in *input) {
	q.streamRequest.parse(in)
	from, to := in.optional("from", times), in.optional("to", times)
	q.span.Parts = int(in.integer("buckets", span{absent: 120, min: 1, max: stream.MaxActivityParts}))
	if p := in.optional("partition", partitions); p != nil {
		q.span.Partitions = []int{int(*p)}
	}
	if from == nil || to == nil || *from >= *to {
		in.invalid("parameters from and to are needed, times in ms, from before to")
		return
	}
	millis := (*to - *from + int64(q.span.Parts) - 1) / int64(q.span.Parts)
	q.span.From, q.span.Step = time.UnixMilli(*from), time.Duration(millis)*time.Millisecond
}

// streamActivity is the number of records appended in each part of a period.
type streamActivity struct {
	From       int64   `json:"from"`
	To         int64   `json:"to"` // excluded
	StepMillis int64   `json:"step_ms"`
	Records    []int64 `json:"records"`
	Bytes      []int64 `json:"bytes"`
}

func (h *handler) streamActivity(ctx context.Context, q activityRequest) (streamActivity, error) {
	a, err := h.backend.Stream(q.namespace).Activity(ctx, q.name, q.span)
	from, step := q.span.From.UnixMilli(), q.span.Step.Milliseconds()
	return streamActivity{From: from, To: from + step*int64(q.span.Parts), StepMillis: step, Records: a.Records, Bytes: a.Bytes}, err
}

// streamState is the body of /console/streams/:name: the retention, as PUT takes it. 0 means no
// limit.
type streamState struct {
	Name      string          `json:"name"`
	Retention streamRetention `json:"retention"`
}

type streamRetention struct {
	MaxAge   int64 `json:"max_age_ms"`
	MaxLen   int64 `json:"max_len"`   // records of a partition
	MaxBytes int64 `json:"max_bytes"` // of a partition
}

func (h *handler) streamState(ctx context.Context, q streamRequest) (streamState, error) {
	s, err := h.backend.Stream(q.namespace).Get(ctx, q.name)
	if err != nil {
		return streamState{}, err
	}
	r := s.Retention
	return streamState{s.Name, streamRetention{r.MaxAge.Milliseconds(), r.MaxLen, r.MaxBytes}}, nil
}

// trimRequest defines which records to remove from a stream.
type trimRequest struct {
	streamRequest
	maxLen *int64 // of the stream
	bounds []stream.TrimOption
	dryRun bool
}

var (
	trimLengths = span{min: 0, max: math.MaxInt64}
	trimSeconds = span{min: 1, max: ttlSeconds.max}
)

// parse accepts several bounds; the store's rule that the length takes precedence over the age
// applies.
func (q *trimRequest) parse(in *input) {
	q.streamRequest.parse(in)
	q.maxLen = in.optional("max_len", trimLengths)
	if s := in.optional("max_age_s", trimSeconds); s != nil {
		q.bounds = append(q.bounds, stream.MaxAge(time.Duration(*s)*time.Second))
	}
	if _, given := in.param("max_bytes"); given {
		in.invalid("parameter max_bytes is given, but a stream cannot be trimmed by bytes: give max_len or max_age_s")
	}
	if len(q.bounds) == 0 && q.maxLen == nil {
		in.invalid("trim without a bound: give max_len or max_age_s")
	}
	if q.dryRun = in.boolean("dry_run"); q.dryRun {
		q.bounds = append(q.bounds, stream.DryRun())
	}
	if force := in.boolean("force"); q.maxLen != nil && *q.maxLen == 0 && !force && !q.dryRun {
		in.invalid("max_len=0 removes all records: give force=true too")
	}
}

// streamTrimmed is the response to a trim.
type streamTrimmed struct {
	OK     bool   `json:"ok"`
	Stream string `json:"stream"`
	DryRun bool   `json:"dry_run"`

	removed int64 // number of records that are, or would be, removed
}

func (a streamTrimmed) setHeader(header http.Header) {
	header.Set("X-Floe-Trimmed", strconv.FormatInt(a.removed, 10))
}

func (h *handler) trim(ctx context.Context, q trimRequest) (streamTrimmed, error) {
	store := h.backend.Stream(q.namespace)
	if err := engine.CheckWritable(q.namespace); err != nil {
		return streamTrimmed{}, err
	}
	if q.maxLen != nil {
		bound, err := lengthBound(ctx, store, q.name, *q.maxLen)
		if err != nil {
			return streamTrimmed{}, err
		}
		q.bounds = append(q.bounds, bound)
		if _, ofAll := bound.(stream.LengthOption); !ofAll { // an age would take precedence over an ID
			q.bounds = []stream.TrimOption{bound}
			if q.dryRun {
				q.bounds = append(q.bounds, stream.DryRun())
			}
		}
	}
	removed, err := store.Trim(ctx, q.name, q.bounds...)
	if err != nil {
		return streamTrimmed{}, err
	}
	return streamTrimmed{OK: true, Stream: q.name, DryRun: q.dryRun, removed: removed}, nil
}

// lengthBound returns the bound that keeps the newest n records of the stream's current content, in
// all partitions together: the store's own length applies to each partition. For several partitions
// it searches for the ID with the required number of records before it, using trims that remove
// nothing.
func lengthBound(ctx context.Context, store *stream.Store, name string, n int64) (stream.TrimOption, error) {
	stats, err := store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if total := stats.Records(); n == 0 || len(stats.Partitions) == 1 || total <= n {
		return stream.MaxLen(n), nil
	}
	first, last := int64(math.MaxInt64), int64(0)
	for _, p := range stats.Partitions {
		if p.Records > 0 {
			first, last = min(first, p.FirstID.Millis), max(last, p.LastID.Millis)
		}
	}
	excess := stats.Records() - n
	goes := func(id stream.ID) (bool, error) { // enough of them
		removed, err := store.Trim(ctx, name, stream.Before(id), stream.DryRun())
		return removed >= excess, err
	}
	millis, err := least(uint64(first), uint64(last)+1, func(ms uint64) (bool, error) { return goes(stream.ID{Millis: int64(ms)}) })
	if err != nil {
		return nil, err
	}
	before := int64(millis) - 1 // the last removed record is of this millisecond
	seq, err := least(0, math.MaxUint32, func(seq uint64) (bool, error) { return goes(stream.ID{Millis: before, Seq: seq}) })
	return stream.Before(stream.ID{Millis: before, Seq: seq}), err
}

// least returns the lowest number from low to high for which holds is true, provided that holds
// stays true for higher numbers; high if none exists.
func least(low, high uint64, holds func(uint64) (bool, error)) (uint64, error) {
	for low < high {
		middle := low + (high-low)/2
		ok, err := holds(middle)
		switch {
		case err != nil:
			return 0, err
		case ok:
			high = middle
		default:
			low = middle + 1
		}
	}
	return low, nil
}

// deleteStreamRequest names a stream and says whether it may contain records.
type deleteStreamRequest struct {
	streamRequest
	options []stream.DeleteOption
}

func (q *deleteStreamRequest) parse(in *input) {
	q.streamRequest.parse(in)
	if in.boolean("force") {
		q.options = []stream.DeleteOption{stream.Force()}
	}
}

// streamDeleted is the response to a DELETE.
type streamDeleted struct {
	OK     bool   `json:"ok"`
	Stream string `json:"stream"`
}

func (h *handler) deleteStream(ctx context.Context, q deleteStreamRequest) (streamDeleted, error) {
	if err := h.backend.Stream(q.namespace).Delete(ctx, q.name, q.options...); err != nil {
		return streamDeleted{}, err
	}
	return streamDeleted{OK: true, Stream: q.name}, nil
}

func (b staleBackend) Stream(ns string, _ ...floe.AccessOption) *stream.Store {
	return b.DB.Stream(ns, floe.Stale())
}
