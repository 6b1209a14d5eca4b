package workflow

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/rawjson"
)

// live is a run while a command changes it.
type live struct {
	header
	*work
	run     uint64
	def     *flow.Definition
	events  []event
	changed bool

	starting bool // branches are being started

	input   []byte // as read from its row
	hasRead bool
}

// startRun starts a run.
func (w *work) startRun(name string, c *startBody) (res started, err error) {
	w.tx.Cause(startCause(w.tx.NamespaceName(), name))
	k := w.workflow(name)
	switch {
	case k == nil:
		return res, notFound(name)
	case !k.enabled && !c.taken:
		return res, engine.Errorf(ErrConflict, "workflow %q is disabled", name)
	}
	number := k.current
	if c.version != "" && c.version != flow.Latest {
		v, ok := k.version(c.version)
		if !ok {
			return res, engine.Errorf(ErrNotFound, "workflow %q has no version %q", name, c.version)
		}
		number = v.number
	}
	d := w.definition(k.id, number)
	if res, found, err := k.earlier(c, d); err != nil || found {
		return res, err
	}
	if d.Input != nil {
		if err := d.Input.Check(orNull(c.input)); err != nil {
			return res, engine.Errorf(ErrInvalid, "workflow %q: input: %v", name, err)
		}
	}
	l := k.newRun(c, d, number)
	if err := l.setAttributes(); err != nil {
		return res, err
	}
	l.insert(k, c)
	l.event(event{kind: WorkflowStarted, detail: l.source})
	l.goTo(0)
	l.advance()
	return started{runLocation: l.place(), id: l.id, status: l.state(), lsn: uint64(w.tx.LSN())}, nil
}

func orNull(b []byte) []byte {
	if len(b) == 0 {
		return []byte("null")
	}
	return b
}

// earlier returns the run of an earlier start with the same idempotency key or id.
func (k *openWorkflow) earlier(c *startBody, d *flow.Definition) (res started, found bool, err error) {
	switch {
	case d.Idempotency == flow.IdempotencyRequired && len(c.key) == 0 && c.id == "" && c.source == "":
		return res, false, engine.Errorf(ErrInvalid, "workflow %q: a start needs an idempotency key or a run id", k.name)
	case d.Idempotency == flow.IdempotencyNone && len(c.key) > 0 && c.source == "":
		return res, false, engine.Errorf(ErrInvalid, "workflow %q takes no idempotency keys", k.name)
	case len(c.key) > 0 && c.id != "" && k.tx.Spread():
		return res, false, engine.Errorf(ErrInvalid,
			"workflow %q: in a spread namespace a start has an idempotency key or a run id, not both", k.name)
	}
	if len(c.key) > 0 {
		k.buf = append(numberKey(k.buf[:0], rowKey, k.id), c.key...)
		if b, ok := k.tx.Get(k.buf); ok {
			row := must(decode(b, (*keyRow).code))
			if !row.isFor(c.input) {
				return res, false, engine.Errorf(ErrConflict, "workflow %q: idempotency key %.64q was used with another input", k.name,
					c.key)
			}
			h := k.headerOf(row.run)
			return started{
				runLocation: runLocation{k.tx.Shard(), row.run, row.tag, k.tx.NamespaceName()}, id: h.id, status: h.state(),
				duplicate: true, lsn: uint64(k.tx.LSN()),
			}, true, nil
		}
	}
	if c.id != "" {
		if _, ok := k.idRow(c.id); ok {
			return res, false, engine.Errorf(ErrExists, "run %q exists", c.id)
		}
	}
	return res, false, nil
}

// isFor reports whether the run was started with the given input. No input means null.
func (k *keyRow) isFor(input []byte) bool {
	if input = orNull(input); string(input) == "null" && k.hash == xxhash.Sum64(nil) {
		return true
	}
	return k.hash == xxhash.Sum64(input)
}

// headerOf returns the header of an existing run.
func (w *work) headerOf(run uint64) header {
	w.buf = partKey(w.buf[:0], run, partHeader)
	b, ok := w.tx.Get(w.buf)
	if !ok {
		panic(fmt.Sprintf("workflow: run %d has no row", run))
	}
	return must(decode(b, (*header).code))
}

// newRun returns a run that has not started.
func (k *openWorkflow) newRun(c *startBody, d *flow.Definition, number uint32) *live {
	now := k.tx.Now()
	l := &live{work: k.work, run: uint64(k.tx.LSN()), def: d, changed: true, input: orNull(c.input), hasRead: true}
	l.header = header{
		tag: k.tx.Tag(), of: k.id, number: number, id: c.id, source: c.source, idempotencyKey: string(c.key), parent: c.parent,
		depth:  c.depth,
		notify: c.notify, startedAt: now, deadline: never, timer: never, status: Pending, due: never, call: noCall(),
	}
	l.fan.next = never
	if d.Timeout > 0 {
		l.deadline = now + d.Timeout
	}
	return l
}

