package engine

// Savepoint is a point within a command to which a Tx can return. A rollback restores rows, ranges,
// counts, wakes, hooks, changes, timers, messages to other shards, follow-ups, LSNs, and the
// memories of machines (see Memory). Savepoints nest: a rollback ends the savepoint and those taken
// after it.
//
// There is one undo log per command, and a savepoint is a mark in it. Writes that are rolled back
// do not enter the hash of the state.
type Savepoint struct {
	lsn     LSN // last one assigned
	current LSN // of the current change
	ns      *namespace
	machine MachineID
	nested  bool

	undo, counts, onRollback, wakes, hooks, changes, follow int
}

// Savepoint returns a point to which Rollback can return while the same command is being applied.
// Later writes are a separate change with the next LSN, so that a Memory can distinguish it from
// earlier ones.
//
//	s := tx.Savepoint()
//	if err := m.deliver(tx, message); err != nil {
//		tx.Rollback(s)
//	}
func (tx *Tx) Savepoint() Savepoint {
	s := tx.mark()
	s.nested = true
	tx.Step()
	return s
}

// Rollback undoes everything since the savepoint, which cannot be used again. A machine must itself
// undo changes of its own variables.
func (tx *Tx) Rollback(s Savepoint) { tx.rollback(s) }

// mark returns the current ends of the undo log and all lists of effects.
func (tx *Tx) mark() Savepoint {
	x := tx.x
	return Savepoint{
		lsn: x.applied.LSN, current: tx.lsn, ns: tx.ns, machine: tx.machine,
		undo: len(x.batch.over.undo), counts: len(tx.counts), onRollback: len(tx.onRollback),
		wakes: len(x.batch.wakes), hooks: len(x.batch.hooks), changes: len(x.batch.changes), follow: len(tx.follow),
	}
}

// nestedMark is mark for the engine's own parts of a command, which take their own LSNs anyway.
func (tx *Tx) nestedMark() Savepoint {
	s := tx.mark()
	s.nested = true
	return s
}

func (tx *Tx) rollback(s Savepoint) {
	x := tx.x
	for i := len(tx.onRollback) - 1; i >= s.onRollback; i-- {
		tx.onRollback[i]()
	}
	clear(tx.onRollback[s.onRollback:])
	tx.onRollback = tx.onRollback[:s.onRollback]
	b := &x.batch
	b.over.rollback(s.undo)
	x.applied.LSN, tx.lsn, tx.ns, tx.machine = s.lsn, s.current, s.ns, s.machine
	clear(b.hooks[s.hooks:])
	b.wakes, b.hooks, b.changes = b.wakes[:s.wakes], b.hooks[:s.hooks], b.changes[:s.changes]
	tx.dropFollowUps(s.follow)
	if forgotten := false; !forgotten {
		tx.counts = tx.counts[:s.counts]
	}
	x.memories.each(func(m Remembered) { m.revert(s.lsn) })
}
