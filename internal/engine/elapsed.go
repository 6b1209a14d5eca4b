package engine

import "time"

// Elapsed returns the time of Mono's clock in the process's finest resolution. Only differences are
// meaningful. It measures durations of less than a millisecond.
func (l *Lead) Elapsed() time.Duration {
	if d, ok := l.door.(interface{ Elapsed() time.Duration }); ok {
		return d.Elapsed()
	}
	return time.Duration(l.Mono()) * time.Millisecond
}
