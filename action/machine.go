package action

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/call"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/workers"
)

// Timer tokens.
const (
	tokenAction  = 'a' // followed by the id (u64)
	tokenSession = 's' // followed by the session (u64)
)

// machine is the state machine of the actions of one shard. It remembers nothing of its rows.
type machine struct {
	roster workers.Roster
	calls  engine.Calls[*work] // this and the next one are of the applying goroutine
	work   *work

	mu     sync.Mutex       // guards what follows, which is of the shard's leader, for its duty alone
	pulses map[uint64]int64 // when each session was last heard of, ms by engine.View.Mono
	term   uint64           // in which the duty was begun last
	lease  int64            // ms for which a process may be silent; 0: leaseMillis
	next   int64            // when the duty means to look at the sessions, or has looked last, as pulses; 0: it is not known
}

// work is what one command, timer or reply is about: the actions and sessions that it has read, and maybe changed.
type work struct {
	m        *machine
	tx       *engine.Tx
	name     string // of the action that the command names, "" if it names none
	actions  []*act
	byName   map[string]*act // the same by name: those that were buried are replaced
	byNumber map[uint64]*act
	sessions []*session
	told     bool   // somebody is told the end of a run
	waiting  int64  // takes that wait for the same as the one that is carried out
	buf      []byte // of keys
	row      []byte // of values
}

// act is an action while a command changes it.
type act struct {
	record
	*work
	name    string
	deleted bool // it is a grave
	changed bool
	dropped bool    // its rows are gone
	woken   []int64 // by set: runs that can be begun now
	ended   int     // runs that the command has ended
	share   int64   // how many more of its runs this command may take
	shared  bool    // share is known
	match   []match // by what workers have: which sets they may take
	moves   int     // counts changes of what is next

	read, touched        uint64 // sets of labels that have been read, and that have changed, as bits
	labelled, relabelled bool   // their labels have been read, and have changed
}

// session is a process that takes runs while a command changes it.
type session struct {
	sessionRow
	id      uint64
	changed bool
	dropped bool
}

// fewActions is how many actions the maps of a work have room for from one command to the next.
const fewActions = 32

func (m *machine) start(tx *engine.Tx) *work {
	w := m.work
	if w == nil {
		w = &work{m: m}
		m.work = w
	}
	if len(w.actions) > fewActions {
		w.byName, w.byNumber = nil, nil // to clear large ones again and again would take longer
	}
	clear(w.byName)
	clear(w.byNumber)
	clear(w.actions)
	clear(w.sessions)
	w.tx, w.actions, w.sessions, w.told = tx, w.actions[:0], w.sessions[:0], false
	return w
}

// Leave forgets the workers of which the namespace had nothing but their runs.
func (m *machine) Leave(tx *engine.Tx) (found bool) { return m.roster.Clear(tx) }

// Restore has nothing to read: actions are read when they are used.
func (m *machine) Restore(*engine.View) error { return nil }

// Apply carries out a command.
func (m *machine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	switch cmd.Kind {
	case kindJoin, kindLeave, kindNote:
		return m.roster.Apply(tx, cmd)
	}
	call, err := m.calls.Read(cmd)
	if err != nil {
		return nil, err
	}
	w := m.start(tx)
	w.name = string(call.Subject())
	if call.Subject() != nil { // an empty name is not nil, only none
		if err := checkAction(w.name); err != nil {
			return nil, err
		}
	}
	result, err := call.Apply(w)
	if err != nil {
		return nil, err
	}
	w.save()
	return result, nil
}

// OnTimer does what is due.
func (m *machine) OnTimer(tx *engine.Tx, token []byte) {
	w := m.start(tx)
	number := binary.BigEndian.Uint64(token[1:])
	switch token[0] {
	case tokenAction:
		w.byID(number) // which does what is due
	case tokenSession:
		if s := w.session(number); s != nil {
			w.timeOut(s)
		}
	default:
		panic(fmt.Sprintf("action: unknown timer token %q", token))
	}
	w.save()
}

// OnReply hears what became of what the home of an action told other shards: they can not refuse it.
func (m *machine) OnReply(_ *engine.Tx, r engine.Reply) {
	if r.Err != nil {
		panic(fmt.Sprintf("action: another shard refused: %v", r.Err))
	}
}

// action returns an action, nil if there is none.
func (w *work) action(name string) *act {
	if a := w.byName[name]; a != nil && !a.deleted && !a.dropped {
		return a
	}
	w.buf = namedKey(w.buf[:0], rowAction, w.tx.Namespace(), name)
	b, ok := w.tx.Get(w.buf)
	if !ok {
		return nil
	}
	return w.opened(&act{record: must(decode(b, (*record).code)), work: w, name: name})
}

