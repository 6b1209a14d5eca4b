package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

func streamCommand(p Process) *cobra.Command {
	f := &frame{Process: p}
	cmd := group("stream", "Append to streams, read them, and consume them in groups",
		streamCreate(f), streamAppend(f), streamRead(f), streamInfo(f), streamList(f), streamConfigure(f), streamTrim(f), streamDelete(f),
		groupCommand(f))
	f.equip(cmd)
	return cmd
}

// idText is the ID of a record in JSON.
type idText struct {
	ID     string `json:"id"`
	Millis int64  `json:"id_ms"`
	Seq    uint64 `json:"id_seq"`
}

func newIDText(id stream.ID) idText { return idText{id.String(), id.Millis, id.Seq} }

// shownID is "-" for none.
func shownID(id stream.ID) string {
	if id.IsZero() {
		return "-"
	}
	return id.String()
}

// optionalID is an ID in JSON, nil for none.
func optionalID(id stream.ID) *string {
	if id.IsZero() {
		return nil
	}
	return new(id.String())
}

// parseIDs reads the arguments that are IDs.
func parseIDs(cmd *cobra.Command, args []string) (ids []stream.ID, err error) {
	for _, arg := range args {
		id, err := stream.ParseID(arg)
		if err != nil {
			return nil, &usageError{fmt.Errorf("ID: %q is not of the form <milliseconds>-<sequence>", arg), helpHint(cmd)}
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func recordID(v string) (stream.ID, error) {
	id, err := stream.ParseID(v)
	if err != nil {
		return id, errors.New("not the ID of a record, <milliseconds>-<sequence>")
	}
	return id, nil
}

// parseStart reads where reading begins.
func parseStart(v string) (stream.SeekOption, error) {
	switch v {
	case "beginning":
		return stream.FromBeginning(), nil
	case "end":
		return stream.FromEnd(), nil
	}
	if id, err := stream.ParseID(v); err == nil {
		return stream.From(id), nil
	}
	if t, err := parseTime(v); err == nil {
		return stream.FromTime(t), nil
	}
	return nil, errors.New("not beginning, end, an ID such as 1763740800000-0 or a time such as 2025-11-21T16:00:00Z")
}

func parseEnd(v string) (stream.ReadOption, error) {
	if id, err := stream.ParseID(v); err == nil {
		return stream.Until(id), nil
	}
	if t, err := parseTime(v); err == nil {
		return stream.UntilTime(t), nil
	}
	return nil, errors.New("not an ID such as 1763740800000-0 or a time such as 2025-11-21T16:00:00Z")
}

// streamCreated is a stream that was not there before.
type streamCreated struct {
	OK         bool   `json:"ok"`
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
	Partitions int    `json:"partitions"`
	Retention  string `json:"retention"`
}

func streamCreate(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a stream; a first append does so too, with one partition",
		Example: `  floe stream create orders
  floe stream create clicks --partitions 8 --max-age 7d --max-len 1000000`,
		Args: takes("NAME"),
	}
	partitions, keeps := 1, stream.Retention{}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(newFlag(&partitions, "n", within(1, stream.MaxPartitions)), "partitions", "how many partitions it has, for ever; order is kept in each (default 1)")
	flags.Var(newFlag(&keeps.MaxAge, "duration", positiveDuration), "max-age", "how long records are kept (default for ever)")
	flags.Var(newFlag(&keeps.MaxLen, "n", count(1)), "max-len", "how many records each partition keeps (default all)")
	flags.Var(newFlag(&keeps.MaxBytes, "size", sizeFrom(1)), "max-bytes", "how many bytes of records each partition keeps (default all)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts := []stream.CreateOption{stream.Partitions(partitions)}
		if keeps.MaxAge > 0 {
			opts = append(opts, stream.MaxAge(keeps.MaxAge))
		}
		if keeps.MaxLen > 0 {
			opts = append(opts, stream.MaxLen(keeps.MaxLen))
		}
		if keeps.MaxBytes > 0 {
			opts = append(opts, stream.MaxBytes(keeps.MaxBytes))
		}
		return f.call(cmd, func(ctx context.Context, s *session) error {
			err := s.Stream(s.namespace).Create(ctx, args[0], opts...)
			if errors.Is(err, floe.ErrExists) {
				return &hintedError{err, "floe stream info NAME shows it, floe stream configure changes what it keeps"}
			}
			if err != nil {
				return err
			}
			return s.printStream(args[0], partitions, keeps)
		})
	}
	return cmd
}

func (s *session) printStream(name string, partitions int, keeps stream.Retention) error {
	return s.print(
		streamCreated{true, name, s.namespace, partitions, keeps.String()},
		table{head: []string{"NAME", "PARTITIONS", "RETENTION"}, rows: [][]string{{name, decimal(partitions), keeps.String()}}},
	)
}

// appendedList is what an append has made.
type appendedList struct {
	OK        bool           `json:"ok"`
	Stream    string         `json:"stream"`
	Namespace string         `json:"namespace"`
	Records   []appendedText `json:"records"`
}

type appendedText struct {
	idText
	Partition int    `json:"partition"`
	Offset    uint64 `json:"offset"`
	LSN       uint64 `json:"lsn"`
	Duplicate bool   `json:"duplicate"` // it had been appended before
}

// producerSequence is a --dedup.
type producerSequence struct {
	producer string
	sequence uint64
}

func parseProducer(v string) (p producerSequence, err error) {
	at := strings.LastIndexByte(v, ':')
	if at > 0 {
		p.producer = v[:at]
		p.sequence, err = strconv.ParseUint(v[at+1:], 10, 64)
	}
	if at <= 0 || err != nil {
		return p, errors.New("not a producer and a number that increases, such as till-7:42")
	}
	return p, nil
}

func streamAppend(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "append NAME [PAYLOAD]...",
		Short: "Append messages: all of them or none",
		Long: `Append messages to a stream, which is created if there is none: each PAYLOAD as it stands,
the content of a file as @FILE, or stdin as - and when it is left out. One that begins with
a dash goes behind --.

Messages with the same key are in one partition, in order. Without --key and --partition the
partitions take turns.`,
		Example: `  floe stream append orders '{"id":1}' '{"id":2}' --key ann --header source=web
  floe stream append logs @today.log
  floe stream append sales 12.50 --dedup till-7:42`,
		Args: atLeast("NAME"),
	}
	var message stream.Message
	partition, lastID, producer := 0, stream.ID{}, producerSequence{}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&message.Key, "key", "", "key of the messages")
	addHeader := func(v string) (map[string]string, error) { return withHeader(message.Headers, v) }
	flags.Var(newFlag(&message.Headers, "k=v", addHeader), "header", "a header of the messages; several with --header again")
	flags.Var(newFlag(&partition, "n", within(0, stream.MaxPartitions-1)), "partition", "append to this partition, counted from 0")
	flags.Var(newFlag(&producer, "producer:n", parseProducer), "dedup", "append only once, however often it is tried: the number increases with each append of the producer")
	flags.Var(newFlag(&lastID, "id", recordID), "if-last", "only if this is the last record that the partition has ever had; 0-0: if there never was one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var opts []stream.AppendOption
		if flags.Changed("partition") {
			opts = append(opts, stream.Partition(partition))
		}
		if flags.Changed("dedup") {
			opts = append(opts, stream.Dedup(producer.producer, producer.sequence))
		}
		if flags.Changed("if-last") {
			opts = append(opts, stream.IfLastID(lastID))
		}
		messages, err := f.messages(cmd, message, args[1:])
		if err != nil {
			return err
		}
		return f.call(cmd, func(ctx context.Context, s *session) error {
			appended, err := s.Stream(s.namespace).AppendMany(ctx, args[0], messages, opts...)
			if errors.Is(err, floe.ErrConflict) {
				return &hintedError{err, "nothing was appended; floe stream info NAME shows the last record of each partition"}
			}
			if err != nil {
				return err
			}
			return s.printAppended(args[0], appended)
		})
	}
	return f.completing(cmd, streamNames, nil)
}

