package ts

import (
	"bytes"
	"slices"

	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/points"
)

// deletions returns the deleted series that may have points in chunks, with the LSNs of their
// deletion.
func (m *maintenance) deletions() (all []printed, err error) {
	if m.content.deleted == 0 {
		return nil, nil
	}
	return m.numbered(rowDeleted)
}

// numbered reads rows that contain a number for each series.
func (m *maintenance) numbered(kind byte) (all []printed, err error) {
	prefix := incKey(nil, kind, m.inc)
	it, err := m.view.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var n uint64
		if n, err = decodeCount(it.Value()); err == nil {
			all = append(all, printed{seriesOf(it.Key()), n})
		}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return all, err
}

// purge is a walk over all chunks of a measurement that removes points deleted before it began:
// points of deleted series, points that were outdated before the retention was extended, and points
// of deleted time ranges.
type purge struct {
	gone   []printed // with the LSNs of their deletion
	ids    map[seriesID]bool
	closed []closing
	erased []erasure
	at     []byte // key of the chunk to continue from
	done   bool   // all chunks have been seen
}

// purge takes the next step of the walk. Sealing skips blocks of deleted series, so none of their
// points reach chunks. The purge comes before merges and rollups, and restarts when the retention
// is extended. So merges and rollups find no points in chunks that were outdated before the
// extension.
func (m *maintenance) purge() (*step, error) {
	closed, err := m.closings()
	if err != nil {
		return nil, err
	}
	erased, err := m.erasures(m.view)
	if err != nil {
		return nil, err
	}
	if m.content.deleted == 0 && len(closed) == 0 && len(erased) == 0 {
		delete(m.purges, m.inc)
		return nil, nil
	}
	p := m.purges[m.inc]
	sameErased := p != nil && slices.EqualFunc(p.erased, erased, func(a, b erasure) bool { return a.upTo == b.upTo })
	if p == nil || !slices.Equal(p.closed, closed) || !sameErased {
		gone, err := m.deletions()
		if err != nil {
			return nil, err
		}
		p = &purge{gone: gone, ids: make(map[seriesID]bool), closed: closed, erased: erased, at: incKey(nil, rowChunk, m.inc)}
		for _, g := range gone {
			p.ids[g.id] = true
		}
		m.purges[m.inc] = p
	}
	if !p.done {
		if s, err := m.purgeSome(p); err != nil || s != nil {
			return s, err
		}
		p.done = true
	}
	if m.oldestBlock(p) {
		return nil, nil // a block may contain some of it, which sealing filters by these rows
	}
	n := min(len(p.gone), maxDeletes)
	l := seriesBody{inc: m.inc, series: p.gone[:n]}
	if p.gone = p.gone[n:]; len(p.gone) == 0 {
		l.closed = p.closed
		for _, e := range p.erased {
			l.erased = append(l.erased, e.upTo)
		}
		delete(m.purges, m.inc)
	}
	return stepOf(m, forget, l)
}

// oldestBlock reports whether any block was written before one of the walk's deletions.
func (m *maintenance) oldestBlock(p *purge) bool {
	for _, g := range p.gone {
		if m.content.sealed < min(m.content.last, g.fingerprint) {
			return true
		}
	}
	for _, e := range p.erased {
		if m.content.sealed < min(m.content.last, e.upTo) {
			return true
		}
	}
	return false
}

// closings returns the closings whose points can be removed, because all are in chunks and the
// tiers of that time have been computed from them.
func (m *maintenance) closings() (ready []closing, err error) {
	for _, c := range m.content.closed {
		wait := m.content.sealed < min(m.content.last, c.upTo)
		for i := range m.policy.tiers {
			if tier := &m.policy.tiers[i]; !wait && tier.id < c.tiers {
				rolled, err := m.rolledUpTo(m.view.Iter, tier)
				if err != nil {
					return nil, err
				}
				wait = rolled < c.before
			}
		}
		if !wait {
			ready = append(ready, c)
		}
	}
	return ready, nil
}

