package workloop

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// A lease is renewed after a third of its duration, together with leases that come due within
// another sixth. A failed renewal is retried after a pause while the lease lasts.

// leaseLocked records the start of a piece's lease.
func (l *Loop[T]) leaseLocked(h *held[T], from time.Time, lease time.Duration) {
	if l.renewer == nil {
		return
	}
	h.lease, h.until, h.renewAt = lease, from.Add(lease), from.Add(lease/3)
	if l.nextDue.IsZero() || h.renewAt.Before(l.nextDue) {
		l.nextDue = h.renewAt
		signal(l.renewSoon)
	}
}

// lease returns the current duration of leases, 0 if the source has none.
func (l *Loop[T]) lease() time.Duration {
	if l.renewer == nil {
		return 0
	}
	return l.renewer.Lease()
}

// renewAll renews leases until ctx ends.
func (l *Loop[T]) renewAll(ctx context.Context) {
	if l.renewer == nil {
		return
	}
	var pauses backoff
	for ctx.Err() == nil {
		due, next, ends := l.due(time.Now())
		if len(due) == 0 {
			l.awaitDue(ctx, next)
			continue
		}
		if err := l.renew(ctx, due, ends); err != nil {
			l.report(nil, err)
			l.postpone(due, min(pauses.next(), l.lease()/10))
		} else {
			pauses.reset()
		}
	}
}

// due returns the pieces whose leases need renewal now, oldest first. If no lease does, next is the
// time of the next renewal, or zero without leases. ends is the earliest expiry of a lease. due
// cancels pieces whose leases have expired.
func (l *Loop[T]) due(now time.Time) (due []*held[T], next, ends time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	urgent := false
	for h := range l.held {
		if h.lost || h.expired {
			continue
		}
		if !now.Before(h.until) {
			l.expireLocked(h)
			continue
		}
		urgent = urgent || !now.Before(h.renewAt)
		next, ends = earlier(next, h.renewAt), earlier(ends, h.until)
		if !now.Before(h.renewAt.Add(-h.lease / 6)) {
			due = append(due, h)
		}
	}
	next = earlier(next, ends)
	l.nextDue = next
	if !urgent {
		return nil, next, ends
	}
	slices.SortFunc(due, func(a, b *held[T]) int { return cmp.Compare(a.serial, b.serial) })
	return due, next, ends
}

// earlier returns the earlier of two times. A zero time is later than any other.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (l *Loop[T]) awaitDue(ctx context.Context, next time.Time) {
	var over <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(time.Until(next))
		defer t.Stop()
		over = t.C
	}
	select {
	case <-over:
	case <-l.renewSoon:
	case <-ctx.Done():
	}
}

// renew renews the leases of pieces. It returns before the first lease ends.
func (l *Loop[T]) renew(ctx context.Context, due []*held[T], ends time.Time) error {
	began := time.Now()
	pieces := make([]T, len(due))
	for i, h := range due {
		pieces[i] = h.piece
	}
	lease := l.lease()
	bounded, cancel := context.WithDeadline(ctx, earlier(began.Add(lease/3), ends))
	defer cancel()
	lost, err := l.renewer.Renew(bounded, pieces)
	lease = min(lease, l.lease()) // the source may have used either
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, h := range due {
		switch {
		case lost != nil && lost[i] != nil:
			l.loseLocked(h)
			h.cancel(&LostError{Err: lost[i]})
		case err == nil && !h.lost:
			l.leaseLocked(h, began, lease)
		}
	}
	return err
}

// confirm renews the lease of a suspect piece and reports whether the loop still holds it. It
// returns false if the piece's context ends first.
func (l *Loop[T]) confirm(h *held[T]) bool {
	var pauses backoff
	for {
		began, lease := time.Now(), l.lease()
		lost, err := l.renewer.Renew(l.settling, []T{h.piece})
		switch {
		case lost != nil && lost[0] != nil:
			return false
		case err == nil:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.leaseLocked(h, began, min(lease, l.lease()))
			return true
		}
		l.report(&h.piece, err)
		if !pauses.wait(h.ctx) {
			return false
		}
	}
}

// postpone schedules the renewal of pieces after a pause.
func (l *Loop[T]) postpone(pieces []*held[T], pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := time.Now().Add(pause)
	for _, h := range pieces {
		h.renewAt = at
	}
}

// loseLocked marks a piece as lost. The pieces behind it in its lane may be lost too, which confirm
// checks.
func (l *Loop[T]) loseLocked(h *held[T]) { h.lost = true }

var errExpired = errors.New("it could not be renewed in time")

// expireLocked cancels the handler of a piece whose lease has ended by this process's clock. A
// waiting piece has no handler and is lost.
func (l *Loop[T]) expireLocked(h *held[T]) {
	h.expired, h.lost = true, !h.running
	h.cancel(&LostError{Err: errExpired})
}

func isLost(err error) bool {
	var lost *LostError
	return errors.As(err, &lost)
}
