//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package shard

import (
	"io"
	"os"
	"syscall"
)

// readLock takes a shared lock for readers, which excludes the lock of a Host.
func readLock(file string) (io.Closer, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	lock := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &lock); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