func withHeader(headers map[string]string, v string) (map[string]string, error) {
	name, value, found := strings.Cut(v, "=")
	if !found || name == "" {
		return nil, errors.New("not name=value")
	}
	all := map[string]string{name: value}
	for k, v := range headers {
		if k != name {
			all[k] = v
		}
	}
	return all, nil
}

// messages returns a message like the given one for each payload.
func (f *frame) messages(cmd *cobra.Command, like stream.Message, payloads []string) (all []stream.Message, err error) {
	if len(payloads) > stream.MaxBatch {
		return nil, &usageError{fmt.Errorf("%d payloads are more than the %d that go into one append", len(payloads), stream.MaxBatch), helpHint(cmd)}
	}
	stdins := 0
	for i := range max(1, len(payloads)) {
		rest := payloads[min(i, len(payloads)):]
		if len(rest) > 0 && rest[0] == "-" {
			stdins++
		}
		if stdins > 1 {
			return nil, &usageError{errors.New("PAYLOAD: - is there twice, and stdin can be read once"), helpHint(cmd)}
		}
		if like.Payload, err = f.payload(cmd, "PAYLOAD", rest); err != nil {
			return nil, err
		}
		all = append(all, like)
	}
	return all, nil
}

func (s *session) printAppended(name string, all []stream.Appended) error {
	list := appendedList{OK: true, Stream: name, Namespace: s.namespace, Records: []appendedText{}}
	t := table{head: []string{"ID", "PARTITION", "OFFSET", "DUPLICATE"}}
	for _, a := range all {
		list.Records = append(list.Records, appendedText{newIDText(a.ID), a.Partition, a.Offset, a.LSN, a.Duplicate})
		t.rows = append(t.rows, []string{a.ID.String(), decimal(a.Partition), decimal(a.Offset), strconv.FormatBool(a.Duplicate)})
	}
	return s.print(list, t)
}

