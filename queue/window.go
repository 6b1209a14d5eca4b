package queue

import (
	"bytes"
	"slices"
	"sort"

	"github.com/floedb/floe/internal/engine"
)

// window is the beginning of an index of messages, kept in memory. So taking the first message does
// not read the state, where the deleted rows of earlier messages precede it.
//
// items are exactly the messages of the index before rest, in order. Messages added at rest or
// later are ignored: the next fill of the empty window starts at rest and finds them. A full window
// returns its last items to the state.
//
//	items 3 5 8, rest 9   put 7: 3 5 7 8   put 12: ignored   take: 5 7 8 ... and when it is empty: fill from 9
type window struct {
	items []item
	head  int // number of items taken from the front
	bytes int // of the rows in items
	rest  position
	batch int // maximum number of items per fill
	max   *limits
}

// item is a message of the index.
type item struct {
	at  position
	row []byte // of a fresh message; nil if it must be read
}

// limits bound the machine's memory; they affect no answer.
type limits struct {
	items  int // in a window
	bytes  int // of the rows in a window
	row    int // of a row in a window; a larger one is read on delivery
	queues int // bytes of all queues
}

var standardLimits = limits{items: 1024, bytes: 1 << 20, row: 64 << 10, queues: 32 << 20}

func (w *window) live() []item { return w.items[w.head:] }

// find returns the position of p among the live items, or the position at which it would be
// inserted.
func (w *window) find(p position) (i int, found bool) {
	live := w.live()
	if n := len(live); n == 0 || live[n-1].at.less(p) {
		return n, false
	}
	i = sort.Search(len(live), func(i int) bool { return !live[i].at.less(p) })
	return i, live[i].at == p
}

// wants reports whether a new message of the index belongs in the window.
func (w *window) wants(p position) bool { return p.less(w.rest) }

// put adds a message of the index that the window wants.
func (w *window) put(it item) {
	i, _ := w.find(it.at)
	if w.head > 0 && i == 0 {
		w.head--
		w.items[w.head] = it
	} else {
		w.items = slices.Insert(w.items, w.head+i, it)
	}
	w.bytes += len(it.row)
	for len(w.live()) > w.max.items || w.bytes > w.max.bytes && len(w.live()) > 1 {
		last := len(w.items) - 1
		w.rest = w.items[last].at
		w.bytes -= len(w.items[last].row)
		w.items[last] = item{}
		w.items = w.items[:last]
	}
}

// firstBatch is the number of messages in the first fill of a window.
const firstBatch = 8

// widen makes the next fill read as many messages as are wanted, and at least twice as many as the
// last one. So the cost of filling is proportional to the number taken, even if the queue is
// dropped from memory after each command.
func (w *window) widen(want int) { w.batch = min(max(firstBatch, 2*w.batch, want), w.max.items) }

// full reports whether nothing more should be added after the last item.
func (w *window) full() bool { return len(w.live()) >= w.batch || w.bytes >= w.max.bytes }

// fill appends the messages of an iterator, with their rows if rows is set. It returns the first
// one not added, if any.
func (w *window) fill(it *engine.Iter, rows bool) (rest position, more bool) {
	for ok := it.First(); ok; ok = it.Next() {
		p, _ := placeAt(it.Key(), numberAt)
		if w.full() {
			return p, true
		}
		var row []byte
		if rows {
			row = it.Value()
		}
		w.append(p, row)
	}
	return end, false
}

// take removes the first item.
func (w *window) take() item {
	it := w.items[w.head]
	w.items[w.head] = item{}
	w.head++
	w.bytes -= len(it.row)
	switch {
	case w.head == len(w.items):
		w.items, w.head = w.items[:0], 0
	case w.head >= w.max.items:
		// Reuse the free space at the front before append would allocate more.
		n := copy(w.items, w.live())
		clear(w.items[n:])
		w.items, w.head = w.items[:n], 0
	}
	return it
}

// remove removes a message from the window and returns its item. If the message is not in the
// window, the item has no row.
func (w *window) remove(p position) item {
	i, found := w.find(p)
	if !found {
		return item{at: p}
	}
	i += w.head
	it := w.items[i]
	w.bytes -= len(it.row)
	w.items = slices.Delete(w.items, i, i+1)
	return it
}

// append adds a message after all others, from the state. The row is copied.
func (w *window) append(p position, row []byte) {
	it := w.item(p, row)
	w.items = append(w.items, it)
	w.bytes += len(it.row)
}

// item makes an item from a message and its row, which is copied.
func (w *window) item(p position, row []byte) item {
	if len(row) > w.max.row {
		row = nil
	}
	return item{at: p, row: bytes.Clone(row)}
}
