package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/ts"
)

func tsQuery(f *frame, cmd *cobra.Command) prepare {
	return func(args []string) (callFunc, error) {
		query, err := f.payload(cmd, "FLOQL", args)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			result, err := s.FloQL(ctx, s.namespace, string(query))
			if wrong := (*floql.Error)(nil); errors.As(err, &wrong) {
				return &exitError{&hintedError{err, "it is here:\n" + wrong.Caret()}, exitUsage}
			}
			if err != nil {
				return err
			}
			for _, hint := range result.Hints {
				fmt.Fprintf(f.Stderr, "floe: hint: %s\n", hint)
			}
			return s.print(result, resultTable(result, s.format))
		}, nil
	}
}

// resultTable is a table of a result, with a row for each point.
func resultTable(result *floql.Result, format string) table {
	t := table{head: []string{"TIME", "SERIES", "VALUE"}}
	for i := range result.Series {
		one := &result.Series[i]
		for _, p := range one.Points {
			value := shownNumber(p.Value)
			if p.IsNull() {
				value = "null"
			}
			t.rows = append(t.rows, []string{pointTime(p.Time.UnixMilli(), format), seriesName(one), value})
		}
	}
	return t
}

// seriesName is the name of a result's series in query syntax: cpu.usage{host=a}.
func seriesName(s *floql.ResultSeries) string {
	var tags []string
	for _, t := range s.Tags {
		tags = append(tags, t.Key+"="+t.Value)
	}
	name := s.Key + "." + s.Field
	if len(tags) == 0 {
		return name
	}
	return name + "{" + strings.Join(tags, ",") + "}"
}

// pointTime formats a time for a row: in ms for scripts.
func pointTime(ms int64, format string) string {
	if format == formatRaw {
		return decimal(ms)
	}
	return shownTime(time.UnixMilli(ms))
}

func shownNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// samples are points of a field, in JSON.
type samples struct {
	Measurement string       `json:"measurement"`
	Field       string       `json:"field"`
	Namespace   string       `json:"namespace"`
	Points      []sampleText `json:"points"`
	Count       int          `json:"count"`
}

type sampleText struct {
	Timestamp int64             `json:"timestamp"`
	Value     float64           `json:"value"`
	Tags      map[string]string `json:"tags"`
}

func tsRead(f *frame, cmd *cobra.Command) prepare {
	var tags map[string]string
	var begin, end time.Time
	limit := int64(1000)
	flags := cmd.Flags()
	field := flags.String("field", "", "name of the field (default the only one, or value)")
	flags.Var(newFlag(&tags, "k=v,...", tagPairs), "tags", "only series with these tags")
	flags.Var(newFlag(&begin, "time", parseTime), "from", "only points at or after this time: ms since the epoch, RFC 3339, now or -1h")
	flags.Var(newFlag(&end, "time", parseTime), "to", "only points before this time")
	flags.Var(newFlag(&limit, "n", count(0)), "limit", "maximum number of points, the newest; 0: no limit (default 1000)")
	return func(args []string) (callFunc, error) {
		if err := ordered(cmd, "from", begin, "to", end); err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			store := s.TS(s.namespace)
			name, err := readField(ctx, store, args[0], *field)
			if err != nil {
				return err
			}
			points, cut, err := newest(ctx, store, args[0], name, int(limit), ts.Tags(tags), ts.Between(begin, end))
			if err != nil {
				return err
			}
			if cut {
				fmt.Fprintf(f.Stderr, "floe: hint: only the newest %d points are shown: raise --limit, or set --to\n",
					limit)
			}
			return s.printSamples(args[0], name, points)
		}, nil
	}
}

// lastPoints are the newest points of each series of a measurement, in JSON.
type lastPoints struct {
	Measurement string          `json:"measurement"`
	Namespace   string          `json:"namespace"`
	Points      []lastPointText `json:"points"`
	Count       int             `json:"count"`
}

type lastPointText struct {
	Timestamp int64             `json:"timestamp"`
	Field     string            `json:"field"`
	Value     float64           `json:"value"`
	Tags      map[string]string `json:"tags"`
}

