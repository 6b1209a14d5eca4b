package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// MaxLooks is how many rows a command may look at, with all that it sets going: those it reads, and those it passes over on its way. In tests one that
// looks at more ends the node, as one does that writes more than it may.
const MaxLooks = 1 << 17

// Effort is the most that commands of a kind have taken, of each measure whichever took most of it.
type Effort struct {
	Command string // such as "kv put" or "engine fire"
	Count   int64  // how many there were
	Rows    int    // written
	Bytes   int    // written, and answered
	Looks   int    // rows that were looked at
}

func (e Effort) String() string {
	return fmt.Sprintf("%s: %d, with %d rows, %d bytes, %d looks at most", e.Command, e.Count, e.Rows, e.Bytes, e.Looks)
}

// noteEffort keeps what the command that has just been applied has taken, and checks it. It is for tests.
func (tx *Tx) noteEffort(cmd Command) {
	x := tx.x
	c := x.table.command(cmd)
	if c == nil {
		return
	}
	name := x.table.byID[cmd.Machine].Name + " " + c.Name
	e := x.efforts[name]
	if e == nil {
		e = &Effort{Command: name}
		x.efforts[name] = e
	}
	w := tx.budget.spent.minus(tx.budget.before)
	e.Count++
	e.Rows, e.Bytes, e.Looks = max(e.Rows, w.rows), max(e.Bytes, w.bytes), max(e.Looks, tx.looks)
	if tx.looks > MaxLooks {
		panic(fmt.Sprintf("shard %d, index %d: %s has looked at %d rows, the bound is %d", x.shard, tx.index, name, tx.looks, MaxLooks))
	}
	// What is merely due is done in parts: a Fire or a settlement is Full, and takes one more step.
	if due := cmd.Machine == machineEngine && cmd.Kind == kindFire; due && w.exceeds(work{fullRows + stepRows, fullBytes + stepBytes}) {
		panic(fmt.Sprintf("shard %d, index %d: %s goes on although it is full: %d rows with %d bytes", x.shard, tx.index, name, w.rows, w.bytes))
	}
}

// Efforts returns the most that commands of each kind have taken in this executor, if it is a strict one, by their names.
func (x *Executor) Efforts() (all []Effort) {
	for _, e := range x.efforts {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(a, b Effort) int { return cmp.Compare(a.Command, b.Command) })
	return all
}

// MostEfforts joins the efforts of several executors.
func MostEfforts(parts ...[]Effort) (all []Effort) {
	most := make(map[string]Effort)
	for _, e := range slices.Concat(parts...) {
		m := most[e.Command]
		most[e.Command] = Effort{e.Command, m.Count + e.Count, max(m.Rows, e.Rows), max(m.Bytes, e.Bytes), max(m.Looks, e.Looks)}
	}
	for _, name := range slices.Sorted(maps.Keys(most)) {
		all = append(all, most[name])
	}
	return all
}
