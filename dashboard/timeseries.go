package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rawjson"
	"github.com/floedb/floe/ts"
)

// floqlPath is the path of queries. It collides with the names of measurements, so floql is a
// reserved name.
const floqlPath = "/api/v1/timeseries/floql"

var timeseriesRoutes = []route{
	endpoint("GET /api/v1/timeseries", (*handler).measurements, "List the measurements of a namespace."),
	endpoint("GET /api/v1/timeseries/:measurement", (*handler).measurement, "Get a measurement."),
	endpoint("DELETE /api/v1/timeseries/:measurement", (*handler).deleteRange,
		"Delete the points of a time range. Without from and to, force=true is required: it deletes the series with the tags, or the measurement."),
	endpoint("GET /api/v1/timeseries/:measurement/series", (*handler).series,
		"List the series of a measurement, or those with the tags, by shards and in order of creation."),
	endpoint("GET /api/v1/timeseries/:measurement/retention", (*handler).retention, "Get the retention and rollups of a measurement, also before its first point."),
	endpoint("PUT /api/v1/timeseries/:measurement/retention", (*handler).setRetention,
		"Set the retention and all rollups of a measurement, which need not exist. 0 means no limit. Rollups that are not listed are removed."),
	endpoint("GET /api/v1/timeseries/:measurement/data", (*handler).measurementData, "Get the points of a field, newest last."),
	endpoint("GET "+floqlPath, (*handler).floql, "Evaluate the FloQL query in parameter q."),
	endpoint("POST "+floqlPath, (*handler).floql, "Evaluate the FloQL query in the body."),
	endpoint("GET /api/v1/console/timeseries/:measurement", (*handler).measurementState,
		"Get the extent of a measurement, and the rollup that old points wait for."),
	endpoint("GET /api/v1/console/timeseries/:measurement/tags", (*handler).measurementTags,
		"List the tags of a measurement with their values."),
	endpoint("POST /api/v1/timeseries/write", (*handler).writeLines,
		"Write points. The body is line protocol or, with Content-Type: application/json, a list of points."),
	endpoint("POST /api/v1/console/timeseries/write", (*handler).writeLines, "The same as POST /api/v1/timeseries/write."),
}

// measurementSummary is an item of the listing of measurements.
type measurementSummary struct {
	Name        string `json:"name"`
	SeriesCount int64  `json:"series_count"`
	FieldCount  int    `json:"field_count"`
	Points      int64  `json:"points"`
}

func (h *handler) measurements(ctx context.Context, q listRequest) (listing[measurementSummary], error) {
	page := func(after string, n int) ([]ts.Measurement, string, error) {
		page, err := h.backend.TS(q.namespace).Page(ctx, ts.Limit(n), ts.Cursor(after))
		return page.Items, page.Cursor, err
	}
	return collect(q.after, q.limit, page, func(m ts.Measurement) measurementSummary {
		return measurementSummary{Name: m.Name, SeriesCount: m.Series, FieldCount: len(m.Fields), Points: m.Points}
	}, nil)
}

// measurementRequest names a measurement.
type measurementRequest struct{ namespace, name string }

func (q *measurementRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.name = in.segment("measurement")
}

// measurementField is a field of a measurement.
type measurementField struct {
	Name string `json:"name"`
	Type string `json:"type"` // float, integer or boolean
}

// measurementDetail is the body of /timeseries/:measurement.
type measurementDetail struct {
	Name        string             `json:"name"`
	Namespace   string             `json:"namespace"`
	FieldCount  int                `json:"field_count"`
	Fields      []measurementField `json:"fields"`
	SeriesCount int64              `json:"series_count"`
	Retention   string             `json:"retention"`
}

func (h *handler) measurement(ctx context.Context, q measurementRequest) (measurementDetail, error) {
	m, err := h.backend.TS(q.namespace).Get(ctx, q.name)
	if err != nil {
		return measurementDetail{}, err
	}
	detail := measurementDetail{
		Name: m.Name, Namespace: q.namespace, FieldCount: len(m.Fields), Fields: []measurementField{}, SeriesCount: m.Series,
		Retention: m.Retention.String(),
	}
	for _, f := range m.Fields {
		detail.Fields = append(detail.Fields, measurementField{f.Name, f.Type.String()})
	}
	return detail, nil
}

