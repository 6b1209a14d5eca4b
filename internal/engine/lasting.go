package engine

import (
	"context"
	"time"
)

type lastingKey struct{}

// Lasting marks the calls of what goes on until ctx ends, such as a watch or a wait. A door to other processes outlasts any outage for them, and counts
// them apart from others: many that wait take nothing away from those that do not.
func Lasting(ctx context.Context) context.Context {
	if IsLasting(ctx) {
		return ctx
	}
	return context.WithValue(ctx, lastingKey{}, true)
}

// IsLasting reports whether a call is one of those.
func IsLasting(ctx context.Context) bool { return ctx.Value(lastingKey{}) != nil }

type lingeringKey struct{}

// LingerTime is how long the outcome of a take that lingers is waited for, behind the end of its ctx.
const LingerTime = 5 * time.Second

// Lingering marks takes whose outcome is wanted even if ctx ends while they are under way: what they have taken then would be nobody's, for as long as a lease
// lasts. One that waits is given up at once, as ever. The others return what they have got although ctx has ended, or ctx's error if that takes longer than LingerTime.
func Lingering(ctx context.Context) context.Context {
	if Lingers(ctx) {
		return ctx
	}
	return context.WithValue(ctx, lingeringKey{}, true)
}

// Lingers reports whether a take is one of those.
func Lingers(ctx context.Context) bool { return ctx.Value(lingeringKey{}) != nil }
