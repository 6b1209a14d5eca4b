package ts

import (
	"context"
	"errors"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points"
)

// Duties returns the background work of a shard's leader for its time series.
func (m *machine) Duties() []engine.Duty { return []engine.Duty{{Name: "maintenance", Run: maintain}} }

// maintain seals blocks, merges chunks, rolls up and removes deleted points, one step at a time. A
// step is computed from a view and proposed with the shape of the chunks and the LSN of the sealed
// blocks it was computed from. If either has changed since then, the shard refuses the step with
// ErrConflict, and the duty computes it again.
func maintain(ctx context.Context, lead *engine.Lead) error {
	m := newMaintainer(lead)
	for {
		var next *step
		err := lead.View(ctx, func(v *engine.View) (err error) {
			if err := v.WaitOn(maintenanceTopic()); err != nil {
				return err
			}
			if next, err = m.next(v); err == nil && next == nil {
				err = engine.ErrWait
			}
			return err
		})
		if err != nil {
			return err
		}
		if _, err := lead.Propose(ctx, next.Command); errors.Is(err, ErrConflict) {
			m.restartWalks()
		} else if err != nil {
			return err
		}
	}
}

// step is a command that the duty proposes.
type step struct{ engine.Command }

// maintainer caches data that makes the next step cheaper. It starts empty in each term of a
// leader.
type maintainer struct {
	patience func(ms int64) int64
	idle     map[incarnation]idle
	encoders map[chunkGroup]*points.Encoder
	spare    []*points.Encoder
	purges   map[incarnation]*purge
	merged   map[chunkGroup]mergedUpTo
	mergedAt map[incarnation][]byte // the partition in which something was merged last
	retirals map[incarnation]*retiral
	reader   points.Reader
	cursor   points.Cursor
}

// maxMerged bounds the merge positions that a maintainer caches. Beyond it, merges search for their
// position.
const maxMerged = 10_000

// idle records that a measurement needs no work, and until when, provided that its row does not
// change.
type idle struct {
	row    string
	wakeAt int64
}

func newMaintainer(lead *engine.Lead) *maintainer {
	return &maintainer{
		patience: lead.Patience,
		idle:     make(map[incarnation]idle), encoders: make(map[chunkGroup]*points.Encoder), purges: make(map[incarnation]*purge),
		merged: make(map[chunkGroup]mergedUpTo), mergedAt: make(map[incarnation][]byte), retirals: make(map[incarnation]*retiral),
	}
}

// restartWalks discards the progress of all walks after a step was refused.
func (m *maintainer) restartWalks() {
	clear(m.purges)
	clear(m.retirals)
	clear(m.merged)
}

// maintenance finds the next step for one measurement.
type maintenance struct {
	*maintainer
	*open
	view   *engine.View
	ns     string
	wakeAt int64
}

// wake makes the duty check the measurement again at a time.
func (m *maintenance) wake(at int64) { m.wakeAt = min(m.wakeAt, at) }

// next returns the next step. If there is nothing to do now, it returns nil and has set when to
// check again.
func (m *maintainer) next(v *engine.View) (*step, error) {
	rows, err := contentRows(v)
	if err != nil {
		return nil, err
	}
	if len(m.merged) > maxMerged {
		clear(m.merged)
	}
	for inc := range m.idle {
		if _, ok := rows.byInc[inc]; !ok {
			delete(m.idle, inc)
			delete(m.purges, inc)
			delete(m.retirals, inc)
			delete(m.mergedAt, inc)
		}
	}
	// Sealing comes first, because the unsealed bytes are bounded.
	for _, work := range []func(*maintenance) (*step, error){(*maintenance).seal, (*maintenance).others} {
		for _, inc := range rows.order {
			row := rows.byInc[inc]
			if i, ok := m.idle[inc]; ok && i.row == row && i.wakeAt > v.Now() {
				v.WakeAt(i.wakeAt)
				continue
			}
			measured, ok, err := m.open(v, inc)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			if s, err := work(measured); err != nil || s != nil {
				return s, err
			}
		}
	}
	return nil, nil
}

// contents are the content rows of the measurements in the shard.
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
func (m *maintainer) open(v *engine.View, inc incarnation) (*maintenance, bool, error) {
	k := incKey(nil, rowMeasurement, inc)
	b, ok, err := v.Get(k)
	if err != nil {
		return nil, false, err
	}
	if !ok {
		return nil, false, missingRow(k)
	}
	row, err := decodeMeasurement(b)
	if err != nil {
		return nil, false, err
	}
	ns, ok := v.NamespaceName(row.ns)
	if !ok {
		return nil, false, nil
	}
	o, ok, err := openView(v, row.ns, row.name)
	if err != nil || !ok {
		return nil, false, err
	}
	return &maintenance{maintainer: m, open: o, view: v, ns: ns, wakeAt: engine.NoTimer}, true, nil
}

// others searches for work other than sealing; if none exists, it records that.
func (m *maintenance) others() (*step, error) {
	for _, work := range []func() (*step, error){m.purge, m.rollup, m.merge, m.count, m.retire} {
		if s, err := work(); err != nil || s != nil {
			return s, err
		}
	}
	if w := &m.content.blocks; w.points > 0 {
		m.wake(w.since + m.patience(sealAge))
	}
	b, _, err := m.view.Get(incKey(nil, rowContent, m.inc))
	m.idle[m.inc] = idle{string(b), m.wakeAt}
	m.view.WakeAt(m.wakeAt)
	return nil, err
}

// stepOf makes a step from a command about the measurement.
func stepOf[B, R any](m *maintenance, row *engine.CommandRow[*session, B, R], b B) (*step, error) {
	op := row.Op(m.name, b, nil)
	op.Command.Namespace, op.Command.Spread = m.ns, m.view.Spread(m.ns)
	return &step{op.Command}, op.Err
}

// encoder returns the encoder for a column of a field in a partition.
func (m *maintainer) encoder(at chunkGroup) *points.Encoder {
	e := m.encoders[at]
	if e == nil {
		if n := len(m.spare); n > 0 {
			e, m.spare = m.spare[n-1], m.spare[:n-1]
		} else {
			e = new(points.Encoder)
		}
		m.encoders[at] = e
	}
	return e
}

// maxSpare bounds the memory that encoders keep.
const maxSpare = 64

// release ends the use of all encoders.
func (m *maintainer) release() {
	for at, e := range m.encoders {
		delete(m.encoders, at)
		if len(m.spare) < maxSpare {
			e.Reset()
			m.spare = append(m.spare, e)
		}
	}
}
