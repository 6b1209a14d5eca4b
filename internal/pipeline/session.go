package pipeline

import (
	"bytes"

	"github.com/floedb/floe/internal/codec"
)

// sessions implements windows that end when a key has had no record for the gap. A session lasts
// from its first record to the gap after its last one.
//
// Its row is found by key and end. Timers are rows by time and key, and only trigger a check of the
// key's sessions. Each session that has not fired has a timer within its span, so a record that
// extends a session moves no timer. A fired session is kept for the lateness, with a timer at the
// end of that. If a record extends it in the meantime, it fires again at the end of the tick, or by
// a timer if the watermark has not passed its new end.
//
// The sessions of a key do not touch and are ordered by time. So a record or a timer concerns only
// a few of them, regardless of their number.
type sessions struct{ aggregate }

// session is a row.
type session struct {
	start, end int64
	fired      bool
	acc        accumulator
}

func (a *sessions) key(s *instance, key []byte, end int64) []byte {
	return appendTime(appendKey(s.row(rowSession), key), end)
}

func (a *sessions) code(v *session) func(*codec.Coder) {
	return func(c *codec.Coder) {
		c.Varint(&v.start)
		c.Bool(&v.fired)
		v.acc.code(c, &a.measure)
	}
}

// each calls f with the sessions of a key that end after a time, in order, until it returns false.
func (a *sessions) each(t *Tick, s *instance, key []byte, after int64, f func(one *session) bool) error {
	prefix := appendKey(s.row(rowSession), key)
	var failed error
	err := t.state.Scan(appendTime(bytes.Clone(prefix), after+1), above(prefix), func(k, v []byte) bool {
		if len(k) != len(prefix)+8 {
			failed = corrupt(k)
			return false
		}
		one := session{end: timeIn(k[len(prefix):])}
		failed = decode(k, v, a.code(&one))
		return failed == nil && f(&one)
	})
	if err == nil {
		err = failed
	}
	return err
}

func (a *sessions) add(t *Tick, s *instance, in, out []item) ([]item, error) {
	for i := range in {
		it := &in[i]
		one, ok := t.sample(s, &a.measure, it, true)
		if !ok {
			continue
		}
		late, err := a.extend(t, s, it, &one)
		if err != nil {
			return nil, err
		}
		if late {
			out = append(out, t.lost(s, it, a.late))
		}
	}
	return out, nil
}

// extend adds a record to the sessions that it touches, which merge into one. A record is late if
// it touches no session and its own session would already be purged.
func (a *sessions) extend(t *Tick, s *instance, it *item, one *sample) (late bool, err error) {
	merged := session{start: one.at, end: one.at + a.gap}
	merged.acc.add(&a.measure, one)
	var list []session
	err = a.each(t, s, it.Key, one.at, func(other *session) bool {
		if other.start >= one.at+a.gap {
			return false
		}
		list = append(list, *other)
		return true
	})
	if err != nil {
		return false, err
	}
	touched := len(list)
	list = list[:touched]
	if touched == 0 && (merged.end+a.lateness <= t.mark(s)) {
		return true, nil
	}
	timed := false
	if touched > 0 {
		// The record is the last one, because records with the same time came before it.
		whole := list[0].acc
		for i := range list {
			merged.start, merged.end = min(merged.start, list[i].start), max(merged.end, list[i].end)
			timed = timed || !list[i].fired
			if i > 0 {
				whole.merge(&a.measure, &list[i].acc)
			}
		}
		whole.add(&a.measure, one)
		merged.acc = whole
	}
	for i := range list {
		if list[i].end != merged.end {
			t.remove(a.key(s, it.Key, list[i].end))
			if list[i].fired {
				t.remove(append(appendTime(s.row(rowDirty), list[i].end), it.Key...))
			}
		}
	}
	merged.fired = merged.end <= t.mark(s)
	t.put(a.key(s, it.Key, merged.end), encode(a.code(&merged)))
	switch {
	case merged.fired:
		t.put(append(appendTime(s.row(rowDirty), merged.end), it.Key...), nil)
		a.timer(t, s, it.Key, merged.end+a.lateness)
	case !timed:
		a.timer(t, s, it.Key, merged.end)
	}
	return false, nil
}

func (a *sessions) timer(t *Tick, s *instance, key []byte, at int64) {
	t.put(append(appendTime(s.row(rowTimer), at), key...), nil)
}

func (a *sessions) fire(t *Tick, s *instance, to int64, at []byte) ([]byte, error) {
	again := []byte{0}
	if len(at) == 0 || at[0] == atDirty {
		if done, err := a.again(t, s); err != nil || !done {
			return again, err
		}
	}
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
		if err := a.look(t, s, rows, to); err != nil {
			return nil, err
		}
	}
}

