package pipeline

import (
	"bytes"
	"fmt"
	"math"

	"github.com/floedb/floe/internal/plant"
)

// panes are tumbling and sliding windows. A record is added to one pane, whose length divides that of windows and the time between them; a window is what its
// panes are together, and a tumbling one is one pane.
//
// The rows of panes are ordered by (end, key) and so are their own timers: a window fires by going over its panes by key, and when no window needs a pane any
// more it goes with all that are older by deleting a range. A late record that changes a window that has fired leaves a row that says so, with which the window
// fires once more when the tick ends.
type panes struct {
	aggregate
	pane int64
}

// beyond is a time after all others that records have.
const beyond = math.MaxInt64 / 4

var errBeyond = fmt.Errorf("the event time is not between %d and %d ms", -beyond, int64(beyond))

// endOf returns the end of the pane of a time.
func (p *panes) endOf(t int64) int64 {
	if plant.On(plant.EndInside) {
		t--
	}
	return floor(t, p.pane) + p.pane
}

// floor returns the greatest multiple of n that is not above t.
func floor(t, n int64) int64 {
	m := t % n
	if m < 0 {
		m += n
	}
	return t - m
}

// windowFrom returns the earliest end of a window that is not before t. Windows begin at multiples of the slide.
func (p *panes) windowFrom(t int64) int64 {
	offset := p.size % p.slide
	end := floor(t-offset, p.slide) + offset
	if end < t {
		end += p.slide
	}
	return end
}

// purged returns the end of the last pane that no window needs any more when the watermark has come to a time.
func (p *panes) purged(mark int64) int64 {
	switch {
	case mark >= beyond:
		return beyond
	case mark < -beyond+p.lateness+p.size:
		return -beyond
	}
	if plant.On(plant.PurgeEarly) {
		return p.windowFrom(mark+1) - p.size
	}
	return p.windowFrom(mark-p.lateness+1) - p.size
}

func (p *panes) add(t *Tick, s *stage, in, out []item) ([]item, error) {
	k := s.row(rowPane)
	rows := p.cache(len(in))
	purged := p.purged(t.mark(s))
	for i := range in {
		it := &in[i]
		one, ok := t.sample(s, p.fn, p.field, it, true)
		if !ok {
			continue
		}
		end := p.endOf(it.EventTime)
		if end <= purged {
			out = append(out, t.lost(s, it, p.late))
			continue
		}
		acc, err := rows.get(t, append(appendTime(k[:3], end), it.Key...))
		if err != nil {
			return nil, err
		}
		acc.add(p.fn, &one)
		p.dirty(t, s, end, it.Key)
	}
	rows.flush(t)
	return out, nil
}

// lost makes of a record that came too late one that goes to sinks for such.
func (t *Tick) lost(s *stage, it *item, tag TagSet) item {
	t.counts[s.index].Late++
	made := *it
	made.late = true
	made.Tags |= tag
	return made
}

// dirty notes the windows of a pane that have fired.
func (p *panes) dirty(t *Tick, s *stage, pane int64, key []byte) {
	if t.mark(s) < pane || plant.On(plant.LateUntold) {
		return
	}
	// A window of it that is over is not waited for.
	t.put(s.row(rowMark), appendTime(nil, t.mark(s)))
	for end := p.windowFrom(max(pane, t.mark(s)-p.lateness+1)); end < pane+p.size && end <= t.mark(s); end += p.slide {
		t.put(append(appendTime(s.row(rowDirty), end), key...), nil)
	}
}

// Positions of fire: what it is at, and for a window that is being fired its end and the last key.
const (
	atDirty = iota
	atWindow
	atKey
)

