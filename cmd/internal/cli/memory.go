package cli

import (
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"strings"

	"github.com/floedb/floe/internal/budget"
)

// findMemory sets the memory to what the process is allowed, unless it is configured.
func (c *config) findMemory() {
	defer func() {
		if c.cacheSize == 0 {
			c.text["cache-size"] = shownSize(c.limits().Cache)
		}
	}()
	if c.memory != 0 {
		return
	}
	total, from := budget.Found()
	if total == 0 { // no limit was found
		return
	}
	c.allowed = total
	// a node needs at least budget.Least, and without a bound it would be killed sooner
	total = max(min(total, 1<<45)/(1<<20)*(1<<20), budget.Least)
	c.memory = total
	c.text["memory"], c.spelled["memory"] = shownSize(total), from+"="+shownSize(total)
}

// checkMemory returns an error if the parts of the memory do not fit into it: memory would not be a
// bound then.
func (c *config) checkMemory() error {
	if c.memory == 0 {
		return nil
	}
	l := c.limits()
	shares := l.Shares(c.memory, c.dividedShards())
	rest := shares[len(shares)-1].Bytes
	if rest >= 0 {
		return nil
	}
	var given []string
	for _, flag := range []string{"cache-size", "max-connections", "max-in-flight", "max-waiting", "max-requests", "shards"} {
		if spelled := c.spelled[flag]; spelled != "" {
			given = append(given, spelled)
		}
	}
	return fmt.Errorf("%s: the parts come to %s with %s: make them smaller, or the memory larger", c.spelled["memory"],
		budget.Size((c.memory-rest)>>20<<20), strings.Join(given, ", "))
}

// boundMemory makes Go's runtime collect garbage earlier instead of exceeding the memory.
func (c *config) boundMemory() {
	if c.memory > 0 && debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(c.heapLimit(offHeap))
	}
}

// heapLimit is the memory limit of Go's runtime: nine tenths of the memory, minus memory allocated
// outside of the runtime.
func (c *config) heapLimit(offHeap bool) int64 {
	most := c.memory / 10 * 9
	if !offHeap {
		return most
	}
	l := c.limits()
	return max(most-l.Cache-l.MemTables(), c.memory/4)
}

// dividedShards is the number of shards by which the memory is divided. The number of shards of an
// existing directory is not known yet.
func (c *config) dividedShards() int {
	if c.shards > 0 {
		return c.shards
	}
	return 4
}

// limits returns the limits of the node and its dashboard.
func (c *config) limits() budget.Limits {
	l := budget.Default()
	if c.memory > 0 {
		l = budget.Divide(c.memory, c.dividedShards())
	}
	if c.cacheSize > 0 {
		l.Cache = c.cacheSize
	}
	for _, set := range []struct {
		limit *int
		to    int
	}{{&l.Connections, c.maxConnections}, {&l.Calls, c.maxInFlight}, {&l.Waits, c.maxWaiting}, {&l.HTTPRequests, c.maxRequests}} {
		if set.to > 0 {
			*set.limit = set.to
		}
	}
	if c.maxConnections > 0 {
		l.HTTPConnections = min(c.maxConnections, defaultHTTPConnections)
	}
	l.FitFiles(c.files)
	return l
}

// printMemory writes the shares of the memory as comments.
func (c *config) printMemory(w io.Writer) {
	l := c.limits()
	if c.memory == 0 {
		fmt.Fprintf(w, "\n# Memory has no bound as a whole. Each part has one:\n")
	} else {
		fmt.Fprintf(w, "\n# How %s of memory are divided:\n", budget.Size(c.memory))
	}
	shares := l.Shares(c.memory, c.dividedShards())
	if c.memory == 0 {
		shares = shares[:len(shares)-1]
	}
	for _, s := range shares {
		fmt.Fprintf(w, "#   %-12s %s\n", budget.Size(s.Bytes), s.What)
	}
	if rest := shares[len(shares)-1]; c.memory > 0 && rest.Bytes < c.memory/10 {
		fmt.Fprintf(w, "# That leaves too little: make the parts smaller, or memory larger.\n")
	}
}
