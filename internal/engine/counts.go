package engine

import (
	"fmt"
	"strings"

	"github.com/floedb/floe/internal/codec"
)

// Counts describes the contents of a namespace. The machines maintain the numbers, so no scan is
// needed, and their tables map counters to fields.
type Counts struct {
	Keys         int64 // KV: keys that exist
	KeyBytes     int64 // KV: bytes of their keys and values
	KeyReads     int64 // KV: reads answered by this node
	KeySets      int64 // KV: total values written
	KeyDeletes   int64 // KV: total keys deleted, without those that expired
	DeadKeys     int64 // KV: deleted and expired keys whose history is still kept
	Streams      int64
	Queues       int64
	Measurements int64
	Series       int64 // time series: of all measurements
	Points       int64 // time series: written and not removed, see ts.Measurement
	Actions      int64
	Workflows    int64
	Jobs         int64

	// Workflow runs: the active ones, the total, and the ended ones by outcome.
	RunsActive, RunsStarted, RunsCompleted, RunsFailed, RunsCancelled, RunsTimedOut int64
	Signals                                                                         int64 // total received by runs
	Timers                                                                          int64 // total fired in runs
	Steps                                                                           int64 // total started by runs
	// schedules of workflows that are neither paused nor disabled
	Schedules           int64
	CompensationsFailed int64 // total, of workflow runs
}

type countField struct {
	name string
	v    *int64
}

// fields returns the numbers in the order in which they are encoded. New ones are added at the end.
func (c *Counts) fields() []countField {
	return []countField{
		{"keys", &c.Keys}, {"key_bytes", &c.KeyBytes}, {"key_reads", &c.KeyReads}, {"key_sets", &c.KeySets}, {"key_deletes", &c.KeyDeletes},
		{"dead_keys", &c.DeadKeys}, {"streams", &c.Streams}, {"queues", &c.Queues}, {"measurements", &c.Measurements}, {"series",
			&c.Series},
		{"points", &c.Points}, {"actions", &c.Actions}, {"workflows", &c.Workflows}, {"jobs", &c.Jobs},
		{"runs_active", &c.RunsActive}, {"runs_started", &c.RunsStarted}, {"runs_completed", &c.RunsCompleted}, {"runs_failed",
			&c.RunsFailed},
		{"runs_cancelled", &c.RunsCancelled}, {"runs_timed_out", &c.RunsTimedOut}, {"signals", &c.Signals}, {"timers", &c.Timers}, {"steps",
			&c.Steps},
		{"schedules", &c.Schedules}, {"compensations_failed", &c.CompensationsFailed},
	}
}

func (c *Counts) code(f *codec.Fields) {
	for _, n := range c.fields() {
		f.Varint(n.name, n.v)
	}
}

// checkEmpty refuses to delete a namespace that is not empty.
func (c Counts) checkEmpty(namespace string) error {
	var all []string
	for _, n := range [...]struct {
		is   int64
		what string
	}{
		{c.Keys, "keys"}, {c.Streams, "streams"}, {c.Queues, "queues"}, {c.Measurements, "measurements"}, {c.Actions,
			"actions"}, {c.Workflows, "workflows"},
		{c.RunsActive, "active workflow runs"}, {c.Jobs, "processing jobs"},
	} {
		switch {
		case n.is == 1:
			all = append(all, "1 "+strings.TrimSuffix(n.what, "s"))
		case n.is > 0:
			all = append(all, fmt.Sprintf("%d %s", n.is, n.what))
		}
	}
	if all == nil {
		return nil
	}
	return Errorf(ErrConflict, "namespace %q is not empty: %s", namespace, strings.Join(all, ", "))
}

func (c *Counts) add(d Counts) {
	more := d.fields()
	for i, n := range c.fields() {
		*n.v += *more[i].v
	}
}

// counts returns the numbers of a namespace in the form for users.
func (t *table) counts(counters []int64, reads int64) (c Counts) {
	for id, p := range t.byID {
		if p == nil {
			continue
		}
		for i, counter := range p.Counters {
			*counter.Field(&c) = counters[t.base[id]+i]
		}
		if p.Reads != nil {
			*p.Reads(&c) = reads
		}
	}
	return c
}

// counterName returns the name of a counter for messages.
func (t *table) counterName(i int) string {
	for id, p := range t.byID {
		if p != nil && i < t.base[id]+len(p.Counters) {
			return p.Name + " counter " + p.Counters[i-t.base[id]].Name
		}
	}
	return fmt.Sprintf("counter %d", i)
}

// appendCounters appends the counters of the machines that have counted something:
//
//	machines uvarint | machine u8, n uvarint, n counters (varint) ...
func (t *table) appendCounters(dst []byte, counters []int64) []byte {
	at := len(dst)
	dst = append(dst, 0)
	for id, p := range t.byID {
		if p == nil {
			continue
		}
		own := counters[t.base[id] : t.base[id]+len(p.Counters)]
		for len(own) > 0 && own[len(own)-1] == 0 {
			own = own[:len(own)-1]
		}
		if len(own) == 0 {
			continue
		}
		dst[at]++ // maxMachines fit into a byte
		dst = codec.AppendUvarint(append(dst, byte(id)), uint64(len(own)))
		for _, n := range own {
			dst = codec.AppendVarint(dst, n)
		}
	}
	return dst
}

// readCounters is the inverse of appendCounters.
func (t *table) readCounters(r *codec.Reader) ([]int64, error) {
	counters := make([]int64, t.counters)
	last := -1
	for range r.Uvarint() {
		id, n := int(r.Byte()), r.Uvarint()
		if r.Err() != nil {
			break
		}
		p := t.primitive(MachineID(id))
		if id <= last || p == nil || n == 0 || n > uint64(len(p.Counters)) {
			return nil, fmt.Errorf("%w: %d counters of machine %d", codec.ErrCorrupt, n, id)
		}
		last = id
		own := counters[t.base[id]:][:n]
		for i := range own {
			own[i] = r.Varint()
		}
		if own[n-1] == 0 && r.Err() == nil {
			return nil, fmt.Errorf("%w: counters of machine %d end with 0", codec.ErrCorrupt, id)
		}
	}
	return counters, r.Err()
}
