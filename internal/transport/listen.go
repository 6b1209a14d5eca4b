package transport

import (
	"net"
	"sync/atomic"
	"syscall"
)

// Listen listens on a TCP address. Closing the listener frees the address at once, so that a node
// can be reopened in the same process.
//
// Closing the socket alone does not free it while a child process starts, because the child holds
// copies of all open files until it executes. So the socket is shut down first, which ends
// listening for all copies.
func Listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &listener{TCPListener: l.(*net.TCPListener)}, nil
}

type listener struct {
	*net.TCPListener
	closed atomic.Bool
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if err != nil && l.closed.Load() {
		err = net.ErrClosed
	}
	return conn, err
}

func (l *listener) Close() error {
	if l.closed.CompareAndSwap(false, true) {
		if raw, err := l.SyscallConn(); err == nil {
			// If this fails, the child keeps the address for the moment until it executes.
			_ = raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
		}
	}
	return l.TCPListener.Close()
}
