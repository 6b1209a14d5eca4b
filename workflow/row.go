package workflow

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
)

// The rows of the machine. All integers in keys are big-endian. id and run are LSNs (u64): of the
// command that created the workflow in the shard, and of the one that started the run.
//
//	'd' | ns u32 | name              a workflow: its default version, counters (see record)
//	'b' | id                         -> whether it is deleted u8 | ns u32 | name
//	'g' | id                         a deleted workflow whose runs are retained -> as 'd'
//	'y' | ns u32 | name, as key.AppendString | id    a deleted one by its name -> nothing; not if an older version deleted it
//	'v' | id | number u32            a version: its definition, written once (see versionRow)
//	'w' | id | version               -> number uvarint | hash of the source (see versionIndex)
//	'l' | id | run                   a retained run -> nothing
//	'n' | ns u32 | run               a retained run -> nothing
//	'z' | ns u32 | status u8 | run   a run by its final status, 0: not ended -> nothing
//	'f' | id | ended | run           an ended run, by its end (ms, as key.AppendInt64) -> nothing
//	'k' | id | idempotency key       -> run, tag, hash of the input (see keyRow)
//	'u' | ns u32 | run id            a run whose id was chosen by the caller of Start -> run uvarint
//	'q' | ns u32 | attribute | run   a run by a search attribute (see appendAttribute) -> nothing
//	'p' | id | plan                  the state of a plan's executors (see planRow)
//	'c' | id | plan, as key.AppendString | key            a cached output of a plan (see cacheRow)
//	'h' | id | plan, likewise | expires | key             a cached output by its expiry (ms, as key.AppendInt64) -> nothing
//	'j' | id                         the workflow's schedule, at its home (see scheduleRow)
//	'm' | due | id                   the next tick of a schedule (ms, as key.AppendInt64) -> nothing
//	't' | id | run                   an active run started by the schedule -> nothing
//	'e' | id                         the subscription of the workflow's trigger, at its home (see triggerRow)
//
// The rows of a run begin with 'r' | run, so that they can be removed together:
//
//	'a'                              its position and state (see header)
//	'i'                              its input
//	'o'                              its output
//	's' | step                       the last visit to a step (see stepRow)
//	'e' | lsn                        the events that a command has added to its history (see eventRow)
//	'p' | lsn                        a pending signal (see signalRow)
//	'g' | type                       the payload of the last consumed signal of a type
//	'c' | ^visit u64                 a visit that may have to be compensated, latest first (see undoRow)
//	'x' | index u32                  a branch of the parallel step (see branchRow)
//	't' | due | index u32            when a branch has due work
//	'n' | number u32                 elements of the parallel step's array (see itemsRow)
//	'd'                              the input of the current step's call, if it is not the run's input and may be needed for compensation
//	'y'                              the replaced input of a retried step
const (
	rowWorkflow  = 'd'
	rowName      = 'b'
	rowGrave     = 'g'
	rowGraves    = 'y'
	rowVersion   = 'v'
	rowVersions  = 'w'
	rowOf        = 'l'
	rowIn        = 'n'
	rowByStatus  = 'z'
	rowEnded     = 'f'
	rowKey       = 'k'
	rowID        = 'u'
	rowAttribute = 'q'
	rowPlan      = 'p'
	rowCache     = 'c'
	rowStale     = 'h'
	rowSchedule  = 'j'
	rowDue       = 'm'
	rowTicked    = 't'
	rowTrigger   = 'e'
	rowRun       = 'r'

	partHeader     = 'a'
	partInput      = 'i'
	partOutput     = 'o'
	partStep       = 's'
	partEvents     = 'e'
	partSignal     = 'p'
	partTaken      = 'g'
	partUndo       = 'c'
	partBranch     = 'x'
	partBranchTime = 't'
	partItems      = 'n'
	partEdited     = 'y'
	partSent       = 'd'

	partAt = 9 // offset of the row type in keys of rows of a run
)

// never is the time of an event that does not happen.
const never = math.MaxInt64

// record is the content of a workflow's row 'd'.
type record struct {
	id        uint64
	enabled   bool
	versions  uint32 // number of versions, including removed ones; they are numbered from 1
	current   uint32 // number of the default version
	revision  uint64 // of the home shard: LSN of the last change
	createdAt int64
	updatedAt int64

	// All runs ever made, by state.
	active, completed, failed, cancelled, timedOut int64

	kept       int64 // retained ended runs
	retainFor  int64 // as the default version says
	retainRuns int64
	nextEnded  int64 // no row 'f' is before it
	timer      int64 // due time of the workflow's only timer; it may be early
}

