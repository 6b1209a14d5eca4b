package pipeline

import (
	"bytes"
	"fmt"
	"math"
)

// panes implements tumbling and sliding windows. A record is added to one pane; the pane's length
// divides the window's length and slide. A window is the sum of its panes; a tumbling window is one
// pane.
//
// The rows of panes are ordered by (end, key) and serve as their own timers. A window fires by
// scanning its panes by key. Panes that no window needs are deleted as a range. A late record that
// changes a fired window leaves a row, and the window fires again at the end of the tick.
//
// Windows of many panes also have blocks, which are sums of several panes. A block is written when
// the window with the same end fires, and later changes with its panes. So a window of P panes is
// computed from about 3 * sqrt(P) rows. State of an earlier version of floe has blocks only after
// the last window that it fired.
type panes struct {
	aggregate
	pane  int64
	block int64 // a multiple of the slide; 0: no blocks
}

// fewPanes is the maximum number of panes of a window without blocks. It must not change, because
// stored state of jobs depends on it.
const fewPanes = 64

func newPanes(a aggregate) *panes {
	p := &panes{aggregate: a, pane: gcd(a.size, a.slide)}
	if n := a.size / p.pane; n > fewPanes {
		root := int64(math.Sqrt(float64(n))) * p.pane
		p.block = (root + a.slide - 1) / a.slide * a.slide
	}
	return p
}

// blockFrom returns the earliest end of a block at or after t. A window also ends there.
func (p *panes) blockFrom(t int64) int64 {
	offset := p.size % p.slide
	return floor(t-offset+p.block-1, p.block) + offset
}

// fired is the row that records which windows have fired. It exists while there are panes.
type fired struct {
	mark   int64
	blocks int64 // blocks with a later end exist
	known  bool  // whether the row stores blocks
}

func (p *panes) fired(state State, s *instance) (f fired, there bool, err error) {
	v, err := state.Get(s.row(rowMark))
	f = fired{mark: MinTime, blocks: MinTime}
	if len(v) >= 8 {
		f.mark = timeIn(v)
		f.blocks = f.mark // the row was written by a version without blocks
	}
	if len(v) >= 16 {
		f.blocks, f.known = timeIn(v[8:]), true
	}
	return f, v != nil, err
}

func (p *panes) setFired(t *Tick, s *instance, mark int64) error {
	f, _, err := p.fired(t.state, s)
	if err != nil {
		return err
	}
	v := appendTime(nil, mark)
	if p.block > 0 {
		v = appendTime(v, f.blocks)
	}
	t.put(s.row(rowMark), v)
	return nil
}

// beyond is later than any time of a record.
const beyond = math.MaxInt64 / 4

var errBeyond = fmt.Errorf("the event time is not between %d and %d ms", -beyond, int64(beyond))

// endOf returns the end of the pane that contains a time.
func (p *panes) endOf(t int64) int64 {
	return floor(t, p.pane) + p.pane
}

// floor returns the greatest multiple of n that is at most t.
func floor(t, n int64) int64 {
	m := t % n
	if m < 0 {
		m += n
	}
	return t - m
}

// windowFrom returns the earliest end of a window at or after t. Windows begin at multiples of the
// slide.
func (p *panes) windowFrom(t int64) int64 {
	offset := p.size % p.slide
	end := floor(t-offset, p.slide) + offset
	if end < t {
		end += p.slide
	}
	return end
}

// purged returns the end of the last pane that no window needs when the watermark is at mark.
func (p *panes) purged(mark int64) int64 {
	switch {
	case mark >= beyond:
		return beyond
	case mark < -beyond+p.lateness+p.size:
		return -beyond
	}
	return p.windowFrom(mark-p.lateness+1) - p.size
}

func (p *panes) add(t *Tick, s *instance, in, out []item) ([]item, error) {
	k := s.row(rowPane)
	rows := p.cache(len(in))
	purged := p.purged(t.mark(s))
	closed, err := p.closed(t, s)
	if err != nil {
		return nil, err
	}
	for i := range in {
		it := &in[i]
		one, ok := t.sample(s, &p.measure, it, true)
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
		acc.add(&p.measure, &one)
		if block, ok := closed(end); ok {
			if acc, err = rows.get(t, append(appendTime(s.row(rowBlock), block), it.Key...)); err != nil {
				return nil, err
			}
			acc.add(&p.measure, &one)
		}
		if err := p.dirty(t, s, end, it.Key); err != nil {
			return nil, err
		}
	}
	rows.flush(t)
	return out, nil
}

