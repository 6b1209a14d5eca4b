package pipeline

import (
	"fmt"
	"strconv"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/document"
)

// aggregate is the part that aggregates of all windows share.
type aggregate struct {
	measure
	window   window
	size     int64 // ms; number of records for a count window
	slide    int64
	gap      int64
	lateness int64
	late     TagSet
}

// window is the kind of window.
type window uint8

const (
	windowNone window = iota
	windowTumbling
	windowSliding
	windowSession
	windowCount
)

const (
	maxPanes    = 1000 // per sliding window
	maxMeasures = 32   // per operator
	maxPerCount = 1_000_000_000
)

func (a *aggregate) lateTag() TagSet { return a.late }

func readAggregate(r *reader, o *Operator, n *document.Node, at string) {
	var a aggregate
	count, late := int64(0), ""
	lateLine := n.Line
	isCount := n.Get("window") != nil && n.Get("window").Text == "count"
	r.fields(o, n, at, append(r.measure(&a.measure),
		document.Field{Names: "aggregates", Read: r.Each(maxMeasures, func(n *document.Node, at string) { r.several(&a, n, at) })},
		document.Field{Names: "window", Read: func(n *document.Node, at string) {
			if n.Kind == document.Text && n.Text == "global" {
				r.Fail(n.Line, "not-supported", "%s is global, which never fires: omit window for a running aggregate", at)
				return
			}
			document.Word(&r.Reader, &a.window, document.Is("none", windowNone), document.Is("tumbling", windowTumbling),
				document.Is("sliding", windowSliding),
				document.Is("session", windowSession), document.Is("count", windowCount))(n, at)
		}},
		document.Field{Names: "window_size size", Read: func(n *document.Node, at string) {
			if isCount {
				r.Count(&count, 1, maxPerCount)(n, at)
				return
			}
			r.seconds(&a.size, 1)(n, at)
		}},
		document.Field{Names: "window_size_ms", Read: r.Millis(&a.size, 1)},
		document.Field{Names: "count", Read: r.Count(&count, 1, maxPerCount)},
		document.Field{Names: "slide", Read: r.seconds(&a.slide, 1)},
		document.Field{Names: "slide_ms", Read: r.Millis(&a.slide, 1)},
		document.Field{Names: "gap", Read: r.seconds(&a.gap, 1)},
		document.Field{Names: "gap_ms", Read: r.Millis(&a.gap, 1)},
		document.Field{Names: "allowed_lateness", Read: r.seconds(&a.lateness, 0)},
		document.Field{Names: "allowed_lateness_ms", Read: r.Millis(&a.lateness, 0)},
		document.Field{Names: "late_tag", Read: func(n *document.Node, at string) { r.Text(&late)(n, at); lateLine = n.Line }},
	)...)
	if list := n.Get("aggregates"); list == nil {
		r.checkMeasure(&a.measure, n, at)
	} else {
		if list.Kind == document.List && len(list.Items) == 0 {
			r.Fail(list.Line, "missing", "%s.aggregates is empty", at)
		}
		for _, key := range []string{"function", "field", "percentile"} {
			if k := n.Get(key); k != nil {
				r.Fail(k.Line, "misplaced-key", "%s of %s is not allowed with aggregates: each of them has its own", key, at)
			}
		}
		a.fn = fnEach
	}
	if a.fn == 0 {
		return
	}
	if a.window == windowCount && count > 0 {
		a.size = count
	}
	if a.windowed() {
		if late == "" {
			late = "late"
		}
		a.late = r.gives(late, lateLine, at+".late_tag")
	}
	r.checkAggregate(&a, n, at)
	o.Keyed, o.Shape = true, a.shape()
	switch a.window {
	case windowNone, windowCount:
		o.private.spec = &running{a}
	case windowSession:
		o.private.spec = &sessions{a}
	default:
		if a.slide > 0 && a.size > 0 {
			o.private.spec = newPanes(a)
		}
	}
}

// windowed reports whether windows fire by the watermark.
func (a *aggregate) windowed() bool { return a.window != windowNone && a.window != windowCount }

// shape identifies the layout of an aggregate's rows.
func (a *aggregate) shape() string {
	return fmt.Sprintf("aggregate %s window %d %d %d %d", a.measure.shape(), a.window, a.size, a.slide, a.gap)
}