// recordList is what a read has found.
type recordList struct {
	Stream    string       `json:"stream"`
	Namespace string       `json:"namespace"`
	Records   []recordText `json:"records"`
	Count     int          `json:"count"`
}

// recordText is a record in JSON.
type recordText struct {
	idText
	Partition int    `json:"partition"`
	Offset    uint64 `json:"offset"`
	LSN       uint64 `json:"lsn"`
	keyText
	headersText
	payloadText
	Size int `json:"size"` // bytes of the payload
}

// payloadText is a payload in JSON.
type payloadText struct {
	Payload         string `json:"payload"`
	PayloadEncoding string `json:"payload_encoding,omitempty"` // "base64" if the payload is not text
}

func newPayloadText(payload []byte) payloadText {
	text, encoding := jsonText(string(payload))
	return payloadText{text, encoding}
}

// headersText is headers in JSON.
type headersText struct {
	Headers         map[string]string `json:"headers"`
	HeadersEncoding string            `json:"headers_encoding,omitempty"` // "base64" if a value is not text: all values are in it then
}

func newHeadersText(headers map[string]string) headersText {
	t := headersText{Headers: map[string]string{}}
	for name, value := range headers {
		t.Headers[name] = value
		if !utf8.ValidString(value) {
			t.HeadersEncoding = "base64"
		}
	}
	if t.HeadersEncoding != "" {
		for name, value := range headers {
			t.Headers[name] = base64.StdEncoding.EncodeToString([]byte(value))
		}
	}
	return t
}

func newRecordText(r stream.Record) recordText {
	return recordText{
		idText: newIDText(r.ID), Partition: r.Partition, Offset: r.Offset, LSN: r.LSN, keyText: newKeyText(r.Key), headersText: newHeadersText(r.Headers),
		payloadText: newPayloadText(r.Payload), Size: len(r.Payload),
	}
}

// shownHeaders is headers as tables have them.
func shownHeaders(headers map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		all = append(all, name+"="+headers[name])
	}
	return strings.Join(all, ",")
}

// reading is what stream read is told.
type reading struct {
	start     stream.SeekOption // nil: the beginning
	after     stream.ID
	until     stream.ReadOption // nil: the end
	tail      bool
	partition int
	limit     int64
	wait      time.Duration
	follow    bool

	hasAfter, hasPartition, hasLimit bool
}

