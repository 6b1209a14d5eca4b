package machinetest

import (
	"fmt"
	"net"
	"sync"
	"testing"
)

// Addresses of tests lie below the ports that systems give to outgoing connections and to listeners
// that ask for any (32768 and up on Linux, 49152 on others): a port found free among those may be
// taken before the node listens on it, or while the node is down. Each process has a block of them,
// and holds it by listening on its first.
const (
	firstPort = 10_000
	lastPort  = 32_000
	portBlock = 200
)

var ports struct {
	mu   sync.Mutex
	held net.Listener // on the first of the block, until the process ends
	base int
	next int
	used [portBlock]bool // by tests that have not ended
}

// FreeAddr returns an address at which nothing listens. No other test of the process gets it before
// t has ended, also while its node is down.
func FreeAddr(t testing.TB) string {
	t.Helper()
	ports.mu.Lock()
	defer ports.mu.Unlock()
	for base := firstPort; ports.held == nil && base < lastPort; base += portBlock {
		if l, err := net.Listen("tcp", local(base)); err == nil {
			ports.held, ports.base = l, base
		}
	}
	for range portBlock {
		i := 1 + ports.next%(portBlock-1)
		ports.next++
		if ports.used[i] {
			continue
		}
		// To listen here and close would not do: a child process that starts holds copies of all
		// open files until it executes, and so the address.
		addr := local(ports.base + i)
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			continue
		}
		ports.used[i] = true
		t.Cleanup(func() {
			ports.mu.Lock()
			defer ports.mu.Unlock()
			ports.used[i] = false
		})
		return addr
	}
	t.Fatalf("no free port from %d to %d", ports.base, ports.base+portBlock-1)
	return ""
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
