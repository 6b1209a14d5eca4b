package floqltest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
)

//go:embed testdata/*.test
var files embed.FS

// Point is a point to load.
type Point struct {
	Measurement string
	Tags        map[string]string
	Field       string
	Timestamp   int64 // ms
	Value       float64
}

// Store accepts points and evaluates queries over them.
type Store interface {
	// Load adds points in any order; a later value at the same time replaces the earlier one.
	Load(t *testing.T, points []Point)
	// Eval evaluates a query.
	Eval(ctx context.Context, query string, opts floql.Options) (*floql.Result, error)
}

// Run runs all files, each against stores returned by open: a new one at the beginning and after
// each clear.
func Run(t *testing.T, open func(t *testing.T) Store) {
	names, err := fs.Glob(files, "testdata/*.test")
	if err != nil || len(names) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(strings.TrimPrefix(name, "testdata/"), ".test"), func(t *testing.T) {
			f := file{t: t, name: name, lines: strings.Split(string(text), "\n"), open: open}
			f.clear()
			for f.at < len(f.lines) {
				f.command()
			}
		})
	}
}

// Queries returns all queries of the files, including invalid ones.
func Queries(tb testing.TB) (all []string) {
	names, _ := fs.Glob(files, "testdata/*.test")
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		f := file{lines: strings.Split(string(text), "\n")}
		for f.at < len(f.lines) {
			if query, ok := strings.CutPrefix(f.next(), "eval "); ok {
				all = append(all, f.query(query))
			}
		}
	}
	return all
}

// file is a running file.
type file struct {
	t     *testing.T
	name  string
	lines []string
	at    int // of the next line
	open  func(t *testing.T) Store
	store Store
	opts  floql.Options
}

func (f *file) fatalf(format string, args ...any) {
	f.t.Helper()
	f.t.Fatalf("%s:%d: %s", f.name, f.at, fmt.Sprintf(format, args...))
}

// next returns the next line without comment.
func (f *file) next() string {
	line := f.lines[f.at]
	f.at++
	if strings.HasPrefix(strings.TrimSpace(line), "#") {
		return ""
	}
	return strings.TrimRight(line, " ")
}

// indented returns the next line if it is indented by the given spaces, without them. Comments and
// empty lines are skipped.
func (f *file) indented(by string) (string, bool) {
	for f.at < len(f.lines) {
		line := f.lines[f.at]
		text, ok := strings.CutPrefix(line, by)
		if blank := strings.TrimSpace(line); blank == "" || strings.HasPrefix(blank, "#") {
			f.at++
			continue
		}
		if !ok {
			return "", false
		}
		f.at++
		return strings.TrimSpace(text), true
	}
	return "", false
}

func (f *file) clear() {
	f.store, f.opts = f.open(f.t), floql.Options{Now: time.UnixMilli(0)}
}

func (f *file) command() {
	line := f.next()
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "":
	case "clear":
		f.clear()
	case "load":
		f.load()
	case "now":
		f.opts.Now = time.UnixMilli(f.time(rest))
	case "limit":
		f.limit(rest)
	case "eval":
		f.eval(f.query(rest))
	default:
		f.fatalf("unknown command %q", line)
	}
}

func (f *file) limit(text string) {
	name, value, _ := strings.Cut(text, " ")
	l := &f.opts.Limits
	n, err := strconv.ParseInt(value, 10, 64)
	to := map[string]*int64{"points": &l.Points, "series": &l.Series, "result": &l.ResultPoints, "bytes": &l.Bytes}[name]
	if err != nil || to == nil {
		f.fatalf("bad limit %q", text)
	}
	*to = n
}

// query returns a query that may continue in further lines.
func (f *file) query(text string) string {
	for {
		more, ok := f.indented("    ")
		if !ok {
			return text
		}
		text += "\n" + more
	}
}

func (f *file) eval(query string) {
	f.t.Helper()
	line := f.at
	var want []string
	var wantError, wantHint string
	for {
		text, ok := f.indented("  ")
		if !ok {
			break
		}
		switch word, rest, _ := strings.Cut(text, " "); word {
		case "error":
			wantError = rest
		case "hint":
			wantHint = rest
		case "nothing":
			want = []string{}
		default:
			want = append(want, text)
		}
	}
	if want == nil && wantError == "" {
		f.fatalf("eval %s: expects nothing, say so", query)
	}
	res, err := f.store.Eval(f.t.Context(), query, f.opts)
	if err != nil || wantError != "" {
		if err == nil || wantError == "" || !strings.Contains(err.Error(), wantError) {
			f.t.Errorf("%s:%d: %s\ngot the error %v\nwant %q", f.name, line, query, err, wantError)
		}
		return
	}
	f.compare(line, query, want, res)
	// Only some sources know which names exist, so hints about names are not compared.
	ofFilters := slices.DeleteFunc(res.Hints, func(hint string) bool { return !strings.Contains(hint, " selects no series: ") })
	if hints := strings.Join(ofFilters, "\n"); wantHint == "" != (hints == "") || !strings.Contains(hints, wantHint) {
		f.t.Errorf("%s:%d: %s\ngot the hints %q\nwant %q", f.name, line, query, hints, wantHint)
	}
}

