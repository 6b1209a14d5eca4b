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

// Limits on attempts with wrong keys.
const (
	maxFailures   = 10 // from an address within failureTime; further attempts are refused
	failureTime   = time.Minute
	maxRemembered = 10_000 // addresses
)

// failures records the addresses of wrong keys.
type failures struct {
	mu sync.Mutex             // guards by
	by map[string][]time.Time // address -> times of the last maxFailures attempts
}

// tooManyError refuses an address that sent too many wrong keys.
type tooManyError struct{ wait time.Duration }

func (e *tooManyError) Error() string {
	return fmt.Sprintf("too many wrong keys from this address: try again in %v", e.wait.Round(time.Second))
}

// Unwrap returns ErrBusy.
func (*tooManyError) Unwrap() error { return engine.ErrBusy }

// RetryAfter returns how long to wait before the next attempt.
func (e *tooManyError) RetryAfter() time.Duration { return e.wait }

// check returns a tooManyError if too many wrong keys came from an address.
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

// note records a wrong key and returns the error for its caller. Even among concurrent attempts, at
// most maxFailures callers learn that their key was wrong.
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

// forgetLocked makes room: it removes expired entries first, then arbitrary ones.
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

// source returns the unit of the limits for an address. For IPv6 it is a /64 network, since one
// customer has all of its addresses.
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