// shape identifies the contents of an accumulator, regardless of the names of results.
func (m *measure) shape() string {
	field := ""
	if m.field != nil {
		field = m.field.String()
	}
	text := fmt.Sprintf("%d %s", m.fn, field)
	for i := range m.each {
		text += fmt.Sprintf("[%s]", m.each[i].shape())
	}
	return text
}

// measure reads the keys of a measure.
func (r *reader) measure(m *measure) []document.Field {
	m.quantile = 0.95
	return []document.Field{
		{Names: "function", Read: document.Word(&r.Reader, &m.fn, document.Is("sum", fnSum), document.Is("count", fnCount),
			document.Is("avg mean average", fnAvg),
			document.Is("min", fnMin), document.Is("max", fnMax), document.Is("first", fnFirst), document.Is("last",
				fnLast), document.Is("distinct", fnDistinct), document.Is("percentile", fnPercentile))},
		{Names: "field", Read: r.path(&m.field)},
		{Names: "percentile", Read: func(n *document.Node, at string) {
			percentile := 100 * m.quantile
			r.number(&percentile, 0, 100)(n, at)
			m.quantile = percentile / 100
		}},
	}
}

// several reads one of several measures.
func (r *reader) several(a *aggregate, n *document.Node, at string) {
	var m measure
	if r.Table(n, at, append(r.measure(&m), document.Field{Names: "name", Read: r.Name(&m.name)})...); n.Kind != document.Table {
		return
	}
	r.needs(n, at, "name")
	r.checkMeasure(&m, n, at)
	called(r, n, at, m.name, a.each, func(m *measure) string { return m.name })
	a.each = append(a.each, m)
}

func (r *reader) checkMeasure(m *measure, n *document.Node, at string) {
	if r.needs(n, at, "function"); m.fn == 0 {
		return
	}
	if m.field == nil && m.fn != fnCount && n.Get("field") == nil {
		r.Fail(n.Line, "missing", "%s has no field to aggregate", at)
	}
	if k := n.Get("percentile"); k != nil && m.fn != fnPercentile {
		r.Fail(k.Line, "misplaced-key", "percentile of %s is allowed only with function: percentile", at)
	}
}

func (r *reader) checkAggregate(a *aggregate, n *document.Node, at string) {
	line := func(key string) int {
		if k := n.Get(key); k != nil {
			return k.Line
		}
		return n.Line
	}
	allowed := map[window]string{windowTumbling: "window_size window_size_ms size allowed_lateness allowed_lateness_ms late_tag",
		windowSliding: "window_size window_size_ms size slide slide_ms allowed_lateness allowed_lateness_ms late_tag",
		windowSession: "gap gap_ms allowed_lateness allowed_lateness_ms late_tag", windowCount: "window_size size count"}[a.window]
	for _, key := range []string{"window_size", "window_size_ms", "size", "count", "slide", "slide_ms", "gap", "gap_ms", "allowed_lateness",
		"allowed_lateness_ms", "late_tag"} {
		if k := n.Get(key); k != nil && !hasWord(allowed, key) {
			r.Fail(k.Line, "misplaced-key", "%s of %s is not allowed with window: %s", key, at, a.window)
		}
	}
	switch a.window {
	case windowTumbling, windowSliding:
		if a.size == 0 && n.Get("window_size size") == nil && n.Get("window_size_ms") == nil {
			r.Fail(n.Line, "missing", "%s has no window_size", at)
		}
		if a.window == windowTumbling {
			a.slide = a.size
			return
		}
		switch {
		case a.slide == 0 && n.Get("slide") == nil && n.Get("slide_ms") == nil:
			r.Fail(n.Line, "missing", "%s has no slide", at)
		case a.slide > a.size && a.size > 0:
			r.Fail(line("slide"), "bad-value",
				"slide of %s is %d ms, which is above window_size (%d ms): records in between would be in no window", at, a.slide, a.size)
		case a.slide > 0 && a.size/gcd(a.size, a.slide) > maxPanes:
			r.Fail(line("slide"), "bad-value",
				"%s has windows of %d panes of %d ms, at most %d are allowed: choose a slide that divides window_size", at,
				a.size/gcd(a.size, a.slide), gcd(a.size, a.slide), maxPanes)
		}
	case windowSession:
		if a.gap == 0 && n.Get("gap") == nil && n.Get("gap_ms") == nil {
			r.Fail(n.Line, "missing", "%s has no gap", at)
		}
	case windowCount:
		if a.size == 0 {
			r.Fail(n.Line, "missing", "%s has no window_size, expected a number of records", at)
		}
	}
}

