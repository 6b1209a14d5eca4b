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
// command that made the workflow known in the shard, and of the one that started the run.
//
//	'd' | ns u32 | name              a workflow: its default version, counters (see record)
//	'b' | id                         -> whether it is deleted u8 | ns u32 | name
//	'g' | id                         a workflow that was deleted while runs of it are kept -> as 'd'
//	'y' | ns u32 | name, as key.AppendString | id    such a one by its name -> nothing; those that were deleted by an older version are not there
//	'v' | id | number u32            a version: its definition, written once (see versionRow)
//	'w' | id | version               -> number uvarint | hash of the source (see versionIndex)
//	'l' | id | run                   a run that is kept -> nothing
//	'n' | ns u32 | run               a run that is kept -> nothing
//	'z' | ns u32 | status u8 | run   a run by how it has ended, 0: it has not -> nothing
//	'f' | id | ended | run           a run that has ended (ms, as key.AppendInt64) -> nothing
//	'k' | id | idempotency key       -> run, tag, hash of the input (see keyRow)
//	'u' | ns u32 | run id            a run that got its id from who started it -> run uvarint
//	'q' | ns u32 | attribute | run   a run by a search attribute (see appendAttribute) -> nothing
//	'p' | id | plan                  what is known of the executors of a plan (see planRow)
//	'c' | id | plan, as key.AppendString | key            an output that a plan has cached (see cacheRow)
//	'h' | id | plan, likewise | expires | key             an output that is cached, by when it expires (ms, as key.AppendInt64) -> nothing
//	'j' | id                         the workflow's schedule, at its home (see scheduleRow)
//	'm' | due | id                   when a schedule has a tick next (ms, as key.AppendInt64) -> nothing
//	't' | id | run                   a run that the schedule has started and that has not ended -> nothing
//	'e' | id                         what the workflow's trigger is subscribed to, at its home (see triggerRow)
//
// The rows of a run begin with 'r' | run, so that they can go at once:
//
//	'a'                              where it stands (see header)
//	'i'                              its input
//	'o'                              its output
//	's' | step                       the last visit to a step (see stepRow)
//	'e' | lsn                        what a command has added to its history (see eventRow)
//	'p' | lsn                        a pending signal (see signalRow)
//	'g' | type                       the payload of the signal of a type that was taken last
//	'c' | ^visit u64                 a visit that may have to be compensated, the last one first (see undoRow)
//	'x' | index u32                  a branch of the parallel step (see branchRow)
//	't' | due | index u32            when a branch has something to do
//	'n' | number u32                 elements of the array that the parallel step is about (see itemsRow)
//	'd'                              the input with which the present step has called, if its definition makes one and it may have to be compensated
//	'y'                              the input of a step that is retried with another one
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

	partAt = 9 // where the kind stands in keys of rows of a run
)

// never is the time of what does not happen.
const never = math.MaxInt64

