package pipeline

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/document"
)

// join joins records with those of a second source that have the same key and a time within a
// bound. Each record waits in a row of its side until the watermark has passed the bound. A left
// join then emits left records without a partner.
type join struct {
	on     *valueExpr
	within int64
	left   bool // emit left records without a partner
	field  string
}

func readJoin(r *reader, o *Operator, n *document.Node, at string) {
	j := &join{}
	text := ""
	r.fields(o, n, at,
		document.Field{Names: "source", Read: r.Name(&o.Source)},
		document.Field{Names: "on", Read: func(n *document.Node, at string) { r.keyExpression(&j.on)(n, at); text = n.Text }},
		document.Field{Names: "within_ms within", Read: r.Millis(&j.within, 0)},
		document.Field{Names: "mode", Read: document.Word(&r.Reader, &j.left, document.Is("inner", false), document.Is("left", true))},
		document.Field{Names: "enrich_field field", Read: r.Name(&j.field)},
	)
	if r.needs(n, at, "source", "on", "within_ms within"); o.Source == "" {
		return
	}
	if j.field == "" {
		j.field = o.Source
	}
	o.Keyed, o.Shape, o.private.spec = true, fmt.Sprintf("join %s within %d", text, j.within), j
}

// waiting is a record that waits for partners. Its tags are stored by name, because another
// definition may number them differently.
type waiting struct {
	rec     Record
	matched bool
	names   []string // of all tags, by number
}

func (w *waiting) code(c *codec.Coder) {
	c.Bool(&w.matched)
	for _, b := range []*[]byte{&w.rec.Key, &w.rec.Value} {
		s := stringOf(*b)
		if c.String(&s); c.Reading() {
			*b = bytesOf(s)
		}
	}
	tags := w.rec.Tags.In(w.names)
	codec.List(c, &tags, func(c *codec.Coder, name *string) { c.String(name) })
	if c.Reading() {
		w.rec.Tags = TagsOf(tags, w.names)
	}
	codec.List(c, &w.rec.Headers, func(c *codec.Coder, t *Tag) {
		c.String(&t.Name)
		c.String(&t.Value)
	})
}

func sideOf(right bool) byte {
	if right {
		return rowRight
	}
	return rowLeft
}

func (j *join) add(t *Tick, s *instance, in, out []item) ([]item, error) {
	counter := s.row(rowNumber)
	number, err := numberAt(t.state, counter)
	if err != nil {
		return nil, err
	}
	before := number
	for i := range in {
		it := &in[i]
		on, ok, err := j.on.text(it, nil)
		switch {
		case err != nil:
		case len(on) > maxKey:
			err = errKey
		case it.EventTime <= -beyond || it.EventTime >= beyond:
			err = errBeyond
		}
		if err != nil {
			t.fail(s, err, it)
			continue
		}
		mine := waiting{rec: it.Record, names: t.program.Tags()}
		if ok {
			made, met, err := j.match(t, s, it, on)
			if err != nil {
				return nil, err
			}
			mine.matched = met
			out = append(out, made...)
			if t.grown > maxBatch && len(t.batch) > 1 {
				return nil, ErrBatch
			}
		}
		until := it.EventTime + j.within
		switch {
		case ok && until > t.mark(s):
			number++
			j.wait(t, s, &mine, it.Right, on, number)
		case !it.Right && j.left && !mine.matched:
			out = append(out, *it)
		case !mine.matched:
			t.counts[s.index].Dropped++
		}
	}
	if number != before {
		t.put(counter, binary.BigEndian.AppendUint64(nil, number))
	}
	return out, nil
}

// wait stores a record and a timer for the end of its wait.
func (j *join) wait(t *Tick, s *instance, w *waiting, right bool, on string, number uint64) {
	k := appendTime(appendKey(s.row(sideOf(right)), bytesOf(on)), w.rec.EventTime)
	k = binary.BigEndian.AppendUint64(k, number)
	t.put(k, encode(w.code))
	timer := binary.BigEndian.AppendUint64(appendTime(s.row(rowTimer), w.rec.EventTime+j.within), number)
	t.put(timer, k[2:])
}

