package cli

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/floedb/floe/internal/budget"
)

// TestHeapLimit: what the collector keeps to and what it does not see fit into the memory together.
func TestHeapLimit(t *testing.T) {
	c := &config{memory: 512 << 20}
	l := c.limits()
	if got, off := c.heapLimit(true), l.Cache+l.MemTables(); got+off > c.memory/10*9 || got < c.memory/2 {
		t.Errorf("%d bytes of heap and %d beside it, of %d", got, off, c.memory)
	}
	if got := c.heapLimit(false); got != c.memory/10*9 {
		t.Errorf("%d bytes of heap and nothing beside it, want %d", got, c.memory/10*9)
	}
	c.cacheSize = c.memory
	if got := c.heapLimit(true); got != c.memory/4 {
		t.Errorf("%d bytes of heap beside a cache as large as the memory, want %d", got, c.memory/4)
	}
}

// TestLittleMemory: who is allowed less than a node needs gets the least bound there is, not none
// at all.
func TestLittleMemory(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	debug.SetMemoryLimit(40 << 20)
	c := &config{spelled: make(map[string]string), text: make(map[string]string)}
	c.findMemory()
	if c.memory != budget.Least || c.allowed != 40<<20 || c.spelled["memory"] != "GOMEMLIMIT=64MiB" {
		t.Errorf("of 40 MiB: %d bytes, allowed %d, %q", c.memory, c.allowed, c.spelled["memory"])
	}
	if err := c.checkMemory(); err != nil {
		t.Error(err)
	}
}