// defaultRecords is how many records are read by default.
const defaultRecords = 100

func streamRead(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "read NAME",
		Short: "Print the records of a stream",
		Long: `Print the records of a stream in the order of their IDs, by default
the oldest 100. With --follow they are printed as they come, all from where reading begins, until
SIGINT, SIGTERM or --limit; --tail --follow begins with the last ones.

A table has the beginning of each payload, -o raw all of it. With -o json, --follow prints a
document for each record.`,
		Example: `  floe stream read orders --tail --limit 10
  floe stream read orders --from 1763740800000-0 --limit 1000 -o json
  floe stream read orders --from 2025-11-21T16:00:00Z --until 2025-11-21T17:00:00Z
  floe stream read orders --from end --follow`,
		Args: takes("NAME"),
	}
	r := reading{limit: defaultRecords}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(newFlag(&r.start, "where", parseStart), "from", "begin with this ID, or at this time; beginning; end, to follow what comes (default beginning)")
	flags.Var(newFlag(&r.after, "id", recordID), "after", "begin behind this ID")
	flags.Var(newFlag(&r.until, "where", parseEnd), "until", "end with this ID, or at this time")
	flags.BoolVar(&r.tail, "tail", false, "the last records, oldest first")
	flags.Var(newFlag(&r.limit, "n", count(1)), "limit", "how many records at most (default 100; with --follow no limit)")
	flags.Var(newFlag(&r.partition, "n", within(0, stream.MaxPartitions-1)), "partition", "only records of this partition")
	flags.Var(newFlag(&r.wait, "duration", durationOrNone), "wait", "how long to wait for a record if there is none (default 0s)")
	flags.BoolVar(&r.follow, "follow", false, "go on until stopped")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.hasAfter, r.hasPartition, r.hasLimit = flags.Changed("after"), flags.Changed("partition"), flags.Changed("limit")
		for _, names := range [][]string{{"from", "after", "tail"}, {"follow", "until"}, {"follow", "wait"}} {
			if err := exclusive(cmd, names...); err != nil {
				return err
			}
		}
		if r.tail && r.limit > stream.MaxReadLimit {
			return &usageError{fmt.Errorf("--limit=%d: with --tail the most is %d", r.limit, stream.MaxReadLimit), helpHint(cmd)}
		}
		if _, fromEnd := r.start.(stream.NewOption); fromEnd && !r.follow {
			return &usageError{errors.New("--from=end: there is nothing behind the end, except with --follow"), helpHint(cmd)}
		}
		if r.follow {
			return f.follow(cmd, func(ctx context.Context, s *session) error { return s.followRecords(ctx, args[0], &r) })
		}
		f.wait = r.wait
		return f.call(cmd, func(ctx context.Context, s *session) error { return s.readRecords(ctx, args[0], &r) })
	}
	return f.completing(cmd, streamNames)
}

func (s *session) readRecords(ctx context.Context, name string, r *reading) error {
	row := func(rec stream.Record) []string {
		return []string{rec.ID.String(), decimal(rec.Partition), rec.Key, shownHeaders(rec.Headers), s.cell(rec.Payload)}
	}
	head := []string{"ID", "PARTITION", "KEY", "HEADERS", "PAYLOAD"}
	all, err := printEach(s.output, s.records(ctx, name, r), head, newRecordText, row)
	if err != nil || s.format != formatJSON {
		return err
	}
	return s.print(recordList{name, s.namespace, all, len(all)})
}

// records reads as many records as asked for, in several calls if need be.
func (s *session) records(ctx context.Context, name string, r *reading) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		start := stream.FromBeginning()
		switch o := r.start.(type) {
		case stream.StartOption:
			start = o
		case nil:
			if r.hasAfter {
				start = stream.After(r.after)
			}
		}
		wait := r.wait
		for left := r.limit; left > 0; {
			opts := []stream.ReadOption{start, stream.Limit(int(min(left, stream.MaxReadLimit))), stream.Wait(wait)}
			if r.tail {
				opts[0] = stream.Tail()
			}
			if r.until != nil {
				opts = append(opts, r.until)
			}
			if r.hasPartition {
				opts = append(opts, stream.Partition(r.partition))
			}
			page, err := s.Stream(s.namespace).Read(ctx, name, opts...)
			if err != nil {
				yield(stream.Record{}, err)
				return
			}
			for _, rec := range page {
				if !yield(rec, nil) {
					return
				}
			}
			if len(page) == 0 || r.tail {
				return
			}
			left -= int64(len(page))
			start, wait = stream.After(page[len(page)-1].ID), 0
		}
	}
}

