package workers

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// The commands of the registry. Each command names one or more workers.
var (
	join = &engine.CommandRow[session, joinBody, engine.Nothing]{
		Kind: KindJoin, Name: "join", From: engine.FromUsers, Route: (*joinBody).route, Body: (*joinBody).code,
		Admit: (*joinBody).checkMetadata,
		Run:   func(s session, b *joinBody) error { return s.join(s.tx, b) },
	}
	leave = &engine.CommandRow[session, leaveBody, engine.Nothing]{
		Kind: KindLeave, Name: "leave", From: engine.FromUsers, Shrinks: true, Route: (*leaveBody).route, Body: (*leaveBody).code,
		Run: func(s session, b *leaveBody) error { return s.leave(s.tx, b) },
	}
	note = &engine.CommandRow[session, noteBody, engine.Nothing]{
		Kind: KindNote, Name: "note workers", From: engine.FromLeaders, Shrinks: true, Route: func(*noteBody) string { return "" },
		Body: (*noteBody).code,
		Run: func(s session, b *noteBody) error {
			s.note(s.tx, b)
			return nil
		},
	}
)

var commands = engine.Declare(engine.MachineAction, "worker", CheckID, join, leave, note)

// Commands returns the command types of the registry, for the machine's command table.
func Commands() []engine.CommandType { return commands.Types() }

// batch bounds the number of workers in a command.
var batch = codec.Range{Min: 1, Max: maxBatch}

// joinBody registers workers or updates their descriptions.
type joinBody struct{ list []joining }

type joining struct {
	worker   Worker
	life     uint64
	draining bool
}

func (j *joinBody) code(f *codec.Fields) {
	codec.ListInto(f, "workers", &j.list, (*joining).code, batch)
}
func (j *joinBody) route() string { return j.list[0].worker.ID }

func (j *joining) code(f *codec.Fields) {
	f.Text("id", &j.worker.ID)
	j.worker.fields(f)
	f.Uvarint("life", &j.life)
	f.Bool("draining", &j.draining)
}

// checkMetadata checks whole workers, including their metadata, which is parsed as JSON. It runs
// only when a command is admitted.
func (j *joinBody) checkMetadata() error {
	for i := range j.list {
		if err := j.list[i].worker.Check(); err != nil {
			return err
		}
	}
	return nil
}

// fields codes all fields except the ID.
func (w *Worker) fields(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		w.code(c)
		return
	}
	if f.Checking() {
		f.Refuse(w.check())
		return
	}
	f.Text("type", &w.Type)
	f.Text("machine", &w.Machine)
	f.Int("concurrency", &w.Max, codec.Range{Max: maxConcurrent})
	engine.CodePairMap(f, "labels", &w.Labels)
	codec.ListInto(f, "handles", &w.Handles, codec.Text, codec.Range{Max: MaxHandles})
	f.Blob("metadata", &w.Metadata, codec.Range{Max: MaxMetadataBytes})
}

// leaveBody removes workers or marks them as draining. A worker that is not registered, or has
// restarted with another life, is skipped. If it is the only worker of the command, the command
// fails.
type leaveBody struct {
	drain bool // mark the workers as draining instead of removing them
	list  []leaving
}

type leaving struct {
	id   string
	life uint64 // 0: any
}

func (l *leaveBody) code(f *codec.Fields) {
	f.Bool("drain", &l.drain)
	codec.ListInto(f, "workers", &l.list, (*leaving).code, batch)
}

func (l *leaveBody) route() string { return l.list[0].id }

func (l *leaving) code(f *codec.Fields) {
	f.Text("id", &l.id)
	if f.Uvarint("life", &l.life); f.Checking() {
		f.Refuse(CheckID(l.id))
	}
}

// noteBody stores workers' heartbeats. An entry is skipped if its row has changed since the leader
// read it.
type noteBody struct {
	list []noting
	gone []going
}

// noting is an update of a worker's row. It applies if the worker's life and last heartbeat are
// unchanged.
type noting struct {
	id      string
	life    uint64
	was     int64 // previous heartbeat, ms
	silent  bool
	seen    int64
	load    int
	present workerStats
}

// going is a silent worker to be removed. It applies if the worker's last heartbeat is unchanged.
type going struct {
	id  string
	was int64
}

func (n *noteBody) code(f *codec.Fields) {
	codec.ListInto(f, "workers", &n.list, (*noting).code)
	codec.ListInto(f, "gone", &n.gone, func(g *going, f *codec.Fields) {
		f.Text("id", &g.id)
		f.Varint("was_seen_ms", &g.was)
	})
}

func (n *noting) code(f *codec.Fields) {
	f.Text("id", &n.id)
	f.Uvarint("life", &n.life)
	f.Varint("was_seen_ms", &n.was)
	f.Bool("silent", &n.silent)
	f.Varint("seen_ms", &n.seen)
	f.Int("load", &n.load)
	n.present.fields(f)
}

func (t *workerStats) fields(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		t.code(c)
		return
	}
	codec.ListInto(f, "processes", &t.list, func(t *processStats, f *codec.Fields) {
		f.Text("name", &t.name)
		f.Text("kind", &t.kind)
		f.Varint("runs", &t.runs)
		f.Varint("failures", &t.failures)
		f.Varint("last_run_ms", &t.lastRun)
	})
	f.Varint("completed", &t.completed)
	f.Varint("failed", &t.failed)
}
