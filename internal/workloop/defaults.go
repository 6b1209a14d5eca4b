package workloop

import "time"

// Defaults of consumers and workers. One handler at a time preserves the order of deliveries.
// Container runtimes give a process about 10 s to exit.
const (
	DefaultConcurrency = 1
	DefaultGrace       = 10 * time.Second
)
