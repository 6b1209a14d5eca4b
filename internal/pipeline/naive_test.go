package pipeline

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var naiveRuns = flag.Int("runs", 300, "random histories of windows")

// naive is what windows are to do, in the plainest way: it keeps all records for ever and looks at
// all of them.
type naive struct {
	session, several           bool
	size, slide, gap, lateness int64
	mark                       int64
	taken                      []event
	sessions                   []*naiveSession
	out                        []string
	lost                       int
}

// event is a record.
type event struct {
	key     string
	time, n int64
}

type naiveSession struct {
	key         string
	events      []event
	fired, gone bool
}

func (s *naiveSession) bounds(gap int64) (start, end int64) {
	start, end = s.events[0].time, s.events[0].time
	for _, e := range s.events {
		start, end = min(start, e.time), max(end, e.time)
	}
	return start, end + gap
}

func (m *naive) emit(key string, start, end int64, events []event) {
	sum, odd := int64(0), 0.0
	n := 0
	for _, e := range events {
		sum += e.n
		if e.n%2 == 1 {
			odd += float64(e.n)
			n++
		}
	}
	value := fmt.Sprint(sum)
	switch {
	case m.several && n > 0:
		value = fmt.Sprintf(`{"sum":%d,"odd":%v}`, sum, odd/float64(n))
	case m.several:
		value = fmt.Sprintf(`{"sum":%d,"odd":null}`, sum)
	}
	m.out = append(m.out, fmt.Sprintf(`%d {"key":"%s","value":%s,"count":%d,"window_start":%d,"window_end":%d}`, end-1, key, value,
		len(events), start, end))
}

// windows returns the ends of all windows that a time is in.
func (m *naive) windows(t int64) (ends []int64) {
	for start := -(m.size/m.slide + 40) * m.slide; start <= t; start += m.slide {
		if t < start+m.size {
			ends = append(ends, start+m.size)
		}
	}
	return ends
}

type firing struct {
	end int64
	key string
}

func (m *naive) fire(which []firing) {
	slices.SortFunc(which, func(a, b firing) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.key, b.key)) })
	for _, f := range slices.Compact(which) {
		var in []event
		for _, e := range m.taken {
			if e.key == f.key && e.time >= f.end-m.size && e.time < f.end {
				in = append(in, e)
			}
		}
		m.emit(f.key, f.end-m.size, f.end, in)
	}
}

func (m *naive) add(batch []event) {
	if m.session {
		m.addSessions(batch)
		return
	}
	var again []firing
	for _, e := range batch {
		late := true
		for _, end := range m.windows(e.time) {
			late = late && end+m.lateness <= m.mark
		}
		if late {
			m.lost++
			continue
		}
		m.taken = append(m.taken, e)
		for _, end := range m.windows(e.time) {
			if end <= m.mark && end+m.lateness > m.mark {
				again = append(again, firing{end, e.key})
			}
		}
	}
	m.fire(again)
}

func (m *naive) advance(to int64) {
	if m.session {
		m.advanceSessions(to)
		return
	}
	var due []firing
	for _, e := range m.taken {
		for _, end := range m.windows(e.time) {
			if end > m.mark && end <= to {
				due = append(due, firing{end, e.key})
			}
		}
	}
	m.fire(due)
	m.mark = to
}

func (m *naive) addSessions(batch []event) {
	var changed []*naiveSession
	for _, e := range batch {
		one := &naiveSession{key: e.key, events: []event{e}}
		var touched []*naiveSession
		for _, s := range m.sessions {
			start, end := s.bounds(m.gap)
			if !s.gone && s.key == e.key && start < e.time+m.gap && end > e.time {
				touched = append(touched, s)
			}
		}
		if len(touched) == 0 && e.time+m.gap+m.lateness <= m.mark {
			m.lost++
			continue
		}
		for _, s := range touched {
			one.events = append(one.events, s.events...)
			s.gone = true
		}
		_, end := one.bounds(m.gap)
		one.fired = end <= m.mark
		m.sessions = append(m.sessions, one)
		changed = append(changed, one)
	}
	changed = slices.DeleteFunc(changed, func(s *naiveSession) bool { return s.gone || !s.fired })
	m.emitSessions(changed)
}

func (m *naive) emitSessions(list []*naiveSession) {
	slices.SortFunc(list, func(a, b *naiveSession) int {
		_, x := a.bounds(m.gap)
		_, y := b.bounds(m.gap)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a.key, b.key))
	})
	for _, s := range list {
		start, end := s.bounds(m.gap)
		m.emit(s.key, start, end, s.events)
	}
}

func (m *naive) advanceSessions(to int64) {
	var due []*naiveSession
	for _, s := range m.sessions {
		_, end := s.bounds(m.gap)
		if !s.gone && !s.fired && end <= to {
			s.fired = true
			due = append(due, s)
		}
	}
	m.emitSessions(due)
	for _, s := range m.sessions {
		if _, end := s.bounds(m.gap); s.fired && end+m.lateness <= to {
			s.gone = true
		}
	}
	m.mark = to
}

