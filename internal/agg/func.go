package agg

import (
	"cmp"
	"slices"

	"github.com/floedb/floe/internal/codec"
)

// Func is an aggregate function over the points of a bucket.
type Func uint8

// The functions. All except Count have no value for a bucket without points, and Stddev has none
// for a single point.
const (
	Count Func = iota + 1
	Total
	Avg
	Min
	Max
	First
	Last
	Stddev
	Spread
	Percentile
)

// column holds the states of one function for blockLen consecutive panes.
type column interface {
	// add adds at least one point to state i. key is the key of the points' series.
	add(i int, key string, times []int64, values []float64)
	// merge adds state j of another column of the same type, which it leaves unchanged.
	merge(i int, o column, j int)
	// empty reports whether a state has no points.
	empty(i int) bool
	// final computes the function; ok is false if there are too few points.
	final(i int) (float64, bool)
	// code codes a state that is not empty.
	code(i int, c *codec.Coder)
	// bytes is the part of a state's memory that grows with its points, in addition to the fixed
	// size of the column.
	bytes(i int) int64
}

// funcs describes how to compute each function.
var funcs = [...]struct {
	column func(f Func, p float64) column
	bytes  int64 // of a state
}{
	Count:      {newMoment, 40},
	Total:      {newMoment, 40},
	Avg:        {newMoment, 40},
	Min:        {newExtreme, 24},
	Max:        {newExtreme, 24},
	First:      {newEdge, 40},
	Last:       {newEdge, 40},
	Stddev:     {newDeviation, 72},
	Spread:     {newExtreme, 24},
	Percentile: {newSample, 24},
}

func (f Func) valid() bool { return f >= Count && int(f) < len(funcs) }

// blockLen is the number of panes that share a column. A window of a few hundred buckets, as in
// charts, is a few blocks. Panes far apart take a block of 32 states each, which the budget counts.
const (
	blockShift = 5
	blockLen   = 1 << blockShift
)

// block is a column and its number: the number of its first pane divided by blockLen.
type block struct {
	number int64
	column column
}

// group holds the states of all panes of one group. Panes without points take no memory unless they
// share a block.
type group struct {
	blocks []block // sorted by number, unless there is an index
	latest int     // the block used last
	// index maps block numbers to places. It exists once a block has arrived out of order, because
	// inserting each at its sorted place would take quadratic time.
	index map[int64]int
}

// find returns the place of the block with a number, or false.
func (g *group) find(number int64) (int, bool) {
	if i := g.latest; i < len(g.blocks) && g.blocks[i].number == number {
		return i, true
	}
	if n := len(g.blocks); g.index == nil && (n == 0 || g.blocks[n-1].number < number) {
		return 0, false
	}
	i, found := g.index[number]
	if g.index == nil {
		i, found = slices.BinarySearchFunc(g.blocks, number, block.compare)
	}
	if found {
		g.latest = i
	}
	return i, found
}

func (b block) compare(number int64) int { return cmp.Compare(b.number, number) }

// add adds a block that does not exist yet, and returns its place.
func (g *group) add(b block) int {
	g.latest = len(g.blocks)
	if g.index == nil && g.latest > 0 && g.blocks[g.latest-1].number > b.number {
		g.index = make(map[int64]int)
		for i := range g.blocks {
			g.index[g.blocks[i].number] = i
		}
	}
	if g.index != nil {
		g.index[b.number] = g.latest
	}
	g.blocks = append(g.blocks, b)
	return g.latest
}

// sort sorts the blocks by number.
func (g *group) sort() {
	if g.index != nil {
		slices.SortFunc(g.blocks, func(a, b block) int { return a.compare(b.number) })
		g.index, g.latest = nil, 0
	}
}