// insert writes the immutable rows of a run, and counts it.
func (l *live) insert(k *openWorkflow, c *startBody) {
	tx := l.tx
	l.runs = append(l.runs, l)
	tx.Insert(partKey(nil, l.run, partInput), l.input)
	tx.Insert(ofKey(nil, k.id, l.run), nil)
	tx.Insert(inKey(nil, tx.Namespace(), l.run), nil)
	tx.Insert(statusRunKey(nil, tx.Namespace(), 0, l.run), nil)
	if l.id != "" {
		tx.Insert(namedKey(nil, rowID, tx.Namespace(), l.id), binary.AppendUvarint(nil, l.run))
	}
	if len(c.key) > 0 {
		row := keyRow{l.run, l.tag, xxhash.Sum64(c.input)}
		tx.Insert(append(numberKey(nil, rowKey, k.id), c.key...), encode(nil, &row, (*keyRow).code))
	}
	k.active++
	k.changed = true
	tx.Count(countActive, 1)
	tx.Count(countStarted, 1)
}

// live returns a run of the namespace, nil if it does not exist. It does due work first, as the
// run's timer would.
func (w *work) live(run uint64) *live {
	for _, l := range w.runs {
		if l.run == run {
			return l
		}
	}
	w.buf = partKey(w.buf[:0], run, partHeader)
	b, ok := w.tx.Get(w.buf)
	if !ok {
		return nil
	}
	l := &live{header: must(decode(b, (*header).code)), work: w, run: run}
	k := w.byID(l.of)
	if k == nil {
		return nil // it belongs to another namespace
	}
	if l.status.Final() {
		if _, kept := w.tx.Get(partKey(nil, run, partHeader)); !kept {
			return nil // it has just been removed
		}
	}
	l.def = w.definition(l.of, l.number)
	w.runs = append(w.runs, l)
	if l.timer <= w.tx.Now() {
		l.catchUp()
	}
	return l
}

// find returns the run of a command. Errors: ErrNotFound.
func (w *work) find(n number) (*live, error) {
	run := n.run
	if w.subject != "" {
		of, ok := w.idRow(w.subject)
		if !ok {
			return nil, noRun(RunID(w.subject))
		}
		run = of
	}
	l := w.live(run)
	if l == nil || w.subject == "" && l.tag != n.tag {
		return nil, noRun(runLocation{w.tx.Shard(), run, n.tag, w.tx.NamespaceName()}.id())
	}
	return l, nil
}

// place returns the content of the run's id.
func (l *live) place() runLocation {
	return runLocation{l.tx.Shard(), l.run, l.tag, l.tx.NamespaceName()}
}

// name returns the id of the run.
func (l *live) name() RunID {
	if l.id != "" {
		return RunID(l.id)
	}
	return l.place().id()
}

// event adds an event to the run's history.
func (l *live) event(e event) {
	e.detail = engine.Cut(e.detail, maxDetail)
	l.events = append(l.events, e)
	l.changed = true
}

// maxDetail limits the text of an event, in bytes.
const maxDetail = 1024

// state returns the run's status.
func (h *header) state() Status {
	if h.status.Final() {
		return h.status
	}
	switch h.wait {
	case waitSignal, waitSleep:
		return Waiting
	case waitCall:
		if h.call.phase != phaseCalled && h.ending.status == 0 {
			return Waiting
		}
	case waitTurn:
		if h.visit == 0 {
			return Pending
		}
	}
	return Running
}

// save writes the run and its new events, and sets its timer.
func (l *live) save() {
	if !l.changed {
		return
	}
	l.changed = false
	if l.status = l.state(); !l.status.Final() {
		l.schedule(l.nextDue())
	} else {
		l.unschedule()
	}
	if len(l.events) > 0 {
		l.header.events += int64(len(l.events))
		row := eventRow{l.tx.Now(), l.events}
		l.row = encode(l.row[:0], &row, (*eventRow).code)
		l.buf = numberedPart(l.buf[:0], l.run, partEvents, uint64(l.tx.LSN()))
		l.tx.Set(l.buf, l.row)
		l.events = l.events[:0]
	}
	l.buf = partKey(l.buf[:0], l.run, partHeader)
	l.row = encode(l.row[:0], &l.header, (*header).code)
	l.tx.Set(l.buf, l.row)
}

