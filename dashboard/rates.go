package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/floedb/floe"
)

// rateSeconds is the period covered by the rates.
const rateSeconds = 300

// counter is a backend that counts in this process: a node.
type counter interface {
	Rates() floe.Rates
	AddTraffic(received, sent int64)
}

// rates is the body of /console/rates: the counts of each step, oldest first. All lists have the
// same length: shorter if the node has just started, and 0 if it is in another process, which does
// not share its rates.
type rates struct {
	StepMillis int64   `json:"step_ms"`
	Commands   []int64 `json:"commands"`
	BytesIn    []int64 `json:"bytes_in"`
	BytesOut   []int64 `json:"bytes_out"`
}

func (h *handler) consoleRates(context.Context, nothing) (rates, error) {
	n := floe.Rates{Commands: []int64{}, BytesReceived: []int64{}, BytesSent: []int64{}}
	if node := h.traffic.node; node != nil {
		n = node.Rates()
	}
	r := rates{StepMillis: time.Second.Milliseconds(), Commands: n.Commands, BytesIn: n.BytesReceived, BytesOut: n.BytesSent}
	h.traffic.recent.addTo(h.now(), r.BytesIn, r.BytesOut)
	return r, nil
}

// recentBytes counts received and sent bytes by second.
type recentBytes struct {
	mu      sync.Mutex // guards seconds
	seconds [rateSeconds + 2]struct{ at, received, sent int64 }
}

func (b *recentBytes) add(now time.Time, received, sent int64) {
	at := now.Unix()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.seconds[at%int64(len(b.seconds))]
	if s.at != at {
		s.at, s.received, s.sent = at, 0, 0
	}
	s.received += received
	s.sent += sent
}

func (t *traffic) add(now time.Time, received, sent int64) {
	if t.recent.add(now, received, sent); t.node != nil {
		t.node.AddTraffic(received, sent)
		return
	}
	t.received.Add(received)
	t.sent.Add(sent)
}

// addTo adds the counts to lists that end with the second before this one.
func (b *recentBytes) addTo(now time.Time, received, sent []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range received {
		at := now.Unix() - int64(len(received)-i)
		if s := b.seconds[at%int64(len(b.seconds))]; s.at == at {
			received[i] += s.received
			sent[i] += s.sent
		}
	}
}
