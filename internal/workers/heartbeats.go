package workers

import (
	"sync"

	"github.com/floedb/floe/internal/engine"
)

// heartbeats holds the latest heartbeat of each worker that the shard's leader received in its
// term. Joins and reports count as heartbeats. Reports are also recorded between the election and
// the start of the duty, because the process has received an answer and would not send the report
// again.
type heartbeats struct {
	mu    sync.Mutex // guards all below
	term  uint64     // latest term in which this replica led
	leads bool       // the duty is running
	since moment     // start of the term on this replica
	last  map[workerRef]*heartbeat
}

// workerRef identifies a worker within a shard.
type workerRef struct {
	ns uint32
	id string
}

// moment is a time in ms by two clocks. at is the shard's clock, which is stored and shown. mono is
// a monotonic clock, which measures silence.
type moment struct{ at, mono int64 }

// unmeasured is the mono of a heartbeat recorded by Apply, which has no clock. The next read
// replaces it.
const unmeasured = -1 << 63

// heartbeat is the latest heartbeat of a worker's life.
type heartbeat struct {
	life uint64
	moment
	load    int
	present workerStats
	early   bool // received before the duty of the term started
	bare    bool // without load and stats: those of the row apply
}

// lead starts a term. It drops the heartbeats of earlier terms, except early ones less than 90 s
// old.
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

// stepDown records that the duty has stopped.
func (h *heartbeats) stepDown() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leads = false
}

// joined records a heartbeat for a worker that joined, when the command commits.
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
			delete(h.last, w) // the row is complete
		}
	})
	tx.Notify(topic(), -1)
}

// called records a heartbeat for a polling worker that has a row, when the command commits.
func (h *heartbeats) called(tx *engine.Tx, id string) {
	w, at := workerRef{tx.Namespace(), id}, tx.Now()
	tx.OnCommit(func() { h.calls(w, at) })
}

// calls records a heartbeat at the given time for a polling worker that has a row.
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

// left drops a worker's heartbeat when the command commits.
func (h *heartbeats) left(tx *engine.Tx, id string) {
	w := workerRef{tx.Namespace(), id}
	tx.OnCommit(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.last, w)
	})
}

// update records a worker's report and returns true. It returns false if there is no heartbeat of
// that life to update, in which case the caller must read the row.
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

// begin records the first report of a worker whose row the caller has read.
func (h *heartbeats) begin(w workerRef, r *report, now moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(w, &heartbeat{life: r.life, moment: now, load: r.load, present: r.present, early: !h.leads})
}

// set stores a heartbeat. The caller holds mu.
func (h *heartbeats) set(w workerRef, at *heartbeat) {
	if h.last == nil {
		h.last = make(map[workerRef]*heartbeat)
	}
	h.last[w] = at
}

// overlay applies the worker's heartbeat to its row and returns the worker's silence in ms. A
// worker without a heartbeat whose row is not silent counts as seen when the term began. On a
// replica that does not lead, age is 0 and only the row determines whether the worker is silent.
func (h *heartbeats) overlay(w workerRef, at *row, now moment) (age int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	age = now.at - at.seen // a worker silent since before the term has no monotonic time here
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

// settled reports whether the term has lasted long enough for every live worker to find the leader.
func (h *heartbeats) settled(now moment) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.mono-h.since.mono >= settleMillis
}

// present returns the view's current time.
func present(v *engine.View) moment { return moment{v.Now(), v.Mono()} }

// topic is notified when a worker is added, so that the duty scans the rows.
func topic() engine.Topic { return engine.TopicOf(engine.MachineAction, "", []byte{rowWorker}) }
