package agg

import (
	"cmp"
	"slices"

	"github.com/floedb/floe/internal/codec"
)

// Func is what is computed of the points of a bucket.
type Func uint8

// The functions. All but Count have no value for a bucket without points, and Stddev none for a
// single point.
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

// column is the states of blockLen panes, one after the other, of one function.
type column interface {
	// add adds points to the state i: at least one. The key is that of their series.
	add(i int, key string, times []int64, values []float64)
	// merge adds the state j of another column of the same type, which it leaves as it is.
	merge(i int, o column, j int)
	// empty reports whether a state has no points.
	empty(i int) bool
	// final computes the function, if the points allow it.
	final(i int) (float64, bool)
	// code codes a state that is not empty.
	code(i int, c *codec.Coder)
	// bytes is the memory of a state beside that which every column has: what grows with its
	// points.
	bytes(i int) int64
}

// funcs says how to compute each function.
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

// blockLen is how many panes share a column. A window of a few hundred buckets, as charts have, is
// a few blocks; of panes far apart each takes a block of 32 states, which the budget counts.
const (
	blockShift = 5
	blockLen   = 1 << blockShift
)

// block is a column and the number of its first pane divided by blockLen.
type block struct {
	number int64
	column column
}

// group is the states of all panes of what is aggregated together. Panes without points take no
// memory, but those that share a block.
type group struct {
	blocks []block // by number, unless there is an index
	latest int     // the block used last
	// index has the places of all blocks, by number, since one came that is not behind all others:
	// to insert each where it belongs would take the square of their number.
	index map[int64]int
}

// find returns the block with a number, or false.
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

// add adds a block that find has not found, and returns its place.
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

// sort puts the blocks into their order.
func (g *group) sort() {
	if g.index != nil {
		slices.SortFunc(g.blocks, func(a, b block) int { return a.compare(b.number) })
		g.index, g.latest = nil, 0
	}
}
