package processing

import (
	"math"
	"unicode/utf8"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Kinds of commands; the numbers are part of the log's format.
const (
	kindSubmit uint8 = iota + 1
	kindStop
	kindCancel
	kindRescale
	kindSavepoint
	kindRestore
	kindTick
	kindBeginSave
	kindSave
	kindFill
	kindDropSavepoint
	kindFollow
	kindReport
	kindPass
	kindPhase
)

// The commands. Leaders advance tasks and write and restore savepoints. For the commands of other
// shards see spread.go, exchange.go and phase.go. When the disk is full, jobs make no progress but
// can be stopped and cancelled.
var (
	submit = &engine.CommandRow[*work, submitBody, submitted]{
		Kind: kindSubmit, Name: "submit", From: engine.FromUsers,
		Body: (*submitBody).code, Named: (*submitBody).named, Limited: (*submitBody).limited, Size: (*submitBody).size,
		Apply: (*work).submit, Result: (*submitted).code,
	}
	stop = &engine.CommandRow[*work, jobBody, changed]{
		Kind: kindStop, Name: "stop", From: engine.FromUsers, Shrinks: true, Unnamed: true,
		Body: (*jobBody).code, Limit: (*jobBody).limit, Apply: (*work).stop, Result: (*changed).code,
	}
	cancel = &engine.CommandRow[*work, jobBody, changed]{
		Kind: kindCancel, Name: "cancel", From: engine.FromUsers, Shrinks: true, Unnamed: true,
		Body: (*jobBody).code, Limit: (*jobBody).limit, Apply: (*work).cancel, Result: (*changed).code,
	}
	rescale = &engine.CommandRow[*work, jobBody, changed]{
		Kind: kindRescale, Name: "rescale", From: engine.FromUsers, Shrinks: true, Unnamed: true,
		Body: codeJob("parallelism", codec.Range{Min: 1, Max: MaxParallelism}), Apply: (*work).rescale, Result: (*changed).code,
	}
	savepoint = &engine.CommandRow[*work, jobBody, changed]{
		Kind: kindSavepoint, Name: "savepoint", From: engine.FromUsers, Unnamed: true,
		Body: (*jobBody).code, Limit: (*jobBody).limit, Apply: (*work).askSavepoint, Result: (*changed).code,
	}
	restore = &engine.CommandRow[*work, restoreBody, changed]{
		Kind: kindRestore, Name: "restore", From: engine.FromUsers, Unnamed: true,
		Body: (*restoreBody).code, Limit: (*restoreBody).limit, Limited: (*restoreBody).limited, Size: (*restoreBody).size,
		Apply: (*work).restore, Result: (*changed).code,
	}
	dropSavepoint = &engine.CommandRow[*work, jobBody, changed]{
		Kind: kindDropSavepoint, Name: "drop savepoint", From: engine.FromUsers, Shrinks: true, Unnamed: true,
		Body: codeJob("savepoint", codec.Range{Max: math.MaxInt64}), Apply: (*work).dropSavepoint, Result: (*changed).code,
	}
)

// parsing the definition has validated the name
var commands = engine.Declare(engine.MachineProcessing, "processing", func(string) error { return nil },
	submit, stop, cancel, rescale, savepoint, restore,
	&engine.MachineRow[*work, tickCommand]{Kind: kindTick, Name: "tick", From: engine.FromLeaders, Body: (*tickCommand).code,
		Apply: (*work).tick},
	&engine.MachineRow[*work, saveCommand]{Kind: kindBeginSave, Name: "begin savepoint", From: engine.FromLeaders,
		Body: (*saveCommand).code, Apply: (*work).beginSave},
	&engine.MachineRow[*work, saveCommand]{Kind: kindSave, Name: "save", From: engine.FromLeaders, Body: (*saveCommand).code,
		Apply: (*work).addChunk},
	&engine.MachineRow[*work, fillCommand]{Kind: kindFill, Name: "fill", From: engine.FromLeaders, Body: (*fillCommand).code,
		Apply: (*work).fill},
	dropSavepoint,
	&engine.MachineRow[*work, followCommand]{Kind: kindFollow, Name: "follow", From: engine.FromShards, Shrinks: true,
		Body: (*followCommand).code, Apply: (*work).follow},
	&engine.MachineRow[*work, reportCommand]{Kind: kindReport, Name: "report", From: engine.FromShards, Shrinks: true,
		Body: (*reportCommand).code, Apply: (*work).report},
	&engine.MachineRow[*work, passCommand]{Kind: kindPass, Name: "pass", From: engine.FromShards, Body: (*passCommand).code,
		Apply: (*work).pass},
	&engine.MachineRow[*work, phaseCommand]{Kind: kindPhase, Name: "phase", From: engine.FromShards, Shrinks: true,
		Body: (*phaseCommand).code, Apply: (*work).phase},
)

// submitBody is the definition of a job. The other fields are derived from source; see check.
type submitBody struct {
	parallelism int
	batch       int
	maxPayload  int
	source      []byte
	numbers     []numbered
	only        bool // fail if another job has the name, unless it is cancelled

	name string // from the definition; a submit command has it before the body
}

func (b *submitBody) code(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		b.layout(c)
		if c.More(b.only) {
			c.Bool(&b.only)
		}
		return
	}
	b.codeDefinition(f)
	f.Bool("only", &b.only)
	b.codeParts(f)
}

