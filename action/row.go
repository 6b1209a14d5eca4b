package action

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
)

// The rows of the machine. All integers in keys are big-endian. id is the LSN of the command that
// created the action in the shard, so an action that is registered again after its deletion starts
// empty. run, seq, lane and session are LSNs too (u64), prio and set are u8.
//
//	'a' | ns u32 | name              the action: registration, counters, queues of runs without a key (see record)
//	'b' | id                         -> whether it is deleted u8 | ns u32 | name
//	'h' | id | expires | run         when a run fails (ms) if no worker has started it -> nothing
//	'i' | id | run                   the invocation of a run, written once (see runRow)
//	's' | id | run                   the run's state, once a worker has taken it or it has ended (see stateRow)
//	'w' | id | lane | prio | seq     a run ready to be taken -> nothing if it is fresh (seq is then its number); else run uvarint
//	'd' | id | due | run             a run delayed until due (ms, as key.AppendInt64) -> nothing
//	'q' | id                         the labels of an action's label sets except the first, if any (see labelsRow)
//	'q' | id | set                   the waiting runs of one of these sets (see labelSet)
//	'r' | session | id | run         a run held by a worker of the session -> deadline varint (ms) | cancelled u8
//	'f' | id | ended | run           an ended run, by its end (ms) -> status u8 | ms of its last attempt uvarint
//	'l' | id | set | key             a lane: the waiting runs of a concurrency key (see laneRow)
//	'e' | id | set | prio | turn     a lane whose next run can start -> its key
//	'k' | id | idempotency key       -> run, tag | hash of the input (uvarints) | until varint (ms)
//	'j' | id | until | key           the same key by its expiry -> nothing
//	'g' | id                         a deleted action whose remaining runs are being cancelled -> as 'a'
//	'o' | session                    a process that takes runs (see sessionRow)
//	'm' | id | key                   the label sets except the first in which a key has lanes -> a bit for each, uvarint
//	'n' | ns u32 | worker id         the session of a worker that calls Await directly -> session uvarint
//	't' | ns u32 | worker id ...     counts of the runs of a worker that calls Await directly (see internal/workers)
//	'x' | ns u32 | worker id         a listed worker (see internal/workers)
//
// Rows 'c', 'p' and 'y' are those of schedules, see rowPlan.
//
// A run is in one of four states, determined by its rows:
//
//	waiting   'i', 'w', and 's' unless it is fresh (never taken by a worker, and never delayed)
//	delayed   'i', 'd', 's'
//	running   'i', 's', 'r'
//	ended     'i', 's', 'f', and 'r' if it was cancelled and its worker has not confirmed the cancellation
const (
	rowAction    = 'a'
	rowName      = 'b'
	rowDelayed   = 'd'
	rowEligible  = 'e'
	rowEnded     = 'f'
	rowGrave     = 'g'
	rowExpiry    = 'h'
	rowRun       = 'i'
	rowKeyEnd    = 'j'
	rowKey       = 'k'
	rowLane      = 'l'
	rowKeySets   = 'm'
	rowSet       = 'q'
	rowSelf      = 'n'
	rowSession   = 'o'
	rowHeld      = 'r'
	rowState     = 's'
	rowStats     = 't'
	rowWaiting   = 'w'
	rowWorker    = 'x'
	nameAt       = 5 // where the name begins in keys with a namespace
	numberAt     = 9 // where what follows id begins
	behindTimeAt = numberAt + 8
)

// never is the time of an event that does not happen.
const never = math.MaxInt64

// spec is the registration of an action. Times are ms.
type spec struct {
	owner, description     string
	timeout                int64
	maxRetries             int64
	backoffMin, backoffMax int64 // 0: none
	retainFor              int64
	retainRuns             int64
	maxRunning             int64 // 0: no limit
	maxPerKey              int64 // 0: no limit
	rate                   rate
}

// rate is the stored form of Rate.
type rate struct{ limit, per, burst int64 } // per in ms; all 0: none

