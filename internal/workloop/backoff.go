package workloop

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pauses after errors that may pass.
const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)

// backoff returns the pauses between attempts: each is up to twice as long as the one before, and they differ from one process to the next, so that those
// who were cut off together do not come back together.
type backoff struct{ pause time.Duration }

func (b *backoff) next() time.Duration {
	b.pause = min(max(2*b.pause, minPause), maxPause)
	return b.pause/2 + rand.N(b.pause/2)
}

func (b *backoff) reset() { b.pause = 0 }

// wait waits for the next pause to pass, and reports whether it has before ctx has ended.
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

// Retry calls f until it succeeds, with pauses, as long as its errors may pass; what does not exist may come to be. They are reported.
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