// look processes timers, until one sets a new timer that is before the rest.
func (a *sessions) look(t *Tick, s *instance, rows []pair, to int64) error {
	var made []item
	last, _, err := timeOfRow(rows[len(rows)-1].k)
	if err != nil {
		return err
	}
	for i, row := range rows {
		at, key, err := timeOfRow(row.k)
		if err != nil {
			return err
		}
		t.remove(row.k)
		list, err := a.dueAt(t, s, key, at)
		if err != nil {
			return err
		}
		earliest := int64(EndOfTime)
		for j := range list {
			one := &list[j]
			fires := !one.fired && one.end <= at
			if fires {
				made = a.result(t, s, made, one, key)
				one.fired = true
			}
			next := one.end
			if one.fired {
				next += a.lateness
			}
			switch {
			case one.fired && next <= at:
				t.remove(a.key(s, key, one.end))
				continue
			case fires:
				t.put(a.key(s, key, one.end), encode(a.code(one)))
			}
			if new, err := a.timed(t, s, key, next); err != nil {
				return err
			} else if new {
				earliest = min(earliest, next)
			}
		}
		if i+1 < len(rows) && earliest <= to && earliest <= last {
			break
		}
	}
	return t.emit(s, made)
}

// dueAt returns the sessions that a timer of a key may concern: those whose lateness is over, the
// first of the fired ones that are kept, and the one that contains the time or ends then.
func (a *sessions) dueAt(t *Tick, s *instance, key []byte, at int64) (list []session, err error) {
	stays := false
	err = a.each(t, s, key, MinTime, func(one *session) bool {
		switch {
		case one.end <= at-a.lateness:
			list = append(list, *one)
			return true
		case one.end < at:
			list, stays = append(list, *one), true
			return false
		}
		if one.start <= at {
			list = append(list, *one)
		}
		return false
	})
	if err != nil || !stays {
		return list, err
	}
	err = a.each(t, s, key, at-1, func(one *session) bool {
		if one.start <= at {
			list = append(list, *one)
		}
		return false
	})
	return list, err
}

// timed sets a timer for a session's key, and reports whether it is new.
func (a *sessions) timed(t *Tick, s *instance, key []byte, at int64) (bool, error) {
	v, err := t.state.Get(append(appendTime(s.row(rowTimer), at), key...))
	if err != nil || v != nil {
		return false, err
	}
	a.timer(t, s, key, at)
	return true, nil
}

// result creates the record of a session.
func (a *sessions) result(t *Tick, s *instance, made []item, one *session, key []byte) []item {
	it := item{Record: Record{Key: bytes.Clone(key), EventTime: one.end - 1, Origin: Origin{Source: -1}}, from: -1}
	value, err := a.emit(t, &one.acc, key, one.start, one.end)
	if err != nil {
		t.fail(s, err, &it)
		return made
	}
	it.set(value)
	return append(made, it)
}

// again fires the sessions that late records have changed.
func (a *sessions) again(t *Tick, s *instance) (done bool, err error) {
	lower := s.row(rowDirty)
	for {
		rows, err := scan(t.state, lower, above(lower), t.slice())
		if err != nil || len(rows) == 0 {
			return true, err
		}
		if t.full() {
			return false, nil
		}
		var made []item
		for _, row := range rows {
			end, key, err := timeOfRow(row.k)
			if err != nil {
				return false, err
			}
			t.remove(row.k)
			k := a.key(s, key, end)
			v, err := t.state.Get(k)
			if err != nil {
				return false, err
			}
			if v == nil {
				continue
			}
			one := session{end: end}
			if err := decode(k, v, a.code(&one)); err != nil {
				return false, err
			}
			made = a.result(t, s, made, &one, key)
		}
		if err := t.emit(s, made); err != nil {
			return false, err
		}
	}
}

// due returns the first timer.
func (a *sessions) due(state State, s *instance) (at int64, there bool, err error) {
	dirty := s.row(rowDirty)
	if _, there, err := first(state, dirty, above(dirty)); err != nil || there {
		return MinTime, there, err
	}
	return firstTimer(state, s)
}

func firstTimer(state State, s *instance) (at int64, there bool, err error) {
	lower := s.row(rowTimer)
	row, there, err := first(state, lower, above(lower))
	if err != nil || !there {
		return 0, false, err
	}
	at, _, err = timeOfRow(row.k)
	return at, true, err
}