func (r *record) code(c *codec.Coder) {
	version(c, "workflow")
	c.Uvarint(&r.id)
	c.Bool(&r.enabled)
	c.Uint32(&r.versions)
	c.Uint32(&r.current)
	c.Uvarint(&r.revision)
	for _, v := range [...]*int64{
		&r.createdAt, &r.updatedAt, &r.active, &r.completed, &r.failed, &r.cancelled, &r.timedOut, &r.kept, &r.retainFor, &r.retainRuns,
	} {
		c.Varint(v)
	}
	c.Deadline(&r.nextEnded)
	c.Deadline(&r.timer)
}

// ended returns the counter of a final state.
func (r *record) ended(s Status) *int64 {
	switch s {
	case Completed:
		return &r.completed
	case Failed:
		return &r.failed
	case Cancelled:
		return &r.cancelled
	case TimedOut:
		return &r.timedOut
	}
	panic(fmt.Sprintf("workflow: runs do not end as %s", s))
}

// nameRow is the value of a row 'b'.
type nameRow struct {
	deleted bool
	ns      uint32
	name    string
}

func (n *nameRow) code(c *codec.Coder) {
	c.Bool(&n.deleted)
	c.Uint32(&n.ns)
	c.String(&n.name)
}

// versionRow is the value of a row 'v'.
type versionRow struct {
	version   string
	createdAt int64
	source    []byte
	compiled  []byte // see flow.Definition.Code
}

func (v *versionRow) code(c *codec.Coder) {
	version(c, "version")
	c.String(&v.version)
	c.Varint(&v.createdAt)
	c.Bytes(&v.source)
	c.Bytes(&v.compiled)
}

// versionIndex is the value of a row 'w'.
type versionIndex struct {
	number    uint32
	hash      uint64 // XXH64 of the source
	createdAt int64
	gone      bool // it was removed: only runs still use it
}

func (v *versionIndex) code(c *codec.Coder) {
	c.Uint32(&v.number)
	c.Fixed64(&v.hash)
	c.Varint(&v.createdAt)
	if c.More(v.gone) {
		c.Bool(&v.gone)
	}
}

// keyRow is the value of a row 'k'.
type keyRow struct {
	run  uint64
	tag  uint16
	hash uint64 // XXH64 of the input
}

func (k *keyRow) code(c *codec.Coder) {
	c.Uvarint(&k.run)
	c.Uint16(&k.tag)
	c.Fixed64(&k.hash)
}

// header is the content of a run's row 'a': the state needed to continue the run.
type header struct {
	tag            uint16 // of its id: distinguishes it from a run that got the same number after the log lost its end
	of             uint64 // its workflow
	number         uint32 // of its version
	id             string // chosen by the caller of Start, or ""
	source         string // origin of the start, "" is "api"
	idempotencyKey string
	parent         string // id of the parent run, or ""
	depth          uint8  // nesting depth of children
	notify         protocol.Notify
	startedAt      int64
	endedAt        int64
	deadline       int64 // of the run, or never
	timer          int64 // due time of its only timer; it may be early
	status         Status

	// Current position.
	step   int    // index in the definition
	visit  uint64 // number of visits to steps
	token  uint64 // number of waits: each wait has its own token
	stepAt int64  // when the visit began
	wait   wait
	due    int64 // of wait, or never
	call   callState
	fan    fanState

	edited  uint64 // of a retried step: the visit whose idempotency key it uses, its own if it got another input
	voided  []span // visits that depend on steps compensated before a retry, and so are invalid; ascending
	spins   int64  // steps since the last durable wait
	steps   int64  // total
	events  int64  // of its history
	pending int64  // pending signals
	pended  int64  // their total bytes
	failure failure
	ending  ending

	attributes []string // search attributes as encoded in keys

	busy    []handler // may still be running though they were cancelled
	undid   int64     // failed compensations
	origin  string    // step at which the cause of the failure began: the first of consecutive failed steps
	onwards bool      // a step has succeeded since
}

// handler is a cancelled handler that may not have returned yet. Its work is compensated only after
// it has returned.
type handler struct {
	visit uint64
	seq   uint64 // of its call, 0: too many to distinguish
	until int64  // end of the wait for it
}

// maxHandlers limits the handlers of a run that are distinguished.
const maxHandlers = 64

// wait is what a run waits for.
type wait uint8

// The waits.
const (
	waitNothing wait = iota // the run has ended
	waitTurn                // for another command: this one has done enough
	waitCall                // for the call of its step, see callState
	waitSignal
	waitSleep
	waitParallel
	waitChildren // for cancelled children, before compensating them
	waitUndo     // for the call that compensates a visit
	waitHandler  // for the return of a cancelled handler, before compensating its work
	waitEnd
)

