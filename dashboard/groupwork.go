package dashboard

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
)

// longestGroupTime is the maximum of a group's durations, ms.
const longestGroupTime = 30 * 24 * 60 * 60 * 1000

const groupPath = "/api/v1/streams/:name/groups/:group"

var groupWorkRoutes = []route{
	endpoint("PUT "+groupPath, (*handler).putGroup,
		"Create a consumer group, or change the settings of an existing one. Its mode cannot change, and start is then ignored."),
	endpoint("POST "+groupPath+"/read", (*handler).readGroup,
		"Deliver records to a consumer. The group is created if it does not exist."),
	endpoint("POST "+groupPath+"/ack", (*handler).ackRecords, "Acknowledge records."),
	endpoint("POST "+groupPath+"/nack", (*handler).nackRecords, "Return records for another delivery."),
	endpoint("POST "+groupPath+"/extend", (*handler).extendRecords, "Extend the deadlines of records."),
	endpoint("POST "+groupPath+"/seek", (*handler).seekGroup,
		"Move the group: to is earliest, latest, the ID of a record, or a time in ms."),
	endpoint("POST "+groupPath+"/leave", (*handler).leaveGroup, "Remove a consumer; its records are delivered to others."),
}

// groupDone is the response to an operation on a group.
type groupDone struct {
	OK     bool   `json:"ok"`
	Stream string `json:"stream"`
	Group  string `json:"group"`
}

// putGroupRequest has the settings of a group; those that are absent keep their values or get the
// defaults.
type putGroupRequest struct {
	groupRequest
	mode        stream.Mode
	modeGiven   bool
	start       string
	ackTimeout  time.Duration
	maxAttempts int // 0: no limit
	maxDeliver  int // another name of maxAttempts
	attempts    struct{ given, deliver bool }
}

var groupModes = []string{
	stream.Shared: stream.Shared.String(), stream.Exclusive: stream.Exclusive.String(), stream.KeyShared: stream.KeyShared.String(),
}

func (q *putGroupRequest) parse(in *input) {
	q.groupRequest.parse(in)
	readFields(in, q, (*putGroupRequest).fields)
	if q.attempts.given && q.attempts.deliver && q.maxDeliver != q.maxAttempts {
		in.invalid("body: max_attempts is %d, max_deliver, which means the same, is %d", q.maxAttempts, q.maxDeliver)
	}
}

func (q *putGroupRequest) fields(f *codec.Fields) {
	attempts := codec.Range{Max: stream.MaxAttemptsLimit}
	if q.modeGiven = f.Given("mode", q.modeGiven); q.modeGiven {
		codec.Enum(f, "mode", &q.mode, groupModes)
	}
	f.Text("start", &q.start)
	f.Duration("ack_timeout_ms", &q.ackTimeout, codec.Range{Min: 1, Max: longestGroupTime, Optional: true})
	if q.attempts.given = f.Given("max_attempts", q.attempts.given); q.attempts.given {
		f.Int("max_attempts", &q.maxAttempts, attempts)
	}
	if q.attempts.deliver = f.Given("max_deliver", q.attempts.deliver); q.attempts.deliver {
		f.Int("max_deliver", &q.maxDeliver, attempts)
	}
}

// settings returns the settings in the request.
func (q *putGroupRequest) settings() (opts []stream.SettingOption) {
	if q.ackTimeout > 0 {
		opts = append(opts, stream.AckTimeout(q.ackTimeout))
	}
	if q.attempts.given || q.attempts.deliver {
		opts = append(opts, stream.MaxAttempts(max(q.maxAttempts, q.maxDeliver)))
	}
	return opts
}

// groupPut is the response to PUT.
type groupPut struct {
	OK      bool   `json:"ok"`
	Stream  string `json:"stream"`
	Group   string `json:"group"`
	Created bool   `json:"created"`
}

