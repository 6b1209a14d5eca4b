package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/ts"
)

var tsRows = []row{
	{use: "write MEASUREMENT", short: "Write a point", complete: listers{measurementNames}, flags: tsWrite,
		example: `  floe ts write cpu --tags host=web-01,region=eu --value 12.5
  floe ts write disk --tags host=web-01 --fields used=5.2e10,free=1e9 --timestamp 1700000000000`},
	{use: "import FILE", short: "Import points in line protocol", flags: tsImport,
		long: `Import points in the line protocol of InfluxDB, from a file or stdin as -, in batches.

Rejected lines are reported with their numbers, and the command fails; the others are
written. String fields are omitted and counted. Repeating an import changes nothing. While
the node is busy or restarts, the import waits.`,
		example: `  floe ts import metrics.lp --precision ns
  telegraf --test --outputs file | floe ts import - --precision ns`},
	{use: "query FLOQL", short: "Evaluate a FloQL query", flags: tsQuery,
		long: `Evaluate a FloQL query, MEASUREMENT{FILTERS}[RANGE] | STAGE | ...: the argument itself, the
content of a file as @FILE, or stdin as -.
As JSON the result is that of the HTTP API.`,
		example: `  floe ts query 'cpu{host=~"web-*"}[1h] | window(5m) | group_by(host) | avg()'
  floe ts query 'requests{code!=200}[now-1d..now] | rate(1m) | sum()' -o json`},
	{use: "read MEASUREMENT", short: "Print the newest points of a field", complete: listers{measurementNames}, flags: tsRead,
		example: `  floe ts read cpu --tags host=web-01 --from -1h --limit 20
  floe ts read cpu --from 2025-11-21T16:00:00Z --to 1763744400000
  floe ts read cpu:5m:max --field usage -o raw`},
	{use: "last MEASUREMENT", short: "Print the newest point of each series", complete: listers{measurementNames}, flags: tsLast,
		example: `  floe ts last cpu --tags region=eu
  floe ts last cpu --field usage --from -1h -o json
  floe ts last cpu:5m:max`},
	{use: "list", short: "List the measurements of a namespace", flags: tsList},
	{use: "series MEASUREMENT", short: "List the series of a measurement", complete: listers{measurementNames}, flags: tsSeries},
	{use: "retention MEASUREMENT", short: "Show or change the retention of a measurement",
		complete: listers{measurementNames}, flags: tsRetention,
		long: `Show or change the retention of a measurement; other settings stay. A rollup has count, sum,
min, max, first and last of each time bucket. It is read as NAME:EVERY:AGGREGATE, and
queries use it for points that are no longer stored.`,
		example: `  floe ts retention cpu --raw-ttl 7d --downsample 5m=90d --downsample 1h=0s
  floe ts query 'cpu:5m:max{host=web-01}[30d]'`},
	{use: "delete MEASUREMENT", short: "Delete a measurement, series or time range",
		complete: listers{measurementNames}, asks: "it deletes points for good", flags: tsDelete,
		example: `  floe ts delete cpu --tags host=web-01
  floe ts delete cpu --tags host=web-01 --from 2025-11-21T16:00:00Z --to -1h
  floe ts delete cpu --match 'host=~test-*,region!=eu'`},
}

// pointWritten is the result of a write to a measurement.
type pointWritten struct {
	OK          bool   `json:"ok"`
	Measurement string `json:"measurement"`
	Namespace   string `json:"namespace"`
	Written     int    `json:"written"` // points
}

func tsWrite(_ *frame, cmd *cobra.Command) prepare {
	p := ts.Point{}
	var value float64
	flags := cmd.Flags()
	flags.Var(newFlag(&p.Tags, "k=v,...", tagPairs), "tags", "tags of the series")
	flags.Var(newFlag(&value, "number", finiteNumber), "value", "value of the field named value")
	flags.Var(newFlag(&p.Fields, "k=number,...", fieldPairs), "fields", "fields with their values")
	flags.Var(newFlag(&p.Time, "time", parseTime), "timestamp", "time of the point: ms since the epoch, RFC 3339 or -1h (default now)")
	return func(args []string) (callFunc, error) {
		if err := exclusive(cmd, "value", "fields"); err != nil {
			return nil, err
		}
		switch p.Measurement = args[0]; {
		case flags.Changed("value"):
			p.Fields = map[string]float64{"value": value}
		case p.Fields == nil:
			return nil, &usageError{errors.New("--value or --fields is missing"), helpHint(cmd)}
		}
		return func(ctx context.Context, s *session) error {
			result, err := s.TS(s.namespace).Write(ctx, p)
			if err != nil {
				return err
			}
			return s.print(
				pointWritten{true, args[0], s.namespace, result.Written},
				table{head: []string{"MEASUREMENT", "WRITTEN"}, rows: [][]string{{args[0], decimal(result.Written)}}},
			)
		}, nil
	}
}

