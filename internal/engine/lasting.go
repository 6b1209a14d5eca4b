package engine

import (
	"context"
	"time"
)

type lastingKey struct{}

// Lasting marks calls that last until ctx ends, such as a watch or a wait. A door to other
// processes retries them through any outage and counts them separately, so that many waiting calls
// do not take capacity from the others.
func Lasting(ctx context.Context) context.Context {
	if IsLasting(ctx) {
		return ctx
	}
	return context.WithValue(ctx, lastingKey{}, true)
}

// IsLasting reports whether a call was marked by Lasting.
func IsLasting(ctx context.Context) bool { return ctx.Value(lastingKey{}) != nil }

type lingeringKey struct{}

// LingerTime is how long a lingering take waits for its result after its ctx has ended.
const LingerTime = 5 * time.Second

// Lingering marks takes whose result the caller wants even if ctx ends while they are being
// executed. Otherwise the items they took would be unavailable until their leases expired. A take
// that is still waiting is abandoned at once, as usual. Any other take returns its result although
// ctx has ended, or ctx's error if that takes longer than LingerTime.
func Lingering(ctx context.Context) context.Context {
	if Lingers(ctx) {
		return ctx
	}
	return context.WithValue(ctx, lingeringKey{}, true)
}

// Lingers reports whether ctx was marked by Lingering.
func Lingers(ctx context.Context) bool { return ctx.Value(lingeringKey{}) != nil }