func (s *spec) code(c *codec.Coder) {
	c.String(&s.owner)
	c.String(&s.description)
	for _, v := range [...]*int64{
		&s.timeout, &s.maxRetries, &s.backoffMin, &s.backoffMax, &s.retainFor, &s.retainRuns, &s.maxRunning, &s.maxPerKey,
		&s.rate.limit, &s.rate.per, &s.rate.burst,
	} {
		c.Varint(v)
	}
}

// limited reports whether runs of the action with a concurrency key, or without one, must be in one
// shard for its limits to hold.
func (s *spec) limited(key string) bool {
	return s.maxRunning > 0 || s.rate.limit > 0 || s.maxPerKey > 0 && key != ""
}

// definition is an action as replicated to all shards of a namespace.
type definition struct {
	spec
	version   uint64 // number of registrations
	revision  uint64 // of the home shard: LSN of the last change
	enabled   bool
	homed     bool // it has or had limits: see act.route
	createdAt int64
	updatedAt int64
}

func (d *definition) code(c *codec.Coder) {
	d.spec.code(c)
	c.Uvarint(&d.version)
	c.Uvarint(&d.revision)
	c.Bool(&d.enabled)
	c.Bool(&d.homed)
	c.Varint(&d.createdAt)
	c.Varint(&d.updatedAt)
}

// record is the content of an action's row 'a'.
type record struct {
	id uint64
	definition

	// All runs ever made, by state.
	pending, running, completed, failed, cancelled, timedOut int64
	// cancelled runs whose workers have not confirmed the cancellation: they occupy slots
	unconfirmed int64
	delayed     int64 // pending runs waiting for a time
	kept        int64 // retained ended runs
	took        int64 // total ms of the last attempts of completed runs
	allowed     int64 // µs: when the rate allows a run again (the theoretical arrival time)
	turn        uint64
	served      uint64 // turn among the namespace's actions: LSN of the last take

	// Low marks: no row of the index precedes them.
	nextDelayed, nextEnded, nextKey, nextExpiry int64

	handover int64 // time until which the oldest ended run must be kept, 0 if it need not be: see handoverMillis

	timer int64 // due time of the action's only timer; it may be early

	sweep      bool   // the lanes from sweepKey on must be updated: their limit has changed
	sweepKey   string // set u8 | key
	cancelFrom uint64 // of a deleted action: runs before it have ended

	sets                []labelSet // the first one is complete; for the others see act.set
	readySets, usedSets uint64     // bits of the other sets: those with ready runs, and those with runs
	inline              bool       // all sets are in the row, as written by older versions

	mapped bool // the keys of all lanes have rows 'm', which older versions did not write
}

