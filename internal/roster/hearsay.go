package roster

import (
	"sync"

	"github.com/floedb/floe/internal/engine"
)

// hearsay is what the leader of a shard has heard of workers in its term. Who joins is heard of, and so is who reports, also between the election and the begin of the
// duty, which is when a process that has just been answered by the leader would otherwise be told that all is well and be forgotten.
type hearsay struct {
	mu    sync.Mutex // guards all below
	term  uint64     // in which this replica leads or has led last
	leads bool       // the duty does its work
	since int64      // when the term began here, ms
	heard map[who]*hearing
}

// who is a worker among all of a shard.
type who struct {
	ns uint32
	id string
}

// hearing is what was heard of a life of a worker last.
type hearing struct {
	life    uint64
	at      int64 // ms
	load    int
	present tallies
	early   bool // it was heard before the duty of the term has begun
}

// lead begins a term. What was heard in others is forgotten, but for who has reported to this replica a moment ago.
func (h *hearsay) lead(term uint64, now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leads = true; h.term == term {
		return
	}
	h.term, h.since = term, now
	for w, at := range h.heard {
		if !at.early || now-at.at >= silentMillis {
			delete(h.heard, w)
		}
		at.early = false
	}
}

// rest ends that.
func (h *hearsay) rest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leads = false
}

// joined notes, when the command is done, that a worker is there.
func (h *hearsay) joined(tx *engine.Tx, id string, r *row) {
	w, heard := who{tx.Namespace(), id}, &hearing{r.life, r.seen, r.load, r.present, false}
	tx.OnCommit(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		switch at := h.heard[w]; {
		case at != nil && at.life == heard.life && heard.life != 0:
			at.at = max(at.at, heard.at)
		case h.leads:
			h.set(w, heard)
		default:
			delete(h.heard, w) // the row has it all
		}
	})
	tx.Notify(topic(), -1)
}

// left forgets a worker when the command is done.
func (h *hearsay) left(tx *engine.Tx, id string) {
	w := who{tx.Namespace(), id}
	tx.OnCommit(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.heard, w)
	})
}

// update notes the report of a worker, if that has been heard of before in this life.
func (h *hearsay) update(w who, r *report, now int64) (known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.heard[w]
	if at == nil || at.life != r.life || !h.leads && !at.early {
		return false
	}
	at.at, at.load, at.present = max(at.at, now), r.load, r.present
	return true
}

// begin notes the first report of a worker whose row was read.
func (h *hearsay) begin(w who, r *report, now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(w, &hearing{r.life, now, r.load, r.present, !h.leads})
}

// set is called with mu held.
func (h *hearsay) set(w who, at *hearing) {
	if h.heard == nil {
		h.heard = make(map[who]*hearing)
	}
	h.heard[w] = at
}

// overlay puts what has been heard over what a row says. age is for how long the worker has been silent, ms; one that the row does not call silent was heard of
// when the term began. Where nobody leads only the row says who is silent.
func (h *hearsay) overlay(w who, at *row, now int64) (age int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if heard := h.heard[w]; heard != nil && heard.life == at.life && heard.at >= at.seen {
		at.silent = at.silent && heard.at == at.seen
		at.seen, at.load, at.present = heard.at, heard.load, heard.present
	} else if !at.silent && h.leads {
		at.seen = max(at.seen, h.since)
	}
	if !h.leads {
		return 0
	}
	return now - at.seen
}

// settled reports whether the term has lasted for so long that who is silent now has not merely not found the leader yet.
func (h *hearsay) settled(now int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now-h.since >= settleMillis
}

// topic is notified when the duty may have somebody more to look after.
func topic() engine.Topic { return engine.TopicOf(engine.MachineAction, "", []byte{rowWorker}) }