// TestNaive compares windows with the naive evaluator, over random histories with records out of
// order and late, in slices of any size, by programs that are compiled anew again and again, over
// states with caches of any size.
func TestNaive(t *testing.T) {
	for seed := range *naiveRuns {
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		m := &naive{mark: -1 << 40, lateness: []int64{0, 0, 3, 20}[r.IntN(4)]}
		definition := "allowed_lateness_ms: " + fmt.Sprint(m.lateness)
		if m.several = r.IntN(2) == 0; m.several {
			definition += ", aggregates: [{name: sum, function: sum, field: n}, {name: odd, function: avg, field: odd}]"
		} else {
			definition += ", function: sum, field: n"
		}
		switch r.IntN(4) {
		case 0:
			m.size = 1 + r.Int64N(10)
			m.slide = m.size
			definition += fmt.Sprintf(", window: tumbling, window_size_ms: %d", m.size)
		case 1:
			m.slide = 1 + r.Int64N(6)
			m.size = m.slide + r.Int64N(12)
			definition += fmt.Sprintf(", window: sliding, window_size_ms: %d, slide_ms: %d", m.size, m.slide)
		case 2:
			m.slide = 1 + r.Int64N(3)
			m.size = m.slide * (fewPanes + 1 + r.Int64N(40))
			definition += fmt.Sprintf(", window: sliding, window_size_ms: %d, slide_ms: %d", m.size, m.slide)
		default:
			m.session, m.gap = true, 1+r.Int64N(8)
			definition += fmt.Sprintf(", window: session, gap_ms: %d", m.gap)
		}
		if !naiveRun(t, r, m, definition) {
			t.Fatalf("seed %d: %s", seed, definition)
		}
	}
}

func naiveRun(t *testing.T, r *rand.Rand, m *naive, definition string) bool {
	t.Helper()
	source := "name: x\nsources: [{stream: {name: in, partitions: all}}]\noperators: [{name: a, type: aggregate, " + definition +
		"}]\nsinks: [{stream: out}]\n"
	job, problems := Parse([]byte(source))
	if job == nil {
		t.Fatalf("%s: %v", source, problems)
	}
	rows := newMemory()
	var state State = rows
	if r.IntN(2) == 0 {
		state = &cached{below: rows, most: r.IntN(4), rows: make(map[string][]byte)}
	}
	var got []string
	lost := int64(0)
	mark, clock := int64(-1<<40), int64(0)
	for step := range 30 {
		p, err := Compile(job, numbersOf(job))
		if err != nil {
			t.Fatal(err)
		}
		clock += r.Int64N(6)
		var batch []event
		var records []Record
		for range r.IntN(6) {
			e := event{string(rune('a' + r.IntN(3))), clock - r.Int64N(15), r.Int64N(5)}
			batch = append(batch, e)
			value := fmt.Appendf(nil, `{"n":%d}`, e.n)
			if e.n%2 == 1 {
				value = fmt.Appendf(nil, `{"n":%d,"odd":%d}`, e.n, e.n)
			}
			records = append(records, Record{Key: []byte(e.key), Value: value, EventTime: e.time})
		}
		to := max(mark, clock-r.Int64N(8))
		if step == 29 {
			to = EndOfTime
		}
		m.add(batch)
		m.advance(min(to, 1<<40))

		var at []byte
		for first := true; first || at != nil; first = false {
			tick := p.NewTick(state, nil, Limits{Rows: r.IntN(4)}, mark)
			if first {
				if err := tick.Add(context.Background(), records); err != nil {
					t.Fatal(err)
				}
			}
			if at, err = tick.Advance(context.Background(), to, at); err != nil {
				t.Fatal(err)
			}
			for _, w := range tick.Writes() {
				got = append(got, fmt.Sprintf("%d %s", w.Record.EventTime, w.Record.Value))
			}
			lost += tick.Counts()[0].Late
		}
		mark = max(mark, to)
		if due, waits, err := p.Next(state); err != nil || waits && due <= mark {
			t.Errorf("at %d something is due at %d, %v", mark, due, err)
			return false
		}
	}
	if !slices.Equal(got, m.out) || lost != int64(m.lost) || len(rows.keys) > 0 {
		t.Errorf("got\n%s\nlate %d, %d rows left\nwant\n%s\nlate %d", strings.Join(got, "\n"), lost, len(rows.keys),
			strings.Join(m.out, "\n"), m.lost)
		return false
	}
	return true
}

// cached is a State with a write-through cache of a few rows.
type cached struct {
	below *memory
	most  int
	rows  map[string][]byte
	order []string
}

func (c *cached) keep(k string, v []byte) {
	if _, there := c.rows[k]; !there {
		c.order = append(c.order, k)
	}
	if c.rows[k] = v; len(c.order) > c.most {
		delete(c.rows, c.order[0])
		c.order = c.order[1:]
	}
}

