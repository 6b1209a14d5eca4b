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

// appendedList is the records created by an append.
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
	Duplicate bool   `json:"duplicate"` // an earlier call has appended it
}

// producerSequence is the value of --dedup.
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
		Short: "Append messages atomically",
		Long: `Append messages to a stream atomically, creating the stream if missing. PAYLOAD is the
argument itself, the content of a file as @FILE, or stdin as - or without PAYLOAD. One that
begins with a dash follows --.

Messages with the same key are in one partition, in order. Without --key and --partition
the partitions take turns.

With --lines or --ndjson many messages are appended in batches, each as a whole or not at all; in
a spread namespace that holds for each partition.`,
		Example: `  floe stream append orders '{"id":1}' '{"id":2}' --key ann --header source=web
  floe stream append logs @today.log
  floe stream append sales 12.50 --dedup till-7:42
  journalctl -f -o cat | floe stream append logs --lines`,
		Args: atLeast("NAME"),
	}
	var message stream.Message
	partition, lastID, producer := 0, stream.ID{}, producerSequence{}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&message.Key, "key", "", "key of the messages")
	addHeader := func(v string) (map[string]string, error) { return withHeader(message.Headers, v) }
	flags.Var(newFlag(&message.Headers, "k=v", addHeader), "header", "header of the messages; repeatable")
	flags.Var(newFlag(&partition, "n", within(0, stream.MaxPartitions-1)), "partition", "partition to append to, from 0")
	flags.Var(newFlag(&producer, "producer:n", parseProducer), "dedup",
		"append at most once; n must increase with each append of the producer")
	flags.Var(newFlag(&lastID, "id", recordID), "if-last",
		"append only if the last ID of the partition is this one; 0-0: no record so far")
	many := addBulk(cmd, "a payload", "payload, key, headers, payload_encoding, key_encoding (base64)")
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
		given, err := many.given(cmd, []string{"dedup", "if-last"}, []string{"key", "header"})
		if err != nil {
			return err
		}
		if given {
			return f.appendMany(cmd, many, args, message, opts)
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

// recordLine is a message in bulk input, as in the JSON API.
type recordLine struct {
	Payload         *string           `json:"payload"`
	PayloadEncoding string            `json:"payload_encoding"`
	Key             string            `json:"key"`
	KeyEncoding     string            `json:"key_encoding"`
	Headers         map[string]string `json:"headers"`
}

func (l *recordLine) message() (m stream.Message, err error) {
	key, err := unquoted("key", &l.Key, l.KeyEncoding)
	if err != nil {
		return m, err
	}
	if len(key) > stream.MaxKeyBytes {
		return m, fmt.Errorf("member \"key\" of %d bytes exceeds %d", len(key), stream.MaxKeyBytes)
	}
	m.Key, m.Headers = string(key), l.Headers
	m.Payload, err = unquoted("payload", l.Payload, l.PayloadEncoding)
	return m, err
}

// appendedMany is the result of appending many messages.
type appendedMany struct {
	OK        bool   `json:"ok"`
	Stream    string `json:"stream"`
	Namespace string `json:"namespace"`
	Count     int    `json:"count"`
}

func (f *frame) appendMany(cmd *cobra.Command, many *bulk, args []string, like stream.Message, opts []stream.AppendOption) error {
	name := args[0]
	l := load[stream.Message]{
		from:   args[1:],
		blanks: many.ndjson,
		parse: func(line []byte) (stream.Message, int, error) {
			m := like
			if !many.ndjson {
				m.Payload = line
				return m, len(line), nil
			}
			var l recordLine
			err := parseMembers(line, &l)
			if err == nil {
				m, err = l.message()
			}
			return m, len(m.Payload), err
		},
		send: func(ctx context.Context, s *session, batch []stream.Message) (int, error) {
			appended, err := s.Stream(s.namespace).AppendMany(ctx, name, batch, opts...)
			if err != nil && len(appended) > 0 {
				failed := slices.DeleteFunc(appended, func(a stream.Appended) bool { return !a.ID.IsZero() })
				err = fmt.Errorf("%d of them were not appended: %w", len(failed), err)
			}
			return allOrNone(len(batch), err)
		},
		done: func(s *session, n int) error {
			return s.print(appendedMany{true, name, s.namespace, n},
				table{head: []string{"STREAM", "RECORDS"}, rows: [][]string{{name, decimal(n)}}})
		},
	}
	return l.run(f, cmd)
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

// messages returns a copy of like for each payload.
func (f *frame) messages(cmd *cobra.Command, like stream.Message, payloads []string) (all []stream.Message, err error) {
	if len(payloads) > stream.MaxBatch {
		return nil, &usageError{fmt.Errorf("%d payloads are more than the %d that go into one append", len(payloads), stream.MaxBatch),
			helpHint(cmd)}
	}
	stdins := 0
	for i := range max(1, len(payloads)) {
		rest := payloads[min(i, len(payloads)):]
		if len(rest) > 0 && rest[0] == "-" {
			stdins++
		}
		if stdins > 1 {
			return nil, &usageError{errors.New("PAYLOAD: - is given twice, but stdin can be read only once"), helpHint(cmd)}
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

// recordList is the records returned by a read.
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
	Size int `json:"size"` // payload in bytes
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
	HeadersEncoding string            `json:"headers_encoding,omitempty"` // "base64", for all values, if any is not text
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
		idText: newIDText(r.ID), Partition: r.Partition, Offset: r.Offset, LSN: r.LSN, keyText: newKeyText(r.Key),
		headersText: newHeadersText(r.Headers),
		payloadText: newPayloadText(r.Payload), Size: len(r.Payload),
	}
}

// shownHeaders formats headers for tables.
func shownHeaders(headers map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		all = append(all, name+"="+headers[name])
	}
	return strings.Join(all, ",")
}

// reading holds the flags of stream read.
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

// defaultRecords is the default limit of a read.
const defaultRecords = 100

func streamRead(f *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "read NAME",
		Short: "Print the records of a stream",
		Long: `Print the records of a stream in the order of their IDs, by default the oldest 100. With
--follow, records are printed as they are appended, until SIGINT, SIGTERM or --limit; --tail
--follow starts with the last ones.

Tables show the beginning of each payload, -o raw all of it. With -o json, --follow prints a
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
	flags.Var(newFlag(&r.start, "where", parseStart), "from",
		"start position: an ID, a time, beginning or end (default beginning)")
	flags.Var(newFlag(&r.after, "id", recordID), "after", "start after this ID")
	flags.Var(newFlag(&r.until, "where", parseEnd), "until", "end position, inclusive: an ID or a time")
	flags.BoolVar(&r.tail, "tail", false, "print the last records, oldest first")
	flags.Var(newFlag(&r.limit, "n", count(1)), "limit", "maximum number of records (default 100; with --follow no limit)")
	flags.Var(newFlag(&r.partition, "n", within(0, stream.MaxPartitions-1)), "partition", "only records of this partition")
	flags.Var(newFlag(&r.wait, "duration", durationOrNone), "wait", "time to wait for a record (default 0s)")
	flags.BoolVar(&r.follow, "follow", false, "continue until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.hasAfter, r.hasPartition, r.hasLimit = flags.Changed("after"), flags.Changed("partition"), flags.Changed("limit")
		for _, names := range [][]string{{"from", "after", "tail"}, {"follow", "until"}, {"follow", "wait"}} {
			if err := exclusive(cmd, names...); err != nil {
				return err
			}
		}
		if r.tail && r.limit > stream.MaxReadLimit {
			return &usageError{fmt.Errorf("--limit=%d: the maximum with --tail is %d", r.limit, stream.MaxReadLimit), helpHint(cmd)}
		}
		if _, fromEnd := r.start.(stream.NewOption); fromEnd && !r.follow {
			return &usageError{errors.New("--from=end needs --follow: no records exist after the end"), helpHint(cmd)}
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
	return printEach(s.output, s.records(ctx, name, r), head, newRecordText, row,
		func(all []recordText) any { return recordList{name, s.namespace, all, len(all)} })
}

// records returns up to r.limit records, in several calls if needed.
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

// printTail prints the last records, if there are any, and returns the position after them.
func (s *session) printTail(ctx context.Context, name string, r *reading) (stream.FollowOption, error) {
	after := stream.FromBeginning()
	for rec, err := range s.records(ctx, name, r) {
		if errors.Is(err, floe.ErrNotFound) {
			break // wait for the stream to be created
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

// printRecord prints a record.
func (s *session) printRecord(r stream.Record) (err error) {
	switch s.format {
	case formatJSON:
		return s.encode(newRecordText(r), "")
	case formatRaw:
		err = s.writeRaw(r.ID.String(), decimal(r.Partition), r.Key, shownHeaders(r.Headers), string(r.Payload))
	default:
		_, err = fmt.Fprintf(s.w, "%-17v  %4d  %s  %s  %s\n", r.ID, r.Partition, printable(r.Key), printable(shownHeaders(r.Headers)),
			printable(shortened(r.Payload)))
	}
	return err
}