func (b *submitBody) layout(c *codec.Coder) {
	c.Int(&b.parallelism)
	c.Int(&b.batch)
	c.Int(&b.maxPayload)
	c.Bytes(&b.source)
	codec.List(c, &b.numbers, func(c *codec.Coder, n *numbered) { n.code(c) })
}

func (b *submitBody) codeDefinition(f *codec.Fields) {
	if f.Bytes("definition", &b.source, codec.Range{Max: MaxDefinition}); !f.Parsing() {
		return
	}
	p, err := parse(b.source)
	if f.Refuse(err); err == nil {
		*b = p.body(b.source)
		b.numbers = numberAll(p.parts)
	}
}

func (b *submitBody) codeParts(f *codec.Fields) {
	codec.RestOf(f, "parts", &b.numbers, func(n *numbered, f *codec.Fields) {
		f.Bool("source", &n.source)
		f.Text("name", &n.name)
		f.Text("shape", &n.shape)
		codec.Narrow(f, "number", &n.number)
	})
}

func (b *submitBody) named(name string) error {
	if b.name != "" && b.name != name {
		return engine.Errorf(ErrInvalid, "job %q: the definition names job %q", name, b.name)
	}
	return nil
}

func (b *submitBody) limited(maxPayload int) { b.maxPayload = maxPayload }

func (b *submitBody) size() int { return 64 + len(b.source) + 64*len(b.numbers) }

// target identifies the job of a command.
type target struct {
	job     ref
	created int64 // distinguishes jobs that got the same number because the log lost its tail
}

func (t *target) code(f *codec.Fields) {
	switch c := f.Binary(); {
	case c != nil:
		codeRef(c, &t.job)
		c.Varint(&t.created)
	case f.Checking():
		if t.created>>48 != 0 { // an ID has 48 bits for it
			f.Refuse(engine.Errorf(ErrInvalid, "processing: creation time %d ms of a job is out of range", t.created))
		}
	default:
		f.Token("job", func() string { return string(jobID(t.created, t.job)) }, func(text string) (err error) {
			t.created, t.job, err = JobID(text).parse()
			return err
		})
	}
}

func codeRef(c *codec.Coder, r *ref) {
	c.Uint16(&r.shard)
	c.Uvarint(&r.number)
}

// jobBody identifies a job. n is its new parallelism, the number of a savepoint, or 0.
type jobBody struct {
	target
	n int64
}

func (b *jobBody) code(f *codec.Fields) {
	if b.target.code(f); f.Binary() != nil {
		f.Count("", &b.n)
	}
}

