package engine

// Tallying is a Machine that counts its answers. The counts are not in any row, because each node
// has its own, which its host keeps across restarts.
type Tallying interface {
	// Tallies calls f with each non-zero count.
	Tallies(f func(of uint64, n int64))
	// AddTally adds a count from before a restart.
	AddTally(of uint64, n int64)
}

// Tally is the number of answers of a machine on this node about a subject, such as a namespace by
// its number.
type Tally struct {
	Machine MachineID
	Of      uint64
	N       int64
}

// Tallies returns the counts of this replica, in no particular order: the reads of each namespace
// (see Primitive.Reads), and the counts of the machines.
func (x *Executor) Tallies() (all []Tally) {
	x.committed.rows.flushReads()
	for id, n := range x.dir.reads() {
		all = append(all, Tally{machineEngine, uint64(id), n})
	}
	for id, m := range x.machines {
		if t, ok := m.(Tallying); ok {
			t.Tallies(func(of uint64, n int64) { all = append(all, Tally{MachineID(id), of, n}) })
		}
	}
	return all
}

// AddTallies adds counts from before a restart. Counts of namespaces and streams that have been
// deleted since are dropped.
func (x *Executor) AddTallies(all []Tally) {
	for _, t := range all {
		if t.Machine == machineEngine {
			if ns := x.dir.get(uint32(t.Of)); ns != nil && t.Of == uint64(ns.id) {
				ns.reads.Add(t.N)
			}
			continue
		}
		if m, ok := x.machine(t.Machine).(Tallying); ok {
			m.AddTally(t.Of, t.N)
		}
	}
}

// reads returns the number of reads of each namespace that had any.
func (d *directory) reads() map[uint32]int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := make(map[uint32]int64)
	for _, ns := range d.byID {
		if n := ns.reads.Load(); n > 0 {
			all[ns.id] = n
		}
	}
	return all
}
