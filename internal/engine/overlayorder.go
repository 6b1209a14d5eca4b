package engine

import (
	"bytes"
	"slices"
	"sort"
)

// overlayOrder keeps the ops of an overlay in key order while more are added. It consists of runs
// of positions, each sorted and at least twice as long as the next. New positions are sorted
// separately and then merged with the runs that are not much longer. So even if iteration follows
// every few writes, the cost per write is logarithmic.
//
// A run holds the positions after those of the previous run, without a gap, so a rollback shortens
// the last runs.
type overlayOrder struct {
	runs  [][]int32
	free  [][]int32 // buffers of former runs
	found []int32
	moves int // total of positions sorted, merged or copied
}

// covered returns the number of ops in the runs.
func (r *overlayOrder) covered() (n int) {
	for _, run := range r.runs {
		n += len(run)
	}
	return n
}

// update adds the new ops.
func (r *overlayOrder) update(ops []overlayOp) {
	from := r.covered()
	if from == len(ops) {
		return
	}
	run := r.buffer(len(ops) - from)
	for i := from; i < len(ops); i++ {
		run = append(run, int32(i))
	}
	sortOps(run, ops)
	r.moves += len(run)
	for n := len(r.runs); n > 0 && len(r.runs[n-1]) < 2*len(run); n-- {
		run = r.merge(ops, r.runs[n-1], run)
		r.runs = r.runs[:n-1]
	}
	r.runs = append(r.runs, run)
}

func sortOps(run []int32, ops []overlayOp) {
	slices.SortFunc(run, func(a, b int32) int { return bytes.Compare(ops[a].key, ops[b].key) })
}

// maxFreeRuns is the number of buffers that are kept. There are never more runs than bits in a
// position.
const maxFreeRuns = 32

// buffer returns an empty run with room for n positions.
func (r *overlayOrder) buffer(n int) []int32 {
	if last := len(r.free) - 1; last >= 0 {
		run := r.free[last]
		r.free = r.free[:last]
		return slices.Grow(run[:0], n)
	}
	return make([]int32, 0, n)
}

func (r *overlayOrder) release(run []int32) {
	if len(r.free) < maxFreeRuns {
		r.free = append(r.free, run)
	}
}

// merge returns the positions of two runs in order, and recycles their memory.
func (r *overlayOrder) merge(ops []overlayOp, a, b []int32) []int32 {
	run := r.buffer(len(a) + len(b))
	x, y := a, b
	for len(x) > 0 && len(y) > 0 {
		if bytes.Compare(ops[x[0]].key, ops[y[0]].key) < 0 {
			run, x = append(run, x[0]), x[1:]
		} else {
			run, y = append(run, y[0]), y[1:]
		}
	}
	run = append(append(run, x...), y...)
	r.moves += len(run)
	r.release(a)
	r.release(b)
	return run
}

// shorten drops the positions at and after n.
func (r *overlayOrder) shorten(n int) {
	for covered := r.covered(); covered > n; {
		last := len(r.runs) - 1
		run := r.runs[last]
		if covered -= len(run); covered >= n {
			r.release(run)
			r.runs = r.runs[:last]
			continue
		}
		r.runs[last] = slices.DeleteFunc(run, func(i int32) bool { return int(i) >= n })
		return
	}
}

// seek returns the first index in a run whose key is at or after key.
func (r *overlayOrder) seek(ops []overlayOp, run []int32, key []byte) int {
	return sort.Search(len(run), func(i int) bool { return bytes.Compare(ops[run[i]].key, key) >= 0 })
}

// each calls f for the positions with lower <= key < upper, in no order.
func (r *overlayOrder) each(ops []overlayOp, lower, upper []byte, f func(i int32)) {
	for _, run := range r.runs {
		run = run[r.seek(ops, run, lower):]
		for _, i := range run[:r.seek(ops, run, upper)] {
			f(i)
		}
	}
}

// scan returns the positions with lower <= key < upper in order, until the next call.
func (r *overlayOrder) scan(ops []overlayOp, lower, upper []byte) []int32 {
	r.found = r.found[:0]
	from := 0 // runs that have any
	for _, run := range r.runs {
		run = run[r.seek(ops, run, lower):]
		if run = run[:r.seek(ops, run, upper)]; len(run) > 0 {
			from++
			r.found = append(r.found, run...)
		}
	}
	r.moves += len(r.found)
	if from > 1 {
		sortOps(r.found, ops)
	}
	return r.found
}

// all returns all positions in order.
func (r *overlayOrder) all(ops []overlayOp) []int32 {
	for n := len(r.runs); n > 1; n-- {
		r.runs[n-2] = r.merge(ops, r.runs[n-2], r.runs[n-1])
		r.runs = r.runs[:n-1]
	}
	if len(r.runs) == 0 {
		return nil
	}
	return r.runs[0]
}
