package workflow

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/rawjson"
)

// maxStarts limits how many branches a command starts or cancels. The run's timer does the rest.
const maxStarts = 64

// fanState is the state of a parallel step.
type fanState struct {
	total     int64
	started   int64
	running   int64
	succeeded int64
	failed    int64
	next      int64  // no branch has due work before this time
	stopping  bool   // active branches are being cancelled
	scan      int64  // branches before it were cancelled
	until     int64  // until when the step waits for children to end
	first     string // first failure
	code      string
	touched   bool // a branch may have had an effect; coded after the rest of the run's row
}

func noFan() fanState { return fanState{next: never, until: never} }

func (f *fanState) layout(c *codec.Coder) {
	if c.Varint(&f.total); f.total == 0 {
		f.next, f.until = never, never
		return
	}
	for _, v := range [...]*int64{&f.started, &f.running, &f.succeeded, &f.failed, &f.scan} {
		c.Varint(v)
	}
	c.Deadline(&f.next)
	c.Deadline(&f.until)
	c.Bool(&f.stopping)
	c.String(&f.first)
	c.String(&f.code)
}

// branchState is the state of a branch.
type branchState uint8

const (
	branchRunning branchState = iota + 1
	branchEnded
	branchCancelled
)

// branchRow is the value of a row 'x' of a run.
type branchRow struct {
	state  branchState
	call   callState
	item   []byte // of each
	bad    bool
	output []byte
}

func (b *branchRow) layout(c *codec.Coder) {
	c.Byte((*byte)(&b.state))
	b.call.code(c)
	c.Bytes(&b.item)
	c.Bool(&b.bad)
	c.Bytes(&b.output)
	if c.More(b.call.ambiguous) {
		c.Bool(&b.call.ambiguous)
	}
	if b.state < branchRunning || b.state > branchCancelled {
		c.Fail(fmt.Sprintf("branch in state %d", b.state))
	}
}

// itemsRow is the value of a row 'n' of a run.
type itemsRow struct{ items [][]byte }

func (r *itemsRow) code(c *codec.Coder) {
	codec.List(c, &r.items, (*codec.Coder).Bytes)
}

// branch is a branch while a command changes it.
type branch struct {
	branchRow
	index uint32
	was   int64 // when it was due
}

// branchSource resolves paths in a branch.
type branchSource struct {
	*live
	branch *branch
}

// Root implements flow.Source.
func (s *branchSource) Root(r flow.Root, name string) []byte {
	switch r {
	case flow.RootItem:
		return s.branch.item
	case flow.RootIndex:
		return strconv.AppendUint(nil, uint64(s.branch.index), 10)
	}
	return s.live.Root(r, name)
}

// beginParallel starts the branches of a step.
func (l *live) beginParallel(p *flow.Parallel) {
	total := len(p.Branches)
	if p.Each != nil {
		items, err := elements(p.Each.Append(nil, l))
		if err != nil {
			l.finishStep(result{outcome: OutcomeFailure, code: "bad_items", message: err.Error(), refused: true})
			return
		}
		l.keepItems(items)
		total = len(items)
	}
	l.wait, l.fan = waitParallel, noFan()
	if l.fan.total = int64(total); total == 0 {
		l.join(p)
		return
	}
	l.startBranches(p)
}

// elements returns the elements of an array, one for each branch.
func elements(array []byte) (items [][]byte, err error) {
	ok := rawjson.Elements(array, func(e []byte) bool {
		items = append(items, e)
		return len(items) <= flow.MaxItems
	})
	switch {
	case len(items) > flow.MaxItems:
		return nil, fmt.Errorf("each: the array has more than %d elements", flow.MaxItems)
	case !ok:
		return nil, engine.Errorf(ErrInvalid, "each: %.64q is no array", array)
	}
	return items, nil
}

// keepItems writes the elements of a parallel step's array. A row has as many elements as a command
// starts branches, so that reading an element does not read the whole array.
func (l *live) keepItems(items [][]byte) {
	for i := 0; i < len(items); i += maxStarts {
		row := itemsRow{items[i:min(i+maxStarts, len(items))]}
		l.tx.Set(itemsKey(nil, l.run, uint32(i/maxStarts)), encode(nil, &row, (*itemsRow).code))
	}
}

// item returns an element of the array. row is the row that was read last.
func (l *live) item(row *itemsRow, i int64) []byte {
	if row.items == nil || i%maxStarts == 0 {
		b, ok := l.tx.Get(itemsKey(nil, l.run, uint32(i/maxStarts)))
		if !ok {
			panic(fmt.Sprintf("workflow: run %d has no item %d", l.run, i))
		}
		*row = must(decode(b, (*itemsRow).code))
	}
	return row.items[i%maxStarts]
}

