package agg

import (
	"cmp"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/codec"
)

// Encode appends all contents of the table, for Merge into another table of the same plan. Nothing
// can be added after it. Equal tables have equal encodings:
//
//	points | series | count of groups | groups, by their IDs
//	group: ID | count of states | states, by pane
//	state: pane, minus the one before plus one (the first: as it is) | what its function needs
//
// stop is called from time to time, and its error is returned.
//
// Errors: LimitError.
func (t *Table) Encode(dst []byte, stop func() error) ([]byte, error) {
	ids, err := t.Groups()
	if err != nil {
		return dst, err
	}
	c := codec.NewEncoder(dst)
	points, series := uint64(t.points), uint64(t.series)
	c.Uvarint(&points)
	c.Uvarint(&series)
	n := uint64(len(ids))
	c.Uvarint(&n)
	for _, id := range ids {
		c.String(&id)
		if err := t.groups[id].encode(&c, stop); err != nil {
			return dst, err
		}
	}
	return c.Encoded(), nil
}

func (g *group) encode(c *codec.Coder, stop func() error) error {
	n := uint64(0)
	for range g.states() {
		n++
	}
	c.Uvarint(&n)
	next := int64(0)
	for pane, s := range g.states() {
		skipped := pane - next
		next = pane + 1
		c.Varint(&skipped)
		if err := s.ready(stop); err != nil {
			return err
		}
		s.column.code(s.i, c)
	}
	return nil
}

// state is a place in a column.
type state struct {
	column column
	i      int
}

// ready does slow work before a state can be encoded or computed, calling stop from time to time.
func (s state) ready(stop func() error) error {
	if sample, ok := s.column.(*sample); ok {
		return sample.sort(s.i, stop)
	}
	if s.i == 0 {
		return stop()
	}
	return nil
}

// states iterates over the states that are not empty, by pane.
func (g *group) states() func(yield func(int64, state) bool) {
	return func(yield func(int64, state) bool) {
		g.sort()
		for _, b := range g.blocks {
			for i := range blockLen {
				if !b.column.empty(i) && !yield(b.number*blockLen+int64(i), state{b.column, i}) {
					return
				}
			}
		}
	}
}

// Groups returns the IDs of all groups that have a state, in order. Nothing can be added after it.
//
// Errors: LimitError.
func (t *Table) Groups() ([]string, error) {
	if err := t.settle(); err != nil {
		return nil, err
	}
	ids := slices.Sorted(maps.Keys(t.groups))
	return slices.DeleteFunc(ids, func(id string) bool { return len(t.groups[id].blocks) == 0 }), nil
}

// Merge adds the encoding of another table of the same plan, perhaps from another process. A
// refused encoding may have been added in part. valid, if not nil, reports whether a group ID is
// possible.
//
// Errors: LimitError; codec.ErrCorrupt if Encode cannot have written the encoding.
func (t *Table) Merge(encoded []byte, valid func(groupID string) bool) error {
	c := codec.NewDecoder(encoded)
	var points, series, n uint64
	c.Uvarint(&points)
	c.Uvarint(&series)
	c.Uvarint(&n)
	if points > 1<<60 || series > points {
		c.Fail("bad number of points")
	}
	t.points, t.series = t.points+int64(points), t.series+int64(series)
	if t.limits.Points > 0 && t.points > t.limits.Points {
		return &LimitError{LimitPoints, t.limits.Points}
	}
	before := ""
	for i := range n {
		var id string
		if c.String(&id); i > 0 && id <= before || c.Err() == nil && valid != nil && !valid(id) {
			c.Fail("bad group")
		}
		if c.Err() != nil {
			break
		}
		before = id
		if err := t.mergeGroup(t.group(id), &c); err != nil {
			return err
		}
	}
	return c.Done()
}

