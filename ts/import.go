package ts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points/line"
)

// Precision is the unit of the timestamps of lines. They are stored in ms; finer ones are rounded
// down.
type Precision uint8

// The units of timestamps.
const (
	Nanoseconds Precision = iota
	Microseconds
	Milliseconds
	Seconds
)

// String returns ns, us, ms or s.
func (p Precision) String() string {
	if p > Seconds {
		return "unknown"
	}
	return line.Precision(p).String()
}

// ParsePrecision parses ns, us, ms or s. Errors: ErrInvalid.
func ParsePrecision(s string) (Precision, error) {
	p, err := line.ParsePrecision(s)
	if err != nil {
		return 0, engine.Errorf(ErrInvalid, "ts: %v", err)
	}
	return Precision(p), nil
}

// importValues is the number of values in a batch of lines: about what can be written in a few
// milliseconds.
const importValues = 20_000

// WriteLine writes points read from r in the line protocol of InfluxDB, one point per line, in
// batches of some thousands. It reports malformed and refused lines by number, and writes the
// others; the error is nil then. It drops and counts string fields, and refuses a line without
// other fields. A line without a timestamp gets the time of its batch.
//
// Errors: ErrInvalid for an unknown precision; those of r; and those of Write that do not concern a
// point. Result reports the points written before the error.
func (s *Store) WriteLine(ctx context.Context, r io.Reader, precision Precision) (Result, error) {
	return s.writeLines(ctx, r, precision, false)
}

// Import is WriteLine for large inputs. While too many points are unsealed, or the node or its
// leader is unreachable, it waits and retries the batch, with pauses of up to 5 s, until ctx is
// done. Retrying a batch changes nothing, so a node may restart in the meantime.
//
// Errors: those of WriteLine except ErrBusy and ErrUnavailable. If ctx is done during a wait,
// Import returns its error and the one that caused the wait.
func (s *Store) Import(ctx context.Context, r io.Reader, precision Precision) (Result, error) {
	return s.writeLines(ctx, r, precision, true)
}

func (s *Store) writeLines(ctx context.Context, r io.Reader, precision Precision, patient bool) (Result, error) {
	var result Result
	if precision > Seconds {
		return result, engine.Errorf(ErrInvalid, "ts: unknown precision %d", precision)
	}
	if r == nil {
		return result, engine.Errorf(ErrInvalid, "ts: the reader is nil")
	}
	b := s.newBatch(&result)
	defer b.release()
	b.patient = patient
	b.scanner.Reset(r, line.Precision(precision))
	for {
		b.now = time.Now().UnixMilli()
		end, err := b.fill(&b.scanner)
		if flushErr := b.flushPatiently(ctx); flushErr != nil {
			return result, flushErr
		}
		if err != nil || end {
			return result, err
		}
		b.reset()
	}
}

// Bounds of the pause before an import retries a batch.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// flushPatiently writes the batch. A patient batch waits while refusals are temporary.
func (b *batch) flushPatiently(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		before := b.pending
		err := b.flush(ctx)
		if !b.patient || !errors.Is(err, ErrBusy) && !errors.Is(err, engine.ErrUnavailable) {
			return err
		}
		if b.pending < before {
			pause = firstPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// fill adds lines until the batch is large enough. Its result is whether all lines have been read.
func (b *batch) fill(scanner *line.Scanner) (end bool, err error) {
	for len(b.values) < importValues {
		l := b.held
		if b.held = nil; l == nil {
			if l, err = scanner.Next(); err != nil {
				if end, err = b.refuseLine(err); end || err != nil {
					return end, err
				}
				continue
			}
			b.result.Strings += l.Strings
		}
		if err := b.addLine(l); b.full(err) {
			b.held = l
			return false, nil
		} else if err != nil {
			b.refuse(l.Number, err)
		}
	}
	return false, nil
}

// refuseLine records a malformed line. Other errors of the scanner end the import, with or without
// an error.
func (b *batch) refuseLine(err error) (end bool, _ error) {
	if malformed := (*line.Error)(nil); errors.As(err, &malformed) {
		b.refuse(malformed.Line, engine.Errorf(ErrInvalid, "%s", malformed.Reason))
		return false, nil
	}
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// addLine adds a line, or returns the reason for refusing it.
func (b *batch) addLine(l *line.Line) error {
	if len(l.Series) > 0 && l.Series[0] == pointKey {
		return engine.Errorf(ErrInvalid, "ts: measurement name begins with a NUL byte") // reserved for other keys of the cache
	}
	series, ok := b.member(l.Series)
	if !ok {
		measurement, tags, err := readSeriesKey(string(l.Series))
		if err != nil {
			err = engine.Errorf(ErrInvalid, "ts: %v", err)
		}
		series = b.newSeries(string(l.Series), measurement, tags, err)
	}
	at := b.now
	if l.HasTime {
		at = l.Time
	}
	if err := b.begin(l.Number, series, at); err != nil {
		return err
	}
	m := &b.measurements[b.series[series].measurement]
	for i := range l.Fields {
		f := &l.Fields[i]
		n, err := m.field(f.Key, fieldTypeOf(f.Kind), i)
		if err != nil {
			b.abandon()
			return err
		}
		v := batchValue{n, f.Exponent, f.Mantissa}
		if !f.Decimal {
			v = batchValue{n, notDecimal, int64(math.Float64bits(f.Value))}
		}
		b.values = append(b.values, v)
	}
	b.end()
	return nil
}

func fieldTypeOf(k line.Kind) FieldType {
	switch k {
	case line.Float:
		return Float
	case line.Boolean:
		return Boolean
	}
	return Integer
}
