package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// redis is a Redis server that answers a write when it is on disk. Each caller has a connection
// through a Unix socket.
func (b *bench) redis(callers int) side {
	return func(dir string) (*subject, error) {
		s, _, err := b.openRedis(dir, callers)
		return s, err
	}
}

func (b *bench) openRedis(dir string, callers int) (*subject, *redisServer, error) {
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "yes",
		"--appendfsync", "always")
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	r := &redisServer{cmd: cmd}
	for range callers {
		if err := r.dial(socket); err != nil {
			return nil, nil, errors.Join(err, r.close())
		}
	}
	return &subject{
		ops: 1, bytes: keyBytes + valueBytes, close: r.close,
		call: func(w *worker) error { return r.conns[w.id].set(w.pick(), b.values.cut(w.rng)) },
		warm: func() error { return r.fill(b) },
	}, r, nil
}

type redisServer struct {
	cmd   *exec.Cmd
	conns []*redisConn
}

// redisConn is a connection that speaks RESP, the protocol of Redis, as far as SET needs it.
type redisConn struct {
	net.Conn
	answers *bufio.Reader
	buf     []byte
}

// dial connects; it waits up to 10 s for the server to listen.
func (r *redisServer) dial(socket string) error {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for left := 1000; ; left-- {
		c, err := net.Dial("unix", socket)
		if err == nil {
			r.conns = append(r.conns, &redisConn{Conn: c, answers: bufio.NewReader(c)})
			return nil
		}
		if left == 0 {
			return fmt.Errorf("redis-server does not listen: %w", err)
		}
		<-poll.C
	}
}

// fill stores the fixed keys, a thousand at a time.
func (r *redisServer) fill(b *bench) error {
	c := r.conns[0]
	n := b.settings.fixedKeys()
	for first := 0; first < n; first += 1000 {
		c.buf = c.buf[:0]
		for i := first; i < min(first+1000, n); i++ {
			c.append(keyOf(uint64(i)), b.values[i:][:valueBytes])
		}
		if _, err := c.Write(c.buf); err != nil {
			return err
		}
		for range min(1000, n-first) {
			if err := c.answer(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *redisConn) set(key string, value []byte) error {
	c.buf = c.buf[:0]
	c.append(key, value)
	if _, err := c.Write(c.buf); err != nil {
		return err
	}
	return c.answer()
}

// append adds a SET to buf: an array of three strings, each preceded by its length.
func (c *redisConn) append(key string, value []byte) {
	c.buf = append(c.buf, "*3\r\n$3\r\nSET\r\n$"...)
	c.buf = append(strconv.AppendInt(c.buf, int64(len(key)), 10), "\r\n"...)
	c.buf = append(append(c.buf, key...), "\r\n$"...)
	c.buf = append(strconv.AppendInt(c.buf, int64(len(value)), 10), "\r\n"...)
	c.buf = append(append(c.buf, value...), "\r\n"...)
}

func (c *redisConn) answer() error {
	line, err := c.answers.ReadSlice('\n')
	if err == nil && string(line) != "+OK\r\n" {
		err = fmt.Errorf("redis answers %q", line)
	}
	return err
}

func (r *redisServer) close() error {
	var errs []error
	for _, c := range r.conns {
		errs = append(errs, c.Close())
	}
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		return errors.Join(append(errs, err)...)
	}
	var exited *exec.ExitError
	if err := r.cmd.Wait(); !errors.As(err, &exited) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
