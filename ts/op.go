package ts

import (
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points"
)

type hiddenOp = engine.HiddenOp

// Op is an operation of a transaction, made by WriteOp and similar functions; see floe.Txn. It can
// be used in any number of transactions. The zero Op is refused with ErrInvalid.
type Op struct{ hiddenOp }

// WriteOp is Write as an operation of a transaction: all points are written, or the transaction is
// refused. The points may have up to 1,000 series, 1,000 measurements and 65,536 values. Those of
// one measurement may lie in up to 1,024 days (UTC), or 4,096 divided by its number of fields if
// that is less. In a spread namespace all of them must be in one shard, so their tags need a common
// {tag}. Points without a time get the time of the call.
func WriteOp(points ...Point) Op { return Op{engine.Hide(writeOp(points))} }

// SetRetentionOp is Store.SetRetention as an operation of a transaction.
func SetRetentionOp(measurement string, r Retention) Op {
	return Op{engine.Hide(setRetentionOp(measurement, r))}
}

// DeleteMeasurementOp is Store.Delete as an operation of a transaction. In a spread namespace it
// deletes only the part in the shard of the name.
func DeleteMeasurementOp(name string) Op {
	return Op{engine.Hide(remove.Op(name, engine.Nothing{}, nil))}
}

func writeOp(all []Point) engine.Op {
	var result Result
	b := (&Store{cache: newCache()}).newBatch(&result)
	for i := range all {
		if err := b.addPoint(i, &all[i]); err != nil {
			return engine.Op{Err: PointError{At: i, Err: err}}
		}
	}
	if len(all) == 0 {
		return engine.Op{Err: engine.Errorf(ErrInvalid, "ts: write without points")}
	}
	for i := range b.series {
		s := &b.series[i]
		s.hash, s.fingerprint = s.tags.identity()
	}
	plans := b.planAll()
	if p := plans[0]; p.left > 0 {
		return engine.Op{Err: engine.Errorf(ErrInvalid,
			"ts: %d points with %d values, %d series and %d measurements exceed one write by %d points: "+
				"the limits are %d values, %d series, %d measurements and, for each measurement, %d days and %d days times fields",
			len(all), len(b.values), len(b.series), len(b.measurements), p.left, maxBatch, maxNewSeries, maxSections, maxPartitions,
			maxSpread)}
	}
	op := write.Make("", func(w *writeBody) error {
		w.atomic = true
		plans[0].command(b, w, new(points.Encoder))
		return nil
	})
	first := &b.series[b.rows[0].series]
	op.Route = routeOf(b.measurements[first.measurement].name, first.tags)
	op.Decode = func(b []byte) (any, error) { return nil, nil }
	return op
}

// routed returns an operation with a route other than its name.
func routed(op engine.Op, route string) engine.Op {
	op.Route = route
	return op
}

func setRetentionOp(measurement string, r Retention) engine.Op {
	p := policy{rawTTL: r.RawTTL.Milliseconds()}
	for _, d := range r.Downsample {
		p.tiers = append(p.tiers, tier{every: d.Every.Milliseconds(), ttl: d.TTL.Milliseconds()})
	}
	return setRetention.Op(measurement, p, r.check())
}

// body returns the series of a page for a command.
func (p *seriesPage) body() seriesBody {
	l := seriesBody{inc: p.inc}
	for _, s := range p.items {
		l.series = append(l.series, printed{s.id, s.row.fingerprint})
	}
	return l
}

// duration converts ms to a time.Duration.
func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// checkPoints decodes all points. Writes made in this process need no check, because they
// were encoded here.
func (w *writeBody) checkPoints() error {
	var r points.Reader
	for i := range w.sections {
		s := &w.sections[i]
		if len(s.known.ids) > 0 {
			if err := checkEncoded(&r, s.known.points, s.known.span, len(s.known.ids), len(s.fields)); err != nil {
				return err
			}
		}
		if len(s.fresh.tags) > 0 {
			if err := checkEncoded(&r, s.fresh.points, s.fresh.span, len(s.fresh.tags), len(s.fields)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkEncoded checks points of the given numbers of series and fields against their span, and
// against the limits for sealing.
func checkEncoded(r *points.Reader, encoded []byte, sp span, series, fields int) error {
	info, err := r.Check(encoded)
	if err != nil {
		return engine.Errorf(ErrInvalid, "ts: %v", err)
	}
	last := 0
	for _, f := range r.Fields(nil) {
		last = max(last, int(f))
	}
	switch {
	case info.From < sp.oldest || info.To > sp.newest:
		return engine.Errorf(ErrInvalid, "ts: points from %d to %d are outside their span from %d to %d", info.From, info.To,
			sp.oldest, sp.newest)
	case int(info.Last) >= series || last >= fields:
		return engine.Errorf(ErrInvalid, "ts: points of series %d and field %d exceed %d series or %d fields", info.Last, last,
			series, fields)
	case info.Points > maxBatch:
		return engine.Errorf(ErrInvalid, "ts: %d values exceed %d", info.Points, maxBatch)
	}
	return checkPartitions(r, fields)
}

// checkPartitions bounds the partitions of a block when it is sealed.
func checkPartitions(r *points.Reader, fields int) error {
	seen := make(map[int64]bool)
	var c points.Cursor
	for _, f := range r.Fields(nil) {
		if _, err := r.Runs(f, &c); err != nil {
			return engine.Errorf(ErrInvalid, "ts: %v", err)
		}
		for c.Next() {
			for _, t := range c.Times() {
				seen[floorDiv(t, rawPartition)] = true
			}
		}
		if len(seen) > maxPartitions || len(seen) > 1 && len(seen)*fields > maxSpread {
			return engine.Errorf(ErrInvalid, "ts: block over %d partitions with %d fields", len(seen), fields)
		}
	}
	return nil
}
