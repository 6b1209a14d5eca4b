package agg

// Pre is a function of each series that is computed before its points are aggregated.
type Pre uint8

// The functions for counters.
const (
	Points   Pre = iota // nothing: the points themselves are aggregated
	Increase            // the increase in each pane
	Rate                // the increase divided by the seconds of the pane that are covered
)

// counter computes the increases of one series, whose points arrive in order.
//
// A difference belongs to the pane of its later point. A value below its predecessor is a reset:
// the counter started at 0 again, and its new value is the difference. The very first point has no
// difference. So the increase of a pane is its last value, minus the value before its first, plus
// all values immediately before a reset. It is summed exactly and rounded once.
//
// A pane is covered from its beginning, or from the very first point if that lies in it, to its
// end, within the range of the query. A pane without differences has no increase.
type counter struct {
	any     bool    // there was a point
	latest  float64 // the value of the latest point
	pane    int64   // of the latest point
	open    bool    // the pane has a difference
	covered int64   // start of the covered part
	start   float64 // the value before the first difference of the pane
	reset   bool    // the pane has resets
	lost    Sum     // the values before them

	// A reused column of one point, for emitting without garbage.
	time  [1]int64
	value [1]float64
}

// add adds points that all lie in the current pane.
func (c *counter) add(values []float64) {
	for _, v := range values {
		if v < c.latest {
			c.reset = true
			c.lost.Add(c.latest)
		}
		c.latest = v
	}
	c.open = true
}

// enter begins a pane whose coverage starts at from.
func (c *counter) enter(pane, from int64) {
	c.pane, c.open, c.covered, c.start = pane, false, from, c.latest
	if c.reset {
		c.reset, c.lost = false, Sum{}
	}
}

// begin processes the very first point.
func (c *counter) begin(pane, time int64, value float64) {
	c.any, c.latest = true, value
	c.enter(pane, time)
}

// increase returns the increase of the pane so far.
func (c *counter) increase() float64 {
	if !c.reset {
		return c.latest - c.start // one subtraction is rounded once
	}
	c.lost.Add(c.latest)
	c.lost.Add(-c.start)
	return c.lost.Float()
}
