package auth

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/floedb/floe/internal/budget"
	"github.com/floedb/floe/internal/engine"
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

// tooManyError refuses an address from which too many wrong keys came.
type tooManyError struct{ wait time.Duration }

func (e *tooManyError) Error() string {
	return fmt.Sprintf("too many wrong keys from this address: try again in %v", e.wait.Round(time.Second))
}

// Unwrap makes it ErrBusy.
func (*tooManyError) Unwrap() error { return engine.ErrBusy }

// RetryAfter returns when a key may be tried again.
func (e *tooManyError) RetryAfter() time.Duration { return e.wait }

// check returns a tooManyError when too many wrong keys came from an address.
func (f *failures) check(from string, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return tooMany(f.recentLocked(source(from), now), now)
}

func tooMany(recent []time.Time, now time.Time) error {
	if len(recent) < maxFailures {
		return nil
	}
	return &tooManyError{failureTime - now.Sub(recent[0])}
}

func (f *failures) recentLocked(from string, now time.Time) []time.Time {
	recent := f.by[from]
	for len(recent) > 0 && now.Sub(recent[0]) >= failureTime {
		recent = recent[1:]
	}
	return recent
}

// note notes a wrong key, and returns what to tell whoever has shown it: of those who do so at the
// same time, too, no more than maxFailures hear that it was wrong.
func (f *failures) note(from string, now time.Time) error {
	from = source(from)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == nil {
		f.by = make(map[string][]time.Time)
	}
	recent := f.recentLocked(from, now)
	if err := tooMany(recent, now); err != nil {
		return err
	}
	if _, known := f.by[from]; !known && len(f.by) >= maxRemembered {
		f.forgetLocked(now)
	}
	f.by[from] = append(slices.Clone(recent), now)
	return errWrongKey
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

// source returns what counts as one address: of IPv6 a network, since one customer has all its
// addresses.
func source(from string) string {
	addr, err := netip.ParseAddr(from)
	if err != nil {
		return from
	}
	host := budget.Host(addr)
	if host.Is6() && !host.IsLoopback() {
		return host.String() + "/64"
	}
	return host.String()
}
