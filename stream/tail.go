package stream

// rewind moves from, which is at the ends of the partitions, back by the requested number of
// records: the last ones up to the end of the read.
func (q *readQuery) rewind(w *view, parts []partition) error {
	heads := make([]head, 0, len(q.from))
	for i := range q.from {
		h := head{at: &q.from[i], part: &parts[q.from[i].partition]}
		if err := h.begin(w, q.end); err != nil {
			return err
		}
		if !h.exhausted() {
			heads = append(heads, h)
		}
	}
	size := uint64(0)
	for n := 0; len(heads) > 0; n++ {
		last := 0
		for i := range heads {
			if heads[i].id.Compare(heads[last].id) > 0 {
				last = i
			}
		}
		h := &heads[last]
		if size += h.bytes; n == q.limit || n > 0 && size > uint64(q.maxBytes) {
			q.more = true
			return nil
		}
		if err := h.back(w); err != nil {
			return err
		}
		if h.exhausted() {
			heads = append(heads[:last], heads[last+1:]...)
		}
	}
	return nil
}

// head reads a partition backwards. It holds no messages, because there may be many partitions.
type head struct {
	at    *position
	part  *partition
	id    ID     // of the record before at
	bytes uint64 // of its message
	end   uint64 // bytes of the partition's records up to it
}

func (h *head) exhausted() bool { return h.at.next <= h.part.first }

// begin moves to the last record with an ID up to end, or to the last record if end is zero.
func (h *head) begin(w *view, end ID) (err error) {
	h.end = h.part.bytes
	if !end.IsZero() && h.part.lastID.Compare(end) > 0 {
		h.at.next, err = offsetOf(w.v.Get, w.gen, h.at.partition, h.part.first, h.part.last, end.next())
		if err != nil {
			return err
		}
		if !h.exhausted() {
			behind, err := storedAt(w.v.Get, w.gen, h.at.partition, h.at.next)
			if err != nil {
				return err
			}
			h.end = behind.before
		}
	}
	return h.load(w)
}

// back moves one record back.
func (h *head) back(w *view) error {
	h.at.next--
	h.end -= h.bytes
	return h.load(w)
}

func (h *head) load(w *view) error {
	if h.exhausted() {
		return nil
	}
	s, err := storedAt(w.v.Get, w.gen, h.at.partition, h.at.next-1)
	if err != nil {
		return err
	}
	h.id, h.bytes = s.id, h.end-s.before
	return nil
}
