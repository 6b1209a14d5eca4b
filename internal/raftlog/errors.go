package raftlog

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by every write to a closed log.
	ErrClosed = errors.New("ual: log is closed")

	// ErrCorrupt matches every *CorruptionError: bytes that were once durable are damaged or gone.
	ErrCorrupt = errors.New("ual: log is corrupt")

	// ErrNewer is returned by Open for a log written by a newer version of floe. Open then changes
	// no file.
	ErrNewer = errors.New("written by a newer version")
)

// CorruptionError reports where the log is damaged. It matches ErrCorrupt. The log never repairs or
// removes a file that it reports as corrupt.
type CorruptionError struct {
	File   string // path of the segment
	Offset int64  // of the damaged record
	Reason string
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("ual: %s: offset %d: %s", e.File, e.Offset, e.Reason)
}

// Unwrap makes the error match ErrCorrupt.
func (e *CorruptionError) Unwrap() error { return ErrCorrupt }