// record is what the row 'd' says of a workflow.
type record struct {
	id        uint64
	enabled   bool
	versions  uint32 // how many there are, those that were removed included; their numbers count from 1
	current   uint32 // number of the default one
	revision  uint64 // of the home shard: the LSN of its last change
	createdAt int64
	updatedAt int64

	// Runs by state, of all that ever were.
	active, completed, failed, cancelled, timedOut int64

	kept       int64 // ended runs that are kept
	retainFor  int64 // as the default version says
	retainRuns int64
	nextEnded  int64 // no row 'f' is before it
	timer      int64 // when the workflow's one timer is due; it may be early
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

// ended returns where runs in a final state are counted.
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
	gone      bool // it was removed: runs alone have it still
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

// header is what the row 'a' says of a run: all that it takes to go on.
type header struct {
	tag            uint16 // of its id: it differs from that of another run to which the number was given after the log has lost its end
	of             uint64 // its workflow
	number         uint32 // of its version
	id             string // which it got from who started it, or ""
	source         string // who that was, "" is "api"
	idempotencyKey string
	parent         string // id of the run that it is a child of, or ""
	depth          uint8  // children of children
	notify         protocol.Notify
	startedAt      int64
	endedAt        int64
	deadline       int64 // of the run, or never
	timer          int64 // when its one timer is due; it may be early
	status         Status

	// Where it stands.
	step   int    // its place in the definition
	visit  uint64 // counts visits to steps
	token  uint64 // counts what is waited for: what was waited for before has another one
	stepAt int64  // when the visit began
	wait   wait
	due    int64 // of wait, or never
	call   callState
	fan    fanState

	edited  uint64 // of a step that is retried: the visit whose idempotency key it has, its own if it got another input
	voided  []span // visits that are of no use any more, as what they rest on was compensated before the run was retried; ascending
	spins   int64  // steps since the last durable wait
	steps   int64  // all
	events  int64  // of its history
	pending int64  // pending signals
	pended  int64  // and their bytes
	failure failure
	ending  ending

	attributes []string // search attributes as they stand in keys

	busy    []handler // that may still be at work though they were cancelled
	undid   int64     // compensations that have failed
	origin  string    // the step at which what the run fails of has begun: the first of those that have failed one after the other
	onwards bool      // a step has gone well since
}

// handler is one that was cancelled, and may not have returned yet: what it does is not compensated
// before it has.
type handler struct {
	visit uint64
	seq   uint64 // of its call, 0: there are more than are told apart
	until int64  // when it is not waited for any longer
}

// maxHandlers bounds the handlers of a run that are told apart.
const maxHandlers = 64

// wait is what a run waits for.
type wait uint8

// The waits.
const (
	waitNothing wait = iota // it has ended
	waitTurn                // another command: this one has done enough
	waitCall                // the call of its step, see callState
	waitSignal
	waitSleep
	waitParallel
	waitChildren // which are cancelled, before what they have done is compensated
	waitUndo     // the call that compensates a visit
	waitHandler  // the return of a handler that was cancelled, before what it has done is compensated
	waitEnd
)

// failure says why a run has failed.
type failure struct {
	step    string
	outcome string
	attempt int64
	code    string
	message string // the whole of it, as it is shown
}

func (f *failure) layout(c *codec.Coder) {
	for _, s := range [...]*string{&f.step, &f.outcome, &f.code, &f.message} {
		c.String(s)
	}
	c.Varint(&f.attempt)
}

// span is the visits behind a compensated one, up to the one from which the run went on.
type span struct{ undone, before uint64 }

// maxSpans bounds the spans that are told apart: of more, the first ones count as one, with all
// between them.
const maxSpans = 16

// ending is how a run ends whose steps are compensated.
type ending struct {
	status Status // 0: it does not end yet
	place  int64  // of the terminal, -1: none
	visit  uint64 // that is being compensated
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
	key       uint64 // the visit whose idempotency key it had, 0: it had an input of its own
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
	input   []byte // as it was sent
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

// encode appends a row, or a body, that is coded field by field.
func encode[T any](dst []byte, v *T, code func(*T, *codec.Coder)) []byte {
	return codec.Encode(dst, v, code)
}

// decode reads what encode wrote, all of it.
func decode[T any](b []byte, code func(*T, *codec.Coder)) (v T, err error) {
	return codec.Decode(b, code)
}

// must returns the value of a row that only the machine itself can have written.
func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("workflow: %v", err))
	}
	return v
}

func namedKey(dst []byte, kind byte, ns uint32, name string) []byte {
	return append(key.AppendUint32(append(keyRoom(dst), kind), ns), name...)
}

// keyRoom returns what a key is appended to. Most keys that are made anew fit into what it
// allocates at once.
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

// gravesKey is what the keys of the rows 'y' of a name begin with.
func gravesKey(dst []byte, ns uint32, name string) []byte {
	return key.AppendString(namespaceKey(dst, rowGraves, ns), []byte(name))
}

// inKey is the key of a row 'n'.
func inKey(dst []byte, ns uint32, run uint64) []byte {
	return key.AppendUint64(namespaceKey(dst, rowIn, ns), run)
}

// statusKey is the key of a row 'z', or without run what they begin with.
func statusKey(dst []byte, ns uint32, status Status) []byte {
	return append(namespaceKey(dst, rowByStatus, ns), byte(status))
}

func statusRunKey(dst []byte, ns uint32, status Status, run uint64) []byte {
	return key.AppendUint64(statusKey(dst, ns, status), run)
}

// numberKey is the key, or what all keys begin with, of a kind of rows that belong to a workflow.
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

// partKey is the key, or what all keys begin with, of a kind of rows of a run.
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

// lastOf reads the number at the end of a key.
func lastOf(k []byte) uint64 { return binary.BigEndian.Uint64(k[len(k)-8:]) }