func (s *session) followRecords(ctx context.Context, name string, r *reading) error {
	opts := []stream.FollowOption{stream.FromBeginning()}
	left := int64(math.MaxInt64)
	switch {
	case r.tail:
		after, err := s.printTail(ctx, name, r)
		if err != nil {
			return err
		}
		opts[0] = after
	case r.hasAfter:
		opts[0] = stream.After(r.after)
	case r.start != nil:
		opts[0] = r.start.(stream.FollowOption)
	}
	if r.hasLimit && !r.tail {
		left = r.limit
	}
	if r.hasPartition {
		opts = append(opts, stream.Partition(r.partition))
	}
	for rec, err := range s.Stream(s.namespace).Follow(ctx, name, opts...) {
		if err == nil {
			err = s.printRecord(rec)
		}
		if err != nil {
			return err
		}
		if left--; left == 0 {
			break
		}
	}
	return nil
}

// printTail prints the last records, if there are any, and returns where it goes on.
func (s *session) printTail(ctx context.Context, name string, r *reading) (stream.FollowOption, error) {
	after := stream.FromBeginning()
	for rec, err := range s.records(ctx, name, r) {
		if errors.Is(err, floe.ErrNotFound) {
			break // it is waited for
		}
		if err == nil {
			err = s.printRecord(rec)
		}
		if err != nil {
			return nil, err
		}
		after = stream.After(rec.ID)
	}
	return after, nil
}

// printRecord prints a record that has just come.
func (s *session) printRecord(r stream.Record) (err error) {
	switch s.format {
	case formatJSON:
		return s.encode(newRecordText(r), "")
	case formatRaw:
		_, err = fmt.Fprintf(s.w, "%v\t%d\t%s\t%s\t%s\n", r.ID, r.Partition, r.Key, shownHeaders(r.Headers), r.Payload)
	default:
		_, err = fmt.Fprintf(s.w, "%-17v  %4d  %s  %s  %s\n", r.ID, r.Partition, printable(r.Key), printable(shownHeaders(r.Headers)), printable(shortened(r.Payload)))
	}
	return err
}

// streamDetail is a stream with its partitions and groups.
type streamDetail struct {
	streamSummary
	MaxAgeMillis int64           `json:"max_age_ms"` // 0: no bound
	MaxLen       int64           `json:"max_len"`    // of each partition, 0: no bound
	Partitions   []partitionText `json:"partitions"`
	Groups       []groupSummary  `json:"consumer_groups"`
}

// streamSummary is a stream in a listing.
type streamSummary struct {
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
	Partitions int    `json:"partitions"`
	Records    int64  `json:"records"`
	Bytes      int64  `json:"bytes"`
	Appended   int64  `json:"appended"` // records ever appended
	Reads      int64  `json:"reads"`
	Retention  string `json:"retention"`
	CreatedAt  int64  `json:"created_at"`
}

type partitionText struct {
	ID      int     `json:"id"`
	Records int64   `json:"records"`
	Bytes   int64   `json:"bytes"`
	FirstID *string `json:"first_id"` // nil: there is no record
	LastID  *string `json:"last_id"`  // nil: there never was one
	Shard   int     `json:"shard"`
}

func (s *session) summarizeStream(info stream.Stats) streamSummary {
	return streamSummary{
		Name: info.Name, Namespace: s.namespace, Partitions: len(info.Partitions), Records: info.Records(), Bytes: streamBytes(info),
		Appended: info.Appended, Reads: info.Reads, Retention: info.Retention.String(), CreatedAt: info.CreatedAt.UnixMilli(),
	}
}

