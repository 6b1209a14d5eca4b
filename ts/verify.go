package ts

import (
	"encoding/binary"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

var _ engine.Verifier = (*machine)(nil)

// Verify checks that all rows of the machine are consistent and that its memory matches them. See
// the comment on rows for their contents.
func (m *machine) Verify(a *engine.Audit) error {
	v := &verifier{Audit: a, m: m, names: a.Names(), all: make(map[incarnation]bool), counts: make(map[uint32]*nsCounts)}
	for _, step := range []func() error{v.unknownRows, v.measurements, v.nameRows, v.orphans, v.timers, v.totals} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// verifier walks over the measurements one by one. It keeps a number for each, and a few bits for
// each series of the current one.
type verifier struct {
	*engine.Audit
	m        *machine
	names    []string // of namespaces
	all      map[incarnation]bool
	counts   map[uint32]*nsCounts
	unsealed int64
}

// nsCounts are the counts of a namespace.
type nsCounts struct{ measurements, series, points int64 }

// unknownRows reports rows of unknown kind.
func (v *verifier) unknownRows() error { return v.UnknownRows("ts", allKinds) }

func (v *verifier) measurements() error {
	return v.Scan([]byte{rowMeasurement}, []byte{rowMeasurement + 1}, func(k, value []byte) error {
		m, err := decodeMeasurement(value)
		if err != nil || len(k) != numberAt {
			v.Reportf("ts: row %x: %v", k, err)
			return nil
		}
		inc := incarnationOf(k)
		v.all[inc] = true
		o, ok, err := openView(&v.View, m.ns, m.name)
		if err != nil || !ok || o.inc != inc {
			v.Reportf("ts: measurement %q of %d: its name or content row is missing: %v", m.name, inc, err)
			return nil
		}
		c := v.counts[m.ns]
		if c == nil {
			c = new(nsCounts)
			v.counts[m.ns] = c
		}
		c.series, c.points = c.series+int64(o.content.series), c.points+o.content.points
		if v.isHome(m.ns, m.name) {
			c.measurements++
		}
		v.unsealed += o.content.blocks.bytes
		audited := &auditedMeasurement{verifier: v, open: o}
		return audited.check()
	})
}

// isHome reports whether the shard is the home of a measurement, which counts it.
func (v *verifier) isHome(ns uint32, name string) bool {
	return int(ns) >= len(v.names) || v.Here(v.names[ns], name)
}

// nameRows checks the rows keyed by the name of a measurement, or by namespace.
func (v *verifier) nameRows() error {
	if err := v.Scan([]byte{rowName}, []byte{rowName + 1}, func(k, value []byte) error {
		if inc, err := decodeCount(value); err != nil || len(k) <= nameAt || !v.all[incarnation(inc)] {
			v.Reportf("ts: row %x names measurement %d, which does not exist: %v", k, inc, err)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := v.Scan([]byte{rowPolicy}, []byte{rowPolicy + 1}, func(k, value []byte) error {
		if _, err := decodePolicy(value); err != nil || len(k) <= nameAt {
			v.Reportf("ts: row %x: %v", k, err)
		}
		return nil
	}); err != nil {
		return err
	}
	return v.Scan([]byte{rowLimit}, []byte{rowLimit + 1}, func(k, value []byte) error {
		if _, err := decodeLimit(value); err != nil || len(k) != nameAt {
			v.Reportf("ts: row %x: %v", k, err)
		}
		return nil
	})
}

// orphans reports rows without a measurement.
func (v *verifier) orphans() error {
	for i := range ofIncarnation {
		kind := ofIncarnation[i]
		lower, upper := []byte{kind}, []byte{kind + 1}
		for lower != nil {
			inc, found, err := v.firstIncarnation(lower, upper)
			if err != nil {
				return err
			}
			if !found {
				break
			}
			if !v.all[inc] {
				v.Reportf("ts: rows %q of %d, which is not a measurement", kind, inc)
			}
			lower = key.PrefixEnd(incKey(nil, kind, inc))
		}
	}
	return nil
}

func (v *verifier) firstIncarnation(lower, upper []byte) (inc incarnation, found bool, err error) {
	it, err := v.Iter(lower, upper)
	if err != nil {
		return 0, false, err
	}
	for ok := it.First(); ok && !found; ok = it.Next() {
		if found = len(it.Key()) >= numberAt; !found {
			v.Reportf("ts: row %x is too short", it.Key())
			continue
		}
		inc = incarnationOf(it.Key())
	}
	return inc, found, it.Close()
}

// timers checks that every timer has a reason. That each reason has a timer is checked elsewhere.
func (v *verifier) timers() error {
	return v.Timers(func(due int64, ns uint32, token []byte) error {
		if len(token) != numberAt || token[0] != tokenRetention {
			v.Reportf("ts: timer with unknown token %q", token)
			return nil
		}
		b, ok, err := v.Get(incKey(nil, rowContent, incarnation(binary.BigEndian.Uint64(token[1:]))))
		if err != nil {
			return err
		}
		if c, err := decodeContent(b); !ok || err != nil || c.timer != due {
			v.Reportf("ts: measurement %x has a timer at %d, its row says %d", token[1:], due, c.timer)
		}
		return nil
	})
}

// totals checks the counts over all measurements.
func (v *verifier) totals() error {
	for i := range v.names {
		ns := uint32(i)
		c := v.counts[ns]
		if c == nil {
			c = new(nsCounts)
		}
		for _, n := range []struct {
			counter engine.Counter
			name    string
			is      int64
		}{{countMeasurements, "measurements", c.measurements}, {countSeries, "series", c.series}, {countPoints, "points", c.points}} {
			if counted, known := v.Counted(ns, n.counter); known && counted != n.is {
				v.Reportf("ts: namespace %q: its row counts %d %s, found %d", v.names[i], counted, n.name, n.is)
			}
		}
	}
	unsealed := uint64(0)
	b, ok, err := v.Get([]byte{rowUnsealed})
	if err != nil {
		return err
	}
	if ok {
		if unsealed, err = decodeCount(b); err != nil {
			v.Reportf("ts: row of unsealed bytes: %v", err)
		}
	}
	if int64(unsealed) != v.unsealed {
		v.Reportf("ts: %d unsealed bytes, their row counts %d", v.unsealed, unsealed)
	}
	return nil
}
