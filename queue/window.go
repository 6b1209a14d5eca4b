package queue

import (
	"bytes"
	"slices"
	"sort"
)

// window is the beginning of an index of messages that is kept in memory, so that taking the first one needs no look into the state:
// there the remains of all that were taken lie in front of it.
//
// All of the index before rest is in items, in order, and nothing else. What is put in behind rest is ignored: it is found when the window, empty, is
// filled again from rest on. A window that is full gives its last items up, back to the state.
//
//	items 3 5 8, rest 9   put 7: 3 5 7 8   put 12: ignored   take: 5 7 8 ... and when it is empty: fill from 9
type window struct {
	items []item
	head  int // items before it have been taken
	bytes int // of the rows in items
	rest  place
	max   *limits
}

// item is a message of the index.
type item struct {
	at  place
	row []byte // of kind 'm'; nil if it has to be read
}

// limits are what the machine keeps in memory at most; they show in no answer.
type limits struct {
	items  int // of a window
	bytes  int // of the rows in a window
	row    int // of a row in a window; a larger one is read when it is delivered
	queues int // bytes of all queues
}

var standardLimits = limits{items: 1024, bytes: 1 << 20, row: 64 << 10, queues: 32 << 20}

func (w *window) live() []item { return w.items[w.head:] }

// find returns the position among the live items at which p is or would be.
func (w *window) find(p place) (i int, found bool) {
	live := w.live()
	if n := len(live); n == 0 || live[n-1].at.less(p) {
		return n, false
	}
	i = sort.Search(len(live), func(i int) bool { return !live[i].at.less(p) })
	return i, live[i].at == p
}

// wants reports whether a message that is new in the index belongs into the window.
func (w *window) wants(p place) bool { return p.less(w.rest) }

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

// full reports whether nothing more should be added behind the last item.
func (w *window) full() bool { return len(w.live()) >= w.max.items || w.bytes >= w.max.bytes }

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
		// The room in front is used again before append would ask for more.
		n := copy(w.items, w.live())
		clear(w.items[n:])
		w.items, w.head = w.items[:n], 0
	}
	return it
}

// remove removes the message, if it is there.
func (w *window) remove(p place) {
	if i, found := w.find(p); found {
		i += w.head
		w.bytes -= len(w.items[i].row)
		w.items = slices.Delete(w.items, i, i+1)
	}
}

// append adds a message behind all others, from the state. The row is copied.
func (w *window) append(p place, row []byte) {
	it := w.item(p, row)
	w.items = append(w.items, it)
	w.bytes += len(it.row)
}

// item makes an item of a message and its row, which is copied.
func (w *window) item(p place, row []byte) item {
	if len(row) > w.max.row {
		row = nil
	}
	return item{at: p, row: bytes.Clone(row)}
}
