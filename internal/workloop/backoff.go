package workloop

import (
	"context"
	"math/rand/v2"
	"time"
)

// Bounds of the pause after a transient error.
const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)

// backoff computes the pauses between attempts. A pause is up to twice as long as the previous one.
// It is random, so that processes that lost a connection at the same time do not retry at the same
// time.
type backoff struct{ pause time.Duration }

func (b *backoff) next() time.Duration {
	b.pause = min(max(2*b.pause, minPause), maxPause)
	return b.pause/2 + rand.N(b.pause/2)
}

func (b *backoff) reset() { b.pause = 0 }

// wait waits for the next pause. It returns false if ctx ends first.
func (b *backoff) wait(ctx context.Context) bool {
	t := time.NewTimer(b.next())
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Retry calls f until it succeeds, with back-off, and reports its errors. It stops at a permanent
// error or when ctx ends. Errors such as ErrNotFound are not permanent, because the object may be
// created.
func Retry(ctx context.Context, report func(error), f func(context.Context) error) error {
	var pauses backoff
	for {
		err := f(ctx)
		if err == nil || final(err) || ctx.Err() != nil {
			return err
		}
		report(err)
		if !pauses.wait(ctx) {
			return ctx.Err()
		}
	}
}