// startBranches starts branches up to the concurrency limit and the limit of a command.
func (l *live) startBranches(p *flow.Parallel) {
	f := &l.fan
	l.starting = true
	defer func() { l.starting = false }()
	visit := l.visit
	var items itemsRow
	for n := 0; l.wait == waitParallel && l.visit == visit && !f.stopping && f.started < f.total &&
		(p.Most == 0 || f.running < p.Most); n++ {
		if n == maxStarts || l.crowded() {
			l.due = l.tx.Now()
			return
		}
		b := &branch{branchRow: branchRow{state: branchRunning, call: noCall()}, index: uint32(f.started), was: never}
		if p.Each != nil {
			b.item = l.item(&items, f.started)
		}
		f.started++
		f.running++
		s := l.slotIn(b)
		s.begin()
		s.saveBranch()
	}
}

// slotIn returns the call of a branch.
func (l *live) slotIn(b *branch) *slot {
	p := &l.at().Parallel
	c := &p.Body
	if p.Each == nil {
		c = &p.Branches[b.index].Call
	}
	return &slot{live: l, number: slotBranch + uint64(b.index), call: c, state: &b.call, branch: b}
}

// branchSlot returns the branch's call of a token, nil if the call is over.
func (l *live) branchSlot(t *token) *slot {
	b := l.branchAt(uint32(t.slot - slotBranch))
	if b == nil || b.state != branchRunning || b.call.seq != t.seq {
		return nil
	}
	return l.slotIn(b)
}

// branchAt returns a branch of the run's current parallel step, nil if it does not exist.
func (l *live) branchAt(index uint32) *branch {
	if l.wait != waitParallel {
		return nil
	}
	v, ok := l.tx.Get(branchKey(nil, l.run, index))
	if !ok {
		return nil
	}
	b := &branch{branchRow: must(decode(v, (*branchRow).layout)), index: index}
	b.was = b.call.due
	return b
}

// saveBranch writes the branch of the call, if it has one and its step has not ended.
func (s *slot) saveBranch() {
	b := s.branch
	if b == nil || s.live.wait != waitParallel {
		return
	}
	due := b.call.due
	if b.state != branchRunning {
		due = never
	}
	if due != b.was {
		if b.was != never {
			s.live.tx.Delete(branchTimeKey(nil, s.live.run, b.was, b.index))
		}
		if due != never {
			s.live.tx.Insert(branchTimeKey(nil, s.live.run, due, b.index), nil)
			s.live.fan.next = min(s.live.fan.next, due)
		}
		b.was = due
	}
	s.live.tx.Set(branchKey(nil, s.live.run, b.index), encode(nil, &b.branchRow, (*branchRow).layout))
	s.live.changed = true
}

// branchDone ends a branch.
func (s *slot) branchDone(r result) {
	b, f, p := s.branch, &s.live.fan, &s.live.at().Parallel
	b.state, b.bad, b.output, b.item = branchEnded, r.bad(), r.output, nil
	f.running--
	if len(b.output) > MaxOutput {
		r.outcome, r.code, r.message = OutcomeOutputTooLarge, OutcomeOutputTooLarge, fmt.Sprintf("output of %d bytes exceeds %d",
			len(b.output), MaxOutput)
		b.output, b.bad, r.ambiguous = nil, true, true
	}
	f.touched = f.touched || !b.bad || r.ambiguous
	if b.bad {
		if f.failed++; f.failed == 1 {
			f.first = engine.Cut(engine.Text("branch %s: outcome %q at attempt %d: %s", s.live.branchName(b), r.outcome, r.attempt,
				r.message), maxFailure)
			f.code = r.code
		}
	} else {
		f.succeeded++
	}
	s.saveBranch()
	s.live.settleFan(p)
}

// settleFan ends the parallel step if its result is decided, or starts further branches.
func (l *live) settleFan(p *flow.Parallel) {
	f := &l.fan
	need := f.total
	if p.Any > 0 {
		need = min(p.Any, f.total)
	}
	switch {
	case f.stopping:
		if f.running == 0 {
			l.fanStopped()
		}
	case f.succeeded >= need || f.total-f.failed < need:
		l.stopFan()
	case !l.starting:
		l.startBranches(p)
	}
}

// stopFan cancels the active branches, and then ends the step.
func (l *live) stopFan() {
	f := &l.fan
	f.stopping, f.scan, f.until = true, 0, l.tx.Now()+patience
	l.changed = true
	l.stopSome()
}

// stopSome cancels some of the active branches.
func (l *live) stopSome() {
	f := &l.fan
	for n := 0; f.scan < f.started && f.running > 0; f.scan++ {
		b := l.branchAt(uint32(f.scan))
		if b == nil || b.state != branchRunning {
			continue
		}
		if n == maxStarts || l.crowded() {
			l.due = l.tx.Now()
			return
		}
		n++
		s := l.slotIn(b)
		f.touched = f.touched || s.open()
		if !s.cancel("its parallel step is over") {
			b.state, b.item = branchCancelled, nil
			f.running--
		}
		s.saveBranch()
	}
	if f.running == 0 {
		l.fanStopped()
		return
	}
	l.due = f.until
}