func (b *jobBody) limit() error {
	if b.n != 0 {
		return engine.Errorf(ErrInvalid, "processing: unexpected number %d in the command", b.n)
	}
	return nil
}

func codeJob(n string, r codec.Range) func(*jobBody, *codec.Fields) {
	return func(b *jobBody, f *codec.Fields) {
		b.target.code(f)
		f.Count(n, &b.n, r)
	}
}

// restoreBody restores a job if its revision is unchanged.
type restoreBody struct {
	target
	revision  uint64
	savepoint uint64 // 0: keep the current state
	edited    bool   // submitBody is the new definition
	submitBody
	last uint16 // the greatest part number assigned
}

func (b *restoreBody) code(f *codec.Fields) {
	b.target.code(f)
	f.Uvarint("revision", &b.revision)
	f.Uvarint("savepoint", &b.savepoint)
	if c := f.Binary(); c != nil {
		c.Bool(&b.edited)
		c.String(&b.name)
		b.layout(c)
	} else {
		if b.edited = f.Given("definition", b.edited); b.edited {
			b.codeDefinition(f)
		}
		b.codeParts(f)
	}
	codec.Narrow(f, "last_number", &b.last)
}

func (b *restoreBody) limited(maxPayload int) {
	if b.edited {
		b.maxPayload = maxPayload
	}
}

func (b *restoreBody) limit() error {
	if !b.edited && (b.name != "" || b.source != nil || b.parallelism != 0 || b.batch != 0 || b.maxPayload != 0) {
		return engine.Errorf(ErrInvalid, "processing: restore without a definition sets fields of one")
	}
	for i := range b.numbers {
		if n := &b.numbers[i]; !utf8.ValidString(n.name) || !utf8.ValidString(n.shape) {
			return engine.Errorf(ErrInvalid, "processing: name or shape of part %.64q is not valid UTF-8", n.name)
		}
	}
	return nil
}

// tickCommand is a step of a task, computed from the state after the previous step.
type tickCommand struct {
	job      ref
	revision uint64 // of the job
	task     taskRow
	cursors  []cursorChange
	state    []stateChange // ranges first, then by key
	stage    uint16        // that takes the step
	taken    takenOut      // from its exchange
	outputs  []output
	status   Status // Running, or the job's final status
	reason   string
	failure  *Failure // if a record is the reason
}

type cursorChange struct {
	source, partition uint16
	cursor
}

// stateChange is a change of keyed state. A key begins with the number of its operator. Decoded
// changes and outputs alias the command.
type stateChange struct {
	op    byte
	key   []byte
	value []byte // of a range: its end
}

const (
	statePut byte = iota
	stateDelete
	stateRange
)

// output is a command that a tick sends to another machine.
type output struct {
	sink     int    // index in the definition; -1: the error stream
	records  int64  // number of records in the command
	tolerant bool   // a refusal is ignored
	where    string // another namespace; "": that of the job
	spread   bool   // the namespace is spread
	route    string // routing key in a spread namespace
	machine  engine.MachineID
	kind     uint8
	body     []byte
	lost     []byte // for another namespace: the records as failures, written if the command is refused

	at []int // only at the leader: indexes of the tick's writes in this command
}

func (t *tickCommand) code(c *codec.Coder) {
	codeRef(c, &t.job)
	c.Uvarint(&t.revision)
	t.task.codeWithin(c)
	codec.List(c, &t.cursors, func(c *codec.Coder, v *cursorChange) {
		c.Uint16(&v.source)
		c.Uint16(&v.partition)
		v.cursor.code(c)
	})
	codec.List(c, &t.state, func(c *codec.Coder, v *stateChange) { v.code(c) })
	c.Uint16(&t.stage)
	t.taken.code(c)
	codec.List(c, &t.outputs, func(c *codec.Coder, v *output) { v.code(c) })
	if c.Byte((*byte)(&t.status)); t.status < Running || t.status > Completed {
		c.Fail("unknown state")
	}
	c.String(&t.reason)
	t.task.codeFractions(c, t.failure != nil)
	codeFailure(c, &t.failure)
}