func (w window) String() string {
	return [...]string{"none", "tumbling", "sliding", "session", "count"}[w]
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, 1)
}

// code codes the accumulator of a row.
func (a *aggregate) code(acc *accumulator) func(*codec.Coder) {
	return func(c *codec.Coder) { acc.code(c, &a.measure) }
}

// row reads an accumulator, an empty one if there is no row.
func (a *aggregate) row(state State, k []byte) (*accumulator, error) {
	acc := new(accumulator)
	v, err := state.Get(k)
	if err != nil || v == nil {
		return acc, err
	}
	return acc, decode(k, v, a.code(acc))
}

// emit creates the record of an accumulator. start and end bound the window; they are equal
// without a window.
func (a *aggregate) emit(t *Tick, acc *accumulator, key []byte, start, end int64) ([]byte, error) {
	about := 64 // names, a number and a count
	if start != end {
		about += 72
	}
	for i := range acc.each {
		about += 32 + len(a.each[i].name) + len(acc.each[i].raw)
	}
	b, err := acc.appendAggregate(t.part(about+len(key)+len(acc.raw)), key, &a.measure)
	if err != nil {
		return nil, err
	}
	if start != end {
		b = strconv.AppendInt(append(b, `,"window_start":`...), start, 10)
		b = strconv.AppendInt(append(b, `,"window_end":`...), end, 10)
	}
	return append(b, '}'), nil
}

// cache keeps the accumulators used in a batch, so that each is read and written once.
type cache struct {
	of    *aggregate
	rows  map[string]*accumulator
	order []touched
	room  []accumulator // preallocated accumulators
	coder codec.Coder
}

// touched is an accumulator with its key.
type touched struct {
	key string
	acc *accumulator
}

// perRoom is the number of accumulators allocated at a time.
const perRoom = 32

func (a *aggregate) cache(n int) *cache {
	return &cache{of: a, rows: make(map[string]*accumulator, n), order: make([]touched, 0, n)}
}

func (c *cache) get(t *Tick, k []byte) (*accumulator, error) {
	if acc := c.rows[string(k)]; acc != nil {
		return acc, nil
	}
	v, err := t.state.Get(k)
	if err != nil {
		return nil, err
	}
	if len(c.room) == 0 {
		c.room = make([]accumulator, min(perRoom, cap(c.order)-len(c.order)+1))
	}
	acc := &c.room[0]
	c.room = c.room[1:]
	if v != nil {
		c.coder = codec.NewDecoder(v)
		acc.code(&c.coder, &c.of.measure)
		if err := c.coder.Done(); err != nil {
			return nil, fmt.Errorf("pipeline: row %x: %w", k, err)
		}
	}
	name := string(k)
	c.rows[name] = acc
	c.order = append(c.order, touched{name, acc})
	return acc, nil
}

// flush writes all rows, in the order of their first use.
func (c *cache) flush(t *Tick) {
	var buf []byte
	for _, row := range c.order {
		if row.acc.count == 0 {
			t.remove(bytesOf(row.key))
			continue
		}
		c.coder = codec.NewEncoder(buf[:0])
		row.acc.code(&c.coder, &c.of.measure)
		buf = c.coder.Encoded()
		t.put(bytesOf(row.key), buf)
	}
}

// running is an aggregate that emits on every record, or on every n-th one.
type running struct{ aggregate }

func (a *running) add(t *Tick, s *instance, in, out []item) ([]item, error) {
	what := byte(rowRunning)
	if a.window == windowCount {
		what = rowCount
	}
	k := s.row(what)
	rows := a.cache(len(in))
	for i := range in {
		it := &in[i]
		one, ok := t.sample(s, &a.measure, it, false)
		if !ok {
			continue
		}
		acc, err := rows.get(t, append(k[:3], it.Key...))
		if err != nil {
			return nil, err
		}
		acc.add(&a.measure, &one)
		if a.window == windowCount && acc.count < uint64(a.size) {
			continue
		}
		start, end := int64(0), int64(0)
		if a.window == windowCount {
			start, end = acc.from, acc.to+1
		}
		value, err := a.emit(t, acc, it.Key, start, end)
		if a.window == windowCount {
			*acc = accumulator{}
		}
		if err != nil {
			t.fail(s, err, it)
			continue
		}
		made := *it
		made.set(value)
		out = append(out, made)
	}
	rows.flush(t)
	return out, nil
}