// closed returns a function that finds the block of a pane, if it has been written.
func (p *panes) closed(t *Tick, s *instance) (func(pane int64) (end int64, ok bool), error) {
	if p.block == 0 {
		return func(int64) (int64, bool) { return 0, false }, nil
	}
	f, _, err := p.fired(t.state, s)
	mark := t.mark(s)
	return func(pane int64) (int64, bool) {
		end := p.blockFrom(pane)
		return end, end <= mark && end > f.blocks
	}, err
}

// lost converts a late record to one for the sinks of late records.
func (t *Tick) lost(s *instance, it *item, tag TagSet) item {
	t.counts[s.index].Late++
	made := *it
	made.late = true
	made.Tags |= tag
	return made
}

// dirty marks the fired windows of a pane for firing again.
func (p *panes) dirty(t *Tick, s *instance, pane int64, key []byte) error {
	if t.mark(s) < pane {
		return nil
	}
	// Windows of the pane that are over need no timer.
	if err := p.setFired(t, s, t.mark(s)); err != nil {
		return err
	}
	for end := p.windowFrom(max(pane, t.mark(s)-p.lateness+1)); end < pane+p.size && end <= t.mark(s); end += p.slide {
		t.put(append(appendTime(s.row(rowDirty), end), key...), nil)
	}
	return nil
}

// Positions of fire: its phase, and for a window being fired the end and the last key.
const (
	atDirty = iota
	atWindow
	atKey
)