// Join adds another table of the same plan, which must not be used afterwards. It is Merge without
// an encoding in between. stop is called from time to time, and its error is returned.
//
// Errors: LimitError.
func (t *Table) Join(o *Table, stop func() error) error {
	if err := o.settle(); err != nil {
		return err
	}
	t.points, t.series = t.points+o.points, t.series+o.series
	if t.limits.Points > 0 && t.points > t.limits.Points {
		return &LimitError{LimitPoints, t.limits.Points}
	}
	for id, g := range o.groups {
		err := stop()
		if t.groups[id] == nil {
			t.groups[id] = g
			err = cmp.Or(err, t.grow(o.size(id)))
		} else {
			err = cmp.Or(err, t.joinGroup(t.groups[id], g, stop))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) joinGroup(to, from *group, stop func() error) error {
	for pane, s := range from.states() {
		c, i := t.state(to, pane)
		before := c.bytes(i)
		c.merge(i, s.column, s.i)
		if err := t.grow(c.bytes(i) - before); err != nil {
			return err
		}
		if s.i == 0 {
			if err := stop(); err != nil {
				return err
			}
		}
	}
	return nil
}

// size is the memory that a group takes.
func (t *Table) size(id string) int64 {
	n := groupBytes + int64(len(id))
	for _, b := range t.groups[id].blocks {
		n += blockBytes + blockLen*funcs[t.plan.Func].bytes
		for i := range blockLen {
			n += b.column.bytes(i)
		}
	}
	return n
}

func (t *Table) mergeGroup(g *group, c *codec.Coder) error {
	var n uint64
	if c.Uvarint(&n); n == 0 {
		c.Fail("empty group")
	}
	pane := int64(0)
	for i := range n {
		var skipped int64
		c.Varint(&skipped)
		// Check that the input is small enough before adding it.
		if c.Err() != nil || i > 0 && skipped < 0 || skipped > 1<<56 || skipped < -1<<56 ||
			!t.plan.Panes.holds(pane+skipped, t.plan.From, t.plan.To) {
			c.Fail("bad pane")
			return nil
		}
		pane += skipped
		if err := t.mergeState(g, pane, c); err != nil || c.Err() != nil {
			return err
		}
		pane++
	}
	return nil
}

// mergeState reads a state, directly into its place if that is empty.
func (t *Table) mergeState(g *group, pane int64, c *codec.Coder) error {
	to, i := t.state(g, pane)
	if to.empty(i) {
		to.code(i, c)
		return t.grow(to.bytes(i))
	}
	from := funcs[t.plan.Func].column(t.plan.Func, t.plan.P)
	if from.code(0, c); c.Err() != nil {
		return nil
	}
	before := to.bytes(i)
	to.merge(i, from, 0)
	return t.grow(to.bytes(i) - before)
}

// Finish computes the buckets of one of the Groups, in order: the start of each and its value,
// which may be infinite. Buckets with too few points are omitted. The windows must have the panes
// of the plan, possibly shifted. stop is called from time to time, and its error is returned.
//
// Errors: LimitError.
func (t *Table) Finish(groupID string, w *Windows, stop func() error) (times []int64, values []float64, err error) {
	g := t.groups[groupID]
	if w.Tumbling() {
		for pane, s := range g.states() {
			if err := s.ready(stop); err != nil {
				return nil, nil, err
			}
			if v, ok := s.column.final(s.i); ok {
				times, values = append(times, w.Panes.Start(pane)), append(values, v)
			}
		}
		return times, values, nil
	}
	buckets, err := t.buckets(g, w, stop)
	if err != nil {
		return nil, nil, err
	}
	for _, bucket := range buckets {
		start, first, end := w.Bucket(bucket)
		s, err := t.slide(g, first, end, stop)
		if err == nil {
			err = s.ready(stop)
		}
		if err != nil {
			return nil, nil, err
		}
		if v, ok := s.column.final(0); ok {
			times, values = append(times, start), append(values, v)
		}
	}
	return times, values, nil
}

// bucketRun is the number of buckets listed between two calls of stop.
const bucketRun = 1 << 12

// buckets returns the buckets of a group that have points. A single point may be in all of them.
func (t *Table) buckets(g *group, w *Windows, stop func() error) (found []int64, err error) {
	next := int64(0)
	for pane := range g.states() {
		first, end := w.containing(pane)
		for b := max(first, next); b < end; b++ {
			if len(found)%bucketRun == 0 {
				err = stop()
			}
			if err = cmp.Or(err, t.grow(bucketBytes)); err != nil {
				return nil, err
			}
			found = append(found, b)
		}
		next = max(next, end)
	}
	return found, nil
}

// slide merges the panes of a bucket. At least one pane must have points. The merged state counts
// as memory in the meantime.
func (t *Table) slide(g *group, first, end int64, stop func() error) (state, error) {
	all, held := funcs[t.plan.Func].column(t.plan.Func, t.plan.P), int64(0)
	defer func() { t.bytes -= held }()
	for _, b := range g.between(first, end) {
		if err := stop(); err != nil {
			return state{}, err
		}
		for i := range blockLen {
			pane := b.number*blockLen + int64(i)
			if pane < first || pane >= end || b.column.empty(i) {
				continue
			}
			all.merge(0, b.column, i)
			n := all.bytes(0) - held
			held += n
			if err := t.grow(n); err != nil {
				return state{}, err
			}
		}
	}
	return state{all, 0}, nil
}

// between returns the blocks that have a pane from first to end, end excluded.
func (g *group) between(first, end int64) []block {
	g.sort()
	i, _ := slices.BinarySearchFunc(g.blocks, floorDiv(first, blockLen),
		func(b block, number int64) int { return cmpBool(b.number < number) })
	j, _ := slices.BinarySearchFunc(g.blocks, floorDiv(end-1, blockLen),
		func(b block, number int64) int { return cmpBool(b.number <= number) })
	return g.blocks[i:max(i, j)]
}