func streamBytes(info stream.Stats) (n int64) {
	for _, p := range info.Partitions {
		n += p.Bytes
	}
	return n
}

func streamInfo(f *frame) *cobra.Command {
	return f.completing(&cobra.Command{
		Use:   "info NAME",
		Short: "Show what a stream holds, its partitions and its groups",
		Args:  takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.call(cmd, func(ctx context.Context, s *session) error {
				info, err := s.Stream(s.namespace).Stats(ctx, args[0])
				if err != nil {
					return err
				}
				var groups []stream.GroupStats
				for g, err := range s.Stream(s.namespace).Groups(args[0]).All(ctx) {
					if err != nil {
						return err
					}
					groups = append(groups, g)
				}
				return s.printStreamInfo(info, groups)
			})
		},
	}, streamNames)
}

func (s *session) printStreamInfo(info stream.Stats, groups []stream.GroupStats) error {
	d := streamDetail{
		streamSummary: s.summarizeStream(info), MaxAgeMillis: info.Retention.MaxAge.Milliseconds(), MaxLen: info.Retention.MaxLen,
		Groups: []groupSummary{},
	}
	about := table{name: "stream", rows: [][]string{
		{"name", info.Name}, {"records", decimal(info.Records())}, {"bytes", decimal(streamBytes(info))}, {"appended", decimal(info.Appended)},
		{"retention", info.Retention.String()}, {"created", shownTime(info.CreatedAt)},
	}}
	parts := table{name: "partition", head: []string{"PARTITION", "RECORDS", "BYTES", "FIRST", "LAST", "SHARD"}}
	for _, p := range info.Partitions {
		d.Partitions = append(d.Partitions, partitionText{p.Partition, p.Records, p.Bytes, optionalID(p.FirstID), optionalID(p.LastID), p.Shard})
		parts.rows = append(parts.rows, []string{
			decimal(p.Partition), decimal(p.Records), decimal(p.Bytes), shownID(p.FirstID), shownID(p.LastID), decimal(p.Shard),
		})
	}
	tables := []table{about, parts}
	of := table{name: "group", head: groupHead}
	for _, g := range groups {
		d.Groups = append(d.Groups, summarizeGroup(g))
		of.rows = append(of.rows, groupRow(g))
	}
	if len(groups) > 0 {
		tables = append(tables, of)
	}
	return s.print(d, tables...)
}

func streamList(f *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List streams and how much they hold",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.call(cmd, func(ctx context.Context, s *session) error {
				row := func(info stream.Stats) []string {
					return []string{
						info.Name, decimal(len(info.Partitions)), decimal(info.Records()), decimal(streamBytes(info)), info.Retention.String(), shownTime(info.CreatedAt),
					}
				}
				head := []string{"NAME", "PARTITIONS", "RECORDS", "BYTES", "RETENTION", "CREATED"}
				list, err := printEach(s.output, s.Stream(s.namespace).All(ctx), head, s.summarizeStream, row)
				if err != nil || s.format != formatJSON {
					return err
				}
				return s.print(list)
			})
		},
	}
}

func streamConfigure(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "configure NAME",
		Short: "Change how long a stream keeps its records; what is not said stays",
		Example: `  floe stream configure orders --max-age 30d
  floe stream configure orders --max-len 0`,
		Args: takes("NAME"),
	}
	var to stream.Retention
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(newFlag(&to.MaxAge, "duration", durationOrNone), "max-age", "how long records are kept; 0s: for ever")
	flags.Var(newFlag(&to.MaxLen, "n", count(0)), "max-len", "how many records each partition keeps; 0: all")
	flags.Var(newFlag(&to.MaxBytes, "size", sizeFrom(0)), "max-bytes", "how many bytes of records each partition keeps; 0: all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !flags.Changed("max-age") && !flags.Changed("max-len") && !flags.Changed("max-bytes") {
			return &usageError{errors.New("there is nothing to change: none of --max-age, --max-len, --max-bytes"), helpHint(cmd)}
		}
		return f.call(cmd, func(ctx context.Context, s *session) error {
			info, err := s.Stream(s.namespace).Stats(ctx, args[0])
			if err != nil {
				return err
			}
			keeps := info.Retention
			if flags.Changed("max-age") {
				keeps.MaxAge = to.MaxAge
			}
			if flags.Changed("max-len") {
				keeps.MaxLen = to.MaxLen
			}
			if flags.Changed("max-bytes") {
				keeps.MaxBytes = to.MaxBytes
			}
			if err := s.Stream(s.namespace).SetRetention(ctx, args[0], keeps); err != nil {
				return err
			}
			return s.printStream(args[0], len(info.Partitions), keeps)
		})
	}
	return f.completing(cmd, streamNames)
}

