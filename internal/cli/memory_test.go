package cli

import "testing"

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
