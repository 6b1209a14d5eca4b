package workers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// The rows, in the key space of the action machine:
//
//	'x' | ns u32               number of the namespace's workers -> uvarint; no row for 0
//	'x' | ns u32 | worker id   a worker (see row)
//
// Rows 't' are in stats.go.
const (
	rowWorker = 'x'
	idAt      = 5 // offset of the ID in keys
)

// row is the stored state of a worker.
type row struct {
	worker       Worker // without the ID, which is in the key
	life         uint64 // 0: a polling worker
	draining     bool
	silent       bool  // no heartbeat since seen
	registeredAt int64 // ms; first registration
	seen         int64 // ms; latest heartbeat that was stored
	load         int   // of that heartbeat
	before       workerStats
	present      workerStats // of the current life; earlier lives are in before
	unregistered bool        // a polling worker that got runs without joining; it may be in several shards, see stats.go
}

// workerStats are the counts of a worker's processes, ordered by name and kind, and the totals.
type workerStats struct {
	list              []processStats
	completed, failed int64 // totals, including processes that were trimmed from the list
}

type processStats struct {
	name, kind     string
	runs, failures int64
	lastRun        int64 // ms
}

func (t *processStats) code(c *codec.Coder) {
	c.String(&t.name)
	c.String(&t.kind)
	c.Varint(&t.runs)
	c.Varint(&t.failures)
	c.Varint(&t.lastRun)
}

func (t *processStats) compare(o *processStats) int {
	return cmp.Or(cmp.Compare(t.name, o.name), cmp.Compare(t.kind, o.kind))
}

func (t *workerStats) code(c *codec.Coder) {
	codec.List(c, &t.list, func(c *codec.Coder, t *processStats) { t.code(c) })
	c.Varint(&t.completed)
	c.Varint(&t.failed)
	if !c.Reading() || c.Err() != nil {
		return
	}
	if err := t.check(); err != nil {
		c.Fail(err.Error())
	}
}

// check returns an error if the stats are invalid.
func (t *workerStats) check() error {
	if len(t.list) > maxProcesses {
		return fmt.Errorf("%d processes exceed %d", len(t.list), maxProcesses)
	}
	for i := range t.list {
		switch at := &t.list[i]; {
		case at.failures < 0 || at.runs < at.failures:
			return errors.New(engine.Text("process %q: %d failures of %d runs", at.name, at.failures, at.runs))
		case i > 0 && t.list[i-1].compare(at) >= 0:
			return errors.New(engine.Text("process %q is given twice, or out of order", at.name))
		}
	}
	if t.completed < 0 || t.failed < 0 {
		return fmt.Errorf("%d completed and %d failed runs", t.completed, t.failed)
	}
	return nil
}

// statsOf converts processes to stats.
func statsOf(processes []Process) (t workerStats) {
	for _, p := range processes {
		t.list = append(t.list, processStats{p.Name, p.Kind, p.Runs, p.Failures, p.LastRun.UnixMilli()})
		t.completed, t.failed = t.completed+p.Runs-p.Failures, t.failed+p.Failures
	}
	slices.SortFunc(t.list, func(a, b processStats) int { return a.compare(&b) })
	t.trim()
	return t
}

func (t *workerStats) equal(o *workerStats) bool {
	return t.completed == o.completed && t.failed == o.failed && slices.Equal(t.list, o.list)
}

// plus returns the sum of both.
func (t workerStats) plus(o workerStats) (sum workerStats) {
	sum.completed, sum.failed = t.completed+o.completed, t.failed+o.failed
	sum.list = slices.Concat(t.list, o.list)
	slices.SortStableFunc(sum.list, func(a, b processStats) int { return a.compare(&b) })
	n := 0
	for _, next := range sum.list {
		if n == 0 || sum.list[n-1].compare(&next) != 0 {
			sum.list[n] = next
			n++
			continue
		}
		at := &sum.list[n-1]
		at.runs, at.failures, at.lastRun = at.runs+next.runs, at.failures+next.failures, max(at.lastRun, next.lastRun)
	}
	sum.list = sum.list[:n]
	sum.trim()
	return sum
}

// trim removes the processes with the oldest last runs, beyond maxProcesses.
func (t *workerStats) trim() {
	if len(t.list) <= maxProcesses {
		return
	}
	slices.SortStableFunc(t.list, func(a, b processStats) int { return cmp.Compare(b.lastRun, a.lastRun) })
	t.list = t.list[:maxProcesses]
	slices.SortFunc(t.list, func(a, b processStats) int { return a.compare(&b) })
}

func (t *workerStats) processes() (all []Process) {
	for _, p := range t.list {
		all = append(all, Process{p.name, p.kind, p.runs, p.failures, time.UnixMilli(p.lastRun)})
	}
	return all
}

// code codes a row: version u8 | all fields in order, times as varints.
func (r *row) code(c *codec.Coder) {
	v := byte(1)
	if c.Byte(&v); v != 1 {
		c.Fail(fmt.Sprintf("worker row of version %d", v))
	}
	r.worker.code(c)
	c.Uvarint(&r.life)
	c.Bool(&r.draining)
	c.Bool(&r.silent)
	c.Varint(&r.registeredAt)
	c.Varint(&r.seen)
	c.Int(&r.load)
	r.before.code(c)
	r.present.code(c)
	if c.More(r.unregistered) {
		c.Bool(&r.unregistered)
	}
}

// code codes all fields except the ID.
func (w *Worker) code(c *codec.Coder) {
	c.String(&w.Type)
	c.String(&w.Machine)
	c.Int(&w.Max)
	codeLabels(c, &w.Labels)
	codec.List(c, &w.Handles, (*codec.Coder).String)
	c.Bytes(&w.Metadata)
}

func codeLabels(c *codec.Coder, labels *map[string]string) {
	var b []byte
	if !c.Reading() {
		b = engine.AppendHeaders(nil, *labels)
	}
	c.Bytes(&b)
	if !c.Reading() || c.Err() != nil {
		return
	}
	if b != nil && len(b) == 0 {
		c.Fail("empty labels")
	}
	var err error
	if *labels, err = engine.DecodeHeaders(b); err != nil {
		c.Fail(err.Error())
	}
}

func encode[T any](v *T, code func(*T, *codec.Coder)) []byte {
	c := codec.NewEncoder(nil)
	code(v, &c)
	return c.Encoded()
}

func decode[T any](b []byte, code func(*T, *codec.Coder)) (v T, err error) {
	c := codec.NewDecoder(b)
	code(&v, &c)
	return v, c.Done()
}

func decodeRow(b []byte) (row, error) { return decode(b, (*row).code) }

func workerKey(ns uint32, id string) []byte {
	return append(key.AppendUint32([]byte{rowWorker}, ns), id...)
}
