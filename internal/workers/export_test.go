package workers

import (
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// Unexported parts of the package for its tests.

const (
	SilentMillis = silentMillis
	GoneMillis   = goneMillis
	SettleMillis = settleMillis
	ReportMillis = reportMillis
	MaxBatch     = maxBatch
	WaitMillis   = waitMillis
	MaxProcesses = maxProcesses
)

// NewFastRegistrar returns a Registrar with short intervals.
func NewFastRegistrar(r *engine.Router) *Registrar {
	c := NewRegistrar(r)
	c.every, c.soon = 20*time.Millisecond, 2*time.Millisecond
	return c
}

// Report returns a report of workers and the indexes of those that the shard does not know.
func Report(namespace string, list ...Reported) (q engine.Query, unknown func() []int) {
	r := &reportQuery{namespace: namespace}
	for _, one := range list {
		r.list = append(r.list, report{one.ID, one.Life, one.Load, statsOf(one.Processes)})
	}
	return r, func() []int { return r.unknown }
}

// Reported is a worker in a report.
type Reported struct {
	ID        string
	Life      uint64
	Load      int
	Processes []Process
}

// JoinOp registers workers with a life; the first of them routes it.
func JoinOp(life uint64, all ...Worker) engine.Op {
	var c joinBody
	for _, w := range all {
		c.list = append(c.list, joining{worker: w, life: life})
	}
	return rawOp(join, all[0].ID, c)
}

// LeaveOp removes workers or marks them as draining; the first of them routes it.
func LeaveOp(life uint64, drain bool, ids ...string) engine.Op {
	c := leaveBody{drain: drain}
	for _, id := range ids {
		c.list = append(c.list, leaving{id, life})
	}
	return rawOp(leave, ids[0], c)
}

// rawOp returns an operation with an unchecked body.
func rawOp[B, R any](row *engine.CommandRow[session, B, R], route string, b B) engine.Op {
	return engine.Op{Command: engine.Command{Machine: engine.MachineAction, Kind: row.Kind, Body: codec.EncodeFields(nil, &b, row.Body)},
		Route: route}
}

// Admit validates a user's command.
func Admit(cmd engine.Command) error { return Commands()[cmd.Kind-KindJoin].Admit(cmd, 0) }

// Recode decodes a row and encodes it again.
func Recode(b []byte) ([]byte, error) {
	r, err := decodeRow(b)
	return encode(&r, (*row).code), err
}

// DecodeBody returns an error if a command's body does not decode.
func DecodeBody(kind uint8, b []byte) error {
	_, err := commands.NewCalls().Read(engine.Command{Kind: kind, Body: b})
	return err
}

// NoteOp is the leader's command that marks workers as silent and removes others, if they were last
// seen at was.
func NoteOp(life uint64, was int64, silent, gone []string) engine.Op {
	var c noteBody
	for _, id := range silent {
		c.list = append(c.list, noting{id: id, life: life, was: was, silent: true, seen: was})
	}
	for _, id := range gone {
		c.gone = append(c.gone, going{id, was})
	}
	return rawOp(note, "", c)
}

// RowKinds are the kinds of rows, for machinetest.RunDamages.
var RowKinds = map[string]machinetest.RowKind{
	"count":  machinetest.BareRow(func(k []byte) bool { return k[0] == rowWorker && len(k) == idAt }),
	"worker": machinetest.RowOf(func(k []byte) bool { return k[0] == rowWorker && len(k) > idAt }, (*row).code),
	"stats":  machinetest.RowOf(func(k []byte) bool { return k[0] == rowStats }, (*runStats).code),
}

// NewSlowRegistrar returns a Registrar that makes calls when a member joins or leaves, and soon
// after changes.
func NewSlowRegistrar(r *engine.Router, soon time.Duration) *Registrar {
	c := NewRegistrar(r)
	c.every, c.soon = time.Hour, soon
	return c
}

// NoteStatsOp is the leader's command that stores a worker's counts.
func NoteStatsOp(life uint64, id string, processes []Process) engine.Op {
	return rawOp(note, "", noteBody{list: []noting{{id: id, life: life, was: 1, seen: 2, load: 3, present: statsOf(processes)}},
		gone: []going{{"x", 4}}})
}
