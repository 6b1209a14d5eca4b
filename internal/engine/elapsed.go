package engine

import "time"

// Elapsed returns the time of the clock of Mono as finely as the process has it: differences alone
// mean something. What takes less than a millisecond is measured with it.
func (l *Lead) Elapsed() time.Duration {
	if d, ok := l.door.(interface{ Elapsed() time.Duration }); ok {
		return d.Elapsed()
	}
	return time.Duration(l.Mono()) * time.Millisecond
}
