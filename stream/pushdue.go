package stream

import "github.com/floedb/floe/internal/engine"

// refresh determines when a batch is due and writes the push.
func (f *pushing) refresh() {
	f.updateDue(true)
	f.save()
}

// refreshPushesOf refreshes the pushes of a group after a change of the group.
func (m *machine) refreshPushesOf(tx *engine.Tx, st *stream, group string) {
	for _, of := range st.subscriptions {
		if of.group == group {
			m.push(tx, st.name, of.key).refresh()
		}
	}
}

// noteAppended updates due times after an append to a partition that starts at an offset.
func (m *machine) noteAppended(tx *engine.Tx, st *stream, p int, from uint64) {
	for _, of := range st.subscriptions {
		f := m.push(tx, st.name, of.key)
		g := m.loadGroup(tx, st, of.group)
		if g == nil || f.suspended() {
			continue
		}
		part := &st.parts[p]
		next := max(g.parts[p].next, part.first)
		due := int64(never)
		switch n := part.last + 1 - next; {
		case n >= uint64(f.Batch):
			due = tx.Now()
		case next >= from && n > 0:
			due = tx.Now() + f.Wait
		}
		if due < f.due {
			f.due = due
			f.save()
		}
	}
}

// suspended reports whether no batch may be delivered now, even if there are records.
func (f *pushing) suspended() bool { return f.Paused || f.sent >= maxSent || f.wantsCredit() }

// updateDue determines when a batch is due. Without earlier, it ignores records that come before
// new ones, because an attempt has found that none can be delivered now.
func (f *pushing) updateDue(earlier bool) {
	f.due = never
	if st := f.m.present(f.tx, f.name); st != nil && !f.suspended() {
		if g := f.m.loadGroup(f.tx, st, f.Group); g != nil {
			for p := range g.parts {
				f.due = min(f.due, f.dueOf(st, g, p, earlier))
			}
		}
	}
	if f.due > f.tx.Now() {
		f.returnCredits()
	}
}

// dueOf returns when a batch of a partition is due, see updateDue.
func (f *pushing) dueOf(st *stream, g *group, p int, earlier bool) int64 {
	if !here(f.tx, f.name, p) {
		return never
	}
	part, cursor := &st.parts[p], &g.parts[p]
	if earlier && cursor.hasEarlier(g) {
		return f.tx.Now()
	}
	next := max(cursor.next, part.first)
	switch n := part.last + 1 - next; {
	case n == 0 || part.records() == 0 || cursor.blocksNew(g):
		return never
	case n >= uint64(f.Batch):
		return f.tx.Now()
	}
	return max(must(idAt(getterOf(f.tx), st.gen, p, next)).Millis+f.Wait, 0)
}

// hasEarlier reports whether a partition has records that come before new ones: consumers left them
// before the push got the group.
func (p *groupPart) hasEarlier(g *group) bool {
	return len(p.again) > 0 || p.held > 0 || p.blocksNew(g)
}

// blocksNew reports whether new records must wait for busy keys.
func (p *groupPart) blocksNew(g *group) bool { return g.mode == KeyShared && p.pending+p.held > 0 }
