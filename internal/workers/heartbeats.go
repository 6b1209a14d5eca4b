package workers

import (
	"sync"

	"github.com/floedb/floe/internal/engine"
)

// heartbeats is what the leader of a shard has heard of workers in its term. Who joins is heard of, and so is who reports, also between the election and the begin of the
// duty, which is when a process that has just been answered by the leader would otherwise be told that all is well and be forgotten.
type heartbeats struct {
	mu    sync.Mutex // guards all below
	term  uint64     // in which this replica leads or has led last
	leads bool       // the duty does its work
	since moment     // when the term began here
	last  map[workerRef]*heartbeat
}

// who is a worker among all of a shard.
type workerRef struct {
	ns uint32
	id string
}

// moment is a time by the shard's clock, which is kept and shown, and by one that nobody sets: silence is measured with that. Both in ms.
type moment struct{ at, mono int64 }

// unmeasured is the mono of something that a command has told, which has no clock. It is measured from the next look on.
const unmeasured = -1 << 63

// heartbeat is what was heard of a life of a worker last.
type heartbeat struct {
	life uint64
	moment
	load    int
	present workerStats
	early   bool // it was heard before the duty of the term has begun
	bare    bool // only that it has called: how it is, the row says
}

// lead begins a term. What was heard in others is forgotten, but for who has reported to this replica a moment ago.
func (h *heartbeats) lead(term uint64, now moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leads = true; h.term == term {
		return
	}
	h.term, h.since = term, now
	for w, at := range h.last {
		if !at.early || at.mono != unmeasured && now.mono-at.mono >= silentMillis {
			delete(h.last, w)
		}
		at.early = false
	}
}

// stepDown ends that.
func (h *heartbeats) stepDown() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leads = false
}

// joined notes, when the command is done, that a worker is there.
func (h *heartbeats) joined(tx *engine.Tx, id string, r *row) {
	w, heard := workerRef{tx.Namespace(), id}, &heartbeat{
		life: r.life, moment: moment{r.seen, unmeasured}, load: r.load, present: r.present, bare: r.unregistered,
	}
	tx.OnCommit(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		switch at := h.last[w]; {
		case at != nil && at.life == heard.life && heard.life != 0:
			at.at, at.mono = max(at.at, heard.at), unmeasured
		case h.leads:
			h.set(w, heard)
		default:
			delete(h.last, w) // the row has it all
		}
	})
	tx.Notify(topic(), -1)
}

// called notes, when the command is done, that a worker that calls by itself has done so. It has a row.
func (h *heartbeats) called(tx *engine.Tx, id string) {
	w, at := workerRef{tx.Namespace(), id}, tx.Now()
	tx.OnCommit(func() { h.calls(w, at) })
}

// calls notes that a worker that calls by itself, and has a row, has done so at a time.
func (h *heartbeats) calls(w workerRef, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch heard := h.last[w]; {
	case !h.leads:
	case heard == nil:
		h.set(w, &heartbeat{moment: moment{at, unmeasured}, bare: true})
	case heard.life == 0:
		heard.at, heard.mono = max(heard.at, at), unmeasured
	}
}

// left forgets a worker when the command is done.
func (h *heartbeats) left(tx *engine.Tx, id string) {
	w := workerRef{tx.Namespace(), id}
	tx.OnCommit(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.last, w)
	})
}

// update notes the report of a worker, if that has been heard of before in this life.
func (h *heartbeats) update(w workerRef, r *report, now moment) (known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.last[w]
	if at == nil || at.life != r.life || at.bare || !h.leads && !at.early {
		return false
	}
	at.at, at.mono, at.load, at.present = max(at.at, now.at), now.mono, r.load, r.present
	return true
}

// begin notes the first report of a worker whose row was read.
func (h *heartbeats) begin(w workerRef, r *report, now moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(w, &heartbeat{life: r.life, moment: now, load: r.load, present: r.present, early: !h.leads})
}

// set is called with mu held.
func (h *heartbeats) set(w workerRef, at *heartbeat) {
	if h.last == nil {
		h.last = make(map[workerRef]*heartbeat)
	}
	h.last[w] = at
}

// overlay puts what has been heard over what a row says. age is for how long the worker has been silent, ms; one that the row does not call silent was heard of
// when the term began. Where nobody leads only the row says who is silent.
func (h *heartbeats) overlay(w workerRef, at *row, now moment) (age int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	age = now.at - at.seen // of one that was silent before the term: it may have been in another process
	if heard := h.last[w]; heard != nil && heard.life == at.life && heard.at >= at.seen {
		if heard.mono == unmeasured {
			heard.mono = now.mono
		}
		if still := at.silent && heard.at == at.seen; !still {
			at.silent, age = false, now.mono-heard.mono
		}
		if at.seen = heard.at; !heard.bare {
			at.load, at.present = heard.load, heard.present
		}
	} else if !at.silent && h.leads {
		at.seen, age = max(at.seen, h.since.at), now.mono-h.since.mono
	}
	if !h.leads {
		return 0
	}
	return age
}

// settled reports whether the term has lasted for so long that who is silent now has not merely not found the leader yet.
func (h *heartbeats) settled(now moment) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.mono-h.since.mono >= settleMillis
}

// present returns the time of a look.
func present(v *engine.View) moment { return moment{v.Now(), v.Mono()} }

// topic is notified when the duty may have somebody more to look after.
func topic() engine.Topic { return engine.TopicOf(engine.MachineAction, "", []byte{rowWorker}) }
