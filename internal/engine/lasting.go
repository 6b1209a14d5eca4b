package engine

import "context"

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