func tsLast(_ *frame, cmd *cobra.Command) prepare {
	var tags map[string]string
	var begin, end time.Time
	flags := cmd.Flags()
	field := flags.String("field", "", "only this field (default all)")
	flags.Var(newFlag(&tags, "k=v,...", tagPairs), "tags", "only series with these tags")
	flags.Var(newFlag(&begin, "time", parseTime), "from", "only points at or after this time: ms since the epoch, RFC 3339, now or -1h")
	flags.Var(newFlag(&end, "time", parseTime), "to", "only points before this time")
	return func(args []string) (callFunc, error) {
		if err := ordered(cmd, "from", begin, "to", end); err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *session) error {
			store := s.TS(s.namespace)
			fields, err := fieldNames(ctx, store, args[0])
			if err == nil && *field != "" {
				fields, err = oneField(args[0], *field, fields)
			}
			if err != nil {
				return err
			}
			document := lastPoints{args[0], s.namespace, []lastPointText{}, 0}
			for _, name := range fields {
				for p, err := range store.Last(ctx, args[0], name, ts.Tags(tags), ts.Between(begin, end)) {
					if err != nil {
						return err
					}
					document.Points = append(document.Points, lastPointText{p.Time.UnixMilli(), name, p.Value, tagMap(p.Tags)})
				}
			}
			document.Count = len(document.Points)
			slices.SortFunc(document.Points, func(a, b lastPointText) int {
				return cmp.Or(strings.Compare(shownTags(a.Tags), shownTags(b.Tags)), strings.Compare(a.Field, b.Field))
			})
			t := table{head: []string{"TIME", "FIELD", "VALUE", "TAGS"}}
			for _, p := range document.Points {
				t.rows = append(t.rows, []string{pointTime(p.Timestamp, s.format), p.Field, shownNumber(p.Value), shownTags(p.Tags)})
			}
			return s.print(document, t)
		}, nil
	}
}

// fieldNames returns the fields of a measurement. The name of a rollup stands for its measurement.
func fieldNames(ctx context.Context, store *ts.Store, measurement string) ([]string, error) {
	m, err := store.Get(ctx, measurement)
	if parts := strings.Split(measurement, ":"); errors.Is(err, floe.ErrNotFound) && len(parts) > 2 {
		if parent, parentErr := store.Get(ctx, strings.Join(parts[:len(parts)-2], ":")); parentErr == nil {
			m, err = parent, nil
		}
	}
	var names []string
	for _, f := range m.Fields {
		names = append(names, f.Name)
	}
	return names, err
}

// readField returns the field to read: the requested one, the only one, or "value".
func readField(ctx context.Context, store *ts.Store, measurement, asked string) (string, error) {
	names, err := fieldNames(ctx, store, measurement)
	if err != nil {
		return "", err
	}
	switch {
	case asked == "" && len(names) == 1:
		return names[0], nil
	case asked == "" && slices.Contains(names, "value"):
		return "value", nil
	case asked == "":
		return "", &hintedError{fmt.Errorf("measurement %q has %d fields", measurement, len(names)),
			"say with --field which one: " + strings.Join(names, ", ")}
	}
	_, err = oneField(measurement, asked, names)
	return asked, err
}

// oneField returns field in a list, or an error if the measurement does not have it.
func oneField(measurement, field string, names []string) ([]string, error) {
	if !slices.Contains(names, field) {
		return nil, &hintedError{&textError{floe.ErrNotFound, fmt.Sprintf("measurement %q has no field %q", measurement, field)},
			"it has " + strings.Join(names, ", ")}
	}
	return []string{field}, nil
}

// newest returns the last points in the order of time, up to limit if that is not 0. It also
// reports whether there are more.
func newest(ctx context.Context, store *ts.Store, measurement, field string, limit int, opts ...ts.ReadOption) (points []ts.Sample,
	cut bool, err error) {
	byTime := func(a, b ts.Sample) int { return cmp.Compare(a.Time.UnixMilli(), b.Time.UnixMilli()) }
	for p, err := range store.Read(ctx, measurement, field, opts...) {
		if err != nil {
			return nil, false, err
		}
		if points = append(points, p); limit > 0 && len(points) > 4*limit+1000 {
			slices.SortStableFunc(points, byTime)
			points, cut = slices.Clone(points[len(points)-limit:]), true
		}
	}
	slices.SortStableFunc(points, byTime)
	if limit > 0 && len(points) > limit {
		points, cut = points[len(points)-limit:], true
	}
	return points, cut, nil
}

func tagMap(tags []floql.Tag) map[string]string {
	m := make(map[string]string)
	for _, tag := range tags {
		m[tag.Key] = tag.Value
	}
	return m
}

func (s *session) printSamples(measurement, field string, points []ts.Sample) error {
	document := samples{measurement, field, s.namespace, []sampleText{}, len(points)}
	t := table{head: []string{"TIME", "VALUE", "TAGS"}}
	for _, p := range points {
		tags := tagMap(p.Tags)
		document.Points = append(document.Points, sampleText{p.Time.UnixMilli(), p.Value, tags})
		t.rows = append(t.rows, []string{pointTime(p.Time.UnixMilli(), s.format), shownNumber(p.Value), shownTags(tags)})
	}
	return s.print(document, t)
}
