package agg

import "github.com/floedb/floe/internal/codec"

// edge is the column of First and Last: the point with the earliest or latest time. Among several
// points at that time, the one with the greatest series key counts.
type edge struct {
	f      Func
	there  [blockLen]bool
	points [blockLen]edgePoint
}

type edgePoint struct {
	time  int64
	value float64
	key   string
}

func newEdge(f Func, _ float64) column { return &edge{f: f} }

func (e *edge) add(i int, key string, times []int64, values []float64) {
	at := 0
	if e.f == Last {
		at = len(times) - 1
	}
	e.addPoint(i, edgePoint{times[at], values[at], key})
}

func (e *edge) addPoint(i int, p edgePoint) {
	if !e.there[i] || e.wins(p, &e.points[i]) {
		e.there[i], e.points[i] = true, p
	}
}

func (e *edge) wins(p edgePoint, over *edgePoint) bool {
	if p.time == over.time {
		return p.key > over.key
	}
	return p.time < over.time == (e.f == First)
}

func (e *edge) merge(i int, o column, j int) { e.addPoint(i, o.(*edge).points[j]) }

func (e *edge) empty(i int) bool { return !e.there[i] }

func (e *edge) final(i int) (float64, bool) { return e.points[i].value, true }

func (e *edge) code(i int, c *codec.Coder) {
	p := &e.points[i]
	c.Varint(&p.time)
	codeValue(c, &p.value)
	c.String(&p.key)
	e.there[i] = true
}

func (e *edge) bytes(int) int64 { return 0 }