func newRecord(id uint64) record {
	return record{id: id, mapped: true, nextDelayed: never, nextEnded: never, nextKey: never, nextExpiry: never, timer: never}
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

// queue locates the first rows of an index whose keys end in a priority and a number, so that a
// search does not scan tombstones. Numbers are nearly always ascending.
type queue struct{ heads []head }

// head is one priority of a queue. It has n rows, none of them before seq.
type head struct {
	priority uint8
	n        int64
	seq      uint64
}

// len returns the number of rows.
func (q *queue) len() (n int64) {
	for _, h := range q.heads {
		n += h.n
	}
	return n
}

// first returns the most urgent priority, nil if the queue is empty.
func (q *queue) first() *head {
	if len(q.heads) == 0 {
		return nil
	}
	return &q.heads[0]
}

// push notes that a row is written.
func (q *queue) push(priority uint8, seq uint64) {
	i, found := slices.BinarySearchFunc(q.heads, priority, func(h head, p uint8) int { return int(h.priority) - int(p) })
	if !found {
		q.heads = slices.Insert(q.heads, i, head{priority, 0, seq})
	}
	h := &q.heads[i]
	h.n++
	h.seq = min(h.seq, seq)
}

// remove notes that a row is deleted.
func (q *queue) remove(priority uint8, seq uint64) {
	i, found := slices.BinarySearchFunc(q.heads, priority, func(h head, p uint8) int { return int(h.priority) - int(p) })
	if !found {
		panic(fmt.Sprintf("action: nothing of priority %d in %v", priority, q.heads))
	}
	h := &q.heads[i]
	if h.n--; h.n == 0 {
		q.heads = slices.Delete(q.heads, i, i+1)
	} else if h.seq == seq {
		h.seq++
	}
}

// pop notes that the first row is deleted, so that the next one comes after it. remove can detect
// that only for consecutive numbers.
func (q *queue) pop(priority uint8, seq uint64) {
	q.remove(priority, seq)
	if h := q.first(); h != nil && h.priority == priority {
		h.seq = max(h.seq, seq+1)
	}
}

func (q *queue) code(c *codec.Coder) {
	codec.List(c, &q.heads, func(c *codec.Coder, h *head) {
		c.Byte(&h.priority)
		c.Varint(&h.n)
		c.Uvarint(&h.seq)
	})
}

// code encodes the row: version u8 | all fields in order, times and counts as varints. Version 1,
// which is only read, contained all sets.
func (r *record) code(c *codec.Coder) {
	v := byte(2)
	if c.Byte(&v); v != 1 && v != 2 {
		c.Fail(fmt.Sprintf("action row of version %d", v))
	}
	c.Uvarint(&r.id)
	r.definition.code(c)
	for _, v := range [...]*int64{
		&r.pending, &r.running, &r.completed, &r.failed, &r.cancelled, &r.timedOut, &r.unconfirmed, &r.delayed, &r.kept, &r.took,
		&r.allowed,
	} {
		c.Varint(v)
	}
	c.Uvarint(&r.turn)
	c.Uvarint(&r.served)
	for _, v := range [...]*int64{&r.nextDelayed, &r.nextEnded, &r.nextKey, &r.timer} {
		c.Deadline(v)
	}
	c.Bool(&r.sweep)
	c.String(&r.sweepKey)
	c.Uvarint(&r.cancelFrom)
	if v == 1 {
		r.codeInline(c)
		return
	}
	n := len(r.sets)
	if c.Int(&n); n < 1 || n > maxSets {
		c.Fail(fmt.Sprintf("%d sets of labels", n))
		return
	}
	if c.Reading() {
		r.sets, r.mapped, r.nextExpiry = make([]labelSet, n), n == 1, never
	}
	r.sets[0].codeQueues(c)
	if c.More(n > 1 || !r.mapped || r.handover != 0 || r.nextExpiry != never) {
		c.Uvarint(&r.readySets)
		c.Uvarint(&r.usedSets)
		c.Bool(&r.mapped)
		c.Deadline(&r.handover)
		c.Deadline(&r.nextExpiry)
	}
}

// codeInline reads the sets of a version 1 row, and the fields after them.
func (r *record) codeInline(c *codec.Coder) {
	codec.List(c, &r.sets, func(c *codec.Coder, s *labelSet) {
		c.String(&s.labels)
		s.codeQueues(c)
		s.runs = -1
	})
	if len(r.sets) < 1 || len(r.sets) > maxSets {
		c.Fail(fmt.Sprintf("%d sets of labels", len(r.sets)))
	}
	r.inline, r.mapped, r.nextExpiry = true, len(r.sets) < 2, never
	if c.More(false) {
		c.Bool(&r.mapped)
		for i := range r.sets {
			c.Varint(&r.sets[i].runs)
		}
		c.Deadline(&r.handover)
		c.Deadline(&r.nextExpiry)
	}
}

// runRow is the value of a row 'i'.
type runRow struct {
	tag            uint16 // of its id, see runRef
	set            uint8
	priority       uint8
	createdAt      int64
	due            int64 // initial start time; createdAt without a delay
	timeout        int64 // ms
	maxAttempts    int64
	key            string // concurrency key, "" if none
	idempotencyKey string
	source         string
	notify         protocol.Notify
	input          []byte
	awaited        bool  // a caller waits for its end
	expires        int64 // time at which it fails if no worker has started it; 0: never
}

func (r *runRow) code(c *codec.Coder) {
	version(c, "run")
	c.Uint16(&r.tag)
	c.Byte(&r.set)
	c.Byte(&r.priority)
	for _, v := range [...]*int64{&r.createdAt, &r.due, &r.timeout, &r.maxAttempts} {
		c.Varint(v)
	}
	c.String(&r.key)
	c.String(&r.idempotencyKey)
	c.String(&r.source)
	r.notify.Code(c)
	c.Bytes(&r.input)
	if c.More(r.awaited || r.expires != 0) {
		c.Bool(&r.awaited)
		c.Varint(&r.expires)
	}
}

// tagOfRun decodes only the tag of a run's row.
func tagOfRun(b []byte) (uint16, error) {
	r := codec.NewReader(b)
	version, tag := r.Byte(), r.Uvarint()
	if r.Err() != nil || version != 1 || tag > math.MaxUint16 {
		return 0, cmp.Or(r.Err(), fmt.Errorf("run row of version %d with tag %d", version, tag))
	}
	return uint16(tag), nil
}

// isFinal decodes only whether a run has ended. A missing row means a fresh run.
func isFinal(state []byte) (bool, error) {
	if len(state) == 0 {
		return false, nil
	}
	r := codec.NewReader(state)
	_, status := r.Byte(), Status(r.Byte())
	return status.Final(), r.Err()
}

// stateRow is the value of a row 's'. It repeats the fields of row 'i' that are needed to end a
// run, because row 'i' may be large.
type stateRow struct {
	status      Status
	flags       uint8
	set         uint8
	priority    uint8
	key         string
	attempts    int64 // attempts that count, including the current one
	maxAttempts int64
	begun       int64  // starts, including attempts that do not count
	seq         uint64 // position in its lane: of a waiting run, and of one taken from there
	due         int64  // of a delayed run
	session     uint64 // of a running run, and of a cancelled one whose worker has not confirmed the cancellation
	startedAt   int64  // of the last attempt
	endedAt     int64
	outcome     string
	code        string // of the last error
	message     string
	worker      string
	output      []byte
}

// Flags of a stateRow.
const (
	flagNotify  = 1 << iota // its end is reported, see runRow
	flagHeld                // it has a row 'r'
	flagRefused             // the last attempt failed and ruled out another one
	flagAwaited             // a caller waits for its end, see runRow
	flagExpires             // it has a row 'h' while it waits and no attempt counts
	flagSuspect             // an attempt before the last one timed out or was lost, of a run with flagNotify
	allFlags    = 1<<iota - 1
)

func (s *stateRow) layout(c *codec.Coder) {
	version(c, "state of a run")
	c.Byte((*byte)(&s.status))
	c.Byte(&s.flags)
	c.Byte(&s.set)
	c.Byte(&s.priority)
	c.String(&s.key)
	c.Varint(&s.attempts)
	c.Varint(&s.maxAttempts)
	c.Uvarint(&s.seq)
	c.Varint(&s.due)
	c.Uvarint(&s.session)
	c.Varint(&s.startedAt)
	c.Varint(&s.endedAt)
	for _, v := range [...]*string{&s.outcome, &s.code, &s.message, &s.worker} {
		c.String(v)
	}
	c.Bytes(&s.output)
	codeBegun(c, &s.begun, s.attempts, c.More(s.begun != s.attempts))
	if s.status < Pending || s.status > TimedOut || s.flags > allFlags {
		c.Fail(fmt.Sprintf("status %d, flags %#x", s.status, s.flags))
	}
}

// held is the value of a row 'r'.
type held struct {
	deadline  int64
	cancelled bool // the worker must be notified and then confirms
}

func (h *held) code(c *codec.Coder) {
	c.Varint(&h.deadline)
	c.Bool(&h.cancelled)
}

// laneRow is the value of a row 'l'. A lane without runs and slots has no row.
type laneRow struct {
	number   uint64
	running  int64
	eligible bool // it has a row 'e', with the priority of its first run, and turn
	priority uint8
	turn     uint64
	queue    queue
}

func (l *laneRow) code(c *codec.Coder) {
	version(c, "lane")
	c.Uvarint(&l.number)
	c.Varint(&l.running)
	c.Bool(&l.eligible)
	c.Byte(&l.priority)
	c.Uvarint(&l.turn)
	l.queue.code(c)
}

// sessionRow is the value of a row 'o'.
type sessionRow struct {
	ns       uint32
	process  string // name chosen by the process
	self     bool   // its worker calls Await itself: process is its id, and it has no heartbeats
	held     int64
	timer    int64 // due time of its only timer: no attempt ends earlier
	openedAt int64
	groups   []group
}

// group defines which runs some workers of a process take.
type group struct {
	labels string // labels of the workers, encoded
	names  []string
}

func (g *group) code(c *codec.Coder) {
	c.String(&g.labels)
	codec.List(c, &g.names, func(c *codec.Coder, s *string) { c.String(s) })
}

func (s *sessionRow) code(c *codec.Coder) {
	version(c, "session")
	c.Uint32(&s.ns)
	c.String(&s.process)
	c.Bool(&s.self)
	c.Varint(&s.held)
	c.Deadline(&s.timer)
	c.Varint(&s.openedAt)
	codec.List(c, &s.groups, func(c *codec.Coder, g *group) { g.code(c) })
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

// numberKey is the key, or key prefix, of rows of a type that belong to an id or session.
func numberKey(dst []byte, kind byte, number uint64) []byte {
	return key.AppendUint64(append(keyRoom(dst), kind), number)
}

func runKey(dst []byte, kind byte, id, run uint64) []byte {
	return key.AppendUint64(numberKey(dst, kind, id), run)
}

// timeKey is the key, or key prefix, of a row at a time.
func timeKey(dst []byte, kind byte, id uint64, at int64) []byte {
	return key.AppendInt64(numberKey(dst, kind, id), at)
}

func timedRunKey(dst []byte, kind byte, id uint64, at int64, run uint64) []byte {
	return key.AppendUint64(timeKey(dst, kind, id, at), run)
}

func laneKey(dst []byte, id, lane uint64) []byte {
	return key.AppendUint64(numberKey(dst, rowWaiting, id), lane)
}

func waitingKey(dst []byte, id, lane uint64, priority uint8, seq uint64) []byte {
	return key.AppendUint64(append(laneKey(dst, id, lane), priority), seq)
}

func lanesKey(dst []byte, id uint64, set uint8, name string) []byte {
	return append(append(numberKey(dst, rowLane, id), set), name...)
}

func keySetsKey(dst []byte, id uint64, name string) []byte {
	return append(numberKey(dst, rowKeySets, id), name...)
}

func eligibleKey(dst []byte, id uint64, set, priority uint8, turn uint64) []byte {
	return key.AppendUint64(append(numberKey(dst, rowEligible, id), set, priority), turn)
}

func heldKey(dst []byte, session, id, run uint64) []byte {
	return key.AppendUint64(key.AppendUint64(numberKey(dst, rowHeld, session), id), run)
}

// runAt returns the run of a row 'w'.
func runAt(k, value []byte) uint64 {
	if len(value) == 0 {
		return lastOf(k)
	}
	run, _ := binary.Uvarint(value)
	return run
}

// lastOf decodes the number at the end of a key.
func lastOf(k []byte) uint64 { return binary.BigEndian.Uint64(k[len(k)-8:]) }

// numberOf decodes the number after the first one in a key.
func numberOf(k []byte) uint64 { return binary.BigEndian.Uint64(k[numberAt:]) }
