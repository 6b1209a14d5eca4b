package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

var streamRows = []row{
	{use: "create NAME", short: "Create a stream", flags: streamCreate,
		long: "Create a stream. The first append to a missing stream creates it too, with one partition.",
		example: `  floe stream create orders
  floe stream create clicks --partitions 8 --max-age 7d --max-len 1000000`},
	{code: streamAppend},
	{code: streamRead},
	{use: "info NAME", short: "Show a stream, its partitions and groups", complete: listers{streamNames}, run: streamInfo},
	{use: "list", short: "List streams with their sizes", run: streamList},
	{use: "configure NAME", short: "Change the retention of a stream", complete: listers{streamNames}, flags: streamConfigure,
		example: `  floe stream configure orders --max-age 30d
  floe stream configure orders --max-len 0`},
	{use: "trim NAME", short: "Remove the oldest records",
		complete: listers{streamNames}, asks: "it removes records for good", flags: streamTrim,
		example: `  floe stream trim orders --max-len 1000 --dry-run
  floe stream trim orders --before 1763740800000-0`},
	{use: "delete NAME", short: "Delete a stream with its groups",
		complete: listers{streamNames}, asks: "it deletes the stream with all records and groups", flags: streamDelete},
	{use: "group", short: "Consume streams in consumer groups", below: groupRows},
}

// idText is the ID of a record in JSON.
type idText struct {
	ID     string `json:"id"`
	Millis int64  `json:"id_ms"`
	Seq    uint64 `json:"id_seq"`
}

func newIDText(id stream.ID) idText { return idText{id.String(), id.Millis, id.Seq} }

// shownID formats an ID, or returns "-" for the zero ID.
func shownID(id stream.ID) string {
	if id.IsZero() {
		return "-"
	}
	return id.String()
}

// optionalID is an ID in JSON, nil for the zero ID.
func optionalID(id stream.ID) *string {
	if id.IsZero() {
		return nil
	}
	return new(id.String())
}

// parseIDs parses arguments that are IDs.
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

// parseStart parses the start of a read.
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

// streamCreated is the result of creating a stream.
type streamCreated struct {
	OK         bool   `json:"ok"`
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
	Partitions int    `json:"partitions"`
	Retention  string `json:"retention"`
}

func streamCreate(_ *frame, cmd *cobra.Command) prepare {
	partitions, keeps := 1, stream.Retention{}
	flags := cmd.Flags()
	flags.Var(newFlag(&partitions, "n", within(1, stream.MaxPartitions)), "partitions",
		"number of partitions, which cannot change; records are ordered in each (default 1)")
	flags.Var(newFlag(&keeps.MaxAge, "duration", positiveDuration), "max-age", "retention of records (default no limit)")
	flags.Var(newFlag(&keeps.MaxLen, "n", count(1)), "max-len", "maximum number of records per partition (default no limit)")
	flags.Var(newFlag(&keeps.MaxBytes, "size", sizeFrom(1)), "max-bytes", "maximum bytes of records per partition (default no limit)")
	return func(args []string) (callFunc, error) {
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
		return func(ctx context.Context, s *session) error {
			err := s.Stream(s.namespace).Create(ctx, args[0], opts...)
			if errors.Is(err, floe.ErrExists) {
				return &hintedError{err, "floe stream info NAME shows it, floe stream configure changes its retention"}
			}
			if err != nil {
				return err
			}
			return s.printStream(args[0], partitions, keeps)
		}, nil
	}
}

func (s *session) printStream(name string, partitions int, keeps stream.Retention) error {
	return s.print(
		streamCreated{true, name, s.namespace, partitions, keeps.String()},
		table{head: []string{"NAME", "PARTITIONS", "RETENTION"}, rows: [][]string{{name, decimal(partitions), keeps.String()}}},
	)
}

// streamDetail is a stream with its partitions and groups.
type streamDetail struct {
	streamSummary
	MaxAgeMillis int64           `json:"max_age_ms"` // 0: no limit
	MaxLen       int64           `json:"max_len"`    // per partition; 0: no limit
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
	Appended   int64  `json:"appended"` // total number of records appended
	Reads      int64  `json:"reads"`
	Retention  string `json:"retention"`
	CreatedAt  int64  `json:"created_at"`
}