// measurementState is the body of /console/timeseries/:measurement: the fields missing in the
// specified detail.
type measurementState struct {
	Name       string  `json:"name"`
	Points     int64   `json:"points"`
	Oldest     *int64  `json:"oldest"` // ms; null without points
	Newest     *int64  `json:"newest"`
	HeldPoints int64   `json:"held_points"` // on disk after their retention
	HeldBy     *rollup `json:"held_by"`     // the rollup that they wait for, or null
}

// rollup is a rollup of a measurement.
type rollup struct {
	EveryMillis int64 `json:"every_ms"`
	TTLMillis   int64 `json:"ttl_ms"` // 0: forever
}

func (h *handler) measurementState(ctx context.Context, q measurementRequest) (measurementState, error) {
	m, err := h.backend.TS(q.namespace).Get(ctx, q.name)
	if err != nil {
		return measurementState{}, err
	}
	s := measurementState{Name: m.Name, Points: m.Points, HeldPoints: m.Held}
	if !m.Newest.IsZero() {
		oldest, newest := m.Oldest.UnixMilli(), m.Newest.UnixMilli()
		s.Oldest, s.Newest = &oldest, &newest
	}
	if m.Held > 0 {
		s.HeldBy = &rollup{m.HeldBy.Every.Milliseconds(), m.HeldBy.TTL.Milliseconds()}
	}
	return s, nil
}

// times is the range of a time in ms.
var times = span{min: -(1 << 48), max: 1 << 48}

// rangeRequest names a range of time of a measurement, or of its series with given tags.
type rangeRequest struct {
	measurementRequest
	from, to *int64 // ms; to is exclusive
	tags     map[string]string
}

func (q *rangeRequest) parse(in *input) {
	q.measurementRequest.parse(in)
	q.from = in.optional("from", times)
	q.to = in.optional("to", times)
	if q.from != nil && q.to != nil && *q.from > *q.to {
		in.invalid("parameter from is %d, which is after to, %d", *q.from, *q.to)
	}
	q.tags = in.tags("tags")
}

// deleteRangeRequest names points to delete, with force also those of all times.
type deleteRangeRequest struct {
	rangeRequest
	force bool
}

func (q *deleteRangeRequest) parse(in *input) {
	q.rangeRequest.parse(in)
	q.force = in.boolean("force")
	if tags, given := in.param("tags"); given && tags == "" { // a variable of a script, perhaps, that has no value
		in.invalid("parameter tags is empty: leave it out for all series")
	}
	if q.from == nil && q.to == nil && !q.force {
		in.invalid("parameters from and to are missing: to delete all points of the series, set force=true")
	}
}

// rangeDeleted is the response to the deletion of a range.
type rangeDeleted struct {
	OK          bool   `json:"ok"`
	Measurement string `json:"measurement"`
	Series      int64  `json:"series"` // series that were checked
}

func (h *handler) deleteRange(ctx context.Context, q deleteRangeRequest) (rangeDeleted, error) {
	store, deleted := h.backend.TS(q.namespace), rangeDeleted{OK: true, Measurement: q.name}
	var err error
	switch all := q.from == nil && q.to == nil && q.force; {
	case all && len(q.tags) == 0:
		var m ts.Measurement
		if m, err = store.Get(ctx, q.name); err == nil {
			deleted.Series, err = m.Series, store.Delete(ctx, q.name)
		}
	case all:
		deleted.Series, err = store.Series(q.name).Delete(ctx, q.tags)
	default:
		deleted.Series, err = store.DeleteRange(ctx, q.name, timeOf(q.from), timeOf(q.to), q.tags)
	}
	return deleted, err
}