// purgeSome rewrites chunks of one partition. It returns nil if no chunks are left to rewrite.
func (m *maintenance) purgeSome(p *purge) (*step, error) {
	prefix := incKey(nil, rowChunk, m.inc)
	it, err := m.view.Iter(p.at, key.PrefixEnd(prefix))
	if err != nil {
		return nil, err
	}
	var cmd *rewriteBody
	size := int64(0)
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		p.at = append(p.at[:0], it.Key()...)
		same := cmd == nil || cmd.tier == tierOf(it.Key()) && cmd.partition == partitionOf(it.Key())
		if !same || size > mergeInput {
			break
		}
		var chunk heldChunk
		if chunk, err = readChunk(it.Key(), bytes.Clone(it.Value())); err != nil {
			break
		}
		var held bool
		if held, err = m.holds(&chunk, p); err == nil && (held || chunk.row.from < p.goneIn(&chunk)) {
			if cmd == nil {
				at := chunk.group
				cmd = &rewriteBody{inc: m.inc, shape: m.content.shape, tier: at.tier, partition: at.partition}
			}
			err = m.rewriteWithout(cmd, &chunk, p)
			size += chunk.bytes
		}
		p.at = append(p.at, 0)
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if err != nil || cmd == nil {
		return nil, err
	}
	return stepOf(m, rewrite, *cmd)
}

// holds reports whether a chunk has points of a deleted series or a deleted time range.
func (m *maintenance) holds(p *heldChunk, of *purge) (held bool, err error) {
	holes := of.holesIn(p)
	if len(of.ids) == 0 && len(holes) == 0 {
		return false, nil
	}
	if err := m.reader.Open(p.row.data); err != nil {
		return false, err
	}
	if _, err := m.reader.Runs(uint16(p.group.field), &m.cursor); err != nil {
		return false, err
	}
	for m.cursor.Next() && !held {
		id := seriesID(m.cursor.Series())
		if held = of.ids[id]; held || len(holes) == 0 {
			continue
		}
		times, left := m.cursor.Times(), 0
		_ = outside(holes, id, times, make([]float64, len(times)), func(times []int64, _ []float64) error {
			left += len(times)
			return nil
		})
		held = left < len(times)
	}
	return held, nil
}

// holesIn returns the parts of a chunk that deleted time ranges hide.
func (p *purge) holesIn(chunk *heldChunk) []hole {
	return slices.DeleteFunc(holesOf(p.erased, chunk.group.tier, chunk.generation), func(h hole) bool {
		return chunk.row.to < h.from || chunk.row.from >= h.to
	})
}

// goneIn returns the time before which points of the chunk must be removed.
func (p *purge) goneIn(chunk *heldChunk) int64 {
	if chunk.group.tier != rawTier {
		return minTime
	}
	return (&content{closed: p.closed}).goneBefore(chunk.generation)
}

// rewriteWithout replaces a chunk with one that lacks the points to be removed.
func (m *maintenance) rewriteWithout(cmd *rewriteBody, p *heldChunk, of *purge) error {
	var e points.Encoder
	gone, holes := of.goneIn(p), of.holesIn(p)
	err := m.eachRun(p, func(id seriesID, times []int64, values []float64) {
		if of.ids[id] {
			return
		}
		times, values = since(times, values, gone)
		_ = outside(holes, id, times, values, func(times []int64, values []float64) error {
			e.Run(uint32(id), uint16(p.group.field), times, values)
			return nil
		})
	})
	cmd.old = append(cmd.old, p.old())
	cmd.addChunks(p.group, p.generation, &e)
	cmd.reduces = true
	return err
}

// retiral is the search for series without points, after retention has removed points.
type retiral struct {
	found      bool
	candidates []printed // series without points; later those left to retire
	seen       bool      // present is set
	present    seriesSet // from a view in which all of them were being retired
}