// nextDue returns when the next work is due.
func (l *live) nextDue() int64 {
	next := min(l.due, l.fan.next)
	if l.ending.status == 0 {
		next = min(next, l.deadline)
	}
	switch l.wait {
	case waitCall, waitUndo:
		next = min(next, l.call.due)
	}
	return next
}

// schedule sets the run's timer to fire at a time or earlier.
func (l *live) schedule(at int64) { l.tx.Advance(&l.timer, at, tokenRun, l.run) }

func (l *live) unschedule() { l.tx.Halt(&l.timer, tokenRun, l.run) }

// catchUp does due work.
func (l *live) catchUp() {
	now := l.tx.Now()
	l.changed = true
	l.unschedule()
	if l.status.Final() {
		return
	}
	if l.deadline <= now && l.ending.status == 0 {
		l.timeOut()
	} else {
		l.dueWait(now)
	}
	l.advance()
}

// dueWait ends a wait that is due.
func (l *live) dueWait(now int64) {
	switch l.wait {
	case waitCall, waitUndo:
		if l.call.due <= now {
			s := l.slot()
			s.due()
		}
	case waitSignal:
		if l.due <= now {
			l.signalTimeout()
		}
	case waitSleep:
		if l.due <= now {
			l.event(event{kind: TimerFired, step: l.stepName()})
			l.tx.Count(countTimers, 1)
			l.finishStep(result{outcome: OutcomeSuccess})
		}
	case waitParallel:
		l.dueBranches(now)
	case waitChildren:
		if l.due <= now {
			l.beginUndo()
		}
	case waitHandler:
		if l.due <= now {
			l.wait = waitTurn
		}
	}
}

// Root resolves paths, see flow.Source.
func (l *live) Root(r flow.Root, name string) []byte {
	switch r {
	case flow.RootInput:
		return l.inputJSON()
	case flow.RootOutput:
		if u := l.ownUndo(name); u != nil {
			return u.output
		}
		if s, ok := l.stepRow(name); ok {
			return s.output
		}
	case flow.RootOutcome:
		if u := l.ownUndo(name); u != nil && u.outcome != "" {
			return rawjson.AppendText(nil, u.outcome)
		}
		if s, ok := l.stepRow(name); ok {
			return rawjson.AppendText(nil, s.outcome)
		}
	case flow.RootSignal:
		b, _ := l.tx.Get(append(partKey(nil, l.run, partTaken), name...))
		return b
	case flow.RootRunID:
		return rawjson.AppendText(nil, string(l.name()))
	case flow.RootTimestamp:
		return strconv.AppendInt(nil, l.tx.Now(), 10)
	}
	return nil
}

// ownUndo returns the visit being compensated if it is a visit to the step, because paths in its
// compensation refer to that visit.
func (l *live) ownUndo(step string) *undoRow {
	if l.wait != waitUndo {
		return nil
	}
	u, ok := l.undoRow()
	if !ok || l.def.Steps[u.step].Name != step {
		return nil
	}
	return &u
}

func (l *live) inputJSON() []byte {
	if !l.hasRead {
		l.input, _ = l.tx.Get(partKey(nil, l.run, partInput))
		l.hasRead = true
	}
	return l.input
}

// stepRow returns the last ended visit to a step.
func (l *live) stepRow(name string) (s stepRow, ok bool) {
	b, ok := l.tx.Get(append(partKey(nil, l.run, partStep), name...))
	if !ok {
		return s, false
	}
	return must(decode(b, (*stepRow).layout)), true
}

// at returns the run's current step.
func (l *live) at() *flow.Step { return &l.def.Steps[l.step] }

func (l *live) stepName() string { return l.at().Name }

// result is the result of commands about a run.
func (l *live) result() changed { return changed{l.state(), uint64(l.tx.LSN())} }

// tellEnd reports the end of the run to its starter: a parent, a schedule or a trigger. A parent
// gets two reports if handlers are still running: one at the end of the run, one when they have
// returned. suspect means that the run was cut off and may have left effects that are not
// compensated.
func (l *live) tellEnd(output []byte, suspect bool) {
	n := l.notify
	if n.Machine == 0 {
		return
	}
	e := protocol.End{
		Token: n.Token, Status: uint8(l.status), Code: l.failure.code, Message: l.failure.message, Output: output, Held: len(l.busy) > 0,
		Suspect: suspect,
	}
	l.tx.Then(engine.Command{Machine: n.Machine, Kind: n.Command, Body: encode(nil, &e, (*protocol.End).Encode)})
}
