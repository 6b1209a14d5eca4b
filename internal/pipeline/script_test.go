package pipeline

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts runs testdata/*.txt: jobs, records in and records out, with explicit times.
//
//	job             a definition; prints problems
//	add             records, one a line: source= part= id= time= key= h.<name>= and then the value; prints what comes of them
//	advance to=     moves the watermark, with limits rows= and bytes= for a tick; prints what fires
//	watermark now=  records of partitions by part=, newest=, arrived= ...; prints the watermark
//	counts, state   print what they say
//	kv              values by keys, for kv_lookup
func TestScripts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("scripts: %v", err)
	}
	cases := 0
	for _, name := range names {
		if filepath.Base(name) == "bad.txt" {
			continue
		}
		for _, workers := range []int{1, 2, 8} {
			t.Run(fmt.Sprintf("%s/parallelism=%d", strings.TrimSuffix(filepath.Base(name), ".txt"), workers), func(t *testing.T) {
				s := script{workers: workers}
				datadriven.RunTest(t, name, func(t *testing.T, d *datadriven.TestData) string {
					if workers == 1 && d.Cmd == "job" {
						cases++
					}
					return s.run(t, d)
				})
			})
		}
	}
	if cases < 20 {
		t.Errorf("%d jobs in scripts, want more", cases)
	}
}

// script is a script that is run.
type script struct {
	workers   int
	job       *Job
	program   *Program
	state     *memory
	watermark int64
	counts    []Counts
	id        int64
	kv        map[string]string
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	switch d.Cmd {
	case "job":
		return s.submit(d)
	case "add":
		return s.add(t, d)
	case "advance":
		return s.advance(t, d)
	case "counts":
		var out strings.Builder
		for i, c := range s.counts {
			fmt.Fprintf(&out, "%s: in %d out %d errors %d late %d dropped %d\n", s.job.Operators[i].Name, c.In, c.Out, c.Errors, c.Late,
				c.Dropped)
		}
		return out.String()
	case "state":
		return fmt.Sprintf("%d rows\n", len(s.state.keys))
	case "kv":
		s.kv = make(map[string]string)
		for line := range strings.Lines(d.Input) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
			s.kv[k] = v
		}
		return ""
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

func (s *script) submit(d *datadriven.TestData) string {
	src := d.Input
	if !strings.Contains(src, "sources:") {
		src = "name: test\nsources: [{name: in, stream: {name: in, partitions: all}}, {name: side, event_time: $.t, stream: {name: " +
			"side, partitions: all}}]\n" + src
	}
	if !strings.Contains(src, "sinks:") {
		src += "\nsinks: [{name: out, stream: out}]\n"
	}
	job, problems := Parse([]byte(src))
	var out strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&out, "%d %s: %s\n", p.Line, p.Code, p.Message)
	}
	if job == nil {
		return out.String()
	}
	job.Parallelism = s.workers
	*s = script{workers: s.workers, job: job, state: newMemory(), watermark: MinTime, counts: make([]Counts, len(job.Operators)), kv: s.kv}
	var err error
	if s.program, err = Compile(job, numbersOf(job)); err != nil {
		return out.String() + err.Error()
	}
	return out.String()
}

// numbersOf gives the operators with state numbers.
func numbersOf(j *Job) map[string]uint16 {
	numbers := make(map[string]uint16)
	for i := range j.Operators {
		if j.Operators[i].Shape != "" {
			numbers[j.Operators[i].Name] = uint16(len(numbers) + 1)
		}
	}
	return numbers
}

func (s *script) tick(limits Limits) *Tick {
	lookup := func(_ context.Context, namespace string, keys []string) ([][]byte, error) {
		values := make([][]byte, len(keys))
		for i, k := range keys {
			if v, ok := s.kv[namespace+k]; ok {
				values[i] = []byte(v)
			}
		}
		return values, nil
	}
	return s.program.NewTick(s.state, lookup, limits, s.watermark)
}

func (s *script) add(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var out strings.Builder
	var batch []Record
	for line := range strings.Lines(d.Input) {
		rec, err := s.record(strings.TrimSpace(line))
		if err != nil {
			fmt.Fprintf(&out, "error %s: %v\n", s.job.Sources[rec.Origin.Source].Name, err)
			continue
		}
		batch = append(batch, rec)
	}
	tick := s.tick(Limits{})
	if err := tick.Add(context.Background(), batch); err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	if next, err := tick.Advance(context.Background(), s.watermark, nil); err != nil || next != nil {
		t.Fatalf("%s: Advance: %x, %v", d.Pos, next, err)
	}
	s.show(&out, tick)
	return out.String()
}

// record reads a record: name=value ... and then its value, which begins at the first word that is
// none of these.
func (s *script) record(line string) (rec Record, err error) {
	s.id++
	rec.Origin = Origin{ID: ID{Millis: s.id * 1000}, Offset: uint64(s.id)}
	explicit := false
	for {
		word, rest, _ := strings.Cut(line, " ")
		name, v, ok := strings.Cut(word, "=")
		if !ok || !slices.Contains([]string{"source", "part", "id", "time", "key"}, name) && !strings.HasPrefix(name, "h.") {
			break
		}
		n, numeric := strconv.ParseInt(v, 10, 64)
		if numeric != nil && slices.Contains([]string{"part", "id", "time"}, name) {
			return rec, numeric
		}
		switch name {
		case "source":
			rec.Origin.Source = slices.IndexFunc(s.job.Sources, func(s Source) bool { return s.Name == v })
		case "part":
			rec.Origin.Partition = int(n)
		case "id":
			rec.Origin.ID.Millis = n
		case "time":
			rec.EventTime, explicit = n, true
		case "key":
			rec.Key = []byte(v)
		default:
			rec.Headers = append(rec.Headers, Tag{name[2:], v})
		}
		line = rest
	}
	rec.Value = []byte(line)
	if !explicit {
		rec.EventTime, err = s.program.EventTime(&rec)
	}
	return rec, err
}

func (s *script) advance(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var to int64
	var limits Limits
	word := ""
	d.ScanArgs(t, "to", &word)
	d.MaybeScanArgs(t, "rows", &limits.Rows)
	d.MaybeScanArgs(t, "bytes", &limits.Bytes)
	if to = EndOfTime; word != "end" {
		var err error
		if to, err = strconv.ParseInt(word, 10, 64); err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
	}
	var out strings.Builder
	var at []byte
	for {
		tick := s.tick(limits)
		next, err := tick.Advance(context.Background(), to, at)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		s.show(&out, tick)
		if next == nil {
			break
		}
		at = next
		out.WriteString("--\n")
	}
	s.watermark = max(s.watermark, to)
	return out.String()
}

// show prints what a tick has made.
func (s *script) show(out *strings.Builder, tick *Tick) {
	for i := range tick.Counts() {
		s.counts[i].add(&tick.Counts()[i])
	}
	for _, w := range tick.Writes() {
		sink := &s.job.Sinks[w.Sink]
		fmt.Fprintf(out, "%s %d", sink.Name, w.Record.EventTime)
		if w.Key != "" {
			fmt.Fprintf(out, " key=%s", w.Key)
		}
		for i, tag := range tick.program.Tags() {
			if w.Record.Tags&(1<<i) != 0 {
				fmt.Fprintf(out, " #%s", tag)
			}
		}
		if sink.Kind == ToTS {
			fmt.Fprintf(out, " %v %v at %d", w.Point.Tags, w.Point.Fields, w.Point.Time)
		} else {
			fmt.Fprintf(out, " %s", w.Record.Value)
		}
		out.WriteByte('\n')
	}
	for _, f := range tick.Failures() {
		fmt.Fprintf(out, "error %s: %s: %s\n", f.Operator, f.Reason, f.Record.Value)
	}
}