// seriesRequest asks for limit series of a measurement with the tags, after a cursor.
type seriesRequest struct {
	measurementRequest
	tags  map[string]string
	after string
	limit int
}

func (q *seriesRequest) parse(in *input) {
	q.measurementRequest.parse(in)
	q.tags = in.tags("tags")
	q.after = in.text("after")
	q.limit = in.listLimit()
}

// seriesTag is a tag of a series.
type seriesTag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// seriesSummary is a series.
type seriesSummary struct {
	Tags []seriesTag `json:"tags"` // by key
}

func (h *handler) series(ctx context.Context, q seriesRequest) (listing[seriesSummary], error) {
	list := h.backend.TS(q.namespace).Series(q.name)
	page := func(after string, n int) ([]ts.Series, string, error) {
		page, err := list.Page(ctx, ts.Limit(n), ts.Cursor(after), ts.Tags(q.tags))
		return page.Items, page.Cursor, err
	}
	return collect(q.after, q.limit, page, func(s ts.Series) seriesSummary {
		summary := seriesSummary{[]seriesTag{}}
		for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
			summary.Tags = append(summary.Tags, seriesTag{key, s.Tags[key]})
		}
		return summary
	}, nil)
}

// retentionRequest has the retention and rollups of a measurement.
type retentionRequest struct {
	measurementRequest
	retention ts.Retention
}

func (q *retentionRequest) parse(in *input) {
	q.measurementRequest.parse(in)
	readFields(in, q, (*retentionRequest).fields)
}

func (q *retentionRequest) fields(f *codec.Fields) {
	need(f, "raw_ttl_ms")
	f.Duration("raw_ttl_ms", &q.retention.RawTTL)
	codec.ListOf(f, "downsample", &q.retention.Downsample, func(d *ts.Downsample, f *codec.Fields) {
		need(f, "every_ms")
		f.Duration("every_ms", &d.Every)
		f.Duration("ttl_ms", &d.TTL)
	}, codec.Range{Max: ts.MaxTiers})
}

// measurementRetention is the retention and rollups of a measurement.
type measurementRetention struct {
	Measurement  string   `json:"measurement"`
	RawTTLMillis int64    `json:"raw_ttl_ms"` // 0: forever
	Downsample   []rollup `json:"downsample"`
}

func (h *handler) retention(ctx context.Context, q measurementRequest) (measurementRetention, error) {
	r, err := h.backend.TS(q.namespace).Retention(ctx, q.name)
	if err != nil {
		return measurementRetention{}, err
	}
	shown := measurementRetention{q.name, r.RawTTL.Milliseconds(), []rollup{}}
	for _, d := range r.Downsample {
		shown.Downsample = append(shown.Downsample, rollup{d.Every.Milliseconds(), d.TTL.Milliseconds()})
	}
	return shown, nil
}

// measurementDone is the response to a change of a measurement.
type measurementDone struct {
	OK          bool   `json:"ok"`
	Measurement string `json:"measurement"`
}

func (h *handler) setRetention(ctx context.Context, q retentionRequest) (measurementDone, error) {
	err := h.backend.TS(q.namespace).SetRetention(ctx, q.name, q.retention)
	return measurementDone{true, q.name}, err
}

// timeOf returns a time in ms, the zero time if it is missing.
func timeOf(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms)
}

// dataRequest asks for points of a field.
type dataRequest struct {
	rangeRequest
	field     string // "": the only one
	maxPoints int    // 0: all
	maxListed int
}

func (q *dataRequest) parse(in *input) {
	q.rangeRequest.parse(in)
	q.field = in.nonEmpty("field")
	q.maxPoints = int(in.integer("max_points", span{absent: 0, min: 2, max: 100_000}))
	q.maxListed = in.handler.maxListed
}

