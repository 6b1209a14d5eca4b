package agg

// Pre is what is computed of each series before its points are aggregated.
type Pre uint8

// The ways to look at a counter.
const (
	Points   Pre = iota // nothing: the points themselves are aggregated
	Increase            // by how much it increases in each pane
	Rate                // the same, divided by the seconds of the pane that are covered
)

// counter computes increases of one series, whose points come in order.
//
// A difference belongs to the pane of its later point. A value below the one before it is a reset:
// the counter began at 0 again, and its new value is the difference. The first point of all has no
// difference. So the increase of a pane is its last value, minus the value before its first, plus
// all values right before a reset: that is summed exactly and rounded once.
//
// A pane is covered from the first point of all, if that lies in it, else from where it begins; to
// where it ends; and only as far as the range of the query goes. A pane without differences has no
// increase.
type counter struct {
	any     bool    // there was a point
	latest  float64 // the value of the latest point
	pane    int64   // of the latest point
	open    bool    // the pane has a difference
	covered int64   // from where
	start   float64 // the value before the first difference of the pane
	reset   bool    // the pane has resets
	lost    Sum     // the values before them

	// A column of one point, for what is emitted: made anew each time it would be garbage.
	time  [1]int64
	value [1]float64
}

// add goes over points that all lie in the pane.
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

// enter begins a pane, from where it can be covered.
func (c *counter) enter(pane, from int64) {
	c.pane, c.open, c.covered, c.start = pane, false, from, c.latest
	if c.reset {
		c.reset, c.lost = false, Sum{}
	}
}

// begin takes the first point of all.
func (c *counter) begin(pane, time int64, value float64) {
	c.any, c.latest = true, value
	c.enter(pane, time)
}

// increase returns what has been counted of the pane.
func (c *counter) increase() float64 {
	if !c.reset {
		return c.latest - c.start // one subtraction is rounded once
	}
	c.lost.Add(c.latest)
	c.lost.Add(-c.start)
	return c.lost.Float()
}