// failure is the reason why a run has failed.
type failure struct {
	step    string
	outcome string
	attempt int64
	code    string
	message string // complete text, as shown
}

func (f *failure) layout(c *codec.Coder) {
	for _, s := range [...]*string{&f.step, &f.outcome, &f.code, &f.message} {
		c.String(s)
	}
	c.Varint(&f.attempt)
}

// span is a range of visits: those after a compensated one, up to the one from which the run
// continued.
type span struct{ undone, before uint64 }

// maxSpans limits the spans that are distinguished. Beyond it, the first ones are merged, including
// the visits between them.
const maxSpans = 16

// ending is how a run ends while its steps are compensated.
type ending struct {
	status Status // 0: it is not ending
	place  int64  // of the terminal, -1: none
	visit  uint64 // being compensated
	undone uint64 // the first visit that was compensated, 0: none
}

func (e *ending) code(c *codec.Coder) {
	c.Byte((*byte)(&e.status))
	c.Varint(&e.place)
	c.Uvarint(&e.visit)
	c.Uvarint(&e.undone)
}

func (h *header) code(c *codec.Coder) {
	version(c, "run")
	c.Uint16(&h.tag)
	c.Uvarint(&h.of)
	c.Uint32(&h.number)
	for _, s := range [...]*string{&h.id, &h.source, &h.idempotencyKey, &h.parent} {
		c.String(s)
	}
	c.Byte(&h.depth)
	h.notify.Code(c)
	c.Varint(&h.startedAt)
	c.Varint(&h.endedAt)
	c.Deadline(&h.deadline)
	c.Deadline(&h.timer)
	c.Byte((*byte)(&h.status))
	c.Int(&h.step)
	c.Uvarint(&h.visit)
	c.Uvarint(&h.token)
	c.Varint(&h.stepAt)
	c.Byte((*byte)(&h.wait))
	c.Deadline(&h.due)
	h.call.code(c)
	h.fan.layout(c)
	c.Uvarint(&h.edited)
	codec.List(c, &h.voided, func(c *codec.Coder, s *span) {
		c.Uvarint(&s.undone)
		c.Uvarint(&s.before)
	})
	for _, v := range [...]*int64{&h.spins, &h.steps, &h.events, &h.pending, &h.pended} {
		c.Varint(v)
	}
	h.failure.layout(c)
	h.ending.code(c)
	codec.List(c, &h.attributes, (*codec.Coder).String)
	if c.More(h.call.ambiguous || len(h.busy) > 0 || h.fan.touched || h.undid > 0 || h.origin != "") {
		c.Bool(&h.call.ambiguous)
		c.Bool(&h.fan.touched)
		codec.List(c, &h.busy, func(c *codec.Coder, b *handler) {
			c.Uvarint(&b.visit)
			c.Uvarint(&b.seq)
			c.Varint(&b.until)
		})
		c.Varint(&h.undid)
		c.String(&h.origin)
		c.Bool(&h.onwards)
	}
	if h.status < Pending || h.status > TimedOut || h.wait >= waitEnd {
		c.Fail(fmt.Sprintf("status %d, wait %d", h.status, h.wait))
	}
}

// stepRow is the value of a row 's'.
type stepRow struct {
	visit     uint64
	key       uint64 // visit whose idempotency key it used, 0: it had its own input
	outcome   string
	code      string
	message   string
	attempts  int64
	startedAt int64
	endedAt   int64
	output    []byte
}

func (s *stepRow) layout(c *codec.Coder) {
	version(c, "step")
	c.Uvarint(&s.visit)
	c.Uvarint(&s.key)
	for _, v := range [...]*string{&s.outcome, &s.code, &s.message} {
		c.String(v)
	}
	for _, v := range [...]*int64{&s.attempts, &s.startedAt, &s.endedAt} {
		c.Varint(v)
	}
	c.Bytes(&s.output)
}

// signalRow is the value of a row 'p' of a run.
type signalRow struct {
	kind    string
	at      int64
	payload []byte
}

func (s *signalRow) code(c *codec.Coder) {
	c.String(&s.kind)
	c.Varint(&s.at)
	c.Bytes(&s.payload)
}

// undoRow is the value of a row 'c' of a run.
type undoRow struct {
	step    int
	input   []byte // as sent
	output  []byte // of that visit
	outcome string // likewise
}

func (u *undoRow) code(c *codec.Coder) {
	c.Int(&u.step)
	c.Bytes(&u.input)
	c.Bytes(&u.output)
	if c.More(u.outcome != "") {
		c.String(&u.outcome)
	}
}

