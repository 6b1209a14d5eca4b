//go:build !linux

package shard

import "time"

// threadTime is not known.
func threadTime() time.Duration { return 0 }