type partitionText struct {
	ID      int     `json:"id"`
	Records int64   `json:"records"`
	Bytes   int64   `json:"bytes"`
	FirstID *string `json:"first_id"` // nil: no records
	LastID  *string `json:"last_id"`  // nil: no record was ever appended
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

func streamInfo(ctx context.Context, s *session, args []string) error {
	info, err := s.Stream(s.namespace).Get(ctx, args[0])
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
}

func (s *session) printStreamInfo(info stream.Stats, groups []stream.GroupStats) error {
	d := streamDetail{
		streamSummary: s.summarizeStream(info), MaxAgeMillis: info.Retention.MaxAge.Milliseconds(), MaxLen: info.Retention.MaxLen,
		Groups: []groupSummary{},
	}
	about := table{name: "stream", rows: [][]string{
		{"name", info.Name}, {"records", decimal(info.Records())}, {"bytes", decimal(streamBytes(info))}, {"appended",
			decimal(info.Appended)},
		{"retention", info.Retention.String()}, {"created", shownTime(info.CreatedAt)},
	}}
	parts := table{name: "partition", head: []string{"PARTITION", "RECORDS", "BYTES", "FIRST", "LAST", "SHARD"}}
	for _, p := range info.Partitions {
		d.Partitions = append(d.Partitions, partitionText{p.Partition, p.Records, p.Bytes, optionalID(p.FirstID), optionalID(p.LastID),
			p.Shard})
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

func streamList(ctx context.Context, s *session, _ []string) error {
	row := func(info stream.Stats) []string {
		return []string{
			info.Name, decimal(len(info.Partitions)), decimal(info.Records()), decimal(streamBytes(info)),
			info.Retention.String(), shownTime(info.CreatedAt),
		}
	}
	head := []string{"NAME", "PARTITIONS", "RECORDS", "BYTES", "RETENTION", "CREATED"}
	return printEach(s.output, s.Stream(s.namespace).All(ctx), head, s.summarizeStream, row, nil)
}

func streamConfigure(_ *frame, cmd *cobra.Command) prepare {
	var to stream.Retention
	flags := cmd.Flags()
	flags.Var(newFlag(&to.MaxAge, "duration", durationOrNone), "max-age", "retention of records; 0s: no limit")
	flags.Var(newFlag(&to.MaxLen, "n", count(0)), "max-len", "maximum number of records per partition; 0: no limit")
	flags.Var(newFlag(&to.MaxBytes, "size", sizeFrom(0)), "max-bytes", "maximum bytes of records per partition; 0: no limit")
	return func(args []string) (callFunc, error) {
		if !flags.Changed("max-age") && !flags.Changed("max-len") && !flags.Changed("max-bytes") {
			return nil, &usageError{errors.New("nothing to change: set at least one of --max-age, --max-len, --max-bytes"), helpHint(cmd)}
		}
		return func(ctx context.Context, s *session) error {
			info, err := s.Stream(s.namespace).Get(ctx, args[0])
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
		}, nil
	}
}

// streamTrimmed is the number of records removed by a trim.
type streamTrimmed struct {
	OK        bool   `json:"ok"`
	Stream    string `json:"stream"`
	Namespace string `json:"namespace"`
	DryRun    bool   `json:"dry_run"`
	Removed   int64  `json:"removed"` // with DryRun, the number that would be removed
}

func streamTrim(_ *frame, cmd *cobra.Command) prepare {
	var maxLen, maxBytes int64
	var maxAge time.Duration
	var before stream.ID
	flags := cmd.Flags()
	flags.Var(newFlag(&maxLen, "n", count(0)), "max-len", "number of records to keep in each partition")
	flags.Var(newFlag(&maxBytes, "size", sizeFrom(0)), "max-bytes", "maximum bytes of records to keep in each partition")
	flags.Var(newFlag(&maxAge, "duration", positiveDuration), "max-age", "maximum age of records to keep")
	flags.Var(newFlag(&before, "id", recordID), "before", "first record to keep")
	dryRun := flags.Bool("dry-run", false, "remove nothing, and print the number of records")
	return func(args []string) (callFunc, error) {
		if err := exclusive(cmd, "max-len", "max-bytes", "max-age", "before"); err != nil {
			return nil, err
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
			return nil, &usageError{errors.New("no bound given: set at least one of --max-len, --max-bytes, --max-age, --before"), helpHint(cmd)}
		}
		opts := []stream.TrimOption{bound}
		if *dryRun {
			opts, head = append(opts, stream.DryRun()), "TO REMOVE"
		}
		return func(ctx context.Context, s *session) error {
			n, err := s.Stream(s.namespace).Trim(ctx, args[0], opts...)
			if err != nil {
				return err
			}
			return s.print(
				streamTrimmed{true, args[0], s.namespace, *dryRun, n},
				table{head: []string{"STREAM", head}, rows: [][]string{{args[0], decimal(n)}}},
			)
		}, nil
	}
}

// streamDone is the result of a change to a stream that has no other result.
type streamDone struct {
	OK        bool   `json:"ok"`
	Stream    string `json:"stream"`
	Namespace string `json:"namespace"`
}

func streamDelete(_ *frame, cmd *cobra.Command) prepare {
	force := cmd.Flags().Bool("force", false, "delete the stream even if it is not empty")
	return func(args []string) (callFunc, error) {
		var opts []stream.DeleteOption
		if *force {
			opts = append(opts, stream.Force())
		}
		return func(ctx context.Context, s *session) error {
			err := s.Stream(s.namespace).Delete(ctx, args[0], opts...)
			if errors.Is(err, floe.ErrConflict) {
				return &hintedError{err, "--force deletes them too"}
			}
			if err != nil {
				return err
			}
			return s.print(streamDone{true, args[0], s.namespace}, table{head: []string{"DELETED"}, rows: [][]string{{args[0]}}})
		}, nil
	}
}

func streamNames(ctx context.Context, s *session, _ []string, begun string) (names []string, err error) {
	page, err := s.Stream(s.namespace).Page(ctx, stream.Prefix(begun), stream.Limit(stream.MaxPageItems))
	for _, s := range page.Items {
		names = append(names, s.Name)
	}
	return names, err
}
