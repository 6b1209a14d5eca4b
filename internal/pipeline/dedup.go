package pipeline

import (
	"encoding/binary"
	"fmt"

	"github.com/floedb/floe/internal/document"
)

// dedup drops records with a key seen before. Its clock is the time of the record IDs: a key
// expires when its first record is older than the newest record by the TTL. Records made by an
// operator have no IDs, so after such an operator all records use the event time.
type dedup struct {
	key    *valueExpr
	ttl    int64 // ms; 0: forever
	events bool  // use event time
}

func readDedup(r *reader, o *Operator, n *document.Node, at string) {
	d := &dedup{}
	text := ""
	r.fields(o, n, at,
		document.Field{Names: "key key_expression",
			Read: func(n *document.Node, at string) { r.keyExpression(&d.key)(n, at); text = n.Text }},
		document.Field{Names: "ttl_ms ttl", Read: r.Millis(&d.ttl, 0)},
	)
	o.Keyed, o.Shape, o.private.spec = true, fmt.Sprintf("dedup %s ttl %t", text, d.ttl > 0), d
}

// forgotten is the maximum number of keys that expire per record, which bounds a tick.
const forgotten = 2

func (d *dedup) add(t *Tick, s *instance, in, out []item) ([]item, error) {
	clock := s.row(rowNumber)
	now, err := timeAt(t.state, clock)
	if err != nil {
		return nil, err
	}
	before := now
	for i := range in {
		it := &in[i]
		key, ok, err := d.keyOf(it)
		if err == nil && len(key) > maxKey {
			err = errKey
		}
		if err != nil {
			t.fail(s, err, it)
			continue
		}
		if !ok {
			out = append(out, *it)
			continue
		}
		at := it.Origin.ID.Millis
		if d.events || it.Origin.Source < 0 {
			at = it.EventTime
		}
		now = max(now, at)
		k := append(s.row(rowSeen), key...)
		seen, err := t.state.Get(k)
		if err != nil {
			return nil, err
		}
		if len(seen) == 8 && (d.ttl == 0 || timeIn(seen) > at) {
			t.counts[s.index].Dropped++
			continue
		}
		expires := int64(EndOfTime)
		if d.ttl > 0 {
			if len(seen) == 8 {
				t.remove(append(appendTime(s.row(rowExpiry), timeIn(seen)), key...))
			}
			expires = min(at, beyond) + d.ttl
			t.put(append(appendTime(s.row(rowExpiry), expires), key...), nil)
		}
		t.put(k, appendTime(nil, expires))
		out = append(out, *it)
	}
	if now != before {
		t.put(clock, appendTime(nil, now))
	}
	return out, d.forget(t, s, now, perScan+forgotten*len(in))
}

func (d *dedup) keyOf(it *item) (string, bool, error) {
	if d.key == nil {
		return stringOf(it.Key), true, nil
	}
	return d.key.text(it, nil)
}

// forget removes expired keys.
func (d *dedup) forget(t *Tick, s *instance, now int64, most int) error {
	if d.ttl == 0 || now >= beyond {
		return nil
	}
	rows, err := scan(t.state, s.row(rowExpiry), appendTime(s.row(rowExpiry), now+1), most)
	if err != nil {
		return err
	}
	for _, row := range rows {
		_, key, err := timeOfRow(row.k)
		if err != nil {
			return err
		}
		t.remove(row.k)
		t.remove(append(s.row(rowSeen), key...))
	}
	return nil
}

// timeAt reads a row that holds a time.
func timeAt(state State, k []byte) (int64, error) {
	v, err := state.Get(k)
	switch {
	case err != nil:
		return 0, err
	case v == nil:
		return MinTime, nil
	case len(v) != 8:
		return 0, corrupt(k)
	}
	return timeIn(v), nil
}

// numberAt reads a row that holds a number.
func numberAt(state State, k []byte) (uint64, error) {
	v, err := state.Get(k)
	switch {
	case err != nil || v == nil:
		return 0, err
	case len(v) != 8:
		return 0, corrupt(k)
	}
	return binary.BigEndian.Uint64(v), nil
}
