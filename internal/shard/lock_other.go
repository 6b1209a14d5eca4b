//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package shard

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// readLock takes the lock of a Host, because there is no weaker one.
func readLock(file string) (io.Closer, error) { return vfs.Default.Lock(file) }
