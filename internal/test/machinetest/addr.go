package machinetest

import (
	"fmt"
	"net"
	"sync"
	"testing"
)

// Test addresses lie below the ports that systems give to outgoing connections and to listeners on
// any port (32768 and up on Linux, 49152 on others). A free port in that range might be taken
// before the node listens on it, or while the node is down. Each process owns a block of addresses
// and holds it by listening on its first one.
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
	used [portBlock]bool // by tests that are still running
}

// FreeAddr returns an address at which nothing listens. No other test of the process gets it before
// t ends, even while its node is down.
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
		// Listening here and closing would not do. A starting child process holds copies of all
		// open files, and so the address, until it executes.
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
