//go:build !linux

package shard

import "time"

// threadTime is not available.
func threadTime() time.Duration { return 0 }
