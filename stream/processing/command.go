package processing

import (
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
	kindTick          // of the leader: a step of a task
	kindBeginSave     // of the leader: it begins to make a savepoint, maybe again
	kindSave          // of the leader: a part of a savepoint
	kindFill          // of the leader: rows of a generation that is being restored
	kindDropSavepoint // of a user
	kindFollow        // of the home of a job to other shards of a spread namespace
	kindReport        // the other way round
	kindPass          // of a section to one behind it
	kindPhase         // of a part to its home: it stands still for a savepoint, or has been saved
)

// submitCommand is the body of kindSubmit. What it says beside source is what the definition says: see admit.
type submitCommand struct {
	name        string
	parallelism int
	batch       int
	maxPayload  int
	source      []byte
	numbers     []numbered
	only        bool // of kindSubmit: there must be no other job of the name, cancelled ones left out
}

// codeSubmit is code of the body of kindSubmit, where it stands alone.
func (s *submitCommand) codeSubmit(c *codec.Coder) {
	if s.code(c); c.More(s.only) {
		c.Bool(&s.only)
	}
}

func (s *submitCommand) code(c *codec.Coder) {
	c.String(&s.name)
	c.Int(&s.parallelism)
	c.Int(&s.batch)
	c.Int(&s.maxPayload)
	c.Bytes(&s.source)
	codec.List(c, &s.numbers, func(c *codec.Coder, n *numbered) { n.code(c) })
}

// target names the job of a command.
type target struct {
	job     ref
	created int64 // tells it from another one whose number it had been, before the log has lost its end
}

func (t *target) code(c *codec.Coder) {
	codeRef(c, &t.job)
	c.Varint(&t.created)
}

func codeRef(c *codec.Coder, r *ref) {
	c.Uint16(&r.shard)
	c.Uvarint(&r.number)
}

// jobCommand is the body of kindStop, kindCancel, kindSavepoint, kindRescale (n: the parallelism) and kindDropSavepoint (n: the savepoint).
type jobCommand struct {
	target
	n uint64
}

func (j *jobCommand) code(c *codec.Coder) {
	j.target.code(c)
	c.Uvarint(&j.n)
}

// restoreCommand is the body of kindRestore. It rests on the revision of the job.
type restoreCommand struct {
	target
	revision  uint64
	savepoint uint64 // 0: none, what there is goes on
	edited    bool   // submitCommand is the new definition
	submitCommand
	last uint16 // the greatest number that is given now
}

func (r *restoreCommand) code(c *codec.Coder) {
	r.target.code(c)
	c.Uvarint(&r.revision)
	c.Uvarint(&r.savepoint)
	c.Bool(&r.edited)
	r.submitCommand.code(c)
	c.Uint16(&r.last)
}

// tickCommand is the body of kindTick: a step of a task, computed from the state that the one before has left.
type tickCommand struct {
	job      ref
	revision uint64 // of the job
	task     taskRow
	cursors  []cursorChange
	state    []stateChange // ranges first, then by key
	section  uint16        // whose step it is
	taken    takenOut      // of its inbox
	outputs  []output
	status   Status // Running, or what the job comes to
	reason   string
}

type cursorChange struct {
	source, partition uint16
	cursor
}

// stateChange is a change of keyed state; its keys begin with the number of the operator. As of outputs, what is decoded is a part of the command.
type stateChange struct {
	op    byte
	key   []byte
	value []byte // of a range: where it ends
}

const (
	statePut byte = iota
	stateDelete
	stateRange
)

// output is a command that a tick gives to another machine.
type output struct {
	sink     int    // in the definition; -1: the stream of errors
	records  int64  // that are in it
	tolerant bool   // it matters not whether it is refused
	where    string // another namespace; "": that of the job
	spread   bool   // of where
	route    string // what routes it in a spread namespace
	machine  engine.MachineID
	kind     uint8
	body     []byte
	lost     []byte // of one for another namespace: its records as failures, in case it is refused

	at []int // of the leader alone: which writes of the tick are in it
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
	c.Uint16(&t.section)
	t.taken.code(c)
	codec.List(c, &t.outputs, func(c *codec.Coder, v *output) { v.code(c) })
	if c.Byte((*byte)(&t.status)); t.status < Running || t.status > Completed {
		c.Fail("unknown state")
	}
	c.String(&t.reason)
	t.task.codeFractions(c)
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

// saveCommand is the body of kindBeginSave and kindSave.
type saveCommand struct {
	job       ref
	savepoint uint64
	attempt   uint64 // of kindSave
	chunk     uint32
	data      []byte
	last      *savepointRow // nil: there are more
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

// fillCommand is the body of kindFill: the rows of a chunk, as far as they are kept. With the last one the job goes on.
type fillCommand struct {
	job       ref
	revision  uint64
	savepoint uint64
	chunk     uint32
	cursors   []cursorChange
	state     []stateChange
	inboxes   []inboxChange
	last      bool
	task      taskRow
}

// inboxChange is a row of an inbox, or a message in it, with its key behind the job.
type inboxChange struct {
	kind  byte
	key   []byte
	value []byte
}

func (i *inboxChange) code(c *codec.Coder) {
	c.Byte(&i.kind)
	c.View(&i.key)
	if c.View(&i.value); !(i.kind == rowInbox && len(i.key) == inboxKeyLen || i.kind == rowMessage && len(i.key) == messageKeyLen) {
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
	codec.List(c, &f.inboxes, func(c *codec.Coder, i *inboxChange) { i.code(c) })
	if c.Bool(&f.last); f.last {
		f.task.codeWithin(c)
	}
}

// submitted is the result of kindSubmit.
type submitted struct {
	job     ref
	created int64
	lsn     uint64
}

func (s *submitted) code(c *codec.Coder) {
	codeRef(c, &s.job)
	c.Varint(&s.created)
	c.Uvarint(&s.lsn)
}

// changed is the result of kindStop, kindCancel, kindRescale, kindRestore and, with the number of the savepoint and its time, of kindSavepoint.
type changed struct {
	status  Status
	number  uint64
	created int64
}

func (r *changed) code(c *codec.Coder) {
	c.Byte((*byte)(&r.status))
	c.Uvarint(&r.number)
	c.Varint(&r.created)
}

// atJob returns an operation on a job, which is proposed where that is.
func atJob[T any](kind uint8, t target, v *T, code func(*T, *codec.Coder)) engine.Op {
	return engine.Op{
		Command: engine.Command{Machine: engine.MachineProcessing, Kind: kind, Body: encode(nil, v, code)},
		RouteTo: func(namespace string, shards int) string {
			return engine.RouteTo(namespace, engine.ShardID(t.job.shard), shards)
		},
	}
}