// retire takes the next step of the search. Series without points are retired, which blocks their
// writers, and checked again. Then they are removed from the index, or kept if they were written to
// in the meantime. Otherwise a namespace with changing series would eventually be full.
func (m *maintenance) retire() (*step, error) {
	if m.content.expired <= m.content.swept && m.content.retiring == 0 {
		delete(m.retirals, m.inc)
		return nil, nil
	}
	r := m.retirals[m.inc]
	if r == nil {
		r = new(retiral)
		m.retirals[m.inc] = r
	}
	if !r.found && m.content.retiring == 0 {
		var err error
		if r.candidates, err = m.withoutPoints(); err != nil {
			return nil, err
		}
	}
	r.found = true
	l := seriesBody{inc: m.inc}
	if n := min(len(r.candidates), maxDeletes); n > 0 {
		l.series, r.candidates = r.candidates[:n], r.candidates[n:]
		return stepOf(m, retire, l)
	}
	if m.content.retiring > 0 {
		return m.settleRetired(r)
	}
	delete(m.retirals, m.inc)
	l.swept = m.content.expired
	return stepOf(m, settle, l)
}

func (m *maintenance) withoutPoints() (found []printed, err error) {
	present, err := m.present()
	if err != nil {
		return nil, err
	}
	err = m.each(incKey(nil, rowSeries, m.inc), func(k, value []byte) error {
		id := seriesOf(k)
		if present.has(id) {
			return nil
		}
		row, err := decodeSeries(value)
		found = append(found, printed{id, row.fingerprint})
		return err
	})
	return found, err
}

// settleRetired checks the series being retired again. They cannot have been written to since.
func (m *maintenance) settleRetired(r *retiral) (*step, error) {
	retiring, err := m.numbered(rowRetiring)
	if err != nil {
		return nil, err
	}
	if !r.seen {
		if r.present, err = m.present(); err != nil {
			return nil, err
		}
		r.seen = true
	}
	l := seriesBody{inc: m.inc}
	for _, p := range retiring[:min(len(retiring), maxDeletes)] {
		if r.present.has(p.id) {
			l.kept = append(l.kept, p)
		} else {
			l.series = append(l.series, p)
		}
	}
	return stepOf(m, settle, l)
}

// seriesSet is a set of series, one bit each.
type seriesSet []uint64

func (s *seriesSet) add(id seriesID) {
	i := int(id / 64)
	if i >= len(*s) {
		*s = append(*s, make([]uint64, i+1-len(*s))...)
	}
	(*s)[i] |= 1 << (id % 64)
}

func (s seriesSet) has(id seriesID) bool { return int(id/64) < len(s) && s[id/64]&(1<<(id%64)) != 0 }

// present returns the series that have points, in blocks or chunks of any tier.
func (m *maintenance) present() (found seriesSet, err error) {
	prefix := incKey(nil, rowBlock, m.inc)
	if err := m.each(prefix, func(_, value []byte) error {
		b, err := decodeBlock(value)
		for _, id := range b.ids {
			found.add(id)
		}
		return err
	}); err != nil {
		return nil, err
	}
	err = m.each(incKey(nil, rowChunk, m.inc), func(k, value []byte) error {
		p, err := readChunk(k, value)
		if err != nil {
			return err
		}
		if err := m.reader.Open(p.row.data); err != nil {
			return err
		}
		if _, err := m.reader.Runs(uint16(p.group.field), &m.cursor); err != nil {
			return err
		}
		for m.cursor.Next() {
			found.add(seriesID(m.cursor.Series()))
		}
		return nil
	})
	return found, err
}

// each calls f for the rows whose keys begin with prefix.
func (m *maintenance) each(prefix []byte, f func(k, value []byte) error) error {
	it, err := m.view.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		err = f(it.Key(), it.Value())
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return err
}
