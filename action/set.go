package action

import (
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// labelSet is a set of labels that runs require, with the waiting runs of that set that have no
// concurrency key. Those form a lane whose number is the set's place in the list.
type labelSet struct {
	labels string // encoded, see engine.AppendHeaders; "" requires nothing
	turn   uint64 // of the last started run without a key
	// runs with its number, including ended ones; -1: an older version did not count them. Runs of
	// the first set are not counted
	runs  int64
	queue queue // of runs without a key, by seq
	lanes queue // of rows 'e', by turn
}

// maxSets is the maximum number of label sets of an action. The lane without a key has the number
// of its set; other lanes have greater numbers.
const maxSets = 64

// ready reports whether the set has a waiting run that may start.
func (s *labelSet) ready() bool { return len(s.queue.heads)+len(s.lanes.heads) > 0 }

// code encodes the row of a set: version u8 | all fields except the labels.
func (s *labelSet) code(c *codec.Coder) {
	version(c, "label set")
	c.Varint(&s.runs)
	s.codeQueues(c)
}

func (s *labelSet) codeQueues(c *codec.Coder) {
	c.Uvarint(&s.turn)
	s.queue.code(c)
	s.lanes.code(c)
}

// labelsRow is the value of a row 'q' of an action: the labels of its sets except the first, which
// has none.
type labelsRow struct{ labels []string }

func (l *labelsRow) code(c *codec.Coder) {
	codec.List(c, &l.labels, func(c *codec.Coder, s *string) { c.String(s) })
}

func setKey(dst []byte, id uint64, set uint8) []byte { return append(numberKey(dst, rowSet, id), set) }

// label assigns the labels to the sets.
func (r *record) label(l *labelsRow) {
	for i, labels := range l.labels {
		if i+1 < len(r.sets) {
			r.sets[i+1].labels = labels
		}
	}
}

// The sets of an action except the first have separate rows, and their labels are in one more row.
// So a command accesses only the sets that it needs. The action's row has a bit for each set with
// ready runs, and for each set with any runs.

// labelsOf returns the labels of a set.
func (a *act) labelsOf(set uint8) string {
	if set > 0 {
		a.readLabels()
	}
	return a.sets[set].labels
}

// readLabels reads the labels of all sets.
func (a *act) readLabels() {
	if a.labelled || len(a.sets) == 1 {
		a.labelled = true
		return
	}
	b, ok := a.tx.Get(numberKey(nil, rowSet, a.id))
	if !ok {
		panic(fmt.Sprintf("action %q: its %d sets of labels have no row", a.name, len(a.sets)))
	}
	l := must(decode(b, (*labelsRow).code))
	a.label(&l)
	a.labelled = true
}

// set returns a set for reading.
func (a *act) set(i uint8) *labelSet {
	s := &a.sets[i]
	if a.read>>i&1 == 0 {
		b, ok := a.tx.Get(setKey(nil, a.id, i))
		if !ok {
			panic(fmt.Sprintf("action %q: set %d of labels has no row", a.name, i))
		}
		labels := s.labels
		*s = must(decode(b, (*labelSet).code))
		s.labels = labels
		a.read |= 1 << i
	}
	return s
}

// change returns a set for modification.
func (a *act) change(i uint8) *labelSet {
	a.touched |= 1 << i
	a.changed = true
	return a.set(i)
}

// ready reports whether a set has a run that may start.
func (a *act) ready(i int) bool {
	if a.read>>i&1 == 0 {
		return a.readySets>>i&1 != 0
	}
	return a.sets[i].ready()
}

// used reports whether a set has runs.
func (a *act) used(i int) bool {
	if a.read>>i&1 == 0 {
		return a.usedSets>>i&1 != 0
	}
	return a.sets[i].runs != 0
}

// addSet assigns a number, which may be the next free one, to a set of labels.
func (a *act) addSet(i uint8, labels []byte) {
	a.readLabels()
	if int(i) == len(a.sets) {
		a.sets = append(a.sets, labelSet{})
	}
	a.read |= 1 << i
	a.sets[i] = labelSet{labels: string(labels)}
	a.change(i)
	a.relabelled, a.match = true, nil
}

// dropSet removes the last set.
func (a *act) dropSet() {
	a.readLabels()
	i := len(a.sets) - 1
	a.tx.Delete(setKey(nil, a.id, uint8(i)))
	a.sets = a.sets[:i]
	for _, bits := range [...]*uint64{&a.read, &a.touched, &a.readySets, &a.usedSets} {
		*bits &^= 1 << i
	}
	a.relabelled, a.match, a.changed = true, nil, true
}

// saveSets writes the changed sets.
func (a *act) saveSets() {
	if k := numberKey(nil, rowSet, a.id); a.relabelled && len(a.sets) > 1 {
		var l labelsRow
		for i := range a.sets[1:] {
			l.labels = append(l.labels, a.sets[i+1].labels)
		}
		a.tx.Set(k, encode(nil, &l, (*labelsRow).code))
	} else if a.relabelled {
		a.tx.Delete(k)
	}
	for i := 1; i < len(a.sets); i++ {
		if a.touched>>i&1 == 0 {
			continue
		}
		s := &a.sets[i]
		a.tx.Set(setKey(nil, a.id, uint8(i)), encode(nil, s, (*labelSet).code))
		note := func(bits *uint64, holds bool) {
			if *bits &^= 1 << i; holds {
				*bits |= 1 << i
			}
		}
		note(&a.readySets, s.ready())
		note(&a.usedSets, s.runs != 0)
	}
}

// readLabels reads the labels of all sets of an action.
func (r *record) readLabels(v *engine.View) error {
	if r.inline || len(r.sets) < 2 {
		return nil
	}
	b, ok, err := v.Get(numberKey(nil, rowSet, r.id))
	if err != nil || !ok {
		return err
	}
	l, err := decode(b, (*labelsRow).code)
	r.label(&l)
	return err
}

// readSet reads a set. If it no longer exists in the view, the result is empty.
func (r *record) readSet(v *engine.View, i int) (*labelSet, error) {
	s := &r.sets[i]
	if r.inline || i == 0 {
		return s, nil
	}
	b, ok, err := v.Get(setKey(nil, r.id, uint8(i)))
	if err == nil && ok {
		var row labelSet
		row, err = decode(b, (*labelSet).code)
		row.labels = s.labels
		*s = row
	}
	return s, err
}

// findSet returns the number of a set of labels, if the action has it.
func (a *act) findSet(labels []byte) (uint8, bool) {
	if len(labels) == 0 {
		return 0, true
	}
	a.readLabels()
	for i := 1; i < len(a.sets); i++ {
		if a.sets[i].labels == string(labels) {
			return uint8(i), true
		}
	}
	return 0, false
}

// checkSet returns an error if the action has too many sets to add another one.
func (a *act) checkSet(labels []byte) error {
	if _, ok := a.findSet(labels); !ok && len(a.sets) == maxSets && a.unusedSet() == 0 {
		return engine.Errorf(ErrInvalid, "action %q: its runs ask for %d different sets of labels already, the limit is %d", a.name,
			len(a.sets), maxSets)
	}
	return nil
}

// setOf returns the number of a set of labels, adding the set if needed. It may reuse the number of
// a set that no run requires.
func (a *act) setOf(labels []byte) uint8 {
	set, known := a.findSet(labels)
	if known {
		return set
	}
	if set = a.unusedSet(); set == 0 {
		set = uint8(len(a.sets))
	}
	a.mapped = a.mapped || a.idle()
	a.addSet(set, labels)
	a.tx.Notify(setsTopic(a.tx.NamespaceName(), a.name), -1)
	return set
}

// unusedSet returns the number of a set without runs. It returns 0, the number of the set without
// labels, if none exists.
func (a *act) unusedSet() uint8 {
	for i := 1; i < len(a.sets); i++ {
		if !a.used(i) || a.idle() {
			return uint8(i)
		}
	}
	return 0
}

// idle reports whether the action has no runs. Then it has none that an older version did not
// count.
func (a *act) idle() bool { return a.pending+a.running+a.unconfirmed+a.kept == 0 }

// leaveSet notes that a run of a set is no longer retained.
func (a *act) leaveSet(set uint8) {
	if set > 0 && a.set(set).runs > 0 {
		a.change(set).runs--
	}
	for n := len(a.sets); n > 1 && !a.used(n-1); n-- {
		a.dropSet()
	}
}