func (c *cached) Get(k []byte) ([]byte, error) {
	if v, there := c.rows[string(k)]; there {
		return v, nil
	}
	v, err := c.below.Get(k)
	c.keep(string(k), v)
	return v, err
}

func (c *cached) Put(k, v []byte) {
	c.keep(string(k), slices.Clone(v))
	c.below.Put(k, v)
	if v == nil {
		c.rows = make(map[string][]byte)
		c.order = nil
	}
}

func (c *cached) Delete(k []byte) {
	c.keep(string(k), nil)
	c.below.Delete(k)
}

func (c *cached) DeleteRange(lower, upper []byte) {
	c.rows, c.order = make(map[string][]byte), nil
	c.below.DeleteRange(lower, upper)
}

func (c *cached) Scan(lower, upper []byte, f func(k, v []byte) bool) error {
	return c.below.Scan(lower, upper, f)
}

// TestWatermark: whichever partition becomes idle first, what is left out or not is the same, and a
// watermark never goes back.
func TestWatermark(t *testing.T) {
	for _, test := range []struct {
		name        string
		parts       []Progress
		now, before int64
		mark        int64
		idle        bool
	}{
		{"nothing", nil, 100, MinTime, MinTime, true},
		{"the least", []Progress{{Seen: true, Newest: 50, Disorder: 5, IdleAfter: -1}, {Seen: true, Newest: 40, IdleAfter: -1}}, 0, MinTime,
			40, false},
		{"never back", []Progress{{Seen: true, Newest: 50}}, 0, 60, 60, false},
		{"one that is not read yet", []Progress{{Seen: true, Newest: 50}, {}}, 0, 7, 7, false},
		{"one that is empty", []Progress{{Seen: true, Newest: 50}, {CaughtUp: true, IdleAfter: 10}}, 0, MinTime, 50, false},
		{"idle", []Progress{{Seen: true, Newest: 50}, {Seen: true, Newest: 9, Arrived: 90, CaughtUp: true, IdleAfter: 10}}, 100, MinTime,
			50, false},
		{"not yet", []Progress{{Seen: true, Newest: 50}, {Seen: true, Newest: 9, Arrived: 91, CaughtUp: true, IdleAfter: 10}}, 100, MinTime,
			9, false},
		{"behind is never idle", []Progress{{Seen: true, Newest: 50}, {Seen: true, Newest: 9, Arrived: 0, IdleAfter: 10}}, 100, MinTime, 9,
			false},
		{"all idle", []Progress{{Seen: true, Newest: 50, Disorder: 5, Arrived: 80, CaughtUp: true, IdleAfter: 10},
			{Seen: true, Newest: 9, Arrived: 90, CaughtUp: true, IdleAfter: 10}}, 103, MinTime, 58, true},
		{"idle by itself", []Progress{{Seen: true, Newest: 50}, {Seen: true, Newest: 9, Idle: true, IdleAfter: -1}}, 0, MinTime, 50, false},
		{"idle and bounded", []Progress{{Seen: true, Newest: 50}, {Seen: true, Newest: 9, Idle: true, Bounded: true, Bound: 20}}, 0,
			MinTime, 20, false},
		{"all idle, one bounded", []Progress{{Seen: true, Newest: 50, Arrived: 80, Idle: true},
			{Seen: true, Newest: 9, Arrived: 90, Idle: true, Bounded: true, Bound: 55}}, 103, MinTime, 55, true},
		{"all empty", []Progress{{CaughtUp: true}, {CaughtUp: true}}, 103, 5, 5, true},
	} {
		if mark, idle := Watermark(test.parts, test.now, test.before); mark != test.mark || idle != test.idle {
			t.Errorf("%s: Watermark = %d, %v, want %d, %v", test.name, mark, idle, test.mark, test.idle)
		}
		slices.Reverse(test.parts)
		if mark, idle := Watermark(test.parts, test.now, test.before); mark != test.mark || idle != test.idle {
			t.Errorf("%s, reversed: Watermark = %d, %v, want %d, %v", test.name, mark, idle, test.mark, test.idle)
		}
	}
	// Two partitions become idle in either order: the mark in the end is one.
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		parts := []Progress{{Seen: true, Newest: r.Int64N(100), IdleAfter: r.Int64N(20)},
			{Seen: true, Newest: r.Int64N(100), IdleAfter: r.Int64N(20)}}
		parts[0].Arrived, parts[1].Arrived = r.Int64N(50), r.Int64N(50)
		parts[0].CaughtUp, parts[1].CaughtUp = true, true
		once, _ := Watermark(parts, 1000, MinTime)
		mark := int64(MinTime)
		for now := range int64(1001) {
			next, _ := Watermark(parts, now, mark)
			if next < mark {
				t.Fatalf("%+v: from %d back to %d", parts, mark, next)
			}
			mark = next
		}
		if mark != once {
			t.Fatalf("%+v: %d step by step, %d at once", parts, mark, once)
		}
	}
}
