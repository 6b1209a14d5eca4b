package ts

import (
	"context"
	"errors"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points"
)

// Duties returns what the leader of a shard does for its time series.
func (m *machine) Duties() []engine.Duty { return []engine.Duty{{Name: "tend", Run: tend}} }

// tend seals blocks, merges pages, rolls up and clears away, one step after the other: each is computed from a view and proposed with the shape of the
// pages it was computed from, and what blocks were sealed. Whatever has changed one of them meanwhile makes the shard refuse it, and it is computed anew.
func tend(ctx context.Context, lead *engine.Lead) error {
	t := newTender(lead)
	for {
		var next *step
		err := lead.View(ctx, func(v *engine.View) (err error) {
			if err := v.WaitOn(tendTopic()); err != nil {
				return err
			}
			if next, err = t.next(v); err == nil && next == nil {
				err = engine.ErrWait
			}
			return err
		})
		if err != nil {
			return err
		}
		if _, err := lead.Propose(ctx, next.Command); errors.Is(err, ErrConflict) {
			t.overtaken()
		} else if err != nil {
			return err
		}
	}
}

// step is a command that the duty proposes.
type step struct{ engine.Command }

// tender keeps what makes the next step cheaper. Nothing of it matters: a new one begins with nothing.
type tender struct {
	patience func(ms int64) int64
	idle     map[incarnation]idle
	encoders map[pageGroup]*points.Encoder
	spare    []*points.Encoder
	purges   map[incarnation]*purge
	merged   map[pageGroup]mergedUpTo
	mergedAt map[incarnation][]byte // the partition in which something was merged last
	retirals map[incarnation]*retiral
	reader   points.Reader
	cursor   points.Cursor
}

// maxMerged bounds what a tender remembers of merges; beyond it they look for where they go on.
const maxMerged = 10_000

// idle says that there was nothing to do for a measurement, and until when that holds if its row does not change.
type idle struct {
	row    string
	wakeAt int64
}

func newTender(lead *engine.Lead) *tender {
	return &tender{
		patience: lead.Patience,
		idle:     make(map[incarnation]idle), encoders: make(map[pageGroup]*points.Encoder), purges: make(map[incarnation]*purge),
		merged: make(map[pageGroup]mergedUpTo), mergedAt: make(map[incarnation][]byte), retirals: make(map[incarnation]*retiral),
	}
}

// overtaken forgets how far the walks have come: the last step of one of them was refused.
func (t *tender) overtaken() {
	clear(t.purges)
	clear(t.retirals)
	clear(t.merged)
}

// tending is a measurement while its next step is looked for.
type tending struct {
	*tender
	*open
	view   *engine.View
	ns     string
	wakeAt int64
}

// wake has the measurement looked at again at a time.
func (t *tending) wake(at int64) { t.wakeAt = min(t.wakeAt, at) }

// next returns the next step, nil if there is nothing to do now; then it has said when to look again.
func (t *tender) next(v *engine.View) (*step, error) {
	rows, err := contentRows(v)
	if err != nil {
		return nil, err
	}
	if len(t.merged) > maxMerged {
		clear(t.merged)
	}
	for inc := range t.idle {
		if _, ok := rows.byInc[inc]; !ok {
			delete(t.idle, inc)
			delete(t.purges, inc)
			delete(t.retirals, inc)
			delete(t.mergedAt, inc)
		}
	}
	// What is to be sealed comes first: it is bounded.
	for _, work := range []func(*tending) (*step, error){(*tending).seal, (*tending).others} {
		for _, inc := range rows.order {
			row := rows.byInc[inc]
			if i, ok := t.idle[inc]; ok && i.row == row && i.wakeAt > v.Now() {
				v.WakeAt(i.wakeAt)
				continue
			}
			m, ok, err := t.open(v, inc)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			if s, err := work(m); err != nil || s != nil {
				return s, err
			}
		}
	}
	return nil, nil
}

// contents are the rows of what is in each measurement of the shard.
type contents struct {
	order []incarnation
	byInc map[incarnation]string
}

func contentRows(v *engine.View) (c contents, err error) {
	it, err := v.Iter([]byte{rowContent}, []byte{rowContent + 1})
	if err != nil {
		return c, err
	}
	c.byInc = make(map[incarnation]string)
	for ok := it.First(); ok; ok = it.Next() {
		inc := incarnationOf(it.Key())
		c.order = append(c.order, inc)
		c.byInc[inc] = string(it.Value())
	}
	return c, it.Close()
}

// open reads a measurement.
func (t *tender) open(v *engine.View, inc incarnation) (*tending, bool, error) {
	k := incKey(nil, rowMeasurement, inc)
	b, ok, err := v.Get(k)
	if err != nil {
		return nil, false, err
	}
	if !ok {
		return nil, false, missingRow(k)
	}
	m, err := decodeMeasurement(b)
	if err != nil {
		return nil, false, err
	}
	ns, ok := v.NamespaceName(m.ns)
	if !ok {
		return nil, false, nil
	}
	o, ok, err := openView(v, m.ns, m.name)
	if err != nil || !ok {
		return nil, false, err
	}
	return &tending{tender: t, open: o, view: v, ns: ns, wakeAt: engine.NoTimer}, true, nil
}

// others looks for whatever there is to do but sealing; if there is nothing it notes that.
func (t *tending) others() (*step, error) {
	for _, work := range []func() (*step, error){t.purge, t.rollup, t.merge, t.count, t.retire} {
		if s, err := work(); err != nil || s != nil {
			return s, err
		}
	}
	if w := &t.content.blocks; w.points > 0 {
		t.wake(w.since + t.patience(sealAge))
	}
	b, _, err := t.view.Get(incKey(nil, rowContent, t.inc))
	t.idle[t.inc] = idle{string(b), t.wakeAt}
	t.view.WakeAt(t.wakeAt)
	return nil, err
}

// stepOf makes a step of a command about the measurement.
func stepOf[B, R any](t *tending, row *engine.CommandRow[*session, B, R], b B) (*step, error) {
	op := row.Op(t.name, b, nil)
	op.Command.Namespace, op.Command.Spread = t.ns, t.view.Spread(t.ns)
	return &step{op.Command}, op.Err
}

// encoder returns the one for a column of a field in a partition.
func (t *tender) encoder(at pageGroup) *points.Encoder {
	e := t.encoders[at]
	if e == nil {
		if n := len(t.spare); n > 0 {
			e, t.spare = t.spare[n-1], t.spare[:n-1]
		} else {
			e = new(points.Encoder)
		}
		t.encoders[at] = e
	}
	return e
}

// maxSpare bounds the memory that encoders keep.
const maxSpare = 64

// release ends the use of all encoders.
func (t *tender) release() {
	for at, e := range t.encoders {
		delete(t.encoders, at)
		if len(t.spare) < maxSpare {
			e.Reset()
			t.spare = append(t.spare, e)
		}
	}
}