// byID returns the action that is known by a number, also one that is deleted; nil if there is none.
func (w *work) byID(id uint64) *act {
	if a := w.byNumber[id]; a != nil && !a.dropped {
		return a
	}
	w.buf = numberKey(w.buf[:0], rowName, id)
	b, ok := w.tx.Get(w.buf)
	if !ok {
		return nil
	}
	n := must(decode(b, (*nameRow).code))
	switch {
	case n.ns != w.tx.Namespace():
		return nil
	case !n.deleted:
		return w.action(n.name)
	}
	w.buf = numberKey(w.buf[:0], rowGrave, id)
	b, ok = w.tx.Get(w.buf)
	if !ok {
		panic(fmt.Sprintf("action: deleted action %d has no row", id))
	}
	return w.opened(&act{record: must(decode(b, (*record).code)), work: w, name: n.name, deleted: true})
}

// opened is told of an action that has been read. What is due happens first, as its timer would have done it.
func (w *work) opened(a *act) *act {
	if a.read = 1; a.inline {
		a.read, a.touched, a.labelled, a.relabelled, a.inline = ^uint64(0), ^uint64(0), true, true, false
	}
	w.add(a)
	if a.timer <= w.tx.Now() {
		a.catchUp()
		w.tx.Step() // runs that were due have numbers in their lanes: one that the command makes gets another
	}
	return a
}

// add adds an action to those that the command is about.
func (w *work) add(a *act) {
	if w.byName == nil {
		w.byName, w.byNumber = make(map[string]*act), make(map[uint64]*act)
	}
	w.actions = append(w.actions, a)
	if w.byNumber[a.id] = a; !a.deleted {
		w.byName[a.name] = a
	}
}

// save writes what has changed, and wakes who can have what is to be had.
func (w *work) save() {
	for _, s := range w.sessions {
		if s.changed && !s.dropped {
			w.buf = numberKey(w.buf[:0], rowSession, s.id)
			w.row = encode(w.row[:0], &s.sessionRow, (*sessionRow).code)
			w.tx.Set(w.buf, w.row)
		}
	}
	for _, a := range w.actions {
		if a.changed && !a.dropped {
			a.save()
		}
	}
}

func (a *act) save() {
	if a.deleted && a.pending+a.running+a.unconfirmed == 0 {
		a.drop()
		return
	}
	if a.ended > 0 {
		if slack := int(a.slack()); a.kept > a.retainRuns+int64(slack) && a.handover <= a.tx.Now() {
			a.forgetEnded(slack + a.ended + 1) // one more than have come: there may be too many since the number was lowered
		}
		a.schedule(a.nextDue())
	}
	a.buf = namedKey(a.buf[:0], rowAction, a.tx.Namespace(), a.name)
	if a.deleted {
		a.buf = numberKey(a.buf[:0], rowGrave, a.id)
	}
	a.saveSets()
	a.row = encode(a.row[:0], &a.record, (*record).code)
	a.tx.Set(a.buf, a.row)
	for i, n := range a.woken {
		if n > 0 && !a.deleted && i < len(a.sets) {
			a.tx.Notify(setTopic(a.tx.NamespaceName(), a.name, a.labelsOf(uint8(i))), int(min(n, maxTaken)))
		}
	}
}

// wake notes that n runs with a set of labels can be begun.
func (a *act) wake(set uint8, n int64) {
	for len(a.woken) <= int(set) {
		a.woken = append(a.woken, 0)
	}
	a.woken[set] += n
}

// schedule makes the action's timer go off at a time, or before.
func (a *act) schedule(at int64) {
	if at >= a.timer {
		return
	}
	a.changed = true
	token := key.AppendUint64([]byte{tokenAction}, a.id)
	if a.timer != never {
		a.tx.Unschedule(a.timer, token)
	}
	a.tx.ScheduleNew(at, token)
	a.timer = at
}

// unschedule removes the action's timer.
func (a *act) unschedule() {
	if a.timer != never {
		a.tx.Unschedule(a.timer, key.AppendUint64([]byte{tokenAction}, a.id))
		a.timer = never
	}
}

// setTopic is what waits for runs of an action that ask for a set of labels.
func setTopic(namespace, name, labels string) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, []byte("s"+name+"\x00"+labels))
}

// setsTopic is what waits for an action to have another set of labels.
func setsTopic(namespace, name string) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, []byte("l"+name))
}

// endCause is the cause of what comes of the ends of an action's runs.
func endCause(namespace string, id uint64) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, key.AppendUint64([]byte{'e'}, id))
}

// runTopic is what waits for the end of a run.
func runTopic(namespace string, ref call.Ref) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, runKey([]byte{'r'}, 0, ref.Action, ref.Run))
}

// sessionTopic is what waits for news of what a session has.
func sessionTopic(namespace string, session uint64) engine.Topic {
	return engine.TopicOf(engine.MachineAction, namespace, key.AppendUint64([]byte{'o'}, session))
}

// tagOf tells runs apart to which the same numbers are given, one after the other, because the end of the log was lost in between.
func tagOf(tx *engine.Tx) uint16 {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(tx.Now()))
	binary.BigEndian.PutUint64(b[8:], tx.Term())
	return uint16(xxhash.Sum64(b[:]))
}

// must returns the value of a row that only the machine itself can have written.
func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("action: %v", err))
	}
	return v
}

func mustClose(it *engine.Iter) {
	if err := it.Close(); err != nil {
		panic(err)
	}
}