// stopped ends a branch whose cancelled child has ended.
func (s *slot) stopped(e *protocol.End) {
	if Status(e.Status) == Completed {
		s.branch.output = asJSON(e.Output)
	}
	s.branch.state, s.branch.item = branchCancelled, nil
	s.branch.call = noCall()
	s.live.fan.running--
	s.saveBranch()
	if s.live.fan.running == 0 {
		s.live.fanStopped()
	}
}

// fanStopped continues when no branch is active.
func (l *live) fanStopped() {
	l.due = never
	if l.ending.status != 0 {
		p := &l.at().Parallel
		if l.at().Compensate != nil && l.fan.touched {
			l.addUndo(&result{outcome: l.ending.status.String(), partial: l.partial(p)})
		}
		l.dropBranches()
		l.beginUndo()
		return
	}
	l.join(&l.at().Parallel)
}

// dueBranches does the due work of a parallel step.
func (l *live) dueBranches(now int64) {
	f := &l.fan
	if l.due <= now {
		switch l.due = never; {
		case f.stopping && now >= f.until:
			f.running = 0 // stop waiting for children that do not end
			l.fanStopped()
			return
		case f.stopping:
			l.stopSome()
		default:
			l.startBranches(&l.at().Parallel)
		}
	}
	visit := l.visit
	prefix := partKey(nil, l.run, partBranchTime)
	for n := 0; l.wait == waitParallel && l.visit == visit && l.fan.next <= now; n++ {
		row, _, ok := l.tx.First(key.AppendInt64(slices.Clone(prefix), l.fan.next), key.PrefixEnd(prefix))
		if !ok {
			l.fan.next = never
			return
		}
		at := key.Int64(row[len(prefix):])
		if l.fan.next = at; at > now {
			return
		}
		if n == maxStarts || l.crowded() {
			return // the timer is due at once
		}
		b := l.branchAt(indexOf(row))
		s := l.slotIn(b)
		s.due()
		s.saveBranch()
	}
}

// indexOf decodes the index of a branch at the end of a key.
func indexOf(k []byte) uint32 {
	k = k[len(k)-4:]
	return uint32(k[0])<<24 | uint32(k[1])<<16 | uint32(k[2])<<8 | uint32(k[3])
}

// join ends a parallel step, whose output has the outputs of its branches, in order.
func (l *live) join(p *flow.Parallel) {
	f := l.fan
	need := f.total
	if p.Any > 0 {
		need = min(p.Any, f.total)
	}
	r := result{outcome: OutcomeSuccess}
	if f.succeeded < need {
		r = result{outcome: OutcomeFailure, code: f.code, message: f.first}
		if p.Any > 0 {
			r.message = fmt.Sprintf("%d of %d branches have failed, %d have to succeed; %s", f.failed, f.total, need, f.first)
		}
		if l.at().Compensate != nil && f.touched {
			r.ambiguous, r.partial = true, l.partial(p)
		}
	} else {
		r.output = l.outputs(p)
	}
	l.dropBranches()
	l.finishStep(r)
}

// dropBranches removes the rows of branches.
func (l *live) dropBranches() {
	if l.fan.total > 0 {
		for _, part := range [...]byte{partBranch, partBranchTime, partItems} {
			prefix := partKey(nil, l.run, part)
			l.tx.DeleteRange(prefix, key.PrefixEnd(prefix))
		}
	}
	l.fan = noFan()
}

// outputs returns the outputs of all branches, in order: an array for each, or an object for named
// branches. It stops when the output is too large.
func (l *live) outputs(p *flow.Parallel) []byte {
	open, end := byte('['), byte(']')
	if p.Each == nil {
		open, end = '{', '}'
	}
	b := []byte{open}
	for i := range l.fan.total {
		if i > 0 {
			b = append(b, ',')
		}
		if p.Each == nil {
			b = append(rawjson.AppendText(b, p.Branches[i].Name), ':')
		}
		out := []byte(nil)
		if row := l.branchAt(uint32(i)); row != nil && !row.bad {
			out = row.output
		}
		if b = append(b, orNull(out)...); len(b) > MaxOutput {
			break
		}
	}
	return append(b, end)
}

// partial returns the outputs of the successful branches, null if they are too large in total.
func (l *live) partial(p *flow.Parallel) []byte {
	if b := l.outputs(p); len(b) <= MaxOutput {
		return b
	}
	return []byte("null")
}

// branchName returns the name of a branch.
func (l *live) branchName(b *branch) string {
	if p := &l.at().Parallel; p.Each == nil {
		return p.Branches[b.index].Name
	}
	return strconv.Itoa(int(b.index))
}
