package shard

import (
	"maps"
	"slices"
	"strings"
)

// Sizes of turns. A command counts with its bytes plus commandCost, because executing a small one
// takes about as long as writing that many bytes.
const (
	commandCost = 6 << 10
	turnBytes   = 64 << 10 // of one turn: 10 small commands
	maxFlight   = 6 << 20  // in flight of one namespace: 1,000 small commands
	// the same while another namespace is active: 30 small commands take little longer to write and
	// apply than one
	sharedFlight  = 192 << 10
	sharedEntries = 16  // and for this many entries after its last command: a single caller pauses between two
	idleLanes     = 256 // lanes kept before a search for empty ones
)

// turns holds the proposals that wait for a place in an entry. Each namespace has a lane in order
// of arrival, and the lanes take turns by bytes (deficit round robin: Shreedhar and Varghese,
// 1995). So a busy namespace delays itself and not others. Commands in flight cannot be overtaken.
// So while several namespaces are active, the bytes in flight of each are limited, and the rest
// waits in its lane.
//
// Commands without a namespace, mostly deliveries between shards, have a lane too. They result from
// the work of namespaces, and do not count as another active namespace.
type turns struct {
	lanes    map[string]*lane
	first    *lane // of the lanes with waiting proposals: the current one
	last     *lane
	standing int         // lanes from first to last
	returned []*proposal // had no room in their entry: before all lanes
	waiting  int         // proposals in all

	flights []flight // in flight, by entry in order
	latest  *lane    // of the last command of a namespace
	until   uint64   // entry up to which several namespaces count as active
	shared  int      // bytes that each may have in flight, see sharedFlight
}

// lane holds the proposals of a namespace that are not in the log yet.
type lane struct {
	name   string
	head   *proposal // waiting
	tail   *proposal
	next   *lane // in turn
	credit int   // bytes that may be taken before the turn ends
	flying int   // bytes in flight
}

// flight is the part of an entry that belongs to a lane.
type flight struct {
	entry uint64 // its sequence
	lane  *lane
	bytes int
}

// sharedFlight returns the value for this node. In a cluster commands in flight also wait for the
// network.
func (h *Host) sharedFlight() int {
	if len(h.cfg.Voters) > 1 {
		return 4 * sharedFlight
	}
	return sharedFlight
}

func (p *proposal) cost() int { return len(p.data) + commandCost }

func newTurns(shared int) turns { return turns{lanes: make(map[string]*lane), shared: shared} }

// add queues a proposal; entry is the sequence of the next entry.
func (t *turns) add(p *proposal, entry uint64) {
	l := t.laneOf(p)
	if l.name != "" && l != t.latest {
		if t.latest != nil {
			t.until = entry + sharedEntries
		}
		t.latest = l
	}
	if t.waiting++; l.head == nil {
		l.head, l.credit = p, turnBytes
		t.stand(l)
	} else {
		l.tail.next = p
	}
	l.tail = p
}

// putOff queues proposals that have already been in an entry, before all others.
func (t *turns) putOff(all []*proposal) {
	for _, p := range all {
		t.laneOf(p)
	}
	t.returned = append(t.returned, all...)
	t.waiting += len(all)
}

// laneOf returns the lane of a proposal, and stores it in the proposal.
func (t *turns) laneOf(p *proposal) *lane {
	name := p.namespace
	if p.lane = t.latest; p.lane != nil && p.lane.name == name {
		return p.lane
	}
	if p.lane = t.lanes[name]; p.lane != nil {
		return p.lane
	}
	if len(t.lanes) >= idleLanes {
		maps.DeleteFunc(t.lanes, func(_ string, l *lane) bool { return l.head == nil && l.flying == 0 })
	}
	p.lane = &lane{name: strings.Clone(name)}
	t.lanes[p.lane.name] = p.lane
	return p.lane
}

func (t *turns) stand(l *lane) {
	if l.next = nil; t.last == nil {
		t.first = l
	} else {
		t.last.next = l
	}
	t.last = l
	t.standing++
}

// leave removes the first lane from the line.
func (t *turns) leave() *lane {
	l := t.first
	if t.first = l.next; t.first == nil {
		t.last = nil
	}
	t.standing--
	return l
}

// next returns the proposal whose turn it is, without removing it; nil if none may proceed now.
// entry is the sequence of the entry to fill.
func (t *turns) next(entry uint64) *proposal {
	if len(t.returned) > 0 {
		return t.returned[0]
	}
	most := t.most(entry)
	for held := 0; held < t.standing; {
		l := t.first
		cost := l.head.cost()
		switch {
		case l.flying > 0 && l.flying+cost > most:
			held++
		case cost <= l.credit:
			return l.head
		default:
			held = 0
			l.credit += turnBytes
		}
		t.stand(t.leave())
	}
	return nil
}

// most returns the maximum bytes of a lane in flight.
func (t *turns) most(entry uint64) int {
	if entry < t.until {
		return t.shared
	}
	return maxFlight
}

// take removes the proposal that next has returned or would return.
func (t *turns) take() *proposal {
	t.waiting--
	if len(t.returned) > 0 {
		p := t.returned[0]
		t.returned = slices.Delete(t.returned, 0, 1)
		return p
	}
	l := t.first
	p := l.head
	l.head, p.next = p.next, nil
	if l.credit -= p.cost(); l.head == nil {
		l.tail = nil
		t.leave()
	}
	return p
}

// begin counts a proposal placed in an entry.
func (t *turns) begin(p *proposal, entry uint64) {
	l, cost := p.lane, p.cost()
	l.flying += cost
	if n := len(t.flights); n > 0 && t.flights[n-1].entry == entry && t.flights[n-1].lane == l {
		t.flights[n-1].bytes += cost
		return
	}
	t.flights = append(t.flights, flight{entry, l, cost})
}

// end notes that all entries up to entry have been applied.
func (t *turns) end(entry uint64) {
	n := 0
	for ; n < len(t.flights) && t.flights[n].entry <= entry; n++ {
		t.flights[n].lane.flying -= t.flights[n].bytes
	}
	t.flights = append(t.flights[:0], t.flights[n:]...)
}

// undo reverts begin for the newest entry, which was not created.
func (t *turns) undo(entry uint64) {
	n := len(t.flights)
	for ; n > 0 && t.flights[n-1].entry == entry; n-- {
		t.flights[n-1].lane.flying -= t.flights[n-1].bytes
	}
	t.flights = t.flights[:n]
}