// streamTrimmed says what a trim has removed.
type streamTrimmed struct {
	OK        bool   `json:"ok"`
	Stream    string `json:"stream"`
	Namespace string `json:"namespace"`
	DryRun    bool   `json:"dry_run"`
	Removed   int64  `json:"removed"` // or what would be
}

func streamTrim(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trim NAME",
		Short: "Remove the oldest records, by length, bytes, age or ID",
		Example: `  floe stream trim orders --max-len 1000 --dry-run
  floe stream trim orders --before 1763740800000-0`,
		Args: takes("NAME"),
	}
	var maxLen, maxBytes int64
	var maxAge time.Duration
	var before stream.ID
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(newFlag(&maxLen, "n", count(0)), "max-len", "leave so many records in each partition")
	flags.Var(newFlag(&maxBytes, "size", sizeFrom(0)), "max-bytes", "leave at most so many bytes of records in each partition")
	flags.Var(newFlag(&maxAge, "duration", positiveDuration), "max-age", "leave the records that are not older")
	flags.Var(newFlag(&before, "id", recordID), "before", "leave this record and those behind it")
	dryRun := flags.Bool("dry-run", false, "remove nothing, but say how many it would be")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := exclusive(cmd, "max-len", "max-bytes", "max-age", "before"); err != nil {
			return err
		}
		bound, head := stream.TrimOption(nil), "REMOVED"
		switch {
		case flags.Changed("max-len"):
			bound = stream.MaxLen(maxLen)
		case flags.Changed("max-bytes"):
			bound = stream.MaxBytes(maxBytes)
		case flags.Changed("max-age"):
			bound = stream.MaxAge(maxAge)
		case flags.Changed("before"):
			bound = stream.Before(before)
		default:
			return &usageError{errors.New("there is no bound: none of --max-len, --max-bytes, --max-age, --before"), helpHint(cmd)}
		}
		opts := []stream.TrimOption{bound}
		if *dryRun {
			opts, head = append(opts, stream.DryRun()), "TO REMOVE"
		}
		return f.call(cmd, func(ctx context.Context, s *session) error {
			n, err := s.Stream(s.namespace).Trim(ctx, args[0], opts...)
			if err != nil {
				return err
			}
			return s.print(
				streamTrimmed{true, args[0], s.namespace, *dryRun, n},
				table{head: []string{"STREAM", head}, rows: [][]string{{args[0], decimal(n)}}},
			)
		})
	}
	return f.completing(cmd, streamNames)
}

// streamDone is a change of a stream that has no more to say.
type streamDone struct {
	OK        bool   `json:"ok"`
	Stream    string `json:"stream"`
	Namespace string `json:"namespace"`
}

func streamDelete(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a stream with its groups",
		Args:  takes("NAME"),
	}
	force := cmd.Flags().Bool("force", false, "also if it holds records")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var opts []stream.DeleteOption
		if *force {
			opts = append(opts, stream.Force())
		}
		return f.call(cmd, func(ctx context.Context, s *session) error {
			err := s.Stream(s.namespace).Delete(ctx, args[0], opts...)
			if errors.Is(err, floe.ErrConflict) {
				return &hintedError{err, "--force deletes them too"}
			}
			if err != nil {
				return err
			}
			return s.print(streamDone{true, args[0], s.namespace}, table{head: []string{"DELETED"}, rows: [][]string{{args[0]}}})
		})
	}
	return f.completing(cmd, streamNames)
}
