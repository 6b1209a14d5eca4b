package shard

import (
	"maps"
	"slices"
	"strings"
)

// Sizes of turns. The bytes of a command count, and commandCost beside them: to carry out a small
// one takes about as long as to write so many bytes.
const (
	commandCost = 6 << 10
	turnBytes   = 64 << 10 // of one turn: 10 small commands
	maxFlight   = 6 << 20  // under way of one namespace: 1,000 small commands
	// the same while another namespace is at work: 30 small commands take little longer to write
	// and apply than one
	sharedFlight  = 192 << 10
	sharedEntries = 16  // and for so many entries after its last command: one caller of it is away between two
	idleLanes     = 256 // so many are kept before those that nothing is in are looked for
)

// turns hold the proposals that wait for a place in an entry. Each namespace has a lane, in which
// the order is that in which they came, and the lanes take turns by bytes (deficit round robin:
// Shreedhar and Varghese, 1995). So who sends much waits behind itself, and not others behind it.
// What is under way can not be overtaken any more; so while several namespaces are at work each has
// only so much of it, and the rest waits in its lane.
//
// What belongs to no namespace, deliveries between shards above all, has a lane too. It comes of
// what namespaces do, and does not make two of one.
type turns struct {
	lanes    map[string]*lane
	first    *lane // of those that have something waiting: whose turn it is
	last     *lane
	standing int         // lanes from first to last
	returned []*proposal // were in an entry that had no room for them: before all lanes
	waiting  int         // proposals in all

	flights []flight // what is under way, by entries in their order
	latest  *lane    // of the last command that came from a namespace
	until   uint64   // entry before which the shard has several namespaces
	shared  int      // bytes that each of them has under way, see sharedFlight
}

// lane is what a namespace has on its way into the log.
type lane struct {
	name   string
	head   *proposal // waiting
	tail   *proposal
	next   *lane // in turn
	credit int   // bytes that may be taken before the turn ends
	flying int   // bytes under way
}

// flight is what an entry has of a lane.
type flight struct {
	entry uint64 // its sequence
	lane  *lane
	bytes int
}

// sharedFlight is the one of this node. In a cluster what is under way waits for the network, too.
func (h *Host) sharedFlight() int {
	if len(h.cfg.Voters) > 1 {
		return 4 * sharedFlight
	}
	return sharedFlight
}

func (p *proposal) cost() int { return len(p.data) + commandCost }

func newTurns(shared int) turns { return turns{lanes: make(map[string]*lane), shared: shared} }

// add lets a proposal wait; entry is the sequence of the next one.
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

// putOff lets proposals wait that were in an entry already, in front of all others.
func (t *turns) putOff(all []*proposal) {
	for _, p := range all {
		t.laneOf(p)
	}
	t.returned = append(t.returned, all...)
	t.waiting += len(all)
}

// laneOf returns the lane of a proposal, and remembers it with that.
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

// leave takes the first lane out of the line.
func (t *turns) leave() *lane {
	l := t.first
	if t.first = l.next; t.first == nil {
		t.last = nil
	}
	t.standing--
	return l
}

// next returns the proposal whose turn it is, and leaves it where it is; nil if none may go on now.
// Entry is the sequence of the one that it is for.
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

// most returns how many bytes of a lane may be under way.
func (t *turns) most(entry uint64) int {
	if entry < t.until {
		return t.shared
	}
	return maxFlight
}

// take takes the proposal out that next has returned, or else would be the first to return.
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

// begin counts a proposal that is in an entry.
func (t *turns) begin(p *proposal, entry uint64) {
	l, cost := p.lane, p.cost()
	l.flying += cost
	if n := len(t.flights); n > 0 && t.flights[n-1].entry == entry && t.flights[n-1].lane == l {
		t.flights[n-1].bytes += cost
		return
	}
	t.flights = append(t.flights, flight{entry, l, cost})
}

// end is told that all entries up to one have been applied.
func (t *turns) end(entry uint64) {
	n := 0
	for ; n < len(t.flights) && t.flights[n].entry <= entry; n++ {
		t.flights[n].lane.flying -= t.flights[n].bytes
	}
	t.flights = append(t.flights[:0], t.flights[n:]...)
}

// undo takes back what was begun for the newest entry, which there will not be.
func (t *turns) undo(entry uint64) {
	n := len(t.flights)
	for ; n > 0 && t.flights[n-1].entry == entry; n-- {
		t.flights[n-1].lane.flying -= t.flights[n-1].bytes
	}
	t.flights = t.flights[:n]
}