func (h *handler) putGroup(ctx context.Context, q putGroupRequest) (groupPut, error) {
	groups := h.backend.Stream(q.namespace).Groups(q.name)
	var opts []stream.GroupOption
	for _, opt := range q.settings() {
		opts = append(opts, opt)
	}
	if q.modeGiven {
		opts = append(opts, stream.InMode(q.mode))
	}
	if q.start != "" {
		start, err := parseStart("start", q.start)
		if err != nil {
			return groupPut{}, err
		}
		opts = append(opts, start)
	}
	err := groups.Create(ctx, q.group, opts...)
	if !errors.Is(err, engine.ErrExists) {
		return groupPut{OK: err == nil, Stream: q.name, Group: q.group, Created: true}, err
	}
	g, err := groups.Get(ctx, q.group)
	if err != nil {
		return groupPut{}, err
	}
	if q.modeGiven && q.mode != g.Mode {
		return groupPut{}, engine.Errorf(engine.ErrConflict, "group %q has the mode %s, which cannot become %s", q.group, g.Mode, q.mode)
	}
	if set := q.settings(); len(set) > 0 {
		err = groups.Configure(ctx, q.group, set...)
	}
	return groupPut{OK: true, Stream: q.name, Group: q.group}, err
}

// parseStart parses a position in a stream: earliest, latest, the ID of the first record, or a time
// in ms.
func parseStart(name, text string) (stream.SeekOption, error) {
	switch text {
	case "earliest":
		return stream.FromBeginning(), nil
	case "latest":
		return stream.FromEnd(), nil
	}
	if ms, ok := (span{max: math.MaxInt64}).parse(text); ok {
		return stream.FromTime(time.UnixMilli(ms)), nil
	}
	id, err := stream.ParseID(text)
	if err != nil {
		return nil, engine.Errorf(engine.ErrInvalid, "body: %s is %.64q, it takes earliest, latest, an ID such as 1763740800000-0, or a time in ms",
			name, text)
	}
	return stream.From(id), nil
}

// readGroupRequest reads up to limit records for a consumer.
type readGroupRequest struct {
	groupRequest
	wait
	consumer string
	limit    int
	encoding encoding
}

func (q *readGroupRequest) parse(in *input) {
	q.groupRequest.parse(in)
	q.wait.parse(in)
	q.encoding = in.encoding()
	q.limit = int(pageLimit.absent)
	readFields(in, q, (*readGroupRequest).fields)
}

func (q *readGroupRequest) fields(f *codec.Fields) {
	need(f, "consumer")
	f.Text("consumer", &q.consumer, codec.Range{Min: 1, Max: 255})
	f.Int("limit", &q.limit, codec.Range{Min: pageLimit.min, Max: pageLimit.max})
	q.wait.fields(f)
}

// deliveries is the response to read; it is empty if no record was available.
type deliveries struct {
	Records []delivery `json:"records"`
}

type delivery struct {
	Ref            string `json:"ref"`
	Attempt        int    `json:"attempt"`     // 1 for the first delivery
	DeadlineMillis int64  `json:"deadline_ms"` // redelivered after this time
	streamRecord
}

func (h *handler) readGroup(ctx context.Context, q readGroupRequest) (deliveries, error) {
	store := h.backend.Stream(q.namespace)
	found, err := patiently(ctx, q.wait, func(ctx context.Context, wait time.Duration) ([]stream.Delivery, error) {
		return store.ReadGroup(ctx, q.name, q.group, q.consumer, stream.Limit(q.limit), stream.Wait(wait))
	})
	if err != nil {
		return deliveries{}, err
	}
	all := deliveries{make([]delivery, len(found))}
	for i, d := range found {
		all.Records[i] = delivery{q.formatRef(d.Ref()), d.Attempt, d.Deadline.UnixMilli(), q.encoding.record(d.Record)}
	}
	return all, nil
}

// refsRequest names deliveries of records.
type refsRequest struct {
	groupRequest
	texts []string
	refs  []stream.Ref
}

func (q *refsRequest) parse(in *input) {
	q.groupRequest.parse(in)
	readFields(in, q, (*refsRequest).fields)
	q.resolve(in)
}

func (q *refsRequest) fields(f *codec.Fields) { texts(f, "refs", &q.texts, engine.MaxPageItems) }

// resolve parses the refs.
func (q *refsRequest) resolve(in *input) {
	for _, text := range q.texts {
		ref, err := parseRef(text, q.checksum())
		in.check(err)
		q.refs = append(q.refs, ref)
	}
}