func (p *panes) fire(t *Tick, s *instance, to int64, at []byte) ([]byte, error) {
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
	if err := p.begin(t, s, at, after); err != nil {
		return nil, err
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

// begin records where blocks begin, before the first one is written. A version without blocks may
// have fired up to the position at which the tick continues.
func (p *panes) begin(t *Tick, s *instance, at []byte, after int64) error {
	f, there, err := p.fired(t.state, s)
	switch {
	case err != nil || p.block == 0 || there && f.known:
		return err
	case len(at) > 0:
		t.put(s.row(rowMark), appendTime(appendTime(nil, f.mark), after+1))
		return nil
	}
	if _, waits, err := p.next(t.state, s, after); err != nil || !waits {
		return err
	}
	return p.setFired(t, s, t.mark(s))
}

// purge removes the panes that no window needs.
func (p *panes) purge(t *Tick, s *instance, to int64, fired bool) error {
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
	if p.block > 0 && there {
		blocks := s.row(rowBlock)
		end := appendTime(s.row(rowBlock), p.purged(to)+1)
		if !left {
			end = above(blocks)
		}
		t.state.DeleteRange(blocks, end)
		t.rows++
	}
	// The row is only needed while there are panes.
	if !left {
		t.remove(s.row(rowMark))
		return nil
	}
	return p.setFired(t, s, to)
}

// again fires the windows that late records have changed.
func (p *panes) again(t *Tick, s *instance) (done bool, err error) {
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

// pieces are the rows of one kind that make up a window: those with an end between two times,
// inclusive.
type pieces struct {
	row      byte
	from, to int64
}

// piecesOf returns the pieces of a window: the existing blocks, and the panes before and after
// them.
func (p *panes) piecesOf(state State, s *instance, end int64) ([]pieces, error) {
	panes := func(from, to int64) pieces { return pieces{rowPane, from + p.pane, to} }
	start := end - p.size
	if p.block == 0 {
		return []pieces{panes(start, end)}, nil
	}
	f, _, err := p.fired(state, s)
	if err != nil {
		return nil, err
	}
	// Firing the window writes the block that ends with it.
	first, last := p.blockFrom(max(start, f.blocks)), p.blockFrom(end)-p.block
	if first >= last {
		return []pieces{panes(start, end)}, nil
	}
	return []pieces{panes(start, first), {rowBlock, first + p.block, last}, panes(last, end)}, nil
}

// each calls f with the ends of the existing pieces. Few of a window's up to 1,000 panes may exist.
func (w pieces) each(state State, s *instance, f func(end int64) error) error {
	for at := w.from; at <= w.to; at++ {
		row, there, err := first(state, appendTime(s.row(w.row), at), appendTime(s.row(w.row), w.to+1))
		if err != nil || !there {
			return err
		}
		if at, _, err = timeOfRow(row.k); err != nil {
			return err
		}
		if err := f(at); err != nil {
			return err
		}
	}
	return nil
}

// windowOf computes the window of a key.
func (p *panes) windowOf(t *Tick, s *instance, end int64, key []byte) (*accumulator, error) {
	all := new(accumulator)
	made, err := p.piecesOf(t.state, s, end)
	if err != nil {
		return nil, err
	}
	for _, w := range made {
		err := w.each(t.state, s, func(end int64) error {
			acc, err := p.row(t.state, append(appendTime(s.row(w.row), end), key...))
			if err == nil {
				all.merge(&p.measure, acc)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// result creates the record of a window.
func (p *panes) result(t *Tick, s *instance, made []item, acc *accumulator, end int64, key []byte) []item {
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
func (p *panes) next(state State, s *instance, after int64) (end int64, there bool, err error) {
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

// fireWindow fires a window for the keys after a given one. It scans all panes in parallel, by key.
func (p *panes) fireWindow(t *Tick, s *instance, end int64, after []byte) (last []byte, done bool, err error) {
	whole, err := p.piecesOf(t.state, s, end)
	if err != nil {
		return nil, false, err
	}
	var cursors []*paneCursor
	block := 0 // index of the first cursor of the block that ends with the window
	for _, w := range whole {
		err := w.each(t.state, s, func(piece int64) error {
			c := &paneCursor{state: t.state, prefix: appendTime(s.row(w.row), piece), after: after, from: after != nil}
			if err := c.fill(); err != nil {
				return err
			}
			if len(c.rows) > 0 {
				cursors = append(cursors, c)
			}
			if w.row == rowBlock || piece <= end-p.block {
				block = len(cursors)
			}
			return nil
		})
		if err != nil {
			return nil, false, err
		}
	}
	closes := p.block > 0 && p.blockFrom(end) == end
	var made []item
	slice := t.slice()
	for {
		least := leastKey(cursors)
		if least == nil {
			return nil, true, t.emit(s, made)
		}
		key := bytes.Clone(least)
		all, last := new(accumulator), new(accumulator)
		for i, c := range cursors {
			acc, err := c.take(p, key)
			if err != nil {
				return nil, false, err
			}
			switch {
			case acc == nil:
			case closes && i >= block:
				last.merge(&p.measure, acc)
			default:
				all.merge(&p.measure, acc)
			}
		}
		if last.count > 0 {
			t.put(append(appendTime(s.row(rowBlock), end), key...), encode(p.code(last)))
			all.merge(&p.measure, last)
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

// paneCursor scans the rows of a pane by key, a few at a time.
type paneCursor struct {
	state  State
	prefix []byte
	after  []byte // last key taken
	from   bool   // after is set
	rows   []pair
}

func (c *paneCursor) fill() (err error) {
	lower := c.prefix
	if c.from {
		lower = append(append(append([]byte{}, c.prefix...), c.after...), 0)
	}
	c.rows, err = scan(c.state, lower, above(c.prefix), perScan)
	return err
}

// key returns the key of the next row.
func (c *paneCursor) key() []byte { return c.rows[0].k[len(c.prefix):] }

// take returns the accumulator of a key, if that key is next.
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

// leastKey returns the least of the cursors' keys, or nil if every cursor is at its end.
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

// due returns the end of the earliest window that has not fired, or the time at which panes are
// purged.
func (p *panes) due(state State, s *instance) (at int64, there bool, err error) {
	dirty := s.row(rowDirty)
	if _, there, err := first(state, dirty, above(dirty)); err != nil || there {
		return MinTime, there, err
	}
	f, _, err := p.fired(state, s)
	if err != nil {
		return 0, false, err
	}
	at, there, err = p.next(state, s, f.mark)
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
	// The pane is purged with the last window that contains it.
	gone := p.windowFrom(pane+p.size) - p.slide + p.lateness
	if !there || gone < at {
		at = gone
	}
	return at, true, nil
}