// eventRow is the value of a row 'e' of a run.
type eventRow struct {
	at     int64
	events []event
}

// event is something that happened to a run.
type event struct {
	kind    EventType
	step    string
	attempt int64
	outcome string
	detail  string
}

func (e *eventRow) code(c *codec.Coder) {
	c.Varint(&e.at)
	codec.List(c, &e.events, func(c *codec.Coder, e *event) {
		if c.Byte((*byte)(&e.kind)); e.kind < 1 || e.kind >= eventEnd {
			c.Fail(fmt.Sprintf("event %d", e.kind))
		}
		c.String(&e.step)
		c.Varint(&e.attempt)
		c.String(&e.outcome)
		c.String(&e.detail)
	})
}

// version codes the first byte of rows.
func version(c *codec.Coder, what string) {
	v := byte(1)
	if c.Byte(&v); v != 1 {
		c.Fail(fmt.Sprintf("%s row of version %d", what, v))
	}
}

// encode appends a row or a body, encoded field by field.
func encode[T any](dst []byte, v *T, code func(*T, *codec.Coder)) []byte {
	return codec.Encode(dst, v, code)
}

// decode decodes the output of encode.
func decode[T any](b []byte, code func(*T, *codec.Coder)) (v T, err error) {
	return codec.Decode(b, code)
}

// must returns the value of a row that only the machine can have written.
func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("workflow: %v", err))
	}
	return v
}

func namedKey(dst []byte, kind byte, ns uint32, name string) []byte {
	return append(key.AppendUint32(append(keyRoom(dst), kind), ns), name...)
}

// keyRoom returns a buffer for a key. Most new keys fit into its initial allocation.
func keyRoom(dst []byte) []byte {
	const usual = 40
	if dst == nil {
		dst = make([]byte, 0, usual)
	}
	return dst
}

func namespaceKey(dst []byte, kind byte, ns uint32) []byte {
	return key.AppendUint32(append(keyRoom(dst), kind), ns)
}

// gravesKey is the key prefix of the rows 'y' of a name.
func gravesKey(dst []byte, ns uint32, name string) []byte {
	return key.AppendString(namespaceKey(dst, rowGraves, ns), []byte(name))
}

// inKey is the key of a row 'n'.
func inKey(dst []byte, ns uint32, run uint64) []byte {
	return key.AppendUint64(namespaceKey(dst, rowIn, ns), run)
}

// statusKey is the key prefix of the rows 'z' of a status.
func statusKey(dst []byte, ns uint32, status Status) []byte {
	return append(namespaceKey(dst, rowByStatus, ns), byte(status))
}

func statusRunKey(dst []byte, ns uint32, status Status, run uint64) []byte {
	return key.AppendUint64(statusKey(dst, ns, status), run)
}

// numberKey is the key, or key prefix, of rows of a type that belong to a workflow.
func numberKey(dst []byte, kind byte, number uint64) []byte {
	return key.AppendUint64(append(keyRoom(dst), kind), number)
}

func ofKey(dst []byte, id, run uint64) []byte {
	return key.AppendUint64(numberKey(dst, rowOf, id), run)
}

func versionKey(dst []byte, id uint64, number uint32) []byte {
	return key.AppendUint32(numberKey(dst, rowVersion, id), number)
}

func endedKey(dst []byte, id uint64, at int64, run uint64) []byte {
	return key.AppendUint64(key.AppendInt64(numberKey(dst, rowEnded, id), at), run)
}

// partKey is the key, or key prefix, of rows of a type of a run.
func partKey(dst []byte, run uint64, part byte) []byte {
	return append(numberKey(dst, rowRun, run), part)
}

func numberedPart(dst []byte, run uint64, part byte, n uint64) []byte {
	return key.AppendUint64(partKey(dst, run, part), n)
}

func undoKey(dst []byte, run, visit uint64) []byte { return numberedPart(dst, run, partUndo, ^visit) }

func branchKey(dst []byte, run uint64, index uint32) []byte {
	return key.AppendUint32(partKey(dst, run, partBranch), index)
}

func itemsKey(dst []byte, run uint64, number uint32) []byte {
	return key.AppendUint32(partKey(dst, run, partItems), number)
}

func branchTimeKey(dst []byte, run uint64, due int64, index uint32) []byte {
	return key.AppendUint32(key.AppendInt64(partKey(dst, run, partBranchTime), due), index)
}

// lastOf decodes the number at the end of a key.
func lastOf(k []byte) uint64 { return binary.BigEndian.Uint64(k[len(k)-8:]) }