func (p *panes) fire(t *Tick, s *stage, to int64, at []byte) ([]byte, error) {
	if len(at) == 0 || at[0] == atDirty {
		if done, err := p.again(t, s); err != nil || !done {
			return []byte{atDirty}, err
		}
		at = nil
	}
	if len(at) == 0 && to == t.mark(s) {
		return nil, nil
	}
	after, key := t.mark(s), []byte(nil)
	if len(at) > 0 {
		if len(at) < 9 || at[0] > atKey {
			return nil, errPosition
		}
		if after = timeIn(at[1:]) - 1; at[0] == atKey {
			key = at[9:]
		}
	}
	fired := len(at) > 0 || t.full()
	for {
		end, there, err := p.next(t.state, s, after)
		if err != nil {
			return nil, err
		}
		if !there || end > to {
			break
		}
		if fired && t.full() && key == nil {
			return appendTime([]byte{atWindow}, end), nil
		}
		fired = true
		last, done, err := p.fireWindow(t, s, end, key)
		if err != nil {
			return nil, err
		}
		if !done {
			return append(appendTime([]byte{atKey}, end), last...), nil
		}
		after, key = end, nil
	}
	return nil, p.purge(t, s, to, fired)
}

// purge removes the panes that no window needs.
func (p *panes) purge(t *Tick, s *stage, to int64, fired bool) error {
	lower, upper := s.row(rowPane), appendTime(s.row(rowPane), p.purged(to)+1)
	_, there, err := first(t.state, lower, upper)
	if err != nil {
		return err
	}
	if there {
		t.state.DeleteRange(lower, upper)
		t.rows++
	}
	_, left, err := first(t.state, lower, above(lower))
	if err != nil || !there && !fired {
		return err
	}
	// What has fired is only of interest as long as there are panes.
	mark := s.row(rowMark)
	if !left {
		t.remove(mark)
		return nil
	}
	t.put(mark, appendTime(nil, to))
	return nil
}

// again fires the windows that late records have changed.
func (p *panes) again(t *Tick, s *stage) (done bool, err error) {
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
			acc, err := p.windowOf(t, s, end, key)
			if err != nil {
				return false, err
			}
			if acc.count > 0 {
				made = p.result(t, s, made, acc, end, key)
			}
			t.remove(row.k)
		}
		if err := t.emit(s, made); err != nil {
			return false, err
		}
	}
}

// paneFrom returns the first pane that is there, of those from one to another: a window may be a thousand panes, few of which are.
func (p *panes) paneFrom(state State, s *stage, from, to int64) (pane int64, there bool, err error) {
	row, there, err := first(state, appendTime(s.row(rowPane), from), appendTime(s.row(rowPane), to+1))
	if err != nil || !there {
		return 0, false, err
	}
	pane, _, err = timeOfRow(row.k)
	return pane, true, err
}

// windowOf puts a window of a key together.
func (p *panes) windowOf(t *Tick, s *stage, end int64, key []byte) (*accumulator, error) {
	all := new(accumulator)
	for pane := end - p.size + p.pane; pane <= end; pane += p.pane {
		at, there, err := p.paneFrom(t.state, s, pane, end)
		if err != nil || !there {
			return all, err
		}
		pane = at
		acc, err := p.row(t.state, append(appendTime(s.row(rowPane), pane), key...))
		if err != nil {
			return nil, err
		}
		all.merge(p.fn, acc)
	}
	return all, nil
}

// result makes the record of a window.
func (p *panes) result(t *Tick, s *stage, made []item, acc *accumulator, end int64, key []byte) []item {
	it := item{Record: Record{Key: bytes.Clone(key), EventTime: end - 1, Origin: Origin{Source: -1}}, from: -1}
	value, err := p.emit(t, acc, key, end-p.size, end)
	if err != nil {
		t.fail(s, err, &it)
		return made
	}
	it.set(value)
	return append(made, it)
}

// next returns the earliest window that ends after a time and has a pane.
func (p *panes) next(state State, s *stage, after int64) (end int64, there bool, err error) {
	lower := s.row(rowPane)
	earliest := int64(-beyond)
	if after > -beyond {
		if after >= beyond {
			return 0, false, nil
		}
		earliest = p.windowFrom(after + 1)
		lower = appendTime(lower, earliest-p.size+1)
	}
	row, there, err := first(state, lower, above(s.row(rowPane)))
	if err != nil || !there {
		return 0, false, err
	}
	pane, _, err := timeOfRow(row.k)
	return max(earliest, p.windowFrom(pane)), true, err
}

