package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// MaxLooks is the maximum number of rows that a command may read or skip, including everything it
// triggers. In tests a command that exceeds it crashes the node, as does one that exceeds its write
// limit.
const MaxLooks = 1 << 17

// Cost is the cost of a command: its counted work, and its time by Config.Watch, which affects no
// decision.
type Cost struct {
	Rows  int // written
	Bytes int // written, and answered
	Looks int // rows looked at
	Iters int // iterators opened
	Steps int // of the iterators in the tables of the state, including those over deleted rows that are not yet compacted away
	Moves int // positions of the overlay that were sorted, merged or copied
	Time  time.Duration
}

// most returns the maximum of each measure.
func (t Cost) most(o Cost) Cost {
	return Cost{
		max(t.Rows, o.Rows), max(t.Bytes, o.Bytes), max(t.Looks, o.Looks), max(t.Iters, o.Iters), max(t.Steps, o.Steps), max(t.Moves,
			o.Moves), max(t.Time, o.Time),
	}
}

func (t Cost) plus(o Cost) Cost {
	return Cost{t.Rows + o.Rows, t.Bytes + o.Bytes, t.Looks + o.Looks, t.Iters + o.Iters, t.Steps + o.Steps, t.Moves + o.Moves,
		t.Time + o.Time}
}

// Effort is the cost of the commands of a kind: the maximum of each measure over all commands, and
// the total.
type Effort struct {
	Command string // such as "kv put" or "engine fire"; "entry" is everything one entry did, "commit" the commit of a batch of entries
	Count   int64  // number of commands
	Cost
	Sum Cost
}

func (e Effort) String() string {
	return fmt.Sprintf("%s: %d, with %d rows, %d bytes, %d looks, %d iterators, %d steps, %d moves, %v at most", e.Command, e.Count,
		e.Rows, e.Bytes, e.Looks, e.Iters, e.Steps, e.Moves, e.Time.Round(time.Microsecond))
}

// noteEffort records the cost of the command that has just been applied, and checks it. It is for
// tests.
func (tx *Tx) noteEffort(cmd Command, began time.Duration) {
	x := tx.x
	c := x.table.command(cmd)
	if c == nil {
		return
	}
	name := x.table.byID[cmd.Machine].Name + " " + c.Name
	w := tx.budget.spent.minus(tx.budget.before)
	cost := tx.cost
	cost.Rows, cost.Bytes, cost.Moves, cost.Time = w.rows, w.bytes, x.batch.over.order.moves-cost.Moves, x.checks.watch()-began
	x.checks.addEffort(name, cost)
	tx.entryCost = tx.entryCost.plus(cost)
	if cost.Looks > MaxLooks {
		panic(fmt.Sprintf("shard %d, index %d: %s has looked at %d rows, the bound is %d", x.shard, tx.index, name, cost.Looks, MaxLooks))
	}
	// Due work is done in parts: a Fire or a settlement may take one more step after it is Full.
	if due := cmd.Machine == machineEngine && cmd.Kind == kindFire; due && w.exceeds(work{fullRows + stepRows, fullBytes + stepBytes}) {
		panic(fmt.Sprintf("shard %d, index %d: %s continues although it is full: %d rows with %d bytes", x.shard, tx.index, name, w.rows,
			w.bytes))
	}
}

// noteEntry records the cost of an entry. noteCommit records the cost of committing a batch.
func (x *Executor) noteEntry(began time.Duration) {
	cost := x.tx.entryCost
	cost.Time = x.checks.watch() - began
	x.checks.addEffort("entry", cost)
	x.tx.entryCost = Cost{}
}

func (x *Executor) noteCommit(cost Cost, began time.Duration) {
	cost.Time = x.checks.watch() - began
	x.checks.addEffort("commit", cost)
}

func (c *checks) addEffort(name string, cost Cost) {
	e := c.efforts[name]
	if e == nil {
		e = &Effort{Command: name}
		c.efforts[name] = e
	}
	e.Count++
	e.Cost, e.Sum = e.Cost.most(cost), e.Sum.plus(cost)
}

// Efforts returns the cost of commands of each kind in this executor, by name, if the executor is
// strict.
func (x *Executor) Efforts() (all []Effort) {
	for _, e := range x.checks.efforts {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(a, b Effort) int { return cmp.Compare(a.Command, b.Command) })
	return all
}

// Scanned returns the number of rows that queries have looked at with iterators, if the executor is
// strict.
func (x *Executor) Scanned() int64 { return x.checks.scanned.Load() }

// ForgetEfforts resets the efforts.
func (x *Executor) ForgetEfforts() { clear(x.checks.efforts) }

// MostEfforts merges the efforts of several executors.
func MostEfforts(parts ...[]Effort) (all []Effort) {
	most := make(map[string]Effort)
	for _, e := range slices.Concat(parts...) {
		m := most[e.Command]
		most[e.Command] = Effort{e.Command, m.Count + e.Count, m.Cost.most(e.Cost), m.Sum.plus(e.Sum)}
	}
	for _, name := range slices.Sorted(maps.Keys(most)) {
		all = append(all, most[name])
	}
	return all
}

// stepsOf returns the number of steps of an iterator in the tables, including those over deleted
// rows.
func stepsOf(it *pebble.Iterator) int {
	stats := it.Stats()
	return stats.ForwardStepCount[pebble.InternalIterCall] + stats.ForwardSeekCount[pebble.InternalIterCall]
}
