package queue

// lease is a delivery that has not ended. It has the fields of the message's row 'l' that are
// needed to end it.
type lease struct {
	at          position
	lsn         uint64 // of the delivery
	deadline    int64
	attempts    int64
	maxAttempts int64
	size        int64
	indexed     bool // see flagIndexed

	heap int // position in leases.heap
}

// lease returns the lease in a row 'l'.
func (w *leaseRow) lease(p position) lease {
	return lease{
		at: p, lsn: w.lsn, deadline: w.at, attempts: w.attempts, maxAttempts: w.maxAttempts, size: w.size,
		indexed: w.flags&flagIndexed != 0,
	}
}

// row returns the row of a lease, current or ended.
func (l *lease) row() leaseRow {
	w := leaseRow{attempts: l.attempts, maxAttempts: l.maxAttempts, size: l.size, lsn: l.lsn, at: l.deadline}
	if l.indexed {
		w.flags = flagIndexed
	}
	return w
}

// kind returns the kind of the message's row.
func (l *lease) kind() byte {
	if l.indexed {
		return 'n'
	}
	return 'm'
}

// before is the order in which leases expire. Leases that expire together are in the order of their
// messages.
func (l *lease) before(o *lease) bool {
	return l.deadline < o.deadline || l.deadline == o.deadline && l.at.less(o.at)
}

// leases are the leases of a queue, by the message's seq and in a heap ordered by expiry.
type leases struct {
	bySeq map[uint64]*lease
	heap  []*lease
}

func (s *leases) len() int { return len(s.heap) }

// first returns the lease that expires first, nil if none exists.
func (s *leases) first() *lease {
	if len(s.heap) == 0 {
		return nil
	}
	return s.heap[0]
}

func (s *leases) add(l lease) {
	if s.bySeq == nil {
		s.bySeq = make(map[uint64]*lease)
	}
	l.heap = len(s.heap)
	added := new(l)
	s.bySeq[l.at.seq] = added
	s.heap = append(s.heap, added)
	s.up(l.heap)
}

func (s *leases) remove(l *lease) {
	delete(s.bySeq, l.at.seq)
	i, last := l.heap, len(s.heap)-1
	s.heap[i] = s.heap[last]
	s.heap[i].heap = i
	s.heap[last] = nil
	s.heap = s.heap[:last]
	if i < last {
		s.fix(i)
	}
}

// move changes the expiry of a lease.
func (s *leases) move(l *lease, deadline int64) {
	l.deadline = deadline
	s.fix(l.heap)
}

func (s *leases) fix(i int) {
	if !s.down(i) {
		s.up(i)
	}
}

func (s *leases) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !s.heap[i].before(s.heap[parent]) {
			return
		}
		s.swap(i, parent)
		i = parent
	}
}

func (s *leases) down(i int) (moved bool) {
	for {
		child := 2*i + 1
		if child >= len(s.heap) {
			return moved
		}
		if other := child + 1; other < len(s.heap) && s.heap[other].before(s.heap[child]) {
			child = other
		}
		if !s.heap[child].before(s.heap[i]) {
			return moved
		}
		s.swap(i, child)
		i, moved = child, true
	}
}

func (s *leases) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.heap[i].heap, s.heap[j].heap = i, j
}