// fireWindow fires a window for the keys behind one. It goes over all of its panes at once, by key.
func (p *panes) fireWindow(t *Tick, s *stage, end int64, after []byte) (last []byte, done bool, err error) {
	var cursors []*paneCursor
	for pane := end - p.size + p.pane; pane <= end; pane += p.pane {
		there := false
		if pane, there, err = p.paneFrom(t.state, s, pane, end); err != nil {
			return nil, false, err
		}
		if !there {
			break
		}
		c := &paneCursor{state: t.state, prefix: appendTime(s.row(rowPane), pane), after: after, from: after != nil}
		if err := c.fill(); err != nil {
			return nil, false, err
		}
		if len(c.rows) > 0 {
			cursors = append(cursors, c)
		}
	}
	var made []item
	slice := t.slice()
	for {
		least := leastKey(cursors)
		if least == nil {
			return nil, true, t.emit(s, made)
		}
		key := bytes.Clone(least)
		all := new(accumulator)
		for _, c := range cursors {
			acc, err := c.take(p, key)
			if err != nil {
				return nil, false, err
			}
			if acc != nil {
				all.merge(p.fn, acc)
			}
		}
		made = p.result(t, s, made, all, end, key)
		if len(made) < slice {
			continue
		}
		if err := t.emit(s, made); err != nil {
			return nil, false, err
		}
		if made, slice = nil, t.slice(); t.full() {
			return key, false, nil
		}
	}
}

// paneCursor goes over the rows of a pane by key, some at a time.
type paneCursor struct {
	state  State
	prefix []byte
	after  []byte // the last key that was taken
	from   bool   // after is one
	rows   []pair
}

func (c *paneCursor) fill() (err error) {
	lower := c.prefix
	if c.from {
		lower = append(append(append([]byte{}, c.prefix...), c.after...), 0)
		if plant.On(plant.LastAgain) {
			lower = lower[:len(lower)-1]
		}
	}
	c.rows, err = scan(c.state, lower, above(c.prefix), perScan)
	return err
}

// key returns the key of the next row.
func (c *paneCursor) key() []byte { return c.rows[0].k[len(c.prefix):] }

// take returns the accumulator of a key, if it is the next.
func (c *paneCursor) take(p *panes, key []byte) (*accumulator, error) {
	if len(c.rows) == 0 || !bytes.Equal(c.key(), key) {
		return nil, nil
	}
	acc := new(accumulator)
	if err := decode(c.rows[0].k, c.rows[0].v, p.code(acc)); err != nil {
		return nil, err
	}
	c.after, c.from = key, true
	if c.rows = c.rows[1:]; len(c.rows) == 0 {
		return acc, c.fill()
	}
	return acc, nil
}

// leastKey returns the least next key, nil if there is none.
func leastKey(cursors []*paneCursor) (least []byte) {
	for _, c := range cursors {
		if len(c.rows) > 0 && (least == nil || bytes.Compare(c.key(), least) < 0) {
			if least = c.key(); least == nil {
				least = []byte{}
			}
		}
	}
	return least
}

// due returns when a window ends that has not fired, or panes are purged.
func (p *panes) due(state State, s *stage) (at int64, there bool, err error) {
	dirty := s.row(rowDirty)
	if _, there, err := first(state, dirty, above(dirty)); err != nil || there {
		return MinTime, there, err
	}
	mark := int64(MinTime)
	v, err := state.Get(s.row(rowMark))
	if err != nil {
		return 0, false, err
	}
	if len(v) == 8 {
		mark = timeIn(v)
	}
	at, there, err = p.next(state, s, mark)
	if err != nil {
		return 0, false, err
	}
	lower := s.row(rowPane)
	row, purges, err := first(state, lower, above(lower))
	if err != nil || !purges {
		return at, there, err
	}
	pane, _, err := timeOfRow(row.k)
	if err != nil {
		return 0, false, err
	}
	// The pane goes with the last window that it is in.
	gone := p.windowFrom(pane+p.size) - p.slide + p.lateness
	if !there || gone < at {
		at = gone
	}
	return at, true, nil
}