func (h *handler) ackRecords(ctx context.Context, q refsRequest) (ackedCount, error) {
	n, err := h.backend.Stream(q.namespace).Ack(ctx, q.name, q.group, q.refs...)
	return ackedCount{n}, err
}

// nackRecordsRequest returns records.
type nackRecordsRequest struct {
	refsRequest
	nacking
}

func (q *nackRecordsRequest) parse(in *input) {
	q.groupRequest.parse(in)
	q.longest = longestGroupTime
	readFields(in, q, (*nackRecordsRequest).fields)
	q.resolve(in)
}

func (q *nackRecordsRequest) fields(f *codec.Fields) {
	q.refsRequest.fields(f)
	q.nacking.fields(f)
}

func (h *handler) nackRecords(ctx context.Context, q nackRecordsRequest) (nackedCount, error) {
	n, err := h.backend.Stream(q.namespace).Nack(ctx, q.name, q.group, q.refs, q.ofGroup()...)
	return nackedCount{n}, err
}

func (n *nacking) ofGroup() []stream.NackOption {
	opts := []stream.NackOption{stream.Reason(n.reason)}
	if n.delayed {
		opts = append(opts, stream.Delay(n.delay))
	}
	if n.toDLQ {
		opts = append(opts, stream.ToDLQ())
	}
	return opts
}

// extendRecordsRequest moves deadlines to lease_ms from now.
type extendRecordsRequest struct {
	refsRequest
	lease time.Duration
}

func (q *extendRecordsRequest) parse(in *input) {
	q.groupRequest.parse(in)
	q.lease = defaultLease
	readFields(in, q, (*extendRecordsRequest).fields)
	q.resolve(in)
}

func (q *extendRecordsRequest) fields(f *codec.Fields) {
	q.refsRequest.fields(f)
	f.Duration("lease_ms", &q.lease, codec.Range{Min: 1, Max: longestGroupTime})
}

// extendedDeadlines has the number of records that were still pending, and their new deadline.
type extendedDeadlines struct {
	Extended       int   `json:"extended"`
	DeadlineMillis int64 `json:"deadline_ms"`
}

func (h *handler) extendRecords(ctx context.Context, q extendRecordsRequest) (extendedDeadlines, error) {
	e, err := h.backend.Stream(q.namespace).ExtendMany(ctx, q.name, q.group, q.refs, q.lease)
	return showExtended(e), err
}

func showExtended(e stream.Extended) extendedDeadlines {
	if e.Records == 0 {
		return extendedDeadlines{}
	}
	return extendedDeadlines{e.Records, e.Until.UnixMilli()}
}

// seekRequest moves a group.
type seekRequest struct {
	groupRequest
	text string
	to   stream.SeekOption
	part []stream.SeekPartOption
}

func (q *seekRequest) parse(in *input) {
	q.groupRequest.parse(in)
	if p := in.optional("partition", partitions); p != nil {
		q.part = append(q.part, stream.Partition(int(*p)))
	}
	readFields(in, q, (*seekRequest).fields)
	if in.err == nil {
		var err error
		q.to, err = parseStart("to", q.text)
		in.check(err)
	}
}

func (q *seekRequest) fields(f *codec.Fields) {
	need(f, "to")
	f.Text("to", &q.text, codec.Range{Min: 1, Max: 255})
}

func (h *handler) seekGroup(ctx context.Context, q seekRequest) (groupDone, error) {
	err := h.backend.Stream(q.namespace).Seek(ctx, q.name, q.group, q.to, q.part...)
	return groupDone{true, q.name, q.group}, err
}

// leaveRequest names a consumer.
type leaveRequest struct {
	groupRequest
	consumer string
}

func (q *leaveRequest) parse(in *input) {
	q.groupRequest.parse(in)
	readFields(in, q, (*leaveRequest).fields)
}

func (q *leaveRequest) fields(f *codec.Fields) {
	need(f, "consumer")
	f.Text("consumer", &q.consumer, codec.Range{Min: 1, Max: 255})
}

func (h *handler) leaveGroup(ctx context.Context, q leaveRequest) (groupDone, error) {
	err := h.backend.Stream(q.namespace).Leave(ctx, q.name, q.group, q.consumer)
	return groupDone{true, q.name, q.group}, err
}
