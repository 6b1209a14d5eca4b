package shard

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/meter"
)

// Reasons are the reasons of failed operations, as Measured.Operations counts them.
var Reasons = []string{"refused", "busy", "read only", "outcome unknown", "unavailable", "cancelled", "other"}

// reasonOf returns the index in Reasons.
func reasonOf(err error) int {
	for i, is := range [][]error{
		{engine.ErrNotFound, engine.ErrConflict, engine.ErrExists, engine.ErrInvalid, engine.ErrUnauthorized},
		{engine.ErrBusy}, {engine.ErrReadOnly}, {engine.ErrUnknownOutcome}, {engine.ErrUnavailable, engine.ErrClosed},
		{context.Canceled, context.DeadlineExceeded},
	} {
		for _, sentinel := range is {
			if errors.Is(err, sentinel) {
				return i
			}
		}
	}
	return len(Reasons) - 1
}

// Measured holds the metrics of a host since it was opened, for a metrics exporter.
type Measured struct {
	Primitives []MeasuredPrimitive
	Fsyncs     meter.Distribution // of the log
	CacheHits  int64              // reads answered from the row cache; no operation counts them
	LogBytes   int64              // of the segments of the log
	Queued     []QueuedProposals  // by shard
	State      StateMemory
}

// MeasuredPrimitive holds the metrics of a primitive.
type MeasuredPrimitive struct {
	Name    string
	Writes  []MeasuredOperation // its commands, including takes, from any source
	Reads   []MeasuredOperation // its queries, but for CacheHits
	Bytes   int64               // of its commands
	Errors  []int64             // by Reasons
	Written meter.Distribution  // duration of commands, except those that wait for something to take
	Read    meter.Distribution  // duration of queries, except those that wait for a change
}

// MeasuredOperation is a kind of command or query and its count.
type MeasuredOperation struct {
	Name  string
	Count int64
}

// QueuedProposals counts the waiting proposals of a shard.
type QueuedProposals struct{ Count, Bytes int64 }

// StateMemory is the memory used by primitives, and its limit.
type StateMemory struct{ Bytes, Limit int64 }

// gauge measures the operations of a primitive.
type gauge struct {
	primitive      engine.Primitive
	writes, reads  []atomic.Int64 // by kind; the first is for those without a kind
	bytes          atomic.Int64
	errors         []atomic.Int64
	written, asked meter.Histogram
}

// gauges holds the gauges of all primitives, by number.
type gauges [math.MaxUint8 + 1]*gauge

func newGauges(primitives []engine.Primitive) *gauges {
	all := new(gauges)
	for _, p := range engine.WithEngine(primitives) {
		all[p.ID] = &gauge{
			primitive: p, writes: make([]atomic.Int64, len(p.Commands)+1), reads: make([]atomic.Int64, len(p.Queries)+1),
			errors: make([]atomic.Int64, len(Reasons)),
		}
	}
	return all
}

// wrote counts a command and its result.
func (all *gauges) wrote(ctx context.Context, cmd *engine.Command, start time.Time, err error) {
	if g := all[cmd.Machine]; g != nil {
		g.bytes.Add(int64(len(cmd.Body)))
		g.count(ctx, g.writes, cmd.Kind, &g.written, start, err)
	}
}

// read counts a query and its result.
func (all *gauges) read(ctx context.Context, q engine.Query, start time.Time, err error) {
	if g := all[q.Machine()]; g != nil {
		g.count(ctx, g.reads, q.Kind(), &g.asked, start, err)
	}
}

func (g *gauge) count(ctx context.Context, kinds []atomic.Int64, kind uint8, took *meter.Histogram, start time.Time, err error) {
	if int(kind) >= len(kinds) {
		kind = 0
	}
	kinds[kind].Add(1)
	if !engine.IsLasting(ctx) { // how long it waits for others says nothing about this node
		took.Observe(time.Since(start))
	}
	if err != nil {
		g.errors[reasonOf(err)].Add(1)
	}
}

func (g *gauge) measured() MeasuredPrimitive {
	m := MeasuredPrimitive{Name: g.primitive.Name, Bytes: g.bytes.Load(), Written: g.written.Distribution(), Read: g.asked.Distribution()}
	for i, c := range g.primitive.Commands {
		m.Writes = append(m.Writes, MeasuredOperation{c.Name, g.writes[i+1].Load()})
	}
	for i, q := range g.primitive.Queries {
		m.Reads = append(m.Reads, MeasuredOperation{q.Name, g.reads[i+1].Load()})
	}
	for i := range g.errors {
		m.Errors = append(m.Errors, g.errors[i].Load())
	}
	return m
}

// Measure returns the metrics of the host without waiting. Errors: ErrClosed once it is being
// closed, ErrUnavailable once it has failed.
func (h *Host) Measure() (m Measured, err error) {
	if err := h.enter(); err != nil {
		return m, err
	}
	defer h.leave()
	for _, g := range h.gauges {
		if g == nil {
			continue
		}
		m.Primitives = append(m.Primitives, g.measured())
		if kept := g.primitive.Kept; kept != nil {
			m.State.Bytes, m.State.Limit = kept.Used()
		}
	}
	m.Fsyncs, m.CacheHits, m.LogBytes = h.writer.syncs.Distribution(), h.rows.Hits(), h.ual.Size()
	for _, s := range h.shards {
		m.Queued = append(m.Queued, QueuedProposals{s.admission.queued.Load(), s.admission.bytes.Load()})
	}
	return m, nil
}

// MeasureStore returns Pebble's metrics of the state. It waits while Pebble writes its manifest,
// and so for the disk. Errors are those of Measure.
func (h *Host) MeasureStore() (*pebble.Metrics, error) {
	if err := h.enter(); err != nil {
		return nil, err
	}
	defer h.leave()
	return h.db.Metrics(), nil
}

// Go runs f in a goroutine for which Close waits. Its context ends when the host stops. Errors are
// those of Measure; f is then not run.
func (h *Host) Go(f func(ctx context.Context)) error {
	if err := h.enter(); err != nil {
		return err
	}
	go func() {
		defer h.leave()
		f(h.ctx)
	}()
	return nil
}

// StaleDoor returns a Door whose queries are answered from this node's replicas, even if they lag.
// They do not wait for pending writes.
func (h *Host) StaleDoor() engine.Door { return staleDoor{h} }

type staleDoor struct{ *Host }

func (d staleDoor) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	return d.QueryStale(ctx, id, q)
}