// tags returns a parameter with pairs of key and value, as k=v,k=v. A backslash escapes a comma, an
// equals sign or a backslash.
func (in *input) tags(name string) map[string]string {
	value, given := in.param(name)
	if !given || value == "" {
		return nil
	}
	tags := make(map[string]string)
	for _, pair := range splitEscaped(value, ',') {
		parts := splitEscaped(pair, '=')
		if len(parts) != 2 || parts[0] == "" || parts[1] == "" {
			in.invalid("parameter %s is %.64q, it takes pairs of key and value: k=v,k=v", name, value)
			return nil
		}
		key, v := unescaped(parts[0]), unescaped(parts[1])
		if has, twice := tags[key]; twice && has != v {
			in.invalid("parameter %s has two values for %.64q", name, key)
		}
		tags[key] = v
	}
	return tags
}

// splitEscaped splits s at each sep that is not preceded by a backslash.
func splitEscaped(s string, sep byte) (parts []string) {
	from := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case sep:
			parts = append(parts, s[from:i])
			from = i + 1
		}
	}
	return append(parts, s[from:])
}

func unescaped(s string) string {
	return strings.NewReplacer(`\,`, ",", `\=`, "=", `\\`, `\`).Replace(s)
}

// dataPoint is a point of a field.
type dataPoint struct {
	Timestamp int64   `json:"timestamp"`
	Value     float64 `json:"value"`
}

// measurementData is the body of /timeseries/:measurement/data.
type measurementData struct {
	Measurement string      `json:"measurement"`
	Field       string      `json:"field"`
	Series      []dataPoint `json:"series"` // of all series with the tags, by time

	after int64 // time of the first omitted point; 0: none
}

func (d measurementData) next() (name, value string) {
	if d.after == 0 {
		return "", ""
	}
	return "from", formatMillis(d.after)
}

func (h *handler) measurementData(ctx context.Context, q dataRequest) (measurementData, error) {
	store := h.backend.TS(q.namespace)
	m, err := store.Get(ctx, q.name)
	isRollup := errors.Is(err, floe.ErrNotFound) && strings.Contains(q.name, ":")
	if isRollup {
		m, err = rollupOf(ctx, store, q.name)
	}
	if err != nil {
		return measurementData{}, err
	}
	if q.field, err = fieldOf(m, q.field); err != nil {
		return measurementData{}, err
	}
	c := chart{store: store, measurement: q.name, field: q.field, tags: q.tags, from: m.Oldest.UnixMilli(), to: m.Newest.UnixMilli() + 1}
	if m.Newest.IsZero() {
		c.from, c.to = 0, 0
	}
	if isRollup { // its first bucket may begin before the oldest point
		c.from -= (366 * 24 * time.Hour).Milliseconds()
	}
	if q.from != nil {
		c.from = max(c.from, *q.from)
	}
	if q.to != nil {
		c.to = min(c.to, *q.to)
	}
	d := measurementData{Measurement: q.name, Field: q.field}
	if q.maxPoints > 0 {
		d.Series, err = c.reduced(ctx, q.maxPoints)
	} else {
		d.Series, d.after, err = c.first(ctx, q.maxListed)
	}
	return d, err
}

// rollupOf returns the measurement of a rollup name such as cpu:5m:max.
func rollupOf(ctx context.Context, store *ts.Store, name string) (ts.Measurement, error) {
	parts := strings.Split(name, ":")
	if n := len(parts); n > 2 {
		if m, err := store.Get(ctx, strings.Join(parts[:n-2], ":")); err == nil {
			for _, d := range m.Retention.Downsample {
				if d.Is(parts[n-2]) {
					return m, nil
				}
			}
		}
	}
	return ts.Measurement{}, engine.Errorf(floe.ErrNotFound, "measurement %q not found", name)
}

// fieldOf returns the requested field.
func fieldOf(m ts.Measurement, asked string) (string, error) {
	var names []string
	for _, f := range m.Fields {
		names = append(names, f.Name)
	}
	switch {
	case asked == "" && len(names) == 1:
		return names[0], nil
	case asked == "":
		return "", engine.Errorf(floe.ErrInvalid, "parameter field is missing: measurement %q has %s", m.Name, strings.Join(names, ", "))
	case !slices.Contains(names, asked):
		return "", engine.Errorf(floe.ErrNotFound, "measurement %q has no field %.64q, it has %s", m.Name, asked, strings.Join(names, ", "))
	}
	return asked, nil
}

// maxQueryBytes is the maximum length of a query.
const maxQueryBytes = 64 << 10

// floqlRequest is a query: the parameter q, or the body.
type floqlRequest struct{ namespace, query string }

func (q *floqlRequest) parse(in *input) {
	q.namespace = in.namespace()
	query, given := in.param("q")
	if in.request.Method == http.MethodPost && in.err == nil {
		in.maxBody = maxQueryBytes
		in.reads(textMedia)
		raw, err := in.readBody()
		in.check(err)
		if len(raw) > 0 && given {
			in.invalid("the query is given twice, as parameter q and as body")
		}
		if !given {
			query = bodyQuery(raw, in.header("Content-Type"))
		}
	}
	if strings.TrimSpace(query) == "" {
		in.invalid("no query: it is the parameter q, or the body of POST, such as cpu{host=web-01}[1h] | window(5m) | avg()")
	}
	q.query = query
}

// bodyQuery returns the query in a body: the body itself, or the value q of a form.
func bodyQuery(raw []byte, contentType string) string {
	if text, ok := strings.CutPrefix(string(raw), "q="); ok && strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
		if decoded, err := url.QueryUnescape(text); err == nil {
			return decoded
		}
	}
	return string(raw)
}

// floqlAnswer is the result of a query.
type floqlAnswer struct{ *floql.Result }

func (a floqlAnswer) body() any { return a.Result }

func (h *handler) floql(ctx context.Context, q floqlRequest) (floqlAnswer, error) {
	result, err := h.backend.FloQL(ctx, q.namespace, q.query)
	var wrong *floql.Error
	var limit *floql.LimitError
	if errors.As(err, &wrong) || errors.As(err, &limit) {
		err = engine.Errorf(floe.ErrInvalid, "%v", err)
	}
	return floqlAnswer{result}, err
}

// measurementTag is a tag of a measurement.
type measurementTag struct {
	Key       string   `json:"key"`
	Values    []string `json:"values"`
	Truncated bool     `json:"truncated"` // there are more values
}

func (h *handler) measurementTags(ctx context.Context, q measurementRequest) ([]measurementTag, error) {
	found, err := h.backend.TS(q.namespace).TagValues(ctx, q.name)
	tags := []measurementTag{}
	for _, t := range found {
		tags = append(tags, measurementTag(t))
	}
	return tags, err
}

// writeRequest is points in line protocol: the body.
type writeRequest struct {
	namespace string
	precision ts.Precision
	lines     []byte
	newPoints // instead of lines
}

// maxPoints is the maximum number of points in a JSON body. Line protocol has no such limit.
const maxPoints = 50_000

func (q *writeRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.precision = ts.Milliseconds
	value := in.oneOf("precision", "ns", "us", "ms", "s")
	if value != "" {
		var err error
		q.precision, err = ts.ParsePrecision(value)
		in.check(err)
	}
	if in.contentType() == jsonMedia {
		if value != "" {
			in.invalid("parameter precision is for line protocol: a point in JSON has time_ms")
		}
		readFields(in, &q.newPoints, (*newPoints).fields)
		return
	}
	in.reads(textMedia)
	if in.err == nil {
		var err error
		q.lines, err = in.readEncodedBody()
		in.check(err)
	}
}

// newPoints are the points in a JSON body.
type newPoints struct{ points []newPoint }

func (n *newPoints) fields(f *codec.Fields) {
	need(f, "points")
	codec.ListOf(f, "points", &n.points, (*newPoint).fields, codec.Range{Min: 1, Max: maxPoints})
}

func (n *newPoints) list() []ts.Point {
	points := make([]ts.Point, len(n.points))
	for i, p := range n.points {
		if points[i] = p.point; p.timed {
			points[i].Time = time.UnixMilli(p.millis)
		}
	}
	return points
}

// maxPointMillis is the maximum distance of a point from 1970, as in line protocol.
const maxPointMillis = 1<<48 - 1

// newPoint is a point in JSON.
type newPoint struct {
	point  ts.Point
	millis int64
	timed  bool // millis is given; otherwise the time is that of the request
}

func (p *newPoint) fields(f *codec.Fields) {
	need(f, "measurement")
	f.Text("measurement", &p.point.Measurement)
	engine.CodePairMap(f, "tags", &p.point.Tags)
	need(f, "fields")
	if !f.Checking() {
		f.Custom("fields", codec.Custom{Type: codec.ObjectType, Parse: p.parseFields})
	}
	if p.timed = f.Given("time_ms", p.timed); p.timed {
		f.Varint("time_ms", &p.millis, codec.Range{Min: -maxPointMillis, Max: maxPointMillis})
	}
}

func (p *newPoint) parseFields(value []byte) (err error) {
	p.point.Fields = make(map[string]float64)
	object := rawjson.EachMember(value, func(key, value []byte) bool {
		name, _ := rawjson.Text(key)
		n, ok := rawjson.Number(value)
		if _, twice := p.point.Fields[name]; !ok || twice {
			err = fmt.Errorf("%.64q is repeated or not a number", name)
		}
		p.point.Fields[name] = n
		return err == nil
	})
	if !object {
		return errors.New("want an object of numbers")
	}
	return err
}

// write writes the points or lines of the request.
func (q *writeRequest) write(ctx context.Context, store *ts.Store) (ts.Result, error) {
	if q.points == nil {
		return store.WriteLine(ctx, bytes.NewReader(q.lines), q.precision)
	}
	result, err := store.Write(ctx, q.list()...)
	for i := range result.Errors {
		result.Errors[i].At++ // positions from 1, as those of lines
	}
	if refused := (ts.PointError{}); errors.As(err, &refused) { // the others are written
		err = nil
	}
	return result, err
}

// refusedLine is a rejected line or point.
type refusedLine struct {
	Line  int    `json:"line"` // from 1
	Error string `json:"error"`
}

// writtenLines is the result of writing lines.
type writtenLines struct {
	Written int           `json:"written"` // points
	Refused int           `json:"refused"` // lines
	Strings int           `json:"strings"` // fields omitted because they are strings
	Errors  []refusedLine `json:"errors"`  // of the first 100 rejected lines
}

func (h *handler) writeLines(ctx context.Context, q writeRequest) (writtenLines, error) {
	result, err := q.write(ctx, h.backend.TS(q.namespace))
	if err != nil {
		return writtenLines{}, err
	}
	if result.Written == 0 && result.Refused > 0 {
		unit := "line"
		if q.points != nil {
			unit = "point"
		}
		reasons := refusals(unit, result.Errors)
		return writtenLines{}, engine.Errorf(floe.ErrInvalid, "all %d %ss were refused: %s", result.Refused, unit, reasons)
	}
	answer := writtenLines{Written: result.Written, Refused: result.Refused, Strings: result.Strings, Errors: []refusedLine{}}
	for _, e := range result.Errors {
		answer.Errors = append(answer.Errors, refusedLine{e.At, e.Err.Error()})
	}
	return answer, nil
}

// maxShownRefusals limits the lines listed in an error.
const maxShownRefusals = 10

// refusals returns why the first lines or points were rejected.
func refusals(unit string, all []ts.PointError) string {
	var lines []string
	for _, e := range all[:min(len(all), maxShownRefusals)] {
		lines = append(lines, fmt.Sprintf("%s %d: %v", unit, e.At, e.Err))
	}
	return strings.Join(lines, "; ")
}

func (b staleBackend) TS(ns string, _ ...floe.AccessOption) *ts.Store {
	return b.DB.TS(ns, floe.Stale())
}

func (b staleBackend) FloQL(ctx context.Context, ns, query string, opts ...floql.Options) (*floql.Result, error) {
	return b.TS(ns).Query(ctx, query, opts...)
}