// match joins a record with those of the other side, and reports whether there are any.
func (j *join) match(t *Tick, s *instance, it *item, on string) (made []item, met bool, err error) {
	prefix := appendKey(s.row(sideOf(!it.Right)), bytesOf(on))
	lower := appendTime(bytes.Clone(prefix), it.EventTime-j.within)
	upper := appendTime(bytes.Clone(prefix), it.EventTime+j.within+1)
	for {
		rows, err := scan(t.state, lower, upper, perScan)
		if err != nil || len(rows) == 0 {
			return made, met, err
		}
		met = true
		for _, row := range rows {
			other, err := t.readWaiting(row, len(prefix))
			if err != nil {
				return nil, met, err
			}
			left, right, again := it, &item{Record: other.rec}, false
			if it.Right {
				left, right = &item{Record: other.rec, from: it.from}, it
				if again = other.matched; !again {
					other.matched = true
					t.put(row.k, encode(other.code))
				}
			}
			joined := *left
			joined.Right = false
			joined.EventTime = max(left.EventTime, right.EventTime)
			joined.Tags |= right.Tags
			value, ok := []byte(nil), false
			if _, err := joined.JSON(); err == nil {
				value, ok = withMember(joined.Value, j.field, asJSON(right.Value))
			}
			switch {
			case ok:
			case !it.Right:
				t.fail(s, errNoObject, it)
				continue
			case !again: // the other record is the invalid one
				t.fail(s, errNoObject, &item{Record: other.rec, from: -1})
				continue
			default:
				continue
			}
			joined.set(value)
			if t.grown += len(value) + perItem; len(t.batch) == 1 && t.grown > maxGrowth {
				t.fail(s, errGrowth, it)
				return nil, met, nil
			}
			made = append(made, joined)
		}
		if len(rows) < perScan || t.grown > maxBatch {
			return made, met, nil
		}
		lower = append(rows[len(rows)-1].k, 0)
	}
}

// readWaiting reads a row whose key has the time and number after a prefix.
func (t *Tick) readWaiting(row pair, prefix int) (*waiting, error) {
	if len(row.k) != prefix+16 {
		return nil, corrupt(row.k)
	}
	w := &waiting{names: t.program.Tags()}
	if err := decode(row.k, row.v, w.code); err != nil {
		return nil, err
	}
	w.rec.EventTime = timeIn(row.k[prefix:])
	w.rec.Origin.Source = -1
	return w, nil
}

func (j *join) fire(t *Tick, s *instance, to int64, at []byte) ([]byte, error) {
	lower := s.row(rowTimer)
	upper := above(lower)
	if to < beyond {
		upper = appendTime(s.row(rowTimer), to+1)
	}
	for fired := len(at) > 0 || t.full(); ; fired = true {
		rows, err := scan(t.state, lower, upper, t.slice())
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		if fired && t.full() {
			return []byte{1}, nil
		}
		var made []item
		for _, row := range rows {
			_, _, err := timeOfRow(row.k)
			if err != nil || len(row.v) < 19 {
				return nil, corrupt(row.k)
			}
			k := append(s.row(0)[:2], row.v...)
			t.remove(row.k)
			v, err := t.state.Get(k)
			if err != nil {
				return nil, err
			}
			if row.v[0] == rowLeft && j.left && v != nil {
				w, err := t.readWaiting(pair{k, v}, len(k)-16)
				if err != nil {
					return nil, err
				}
				if !w.matched {
					// The record now certainly has no partner. Event time after a left join lags by
					// the bound, so the record is not late.
					made = append(made, item{Record: w.rec, from: -1})
				}
			}
			t.remove(k)
		}
		if err := t.emit(s, made); err != nil {
			return nil, err
		}
	}
}

func (j *join) due(state State, s *instance) (at int64, there bool, err error) {
	return firstTimer(state, s)
}