func (v *stateChange) code(c *codec.Coder) {
	if c.Byte(&v.op); v.op > stateRange {
		c.Fail("unknown change")
	}
	c.View(&v.key)
	if v.op != stateDelete {
		c.View(&v.value)
	}
}

func (v *output) code(c *codec.Coder) {
	c.Int(&v.sink)
	c.Varint(&v.records)
	c.Bool(&v.tolerant)
	c.String(&v.where)
	c.Bool(&v.spread)
	c.String(&v.route)
	c.Byte((*byte)(&v.machine))
	c.Byte(&v.kind)
	c.View(&v.body)
	c.View(&v.lost)
}

// saveCommand begins a savepoint or adds a chunk to it.
type saveCommand struct {
	job       ref
	savepoint uint64
	attempt   uint64 // 0: begin
	chunk     uint32
	data      []byte
	last      *savepointRow // nil unless this is the last chunk
}

func (s *saveCommand) code(c *codec.Coder) {
	codeRef(c, &s.job)
	c.Uvarint(&s.savepoint)
	c.Uvarint(&s.attempt)
	c.Uint32(&s.chunk)
	c.Bytes(&s.data)
	last := s.last != nil
	if c.Bool(&last); !last {
		return
	}
	if s.last == nil {
		s.last = new(savepointRow)
	}
	s.last.code(c)
}

// fillCommand restores the rows of a savepoint's chunk that the job keeps. The last one resumes the
// job.
type fillCommand struct {
	job       ref
	revision  uint64
	savepoint uint64
	chunk     uint32
	cursors   []cursorChange
	state     []stateChange
	exchanges []exchangeChange
	last      bool
	task      taskRow
}

// exchangeChange is the row of an exchange or of a message in it.
type exchangeChange struct {
	kind  byte
	key   []byte // without the job
	value []byte
}

func (i *exchangeChange) code(c *codec.Coder) {
	c.Byte(&i.kind)
	c.View(&i.key)
	if c.View(&i.value); !(i.kind == rowExchange && len(i.key) == exchangeKeyLen || i.kind == rowMessage && len(i.key) == messageKeyLen) {
		c.Fail("unknown row")
	}
}

func (f *fillCommand) code(c *codec.Coder) {
	codeRef(c, &f.job)
	c.Uvarint(&f.revision)
	c.Uvarint(&f.savepoint)
	c.Uint32(&f.chunk)
	codec.List(c, &f.cursors, func(c *codec.Coder, v *cursorChange) {
		c.Uint16(&v.source)
		c.Uint16(&v.partition)
		v.cursor.code(c)
	})
	codec.List(c, &f.state, func(c *codec.Coder, v *stateChange) { v.code(c) })
	codec.List(c, &f.exchanges, func(c *codec.Coder, i *exchangeChange) { i.code(c) })
	if c.Bool(&f.last); f.last {
		f.task.codeWithin(c)
	}
}

// submitted is the result of a submission.
type submitted struct {
	target
	lsn uint64
}

func (s *submitted) code(f *codec.Fields) {
	s.target.code(f)
	f.Uvarint("lsn", &s.lsn)
}

// changed is the result of a change to a job. number and created are those of a savepoint.
type changed struct {
	status  Status
	number  uint64
	created int64
}

func (r *changed) code(f *codec.Fields) {
	f.Byte("status", (*byte)(&r.status))
	f.Uvarint("savepoint", &r.number)
	f.Varint("created_at_ms", &r.created)
}

// atJob returns an operation that is routed to the job's shard.
func atJob[B any](row *engine.CommandRow[*work, B, changed], at target, b B) engine.Op {
	op := row.Op("", b, nil)
	op.RouteTo = func(namespace string, shards int) string {
		return engine.RouteTo(namespace, engine.ShardID(at.job.shard), shards)
	}
	return op
}