func (f *file) compare(line int, query string, want []string, res *floql.Result) {
	f.t.Helper()
	var got []string
	for _, s := range res.Series {
		got = append(got, Format(s))
	}
	var canonical []string
	for _, w := range want {
		canonical = append(canonical, f.canonical(w))
	}
	if !slices.Equal(got, canonical) {
		f.t.Errorf("%s:%d: %s\ngot\n  %s\nwant\n  %s", f.name, line, query, strings.Join(got, "\n  "), strings.Join(canonical, "\n  "))
	}
}

// Format returns a series in the format of the files: times in ms, values with the fewest digits
// that identify them.
func Format(s floql.ResultSeries) string {
	var b strings.Builder
	b.WriteString(s.Key + "." + s.Field)
	for i, t := range s.Tags {
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		b.WriteString(t.Key + "=" + t.Value)
	}
	if len(s.Tags) > 0 {
		b.WriteByte('}')
	}
	b.WriteByte(':')
	for _, p := range s.Points {
		fmt.Fprintf(&b, " %d=%s", p.Time.UnixMilli(), formatValue(p.Value))
	}
	return b.String()
}

func formatValue(v float64) string {
	if math.IsNaN(v) {
		return "null"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// canonical returns an expected series in the form of Format.
func (f *file) canonical(want string) string {
	head, points, ok := strings.Cut(want, ": ")
	if !ok {
		f.fatalf("bad series %q", want)
	}
	for point := range strings.FieldsSeq(points) {
		i := strings.LastIndexByte(point, '=')
		if i < 0 {
			f.fatalf("bad point %q", point)
		}
		v, err := math.NaN(), error(nil)
		if point[i+1:] != "null" {
			v, err = strconv.ParseFloat(point[i+1:], 64)
		}
		if err != nil {
			f.fatalf("bad value in %q", point)
		}
		if head[len(head)-1] != ':' && !strings.Contains(head, ": ") {
			head += ":"
		}
		head += fmt.Sprintf(" %d=%s", f.time(point[:i]), formatValue(v))
	}
	return head
}

// time returns a time in ms, given as a number, a duration since the epoch, or RFC 3339.
func (f *file) time(text string) int64 {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return ms
	}
	if d, err := time.ParseDuration(text); err == nil {
		return d.Milliseconds()
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		f.fatalf("bad time %q", text)
	}
	return t.UnixMilli()
}

// load loads the points of the indented lines that follow.
func (f *file) load() {
	var points []Point
	for {
		line, ok := f.indented("  ")
		if !ok {
			break
		}
		p, err := f.points(strings.Fields(line))
		if err != nil {
			f.fatalf("%q: %v", line, err)
		}
		points = append(points, p...)
	}
	f.store.Load(f.t, points)
}

func (f *file) points(words []string) (points []Point, err error) {
	if len(words) < 3 || len(words) > 4 {
		return nil, errors.New("want measurement,tags fields timestamp [step]")
	}
	key := strings.Split(words[0], ",")
	tags := make(map[string]string)
	for _, tag := range key[1:] {
		k, v, _ := strings.Cut(tag, "=")
		tags[k] = v
	}
	step := int64(0)
	if len(words) == 4 {
		step = f.time(words[3])
	}
	for field := range strings.SplitSeq(words[1], ",") {
		name, text, _ := strings.Cut(field, "=")
		values, err := parseValues(text)
		if err != nil {
			return nil, err
		}
		for i, v := range values {
			points = append(points, Point{key[0], tags, name, f.time(words[2]) + int64(i)*step, v})
		}
	}
	return points, nil
}

// parseValues parses a value, several separated by semicolons, or value:difference:count.
func parseValues(text string) (values []float64, err error) {
	for part := range strings.SplitSeq(text, ";") {
		numbers := strings.Split(part, ":")
		var n [3]float64
		n[2] = 1
		for i := range numbers {
			if n[min(i, 2)], err = strconv.ParseFloat(numbers[i], 64); err != nil {
				return nil, err
			}
		}
		for i := range int(n[2]) {
			v := n[0]
			if i > 0 {
				v += float64(i) * n[1]
			}
			values = append(values, v)
		}
	}
	return values, nil
}