// tagPairs parses k=v,k=v. A backslash escapes a comma, an equals sign or a backslash.
func tagPairs(v string) (map[string]string, error) {
	all := make(map[string]string)
	key, text, inValue := "", []byte(nil), false
	end := func() error {
		switch _, twice := all[key]; {
		case !inValue || key == "" || len(text) == 0:
			return errors.New("not pairs of key and value such as host=web-01,region=eu")
		case twice:
			return fmt.Errorf("%s is given twice", key)
		}
		all[key] = string(text)
		key, text, inValue = "", nil, false
		return nil
	}
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '\\' && i+1 < len(v) && strings.IndexByte(`,=\`, v[i+1]) >= 0:
			i++
			text = append(text, v[i])
		case c == '=' && !inValue:
			key, text, inValue = string(text), nil, true
		case c == ',':
			if err := end(); err != nil {
				return nil, err
			}
		default:
			text = append(text, c)
		}
	}
	return all, end()
}

func fieldPairs(v string) (map[string]float64, error) {
	pairs, err := tagPairs(v)
	if err != nil {
		return nil, errors.New("not fields with numbers such as used=5.2e10,free=1e9")
	}
	fields := make(map[string]float64)
	for name, text := range pairs {
		if fields[name], err = finiteNumber(text); err != nil {
			return nil, fmt.Errorf("%s=%s is %w", name, text, err)
		}
	}
	return fields, nil
}

// finiteNumber parses finite numbers, and booleans as 1 and 0.
func finiteNumber(v string) (float64, error) {
	switch v {
	case "true":
		return 1, nil
	case "false":
		return 0, nil
	}
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, errors.New("not a finite number")
	}
	return n, nil
}

// imported is the result of an import.
type imported struct {
	OK        bool          `json:"ok"`
	Namespace string        `json:"namespace"`
	Written   int           `json:"written"` // points
	Refused   int           `json:"refused"` // lines
	Strings   int           `json:"strings"` // fields that were skipped
	Errors    []refusedLine `json:"errors"`  // the first 100 refused lines
}

type refusedLine struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

func tsImport(f *frame, cmd *cobra.Command) prepare {
	precision := ts.Milliseconds
	cmd.Flags().Var(newFlag(&precision, "unit", ts.ParsePrecision), "precision", "unit of the timestamps: ns, us, ms or s (default ms)")
	return func(args []string) (callFunc, error) {
		in := f.Stdin
		var file *os.File
		if args[0] != "-" {
			var err error
			if file, err = os.Open(args[0]); err != nil {
				return nil, err
			}
			in = file
		}
		if in == nil {
			return nil, &usageError{errors.New("FILE is -, but stdin is not available"), helpHint(cmd)}
		}
		if !cmd.Flags().Changed("timeout") { // no limit while there is input
			f.timeout = forever
		}
		progress := &progress{r: in, to: f.Stderr, shown: isTerminal(f.Stderr)}
		return func(ctx context.Context, s *session) error {
			defer file.Close() // nil is refused, without harm
			result, err := s.TS(s.namespace).Import(ctx, progress, precision)
			progress.end()
			if err != nil {
				return fmt.Errorf("%d points were written before: %w", result.Written, err)
			}
			return s.printImported(result)
		}, nil
	}
}

func (s *session) printImported(result ts.Result) error {
	document := imported{result.Refused == 0, s.namespace, result.Written, result.Refused, result.Strings, []refusedLine{}}
	var failures []error
	for _, e := range result.Errors {
		document.Errors = append(document.Errors, refusedLine{e.At, e.Err.Error()})
		failures = append(failures, fmt.Errorf("line %d: %w", e.At, e.Err))
	}
	row := []string{decimal(result.Written), decimal(result.Refused), decimal(result.Strings)}
	if err := s.print(document, table{head: []string{"WRITTEN", "REFUSED", "STRINGS LEFT OUT"}, rows: [][]string{row}}); err != nil {
		return err
	}
	if more := result.Refused - len(failures); more > 0 {
		failures = append(failures, fmt.Errorf("%d more lines were refused", more))
	}
	return errors.Join(failures...)
}

// progress shows the amount of input read on a terminal.
type progress struct {
	r     io.Reader
	to    io.Writer
	shown bool
	read  int64 // bytes
	told  int64 // MiB
}

// Read implements io.Reader.
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.read += int64(n)
	if mib := p.read >> 20; p.shown && mib != p.told {
		p.told = mib
		fmt.Fprintf(p.to, "\r%d MiB", mib)
	}
	return n, err
}

func (p *progress) end() {
	if p.told > 0 {
		fmt.Fprint(p.to, "\r\033[K")
	}
}

// measurementSummary is a measurement in JSON.
type measurementSummary struct {
	Name        string      `json:"name"`
	Namespace   string      `json:"namespace"`
	SeriesCount int64       `json:"series_count"`
	FieldCount  int         `json:"field_count"`
	Points      int64       `json:"points"`
	Fields      []fieldType `json:"fields"`
	Oldest      *int64      `json:"oldest"`
	Newest      *int64      `json:"newest"`
	Retention   string      `json:"retention"`
	HeldPoints  int64       `json:"held_points"` // on disk beyond their retention
	HeldBy      string      `json:"held_by"`     // interval of the rollup that they wait for: 5m
}

type fieldType struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

func (s *session) summarizeMeasurement(m ts.Measurement) measurementSummary {
	summary := measurementSummary{
		Name: m.Name, Namespace: s.namespace, SeriesCount: m.Series, FieldCount: len(m.Fields), Points: m.Points, Fields: []fieldType{},
		Oldest: optionalMillis(m.Oldest), Newest: optionalMillis(m.Newest), Retention: m.Retention.String(),
		HeldPoints: m.Held, HeldBy: heldBy(m),
	}
	for _, f := range m.Fields {
		summary.Fields = append(summary.Fields, fieldType{f.Name, f.Type.String()})
	}
	return summary
}

// heldBy returns the rollup that holds points back, "" if none does.
func heldBy(m ts.Measurement) string {
	if m.Held == 0 {
		return ""
	}
	return shownDuration(m.HeldBy.Every)
}

func tsList(f *frame, cmd *cobra.Command) prepare {
	return unchecked(func(ctx context.Context, s *session, _ []string) error {
		row := func(m ts.Measurement) []string {
			var fields []string
			for _, f := range m.Fields {
				fields = append(fields, f.Name)
			}
			retention := m.Retention.String()
			if m.Held > 0 {
				retention += fmt.Sprintf(" (%s older points held by %s)", decimal(m.Held), heldBy(m))
			}
			return []string{
				m.Name, decimal(m.Series), decimal(m.Points), shownOptionalTime(m.Oldest), shownOptionalTime(m.Newest), retention,
				strings.Join(fields, ","),
			}
		}
		head := []string{"NAME", "SERIES", "POINTS", "OLDEST", "NEWEST", "RETENTION", "FIELDS"}
		return printEach(s.output, s.TS(s.namespace).All(ctx, ts.Limit(1000)), head, s.summarizeMeasurement, row, nil)
	})
}

// seriesText is a series in JSON.
type seriesText struct {
	Measurement string            `json:"measurement"`
	Tags        map[string]string `json:"tags"`
}

func tsSeries(_ *frame, cmd *cobra.Command) prepare {
	var tags map[string]string
	var match []floql.Filter
	cmd.Flags().Var(newFlag(&tags, "k=v,...", tagPairs), "tags", "only series with these tags")
	cmd.Flags().Var(newFlag(&match, "filters", floql.ParseFilters), "match",
		"only series that match these FloQL filters")
	return unchecked(func(ctx context.Context, s *session, args []string) error {
		if _, err := s.TS(s.namespace).Get(ctx, args[0]); err != nil {
			return err
		}
		document := func(one ts.Series) seriesText { return seriesText{one.Measurement, one.Tags} }
		row := func(one ts.Series) []string { return []string{one.Measurement, shownTags(one.Tags)} }
		all := s.TS(s.namespace).Series(args[0]).All(ctx, ts.Limit(1000), ts.Tags(tags), ts.Matching(match...))
		return printEach(s.output, all, []string{"MEASUREMENT", "TAGS"}, document, row, nil)
	})
}

// shownTags formats tags as --tags accepts them.
func shownTags(tags map[string]string) string {
	escape := strings.NewReplacer(`\`, `\\`, ",", `\,`, "=", `\=`)
	var pairs []string
	for k, v := range tags {
		pairs = append(pairs, escape.Replace(k)+"="+escape.Replace(v))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// retentionText is the retention of a measurement and its rollups, in JSON.
type retentionText struct {
	OK          bool         `json:"ok"`
	Measurement string       `json:"measurement"`
	Namespace   string       `json:"namespace"`
	RawTTL      int64        `json:"raw_ttl_ms"` // 0: forever
	Downsample  []rollupText `json:"downsample"`
}

type rollupText struct {
	Every int64 `json:"every_ms"`
	TTL   int64 `json:"ttl_ms"` // 0: forever
}

func tsRetention(_ *frame, cmd *cobra.Command) prepare {
	var to ts.Retention
	addRollup := func(v string) ([]ts.Downsample, error) {
		d, err := downsample(v)
		return append(to.Downsample, d), err
	}
	flags := cmd.Flags()
	flags.Var(newFlag(&to.RawTTL, "duration", durationOrNone), "raw-ttl", "retention of raw points; 0s: no limit")
	flags.Var(newFlag(&to.Downsample, "every=ttl", addRollup), "downsample",
		"bucket size and retention of a rollup, 0s: no limit; repeatable")
	none := flags.Bool("no-downsample", false, "remove all rollups")
	return func(args []string) (callFunc, error) {
		if err := exclusive(cmd, "downsample", "no-downsample"); err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			store := s.TS(s.namespace)
			r, err := store.Retention(ctx, args[0])
			changes := flags.Changed("raw-ttl") || flags.Changed("downsample") || *none
			if err != nil && !(changes && errors.Is(err, floe.ErrNotFound)) {
				return err
			}
			if flags.Changed("raw-ttl") {
				r.RawTTL = to.RawTTL
			}
			if flags.Changed("downsample") || *none {
				r.Downsample = to.Downsample
			}
			if changes {
				if err := store.SetRetention(ctx, args[0], r); err != nil {
					return err
				}
			}
			document := retentionText{true, args[0], s.namespace, r.RawTTL.Milliseconds(), []rollupText{}}
			for _, d := range r.Downsample {
				document.Downsample = append(document.Downsample, rollupText{d.Every.Milliseconds(), d.TTL.Milliseconds()})
			}
			return s.print(document, table{head: []string{"MEASUREMENT", "RETENTION"}, rows: [][]string{{args[0], r.String()}}})
		}, nil
	}
}

// downsample parses a rollup: every=ttl.
func downsample(v string) (d ts.Downsample, err error) {
	every, ttl, found := strings.Cut(v, "=")
	if d.Every, err = positiveDuration(every); err == nil && found {
		d.TTL, err = durationOrNone(ttl)
	}
	if err != nil || !found {
		return d, errors.New("not two durations such as 5m=90d")
	}
	return d, nil
}

// tsDeleted is the result of a deletion.
type tsDeleted struct {
	OK          bool   `json:"ok"`
	Measurement string `json:"measurement"`
	Namespace   string `json:"namespace"`
	Series      *int64 `json:"series"` // null: the whole measurement; with a time range, the number of series examined
}

func tsDelete(_ *frame, cmd *cobra.Command) prepare {
	var tags map[string]string
	var match []floql.Filter
	var from, to time.Time
	cmd.Flags().Var(newFlag(&from, "time", parseTime), "from", "delete only points at or after this time")
	cmd.Flags().Var(newFlag(&to, "time", parseTime), "to", "delete only points before this time")
	cmd.Flags().Var(newFlag(&tags, "k=v,...", tagPairs), "tags", "delete only series with these tags")
	cmd.Flags().Var(newFlag(&match, "filters", floql.ParseFilters), "match",
		"delete only series that match these FloQL filters")
	return func(args []string) (callFunc, error) {
		if err := ordered(cmd, "from", from, "to", to); err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			document, deleted := tsDeleted{OK: true, Measurement: args[0], Namespace: s.namespace}, "all"
			if cmd.Flags().Changed("match") && len(match) == 0 {
				return &usageError{errors.New("--match has no filters"), helpHint(cmd)}
			}
			if cmd.Flags().Changed("from") || cmd.Flags().Changed("to") {
				n, err := s.TS(s.namespace).DeleteRange(ctx, args[0], from, to, tags, match...)
				if err != nil {
					return err
				}
				document.Series = &n
				return s.print(document, table{head: []string{"MEASUREMENT", "SERIES"}, rows: [][]string{{args[0], decimal(n)}}})
			}
			if tags == nil && len(match) == 0 {
				if err := s.TS(s.namespace).Delete(ctx, args[0]); err != nil {
					return err
				}
			} else {
				n, err := s.TS(s.namespace).Series(args[0]).Delete(ctx, tags, match...)
				if err != nil {
					return err
				}
				document.Series, deleted = &n, decimal(n)
			}
			return s.print(document, table{head: []string{"MEASUREMENT", "DELETED SERIES"}, rows: [][]string{{args[0], deleted}}})
		}, nil
	}
}

func measurementNames(ctx context.Context, s *session, _ []string, begun string) (names []string, err error) {
	page, err := s.TS(s.namespace).Page(ctx, ts.Prefix(begun), ts.Limit(1000))
	for _, m := range page.Items {
		names = append(names, m.Name)
	}
	return names, err
}
