package engine

// Savepoint is a point within a command to which a Tx can go back: rows, ranges, counts, wakes,
// hooks, changes, timers, messages to other shards, follow-ups and LSNs are then what they were,
// and so is what machines remember (see Memory). Savepoints nest: going back to one ends those
// taken after it, and itself.
//
// There is one undo log per command, in which a savepoint is a mark. What is taken back is not in
// the hash of the state either.
type Savepoint struct {
	lsn     LSN // last one given out
	current LSN // of the change being made
	ns      *namespace
	machine MachineID
	nested  bool

	undo, counts, onRollback, wakes, hooks, changes, follow int
}

// Savepoint returns a point to which Rollback can go back while the same command is being applied.
// What follows is a change of its own, with the next LSN: that is how a Memory can tell it from
// what came before.
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

// Rollback takes back everything since the savepoint, which can not be used again. What a machine
// keeps of the command being applied in variables of its own is for itself to take back.
func (tx *Tx) Rollback(s Savepoint) { tx.rollback(s) }

// mark returns where the undo log and all lists of effects end now.
func (tx *Tx) mark() Savepoint {
	x := tx.x
	return Savepoint{
		lsn: x.applied.LSN, current: tx.lsn, ns: tx.ns, machine: tx.machine,
		undo: len(x.batch.over.undo), counts: len(tx.counts), onRollback: len(tx.onRollback),
		wakes: len(x.batch.wakes), hooks: len(x.batch.hooks), changes: len(x.batch.changes), follow: len(tx.follow),
	}
}

// nestedMark is mark for the engine's own parts of a command, which take LSNs of their own anyway.
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
