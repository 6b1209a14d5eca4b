package workers

import (
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// What the tests need to see of the inside.

const (
	SilentMillis = silentMillis
	GoneMillis   = goneMillis
	SettleMillis = settleMillis
	ReportMillis = reportMillis
	MaxBatch     = maxBatch
	WaitMillis   = waitMillis
	MaxProcesses = maxProcesses
)

// NewFastRegistrar returns Registrar that wait for less.
func NewFastRegistrar(r *engine.Router) *Registrar {
	c := NewRegistrar(r)
	c.every, c.soon = 20*time.Millisecond, 2*time.Millisecond
	return c
}

// Report is what a process says of workers. It returns the places of those that the shard does not know.
func Report(namespace string, list ...Reported) (q engine.Query, unknown func() []int) {
	r := &reportQuery{namespace: namespace}
	for _, one := range list {
		r.list = append(r.list, report{one.ID, one.Life, one.Load, statsOf(one.Processes)})
	}
	return r, func() []int { return r.unknown }
}

// Reported is one of them.
type Reported struct {
	ID        string
	Life      uint64
	Load      int
	Processes []Process
}

// JoinOp has a worker join in a life, LeaveOp has it leave.
func JoinOp(life uint64, all ...Worker) engine.Op {
	var c joinBody
	for _, w := range all {
		c.list = append(c.list, joining{worker: w, life: life})
	}
	return rawOp(join, all[0].ID, c)
}

// LeaveOp has workers leave; the first of them routes it.
func LeaveOp(life uint64, drain bool, ids ...string) engine.Op {
	c := leaveBody{drain: drain}
	for _, id := range ids {
		c.list = append(c.list, leaving{id, life})
	}
	return rawOp(leave, ids[0], c)
}

// rawOp makes an operation of a body that nobody checks.
func rawOp[B, R any](row *engine.CommandRow[session, B, R], route string, b B) engine.Op {
	return engine.Op{Command: engine.Command{Machine: engine.MachineAction, Kind: row.Kind, Body: codec.EncodeFields(nil, &b, row.Body)}, Route: route}
}

// Admit validates a command of a user.
func Admit(cmd engine.Command) error { return Commands()[cmd.Kind-KindJoin].Admit(cmd, 0) }

// Recode decodes a row and encodes it again.
func Recode(b []byte) ([]byte, error) {
	r, err := decodeRow(b)
	return encode(&r, (*row).code), err
}

// DecodeBody decodes a command's body and says whether that worked.
func DecodeBody(kind uint8, b []byte) error {
	_, err := commands.NewCalls().Read(engine.Command{Kind: kind, Body: b})
	return err
}

// NoteOp has the leader note that workers of a life, who were seen at a time, are silent, and that others are gone.
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
