package auth

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/plant"
)

// Bounds of attempts with wrong keys.
const (
	maxFailures   = 10 // from an address within failureTime: then it has to wait
	failureTime   = time.Minute
	maxRemembered = 10_000 // addresses
)

// failures remembers from where wrong keys came.
type failures struct {
	mu sync.Mutex             // guards by
	by map[string][]time.Time // address -> when, the last maxFailures of them
}

// check returns ErrBusy when too many wrong keys came from an address.
func (f *failures) check(from string, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.recentLocked(source(from), now)) >= maxFailures {
		return errTooMany
	}
	return nil
}

var errTooMany = engine.Errorf(engine.ErrBusy, "too many wrong keys from this address: try again in a minute")

func (f *failures) recentLocked(from string, now time.Time) []time.Time {
	recent := f.by[from]
	for len(recent) > 0 && now.Sub(recent[0]) >= failureTime {
		recent = recent[1:]
	}
	return recent
}

// note notes a wrong key.
func (f *failures) note(from string, now time.Time) {
	if plant.On(plant.FailuresForgotten) {
		return
	}
	from = source(from)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == nil {
		f.by = make(map[string][]time.Time)
	}
	if _, known := f.by[from]; !known && len(f.by) >= maxRemembered {
		f.forgetLocked(now)
	}
	f.by[from] = append(slices.Clone(f.recentLocked(from, now)), now)
}

// forgetLocked makes room: of those that count no more, or of any one.
func (f *failures) forgetLocked(now time.Time) {
	for from := range f.by {
		if len(f.recentLocked(from, now)) == 0 {
			delete(f.by, from)
		}
	}
	for from := range f.by {
		if len(f.by) < maxRemembered {
			return
		}
		delete(f.by, from)
	}
}

// source returns what counts as one address: of IPv6 a network, since one customer has all its addresses.
func source(from string) string {
	addr, err := netip.ParseAddr(from)
	if err != nil || plant.On(plant.EachAddress) {
		return from
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() && !addr.IsLoopback() {
		if p, err := addr.Prefix(64); err == nil {
			return p.String()
		}
	}
	return addr.String()
}
